"""A changelog as a DataFrame: tasks of Spark read the rows, windows over their digests leave out those that only moved.

Nothing is collected: rows that may meet are brought together by a shuffle on 16 bytes; snapshots that only brought or only took rows are
not shuffled at all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.changelog.change_groups import packed_tasks
from frazil.arrow.changelog.changelog_rows import change_rows
from frazil.arrow.changelog.read_changelog import (
    ChangeOptions,
    ChangeRead,
    batches_of_tasks,
    digests,
    is_mixed,
    labelled,
    with_places,
)
from frazil.arrow.values.row_digest import Digests
from frazil.errors import Unsupported
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.changelog import CHANGE_FIELDS, ChangelogPlan, ChangeTask, changelog_schema
from frazil.scan.options import adjusted_split_size
from frazil.spark.host.sql_text import filtered
from frazil.spark.host.workers import check_workers, parallelism
from frazil.spark.read.native_read import has_type, projected
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema
from frazil.spark.types.fitted import fitted
from frazil.spark.types.logical import arrow_type, from_arrow
from frazil.spark.types.spark_types import spark_type, time_enabled
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.storage import Storage
from frazil.storage.locations import scheme_of

_ROW, _KEY = "__frazil_row", "__frazil_key"
_DIGESTS = s.StructType([s.StructField(_ROW, s.BinaryType()), s.StructField(_KEY, s.BinaryType())])
_KIND, _ORDINAL = (f.field_id for f in CHANGE_FIELDS[:2])


def changes_frame(
    spark: Any,
    plan: ChangelogPlan,
    *,
    projection: Schema,
    storage: Storage,
    options: ChangeOptions,
    where: str | Column | Predicate | None = None,
    limit: int | None = None,
) -> DataFrame:
    """The rows of a changelog, lazily. `projection`: columns that come out; `where`: a filter on any of its columns, decided last.

    Raises Unsupported for columns that Spark has no type for, and for tables in this process's memory.
    """
    for task in plan.tasks[:1]:
        if scheme_of(task.task.file.file_path) == "memory":
            text = "A table in memory: lives in this process; Spark's workers cannot see it."
            raise Unsupported(text, hint="Use to_arrow().", table=plan.metadata.location)
    check_workers(spark)
    time = time_enabled(spark)
    wanted = projection if where is None else _wider(plan, projection, time)
    read = ChangeRead.of(plan, wanted, storage, options)
    together = list(batches_of_tasks(plan, options.net))
    plain = [t for tasks in together if not is_mixed(tasks) for t in tasks]
    mixed = [t for tasks in together if is_mixed(tasks) for t in tasks]
    frames = []
    if mixed:
        frames.append(_staying(_frame(spark, plan, read, mixed, time, True), wanted, options))
    if plain or not mixed:
        frames.append(_frame(spark, plan, read, plain, time, False))
    frame = _shown(functools.reduce(DataFrame.unionAll, frames), wanted)
    if where is not None and not isinstance(where, AlwaysTrue):
        frame = projected(filtered(frame, where), wanted, projection)
    return frame if limit is None else frame.limit(limit)


def _wider(plan: ChangelogPlan, projection: Schema, time: bool) -> Schema:
    """What comes out and all else that a filter may look at, whole."""
    chosen = {f.field_id for f in projection.fields}
    return Schema(*(f for f in changelog_schema(plan.schema).fields if f.field_id in chosen or has_type(f, time)))


def _frame(spark: Any, plan: ChangelogPlan, read: ChangeRead, tasks: Sequence[ChangeTask], time: bool, with_digests: bool) -> DataFrame:
    """Columns c0, c1, … of the projection; with digests, these behind them."""
    fields = [s.StructField(f"c{n}", spark_type(arrow_type(f.field_type), f.name, time=time)) for n, f in enumerate(read.projection.fields)]
    schema = s.StructType([*fields, *_DIGESTS.fields] if with_digests else fields)
    split = plan.options.split
    size = adjusted_split_size(plan.total_size, parallelism(spark), split.split_size) if split.adaptive else split.split_size
    groups = packed_tasks(tasks, size, split.open_file_cost)
    return over_groups(spark, groups, schema, __name__, "read_group", read, arrow_schema(schema), with_digests)


def read_group(_: int, tasks: Sequence[ChangeTask], read: ChangeRead, schema: pa.Schema, with_digests: bool) -> Iterator[pa.RecordBatch]:
    """The worker's side: the rows of one group of tasks."""
    for task in tasks:
        for batch in _with_digests(task, read) if with_digests else _plain(task, read):
            yield fitted(batch, schema)


def _plain(task: ChangeTask, read: ChangeRead) -> Iterator[pa.RecordBatch]:
    context = read.context.with_projection(read.columns)
    for batch in change_rows(task, context):
        yield labelled(task, batch, read, read.columns, None)


def _with_digests(task: ChangeTask, read: ChangeRead) -> Iterator[pa.RecordBatch]:
    """All columns are read, since rows are the same only if all are; those that were asked for come out."""
    context = with_places(read.context)
    whole = context.table_schema
    for batch in change_rows(task, context):
        rows, keys = digests(batch, context, read.options.key_ids)
        found = labelled(task, batch.select(range(batch.num_columns - 1)), read, whole, None)
        columns = [*found.columns, _binary(rows), pa.nulls(batch.num_rows, pa.binary()) if keys is None else _binary(keys)]
        yield pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])


def _binary(digest: Digests) -> pa.Array:
    """Bytes that sort as the pair of numbers does."""
    raw = np.ascontiguousarray(np.stack(digest, axis=1)).astype(">u8")
    offsets = np.arange(len(raw) + 1, dtype=np.int32) * 16
    return pa.Array.from_buffers(pa.binary(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(raw)])


def _staying(frame: DataFrame, wanted: Schema, options: ChangeOptions) -> DataFrame:
    """Without rows that equal rows take out (as arrow.changelog_match has it: brackets in the order of time), updates told by keys."""
    kind, ordinal = (_column(wanted, i) for i in (_KIND, _ORDINAL))
    group = [_ROW] if options.net else [ordinal, _ROW]
    if options.key_ids:
        group = [ordinal, _KEY, _ROW]
        frame = frame.repartition(ordinal, _KEY)  # serves both windows
    step = F.when(F.col(kind) == "INSERT", 1).otherwise(-1)
    order = Window.partitionBy(*group).orderBy(ordinal, kind)
    number, level, lowest, highest = (f"__frazil_{x}" for x in ("number", "level", "lowest", "highest"))
    found = frame.withColumn(number, F.row_number().over(order))
    so_far = Window.partitionBy(*group).orderBy(number).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = found.withColumn(level, F.sum(step).over(so_far))
    back = Window.partitionBy(*group).orderBy(F.desc(number)).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = found.withColumn(lowest, F.min(level).over(back)).withColumn(highest, F.max(level).over(back))
    up = (step > 0) & (F.col(level) >= 1) & (F.col(level) <= F.col(lowest))
    down = (step < 0) & (F.col(level) <= -1) & (F.col(level) >= F.col(highest))
    found = found.filter(up | down)
    if options.key_ids:
        found = _with_updates(found, kind, ordinal)
    return found.select(*(f"c{n}" for n in range(len(wanted.fields))))


def _with_updates(frame: DataFrame, kind: str, ordinal: str) -> DataFrame:
    """Of each key as many going rows as coming ones are updates, by their digests."""
    place, went, came = (f"__frazil_{x}" for x in ("place", "went", "came"))
    same_key = Window.partitionBy(ordinal, _KEY)
    found = frame.withColumn(place, F.row_number().over(Window.partitionBy(ordinal, _KEY, kind).orderBy(_ROW)))
    found = found.withColumn(went, F.count(F.when(F.col(kind) == "DELETE", 1)).over(same_key))
    found = found.withColumn(came, F.count(F.when(F.col(kind) == "INSERT", 1)).over(same_key))
    updated = F.col(place) <= F.least(went, came)
    after = F.when(F.col(kind) == "INSERT", "UPDATE_AFTER").otherwise("UPDATE_BEFORE")
    return found.withColumn(kind, F.when(updated, after).otherwise(F.col(kind)))


def _column(wanted: Schema, field_id: int) -> str:
    return next(f"c{n}" for n, f in enumerate(wanted.fields) if f.field_id == field_id)


def _shown(frame: DataFrame, wanted: Schema) -> DataFrame:
    return frame.select(*(_named(F.col(f"c{n}"), f) for n, f in enumerate(wanted.fields)))


def _named(column: Column, f: NestedField) -> Column:
    return from_arrow(column, f.field_type).alias(f.name, metadata={"comment": f.doc} if f.doc else {})
