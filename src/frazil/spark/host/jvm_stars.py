"""Leave the metadata columns of tables out of the stars of a statement: `SELECT *, _file FROM t`
becomes `SELECT * EXCEPT (_file), _file`.

For statements in which Spark cannot hide such columns, so that a table's plan shows them beside its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.spark.host.jvm import each, listen, scala_seq
from frazil.spark.host.jvm_plans import NodeKind, kind_of, named_tables, with_definitions
from frazil.spark.host.jvm_views import Rule

Shown = Callable[[tuple[str, ...]], Sequence[str]]
_STAR, _TRAVEL = "UnresolvedStar", "RelationTimeTravel"
_SAME_COLUMNS = (
    NodeKind.FILTER,
    "Sort",
    "UnresolvedHint",
    "UnresolvedHaving",
    "LocalLimit",
    "GlobalLimit",
)
_LEFT_ONLY = ("LeftSemi", "LeftAnti")


class _NotSpelled(Exception):
    """Say that a star stands for columns that the parser's plan does not tell."""


@dataclass(frozen=True)
class _Source:
    """Hold a source of a star's columns. `called`: by what name; `hidden`: the metadata columns
    among its columns.
    """

    called: str
    hidden: Sequence[str] = ()


def repeats_table(
    spark: Session, plan: JavaObject, spelled: Callable[[tuple[str, ...]], Sequence[str]]
) -> bool:
    """Tell whether a parsed statement names one table twice. `spelled`: the full name that parts
    mean.
    """
    names = [tuple(spelled(t.parts)) for t in named_tables(spark, plan)]
    return len(set(names)) < len(names)


def with_stars_spelled(spark: Session, plan: JavaObject, shown: Shown) -> Any | None:
    """Return a statement's parsed plan in which no star stands for a metadata column of a table
    itself; None where it has stars over what the parser does not tell. `shown`: by a table's name
    the metadata columns that its plan shows."""
    listen(spark)
    rule = _Stars(spark, shown, frozenset())
    try:
        return rule.of(plan)
    except _NotSpelled:
        return None


@dataclass(frozen=True)
class _Stars:
    spark: Session
    shown: Shown
    defined: frozenset[str]
    """Names in small letters that WITH defines around the plan."""

    def of(self, plan: JavaObject) -> Any:
        problems: list[_NotSpelled] = []

        def at(node: JavaObject) -> Any:
            try:
                return self._at(node)
            except _NotSpelled as problem:
                problems.append(problem)
                return node

        if kind_of(plan) == NodeKind.UNRESOLVED_WITH:
            return self._with(plan)
        exchanged = plan.transformUpWithSubqueries(Rule(at))
        if problems:
            raise problems[0]
        return exchanged

    def _with(self, plan: JavaObject) -> Any:
        rule, defined = self, []
        for relation in each(plan.cteRelations()):
            defined.append(rule.of(relation._2()))
            rule = replace(rule, defined=rule.defined | {str(relation._1()).lower()})
        return with_definitions(self.spark, plan, defined, rule.of(plan.child()))

    def _at(self, node: JavaObject) -> Any:
        if kind_of(node) == NodeKind.UNRESOLVED_WITH:
            return self._with(node)
        columns = list(each(node.expressions()))
        if not any(_holds_star(c) for c in columns):
            return node
        if kind_of(node) != NodeKind.PROJECT:
            raise _NotSpelled
        sources = self._sources(node.child())
        if any(s.hidden for s in sources) and any(
            _holds_star(c) for c in columns if kind_of(c) != _STAR
        ):
            raise _NotSpelled
        spelled = [
            s
            for column in columns
            for s in (self._star(column, sources) if kind_of(column) == _STAR else [column])
        ]
        return node.copy(scala_seq(self.spark, spelled), node.child())

    def _star(self, star: JavaObject, sources: Sequence[_Source]) -> Sequence[Any]:
        """Return the expressions that stand for a star."""
        if not any(s.hidden for s in sources):
            return [star]
        if star.target().isDefined():
            called = str(list(each(star.target().get()))[-1]).lower()
            of = [s for s in sources if s.called.lower() == called]
            if len(of) > 1:
                raise _NotSpelled
            return [self._except(of[0], True)] if of and of[0].hidden else [star]
        if len({s.called.lower() for s in sources}) < len(sources):
            raise _NotSpelled
        return [self._except(s, len(sources) > 1) for s in sources]

    def _except(self, source: _Source, qualified: bool) -> Any:
        text = f"{back_quoted([source.called])}.*" if qualified else "*"
        if source.hidden:
            text += f" EXCEPT ({', '.join(back_quoted([c]) for c in source.hidden)})"
        return self.spark._jsparkSession.sessionState().sqlParser().parseExpression(text)

    def _sources(self, plan: JavaObject) -> list[_Source]:
        """Return the sources from which a star over a plan takes columns, in order."""
        kind = kind_of(plan)
        if kind == NodeKind.SUBQUERY_ALIAS:
            inside = plan.child().relation() if kind_of(plan.child()) == _TRAVEL else plan.child()
            hidden = (
                self._sources(inside)[0].hidden
                if kind_of(inside) == NodeKind.UNRESOLVED_RELATION
                else ()
            )
            return [_Source(str(plan.identifier().name()), hidden)]
        if kind == _TRAVEL:
            return self._sources(plan.relation())
        if kind == NodeKind.UNRESOLVED_RELATION:
            parts = tuple(map(str, each(plan.multipartIdentifier())))
            is_defined = len(parts) == 1 and parts[0].lower() in self.defined
            return [_Source(parts[-1], () if is_defined else self.shown(parts))]
        if kind in _SAME_COLUMNS:
            return self._sources(plan.child())
        if kind == "Join":
            joined = str(plan.joinType().toString())
            if joined.startswith(("UsingJoin", "NaturalJoin")):
                raise _NotSpelled
            return self._sources(plan.left()) + (
                [] if joined in _LEFT_ONLY else self._sources(plan.right())
            )
        if plan.children().isEmpty():
            return [_Source("")]
        raise _NotSpelled


def _holds_star(expression: JavaObject) -> bool:
    return kind_of(expression).startswith(_STAR) or any(
        _holds_star(c) for c in each(expression.children())
    )
