"""Convert equality deletes to position deletes (v2) or deletion vectors (v3), which readers apply
without comparing keys.

plan (metadata only): the data files to which equality deletes apply, and which equality delete
files are not needed afterwards -> tasks: the key columns of each data file are read once, the
positions of deleted rows are merged with those deleted before -> one commit (`rebased`): after a
commit of another writer, only the files that it changed are read again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.deletes.delete_files import Positions, positions_of
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.commit.replace_deletes import ReplaceDeletes
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.maintain.position_deletes.conflict_retries import (
    Ready,
    newest,
    step_of,
    unmatched,
    until_committed,
    within,
    written_nowhere,
)
from frazil.maintain.procedure import MaintainedTable, ProcedureResult
from frazil.maintain.progress import ProgressCallback, progress
from frazil.ops.reading import RowFilter
from frazil.ops.row_changes import condition_of
from frazil.ops.step import Step
from frazil.rows.change import placed
from frazil.rows.groups import packed
from frazil.rows.modes import granularity_of
from frazil.rows.position_deletes import Gone, WrittenDeletes, delete_files
from frazil.scan.columns import metadata_columns
from frazil.scan.deletes import DeleteIndex, read_deletes
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, TaskSequence
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.tasks.runner import current_place


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvertEqualityDeletesResult(ProcedureResult):
    """Report the conversion of a table's equality deletes.

    `converted_equality_delete_files_count`: equality delete files that were removed, since they
    apply to no data file any more. `added_delete_files_count`, `added_bytes_count`: position delete
    files or deletion vectors that took their place, and their size; `rewritten_delete_files_count`:
    those that were merged into them. `removed_data_files_count`: data files of which no row was
    left. `deleted_rows_count`: rows that equality deletes had deleted.
    `remaining_equality_delete_files_count`: equality delete files that still apply to data files
    outside of `where`.
    """

    converted_equality_delete_files_count: int = 0
    added_delete_files_count: int = 0
    rewritten_delete_files_count: int = 0
    removed_data_files_count: int = 0
    deleted_rows_count: int = 0
    added_bytes_count: int = field(default=0, metadata={"ours": True})
    remaining_equality_delete_files_count: int = field(default=0, metadata={"ours": True})


def convert_equality_deletes(
    table: MaintainedTable,
    where: RowFilter | None = None,
    branch: str = MAIN_BRANCH,
    *,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> ConvertEqualityDeletesResult:
    """Convert the equality deletes that apply to the data files that may hold rows matching `where`
    (None: to all).

    Raises InvalidInput for a branch that does not exist, and the errors of `until_committed`.
    """
    started = time.perf_counter()
    predicate = AlwaysTrue() if where is None else condition_of(where)
    options = write_options({})
    state = _State(predicate, callback)
    if dry_run:
        step = step_of(table, newest(table), branch, options)
        state.work(step, written_nowhere(step.write_context))
    else:
        until_committed(table, branch, options, lambda step: state.work(step, step.write_context))
    return replace(state.result, dry_run=dry_run, seconds=time.perf_counter() - started)


# Planning
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chosen:
    """Hold the files to convert: the data files with the equality deletes that apply to each, and
    the equality delete files that apply to no other data file. `targets`: the paths of all equality
    delete files that are converted, here or in later attempts."""

    tasks: tuple[FileScanTask, ...] = ()
    removable: tuple[DataFile, ...] = ()
    remaining: int = 0
    targets: frozenset[str] = frozenset()


def _chosen(step: Step, plan: Plan, where: Predicate, targets: frozenset[str] | None) -> _Chosen:
    """Choose the data files to convert. `targets`: only these equality delete files, those that an
    earlier attempt has begun with.
    """
    index = next((g.deletes for g in plan.groups if isinstance(g.deletes, DeleteIndex)), None)
    entries = index.entries if index is not None else None
    if entries is None and step.head is not None:
        entries = read_deletes(
            step.metadata, step.storage, plan.all_delete_manifests, plan.options.workers
        )
    if entries is None or not entries.has_equality:
        return _Chosen(targets=targets or frozenset())
    asked = None if isinstance(where, AlwaysTrue) else frozenset(step.plan(where).paths())
    stays = ~entries.is_equality
    tasks = []
    for task, numbers in _with_equality(plan, index) if index is not None else ():
        if asked is None or task.file.file_path in asked:
            tasks.append(_limited(task, targets))
        else:
            stays[numbers] = True
    lookup = index or unmatched(entries)
    removable = (lookup.file(n) for n in np.flatnonzero(~stays).tolist())
    begun = tuple(f for f in removable if targets is None or f.file_path in targets)
    if targets is not None:
        tasks = [
            t
            for t in tasks
            if any(d.content == DataFileContent.EQUALITY_DELETES for d in t.delete_files)
        ]
    else:
        targets = frozenset(
            entries.strings("file_path").filter(pa.array(entries.is_equality)).to_pylist()
        )
    return _Chosen(tuple(tasks), begun, int(entries.is_equality.sum()) - len(begun), targets)


def _with_equality(plan: Plan, index: DeleteIndex) -> Iterator[tuple[FileScanTask, Any]]:
    """Yield the data files to which equality deletes apply, with the numbers of these in the index."""
    for group in plan.groups:
        numbers = group.delete_numbers
        maybe = (numbers >= 0) & (index.equality_counts[np.maximum(numbers, 0)] > 0)
        chosen = group.chosen(pa.array(maybe))
        for task, row in zip(TaskSequence((chosen,)), numbers[maybe].tolist(), strict=True):
            if len(equality := index.numbers_of(row, positions=False)):
                yield task, equality


def _limited(task: FileScanTask, targets: frozenset[str] | None) -> FileScanTask:
    if targets is None:
        return task
    applied = (
        d
        for d in task.delete_files
        if d.content == DataFileContent.POSITION_DELETES or d.file_path in targets
    )
    return task.with_deletes(tuple(applied))


# Tasks
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Known:
    """Hold the result of an earlier attempt for a data file: the files with its deletes. `whole`:
    every row is deleted.
    """

    entries: tuple[DataFile, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class _Item:
    task: FileScanTask
    earlier: _Known | None = None


@dataclass(frozen=True)
class _Context:
    """Hold the settings that the tasks share; frozen and picklable. `read` reads `_pos` and
    `_deleted`.
    """

    read: ReadContext
    write: WriteContext
    version: int
    granularity: str


@dataclass(frozen=True)
class _Converted:
    """Hold the delete files that one task wrote. `files`: per data file what was found; `rows`: how
    many rows are newly deleted by position."""

    deletes: WrittenDeletes
    files: tuple[tuple[str, _Known], ...]
    rows: int


def convert_files(context: _Context, group: Sequence[_Item]) -> _Converted:
    """Find the rows of a group of data files that equality deletes delete, and write their
    positions.
    """
    gone: list[Gone] = []
    reading = _with_threads(context.read)
    for item in group:
        positions = _deleted(item, reading)
        before = _positional(item.task, reading)
        new = np.setdiff1d(positions, before, assume_unique=True)
        if len(new):
            gone.append(Gone(item.task, new))
    target = placed(context.write)
    written = delete_files(gone, target, context.read, context.version, context.granularity)
    whole = {f.file_path for f in written.removed}
    changed_paths = {g.task.file.file_path for g in gone}
    files = []
    for path in (item.task.file.file_path for item in group):
        own = tuple(
            d
            for d in written.added_deletes
            if path in changed_paths - whole and d.referenced_data_file in (None, path)
        )
        files.append((path, _Known(own, path in whole)))
    return _Converted(written, tuple(files), sum(len(g.positions) for g in gone))


def _with_threads(context: ReadContext) -> ReadContext:
    """Let the only task on a machine with several cores read a large file with all of them."""
    workers = current_place().workers or 1
    return (
        context
        if workers <= 1
        else context.sharing_deletes(options=replace(context.options, workers=workers))
    )


def _deleted(item: _Item, context: ReadContext) -> Positions:
    """Return the positions of all deleted rows of a data file, ascending. Deletes that an earlier
    attempt has found are not computed again."""
    earlier, task = item.earlier, item.task
    if earlier is not None:
        if earlier.whole:
            return np.arange(task.file.record_count, dtype=np.int64)
        return positions_of(task.file, earlier.entries, context.storage, context.delete_cache)
    deleted_positions = [np.zeros(0, np.int64)]
    for batch in read([task], context):
        positions, deleted = (
            batch.column(0).to_numpy(),
            batch.column(1).to_numpy(zero_copy_only=False),
        )
        deleted_positions.append(positions[deleted])
    return np.concatenate(deleted_positions)


def _positional(task: FileScanTask, context: ReadContext) -> Positions:
    positional = [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]
    return positions_of(task.file, positional, context.storage, context.delete_cache)


# Commit
# --------------------------------------------------------------------------------------------------


@dataclass
class _State:
    """Keep, from attempt to attempt, the equality delete files that were chosen at first and the
    deletes found for each data file.
    """

    where: Predicate
    callback: ProgressCallback | None
    result: ConvertEqualityDeletesResult = ConvertEqualityDeletesResult()
    targets: frozenset[str] | None = None
    earlier_by_path: dict[str, _Known] = field(default_factory=dict)
    read: int | None = None

    def work(self, step: Step, write: WriteContext) -> Ready | None:
        """Convert the equality deletes of the state that the step reads, and make the action that
        commits the result.
        """
        self.result = ConvertEqualityDeletesResult()
        # raises for a column that does not exist, also where nothing is to be done
        bind(self.where, step.schema, **step.binding_arguments)
        if step.metadata.format_version < 2 or step.head is None:
            return None
        if not within(step.metadata, self.read, step.to.branch):
            self.targets, self.earlier_by_path = None, {}
        plan = step.plan(AlwaysTrue())
        chosen = _chosen(step, plan, self.where, self.targets)
        self.targets = chosen.targets
        self.read = step.head.snapshot_id
        converted = self._converted(step, write, plan, chosen)
        self.earlier_by_path = {path: of_file for c in converted for path, of_file in c.files}
        action = _action(step, chosen, converted)
        self.result = _result(action, chosen, converted)
        if not (action.removed or action.removed_deletes or action.added_deletes):
            return None
        return Ready(action, tuple(f.file_path for f in action.added_deletes))

    def _converted(
        self, step: Step, write: WriteContext, plan: Plan, chosen: _Chosen
    ) -> list[_Converted]:
        columns = metadata_columns(step.metadata)
        reading = replace(
            ReadContext.of(plan, Schema(columns["_pos"], columns["_deleted"]), step.storage),
            row_filter=None,
        )
        context = _Context(
            reading,
            write,
            step.metadata.format_version,
            granularity_of(step.metadata, step.to.options),
        )
        items = [_Item(t, self.earlier_by_path.get(t.file.file_path)) for t in chosen.tasks]
        groups = packed(items, step.runner.parallelism, plan.options.split, lambda i: i.task)
        converted: list[_Converted] = []
        with (
            progress(len(items), "data files converted", self.callback) as shown,
            step.removing_files_on_error(),
        ):
            for done in step.runner.run(partial(convert_files, context), groups) if groups else ():
                converted.append(done)
                shown.advance(len(done.files))
        return converted


def _action(step: Step, chosen: _Chosen, converted: Sequence[_Converted]) -> ReplaceDeletes:
    added = tuple(d for c in converted for d in c.deletes.added_deletes)
    return ReplaceDeletes(
        added_deletes=added,
        removed=tuple(f for c in converted for f in c.deletes.removed),
        removed_deletes=(
            *(d for c in converted for d in c.deletes.removed_deletes),
            *chosen.removable,
        ),
        referenced=frozenset(p for c in converted for p in c.deletes.referenced),
        starting_snapshot_id=step.start,
        **step.to.snapshot_fields,
    )


def _result(
    action: ReplaceDeletes, chosen: _Chosen, converted: Sequence[_Converted]
) -> ConvertEqualityDeletesResult:
    merged = [d for c in converted for d in c.deletes.removed_deletes]
    return ConvertEqualityDeletesResult(
        converted_equality_delete_files_count=len(chosen.removable),
        added_delete_files_count=len(action.added_deletes),
        rewritten_delete_files_count=len(merged),
        removed_data_files_count=len(action.removed),
        deleted_rows_count=sum(c.rows for c in converted),
        added_bytes_count=sum(f.size for f in action.added_deletes),
        remaining_equality_delete_files_count=chosen.remaining,
        bytes_rewritten=sum(d.size for d in (*chosen.removable, *merged)),
        bytes_removed=sum(f.file_size_in_bytes for f in action.removed),
    )


__all__ = ["ConvertEqualityDeletesResult", "convert_equality_deletes"]
