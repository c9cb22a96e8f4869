"""Plan which data files are rewritten together, as Java Iceberg does (BinPackRewriteFilePlanner).
Files stay columns: a plan of 100,000 files holds arrays, and tasks are made when their group is
rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.maintain.compact.options import SPLIT_OVERHEAD, CompactionOptions
from frazil.scan.delete_ranges import normalised
from frazil.scan.deletes import DeleteIndex, scopes_of_files
from frazil.scan.manifests import column_of
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, TaskSequence

_MOST_PARTS = 1024  # of one file whose row groups are not known, or are fewer
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FileGroup:
    """Hold files that are rewritten together: `rows` are their places among the plan's tasks.
    `mixed`: the files are of other partition specs than that of the new files, so that the rows of
    one file may go to several partitions. `is_deleted`: deletion vectors delete all rows, so that
    no new file is written."""

    rows: Numbers = field(repr=False)
    bytes: int
    records: int
    mixed: bool
    is_deleted: bool = False

    @property
    def files(self) -> int:
        return len(self.rows)

    def tasks(self, tasks: TaskSequence) -> list[FileScanTask]:
        return [tasks[int(i)] for i in self.rows]


@dataclass(frozen=True, eq=False)
class _Files:
    """Hold the facts by which files are chosen: one array per fact, with one element per data file
    of the plan.
    """

    sizes: Numbers
    records: Numbers
    sequence_numbers: Numbers
    deletes: Numbers
    deleted: Numbers
    scopes: Numbers
    of_spec: Flags
    is_deleted: Flags

    @classmethod
    def of(cls, plan: Plan, spec_id: int) -> _Files:
        parts: list[tuple[Any, ...]] = []
        # each partition is a scope; scope 0 is for files of other specs, which may hold rows of any
        # partition
        base = 1
        for group in plan.groups:
            own = group.spec_id == spec_id
            codes = scopes_of_files(group) + base if own else np.zeros(len(group), np.int64)
            base += int(codes.max(initial=0)) + 1 if own else 0
            known, numbers = group.delete_numbers >= 0, np.maximum(group.delete_numbers, 0)
            index = group.deletes if isinstance(group.deletes, DeleteIndex) else None
            counts = deleted = removed = known * 0
            if index:
                counted = (index.counts, index.own_records, index.removed_rows)
                counts, deleted, removed = (
                    _values_of_known(values, numbers, known) for values in counted
                )
            records = _column(group.table, "record_count")
            parts.append(
                (
                    _column(group.table, "file_size_in_bytes"),
                    records,
                    _column(group.table, "sequence_number"),
                    counts,
                    deleted,
                    codes,
                    np.full(len(group), own),
                    removed >= records,
                )
            )
        empty = (np.zeros(0, np.int64),) * 6 + (np.zeros(0, bool),) * 2
        return cls(*(np.concatenate(columns) for columns in zip(*(parts or [empty]), strict=True)))

    def chosen(self, options: CompactionOptions) -> tuple[Flags, Flags]:
        """Return which files are candidates for a rewrite, and which of them are so because of
        their deletes.
        """
        ratio = np.minimum(self.deleted, self.records) / np.maximum(self.records, 1)
        deletes = ((self.deletes > 0) & (ratio >= options.delete_ratio)) | (
            self.deletes >= options.delete_files
        )
        size = (self.sizes < options.smallest) | (self.sizes > options.largest)
        return (np.ones(len(size), bool) if options.rewrite_all else size | deletes), deletes


def _values_of_known(values: Numbers, numbers: Numbers, known: Flags) -> Numbers:
    return np.where(known, values[numbers], 0) if len(values) else np.zeros(len(numbers), np.int64)


def _column(table: pa.Table, name: str) -> Numbers:
    return np.asarray(pc.fill_null(table.column(name), 0).to_numpy().astype(np.int64))


def file_groups(plan: Plan, options: CompactionOptions) -> tuple[FileGroup, ...]:
    """Group the files that are worth rewriting: by partition, those of other specs than the
    output's together, each group within max-file-group-size-bytes, in the order of the option
    rewrite-job-order."""
    files = _Files.of(plan, options.output_spec_id)
    candidates, by_deletes = files.chosen(options)
    rows = np.flatnonzero(candidates)
    rows = rows[np.lexsort((rows, files.sequence_numbers[rows], files.scopes[rows]))]
    starts = np.flatnonzero(np.diff(files.scopes[rows], prepend=-1)) if len(rows) else rows
    groups: list[FileGroup] = []
    for of_partition in np.split(rows, starts[1:]) if len(rows) else ():
        for packed in _packed(of_partition, files.sizes, options):
            size = int(files.sizes[packed].sum())
            if (
                options.rewrite_all
                or by_deletes[packed].any()
                or _worth_it(len(packed), size, options)
            ):
                mixed = not bool(files.of_spec[packed[0]])
                groups.append(
                    FileGroup(
                        packed,
                        size,
                        int(files.records[packed].sum()),
                        mixed,
                        bool(files.is_deleted[packed].all()),
                    )
                )
    return tuple(_ordered(_limited(groups, files, options.most_files), options.job_order))


def _packed(rows: Numbers, sizes: Numbers, options: CompactionOptions) -> Iterator[Numbers]:
    """Cut the files of one partition, in their order, into groups of at most the size and number of
    files that the options allow.
    """
    begin = weight = 0
    for position, size in enumerate(sizes[rows].tolist()):
        if position > begin and (
            weight + size > options.group_bytes or position - begin >= options.group_files
        ):
            yield rows[begin:position]
            begin, weight = position, 0
        weight += size
    yield rows[begin:]


def _worth_it(count: int, size: int, options: CompactionOptions) -> bool:
    enough_files = count > 1 and count >= options.min_input_files
    return enough_files or (count > 1 and size > options.target) or size > options.largest


def _limited(groups: list[FileGroup], files: _Files, most: int | None) -> Iterator[FileGroup]:
    """Yield groups until they hold as many files as max-files-to-rewrite allows; the last group is
    cut, as in Java.
    """
    left = sum(g.files for g in groups) if most is None else most
    for group in groups:
        if left <= 0:
            return
        if group.files > left:
            rows = group.rows[:left]
            size, records, is_deleted = (
                files.sizes[rows].sum(),
                files.records[rows].sum(),
                files.is_deleted[rows].all(),
            )
            group = replace(
                group, rows=rows, bytes=int(size), records=int(records), is_deleted=bool(is_deleted)
            )
        left -= group.files
        yield group


def _ordered(groups: Iterable[FileGroup], job_order: str) -> list[FileGroup]:
    measure, _, direction = job_order.partition("-")
    if measure == "none":
        return list(groups)
    return sorted(
        groups,
        key=lambda g: g.bytes if measure == "bytes" else g.files,
        reverse=direction == "desc",
    )


def paths_of(plan: Plan, groups: Sequence[FileGroup]) -> pa.Array:
    """Return the paths of the groups' files, as metadata spells them."""
    rows, begin, chunks = (
        np.sort(np.concatenate([np.zeros(0, np.int64), *(g.rows for g in groups)])),
        0,
        list[pa.Array](),
    )
    for g in plan.groups:
        here = rows[(rows >= begin) & (rows < begin + len(g))] - begin
        chunks.append(column_of(g.table, "file_path").take(pa.array(here)))
        begin += len(g)
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def own_deletes(plan: Plan, paths: pa.Array) -> set[tuple[str, int | None]]:
    """Return path and offset of the delete files that apply to one of these files alone, and are
    removed with it.
    """
    index = next((g.deletes for g in plan.groups if isinstance(g.deletes, DeleteIndex)), None)
    if index is None or not len(paths):
        return set()
    own = pc.fill_null(pc.is_in(index.single, value_set=normalised(paths)), False)
    mask = pc.and_(own, pa.array(index.used))
    offsets = index.entries.strings("content_offset").filter(mask)
    return set(
        zip(
            index.entries.strings("file_path").filter(mask).to_pylist(),
            offsets.to_pylist(),
            strict=True,
        )
    )


def pieces_of(
    tasks: Sequence[FileScanTask], options: CompactionOptions
) -> list[tuple[FileScanTask, ...]]:
    """Cut a group into pieces, each the input of about one new file, in the order of the files.
    Parquet files that are larger than that are split between row groups."""
    total = sum(t.file.file_size_in_bytes for t in tasks)
    count = options.files_for(total)
    each = (
        min(max(total / count, 1), options.file_bytes / options.compression)
        if count > 1
        else total + SPLIT_OVERHEAD
    )
    parts_by_piece: dict[int, list[FileScanTask]] = {}
    done = 0
    for part in (p for t in tasks for p in _parts(t, each)):
        parts_by_piece.setdefault(
            min(int((done + part.length / 2) / max(each, 1)), count - 1), []
        ).append(part)
        done += part.length
    return [tuple(parts_by_piece[n]) for n in sorted(parts_by_piece)]


def _parts(task: FileScanTask, each: float) -> Iterable[FileScanTask]:
    size = task.file.file_size_in_bytes
    count = int(-(-size // each)) if task.file.file_format.lower() == "parquet" else 1
    # a row group is not divided, however small the target
    count = min(count, max(_MOST_PARTS, len(task.file.split_offsets or ())))
    if count <= 1:
        return (task,)
    edges = [size * n // count for n in range(count + 1)]
    return [task.part(a, b - a) for a, b in zip(edges, edges[1:], strict=False)]
