"""Evaluate sub-queries that do not depend on the row for which they are asked, and put constants in
their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from frazil.ops.session import Session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.jvm import CATALYST, EXPRESSIONS, classic_jvm, each, scala_seq
from frazil.spark.host.jvm_plans import NodeKind, analysed_plan, column_of, frame_of, kind_of

_EVALUATED = (NodeKind.SCALAR_SUBQUERY, NodeKind.EXISTS)


def with_constants(spark: Session, columns: Sequence[Column]) -> list[Column] | None:
    """Return columns of a classic session in which scalar sub-queries, and those of EXISTS, that
    name no column around them are constants; None where there are none. All are evaluated once, by
    one query. Raises Spark's errors of the evaluation."""
    expressions = [spark._jsparkSession.expression(column._jc) for column in columns]
    nodes = [node for e in expressions for node in _subqueries(spark, e)]
    if nodes and (values := _values(spark, nodes)) is None:
        nodes = [node for node in nodes if _values(spark, [node]) is not None]
        values = _values(spark, nodes)
    if not nodes or values is None:
        return None
    constants = dict(zip(map(_id, nodes), _constants(spark, values), strict=True))
    return [
        column if exchanged is e else column_of(spark, exchanged)
        for column, e in zip(columns, expressions, strict=True)
        for exchanged in [_exchanged(spark, e, constants)]
    ]


def _subqueries(spark: Session, expression: JavaObject) -> Iterator[Any]:
    """Yield the sub-queries of an expression that may be constants. Parts that hold no sub-query,
    such as long lists of values, are not walked through."""
    if kind_of(expression) in _EVALUATED:
        yield expression
    elif _holds_plan(spark, expression):
        for child in each(expression.children()):
            yield from _subqueries(spark, child)


def _holds_plan(spark: Session, expression: JavaObject) -> bool:
    patterns = classic_jvm(spark).java_class(CATALYST + "trees.TreePattern")
    return bool(expression.containsPattern(patterns.PLAN_EXPRESSION()))


def _id(subquery: JavaObject) -> int:
    return int(subquery.exprId().id())


def _values(spark: Session, expressions: Sequence[JavaObject]) -> DataFrame | None:
    """Return expressions as the one row of a DataFrame, whose analysis shows every one of them the
    same state of a table; None where one names a column."""
    nothing = classic_jvm(spark).java_class(CATALYST + "plans.logical.OneRowRelation")()
    columns = [column_of(spark, e).alias(f"c{n}") for n, e in enumerate(expressions)]
    try:
        return frame_of(spark, nothing).select(*columns)
    except AnalysisException:
        return None


def _constants(spark: Session, values: DataFrame) -> list[Any]:
    """Compute a row and return its values as Catalyst's constants. They do not pass through Python,
    which has no exact value for each type of Spark's: Spark takes them out of a constant that is
    the row."""
    jvm, query = classic_jvm(spark), values._jdf.queryExecution()
    (row,) = interruptible(spark, query.executedPlan().executeCollect)
    whole = jvm.java_class(EXPRESSIONS + "Literal")(row, query.analyzed().schema())
    member = jvm.java_class(EXPRESSIONS + "GetStructField")
    members = _values(spark, [member(whole, n, jvm.none) for n in range(len(values.columns))])
    assert members is not None
    fold = jvm.java_class(CATALYST + "optimizer.ConstantFolding").apply
    return [alias.child() for alias in each(fold(analysed_plan(members)).projectList())]


def _exchanged(spark: Session, expression: JavaObject, constants: Mapping[int, JavaObject]) -> Any:
    if kind_of(expression) in _EVALUATED:
        return constants.get(_id(expression), expression)
    if not _holds_plan(spark, expression):
        return expression
    children = [_exchanged(spark, child, constants) for child in each(expression.children())]
    return expression.withNewChildren(scala_seq(spark, children))
