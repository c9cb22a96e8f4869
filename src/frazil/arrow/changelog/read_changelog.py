"""Read the rows of a changelog as Arrow, each with its change type, ordinal and snapshot; rows that
were only carried over are left out.

A snapshot that only inserted or only deleted rows is read once. Any other takes two passes: the
first computes a digest per row and matches them (`changelog_match`), the second reads the rows that
stay. Memory is bounded by the batches of a read, the budget for digests (beyond it they go to
disk), and two bits per row of the snapshot's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.changelog.changelog_match import BUDGET, Matcher, Verdict
from frazil.arrow.changelog.changelog_rows import changelog_rows
from frazil.arrow.deletes.delete_files import key_column
from frazil.arrow.read.read_context import ReadContext, ReadOptions
from frazil.arrow.read.read_tasks import batch_of
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.values.evaluate import evaluate
from frazil.arrow.values.row_digest import Digests, row_digests
from frazil.errors import CorruptData
from frazil.expr.bound import Bound, references
from frazil.scan.changelog import CHANGELOG_FIELDS, ChangelogPlan, ChangelogTask
from frazil.spec.schema import POS_ID, Schema
from frazil.spec.types import LongType, NestedField, children
from frazil.storage.base import Storage
from frazil.tasks.in_order import InOrder, default_workers

_CHANGELOG_IDS = frozenset(f.field_id for f in CHANGELOG_FIELDS)
_POS = NestedField(POS_ID, "_pos", LongType(), True)


@dataclass(frozen=True)
class ChangelogOptions:
    """Hold the options of a changelog.

    `net`: rows that were inserted and deleted again within the whole range are left out, too.
    `key_ids`: field ids of the columns that identify a row; a DELETE and an INSERT of the same key
    become UPDATE_BEFORE and UPDATE_AFTER; () pairs nothing. `budget`: bytes of digests in memory.
    """

    net: bool = False
    key_ids: tuple[int, ...] = ()
    budget: int = BUDGET


@dataclass(frozen=True)
class ChangelogRead:
    """Hold what reading changelog tasks needs; frozen and picklable, so that it travels with them.

    `projection`: the wanted columns, those of the changelog among them. `after`: a filter, bound to
    the columns of the table and of the changelog, that is applied to the matched rows (a filter of
    the plan is applied before rows are matched).
    """

    context: ReadContext
    projection: Schema
    options: ChangelogOptions = field(default_factory=ChangelogOptions)
    after: Bound | None = None

    @classmethod
    def of(
        cls,
        plan: ChangelogPlan,
        projection: Schema,
        storage: Storage,
        options: ChangelogOptions,
        after: Bound | None = None,
        read: ReadOptions | None = None,
    ) -> ChangelogRead:
        context = ReadContext.of(plan, plan.schema, storage, read)
        return cls(context, projection, options, after)

    @property
    def columns(self) -> Schema:
        """List the table's columns that are projected or filtered by."""
        wanted = [f for f in self.projection.fields if f.field_id not in _CHANGELOG_IDS]
        if self.after is None:
            return Schema(*wanted)
        table = self.context.table_schema
        more = [i for i in references(self.after) if i not in _CHANGELOG_IDS]
        return table.project({*(i for f in wanted for i in _whole(f)), *more})


def _whole(f: NestedField) -> Iterator[int]:
    """List the ids of a field's leaves, whose projection is the whole field."""
    inner = children(f.field_type)
    if not inner:
        yield f.field_id
    for c in inner:
        yield from _whole(c)


def read_changelog(
    plan: ChangelogPlan, read: ChangelogRead, *, limit: int | None = None
) -> pa.RecordBatchReader:
    """Read the rows of a changelog as a stream, oldest snapshot first (net changes: all snapshots
    together).
    """
    batches = (
        batch
        for tasks in batches_of_tasks(plan, read.options.net)
        for batch in read_together(tasks, read)
    )
    return pa.RecordBatchReader.from_batches(
        to_arrow_schema(read.projection), _limited(batches, limit)
    )


def batches_of_tasks(plan: ChangelogPlan, net: bool) -> Iterator[tuple[ChangelogTask, ...]]:
    """Group the tasks whose rows are matched with each other: those of one snapshot, for net
    changes those of all.
    """
    if net:
        yield plan.tasks
    else:
        yield from (s.tasks for s in plan.snapshots)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            if left > 0:
                yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


def count_changelog(plan: ChangelogPlan, read: ChangelogRead) -> int:
    """Count the rows of a changelog: from the manifests where whole files were added or removed, by
    reading elsewhere.
    """
    if read.after is not None:
        return sum(b.num_rows for b in read_changelog(plan, read))
    rows, empty = 0, read.context.sharing_deletes(projection=Schema())
    for tasks in batches_of_tasks(plan, read.options.net):
        if is_mixed(tasks):
            with _matched(tasks, read) as matcher:
                matcher.verdicts()
                rows += matcher.staying
            continue
        rows += sum(t.rows_at_most for t in tasks if t.is_whole)
        for _, batch in _in_order(
            [t for t in tasks if not t.is_whole], lambda t: changelog_rows(t, empty), empty.options
        ):
            rows += batch.num_rows
    return rows


def is_mixed(tasks: Sequence[ChangelogTask]) -> bool:
    """Tell whether some tasks insert and some delete, so that their rows must be matched."""
    return len({t.inserted for t in tasks}) > 1


def read_together(tasks: Sequence[ChangelogTask], read: ChangelogRead) -> Iterator[pa.RecordBatch]:
    """Read the rows that stay of tasks whose rows are matched with each other."""
    verdicts: list[Verdict] | None = None
    if is_mixed(tasks):
        with _matched(tasks, read) as matcher:
            verdicts = matcher.verdicts()
    columns = read.columns
    context = read.context.sharing_deletes(
        projection=Schema(*columns.fields, _POS) if verdicts else columns
    )
    for number, batch in _in_order(tasks, lambda t: changelog_rows(t, context), context.options):
        rows = labelled(tasks[number], batch, read, columns, verdicts[number] if verdicts else None)
        if rows.num_rows:
            yield rows


def _matched(tasks: Sequence[ChangelogTask], read: ChangelogRead) -> Matcher:
    options, context = read.options, with_places(read.context)
    rows_of = [t.task.file.record_count for t in tasks]
    matcher = Matcher(
        [t.inserted for t in tasks],
        [t.ordinal for t in tasks],
        rows_of,
        bool(options.key_ids),
        options.budget,
    )
    for number, batch in _in_order(tasks, lambda t: changelog_rows(t, context), context.options):
        rows, keys = digests(batch, context, options.key_ids)
        places = batch.column(batch.num_columns - 1).to_numpy()
        if len(places) and int(places[-1]) >= rows_of[number]:
            file = tasks[number].task.file
            text = f"{file.file_path} holds more rows than its manifest entry says ({file.record_count})."
            raise CorruptData(text, file=file.file_path)
        matcher.add(number, places, rows, keys)
    return matcher


def with_places(context: ReadContext) -> ReadContext:
    """Project all columns of the table, followed by each row's position in its file."""
    return context.sharing_deletes(projection=Schema(*context.table_schema.fields, _POS))


def digests(
    batch: pa.RecordBatch, context: ReadContext, key_ids: Sequence[int]
) -> tuple[Digests, Digests | None]:
    """Compute the digests of a batch's rows and, with key columns, of their keys; the batch begins
    with all columns of the table.
    """
    fields = context.table_schema.fields
    columns = batch.columns[: len(fields)]
    rows = row_digests(columns, batch.num_rows)
    if not key_ids:
        return rows, None
    return rows, row_digests([key_column(columns, fields, i) for i in key_ids], batch.num_rows)


def labelled(
    task: ChangelogTask,
    batch: pa.RecordBatch,
    read: ChangelogRead,
    columns: Schema,
    verdict: Verdict | None,
) -> pa.RecordBatch:
    """Add the columns of the changelog to the rows that stay, then filter and project them.

    With a verdict, the last column of the batch is the position of each row.
    """
    kinds = pa.repeat("INSERT" if task.inserted else "DELETE", batch.num_rows)
    if verdict is not None:
        places = batch.column(batch.num_columns - 1).to_numpy()
        stays = pa.array(verdict.stays.get(places))
        updated = pa.array(verdict.updates.get(places))
        kinds = pc.if_else(
            updated, "UPDATE_AFTER" if task.inserted else "UPDATE_BEFORE", kinds
        ).filter(stays)
        batch = (
            batch.select(range(batch.num_columns - 1)).filter(stays)
            if batch.num_columns > 1
            else batch.filter(stays)
        )
    count = len(kinds)
    facts = {
        CHANGELOG_FIELDS[0].field_id: kinds,
        CHANGELOG_FIELDS[1].field_id: pa.repeat(pa.scalar(task.ordinal, pa.int32()), count),
        CHANGELOG_FIELDS[2].field_id: pa.repeat(pa.scalar(task.snapshot_id, pa.int64()), count),
    }
    own = {field.field_id: batch.column(n) for n, field in enumerate(columns.fields)}
    matching = _matching(read, columns, own, facts, count)
    schema, shown_columns = to_arrow_schema(read.projection), []
    for projected, shown in zip(read.projection.fields, schema, strict=True):
        column = (
            facts[projected.field_id] if projected.field_id in facts else own[projected.field_id]
        )
        column = column if matching is None else column.filter(matching)
        # The filter may have needed more fields of a struct than are shown.
        shown_columns.append(column if column.type.equals(shown.type) else column.cast(shown.type))
    return batch_of(shown_columns, schema, count)


def _matching(
    read: ChangelogRead,
    columns: Schema,
    own: dict[int, pa.Array],
    facts: dict[int, pa.Array],
    count: int,
) -> pa.BooleanArray | None:
    """Tell which rows match the filter on the columns of the changelog; None: all."""
    if read.after is None:
        return None
    fields = Schema(*columns.fields, *CHANGELOG_FIELDS)
    batch = pa.RecordBatch.from_arrays(
        [*own.values(), *facts.values()], names=[f.name for f in fields.fields]
    )
    names = {i: f.name for i, f in fields.by_id.items()}
    paths = {i: (*(names[p] for p in fields.parents[i]), names[i]) for i in references(read.after)}
    return pc.fill_null(evaluate(read.after, batch, paths), False)


def _in_order(
    tasks: Sequence[ChangelogTask],
    produce: Callable[[ChangelogTask], Iterator[pa.RecordBatch]],
    options: ReadOptions,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read tasks by several threads; yields (number of the task, batch) in the order of the tasks."""
    workers = options.workers or default_workers()

    def numbered(unit: tuple[int, ChangelogTask]) -> Iterator[tuple[int, pa.RecordBatch]]:
        yield from ((unit[0], batch) for batch in produce(unit[1]))

    if workers <= 1 or len(tasks) < 2:
        for unit in enumerate(tasks):
            yield from numbered(unit)
        return
    yield from InOrder(
        enumerate(tasks),
        numbered,
        workers=workers,
        budget=options.memory,
        size=lambda r: r[1].nbytes + 1024,
    )
