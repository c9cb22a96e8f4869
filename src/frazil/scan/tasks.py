"""Make file scan tasks out of planned files on demand: a plan of 100,000 files holds Arrow columns,
not objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.codec.manifest import entries_from_table
from frazil.expr.bound import Bound
from frazil.spec.manifest import DataFile, ManifestEntry
from frazil.spec.partitioning import PartitionSpec

WHOLLY = 1  # the outcome mask "TRUE only": every row of the file matches
NUMBER = (
    "_number"  # column of planned files: the file's number in its snapshot (scan.listing.numbering)
)
# column of planned files: the file's number in the delete index, -1 where no delete applies
DELETES = "_deletes"
_BLOCK = 2048


class DeletesByFile(Protocol):
    """Look up the delete files of data files by the data file's number (scan.deletes.DeleteIndex)."""

    @property
    def counts(self) -> npt.NDArray[np.int64]: ...

    @property
    def sizes(self) -> npt.NDArray[np.int64]: ...

    def of(self, row: int) -> tuple[DataFile, ...]: ...


class PlannedFiles:
    """Hold the planned files of one partition spec. `table` has one row per file: the entry columns
    that are needed, and `_match`.

    `_match` is a mask (uint8) of what the filter can be for rows of the file: 1 TRUE, 2 FALSE, 4
    NULL; exactly 1: all rows match. When the snapshot has deletes, column `_deletes` holds each
    file's number in `deletes`, -1 where no delete applies.
    """

    __slots__ = ("_block", "_numbers", "deletes", "spec", "table")

    def __init__(self, spec: PartitionSpec, table: pa.Table, deletes: DeletesByFile | None = None):
        if deletes is None and DELETES in table.column_names:
            # without it deleted rows would be read
            raise ValueError("Planned files with delete numbers need the delete index.")
        self.spec, self.table, self.deletes = spec, table, deletes
        self._block: tuple[int, list[ManifestEntry], list[int]] | None = None
        self._numbers: npt.NDArray[np.int64] | None = None

    @property
    def spec_id(self) -> int:
        return self.spec.spec_id

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def entry(self, index: int) -> tuple[ManifestEntry, int]:
        """Return (entry, outcome mask) of a file; entries are made in blocks, of which the last one
        is kept.
        """
        number = index // _BLOCK
        block = self._block
        if block is None or block[0] != number:
            rows = self.table.slice(number * _BLOCK, _BLOCK)
            own = rows.select(
                [c for c in rows.column_names if c not in ("_match", DELETES, NUMBER)]
            )
            block = (number, entries_from_table(own, self.spec), rows.column("_match").to_pylist())
            self._block = block
        place = index - number * _BLOCK
        return block[1][place], block[2][place]

    def number(self, index: int) -> int | None:
        """Return the file's number in its snapshot; None when the plan was not asked for numbers."""
        return (
            int(self.table.column(NUMBER)[index].as_py())
            if NUMBER in self.table.column_names
            else None
        )

    @property
    def delete_numbers(self) -> npt.NDArray[np.int64]:
        """Return each file's number in the delete index, -1: no delete applies."""
        if self._numbers is None:
            has_numbers = DELETES in self.table.column_names
            self._numbers = (
                self.table.column(DELETES).to_numpy()
                if has_numbers
                else np.full(len(self), -1, np.int64)
            )
        return self._numbers

    @property
    def has_deletes(self) -> npt.NDArray[np.bool_]:
        """Mark the files to which delete files apply."""
        return self.delete_numbers >= 0

    def delete_files(self, index: int) -> tuple[DataFile, ...]:
        number = int(self.delete_numbers[index])
        return () if number < 0 or self.deletes is None else self.deletes.of(number)

    def chosen(self, rows: pa.Array | pa.ChunkedArray | Sequence[int]) -> PlannedFiles:
        """Keep only these files, given as a mask or as their positions."""
        if isinstance(rows, pa.Array | pa.ChunkedArray) and pa.types.is_boolean(rows.type):
            return PlannedFiles(self.spec, self.table.filter(rows), self.deletes)
        return PlannedFiles(self.spec, self.table.take(rows), self.deletes)

    def __reduce__(self) -> Any:
        return PlannedFiles, (self.spec, self.table, self.deletes)


@dataclass(frozen=True)
class TaskFacts:
    """Hold the file of a task and its numbers; small, so that a task can be pickled and sent to a
    worker.
    """

    file: DataFile
    data_sequence_number: int | None
    file_sequence_number: int | None
    snapshot_id: int | None
    match: int
    number: int | None = None


class FileScanTask:
    """Read one data file, or the row groups of it that begin in [start, start + length).

    `residual` is the bound filter that must still be evaluated on its rows, None when all rows
    match. `delete_files` are the delete files that apply.
    """

    __slots__ = ("_deletes", "_facts", "_filter", "_index", "_planned", "_span", "spec")

    def __init__(
        self,
        planned: PlannedFiles | None,
        index: int,
        row_filter: Bound | None,
        spec: PartitionSpec,
        facts: TaskFacts | None = None,
        span: tuple[int, int] | None = None,
        delete_files: tuple[DataFile, ...] | None = None,
    ):
        self._planned, self._index, self._filter, self.spec = planned, index, row_filter, spec
        self._facts, self._span, self._deletes = facts, span, delete_files

    @property
    def facts(self) -> TaskFacts:
        """Return what the manifest says of the file; its objects are made when first asked for."""
        if self._facts is None:
            assert self._planned is not None
            entry, match = self._planned.entry(self._index)
            number = self._planned.number(self._index)
            self._facts = TaskFacts(
                entry.data_file,
                entry.sequence_number,
                entry.file_sequence_number,
                entry.snapshot_id,
                match,
                number,
            )
        return self._facts

    @property
    def file(self) -> DataFile:
        """Return the data file."""
        return self.facts.file

    @property
    def number(self) -> int | None:
        """Return the file's number among the data files of its snapshot, the same at every
        planning; None without numbers in the plan.
        """
        return self.facts.number

    @property
    def delete_files(self) -> tuple[DataFile, ...]:
        """Return the delete files that apply: a deletion vector or position delete files, and
        equality delete files.
        """
        if self._deletes is None:
            self._deletes = (
                self._planned.delete_files(self._index) if self._planned is not None else ()
            )
        return self._deletes

    @property
    def partition(self) -> tuple[Any, ...]:
        """Return the partition values of the file, in the order of its spec's fields."""
        return self.file.partition

    @property
    def residual(self) -> Bound | None:
        """Return the filter that its rows must be tested by; None: all rows match."""
        return None if self.facts.match == WHOLLY else self._filter

    @property
    def data_sequence_number(self) -> int | None:
        """Return the data sequence number of the file; None: a server that planned the scan does
        not tell."""
        return self.facts.data_sequence_number

    @property
    def start(self) -> int:
        """Return the first byte that the task reads."""
        return self._span[0] if self._span else 0

    @property
    def length(self) -> int:
        """Return how many bytes the task reads, from `start` on."""
        return self._span[1] if self._span else self.file.file_size_in_bytes

    @property
    def is_whole_file(self) -> bool:
        """Tell whether the task reads the whole file."""
        return self._span is None or (
            self.start == 0 and self.length >= self.file.file_size_in_bytes
        )

    @property
    def size_bytes(self) -> int:
        """Return the bytes to read: those of the file, or of its part, and those of its delete
        files.
        """
        return self.length + sum(d.size for d in self.delete_files)

    @property
    def estimated_rows(self) -> int:
        """Estimate the rows of the file or of its part, before deletes and filter."""
        size = self.file.file_size_in_bytes
        return (
            self.file.record_count
            if self.is_whole_file or not size
            else int(self.length / size * self.file.record_count)
        )

    def part(self, start: int, length: int) -> FileScanTask:
        """Return the task that reads a part of the file. `start`, `length`: in bytes."""
        return FileScanTask(
            self._planned,
            self._index,
            self._filter,
            self.spec,
            self._facts,
            (start, length),
            self._deletes,
        )

    def with_deletes(self, delete_files: tuple[DataFile, ...]) -> FileScanTask:
        """Return the task with other delete files."""
        return FileScanTask(
            self._planned,
            self._index,
            self._filter,
            self.spec,
            self._facts,
            self._span,
            delete_files,
        )

    def __reduce__(self) -> Any:
        return FileScanTask, (
            None,
            0,
            self._filter,
            self.spec,
            self.facts,
            self._span,
            self.delete_files,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileScanTask) and (
            self.facts,
            self._span,
            self.delete_files,
            self.spec,
        ) == (
            other.facts,
            other._span,
            other.delete_files,
            other.spec,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = "" if self.is_whole_file else f" [{self.start}, {self.start + self.length})"
        return f"FileScanTask({self.file.file_path}{where}, {self.file.record_count} rows{' before deletes' if self.delete_files else ''})"


@dataclass(frozen=True)
class TaskSequence(Sequence[FileScanTask]):
    """List all tasks of a plan in order; each is made when it is asked for."""

    groups: tuple[PlannedFiles, ...]
    row_filter: Bound | None = None
    _ends: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ends, total = [], 0
        for group in self.groups:
            total += len(group)
            ends.append(total)
        object.__setattr__(self, "_ends", tuple(ends))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __repr__(self) -> str:
        shown = [
            f"  {t.file.file_path}  ({t.file.record_count:,} rows, {len(t.delete_files)} delete files)"
            for t in self[:10]
        ]
        more = [f"  … {len(self) - len(shown)} more"] if len(self) > len(shown) else []
        return "\n".join(
            [f"{len(self)} tasks, each with .file, .delete_files and .residual", *shown, *more]
        )

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
