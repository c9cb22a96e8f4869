"""Call Catalyst, Spark's optimiser, through py4j: make the plans of frames, have them analysed, and
read plans and expressions.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from py4j.java_gateway import JavaClass, JavaObject
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s
from pyspark.sql.streaming import StreamingQuery

from frazil.ops.session import Session
from frazil.spark.host.jvm import (
    CATALYST,
    EXPRESSIONS,
    SPARK,
    Jvm,
    classic_column,
    classic_jvm,
    each,
    is_classic,
    is_instance,
    jvm_of,
    no_option,
    scala_seq,
    session_of,
)

_WHOLE_NUMBERS = ("byte", "short", "integer", "long")


class NodeKind(StrEnum):
    """List the classes of Catalyst's expressions and plans that Frazil tells apart, as `kind_of`
    returns them.
    """

    ALIAS = "Alias"
    AND = "And"
    ATTRIBUTE = "AttributeReference"
    CAST = "Cast"
    EQUAL = "EqualTo"
    EQUAL_NULL_SAFE = "EqualNullSafe"
    LITERAL = "Literal"
    MEMBER = "GetStructField"
    MULTI_ALIAS = "MultiAlias"
    EXISTS = "Exists"
    FILTER = "Filter"
    SCALAR_SUBQUERY = "ScalarSubquery"
    PROJECT = "Project"
    SUBQUERY_ALIAS = "SubqueryAlias"
    UNRESOLVED_RELATION = "UnresolvedRelation"
    UNRESOLVED_WITH = "UnresolvedWith"
    VARIABLE = "VariableReference"


_EMPTY: weakref.WeakKeyDictionary[Jvm, OrderedDict[str, Any]] = weakref.WeakKeyDictionary()
_MOST_EMPTY = 64
_NAME_OF: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_NULL_SAFE: dict[str, bool] = {NodeKind.EQUAL: False, NodeKind.EQUAL_NULL_SAFE: True}


def kind_of(node: JavaObject) -> str:
    """Return the name of the class of a Catalyst plan or expression."""
    if (name_of := _NAME_OF.get(client := node._gateway_client)) is None:
        name_of = _NAME_OF[client] = JavaClass(
            "org.apache.commons.lang3.ClassUtils", client
        ).getSimpleName
    return str(name_of(node, ""))


# Plans of frames
# --------------------------------------------------------------------------------------------------


def written_plan(frame: DataFrame) -> Any:
    """Return the logical plan of a classic DataFrame before analysis; a temporary view keeps this
    plan.
    """
    return frame._jdf.logicalPlan()


def analysed_plan(frame: DataFrame) -> Any:
    """Return the analysed logical plan of a classic DataFrame, in which names are resolved."""
    return frame._jdf.queryExecution().analyzed()


def frame_of(spark: Session, plan: JavaObject) -> DataFrame:
    """Make a classic DataFrame from a logical plan."""
    jvm = classic_jvm(spark)
    return DataFrame(jvm.frame_of(spark._jsparkSession, plan), spark)


def empty_plan(spark: Session, schema: s.StructType) -> Any:
    """Return the plan of no rows with the columns of a schema, made once for each schema of late."""
    jvm = classic_jvm(spark)
    plans, key = _EMPTY.setdefault(jvm, OrderedDict()), schema.json()
    if (plan := plans.get(key)) is None:
        columns = jvm.attributes_of(spark._jsparkSession.parseDataType(key))
        plan = plans[key] = jvm.java_class(CATALYST + "plans.logical.LocalRelation")(
            columns, jvm.nil, False, jvm.none
        )
        while len(plans) > _MOST_EMPTY:
            plans.popitem(last=False)
    return plan


def empty_frame(spark: Session, schema: s.StructType) -> DataFrame:
    """Return a DataFrame of no rows. In a classic session it is a local relation, which Spark
    compares by its columns and leaves out of plans; `createDataFrame` makes an RDD."""
    if jvm_of(spark) is None:
        return spark.createDataFrame([], schema)
    return frame_of(spark, empty_plan(spark, schema).newInstance())


def aliased_plan(spark: Session, plan: JavaObject, parts: Sequence[str]) -> Any:
    """Return a plan under a name of several parts."""
    jvm = classic_jvm(spark)
    name = jvm.java_class(CATALYST + "AliasIdentifier")(parts[-1], scala_seq(spark, parts[:-1]))
    return jvm.java_class(CATALYST + "plans.logical.SubqueryAlias")(name, plan)


def hiding(spark: Session, plan: JavaObject, names: Sequence[str]) -> Any:
    """Return a plan whose last columns are hidden under these names, as metadata columns are: an
    expression that names one gets it, and a star leaves it out."""
    jvm, output = classic_jvm(spark), plan.output()
    metadata, tag = (
        jvm.java_class(SPARK + "sql.types.Metadata"),
        jvm.java_class(CATALYST + "trees.TreeNodeTag"),
    )
    hidden = [
        column.withMetadata(metadata.fromJson(f'{{"__metadata_col": "{name}"}}'))
        for column, name in zip(each(output.takeRight(len(names))), names, strict=True)
    ]
    shown = jvm.java_class(CATALYST + "plans.logical.Project")(output.dropRight(len(names)), plan)
    shown.setTagValue(tag("hidden_output"), scala_seq(spark, hidden))
    return shown


def session_frame(spark: Session, dataset: JavaObject) -> DataFrame:
    """Make a DataFrame of PySpark of the JVM's. `spark`: the session that it belongs to."""
    return DataFrame(dataset, spark)


def with_names(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a DataFrame under other names, which hold no line ends: `toDF`, with one call for all
    of them.
    """
    jvm = jvm_of(frame.sparkSession)
    return (
        frame.toDF(*names)
        if jvm is None
        else session_frame(frame.sparkSession, frame._jdf.toDF(jvm.texts(names)))
    )


def taking_nulls(frame: DataFrame) -> DataFrame:
    """Return a classic DataFrame with its columns called c0, c1, …, of types that take nulls at
    every depth: PySpark's `toArrow` fails at a null struct whose members may not be null, as
    `struct(1)` beside NULL has them.
    """
    types = s._parse_datatype_json_string(frame._jdf.schema().asNullable().json())
    names = [f"c{n}" for n in range(len(types))]
    named = with_names(frame, names)
    if all(new.dataType == old.dataType for new, old in zip(types, frame.schema, strict=True)):
        return named
    columns = [
        F.col(name) if new.dataType == old.dataType else F.col(name).cast(new.dataType).alias(name)
        for name, new, old in zip(names, types, frame.schema, strict=True)
    ]
    return named.select(*columns)


def arrow_batches(frame: DataFrame) -> list[pa.RecordBatch]:
    """Return the rows of a classic DataFrame as PySpark's `toArrow` collects them, before it casts
    them to the types that it expects, which takes twelve calls of the JVM."""
    return list(frame._collect_as_arrow())


def estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of the size of a classic DataFrame's rows, by which Spark decides
    whether to broadcast them.
    """
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def has_watermark(frame: DataFrame) -> bool:
    """Tell whether withWatermark was called on a streaming frame or on what it is made of; True on
    Spark Connect, which does not say.
    """
    return not is_classic(frame) or "EventTimeWatermark" in analysed_plan(frame).toString()


def batch_watermark_ms(query: StreamingQuery) -> int:
    """Return the watermark of the batch that a streaming query runs, in milliseconds since 1970.
    Raises one of NOT_AS_KNOWN.
    """
    return int(query._jsq.streamingQuery().lastExecution().offsetSeqMetadata().batchWatermarkMs())


class QueryOfClient(NamedTuple):
    """Hold what is asked of a running query: its session, whether it has a watermark, and whether
    its trigger ends it when its input is read."""

    session: Session
    has_watermark: bool
    ends: bool


def running_query(spark: Session, query_id: str) -> StreamingQuery | None:
    """Return a streaming query that runs in any session of the JVM, as that of a server's client;
    None: none runs by this id. Raises one of NOT_AS_KNOWN."""
    uuid = spark._jvm.java.util.UUID.fromString(query_id)
    execution = spark._jsparkSession.sharedState().activeStreamingQueries().get(uuid)
    if execution is None:
        return None
    return StreamingQuery(execution.sparkSession().streams().get(uuid))


def query_of_client(spark: Session, query: StreamingQuery) -> QueryOfClient:
    """Describe a running query that was started without Python. Raises one of NOT_AS_KNOWN."""
    execution = query._jsq.streamingQuery()
    trigger = kind_of(execution.trigger())
    return QueryOfClient(
        session_of(spark, execution.sparkSession()),
        "EventTimeWatermark" in execution.logicalPlan().toString(),
        trigger.startswith(("AvailableNowTrigger", "OneTimeTrigger")),
    )


def sends_changes(query: StreamingQuery) -> bool:
    """Tell whether a streaming query has the output mode update. Raises one of NOT_AS_KNOWN."""
    return str(query._jsq.streamingQuery().outputMode()) == "Update"


def checkpoint_of(query: StreamingQuery) -> str:
    """Return the folder of a streaming query's checkpoint. Raises one of NOT_AS_KNOWN."""
    return str(query._jsq.streamingQuery().resolvedCheckpointRoot())


def has_read_all(query: StreamingQuery) -> bool:
    """Tell whether a streaming query that has ended, with a trigger that ends it, has found nothing
    more to read. Raises one of NOT_AS_KNOWN."""
    execution = query._jsq.streamingQuery()
    if kind_of(execution.trigger()).startswith("OneTimeTrigger"):
        return True  # one batch is all that such a run reads
    return bool(execution.noNewData())


def aliased(frame: DataFrame, parts: Sequence[str]) -> DataFrame:
    """Alias a classic DataFrame by a name of several parts."""
    spark = frame.sparkSession
    return frame_of(spark, aliased_plan(spark, analysed_plan(frame), parts))


def with_columns_of(frame: DataFrame, like: DataFrame) -> DataFrame:
    """Give the columns of a classic DataFrame, by position, the names and ids of those of another
    one; further columns stay.
    """
    spark, plan = frame.sparkSession, analysed_plan(frame)
    catalyst, nothing = getattr(spark._jvm, CATALYST.removesuffix(".")), no_option(spark)
    columns = [
        catalyst.expressions.Alias(
            have, want.name(), want.exprId(), want.qualifier(), nothing, scala_seq(spark, ())
        )
        for have, want in zip(each(plan.output()), each(analysed_plan(like).output()), strict=False)
    ]
    columns += list(each(plan.output()))[len(columns) :]
    return frame_of(spark, catalyst.plans.logical.Project(scala_seq(spark, columns), plan))


def output_ids(frame: DataFrame) -> list[int]:
    """Return the ids by which Catalyst refers to the columns of a classic DataFrame."""
    return [id_ for id_, _ in plan_columns(frame.sparkSession, analysed_plan(frame))]


def plan_columns(spark: Session, plan: JavaObject) -> list[tuple[int, str]]:
    """Return the ids and names of the columns of a plan, by three calls whatever their number."""
    jvm = classic_jvm(spark)
    together = jvm.java_class(EXPRESSIONS + "CreateArray")(plan.output(), False)
    columns = msgspec.json.decode(together.toJSON())[1:]
    return [(int(column["exprId"]["id"]), str(column["name"])) for column in columns]


def output_column(frame: DataFrame, place: int) -> Column:
    """Return a column of a classic DataFrame by its place."""
    return column_of(frame.sparkSession, analysed_plan(frame).output().apply(place))


def is_row_by_row(selected: DataFrame, frame: DataFrame) -> bool:
    """Return whether the expressions selected from a frame are computed from its columns alone, row
    by row.
    """
    plan = analysed_plan(selected)
    return bool(
        kind_of(plan) == NodeKind.PROJECT
        and plan.references().subsetOf(analysed_plan(frame).outputSet())
    )


def selected_expressions(selected: DataFrame) -> list[Any]:
    """Return the analysed expressions of a SELECT, without the aliases that it gives them."""
    return [
        e.child() if kind_of(e) == NodeKind.ALIAS else e
        for e in each(analysed_plan(selected).projectList())
    ]


def subqueries_of(selected: DataFrame) -> list[bool]:
    """Tell, for each expression of a SELECT, whether a sub-query is part of it; by two calls where
    none has one.
    """
    if analysed_plan(selected).subqueries().isEmpty():
        return [False] * len(selected.columns)
    return [holds_subquery(selected.sparkSession, e) for e in selected_expressions(selected)]


def are_deterministic(selected: DataFrame) -> list[bool]:
    """Return, for each expression of a SELECT, whether it gives the same value each time it is
    computed.
    """
    return [bool(e.deterministic()) for e in each(analysed_plan(selected).projectList())]


def filter_condition(filtered: DataFrame) -> Any:
    """Return the analysed condition of a frame that a filter returned; None where the analyser put
    another node over the filter, which it does for a condition on columns that the frame has
    selected away."""
    plan = analysed_plan(filtered)
    return plan.condition() if kind_of(plan) == NodeKind.FILTER else None


def join_condition(joined: DataFrame) -> Any:
    """Return the analysed condition of a frame that a join on a condition returned."""
    return analysed_plan(joined).condition().get()


# Expressions
# --------------------------------------------------------------------------------------------------


def column_of(spark: Session, expression: JavaObject) -> Column:
    """Make a Column from a Catalyst expression."""
    column: Column = classic_column()(classic_jvm(spark).column_from(expression))
    return column


def parsed_kind(spark: Session, text: str) -> str | None:
    """Return the name of the Catalyst class that Spark's parser returns for the text of an
    expression; None on Spark Connect. Raises PySpark's ParseException."""
    session = getattr(spark, "_jsparkSession", None)
    return (
        None
        if session is None
        else kind_of(session.sessionState().sqlParser().parseExpression(text))
    )


def can_up_cast(spark: Session, given: str, wanted: str) -> bool:
    """Tell whether Spark converts values of a type to another without loss. Types as JSON."""
    parse = spark._jsparkSession.parseDataType
    return bool(getattr(spark._jvm, EXPRESSIONS + "Cast").canUpCast(parse(given), parse(wanted)))


def is_subquery(spark: Session, expression: JavaObject) -> bool:
    """Tell whether a Catalyst expression holds a plan of its own."""
    return is_instance(spark, EXPRESSIONS + "SubqueryExpression", expression)


def holds_subquery(spark: Session, expression: JavaObject) -> bool:
    """Tell whether a sub-query is part of an expression."""
    return is_subquery(spark, expression) or any(
        holds_subquery(spark, c) for c in each(expression.children())
    )


def has_references(expression: JavaObject) -> bool:
    """Tell whether an expression refers to a column."""
    return not expression.references().isEmpty()


def conjuncts(expression: JavaObject) -> Iterator[Any]:
    """Yield the parts of an expression that AND joins."""
    if kind_of(expression) == NodeKind.AND:
        yield from conjuncts(expression.left())
        yield from conjuncts(expression.right())
    else:
        yield expression


def equalities(condition: JavaObject) -> Iterator[tuple[int, int, bool]]:
    """Yield the ids of the two columns that a conjunct of a condition equates, and whether null
    equals null in it. A cast of a whole number to a wider type, which keeps its order, is passed
    over; other conjuncts are left out."""
    for expression in conjuncts(condition):
        if (null_safe := _NULL_SAFE.get(kind_of(expression))) is None:
            continue
        left, right = _attribute(expression.left()), _attribute(expression.right())
        if left is not None and right is not None:
            yield left, right, null_safe


def _attribute(expression: JavaObject) -> int | None:
    """Return the id of a column, also below a cast of a whole number to a wider type; None for
    other expressions.
    """
    if kind_of(expression) == NodeKind.CAST:
        types = (expression.child().dataType().typeName(), expression.dataType().typeName())
        before, after = (_WHOLE_NUMBERS.index(n) if n in _WHOLE_NUMBERS else -1 for n in types)
        expression = expression.child() if 0 <= before <= after else expression
    return int(expression.exprId().id()) if kind_of(expression) == NodeKind.ATTRIBUTE else None


# Queries as text
# --------------------------------------------------------------------------------------------------


class NamedTable(NamedTuple):
    """Describe where a query names a table. `offset`: in the query's text, None where the parser
    does not tell; `parts`: of its name; `has_alias`: the query gives it another name."""

    offset: int | None
    parts: tuple[str, ...]
    has_alias: bool


def parsed_query(spark: Session, sql: str) -> Any:
    """Return the plan of a query as Spark's parser makes it. Raises PySpark's ParseException, also
    for statements that are no query.
    """
    return spark._jsparkSession.sessionState().sqlParser().parseQuery(sql)


def named_tables(
    spark: Session, plan: JavaObject, hidden: frozenset[str] = frozenset(), has_alias: bool = False
) -> Iterator[NamedTable]:
    """Yield the tables that a parsed query names, those of its sub-queries included.

    `hidden`: names in small letters that the query around the plan defines by WITH; `has_alias`: it
    gives the plan another name.
    """
    kind = kind_of(plan)
    if kind == NodeKind.UNRESOLVED_RELATION:
        parts = tuple(each(plan.multipartIdentifier()))
        if not (len(parts) == 1 and parts[0].lower() in hidden):
            start = plan.origin().startIndex()
            yield NamedTable(start.get() if start.isDefined() else None, parts, has_alias)
        return
    if kind == NodeKind.UNRESOLVED_WITH:
        inside = hidden
        for relation in each(plan.cteRelations()):
            name = str(relation._1())
            within = inside | {name.lower()} if plan.allowRecursion() else inside
            yield from named_tables(spark, relation._2(), within)
            inside = inside | {name.lower()}
        yield from named_tables(spark, plan.child(), inside)
        return
    for expression in each(plan.expressions()):
        yield from _named_in_expression(spark, expression, hidden)
    for child in each(plan.children()):
        yield from named_tables(spark, child, hidden, kind == NodeKind.SUBQUERY_ALIAS)


def with_definitions(
    spark: Session, around: JavaObject, defined: Sequence[JavaObject], child: JavaObject
) -> Any:
    """Return a WITH, an `UnresolvedWith`, with other plans for the names that it defines, in order,
    and another plan below it."""
    relations = [
        relation.copy(
            relation._1(),
            plan,
            *(relation.productElement(n) for n in range(2, relation.productArity())),
        )
        for relation, plan in zip(each(around.cteRelations()), defined, strict=True)
    ]
    return with_fields(around, child=child, cteRelations=scala_seq(spark, relations))


def with_fields(node: JavaObject, **changed: object) -> Any:
    """Return a copy of a node in which the fields of these names have other values."""
    names = (str(node.productElementName(n)) for n in range(node.productArity()))
    return node.copy(*(changed.get(name, node.productElement(n)) for n, name in enumerate(names)))


def _named_in_expression(
    spark: Session, expression: JavaObject, hidden: frozenset[str]
) -> Iterator[NamedTable]:
    if is_subquery(spark, expression):
        yield from named_tables(spark, expression.plan(), hidden)
    for child in each(expression.children()):
        yield from _named_in_expression(spark, child, hidden)
