"""Read DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE as Spark's parser returns them, and let Spark's
analyser check them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec
from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from frazil.ops.session import Session
from frazil.spark.host.jvm import CATALYST, EXPRESSIONS, classic_jvm, each, listen, texts_of_seq
from frazil.spark.host.jvm_plans import (
    NodeKind,
    column_of,
    frame_of,
    is_subquery,
    kind_of,
    selected_expressions,
)
from frazil.spark.host.jvm_views import Rule

Parts = tuple[str, ...]


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


_TABLE = {
    StatementKind.DELETE: "table", StatementKind.UPDATE: "table", StatementKind.MERGE: "targetTable", StatementKind.TRUNCATE: "table",
    StatementKind.ANALYZE_TABLE: "child", StatementKind.ANALYZE_COLUMNS: "child",
}  # fmt: skip
_NAMES = ("UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView")
_ALTERS = ("ALTER TABLE", "COMMENT ON TABLE")
_UNRESOLVED = "UnresolvedAttribute"
_NAMED_BY_EXPRESSION = "PlanWithUnresolvedIdentifier"
_KINDS = frozenset(StatementKind)
_RANDOM = "INVALID_NON_DETERMINISTIC_EXPRESSIONS"


@dataclass(frozen=True)
class ParsedStatement:
    """Hold a parsed statement. `around`: the WITH that defines names for it, if any."""

    spark: Session
    kind: StatementKind
    plan: Any
    around: Any = None

    # --- the table

    @cached_property
    def table(self) -> Parts | None:
        """Return the parts of the table's name; None for a name that IDENTIFIER computes, which
        `computed_table` returns.
        """
        named = self._named
        return texts_of_seq(named.multipartIdentifier()) if kind_of(named) in _NAMES else None

    def computed_table(self) -> str | None:
        """Return the text of the table's name that IDENTIFIER computes; None for any other."""
        named = self._named
        if kind_of(named) != _NAMED_BY_EXPRESSION:
            return None
        row = self.spark.range(1).select(column_of(self.spark, named.identifierExpr())).first()
        return None if row[0] is None else str(row[0])

    @property
    def alias(self) -> Parts:
        """Return the alias of the table, empty without one."""
        return (str(self._table.alias()),) if self._has_alias else ()

    @cached_property
    def _table(self) -> Any:
        return getattr(self.plan, _TABLE[self.kind])()

    @cached_property
    def _has_alias(self) -> bool:
        return kind_of(self._table) == NodeKind.SUBQUERY_ALIAS

    @cached_property
    def _named(self) -> Any:
        return self._table.child() if self._has_alias else self._table

    # --- rows

    @property
    def where(self) -> Any:
        """Return the condition of DELETE or UPDATE, a Catalyst expression; None without one."""
        condition = self.plan.condition()
        if self.kind is StatementKind.UPDATE:
            return condition.get() if condition.isDefined() else None
        return (
            None
            if kind_of(condition) == NodeKind.LITERAL and condition.toString() == "true"
            else condition
        )

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Return the assignments of UPDATE."""
        return _assignments(self.plan)

    @property
    def source(self) -> DataFrame:
        """Return the source of MERGE as a frame. Raises PySpark's AnalysisException."""
        plan = self.plan.sourceTable()
        if self.around is not None:
            plan = self.around.copy(plan, self.around.cteRelations(), self.around.allowRecursion())
            alias = self.plan.sourceTable()
            if kind_of(alias) == NodeKind.SUBQUERY_ALIAS:
                plan = alias.copy(alias.identifier(), plan)
        return frame_of(self.spark, plan)

    @property
    def on(self) -> Any:
        return self.plan.mergeCondition()

    @cached_property
    def clauses(self) -> list[MergeAction]:
        """Return the clauses of MERGE, those of a kind in order."""
        plan = self.plan
        kinds = (
            (plan.matchedActions(), True, False),
            (plan.notMatchedActions(), False, False),
            (plan.notMatchedBySourceActions(), False, True),
        )
        return [
            _action(a, matched, by_source)
            for actions, matched, by_source in kinds
            for a in each(actions)
        ]

    @property
    def evolves(self) -> bool:
        """Tell whether a MERGE is WITH SCHEMA EVOLUTION."""
        return bool(self.plan.withSchemaEvolution())

    @property
    def statistics_of(self) -> Parts:
        """Return the columns that ANALYZE names."""
        if self.kind is StatementKind.ANALYZE_TABLE or not self.plan.columnNames().isDefined():
            return ()
        return texts_of_seq(self.plan.columnNames().get())

    # --- for Spark

    def column(self, expression: JavaObject) -> Column:
        """Return an expression of the statement as a Column; its sub-queries know the names that
        WITH defines.
        """
        if self.around is not None:
            around = self.around

            def within(node: JavaObject) -> Any:
                if not is_subquery(self.spark, node):
                    return node
                return node.withNewPlan(
                    around.copy(node.plan(), around.cteRelations(), around.allowRecursion())
                )

            listen(self.spark)
            expression = expression.transformDown(Rule(within))
        return column_of(self.spark, expression)

    def analysed(self, target: JavaObject) -> ParsedStatement:
        """Return the statement as Spark's analyser resolves it, over a plan that has the table's
        columns. Raises PySpark's AnalysisException, with the place in the statement's text."""
        listen(self.spark)
        jvm = classic_jvm(self.spark)
        plan = self.plan.withNewChildren(self.plan.children().tail().prepended(target))
        if self.around is not None:
            plan = self.around.copy(plan, self.around.cteRelations(), self.around.allowRecursion())
        session = self.spark._jsparkSession.sessionState()
        query = session.executePlan(plan, jvm.skip)
        try:
            query.assertAnalyzed()
            plan = query.analyzed()
        except AnalysisException as error:
            condition, plan = str(error.getCondition()), session.analyzer().execute(plan)
            if condition.startswith("DATATYPE_MISMATCH.CAST_"):
                plan = plan.transformExpressions(Rule(_matched_by_name))
                session.analyzer().checkAnalysis(plan)
            elif condition != _RANDOM or not _sets_random_values(plan):
                raise
        while kind_of(plan) not in _KINDS:  # the definitions of WITH stand over the statement
            plan = plan.children().last()
        return replace(self, plan=plan, around=None)

    def with_values_of_variables(self, columns: Collection[str]) -> ParsedStatement:
        """Return the statement with variables of SQL replaced by their values, which Spark does not
        look up everywhere in UPDATE and MERGE. `columns`: names that are columns."""
        listen(self.spark)
        one_row, lower = self.spark.range(1), {c.lower() for c in columns}

        def value(node: JavaObject) -> Any:
            if (
                kind_of(node) != _UNRESOLVED
                or str(node.nameParts().head()).lower() in lower
                or _is_default(node)
            ):
                return node
            try:
                chosen = one_row.select(column_of(self.spark, node))
            except AnalysisException:
                return node
            resolved = selected_expressions(chosen)[0]
            return (
                resolved.varDef().currentValue() if kind_of(resolved) == NodeKind.VARIABLE else node
            )

        return replace(self, plan=self.plan.transformExpressions(Rule(value)))

    def run(self) -> None:
        """Let Spark run the statement as it is."""
        plan = self.plan if self.around is None else self.around
        tag = classic_jvm(self.spark).java_class(f"{CATALYST}trees.TreeNodeTag")("frazil.left")
        plan.setTagValue(tag, True)
        frame_of(self.spark, plan)


def parsed_plan(spark: Session, text: str) -> Any:
    """Return the plan of a statement as the session's parser makes it. Raises PySpark's
    ParseException.
    """
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def parsed_statement(spark: Session, plan: JavaObject) -> ParsedStatement | None:
    """Return a parsed plan as a statement; None for any other plan."""
    kind, around = kind_of(plan), None
    if kind == NodeKind.UNRESOLVED_WITH:
        around, plan = plan, plan.child()
        kind = kind_of(plan)
    return ParsedStatement(spark, StatementKind(kind), plan, around) if kind in _KINDS else None


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


@dataclass(frozen=True)
class Assignment:
    """Hold `key = value`, a node of Catalyst's, of which each part is asked for at its first use."""

    node: Any

    @cached_property
    def key(self) -> Parts:
        """Return the parts of the column's name, as written."""
        return _key(self.target)

    @cached_property
    def target(self) -> Any:
        return self.node.key()

    @cached_property
    def value(self) -> Any:
        """Return the value without the cast to its column's type that the analyser puts around it,
        as it has not the meaning of a CAST in SQL: it fails for values that do not fit, in every
        mode. A cast of the statement's own is marked, or, as `int(x)` is not, has its own place in
        the text."""
        value = self.node.value()
        is_cast = (
            kind_of(value) == NodeKind.CAST
            and not value.getTagValue(value.USER_SPECIFIED_CAST()).isDefined()
            and value.origin().startIndex().equals(self.node.origin().startIndex())
        )
        return value.child() if is_cast else value

    @cached_property
    def column(self) -> Parts:
        """Return the parts of the column's name that the value is, as written; empty for any other
        value.
        """
        value = self.node.value()
        return texts_of_seq(value.nameParts()) if kind_of(value) == _UNRESOLVED else ()

    @cached_property
    def is_default(self) -> bool:
        """Tell whether the value is the word DEFAULT."""
        return _is_default(self.node.value())

    def stores_under(self, spark: Session, policy: str) -> bool:
        """Tell whether a store assignment policy (ANSI or STRICT) allows a value's type for its
        column's. For analysed assignments; nested types, of which the policy speaks member by
        member, are left to the write."""
        if self.keeps_type:
            return True
        have, want = self.types
        if have == want or have == "VOID" or have.startswith(_NESTED) or want.startswith(_NESTED):
            return True
        rules = classic_jvm(spark).java_class(EXPRESSIONS + "Cast")
        allows = rules.canANSIStoreAssign if policy == "ANSI" else rules.canUpCast
        return bool(allows(*self._data_types))

    @cached_property
    def time_type(self) -> str | None:
        """Return the column's type, as SQL writes it, where it and the value are a date and a time,
        or times of which one has a zone: Spark converts between them by the session's zone. None
        for any other assignment. For analysed ones."""
        if self.keeps_type:
            return None
        have, want = self.types
        return _TIMES.get(want) if have != want and have in _TIMES else None

    @cached_property
    def keeps_type(self) -> bool:
        """Tell whether an analysed assignment gives a column another one of the same type."""
        return _assigns_a_column_of_its_type(self.node)

    @cached_property
    def _data_types(self) -> tuple[Any, Any]:
        return self.value.dataType(), self.target.dataType()

    @cached_property
    def types(self) -> tuple[str, str]:
        """Return the types of value and column as Spark writes them, of an analysed assignment."""
        have, want = self._data_types
        return str(have.sql()), str(want.sql())


_SETTABLE = (NodeKind.ATTRIBUTE, NodeKind.MEMBER)
_NESTED = ("STRUCT<", "ARRAY<", "MAP<")
_TIMES = {"DATE": "date", "TIMESTAMP": "timestamp_ltz", "TIMESTAMP_NTZ": "timestamp_ntz"}


@dataclass(frozen=True)
class MergeAction:
    """Hold a clause of MERGE. `condition`: a Catalyst expression or None."""

    kind: ActionKind
    matched: bool
    by_source: bool
    condition: Any
    assignments: Sequence[Assignment]


def _action(action: JavaObject, matched: bool, by_source: bool) -> MergeAction:
    kind = ActionKind(kind_of(action))
    condition = action.condition()
    assignments = _assignments(action) if kind in (ActionKind.UPDATE, ActionKind.INSERT) else ()
    return MergeAction(
        kind, matched, by_source, condition.get() if condition.isDefined() else None, assignments
    )


def _assignments(node: JavaObject) -> list[Assignment]:
    return [Assignment(a) for a in each(node.assignments())]


def _sets_random_values(plan: JavaObject) -> bool:
    """Tell whether an analysed statement is an UPDATE with random values and no random condition:
    Spark takes it where it rewrites the statement for the table, which it does before its check."""
    while kind_of(plan) not in _KINDS and not plan.children().isEmpty():
        plan = plan.children().last()
    if kind_of(plan) != StatementKind.UPDATE:
        return False
    condition = plan.condition()
    return condition.isEmpty() or bool(condition.get().deterministic())


def _matched_by_name(node: JavaObject) -> Any:
    """Return an assignment of a struct, list or map without the cast that the analyser puts around
    its value: that matches members of structs by position, where tables that take row-level changes
    match them by name, as Frazil's verbs do."""
    if kind_of(node) != "Assignment" or kind_of(node.key()) not in _SETTABLE:
        return node
    if not str(node.key().dataType().sql()).startswith(_NESTED):
        return node
    return node.copy(node.key(), Assignment(node).value)


def _assigns_a_column_of_its_type(assignment: JavaObject) -> bool:
    """Tell by one call whether an analysed assignment gives a column the value of another one of
    the same type.
    """
    _, *parts = msgspec.json.decode(assignment.toJSON())
    are_columns = [p["class"] for p in parts] == [EXPRESSIONS + NodeKind.ATTRIBUTE] * 2
    return are_columns and bool(parts[0]["dataType"] == parts[1]["dataType"])


def _key(key: JavaObject) -> Parts:
    """Return the parts of a column's name, as written."""
    return texts_of_seq(key.nameParts()) if kind_of(key) == _UNRESOLVED else (str(key.sql()),)


def _is_default(value: JavaObject) -> bool:
    if kind_of(value) != _UNRESOLVED:
        return False
    parts = texts_of_seq(value.nameParts())
    return len(parts) == 1 and parts[0].upper() == "DEFAULT"
