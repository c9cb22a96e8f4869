"""A changelog's rows as Arrow: tasks read, rows that went and came again the same left out, each row with what became of it.

Where a snapshot only brought or only took rows, these are read once and handed on. Else two passes: the first holds a digest and the place
of each row (`changelog_match`), the second reads the rows that stay. Memory: the batches of a read, the digests within their budget (beyond
it on disk), two bits for each row of the files of a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.changelog.changelog_match import BUDGET, Matcher, Verdict
from frazil.arrow.changelog.changelog_rows import change_rows
from frazil.arrow.deletes.delete_files import key_column
from frazil.arrow.read.read_context import ReadContext, ReadOptions
from frazil.arrow.read.read_tasks import batch_of
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.values.evaluate import evaluate
from frazil.arrow.values.row_digest import Digests, row_digests
from frazil.errors import CorruptData
from frazil.expr.bound import Bound, references
from frazil.scan.changelog import CHANGE_FIELDS, ChangelogPlan, ChangeTask
from frazil.spec.schema import POS_ID, Schema
from frazil.spec.types import LongType, NestedField, children
from frazil.storage.base import Storage
from frazil.tasks.in_order import InOrder, default_workers

_CHANGE_IDS = frozenset(f.field_id for f in CHANGE_FIELDS)
_POS = NestedField(POS_ID, "_pos", LongType(), True)


@dataclass(frozen=True)
class ChangeOptions:
    """`net`: rows that came and went within the whole range are left out as well. `key_ids`: columns (field ids) whose rows are the same
    logical row: a DELETE and an INSERT of one become UPDATE_BEFORE and UPDATE_AFTER; () without. `budget`: bytes for digests in memory."""

    net: bool = False
    key_ids: tuple[int, ...] = ()
    budget: int = BUDGET


@dataclass(frozen=True)
class ChangeRead:
    """What reading tasks needs beside them; frozen and picklable.

    `projection`: the columns that come out, those of the changelog among them. `after`: a filter, bound to the table's columns and the
    changelog's, that is decided last (one on the plan's tasks was decided before rows were matched).
    """

    context: ReadContext
    projection: Schema
    options: ChangeOptions = field(default_factory=ChangeOptions)
    after: Bound | None = None

    @classmethod
    def of(
        cls, plan: ChangelogPlan, projection: Schema, storage: Storage, options: ChangeOptions, after: Bound | None = None,
        read: ReadOptions | None = None,
    ) -> ChangeRead:  # fmt: skip
        context = ReadContext.of(plan, plan.schema, storage, read)
        return cls(context, projection, options, after)

    @property
    def columns(self) -> Schema:
        """Columns of the table that come out or are filtered by."""
        wanted = [f for f in self.projection.fields if f.field_id not in _CHANGE_IDS]
        if self.after is None:
            return Schema(*wanted)
        table = self.context.table_schema
        more = [i for i in references(self.after) if i not in _CHANGE_IDS]
        return table.project({*(i for f in wanted for i in _whole(f)), *more})


def _whole(f: NestedField) -> Iterator[int]:
    """Ids that project to the field as it is."""
    inner = children(f.field_type)
    if not inner:
        yield f.field_id
    for c in inner:
        yield from _whole(c)


def read_changes(plan: ChangelogPlan, read: ChangeRead, *, limit: int | None = None) -> pa.RecordBatchReader:
    """The rows, oldest snapshot first (net changes: all together). Streams."""
    batches = (batch for tasks in batches_of_tasks(plan, read.options.net) for batch in read_together(tasks, read))
    return pa.RecordBatchReader.from_batches(to_arrow_schema(read.projection), _limited(batches, limit))


def batches_of_tasks(plan: ChangelogPlan, net: bool) -> Iterator[tuple[ChangeTask, ...]]:
    """Tasks whose rows may meet."""
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


def count_changes(plan: ChangelogPlan, read: ChangeRead) -> int:
    """How many rows: from the manifests where files came or went whole."""
    if read.after is not None:
        return sum(b.num_rows for b in read_changes(plan, read))
    found, empty = 0, read.context.with_projection(Schema())
    for tasks in batches_of_tasks(plan, read.options.net):
        if is_mixed(tasks):
            with _matched(tasks, read) as matcher:
                matcher.verdicts()
                found += matcher.kept
            continue
        found += sum(t.rows_at_most for t in tasks if t.is_whole)
        for _, batch in _in_order([t for t in tasks if not t.is_whole], lambda t: change_rows(t, empty), empty.options):
            found += batch.num_rows
    return found


def is_mixed(tasks: Sequence[ChangeTask]) -> bool:
    return len({t.inserted for t in tasks}) > 1


def read_together(tasks: Sequence[ChangeTask], read: ChangeRead) -> Iterator[pa.RecordBatch]:
    """The rows that stay of tasks whose rows may meet."""
    verdicts: list[Verdict] | None = None
    if is_mixed(tasks):
        with _matched(tasks, read) as matcher:
            verdicts = matcher.verdicts()
    columns = read.columns
    context = read.context.with_projection(Schema(*columns.fields, _POS) if verdicts else columns)
    for number, batch in _in_order(tasks, lambda t: change_rows(t, context), context.options):
        found = labelled(tasks[number], batch, read, columns, verdicts[number] if verdicts else None)
        if found.num_rows:
            yield found


def _matched(tasks: Sequence[ChangeTask], read: ChangeRead) -> Matcher:
    options, context = read.options, with_places(read.context)
    rows_of = [t.task.file.record_count for t in tasks]
    matcher = Matcher([t.inserted for t in tasks], [t.ordinal for t in tasks], rows_of, bool(options.key_ids), options.budget)
    for number, batch in _in_order(tasks, lambda t: change_rows(t, context), context.options):
        rows, keys = digests(batch, context, options.key_ids)
        places = batch.column(batch.num_columns - 1).to_numpy()
        if len(places) and int(places[-1]) >= rows_of[number]:
            file = tasks[number].task.file
            raise CorruptData(f"{file.file_path} holds more rows than the {file.record_count} of its manifest.", file=file.file_path)
        matcher.add(number, places, rows, keys)
    return matcher


def with_places(context: ReadContext) -> ReadContext:
    """All columns of the table, and behind them each row's place."""
    return context.with_projection(Schema(*context.table_schema.fields, _POS))


def digests(batch: pa.RecordBatch, context: ReadContext, key_ids: Sequence[int]) -> tuple[Digests, Digests | None]:
    """Of a batch that begins with all columns of the table: of its rows, and of their keys."""
    fields = context.table_schema.fields
    columns = batch.columns[: len(fields)]
    rows = row_digests(columns, batch.num_rows)
    if not key_ids:
        return rows, None
    return rows, row_digests([key_column(columns, fields, i) for i in key_ids], batch.num_rows)


def labelled(task: ChangeTask, batch: pa.RecordBatch, read: ChangeRead, columns: Schema, verdict: Verdict | None) -> pa.RecordBatch:
    """The rows that stay, with the columns of the changelog, filtered and projected. With a verdict, places are the last column."""
    kinds = pa.repeat("INSERT" if task.inserted else "DELETE", batch.num_rows)
    if verdict is not None:
        places = batch.column(batch.num_columns - 1).to_numpy()
        stays = pa.array(verdict.stays.of(places))
        updated = pa.array(verdict.updates.of(places))
        kinds = pc.if_else(updated, "UPDATE_AFTER" if task.inserted else "UPDATE_BEFORE", kinds).filter(stays)
        batch = batch.select(range(batch.num_columns - 1)).filter(stays) if batch.num_columns > 1 else batch.filter(stays)
    count = len(kinds)
    facts = {
        CHANGE_FIELDS[0].field_id: kinds, CHANGE_FIELDS[1].field_id: pa.repeat(pa.scalar(task.ordinal, pa.int32()), count),
        CHANGE_FIELDS[2].field_id: pa.repeat(pa.scalar(task.snapshot_id, pa.int64()), count),
    }  # fmt: skip
    own = {f.field_id: batch.column(n) for n, f in enumerate(columns.fields)}
    kept = _kept(read, columns, own, facts, count)
    schema, made = to_arrow_schema(read.projection), []
    for f, shown in zip(read.projection.fields, schema, strict=True):
        column = facts[f.field_id] if f.field_id in facts else own[f.field_id]
        column = column if kept is None else column.filter(kept)
        made.append(column if column.type.equals(shown.type) else column.cast(shown.type))  # a filter looked at more of a struct
    return batch_of(made, schema, count)


def _kept(read: ChangeRead, columns: Schema, own: dict[int, pa.Array], facts: dict[int, pa.Array], count: int) -> pa.BooleanArray | None:
    if read.after is None:
        return None
    held = Schema(*columns.fields, *CHANGE_FIELDS)
    batch = pa.RecordBatch.from_arrays([*own.values(), *facts.values()], names=[f.name for f in held.fields])
    names = {i: f.name for i, f in held.by_id.items()}
    paths = {i: (*(names[p] for p in held.parents[i]), names[i]) for i in references(read.after)}
    return pc.fill_null(evaluate(read.after, batch, paths), False)


def _in_order(
    tasks: Sequence[ChangeTask], produce: Callable[[ChangeTask], Iterator[pa.RecordBatch]], options: ReadOptions
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the task, batch), in the order of the tasks; read by several threads."""
    workers = options.workers or default_workers()

    def numbered(unit: tuple[int, ChangeTask]) -> Iterator[tuple[int, pa.RecordBatch]]:
        yield from ((unit[0], batch) for batch in produce(unit[1]))

    if workers <= 1 or len(tasks) < 2:
        for unit in enumerate(tasks):
            yield from numbered(unit)
        return
    yield from InOrder(enumerate(tasks), numbered, workers=workers, budget=options.memory, size=lambda r: r[1].nbytes + 1024)
