"""Translate a statement that Spark's parser has read to a node: names are resolved by Spark's
analyser first, so that errors are Spark's own, with the place in the user's text; conditions and
values become Frazil's nodes where these say the same, else Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

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
from frazil.spark.host.jvm import setting
from frazil.spark.host.jvm_statements import (
    ActionKind,
    MergeAction,
    ParsedStatement,
    ResolvedAction,
    ResolvedAssignment,
    ResolvedStatement,
    StatementKind,
)
from frazil.spark.host.jvm_trees import Columns, named_columns, read_tree
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, NestedField, TimestampType, TimestamptzType
from frazil.sql import nodes as n
from frazil.sql.nodes import DEFAULT, Name, Statement
from frazil.sql.run import delete_from, merge_into, update_set

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
            return delete_from(table)
        case StatementKind.ANALYZE_TABLE | StatementKind.ANALYZE_COLUMNS:
            return n.Analyze(table, parsed.facts.statistics_of)
    called = parsed.facts.alias or table
    try:
        return _of_rows(parsed, table, called, metadata, ())
    except AnalysisException as error:
        if not str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            raise
        hidden = columns_of_conditions(metadata)
        columns = [
            *(f.name for f in metadata.schema().fields),
            *hidden,
            *(parsed.source().columns if parsed.kind is StatementKind.MERGE else ()),
        ]
        parsed = parsed.with_values_of_variables(columns)
        return _of_rows(parsed, table, called, metadata, tuple(hidden.values()))


def _of_rows(
    parsed: ParsedStatement,
    table: Name,
    called: Name,
    metadata: TableMetadata,
    hidden: Sequence[NestedField],
) -> Statement:
    """Return the node of DELETE, UPDATE or MERGE. `called`: by what name it calls the table;
    `hidden`: the metadata columns that it may name."""
    schema, facts = metadata.schema(), parsed.facts
    if parsed.kind is StatementKind.DELETE and not facts.has_where:
        return delete_from(table)
    analysed = None
    if not facts.evolves:
        # with it the statement may name columns that the table does not have yet
        try:
            analysed = _analysed(parsed, called, schema, hidden)
        except Py4JJavaError:
            if parsed.kind is StatementKind.MERGE:
                # Windows of times end in an internal error of Spark's analyser; this names them.
                merge = _merge_of_columns(parsed, called, schema)
                check(parsed.spark, metadata, parsed.source(), merge)
            raise
    if parsed.kind is StatementKind.MERGE:
        return _merge(parsed, table, called, analysed, metadata)
    assert analysed is not None
    columns = named_columns(analysed.facts.target)
    where = _condition(parsed, analysed, columns) if facts.has_where else None
    if parsed.kind is StatementKind.DELETE:
        return delete_from(table, where, full_name(called))
    values = _values(parsed, analysed, columns, called, schema)
    return update_set(table, values, where, full_name(called))


def _analysed(
    parsed: ParsedStatement, called: Name, schema: Schema, hidden: Sequence[NestedField]
) -> ResolvedStatement:
    """Return a statement analysed over a plan with a table's name and columns, and hidden ones,
    which no star means."""
    spark = parsed.spark
    plan = jvm_plans.empty_plan(spark, shown_columns(spark, Schema(*schema.fields, *hidden)))
    if hidden:
        plan = jvm_plans.aliased_plan(spark, plan, called)
        plan, called = jvm_plans.hiding(spark, plan, [f.name for f in hidden]), ()
    return parsed.analysed(plan, called)


def _condition(
    parsed: ParsedStatement, analysed: ResolvedStatement, columns: Columns
) -> Translated | Column:
    return _either(read_tree(parsed.spark, analysed.facts.where, columns), parsed.where)


def _values(
    parsed: ParsedStatement,
    analysed: ResolvedStatement,
    columns: Columns,
    called: Name,
    schema: Schema,
) -> tuple[tuple[str, Any], ...]:
    """Return the assignments of an UPDATE: names with values."""
    _check_policy(parsed, analysed.facts.assignments)
    values = list[tuple[str, Any]]()
    both = zip(parsed.facts.assignments, analysed.facts.assignments, strict=True)
    for place, (assignment, resolved) in enumerate(both):
        value: Any = DEFAULT
        if not assignment.is_default:
            native = partial(_as_time, partial(parsed.value, place), resolved)
            value = _either(_value(parsed.spark, resolved, columns), native)
        values.append((typed_name(_within(assignment.key, called, schema)), value))
    return tuple(values)


def _either(node: Expression | None, native: Callable[[], Column]) -> Translated | Column:
    """Return an expression as Frazil's nodes say it, as a Column where they do not."""
    return native() if node is None else Translated(node, native)


def _merge(
    parsed: ParsedStatement,
    table: Name,
    called: Name,
    analysed: ResolvedStatement | None,
    metadata: TableMetadata,
) -> Statement:
    schema = metadata.schema()
    if analysed is not None:
        _check_policy(parsed, (a for c in analysed.facts.clauses for a in c.assignments))
        if not parsed.facts.is_within and (
            merge := _merge_in_nodes(parsed, analysed, called, schema)
        ):
            merge.check()
            return merge_into(table, analysed.source(), merge)
    source, merge = parsed.source(), _merge_of_columns(parsed, called, schema, analysed)
    merge.check()
    return merge_into(table, source, in_nodes(source, metadata, merge))


def _merge_of_columns(
    parsed: ParsedStatement,
    called: Name,
    schema: Schema,
    analysed: ResolvedStatement | None = None,
) -> Merge:
    """Return a MERGE whose conditions and values are Columns, as Spark's parser has read them.
    `analysed`: the statement as Spark's analyser has resolved it, where it can.
    """
    clauses, evolves = [], parsed.facts.evolves
    for number, action in enumerate(parsed.facts.clauses):
        resolved = None if analysed is None else analysed.facts.clauses[number]
        assignments = [
            (
                typed_name(_within(a.key, called, schema)),
                DEFAULT
                if a.is_default
                else _as_time(
                    partial(parsed.value_of, number, place),
                    None if resolved is None else resolved.assignments[place],
                ),
            )
            for place, a in enumerate(action.assignments)
        ]
        condition = parsed.condition_of(number) if action.has_condition else None
        clauses.append(Clause(_when(action), _DO[action.kind], condition, tuple(assignments)))
    copied = frozenset(_copied(parsed, called, schema)) if evolves else frozenset()
    return Merge(parsed.on(), tuple(clauses), back_quoted(called), "", evolves, copied)


def _copied(parsed: ParsedStatement, called: Name, schema: Schema) -> Iterator[Name]:
    """Yield the columns to which a MERGE assigns the source's column of the same name."""
    for clause in parsed.facts.clauses:
        for assignment in clause.assignments:
            path, value = _within(assignment.key, called, schema), assignment.column
            before = value[: len(value) - len(path)]
            is_alike = full_name(value[len(before) :]).lower() == full_name(path).lower()
            if is_alike and (not before or before != called[-len(before) :]):
                yield path


def _merge_in_nodes(
    parsed: ParsedStatement, analysed: ResolvedStatement, called: Name, schema: Schema
) -> Merge | None:
    """Return a MERGE of Frazil's nodes, with columns called `target.…` and `source.…`; None where
    they cannot say part of it.
    """
    spark, facts = parsed.spark, analysed.facts
    columns = {**named_columns(facts.target, TARGET), **named_columns(facts.source, SOURCE)}
    if (on := read_tree(spark, facts.on, columns)) is None:
        return None
    clauses = []
    for action, resolved in zip(parsed.facts.clauses, facts.clauses, strict=True):
        condition = read_tree(spark, resolved.condition, columns)
        if action.has_condition and condition is None:
            return None
        do, assigned = _assigned(action, resolved, called, schema)
        assignments = []
        for name, r in assigned:
            value = DEFAULT if r is None else _value(spark, r, columns)
            if value is None:
                return None
            assignments.append((typed_name(name), value))
        clauses.append(Clause(_when(action), do, condition, tuple(assignments)))
    native = partial(_merge_of_columns, parsed, called, schema, analysed)
    return Merge(on, tuple(clauses), TARGET, SOURCE, parsed.facts.evolves, native=native)


def _assigned(
    action: MergeAction, resolved: ResolvedAction, called: Name, schema: Schema
) -> tuple[Do, list[tuple[Name, ResolvedAssignment | None]]]:
    """Return what a clause does, and its columns with their values, None for DEFAULT."""
    if action.kind not in _STARS:
        both = zip(action.assignments, resolved.assignments, strict=True)
        named = [(_within(a.key, called, schema), None if a.is_default else r) for a, r in both]
        return _DO[action.kind], named
    if all(r.keeps_type for r in resolved.assignments):
        return _DO[action.kind], []
    # a star takes columns by the rules of frames, which are stricter than the policy's
    return _DO[_STARS[action.kind]], [((r.name,), r) for r in resolved.assignments]


def _when(action: MergeAction) -> When:
    return (
        When.MATCHED
        if action.matched
        else When.NOT_MATCHED_BY_SOURCE
        if action.by_source
        else When.NOT_MATCHED
    )


def _value(spark: Session, resolved: ResolvedAssignment, columns: Columns) -> Expression | None:
    """Return the value of an analysed assignment in Frazil's nodes; None where they cannot say it."""
    node = read_tree(spark, resolved.value, columns)
    if node is None or resolved.time_type is None:
        return node
    return Cast(node, _TIMES[resolved.time_type])


def _as_time(value: Callable[[], Column], resolved: ResolvedAssignment | None) -> Column:
    """Return the value of an assignment as a Column."""
    if resolved is None or resolved.time_type is None:
        return value()
    return value().cast(resolved.time_type)


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


def _check_policy(parsed: ParsedStatement, assignments: Iterable[ResolvedAssignment]) -> None:
    """Raise SchemaMismatch for a value whose type the session's store assignment policy does not
    allow for its column, and Unsupported for the policy LEGACY, as Spark does for tables of other
    formats than its own."""
    policy = str(setting(parsed.spark, _POLICY, "ANSI")).upper()
    if policy == "LEGACY":
        hint = f"Set {_POLICY} to ANSI."
        raise Unsupported(
            f"{_POLICY}=LEGACY is not allowed for UPDATE and MERGE of Iceberg tables.", hint=hint
        )
    for assignment in assignments:
        if not assignment.stores_under(policy):
            column = assignment.key.replace("`", "")
            have, want = assignment.have, assignment.want
            hint = "Write the CAST out."
            raise SchemaMismatch(
                f"Column {column}: cannot safely cast {have} to {want} ({_POLICY}={policy}).",
                hint=hint,
                column=column,
                condition="INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
            )
