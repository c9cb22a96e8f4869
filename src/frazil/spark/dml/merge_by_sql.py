"""MERGE by Spark: target and source joined by its planner, every clause an expression of its own.

The source is staged (evaluated once); what its keys hold prunes the target. A small source is broadcast against the target, and its rows
that nothing has matched are inserted afterwards; a large one is one outer join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, And, Between, In, IsNull, Or, Predicate, Reference
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.spark.dml.analysed import as_input, at, bound_to, equal_columns, expression, named, parts_of, standing_for
from frazil.spark.dml.change_tasks import BY_SOURCE_DELETED, BY_SOURCE_UPDATED, DELETED, INSERTED, MATCHED, UPDATED, Report
from frazil.spark.dml.new_values import Assigned, Matched, NewColumns
from frazil.spark.dml.row_changes import FILE, NUMBER, OPERATION, POS, ROW_ID, ContextOf, Job, Planned, RowChanges, shadow
from frazil.spark.dml.staging import ORDERED, KeyValues, StagedFrame, as_frame, folder_of, stage
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.session_conf import sensitivity
from frazil.spec.schema import Schema

_FOUND, _ACT = "__frazil_c_found", "__frazil_c_act"
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
) -> RowChanges:
    """A whole MERGE. Expressions call the target by `merge.target_alias`, which may be a name of several parts, and the source by
    `merge.source_alias`. Where that is empty the source is called as `like` is, the frame that was staged, and `like.id` is its column.

    Raises InvalidInput for what Spark cannot resolve, and for a target row that several source rows would change.
    """
    merge.check()
    with sensitivity(spark, case_sensitive) as sensitive:
        names = tuple(parts_of(merge.target_alias))
        plan = planned(AlwaysFalse())
        context, empty = context_of(plan), named(shadow(spark, plan.schema), names)
        job = Job(spark, plan, context, AlwaysTrue(), "merge", empty, False)
        with job.cleaned():
            source, staged = _source(spark, source, merge.source_alias, job, like)
            keys, reach = _reach(empty, source, staged, merge, plan.schema)
            plan = planned(reach)
            where = None if isinstance(reach, AlwaysTrue) else reach
            job = Job.of(spark, plan, replace(context_of(plan), write=context.write), reach, "merge", where)
            job.target, job.keys = named(job.target, names), keys
            _Clauses(job, merge, names, source, staged, sensitive).write()
            return job.finish(unique=merge.checks_cardinality)


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


@dataclass
class _Clauses:
    """The clauses over a join of both sides."""

    job: Job
    merge: Merge
    names: tuple[str, ...]
    source: DataFrame
    staged: StagedFrame | None
    case_sensitive: bool

    def write(self) -> None:
        """The first job; two of them when the source is small."""
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
                found = self.source.withColumn(_FOUND, F.lit(True))
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
            chosen = frame.withColumn(_ACT, self._act(frame, clauses, alone))
            if not numbered:
                chosen = chosen.filter(F.col(_ACT).isNotNull())
            operation = _choice([(n, F.lit(_OPERATIONS[c.when, c.do is Do.DELETE])) for n, c in enumerate(clauses)])
            assert operation is not None
            operation = F.coalesce(operation, F.lit(MATCHED)) if numbered else operation
            marks = [F.lit(None).cast("string").alias(FILE), F.lit(None).cast("long").alias(POS)] if alone else self.job.marks()[:2]
            if self.job.context.lineage:
                marks.append(F.lit(None).cast("long").alias(ROW_ID) if alone else F.col(ROW_ID))
            writing = any(c.do is not Do.DELETE for c in clauses)
            new = self._values(frame, clauses) if writing else []
            shown = [operation.cast("byte").alias(OPERATION), *marks, *([F.col(NUMBER)] if numbered else [])]
            rows = chosen.select(*shown, *(self.job.named(new, operation) if writing else []))
        return self.job.write(rows, new_rows=writing, numbered=numbered, inserts=alone)

    def _act(self, frame: DataFrame, clauses: Sequence[Clause], alone: bool) -> Column:
        """The place of the clause that acts on a row; null: none does."""
        chains: dict[When, Column] = {}
        for when in When:
            mine = [(n, c) for n, c in enumerate(clauses) if c.when is when]
            tests = iter(bound_to(self._side(when, frame), [expression(c.condition) for _, c in mine if not c.is_unconditional]))
            chain: Any = F
            for n, c in mine:
                chain = chain.when(F.lit(True) if c.is_unconditional else next(tests), F.lit(n))
            if mine:
                chains[when] = chain
        if len(chains) == 1 and (alone or _FOUND not in frame.columns):
            return next(iter(chains.values()))
        nothing = F.lit(None).cast("int")
        both = F.when(F.col(FILE).isNull(), chains.get(When.NOT_MATCHED, nothing))
        both = both.when(F.col(_FOUND).isNull(), chains.get(When.NOT_MATCHED_BY_SOURCE, nothing))
        return both.otherwise(chains.get(When.MATCHED, nothing))

    def _side(self, when: When, frame: DataFrame) -> DataFrame:
        """Where the expressions of a clause find their names. On Connect a frame read anew does not stand for the source."""
        source = self.source if is_classic(frame) or _FOUND in frame.columns else frame
        return {When.MATCHED: frame, When.NOT_MATCHED: source, When.NOT_MATCHED_BY_SOURCE: self.job.target}[when]

    def _values(self, frame: DataFrame, clauses: Sequence[Clause]) -> list[Column]:
        """Each column of the table, by the clause that acts."""
        by_clause = {}
        for n, clause in enumerate(clauses):
            if clause.do is Do.DELETE:
                continue
            own = None if clause.when is When.NOT_MATCHED else self.job.own(self.job.target)
            values = NewColumns(self._side(clause.when, frame), self.job.plan.schema, own, self.case_sensitive, self.job.time)
            source = self._side(clause.when, frame) if clause.when is When.NOT_MATCHED else self.source
            by_clause[n] = values.columns(self._given(clause, source))
        found = []
        for place in range(len(self.job.plan.schema.fields)):
            value = _choice([(n, columns[place]) for n, columns in by_clause.items()])
            assert value is not None
            found.append(value)
        return found

    def _given(self, clause: Clause, source: DataFrame) -> Assigned:
        schema, pairs = self.job.plan.schema, clause.assignments
        if clause.takes_all:
            names = {n if self.case_sensitive else n.lower(): n for n in self.source.columns[: len(self._source_columns)]}
            missing = [f.name for f in schema.fields if (f.name if self.case_sensitive else f.name.lower()) not in names]
            if missing and not self.merge.merge_schema:
                raise InvalidInput(
                    f"MERGE: the source lacks columns of the target: {', '.join(missing)}.",
                    hint="Name the columns to set, or use merge_schema=True, which leaves them as they are.",
                )
            every = [(f, names.get(f.name if self.case_sensitive else f.name.lower())) for f in schema.fields]
            return Assigned(tuple(((f,), Matched(at(source, source.columns.index(n)))) for f, n in every if n is not None))
        given = Assigned.of(schema, pairs, self.case_sensitive, [".".join(self.names[n:]) for n in range(len(self.names))])
        if clause.when is When.NOT_MATCHED and (inside := [p for p, _ in given.pairs if len(p) > 1]):
            raise InvalidInput(f"An insert takes whole columns, not members of a struct: {'.'.join(f.name for f in inside[0])}.")
        return given

    @property
    def _source_columns(self) -> list[str]:
        return [c for c in self.source.columns if c != NUMBER]


def _choice(values: Sequence[tuple[int, Column]]) -> Column | None:
    """The value of the clause that acts."""
    chain: Any = F
    for n, value in values:
        chain = chain.when(F.col(_ACT) == F.lit(n), value)
    return chain if values else None
