"""File scan tasks, made when they are looked at: a plan of 100k files holds Arrow columns, not objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.codec.manifest import entries_from_table
from frazil.spec.data_file import DataFile, ManifestEntry
from frazil.spec.partitioning import PartitionSpec

WHOLLY = 1  # the outcome mask "TRUE only": every row of the file matches
NUMBER = "_number"  # column of planned files: their number in the snapshot (scan.listing.numbering)
DELETES = "_deletes"  # column of planned files: their number in the index of deletes, -1 where none applies
_BLOCK = 2048


class DeletesByFile(Protocol):
    """The delete files of data files by their number (scan.deletes.DeleteIndex)."""

    @property
    def counts(self) -> npt.NDArray[np.int64]: ...

    @property
    def sizes(self) -> npt.NDArray[np.int64]: ...

    def of(self, row: int) -> tuple[DataFile, ...]: ...


class PlannedFiles:
    """Files of one partition spec: `table` has a row a file, the entry columns that were needed and `_match`, the outcome mask (uint8).

    Bits of `_match`: what the filter can be for rows of the file, 1 TRUE, 2 FALSE, 4 NULL; exactly 1: all rows match. When the snapshot has
    deletes, column `_deletes` holds each file's number in `deletes`, -1 where none applies; a table that has the column needs `deletes`.
    """

    __slots__ = ("_block", "_numbers", "deletes", "spec", "table")

    def __init__(self, spec: PartitionSpec, table: pa.Table, deletes: DeletesByFile | None = None):
        if deletes is None and DELETES in table.column_names:
            raise ValueError("Planned files with deletes came without these.")  # or deleted rows would be shown
        self.spec, self.table, self.deletes = spec, table, deletes
        self._block: tuple[int, list[ManifestEntry], list[int]] | None = None
        self._numbers: npt.NDArray[np.int64] | None = None

    @property
    def spec_id(self) -> int:
        return self.spec.spec_id

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def entry(self, index: int) -> tuple[ManifestEntry, int]:
        """(entry, outcome mask); entries are made in blocks, of which the last is kept."""
        number = index // _BLOCK
        block = self._block
        if block is None or block[0] != number:
            rows = self.table.slice(number * _BLOCK, _BLOCK)
            own = rows.select([c for c in rows.column_names if c not in ("_match", DELETES, NUMBER)])
            block = (number, entries_from_table(own, self.spec), rows.column("_match").to_pylist())
            self._block = block
        place = index - number * _BLOCK
        return block[1][place], block[2][place]

    def number(self, index: int) -> int | None:
        """The file's number in its snapshot; None when the plan was not asked for numbers."""
        return int(self.table.column(NUMBER)[index].as_py()) if NUMBER in self.table.column_names else None

    @property
    def delete_numbers(self) -> npt.NDArray[np.int64]:
        """Each file's number in the index of deletes, -1: none applies."""
        if self._numbers is None:
            known = DELETES in self.table.column_names
            self._numbers = self.table.column(DELETES).to_numpy() if known else np.full(len(self), -1, np.int64)
        return self._numbers

    @property
    def has_deletes(self) -> npt.NDArray[np.bool_]:
        """Of each file: do delete files apply?"""
        return self.delete_numbers >= 0

    def delete_files(self, index: int) -> tuple[DataFile, ...]:
        number = int(self.delete_numbers[index])
        return () if number < 0 or self.deletes is None else self.deletes.of(number)

    def chosen(self, rows: Any) -> PlannedFiles:
        """Only these files: a mask, or their places."""
        if isinstance(rows, pa.Array | pa.ChunkedArray) and pa.types.is_boolean(rows.type):
            return PlannedFiles(self.spec, self.table.filter(rows), self.deletes)
        return PlannedFiles(self.spec, self.table.take(rows), self.deletes)

    def __reduce__(self) -> Any:
        return PlannedFiles, (self.spec, self.table, self.deletes)


@dataclass(frozen=True)
class TaskFacts:
    """What a task needs beside its file; small, so that a task can be pickled."""

    file: DataFile
    data_sequence_number: int | None
    file_sequence_number: int | None
    snapshot_id: int | None
    match: int
    number: int | None = None


class FileScanTask:
    """One data file, or the row groups of it that begin in [start, start + length).

    `residual` is the bound filter that is still to be evaluated on its rows, None when all rows match. `delete_files` are those that apply.
    """

    __slots__ = ("_deletes", "_facts", "_filter", "_index", "_planned", "_span", "spec")

    def __init__(
        self, planned: PlannedFiles | None, index: int, row_filter: Any, spec: PartitionSpec, facts: TaskFacts | None = None,
        span: tuple[int, int] | None = None, delete_files: tuple[DataFile, ...] | None = None,
    ):  # fmt: skip
        self._planned, self._index, self._filter, self.spec = planned, index, row_filter, spec
        self._facts, self._span, self._deletes = facts, span, delete_files

    @property
    def facts(self) -> TaskFacts:
        if self._facts is None:
            assert self._planned is not None
            entry, match = self._planned.entry(self._index)
            number = self._planned.number(self._index)
            self._facts = TaskFacts(entry.data_file, entry.sequence_number, entry.file_sequence_number, entry.snapshot_id, match, number)
        return self._facts

    @property
    def file(self) -> DataFile:
        return self.facts.file

    @property
    def number(self) -> int | None:
        """The file's number among the data files of its snapshot, where the plan was asked for numbers; the same at every planning."""
        return self.facts.number

    @property
    def delete_files(self) -> tuple[DataFile, ...]:
        """Those that apply: a deletion vector or position delete files, and equality delete files."""
        if self._deletes is None:
            self._deletes = self._planned.delete_files(self._index) if self._planned is not None else ()
        return self._deletes

    @property
    def partition(self) -> tuple[Any, ...]:
        return self.file.partition

    @property
    def residual(self) -> Any:
        return None if self.facts.match == WHOLLY else self._filter

    @property
    def data_sequence_number(self) -> int | None:
        return self.facts.data_sequence_number

    @property
    def start(self) -> int:
        return self._span[0] if self._span else 0

    @property
    def length(self) -> int:
        return self._span[1] if self._span else self.file.file_size_in_bytes

    @property
    def is_whole_file(self) -> bool:
        return self._span is None or (self.start == 0 and self.length >= self.file.file_size_in_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes to read: of the file (part) and of its deletes."""
        return self.length + sum(d.size for d in self.delete_files)

    @property
    def estimated_rows(self) -> int:
        size = self.file.file_size_in_bytes
        return self.file.record_count if self.is_whole_file or not size else int(self.length / size * self.file.record_count)

    def part(self, start: int, length: int) -> FileScanTask:
        return FileScanTask(self._planned, self._index, self._filter, self.spec, self._facts, (start, length), self._deletes)

    def with_deletes(self, delete_files: tuple[DataFile, ...]) -> FileScanTask:
        return FileScanTask(self._planned, self._index, self._filter, self.spec, self._facts, self._span, delete_files)

    def __reduce__(self) -> Any:
        return FileScanTask, (None, 0, self._filter, self.spec, self.facts, self._span, self.delete_files)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileScanTask) and (self.facts, self._span, self.delete_files, self.spec) == (
            other.facts, other._span, other.delete_files, other.spec,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = "" if self.is_whole_file else f" [{self.start}, {self.start + self.length})"
        return f"FileScanTask({self.file.file_path}{where}, {self.file.record_count} rows)"


@dataclass(frozen=True)
class TaskSequence(Sequence[FileScanTask]):
    """All tasks of a plan in order; an item is made when it is asked for."""

    groups: tuple[PlannedFiles, ...]
    row_filter: Any = None
    _ends: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ends, total = [], 0
        for group in self.groups:
            total += len(group)
            ends.append(total)
        object.__setattr__(self, "_ends", tuple(ends))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> FileScanTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[FileScanTask]: ...
    def __getitem__(self, index: int | slice) -> FileScanTask | list[FileScanTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        begin = 0
        for group, end in zip(self.groups, self._ends, strict=True):
            if begin <= index < end:
                return FileScanTask(group, index - begin, self.row_filter, group.spec)
            begin = end
        raise IndexError(index)

    def __iter__(self) -> Iterator[FileScanTask]:
        for group in self.groups:
            spec = group.spec
            for index in range(len(group)):
                yield FileScanTask(group, index, self.row_filter, spec)
