"""Translate a statement that Spark's parser has read to a node: names are resolved by Spark's
analyser first, so that errors are Spark's own, with the place in the user's text; conditions and
values become Frazil's nodes where these say the same, else Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column

from frazil.catalog.names import full_name
from frazil.errors import SchemaMismatch, Unsupported
from frazil.expr.nodes import Cast, Expression, Translated
from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.rows.assign import typed_name
from frazil.rows.clauses import Clause, Do, Merge, When
from frazil.scan.columns import columns_of_conditions
from frazil.spark.dml.merge_by_sql import check
from frazil.spark.dml.merge_nodes import SOURCE, TARGET, in_nodes
from frazil.spark.dml.row_changes import shown_columns
from frazil.spark.host import jvm_plans
from frazil.spark.host.jvm_statements import (
    ActionKind,
    Assignment,
    MergeAction,
    ParsedStatement,
    StatementKind,
)
from frazil.spark.host.jvm_trees import Columns, bindings, translated
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, NestedField, TimestampType, TimestamptzType
from frazil.sql import nodes as n
from frazil.sql.nodes import DEFAULT, Name, Statement

_POLICY = "spark.sql.storeAssignmentPolicy"
_DO = {
    ActionKind.DELETE: Do.DELETE, ActionKind.UPDATE: Do.UPDATE, ActionKind.UPDATE_STAR: Do.UPDATE_ALL,
    ActionKind.INSERT: Do.INSERT, ActionKind.INSERT_STAR: Do.INSERT_ALL,
}  # fmt: skip


_TIMES = {
    "date": DateType(),
    "timestamp_ltz": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_STARS = {ActionKind.UPDATE_STAR: ActionKind.UPDATE, ActionKind.INSERT_STAR: ActionKind.INSERT}


def node_of(parsed: ParsedStatement, table: Name, metadata: TableMetadata) -> Statement:
    """Return the node of a parsed statement about a table. `table`: its full name. Raises PySpark's
    AnalysisException.
    """
    match parsed.kind:
        case StatementKind.TRUNCATE:
            return n.Truncate(table)
        case StatementKind.ANALYZE_TABLE | StatementKind.ANALYZE_COLUMNS:
            return n.Analyze(table, parsed.statistics_of)
    called = parsed.alias or table
    try:
        return _of_rows(parsed, table, called, metadata, ())
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            raise
        hidden = columns_of_conditions(metadata)
        columns = [
            *(f.name for f in metadata.schema().fields),
            *hidden,
            *(parsed.source.columns if parsed.kind is StatementKind.MERGE else ()),
        ]
        parsed = parsed.with_values_of_variables(columns)
        return _of_rows(parsed, table, called, metadata, tuple(hidden.values()))


def _target(
    spark: Session, called: Name, schema: Schema, hidden: Sequence[NestedField]
) -> JavaObject:
    """Return a plan with a table's name and columns, and hidden ones, which no star means."""
    shown = shown_columns(spark, Schema(*schema.fields, *hidden))
    plan = jvm_plans.aliased_plan(spark, jvm_plans.empty_plan(spark, shown), called)
    return jvm_plans.hiding(spark, plan, [f.name for f in hidden]) if hidden else plan


def _of_rows(
    parsed: ParsedStatement,
    table: Name,
    called: Name,
    metadata: TableMetadata,
    hidden: Sequence[NestedField],
) -> Statement:
    """Return the node of DELETE, UPDATE or MERGE. `called`: by what name it calls the table;
    `hidden`: the metadata columns that it may name."""
    schema = metadata.schema()
    target = _target(parsed.spark, called, schema, hidden)
    match parsed.kind:
        case StatementKind.DELETE:
            return _delete(parsed, table, called, target)
        case StatementKind.UPDATE:
            return _update(parsed, table, called, target, schema)
    return _merge(parsed, table, called, target, metadata)


def _delete(parsed: ParsedStatement, table: Name, called: Name, target: JavaObject) -> Statement:
    if parsed.where is None:
        return n.DeleteRows(table)
    resolved = parsed.analysed(target).plan.condition()
    condition = translated(parsed.spark, resolved, bindings(parsed.spark, target))
    return n.DeleteRows(
        table, _either(condition, partial(parsed.column, parsed.where)), full_name(called)
    )


def _update(
    parsed: ParsedStatement, table: Name, called: Name, target: JavaObject, schema: Schema
) -> Statement:
    analysed = parsed.analysed(target)
    _check_policy(parsed.spark, analysed.assignments)
    columns, values = bindings(parsed.spark, target), list[tuple[str, Any]]()
    for assignment, resolved in zip(parsed.assignments, analysed.assignments, strict=True):
        value: Any = DEFAULT
        if not assignment.is_default:
            node = _value(parsed.spark, resolved, columns)
            value = _either(node, partial(_column, parsed, assignment, resolved))
        values.append((typed_name(_within(assignment.key, called, schema)), value))
    where = parsed.where
    if where is not None:
        condition = translated(parsed.spark, analysed.where, columns)
        where = _either(condition, partial(parsed.column, where))
    return n.UpdateRows(table, tuple(values), where, full_name(called))


def _either(node: Expression | None, native: Callable[[], Column]) -> Translated | Column:
    """Return an expression as Frazil's nodes say it, as a Column where they do not."""
    return native() if node is None else Translated(node, native)


def _merge(
    parsed: ParsedStatement, table: Name, called: Name, target: JavaObject, metadata: TableMetadata
) -> Statement:
    schema, analysed = metadata.schema(), None
    if not parsed.evolves:
        # with it the statement may name columns that the table does not have yet
        try:
            analysed = parsed.analysed(target)
        except Py4JJavaError:
            # Windows of times end in an internal error of Spark's analyser; this names them.
            check(parsed.spark, metadata, parsed.source, _merge_of_columns(parsed, called, schema))
            raise
        _check_policy(parsed.spark, (a for clause in analysed.clauses for a in clause.assignments))
        if (
            parsed.around is None
            and (merge := _merge_in_nodes(parsed, analysed, called, schema)) is not None
        ):
            merge.check()
            return n.MergeInto(table, analysed.source, merge)
    source, merge = parsed.source, _merge_of_columns(parsed, called, schema, analysed)
    merge.check()
    return n.MergeInto(table, source, in_nodes(source, metadata, merge))


def _merge_of_columns(
    parsed: ParsedStatement, called: Name, schema: Schema, analysed: ParsedStatement | None = None
) -> Merge:
    """Return a MERGE whose conditions and values are Columns, as Spark's parser has read them.
    `analysed`: the statement as Spark's analyser has resolved it, where it can.
    """
    resolved = [None] * len(parsed.clauses) if analysed is None else analysed.clauses
    clauses = tuple(
        _clause(parsed, action, by_spark, called, schema)
        for action, by_spark in zip(parsed.clauses, resolved, strict=True)
    )
    on, evolves = parsed.column(parsed.on), parsed.evolves
    copied = frozenset(_copied(parsed, called, schema)) if evolves else frozenset()
    return Merge(on, clauses, back_quoted(called), "", evolves, copied)


def _copied(parsed: ParsedStatement, called: Name, schema: Schema) -> Iterator[Name]:
    """Yield the columns to which a MERGE assigns the source's column of the same name."""
    for clause in parsed.clauses:
        for assignment in clause.assignments:
            path, value = _within(assignment.key, called, schema), assignment.column
            before = value[: len(value) - len(path)]
            is_alike = full_name(value[len(before) :]).lower() == full_name(path).lower()
            if is_alike and (not before or before != called[-len(before) :]):
                yield path


def _merge_in_nodes(
    parsed: ParsedStatement, analysed: ParsedStatement, called: Name, schema: Schema
) -> Merge | None:
    """Return a MERGE of Frazil's nodes, with columns called `target.…` and `source.…`; None where
    they cannot say part of it.
    """
    spark, plan = parsed.spark, analysed.plan
    columns = {
        **bindings(spark, plan.targetTable(), TARGET),
        **bindings(spark, plan.sourceTable(), SOURCE),
    }
    if (on := translated(spark, analysed.on, columns)) is None:
        return None
    clauses = []
    for action, resolved in zip(parsed.clauses, analysed.clauses, strict=True):
        condition = (
            None if resolved.condition is None else translated(spark, resolved.condition, columns)
        )
        if condition is None and resolved.condition is not None:
            return None
        assignments, do = [], _DO[action.kind]
        named: list[tuple[Name, Assignment | None]]
        if action.kind in _STARS and not all(r.keeps_type for r in resolved.assignments):
            # a star takes columns by the rules of frames, which are stricter than the policy's
            do = _DO[_STARS[action.kind]]
            named = [((str(r.target.name()),), r) for r in resolved.assignments]
        else:
            by_spark = resolved.assignments if action.assignments else ()
            named = [
                (_within(a.key, called, schema), None if a.is_default else r)
                for a, r in zip(action.assignments, by_spark, strict=True)
            ]
        for name, r in named:
            value = DEFAULT if r is None else _value(spark, r, columns)
            if value is None:
                return None
            assignments.append((typed_name(name), value))
        clauses.append(Clause(_when(action), do, condition, tuple(assignments)))
    native = partial(_merge_of_columns, parsed, called, schema, analysed)
    return Merge(on, tuple(clauses), TARGET, SOURCE, parsed.evolves, native=native)


def _when(action: MergeAction) -> When:
    return (
        When.MATCHED
        if action.matched
        else When.NOT_MATCHED_BY_SOURCE
        if action.by_source
        else When.NOT_MATCHED
    )


def _clause(
    parsed: ParsedStatement,
    action: MergeAction,
    resolved: MergeAction | None,
    called: Name,
    schema: Schema,
) -> Clause:
    condition = None if action.condition is None else parsed.column(action.condition)
    by_spark = [None] * len(action.assignments) if resolved is None else resolved.assignments
    assignments = tuple(
        (
            typed_name(_within(a.key, called, schema)),
            DEFAULT if a.is_default else _column(parsed, a, r),
        )
        for a, r in zip(action.assignments, by_spark if action.assignments else (), strict=True)
    )
    return Clause(_when(action), _DO[action.kind], condition, assignments)


def _value(spark: Session, resolved: Assignment, columns: Columns) -> Expression | None:
    """Return the value of an analysed assignment in Frazil's nodes; None where they cannot say it."""
    node = translated(spark, resolved.value, columns)
    if node is None or resolved.time_type is None:
        return node
    return Cast(node, _TIMES[resolved.time_type])


def _column(parsed: ParsedStatement, given: Assignment, resolved: Assignment | None) -> Column:
    """Return the value of an assignment as a Column."""
    value = parsed.column(given.value)
    if resolved is None or resolved.time_type is None:
        return value
    return value.cast(resolved.time_type)


def _within(key: Name, called: Name, schema: Schema) -> Name:
    """Return a column's name without the name of the table before it: `t.v`, `db.t.v` and
    `cat.db.t.v` are `v`. As in Spark, the table's name comes before a column of that name."""
    for start in range(len(called)):
        prefix = called[start:]
        if len(key) > len(prefix) and [p.lower() for p in key[: len(prefix)]] == [
            p.lower() for p in prefix
        ]:
            rest = key[len(prefix) :]
            if (
                schema.get_field(rest[0], False) is not None
                or schema.get_field(key[0], False) is None
            ):
                return rest
    return key


def _check_policy(spark: Session, assignments: Iterable[Assignment]) -> None:
    """Raise SchemaMismatch for a value whose type the session's store assignment policy does not
    allow for its column, and Unsupported for the policy LEGACY, as Spark does for tables of other
    formats than its own."""
    policy = str(spark.conf.get(_POLICY, "ANSI")).upper()
    if policy == "LEGACY":
        hint = f"Set {_POLICY} to ANSI."
        raise Unsupported(
            f"{_POLICY}=LEGACY is not allowed for UPDATE and MERGE of Iceberg tables.", hint=hint
        )
    for assignment in assignments:
        if not (assignment.stores_under(spark, policy) or assignment.is_default):
            have, want = assignment.types
            column = ".".join(assignment.key).replace("`", "")
            hint = "Write the CAST out."
            raise SchemaMismatch(
                f"Column {column}: cannot safely cast {have} to {want} ({_POLICY}={policy}).",
                hint=hint,
                column=column,
                condition="INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
            )
