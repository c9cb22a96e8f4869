"""MERGE by Spark: target and source joined by its planner, every clause an expression of its own.

The source is staged (evaluated once); what its keys hold prunes the target. A small source is broadcast against the target, and its rows
that nothing has matched are inserted afterwards; a large one is one outer join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.catalog.names import identifier_parts
from frazil.errors import Unsupported
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, And, Between, In, IsNull, Or, Predicate, Reference
from frazil.expr.quoted import back_quoted, columns_of, columns_of_sides, refuse_columns
from frazil.ops.engine import ContextOf, Planned, RowChanges
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.spark.dml.analysed import as_input, equal_columns, expression, named, standing_for
from frazil.spark.dml.change_tasks import BY_SOURCE_DELETED, BY_SOURCE_UPDATED, DELETED, INSERTED, MATCHED, UPDATED, Report
from frazil.spark.dml.merge_clauses import ACT, FOUND, Clauses, choice
from frazil.spark.dml.row_changes import FILE, NUMBER, OPERATION, POS, ROW_ID, Job, lacking, shadow
from frazil.spark.dml.staging import ORDERED, KeyValues, StagedFrame, as_frame, folder_of, stage
from frazil.spark.host.settings import sensitivity
from frazil.spark.types.spark_types import time_enabled
from frazil.spec.schema import Schema

_SMALL = 32 << 20
"""Bytes of a staged source that is broadcast, where the session allows broadcasts at all."""
_OPERATIONS = {
    (When.MATCHED, False): UPDATED, (When.MATCHED, True): DELETED, (When.NOT_MATCHED, False): INSERTED,
    (When.NOT_MATCHED_BY_SOURCE, False): BY_SOURCE_UPDATED, (When.NOT_MATCHED_BY_SOURCE, True): BY_SOURCE_DELETED,
}  # fmt: skip


def merge(
    spark: Any,
    planned: Planned,
    source: DataFrame | StagedFrame,
    merge: Merge,
    context_of: ContextOf,
    *,
    case_sensitive: bool | None = None,
    like: DataFrame | None = None,
    checked: bool = False,
) -> RowChanges:
    """A whole MERGE. Expressions call the target by `merge.target_alias`, which may be a name of several parts, and the source by
    `merge.source_alias`. Where that is empty the source is called as `like` is, the frame that was staged, and `like.id` is its column.
    `checked`: `check` was asked already.

    Raises InvalidInput for what Spark cannot resolve, and for a target row that several source rows would change.
    """
    merge.check()
    with sensitivity(spark, case_sensitive) as sensitive:
        names = tuple(identifier_parts(merge.target_alias))
        plan = planned(AlwaysFalse())
        if not checked:
            frame = source if like is None and isinstance(source, DataFrame) else like
            check(spark, plan.schema, as_frame(spark, source, NUMBER) if frame is None else frame, merge, case_sensitive=sensitive)
        context, empty = context_of(plan), named(shadow(spark, plan.schema), names)
        job = Job(spark, plan, context, AlwaysTrue(), "merge", empty, False)
        with job.cleaned():
            source, staged = _source(spark, source, merge.source_alias, job, like)
            keys, reach = _reach(empty, source, staged, merge, plan.schema)
            plan = planned(reach)
            where = None if isinstance(reach, AlwaysTrue) else reach
            job = Job.of(spark, plan, replace(context_of(plan), write=context.write), reach, "merge", where)
            job.target, job.keys = named(job.target, names), keys
            clauses = Clauses(job.target, source, plan.schema, merge, names, sensitive, job.time)
            _Writing(job, clauses, staged).write()
            return job.finish(unique=merge.checks_cardinality)


def check(spark: Any, schema: Schema, source: DataFrame, merge: Merge, *, case_sensitive: bool | None = None) -> None:
    """Raises what `merge` would raise for its texts, names, types and functions, before the source or the table is read."""
    merge.check()
    if lacking(spark, schema) is not None:
        return  # the table cannot be read by Spark, which its reader tells
    with sensitivity(spark, case_sensitive) as sensitive:
        names = tuple(identifier_parts(merge.target_alias))
        frame = source.alias(merge.source_alias) if merge.source_alias else source
        target = named(shadow(spark, schema), names)
        _refuse_quoted_columns(merge, schema, source, sensitive)
        Clauses(target, frame, schema, merge, names, sensitive, time_enabled(spark)).check()


def _refuse_quoted_columns(merge: Merge, schema: Schema, source: DataFrame | StagedFrame, case_sensitive: bool) -> None:
    """Raises InvalidInput for columns of either side in double quotes, in any condition or value."""
    names = _full_names(source.spark_schema if isinstance(source, StagedFrame) else source.schema)
    known = {n if case_sensitive else n.lower(): sql for n, sql in names}

    def of_source(text: str) -> str | None:
        return known.get(text if case_sensitive else text.lower())

    target = columns_of(schema, case_sensitive)
    sides = [(".".join(identifier_parts(merge.target_alias)[n:]), target) for n in range(len(identifier_parts(merge.target_alias)))]
    column_of = columns_of_sides([*sides, (merge.source_alias, of_source)], case_sensitive)
    for given in (merge.on, *(v for c in merge.clauses for v in (c.condition, *(x for _, x in c.assignments)))):
        refuse_columns(given, column_of)


def _full_names(type_: s.StructType, around: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Of all columns, members of structs among them: (full name, the name in SQL)."""
    for f in type_.fields:
        parts = (*around, f.name)
        yield ".".join(parts), back_quoted(parts)
        if isinstance(f.dataType, s.StructType):
            yield from _full_names(f.dataType, parts)


def _source(
    spark: Any, source: DataFrame | StagedFrame, alias: str, job: Job, like: DataFrame | None
) -> tuple[DataFrame, StagedFrame | None]:
    """The source as a frame that may be evaluated again and again, and its staged form, where its types can be staged."""
    if not isinstance(source, StagedFrame):
        like = source if like is None else like
        try:
            source = stage(source, folder_of(job.context.write), job.context.write.storage)
        except Unsupported:
            return like.alias(alias) if alias else like, None
    frame = as_frame(spark, source, NUMBER)
    if like is None:
        return frame.alias(alias), source
    return standing_for(frame, like.alias(alias) if alias else like, alias), source


def _reach(
    target: DataFrame, source: DataFrame, staged: StagedFrame | None, merge: Merge, schema: Schema
) -> tuple[tuple[int, ...], Predicate]:
    """Ids of the target's key columns, and which of its rows matter: those that the source's keys can match, unless all do."""
    pairs = equal_columns(target, source, expression(merge.on))
    fields = [next(f for f in schema.fields if f.name == n) for n in target.columns]
    keys = tuple(fields[a].field_id for a, _, _ in pairs)
    if staged is None or merge.of(When.NOT_MATCHED_BY_SOURCE):
        return keys, AlwaysTrue()
    if not staged.rows:
        return keys, AlwaysFalse()
    parts = [
        _range(fields[a].name, staged.values.get(b), nulls)
        for a, b, nulls in pairs
        if type(source.schema.fields[b].dataType) in ORDERED and (b in staged.values or staged.values)
    ]
    return keys, AlwaysTrue() if not parts else parts[0] if len(parts) == 1 else And(*parts)


def _range(name: str, values: KeyValues | None, nulls: bool) -> Predicate:
    """`values` None: the source has only nulls in its key."""
    term = Reference(name, (name,))
    if values is None:
        return IsNull(term) if nulls else AlwaysFalse()
    if values.few is not None:
        found: Predicate = In(term, sorted(values.few))
    else:
        found = Between(term, values.low, values.high)
    return Or(found, IsNull(term)) if nulls else found


@dataclass(frozen=True)
class _Writing:
    """The first job of a MERGE. `staged`: the source's rows, where their types can be staged."""

    job: Job
    clauses: Clauses
    staged: StagedFrame | None

    @property
    def merge(self) -> Merge:
        return self.clauses.merge

    @property
    def source(self) -> DataFrame:
        return self.clauses.source

    def write(self) -> None:
        """Writes new rows and the places of old ones; in two parts when the source is small."""
        job, merge = self.job, self.merge
        on = expression(merge.on)
        inserts, others = merge.of(When.NOT_MATCHED), len(merge.clauses) - len(merge.of(When.NOT_MATCHED))
        if not others:
            self._insert(self.source.join(job.target, on, "left_anti"))
        elif self._is_small and not merge.of(When.NOT_MATCHED_BY_SOURCE):
            with as_input():
                joined = job.target.join(F.broadcast(self.source), on, "inner")
            reports = self._write(joined, merge.of(When.MATCHED), numbered=bool(inserts)) if len(job.plan) else []
            if inserts:
                self._insert(self._unmatched([r.matched for r in reports if r.matched]))
        else:
            how = {(False, False): "inner", (True, False): "right", (False, True): "left", (True, True): "full"}
            with as_input():
                found = self.source.withColumn(FOUND, F.lit(True))
                joined = job.target.join(found, on, how[bool(inserts), bool(merge.of(When.NOT_MATCHED_BY_SOURCE))])
            self._write(joined, merge.clauses)

    @property
    def _is_small(self) -> bool:
        allowed = str(self.job.spark.conf.get("spark.sql.autoBroadcastJoinThreshold", "10MB")) not in ("-1", "-1b")
        return self.staged is not None and self.staged.bytes <= _SMALL and allowed

    def _unmatched(self, matched: Sequence[bytes]) -> DataFrame:
        assert self.staged is not None
        numbers = BitMap64()
        for part in matched:
            numbers |= BitMap64.deserialize(part)
        left = as_frame(self.job.spark, self.staged, NUMBER, numbers.serialize() if numbers else b"")
        return standing_for(left, self.source, self.merge.source_alias)

    def _insert(self, frame: DataFrame) -> None:
        self._write(frame, self.merge.of(When.NOT_MATCHED), alone=True)

    def _write(self, frame: DataFrame, clauses: Sequence[Clause], *, numbered: bool = False, alone: bool = False) -> list[Report]:
        """`alone`: source rows that match nothing. `numbered`: pairs stay that no clause acts on."""
        with as_input():
            chosen = frame.withColumn(ACT, self.clauses.act(frame, clauses, alone))
            if not numbered:
                chosen = chosen.filter(F.col(ACT).isNotNull())
            operation = choice([(n, F.lit(_OPERATIONS[c.when, c.do is Do.DELETE])) for n, c in enumerate(clauses)])
            assert operation is not None
            operation = F.coalesce(operation, F.lit(MATCHED)) if numbered else operation
            marks = [F.lit(None).cast("string").alias(FILE), F.lit(None).cast("long").alias(POS)] if alone else self.job.marks()[:2]
            if self.job.context.lineage:
                marks.append(F.lit(None).cast("long").alias(ROW_ID) if alone else F.col(ROW_ID))
            writing = any(c.do is not Do.DELETE for c in clauses)
            new = self.clauses.values(frame, clauses) if writing else []
            shown = [operation.cast("byte").alias(OPERATION), *marks, *([F.col(NUMBER)] if numbered else [])]
            rows = chosen.select(*shown, *(self.job.named(new, operation) if writing else []))
        return self.job.write(rows, new_rows=writing, numbered=numbered, inserts=alone)
