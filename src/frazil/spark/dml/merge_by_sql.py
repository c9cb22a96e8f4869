"""Run a MERGE by Spark SQL: Spark's planner joins target and source, and evaluates the conditions
and values of all clauses.

The source is staged first, so that it is evaluated once: a source with random or changing results
would otherwise differ between the pruning, the matches and the inserts. The values of its keys then
prune the target. A small source is broadcast against the target, and its rows that match nothing
are inserted by a second write; a large source is joined once, by an outer join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.catalog.names import identifier_parts
from frazil.errors import Unsupported
from frazil.expr.double_quotes import columns_of, columns_of_sides, refuse_columns
from frazil.expr.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    Between,
    In,
    IsNull,
    Or,
    Predicate,
    Reference,
)
from frazil.expr.sql_text import back_quoted
from frazil.ops.engine import ContextOf, Planned, RowChanges
from frazil.ops.session import Session
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.spark.dml.analysis import (
    as_input,
    columns_at,
    equal_columns,
    expression,
    named,
    standing_for,
)
from frazil.spark.dml.change_tasks import (
    BY_SOURCE_DELETED,
    BY_SOURCE_UPDATED,
    DELETED,
    INSERTED,
    MATCHED,
    UPDATED,
    TaskReport,
)
from frazil.spark.dml.merge_clauses import ACT, FOUND, Clauses, choices
from frazil.spark.dml.row_changes import (
    FILE,
    NUMBER,
    OPERATION,
    POS,
    ROW_ID,
    Job,
    lacking,
    metadata_columns_in,
    shadow,
    with_files,
)
from frazil.spark.dml.small_source import CollectedFrame
from frazil.spark.dml.staging import ORDERED, KeyValues, StagedFrame, as_frame, folder_of, stage
from frazil.spark.dml.subquery_values import evaluated
from frazil.spark.host.jvm import setting
from frazil.spark.host.settings import sensitivity
from frazil.spark.types.spark_types import time_enabled
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema

KeyPairs = list[tuple[int, int, bool]]
_SMALL = 32 << 20
"""The bytes of a staged source that is broadcast, at most, where the session allows broadcasts at
all.
"""
_OPERATIONS = {
    (When.MATCHED, False): UPDATED, (When.MATCHED, True): DELETED, (When.NOT_MATCHED, False): INSERTED,
    (When.NOT_MATCHED_BY_SOURCE, False): BY_SOURCE_UPDATED, (When.NOT_MATCHED_BY_SOURCE, True): BY_SOURCE_DELETED,
}  # fmt: skip


def merge(
    spark: Session,
    planned: Planned,
    source: DataFrame | StagedFrame | CollectedFrame,
    merge: Merge,
    context_of: ContextOf,
    *,
    case_sensitive: bool | None = None,
    like: DataFrame | None = None,
    checked: bool = False,
) -> RowChanges:
    """Run a MERGE and return its row changes, which are not committed yet.

    Expressions call the target by `merge.target_alias`, which may be a name of several parts, and
    the source by `merge.source_alias`. Where that is empty, the names of `like`, the frame that was
    staged, apply, and `like.id` is a column of the source. `checked`: `check` has passed already.

    Raises InvalidInput for what Spark cannot resolve, and for a target row that several source rows
    match.
    """
    merge.check()
    with sensitivity(spark, case_sensitive) as sensitive:
        names = tuple(identifier_parts(merge.target_alias))
        plan = planned(AlwaysFalse())
        extra = metadata_columns_in(merge.words, plan.metadata)
        if not checked:
            frame = source if like is None and isinstance(source, DataFrame) else like
            if frame is None:
                # rows that were collected are given with their frame
                assert isinstance(source, StagedFrame)
                frame = as_frame(spark, source, NUMBER)
            check(spark, plan.metadata, frame, merge, case_sensitive=sensitive)
        if (values := evaluated(spark, merge.words)) is not None:
            merge = merge.with_words(values)
        context, empty = context_of(plan), named(shadow(spark, plan.schema, extra), names)
        job = Job(spark, plan, context, AlwaysTrue(), "merge", empty, False)
        with job.cleaned():
            source, staged = _source(spark, source, merge.source_alias, job, like)
            pairs = equal_columns(empty, source, expression(merge.on))
            keys, reach = _reach(pairs, empty, source, staged, merge, plan.schema)
            plan = with_files(planned(reach), _files(pairs, empty, staged, merge, plan.schema))
            where = None if isinstance(reach, AlwaysTrue) else reach
            context = replace(context_of(plan), write=context.write)
            job = Job.of(spark, plan, context, reach, "merge", where, extra=extra)
            job.target, job.keys = named(job.target, names), keys
            job.reads_table = values is not None
            clauses = Clauses(job.target, source, plan.schema, merge, names, sensitive, job.time)
            repeats = merge.may_pass_over_matches and (staged is None or _repeats(source, pairs))
            _Writing(job, clauses, staged, repeats).write()
            return job.finish(unique=merge.checks_cardinality)


def check(
    spark: Session,
    metadata: TableMetadata,
    source: DataFrame,
    merge: Merge,
    *,
    case_sensitive: bool | None = None,
) -> None:
    """Check the texts, names, types and functions of a MERGE before the source or the table is
    read. Raises what `merge` would raise.
    """
    merge.check()
    schema, extra = metadata.schema(), metadata_columns_in(merge.words, metadata)
    if lacking(spark, schema) is not None:
        return  # Spark cannot read the table, which its reader will report
    with sensitivity(spark, case_sensitive) as sensitive:
        names = tuple(identifier_parts(merge.target_alias))
        frame = source.alias(merge.source_alias) if merge.source_alias else source
        target = named(shadow(spark, schema, extra), names)
        _refuse_quoted_columns(merge, schema, source)
        Clauses(target, frame, schema, merge, names, sensitive, time_enabled(spark)).check()


def _refuse_quoted_columns(merge: Merge, schema: Schema, source: DataFrame | StagedFrame) -> None:
    """Raise InvalidInput for columns of either side in double quotes, in any condition or value."""
    names = list(
        _full_names(source.spark_schema if isinstance(source, StagedFrame) else source.schema)
    )
    exact, any_case = dict(names), {n.lower(): sql for n, sql in names}

    def of_source(text: str) -> str | None:
        return exact.get(text) or any_case.get(text.lower())

    target = columns_of(schema)
    sides = [
        (".".join(identifier_parts(merge.target_alias)[n:]), target)
        for n in range(len(identifier_parts(merge.target_alias)))
    ]
    column_of = columns_of_sides([*sides, (merge.source_alias, of_source)])
    for value in (
        merge.on,
        *(v for c in merge.clauses for v in (c.condition, *(x for _, x in c.assignments))),
    ):
        refuse_columns(value, column_of)


def _full_names(type_: s.StructType, around: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield (full name, name in SQL) of all columns, members of structs included."""
    for f in type_.fields:
        parts = (*around, f.name)
        yield ".".join(parts), back_quoted(parts)
        if isinstance(f.dataType, s.StructType):
            yield from _full_names(f.dataType, parts)


def _source(
    spark: Session,
    source: DataFrame | StagedFrame | CollectedFrame,
    alias: str,
    job: Job,
    like: DataFrame | None,
) -> tuple[DataFrame, StagedFrame | None]:
    """Return the source as a frame that can be evaluated repeatedly, and its staged form; None
    where a type of it cannot be staged.
    """
    if isinstance(source, CollectedFrame):
        source = source.staged(folder_of(job.context.write), job.context.write.storage)
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


def _repeats(source: DataFrame, pairs: KeyPairs) -> bool:
    """Tell whether several source rows may match one row of the target: ON equates no key of the
    source, or one that occurs more than once.
    """
    if not pairs:
        return True
    columns = columns_at(source, [b for _, b, _ in pairs])
    keys = source.select(*(column.alias(f"k{n}") for n, column in enumerate(columns)))
    if matching := [f"k{n}" for n, (_, _, nulls) in enumerate(pairs) if not nulls]:
        keys = keys.dropna(subset=matching)
    return not keys.groupBy(*keys.columns).count().filter("count > 1").isEmpty()


def _reach(
    pairs: KeyPairs,
    target: DataFrame,
    source: DataFrame,
    staged: StagedFrame | None,
    merge: Merge,
    schema: Schema,
) -> tuple[tuple[int, ...], Predicate]:
    """Return the field ids of the target's key columns, and a predicate for the target rows that
    the source's keys can match. `pairs`: the columns that ON equates, metadata columns among them.
    """
    by_name = {f.name: f for f in schema.fields}
    fields = [by_name[n] for n in target.columns if n in by_name]
    pairs = [pair for pair in pairs if pair[0] < len(fields)]
    keys = tuple(fields[a].field_id for a, _, _ in pairs)
    if staged is None or merge.of(When.NOT_MATCHED_BY_SOURCE):
        return keys, AlwaysTrue()
    if not staged.rows:
        return keys, AlwaysFalse()
    parts = [
        _range(fields[a].name, staged.values.get(b), nulls)
        for a, b, nulls in pairs
        if type(source.schema.fields[b].dataType) in ORDERED
        and (b in staged.values or staged.values)
    ]
    return keys, AlwaysTrue() if not parts else parts[0] if len(parts) == 1 else And(*parts)


def _files(
    pairs: KeyPairs,
    target: DataFrame,
    staged: StagedFrame | None,
    merge: Merge,
    schema: Schema,
) -> Iterator[Predicate]:
    """Yield predicates of metadata columns for the target rows that the source's keys can match."""
    if staged is None or merge.of(When.NOT_MATCHED_BY_SOURCE):
        return
    own, columns = {f.name for f in schema.fields}, target.columns
    for a, b, nulls in pairs:
        if columns[a] not in own and b in staged.values:
            yield _range(columns[a], staged.values[b], nulls)


def _range(name: str, values: KeyValues | None, nulls: bool) -> Predicate:
    """Return the predicate for the key values of the source; `values` is None where the source has
    only nulls in its key.
    """
    term = Reference(name, (name,))
    if values is None:
        return IsNull(term) if nulls else AlwaysFalse()
    if values.few is not None:
        in_range: Predicate = In(term, sorted(values.few))
    else:
        in_range = Between(term, values.low, values.high)
    return Or(in_range, IsNull(term)) if nulls else in_range


@dataclass(frozen=True)
class _Writing:
    """Run the first job of a MERGE. `staged`: the staged source, None where its types cannot be
    staged. `repeats`: pairs on which no clause acts are counted, too, as several source rows may
    match one row of the target.
    """

    job: Job
    clauses: Clauses
    staged: StagedFrame | None
    repeats: bool

    @property
    def merge(self) -> Merge:
        return self.clauses.merge

    @property
    def source(self) -> DataFrame:
        return self.clauses.source

    def write(self) -> None:
        """Write new rows and the positions of changed rows; a small source in two parts, matches
        first, then inserts.
        """
        job, merge = self.job, self.merge
        on = expression(merge.on)
        inserts, other_clauses = (
            merge.of(When.NOT_MATCHED),
            len(merge.clauses) - len(merge.of(When.NOT_MATCHED)),
        )
        if not other_clauses:
            self._insert(self.source.join(job.target, on, "left_anti"))
        elif self._is_small and not merge.of(When.NOT_MATCHED_BY_SOURCE):
            with as_input():
                joined = job.target.join(F.broadcast(self.source), on, "inner")
            reports = (
                self._write(joined, merge.of(When.MATCHED), numbered=bool(inserts))
                if len(job.plan)
                else []
            )
            if inserts:
                self._insert(self._unmatched([r.matched for r in reports if r.matched]))
        else:
            join_types = {
                (False, False): "inner",
                (True, False): "right",
                (False, True): "left",
                (True, True): "full",
            }
            with as_input():
                marked = self.source.withColumn(FOUND, F.lit(True))
                joined = job.target.join(
                    marked,
                    on,
                    join_types[bool(inserts), bool(merge.of(When.NOT_MATCHED_BY_SOURCE))],
                )
            self._write(joined, merge.clauses)

    @property
    def _is_small(self) -> bool:
        """Return whether the source is broadcast."""
        allowed = str(
            setting(self.job.spark, "spark.sql.autoBroadcastJoinThreshold", "10MB")
        ) not in ("-1", "-1b")
        return self.staged is not None and self.staged.bytes <= _SMALL and allowed

    def _unmatched(self, matched: Sequence[bytes]) -> DataFrame:
        """Return the source rows whose numbers no task reported as matched."""
        assert self.staged is not None
        numbers = BitMap64()
        for part in matched:
            numbers |= BitMap64.deserialize(part)
        unmatched = as_frame(
            self.job.spark, self.staged, NUMBER, numbers.serialize() if numbers else b""
        )
        return standing_for(unmatched, self.source, self.merge.source_alias)

    def _insert(self, frame: DataFrame) -> None:
        """Write the inserts of source rows that match nothing."""
        self._write(frame, self.merge.of(When.NOT_MATCHED), alone=True)

    def _write(
        self,
        frame: DataFrame,
        clauses: Sequence[Clause],
        *,
        numbered: bool = False,
        alone: bool = False,
    ) -> list[TaskReport]:
        """Write the rows of a join by these clauses. `alone`: the frame has source rows that match
        nothing. `numbered`: source rows that match are reported by their numbers, also those of
        pairs on which no clause acts."""
        with as_input():
            decided = frame.withColumn(ACT, self.clauses.act(frame, clauses, alone))
            (operation,) = choices(
                {n: [F.lit(_OPERATIONS[c.when, c.do is Do.DELETE])] for n, c in enumerate(clauses)}
            )
            acts = F.col(ACT).isNotNull()
            if not alone and (self.repeats or numbered):
                pairs = F.col(FILE).isNotNull()
                if FOUND in frame.columns:
                    pairs &= F.col(FOUND).isNotNull()
                acts |= pairs
                operation = F.coalesce(operation, F.lit(MATCHED))
            decided = decided.filter(acts)
            marks = (
                [F.lit(None).cast("string").alias(FILE), F.lit(None).cast("long").alias(POS)]
                if alone
                else self.job.marks()[:2]
            )
            if self.job.context.lineage:
                marks.append(F.lit(None).cast("long").alias(ROW_ID) if alone else F.col(ROW_ID))
            writing = any(c.do is not Do.DELETE for c in clauses)
            new = self.clauses.values(frame, clauses) if writing else []
            leading = [
                operation.cast("byte").alias(OPERATION),
                *marks,
                *([F.col(NUMBER)] if numbered else []),
            ]
            rows = decided.select(*leading, *(self.job.named(new, operation) if writing else []))
        return self.job.write(rows, new_rows=writing, numbered=numbered, inserts=alone)
