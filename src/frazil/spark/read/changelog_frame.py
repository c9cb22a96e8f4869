"""Read a changelog as a DataFrame: Python tasks read the inserted and deleted rows, and window
functions over the rows' digests drop those that were only carried over from one file to another.

The driver collects no rows. Rows that may be equal are brought together by a shuffle on their
digests of 16 bytes; the rows of snapshots that only inserted or only deleted are not shuffled.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.changelog.changelog_groups import packed_tasks
from frazil.arrow.changelog.changelog_rows import changelog_rows
from frazil.arrow.changelog.read_changelog import (
    ChangelogOptions,
    ChangelogRead,
    batches_of_tasks,
    digests,
    is_mixed,
    labelled,
    with_places,
)
from frazil.arrow.values.row_digest import Digests
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.session import Session
from frazil.scan.changelog import CHANGELOG_FIELDS, ChangelogPlan, ChangelogTask, changelog_schema
from frazil.scan.options import adjusted_split_size
from frazil.spark.host.expression_text import filtered
from frazil.spark.host.workers import check_workers, parallelism
from frazil.spark.read.arrow_read import refuse_memory, table_columns, transfer_fields
from frazil.spark.read.native_read import projected
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.spark.types.spark_types import has_type, time_enabled
from frazil.spec.schema import Schema
from frazil.storage import Storage

_ROW, _KEY = "__frazil_row", "__frazil_key"
_DIGESTS = s.StructType([s.StructField(_ROW, s.BinaryType()), s.StructField(_KEY, s.BinaryType())])
_KIND_ID, _ORDINAL_ID = (f.field_id for f in CHANGELOG_FIELDS[:2])


def changelog_frame(
    spark: Session,
    plan: ChangelogPlan,
    *,
    projection: Schema,
    storage: Storage,
    options: ChangelogOptions,
    where: str | Column | Predicate | None = None,
    limit: int | None = None,
) -> DataFrame:
    """Return a lazy DataFrame of the rows of a changelog. `projection`: the columns of the
    DataFrame; `where`: a filter on any columns of the changelog, which is applied after rows that
    were only carried over have been dropped.

    Raises Unsupported for columns that Spark has no type for and for tables in this process's
    memory, NotInstalledError for workers that cannot run Frazil.
    """
    for task in plan.tasks[:1]:
        refuse_memory(task.task.file.file_path, plan.metadata.location)
    check_workers(spark)
    time = time_enabled(spark)
    columns = projection if where is None else _with_filter_columns(plan, projection, time)
    read = ChangelogRead.of(plan, columns, storage, options)
    matched_together = list(batches_of_tasks(plan, options.net))
    plain = [t for tasks in matched_together if not is_mixed(tasks) for t in tasks]
    mixed = [t for tasks in matched_together if is_mixed(tasks) for t in tasks]
    frames = []
    if mixed:
        frames.append(
            _without_carried_over(_frame(spark, plan, read, mixed, time, True), columns, options)
        )
    if plain or not mixed:
        frames.append(_frame(spark, plan, read, plain, time, False))
    frame = functools.reduce(DataFrame.unionAll, frames).select(*table_columns(spark, columns))
    if where is not None and not isinstance(where, AlwaysTrue):
        frame = projected(filtered(frame, where), columns, projection)
    return frame if limit is None else frame.limit(limit)


def _with_filter_columns(plan: ChangelogPlan, projection: Schema, time: bool) -> Schema:
    """Return the columns of the projection, unpruned, and all others that a filter may refer to and
    Spark has types for.
    """
    chosen = {f.field_id for f in projection.fields}
    return Schema(
        *(
            f
            for f in changelog_schema(plan.schema).fields
            if f.field_id in chosen or has_type(f, time)
        )
    )


def _frame(
    spark: Session,
    plan: ChangelogPlan,
    read: ChangelogRead,
    tasks: Sequence[ChangelogTask],
    time: bool,
    with_digests: bool,
) -> DataFrame:
    """Return the rows of tasks with the columns c0, c1, … of the projection and, with digests,
    `_ROW` and `_KEY` behind them.
    """
    fields = transfer_fields(read.projection, time)
    schema = s.StructType([*fields, *_DIGESTS.fields] if with_digests else fields)
    split = plan.options.split
    size = (
        adjusted_split_size(plan.total_size, parallelism(spark), split.split_size)
        if split.adaptive
        else split.split_size
    )
    groups = packed_tasks(tasks, size, split.open_file_cost)
    return over_groups(
        spark, groups, schema, __name__, "read_group", read, arrow_schema(schema), with_digests
    )


def read_group(
    _: int,
    tasks: Sequence[ChangelogTask],
    read: ChangelogRead,
    schema: pa.Schema,
    with_digests: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield, in a worker, the rows of one group of tasks."""
    for task in tasks:
        for batch in _rows_with_digests(task, read) if with_digests else _rows(task, read):
            yield fitted(batch, schema)


def _rows(task: ChangelogTask, read: ChangelogRead) -> Iterator[pa.RecordBatch]:
    context = read.context.sharing_deletes(projection=read.columns)
    for batch in changelog_rows(task, context):
        yield labelled(task, batch, read, read.columns, None)


def _rows_with_digests(task: ChangelogTask, read: ChangelogRead) -> Iterator[pa.RecordBatch]:
    """Yield the projected rows of a task with their digests. All columns of the table are read,
    since rows are equal only if all are.
    """
    context = with_places(read.context)
    whole = context.table_schema
    for batch in changelog_rows(task, context):
        rows, keys = digests(batch, context, read.options.key_ids)
        projected_rows = labelled(
            task, batch.select(range(batch.num_columns - 1)), read, whole, None
        )
        columns = [
            *projected_rows.columns,
            _binary(rows),
            pa.nulls(batch.num_rows, pa.binary()) if keys is None else _binary(keys),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])


def _binary(digest: Digests) -> pa.Array:
    """Convert digests to binary values of 16 bytes, which sort in the order of the pairs of
    numbers.
    """
    raw = np.ascontiguousarray(np.stack(digest, axis=1)).astype(">u8")
    offsets = np.arange(len(raw) + 1, dtype=np.int32) * 16
    return pa.Array.from_buffers(
        pa.binary(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
    )


def _without_carried_over(
    frame: DataFrame, projection: Schema, options: ChangelogOptions
) -> DataFrame:
    """Drop pairs of equal rows of which one is deleted and one inserted, and with key columns mark
    updates.

    The rule is that of `arrow.changelog.changelog_match`. Equal rows are counted through in the
    order of time: an insert adds 1 to a level, a delete subtracts 1. An insert stays if the level
    that it reaches is above 0 and never falls below that level again, a delete if the level that it
    reaches is below 0 and never rises above that level again. Each other row has a partner that
    undoes it.
    """
    kind, ordinal = (_column(projection, field_id) for field_id in (_KIND_ID, _ORDINAL_ID))
    together = [] if options.net else [ordinal]
    equal_rows = [*together, _ROW]
    if options.key_ids:
        equal_rows, same_key = [*together, _KEY, _ROW], [*together, _KEY]
        frame = frame.repartition(*same_key)  # one shuffle for the windows over rows and over keys
    step = F.when(F.col(kind) == "INSERT", 1).otherwise(-1)
    in_time = Window.partitionBy(*equal_rows).orderBy(ordinal, kind)
    number, level, lowest, highest = (
        f"__frazil_{column}" for column in ("number", "level", "lowest", "highest")
    )
    rows = frame.withColumn(number, F.row_number().over(in_time))
    so_far = (
        Window.partitionBy(*equal_rows)
        .orderBy(number)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    rows = rows.withColumn(level, F.sum(step).over(so_far))
    from_here = (
        Window.partitionBy(*equal_rows)
        .orderBy(F.desc(number))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    rows = rows.withColumn(lowest, F.min(level).over(from_here)).withColumn(
        highest, F.max(level).over(from_here)
    )
    inserted = (step > 0) & (F.col(level) >= 1) & (F.col(level) <= F.col(lowest))
    deleted = (step < 0) & (F.col(level) <= -1) & (F.col(level) >= F.col(highest))
    rows = rows.filter(inserted | deleted)
    if options.key_ids:
        rows = _with_updates(rows, kind, same_key)
    return rows.select(*(f"c{n}" for n in range(len(projection.fields))))


def _with_updates(frame: DataFrame, kind: str, same_key: Sequence[str]) -> DataFrame:
    """Mark as updates, per key (and snapshot, unless changes are net), as many deleted rows as
    inserted ones, in the order of their digests.
    """
    place, deleted, inserted = (f"__frazil_{column}" for column in ("place", "deleted", "inserted"))
    of_key = Window.partitionBy(*same_key)
    rows = frame.withColumn(
        place, F.row_number().over(Window.partitionBy(*same_key, kind).orderBy(_ROW))
    )
    rows = rows.withColumn(deleted, F.count(F.when(F.col(kind) == "DELETE", 1)).over(of_key))
    rows = rows.withColumn(inserted, F.count(F.when(F.col(kind) == "INSERT", 1)).over(of_key))
    is_update = F.col(place) <= F.least(deleted, inserted)
    update_kind = F.when(F.col(kind) == "INSERT", "UPDATE_AFTER").otherwise("UPDATE_BEFORE")
    return rows.withColumn(kind, F.when(is_update, update_kind).otherwise(F.col(kind)))


def _column(projection: Schema, field_id: int) -> str:
    return next(f"c{n}" for n, f in enumerate(projection.fields) if f.field_id == field_id)
