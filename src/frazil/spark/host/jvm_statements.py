"""Read DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE as Spark's parser returns them, and as its analyser
resolves them: each in one message of the JVM (`spark/jvm/RowStatements.java`).
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec
from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.host.jvm import CATALYST, Jvm, classic_jvm, each, listen, texts_of_seq
from frazil.spark.host.jvm_classes import make
from frazil.spark.host.jvm_plans import (
    NodeKind,
    column_of,
    frame_of,
    is_subquery,
    kind_of,
    selected_expressions,
)
from frazil.spark.host.jvm_trees import expression_trees
from frazil.spark.host.jvm_views import Rule

Parts = tuple[str, ...]
_READERS: weakref.WeakKeyDictionary[Jvm, Any] = weakref.WeakKeyDictionary()
_ALTERS = ("ALTER TABLE", "COMMENT ON TABLE")
_UNRESOLVED = "UnresolvedAttribute"
_NESTED = ("STRUCT<", "ARRAY<", "MAP<")
_TIMES = {"DATE": "date", "TIMESTAMP": "timestamp_ltz", "TIMESTAMP_NTZ": "timestamp_ntz"}


class StatementKind(StrEnum):
    """List the classes of Catalyst's statements that are read here."""

    DELETE = "DeleteFromTable"
    UPDATE = "UpdateTable"
    MERGE = "MergeIntoTable"
    TRUNCATE = "TruncateTable"
    ANALYZE_TABLE = "AnalyzeTable"
    ANALYZE_COLUMNS = "AnalyzeColumn"


class ActionKind(StrEnum):
    """List the classes of the actions of a MERGE."""

    DELETE = "DeleteAction"
    UPDATE = "UpdateAction"
    UPDATE_STAR = "UpdateStarAction"
    INSERT = "InsertAction"
    INSERT_STAR = "InsertStarAction"


# As parsed
# --------------------------------------------------------------------------------------------------


class Assignment(msgspec.Struct, frozen=True):
    """Hold `key = value` as written. `key`: the parts of the column's name; `column`: those of the
    column that the value is, empty for any other value; `is_default`: the value is the word
    DEFAULT."""

    key: Parts
    column: Parts
    is_default: bool


class MergeAction(msgspec.Struct, frozen=True):
    """Hold a clause of MERGE as written."""

    kind: ActionKind
    matched: bool
    by_source: bool
    has_condition: bool
    assignments: tuple[Assignment, ...] = ()


class StatementFacts(msgspec.Struct, frozen=True):
    """Hold what a statement says. `table`: the parts of the table's name, None for one that
    IDENTIFIER computes (`is_computed`); `alias`: that of the table, empty without one; `is_within`:
    WITH defines names for it; `statistics_of`: the columns that ANALYZE names; `clauses`: of MERGE,
    those of a kind in order."""

    kind: StatementKind
    is_within: bool
    table: Parts | None
    is_computed: bool
    alias: Parts
    has_where: bool
    evolves: bool = False
    statistics_of: Parts = ()
    assignments: tuple[Assignment, ...] = ()
    clauses: tuple[MergeAction, ...] = ()


# As analysed
# --------------------------------------------------------------------------------------------------


class ResolvedAssignment(msgspec.Struct, frozen=True):
    """Hold an analysed assignment. `value`: the tree of its value without the cast to its column's
    type that the analyser puts around it; `have`, `want`: the types of value and column as Spark
    writes them; `ansi`, `strict`: whether these store assignment policies allow the one for the
    other; `keeps_type`: it gives a column another one of its type."""

    name: str
    key: str
    value: str | None
    keeps_type: bool
    have: str
    want: str
    ansi: bool
    strict: bool

    def stores_under(self, policy: str) -> bool:
        """Tell whether a store assignment policy (ANSI or STRICT) allows it. Nested types, of which
        the policy speaks member by member, are left to the write."""
        if self.keeps_type or self.have in (self.want, "VOID"):
            return True
        if self.have.startswith(_NESTED) or self.want.startswith(_NESTED):
            return True
        return self.ansi if policy == "ANSI" else self.strict

    @property
    def time_type(self) -> str | None:
        """Return the column's type, as SQL writes it, where it and the value are a date and a time,
        or times of which one has a zone: Spark converts between them by the session's zone. None
        for any other assignment."""
        return _TIMES.get(self.want) if self.have != self.want and self.have in _TIMES else None


class ResolvedAction(msgspec.Struct, frozen=True):
    """Hold a clause of an analysed MERGE."""

    condition: str | None
    assignments: tuple[ResolvedAssignment, ...]


class ResolvedFacts(msgspec.Struct, frozen=True):
    """Hold what the analyser made of a statement. `target`, `source`: the columns of both sides with
    their ids; conditions and values are trees, None where there is none or it cannot be written."""

    target: list[tuple[int, str]]
    where: str | None
    source: list[tuple[int, str]] = []
    on: str | None = None
    assignments: tuple[ResolvedAssignment, ...] = ()
    clauses: tuple[ResolvedAction, ...] = ()


@dataclass(frozen=True)
class ResolvedStatement:
    """Hold a statement as Spark's analyser has resolved it."""

    spark: Session
    java: Any
    facts: ResolvedFacts

    def source(self) -> DataFrame:
        """Return the source of MERGE as a frame."""
        return frame_of(self.spark, self.java.source())


# Statements
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParsedStatement:
    """Hold a parsed statement. `whole`: its plan with the WITH that defines names for it, if any."""

    spark: Session
    whole: Any
    facts: StatementFacts

    @property
    def kind(self) -> StatementKind:
        return self.facts.kind

    @cached_property
    def plan(self) -> Any:
        return self.whole.child() if self.facts.is_within else self.whole

    def computed_table(self) -> str | None:
        """Return the text of the table's name that IDENTIFIER computes; None for any other."""
        if not self.facts.is_computed:
            return None
        named = self.plan.children().head()
        if self.facts.alias:
            named = named.child()
        row = self.spark.range(1).select(column_of(self.spark, named.identifierExpr())).first()
        return None if row[0] is None else str(row[0])

    # --- for Spark

    def source(self) -> DataFrame:
        """Return the source of MERGE as a frame. Raises PySpark's AnalysisException."""
        plan = self.plan.sourceTable()
        if self.facts.is_within:
            alias, plan = plan, self._below_with(plan)
            if kind_of(alias) == NodeKind.SUBQUERY_ALIAS:
                plan = alias.copy(alias.identifier(), plan)
        return frame_of(self.spark, plan)

    def where(self) -> Column:
        """Return the condition of DELETE or UPDATE."""
        condition = self.plan.condition()
        return self._column(condition.get() if self.kind is StatementKind.UPDATE else condition)

    def on(self) -> Column:
        """Return the condition of MERGE."""
        return self._column(self.plan.mergeCondition())

    def value(self, place: int) -> Column:
        """Return the value of an assignment of UPDATE by its place."""
        return self._column(self.plan.assignments().apply(place).value())

    def condition_of(self, clause: int) -> Column:
        """Return the condition of a clause of MERGE, which has one."""
        return self._column(self._actions[clause].condition().get())

    def value_of(self, clause: int, place: int) -> Column:
        """Return the value of an assignment of a clause of MERGE."""
        return self._column(self._actions[clause].assignments().apply(place).value())

    @cached_property
    def _actions(self) -> list[Any]:
        plan = self.plan
        kinds = plan.matchedActions(), plan.notMatchedActions(), plan.notMatchedBySourceActions()
        return [action for actions in kinds for action in each(actions)]

    def _below_with(self, plan: JavaObject) -> Any:
        around = self.whole
        return around.copy(plan, around.cteRelations(), around.allowRecursion())

    def _column(self, expression: JavaObject) -> Column:
        """Return an expression of the statement as a Column; its sub-queries know the names that
        WITH defines.
        """
        if self.facts.is_within:

            def within(node: JavaObject) -> Any:
                if not is_subquery(self.spark, node):
                    return node
                return node.withNewPlan(self._below_with(node.plan()))

            listen(self.spark)
            expression = expression.transformDown(Rule(within))
        return column_of(self.spark, expression)

    def analysed(self, columns: JavaObject, called: Parts) -> ResolvedStatement:
        """Return the statement as Spark's analyser resolves it, over a plan that has the table's
        columns, under a name (empty: it has one). Raises PySpark's AnalysisException, with the
        place in the statement's text."""
        listen(self.spark)
        java = _reader(self.spark).analysed(
            self.spark._jsparkSession, self.whole, columns, "\0".join(called)
        )
        facts = msgspec.json.decode(java.text(), type=ResolvedFacts)
        return ResolvedStatement(self.spark, java, facts)

    def with_values_of_variables(self, columns: Collection[str]) -> ParsedStatement:
        """Return the statement with variables of SQL replaced by their values, which Spark does not
        look up everywhere in UPDATE and MERGE. `columns`: names that are columns."""
        listen(self.spark)
        one_row, lower = self.spark.range(1), {*(c.lower() for c in columns), "default"}

        def value(node: JavaObject) -> Any:
            if kind_of(node) != _UNRESOLVED or str(node.nameParts().head()).lower() in lower:
                return node
            try:
                chosen = one_row.select(column_of(self.spark, node))
            except AnalysisException:
                return node
            resolved = selected_expressions(chosen)[0]
            return (
                resolved.varDef().currentValue() if kind_of(resolved) == NodeKind.VARIABLE else node
            )

        plan = self.plan.transformExpressions(Rule(value))
        changed = parsed_statement(
            self.spark, self._below_with(plan) if self.facts.is_within else plan
        )
        assert changed is not None
        return changed

    def run(self) -> None:
        """Let Spark run the statement as it is."""
        tag = classic_jvm(self.spark).java_class(f"{CATALYST}trees.TreeNodeTag")("frazil.left")
        self.whole.setTagValue(tag, True)
        frame_of(self.spark, self.whole)


def parsed_plan(spark: Session, text: str) -> Any:
    """Return the plan of a statement as the session's parser makes it. Raises PySpark's
    ParseException.
    """
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def parsed_statement(spark: Session, plan: JavaObject) -> ParsedStatement | None:
    """Return a parsed plan as a statement; None for any other plan, and where the class that reads
    it does not compile on this Spark."""
    try:
        text = _reader(spark).read(plan)
    except Unsupported:
        return None
    facts = msgspec.json.decode(text, type=StatementFacts | None)
    return None if facts is None else ParsedStatement(spark, plan, facts)


def _reader(spark: Session) -> Any:
    jvm = classic_jvm(spark)
    if (reader := _READERS.get(jvm)) is None:
        try:
            trees = expression_trees(spark, jvm)
        except Unsupported:
            trees = None
        reader = _READERS[jvm] = make(spark, "RowStatements", trees)
    return reader


def altered_table(plan: JavaObject) -> Parts | None:
    """Return the name of the table that ALTER TABLE or COMMENT ON TABLE changes; None for any other
    plan, and for a name that IDENTIFIER computes.
    """
    if plan.children().isEmpty():
        return None
    table = plan.children().head()
    if kind_of(table) != "UnresolvedTable" or not str(table.commandName()).startswith(_ALTERS):
        return None
    return texts_of_seq(table.multipartIdentifier())
