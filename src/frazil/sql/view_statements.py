"""Run statements about views where Spark asks no catalog for views (4.1); on later Sparks
`spark.catalog.views` serves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import types as s

from frazil.catalog.names import full_name
from frazil.errors import InvalidInput, NoSuchViewError
from frazil.expr.sql_text import quoted_name
from frazil.ops.session import Session
from frazil.spark.catalog.protocol import Parts, ViewDefinition
from frazil.spark.host.jvm_catalog import current_catalog, current_namespace, knows_catalog
from frazil.spark.host.jvm_plans import named_tables, parsed_query
from frazil.spark.host.jvm_view_statements import (
    ViewStatement,
    global_database,
    is_temporary,
    temporary_views,
    view_statement,
)
from frazil.sql.catalog_calls import CatalogCalls

_OF_RELATIONS = (
    "DescribeRelation",
    "DescribeColumn",
    "ShowCreateTable",
    "ShowTableProperties",
    "ShowColumns",
)
StatementRows = tuple[Sequence[tuple[Any, ...]], Sequence[str]]
_NOTHING: StatementRows = ((), ())


def run(spark: Session, text: str, served: Mapping[str, CatalogCalls]) -> Any:
    """Run a statement about a view of Frazil's, and return its rows as a DataFrame. None: Spark
    runs it. `served`: the catalogs by name.
    """
    if not served or (statement := view_statement(spark, text)) is None:
        return None
    place = _place(spark, statement, served)
    if place is None:
        return None
    calls, parts = place
    if statement.kind in _OF_RELATIONS and not calls.view_exists(parts):
        return None
    rows, names = _RUN[statement.kind](spark, calls, parts, statement)
    kinds = [s.BooleanType() if name == "isTemporary" else s.StringType() for name in names]
    schema = s.StructType(
        [
            s.StructField(name, kind, name in ("comment", "info_value"))
            for name, kind in zip(names, kinds, strict=True)
        ]
    )
    return spark.createDataFrame(list(rows), schema)


def _place(
    spark: Session, statement: ViewStatement, served: Mapping[str, CatalogCalls]
) -> tuple[CatalogCalls, Parts] | None:
    """Return the catalog that a statement's name is in, and the rest of the name; None where it is
    none of Frazil's.
    """
    first, *rest = statement.name or ("",)
    of_namespace = statement.kind == "ShowViews"
    if statement.kind not in ("ShowViews", "CreateView") and is_temporary(spark, statement.name):
        return None
    if first in served and (rest or of_namespace):
        return served[first], tuple(rest)
    if (rest or of_namespace) and knows_catalog(spark, first):
        return None
    if (current := current_catalog(spark)) not in served:
        return None
    if of_namespace:
        return served[current], statement.name or tuple(current_namespace(spark))
    return served[current], statement.name if rest else (*current_namespace(spark), first)


def _create(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    name = full_name((calls.name, *parts))
    definition = _defined(spark, name, s_)
    if s_.replace:
        _refuse_cycle(spark, calls, parts, definition)
        calls.replace_view(parts, definition, create=True)
    elif not calls.view_exists(parts) or not s_.exists:
        calls.create_view(parts, definition)
    return _NOTHING


def _defined(spark: Session, name: str, s_: ViewStatement) -> ViewDefinition:
    """Return the definition of a view, with the columns that its query has now."""
    if s_.temporary:
        text = f"Cannot create view {name} that references temporary {s_.temporary[0].replace(' ', ': ', 1)}"
        raise InvalidInput(
            text,
            hint="Name the tables that a temporary view reads, and write out what a temporary function does.",
        )
    struct = spark.sql(s_.text).schema
    query_columns, fields = struct.names, list(struct.fields)
    if s_.columns:
        if len(s_.columns) != len(fields):
            which = "too many" if len(s_.columns) < len(fields) else "not enough"
            listed = f"View columns: {', '.join(n for n, _ in s_.columns)}. Data columns: {', '.join(query_columns)}."
            raise InvalidInput(
                f"Cannot create view {name}, the reason is {which} data columns: {listed}",
                condition=f"CREATE_VIEW_COLUMN_ARITY_MISMATCH.{which.upper().replace(' ', '_')}_DATA_COLUMNS",
            )
        fields = [
            s.StructField(
                column, f.dataType, True, {"comment": comment} if comment is not None else {}
            )
            for (column, comment), f in zip(s_.columns, fields, strict=True)
        ]
    small = [f.name.lower() for f in fields]
    if repeated := next((n for n in small if small.count(n) > 1), None):
        raise InvalidInput(
            f"The column `{repeated}` already exists. Choose another name or rename the existing column.",
            condition="COLUMN_ALREADY_EXISTS",
        )
    return ViewDefinition(
        s_.text,
        s.StructType(fields),
        query_columns,
        current_catalog(spark),
        current_namespace(spark),
        s_.properties,
        s_.schema_mode,
    )


def _replace(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    before = _definition(calls, parts)
    new = _defined(spark, full_name((calls.name, *parts)), s_)
    _refuse_cycle(spark, calls, parts, new)
    calls.replace_view(
        parts,
        replace(new, properties=before.properties, schema_mode=before.schema_mode),
        create=False,
    )
    return _NOTHING


def _refuse_cycle(spark: Session, calls: CatalogCalls, parts: Parts, new: ViewDefinition) -> None:
    """Raise InvalidInput for a view whose query would read the view itself, be it through others of
    the catalog.
    """
    if (cycle := _cycle(spark, calls, parts, new, (parts,))) is not None:
        shown = " -> ".join(full_name((calls.name, *p)) for p in cycle)
        raise InvalidInput(
            f"Recursive cycle in view detected: {full_name((calls.name, *parts))} (cycle: {shown})"
        )


def _cycle(
    spark: Session,
    calls: CatalogCalls,
    target: Parts,
    view: ViewDefinition,
    path: tuple[Parts, ...],
) -> tuple[Parts, ...] | None:
    catalog = view.catalog or calls.name
    for named in named_tables(spark, parsed_query(spark, view.text)):
        first, *rest = named.parts
        if first == calls.name and rest:
            parts = tuple(rest)
        elif catalog == calls.name:
            parts = named.parts if rest else (*view.namespace, first)
        else:
            continue
        if parts == target:
            return (*path, target)
        if parts not in path and calls.view_exists(parts):
            cycle = _cycle(spark, calls, target, _definition(calls, parts), (*path, parts))
            if cycle is not None:
                return cycle
    return None


def _set(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    calls.alter_view(parts, (), s_.properties)
    return _NOTHING


def _unset(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    properties = _definition(calls, parts).properties
    if (
        not s_.exists
        and (missing := next((k for k in s_.keys if k not in properties), None)) is not None
    ):
        raise InvalidInput(
            f"Cannot remove property that is not set: '{missing}'",
            hint="UNSET TBLPROPERTIES IF EXISTS tolerates it.",
        )
    calls.alter_view(parts, s_.keys, {})
    return _NOTHING


def _rename(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    to = s_.new_name
    if to[0] == calls.name and len(to) > 1:
        to = to[1:]
    elif len(to) > 1 and current_catalog(spark) != calls.name:
        text = (
            f"Cannot move view between catalogs: from={calls.name} and to={current_catalog(spark)}"
        )
        raise InvalidInput(
            text, hint=f"Write the new name with its catalog: {full_name((calls.name, *to))}."
        )
    elif len(to) == 1:
        to = (*parts[:-1], *to)
    calls.rename_view(parts, to)
    return _NOTHING


def _drop(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    try:
        calls.drop_view(parts)
    except NoSuchViewError:
        if not s_.exists:
            raise
    return _NOTHING


def _show(spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement) -> StatementRows:
    temporary = temporary_views(spark)
    if parts == (global_database(spark),):
        views = [(database, name, True) for database, name in temporary]
    else:
        views = [(full_name(p[:-1]), p[-1], False) for p in sorted(calls.list_views(parts))]
        views += [("", name, True) for database, name in temporary if not database]
    shown = [row for row in views if s_.pattern is None or _matches(row[1], s_.pattern)]
    return shown, ("namespace", "viewName", "isTemporary")


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a name fits a pattern of SHOW: `*` stands for any text, `|` for "or"; upper and
    lower case are the same.
    """
    return any(
        re.fullmatch(part.strip().replace("*", ".*"), name, re.IGNORECASE)
        for part in pattern.split("|")
    )


def _describe(
    spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement
) -> StatementRows:
    definition = _definition(calls, parts)
    rows = [
        (f.name, f.dataType.simpleString(), (f.metadata or {}).get("comment", ""))
        for f in definition.columns
    ]
    if s_.extended:
        shown = dict(_shown(definition))
        context = full_name((definition.catalog or calls.name, *definition.namespace))
        listed = ", ".join(f"'{k}' = '{v}'" for k, v in shown.items())
        rows += [("", "", ""), ("# Detailed View Information", "", "")]
        rows += (
            [("Comment", definition.properties["comment"], "")]
            if "comment" in definition.properties
            else []
        )
        query_columns = definition.query_columns or definition.columns.names
        rows += [("View Text", definition.text, ""), ("View Catalog and Namespace", context, "")]
        rows += [
            ("View Query Output Columns", f"[{', '.join(query_columns)}]", ""),
            ("View Properties", f"[{listed}]", ""),
        ]
    return rows, ("col_name", "data_type", "comment")


def _describe_column(
    spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement
) -> StatementRows:
    definition = _definition(calls, parts)
    column = next((f for f in definition.columns if f.name.lower() == s_.keys[0].lower()), None)
    if column is None:
        raise InvalidInput(
            f"View {full_name((calls.name, *parts))} has no column {full_name(s_.keys)}."
        )
    comment = (column.metadata or {}).get("comment", "NULL")
    return [
        ("col_name", column.name),
        ("data_type", column.dataType.simpleString()),
        ("comment", comment),
    ], ("info_name", "info_value")


def _show_create(
    spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement
) -> StatementRows:
    definition = _definition(calls, parts)
    quoted = [(quoted_name(f.name), (f.metadata or {}).get("comment")) for f in definition.columns]
    columns = ",\n".join(
        f"  {name}" + ("" if comment is None else f" COMMENT {_literal(comment)}")
        for name, comment in quoted
    )
    view = ".".join(map(quoted_name, (calls.name, *parts)))
    text = f"CREATE VIEW {view} (\n{columns})\n"
    if (comment := definition.properties.get("comment")) is not None:
        text += f"COMMENT {_literal(comment)}\n"
    properties = ",\n".join(f"  {_literal(k)} = {_literal(v)}" for k, v in _shown(definition))
    return [(f"{text}TBLPROPERTIES (\n{properties})\nAS\n{definition.text}\n",)], (
        "createtab_stmt",
    )


def _show_properties(
    spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement
) -> StatementRows:
    shown = dict(_shown(_definition(calls, parts)))
    if s_.keys:
        missing = f"View {full_name((calls.name, *parts))} does not have property: {s_.keys[0]}"
        return [(s_.keys[0], shown.get(s_.keys[0], missing))], ("key", "value")
    return list(shown.items()), ("key", "value")


def _show_columns(
    spark: Session, calls: CatalogCalls, parts: Parts, s_: ViewStatement
) -> StatementRows:
    return [(name,) for name in _definition(calls, parts).columns.names], ("col_name",)


def _definition(calls: CatalogCalls, parts: Parts) -> ViewDefinition:
    return calls.load_view(parts, to_read=False)


def _shown(definition: ViewDefinition) -> list[tuple[str, str]]:
    return sorted((k, v) for k, v in definition.properties.items() if k not in ("comment", "owner"))


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_RUN: Mapping[str, Callable[[Any, CatalogCalls, Parts, ViewStatement], StatementRows]] = {
    "CreateView": _create, "AlterViewAs": _replace, "SetViewProperties": _set, "UnsetViewProperties": _unset, "RenameTable": _rename,
    "DropView": _drop, "ShowViews": _show, "DescribeRelation": _describe, "DescribeColumn": _describe_column,
    "ShowCreateTable": _show_create, "ShowTableProperties": _show_properties, "ShowColumns": _show_columns,
}  # fmt: skip
