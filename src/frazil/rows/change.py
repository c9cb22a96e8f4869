"""Write the files of a row-level change: a decider says which rows of a data file are removed and
what replaces them. The deciders of DELETE and UPDATE are here, that of MERGE is in `rows.merge`.

copy-on-write: the live rows of the file, without the removed ones and with new versions in their
places, go to new data files; the old file is removed. merge-on-read: positions of removed rows go
to position delete files (v2) or deletion vectors (v3), new versions to new data files. Each group
of data files is the work of one task, in a thread or on a Spark worker: groups let a few tasks
write files of a good size, where one task per file would write many small ones. A task holds a few
batches in memory, and what its writer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from frazil.arrow.deletes.delete_files import Positions
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.rows_at import rows_of
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.rows.assign import Assignments
from frazil.rows.modes import COPY_ON_WRITE, Mode
from frazil.rows.position_deletes import Gone, delete_files
from frazil.rows.rewrite import HIDDEN_POS, POS, ROW_ID, RemovedRows, fitted, rewritten
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.spec.schema import ROW_ID_ID, Schema
from frazil.spec.types import LongType, NestedField
from frazil.tasks.runner import current_place

LEAST_MEMORY = 32 << 20  # bytes of rows that a task may buffer, however many tasks run beside it
Changes = Callable[[RemovedRows], Iterator[pa.RecordBatch]]


class Decider(Protocol):
    """Decide what an operation does to the rows of a data file.

    Frozen and picklable, one per operation; `begin` returns a copy with fresh state for one group
    of files.
    """

    def begin(self) -> Self: ...

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        """Add the positions of removed rows to `removed_rows`, each before the batch with its new
        version is yielded.

        Batches hold the table's columns by name. `_row_id`, if row lineage is kept, is the id of
        the row; rewrite.POS, its old position (ascending over the file), lets a rewritten file keep
        its order. Batches are made lazily, so that few are in memory.
        """

    def report(self) -> Any:
        """Return a picklable result for the driver when a group is done."""


@dataclass(frozen=True)
class ChangeContext:
    """Hold all that the tasks of an operation share; frozen and picklable.

    `read.projection`: all columns that are written (for a table with row lineage also its two
    columns); `write` has the same columns. `settled`: the operation reads a state of the table that
    is committed, without staged changes of its own.
    """

    read: ReadContext
    write: WriteContext
    mode: Mode
    granularity: str
    format_version: int
    lineage: bool
    decider: Decider
    settled: bool = True

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.write.schema)


@dataclass(frozen=True)
class Changed:
    """Hold the files that a change removed and added, for the commit and for the metrics.

    `referenced`: paths of the data files to which `added_deletes` apply. `updated`, `deleted`,
    `copied`: numbers of rows. `reports`: results of the deciders, one per group.
    """

    removed: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    referenced: frozenset[str] = frozenset()
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    reports: tuple[Any, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.added or self.added_deletes)

    @property
    def written(self) -> tuple[DataFile, ...]:
        return (*self.added, *self.added_deletes)


def combined(changes: Iterable[Changed]) -> Changed:
    """Combine the results of all groups into one."""
    every = list(changes)
    parts: dict[str, Any] = {}
    for part in fields(Changed):
        values = [getattr(change, part.name) for change in every]
        match part.default:
            case tuple():
                parts[part.name] = tuple(x for v in values for x in v)
            case frozenset():
                parts[part.name] = frozenset().union(*values)
            case _:
                parts[part.name] = sum(values)
    return Changed(**parts)


def change_files(context: ChangeContext, group: Sequence[FileScanTask]) -> Changed:
    """Apply the context's decider to a group of whole data files."""
    decider = context.decider.begin()
    changed = apply_changes(context, ((task, partial(decider.changes, task)) for task in group))
    return replace(changed, reports=(decider.report(),))


@dataclass(frozen=True)
class RewriteContext:
    """Hold what the tasks of a rewrite of whole files share, frozen and picklable.
    `read.projection`: all columns that are written (of a table with row lineage its two columns,
    too, so that rows keep their ids); `write` has the same ones."""

    read: ReadContext
    write: WriteContext


def rewrite_files(context: RewriteContext, group: Sequence[FileScanTask]) -> Changed:
    """Write the live rows of a group of whole files, in their order, to new files of the write's
    target size, spec and sort order.

    Partition commit's policy `merge` rewrites with this; compaction has tasks of its own
    (`frazil.maintain.compact.rewrite`). Deletes are applied, so the delete files of the group's
    tasks no longer matter to these rows. The old files are in `removed`, also those of which no row
    is left. The new files are durable; after an error none of them is left.
    """
    schema, live, copied = (
        to_arrow_schema(context.write.schema),
        context.read.sharing_deletes(row_filter=None),
        0,
    )
    here = current_place()

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal copied
        for task in group:
            for batch in rows_of(task, live):
                here.go_on()
                copied += batch.num_rows
                yield fitted(batch, schema)

    added = write(rows(), placed(context.write))
    return Changed(tuple(task.file for task in group), tuple(added), copied=copied)


def placed(context: WriteContext) -> WriteContext:
    """Bind a write context to the calling task: file names carry the task's numbers, and tasks in
    one process share its memory.
    """
    here = current_place()
    memory = max(LEAST_MEMORY, context.memory // here.share)
    return replace(
        context,
        partition_id=here.partition,
        task_id=here.task,
        workers=here.workers or context.workers,
        memory=memory,
    )


@dataclass
class _Tally:
    gone: list[Gone] = field(default_factory=list)
    updated: int = 0
    deleted: int = 0
    copied: int = 0

    def take(self, task: FileScanTask, removed_rows: RemovedRows) -> None:
        self.updated += removed_rows.updated
        self.deleted += removed_rows.deleted
        if removed_rows:
            self.gone.append(Gone(task, removed_rows.positions))


def apply_changes(context: ChangeContext, steps: Iterable[tuple[FileScanTask, Changes]]) -> Changed:
    """Write the changes of each data file. The files written are durable; after an error all of
    them are deleted again.
    """
    tally, target = _Tally(), placed(context.write)
    added = write(_rows(context, steps, tally), target)
    try:
        if context.mode == COPY_ON_WRITE:
            removed = tuple(g.task.file for g in tally.gone)
            return Changed(
                removed,
                tuple(added),
                updated=tally.updated,
                deleted=tally.deleted,
                copied=tally.copied,
            )
        deletes = delete_files(
            tally.gone, target, context.read, context.format_version, context.granularity
        )
    except BaseException:
        target.storage.delete_many([f.file_path for f in added])
        raise
    return Changed(
        deletes.removed,
        tuple(added),
        deletes.added_deletes,
        deletes.removed_deletes,
        deletes.referenced,
        tally.updated,
        tally.deleted,
    )


def _rows(
    context: ChangeContext, steps: Iterable[tuple[FileScanTask, Changes]], tally: _Tally
) -> Iterator[pa.RecordBatch]:
    here = current_place()
    for task, changes in steps:
        here.go_on()
        removed_rows = RemovedRows()
        if context.mode == COPY_ON_WRITE:
            for batch, copied in rewritten(
                task, changes(removed_rows), removed_rows, context.read, context.arrow_schema
            ):
                here.go_on()
                tally.copied += copied
                yield batch
        else:
            for batch in changes(removed_rows):
                here.go_on()
                yield fitted(batch, context.arrow_schema)
        tally.take(task, removed_rows)


@dataclass(frozen=True)
class DeleteDecider:
    """Find the rows to delete. `read`: reads the positions of the rows that match, and no other
    column.
    """

    read: ReadContext

    @classmethod
    def of(cls, read: ReadContext) -> DeleteDecider:
        """Make the decider. `read`: the read context of the plan, whose filter is the condition of
        the DELETE.
        """
        return cls(read.sharing_deletes(projection=Schema(HIDDEN_POS)))

    def begin(self) -> Self:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(task, self.read):
            removed_rows.add(batch.column(0).to_numpy(), deleted=batch.num_rows)
        yield from ()

    def report(self) -> None:
        return None


_ROW_ID = NestedField(ROW_ID_ID, "\0row_id", LongType(), False)


@dataclass(frozen=True)
class UpdateDecider:
    """Make new versions of matching rows. `read`: reads the columns that are kept or used, then the
    row id (with `lineage`), then the position."""

    read: ReadContext
    assignments: Assignments
    lineage: bool

    @classmethod
    def of(cls, read: ReadContext, assignments: Assignments, lineage: bool) -> UpdateDecider:
        """Make the decider. `read`: the read context of the plan, whose filter is the condition of
        the UPDATE.
        """
        needed = read.table_schema.project({*assignments.kept, *assignments.read}).fields
        return cls(
            read.sharing_deletes(
                projection=Schema(*needed, *((_ROW_ID,) if lineage else ()), HIDDEN_POS)
            ),
            assignments,
            lineage,
        )

    def begin(self) -> Self:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(task, self.read):
            places = batch.column(batch.num_columns - 1)
            removed_rows.add(places.to_numpy(), updated=batch.num_rows)
            new = self.assignments.apply(batch)
            columns, names = [*new.columns, places], [*new.schema.names, POS]
            if self.lineage:
                columns, names = [*columns, batch.column(batch.num_columns - 2)], [*names, ROW_ID]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def report(self) -> None:
        return None


class Nothing:
    """Decide nothing: for operations whose rows are known already."""

    def begin(self) -> Nothing:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        return iter(())

    def report(self) -> Any:
        return None


def remove_positions(
    context: ChangeContext, group: Sequence[tuple[FileScanTask, Positions]]
) -> Changed:
    """Remove the rows at these positions (ascending, each once). All count as deleted; the caller
    corrects the counts for an UPDATE.
    """
    return apply_changes(context, ((task, _gone(positions)) for task, positions in group))


def _gone(positions: Positions) -> Changes:
    def changes(removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        removed_rows.add(np.asarray(positions, np.int64), deleted=len(positions))
        return iter(())

    return changes
