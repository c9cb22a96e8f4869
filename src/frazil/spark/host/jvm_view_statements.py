"""Read statements about views from Spark's parser: those of a catalog's views for the Spark that
does not ask catalogs for them (4.1), and temporary views `USING iceberg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.catalog.names import full_name, identifier_parts
from frazil.expr.sql_text import back_quoted, quoted_text
from frazil.expr.tokens import tokens
from frazil.ops.find_table import is_location
from frazil.ops.session import Session
from frazil.spark.host.jvm import CATALYST, classic_jvm, each
from frazil.spark.host.jvm_plans import kind_of, named_tables
from frazil.spark.host.jvm_views import TemporaryViews, is_temporary_view

_OF_VIEWS = re.compile(
    r"(?is)(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:(?:create|alter|drop|show)\b.*\bviews?\b|desc(?:ribe)?\b|show\s+(?:create|tblproperties|columns)\b)"
)
VIEW_OF_FORMAT = re.compile(r"\bview\b.*\busing\s+`?iceberg\b", re.IGNORECASE | re.DOTALL)
_CHILD = {"CreateView": "child", "AlterViewAs": "child", "ShowViews": "namespace", "DescribeRelation": "relation",
          "DescribeColumn": "relation", "ShowTableProperties": "table"}  # fmt: skip
KINDS = (
    *_CHILD,
    "SetViewProperties",
    "UnsetViewProperties",
    "RenameTable",
    "DropView",
    "ShowCreateTable",
    "ShowColumns",
)


@dataclass(frozen=True)
class ViewStatement:
    """Describe a statement about a view. `name`: as typed; `columns`: of CREATE VIEW, with their
    comments; `text`: of its query; `temporary`: the temporary views and functions that the query
    names, as `view …` and `function …`."""

    kind: str
    name: tuple[str, ...]
    text: str = ""
    columns: tuple[tuple[str, str | None], ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    new_name: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    pattern: str | None = None
    schema_mode: str | None = None
    exists: bool = False
    replace: bool = False
    extended: bool = False


def view_statement(spark: Session, text: str) -> ViewStatement | None:
    """Parse a statement that may be about a view; None for others. Whether its name is a view's is
    not known here.
    """
    if not _OF_VIEWS.match(text):
        return None
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    kind = kind_of(plan)
    if kind not in KINDS or (kind == "RenameTable" and not plan.isView()):
        return None
    child = getattr(plan, _CHILD.get(kind, "child"))()
    names = {
        "UnresolvedIdentifier": "nameParts",
        "UnresolvedView": "multipartIdentifier",
        "UnresolvedTableOrView": "multipartIdentifier",
        "UnresolvedNamespace": "multipartIdentifier",
    }.get(kind_of(child))
    if kind_of(child).rstrip("$") == "CurrentNamespace":
        return _read(spark, kind, plan, ())
    return (
        None
        if names is None
        else _read(spark, kind, plan, tuple(map(str, each(getattr(child, names)()))))
    )


def _read(spark: Session, kind: str, plan: JavaObject, name: tuple[str, ...]) -> ViewStatement:
    match kind:
        case "CreateView":
            columns = tuple(
                (str(pair._1()), _text(pair._2())) for pair in each(plan.userSpecifiedColumns())
            )
            properties = dict(_pairs(plan.properties()))
            if (comment := _text(plan.comment())) is not None:
                properties["comment"] = comment
            text = _text(plan.originalText()) or ""
            return ViewStatement(
                kind,
                name,
                text,
                columns,
                properties,
                temporary=_temporary(spark, plan.query(), text),
                schema_mode=str(plan.viewSchemaMode().toString()),
                exists=bool(plan.allowExisting()),
                replace=bool(plan.replace()),
            )
        case "AlterViewAs":
            return ViewStatement(
                kind,
                name,
                str(plan.originalText()),
                temporary=_temporary(spark, plan.query(), str(plan.originalText())),
            )
        case "SetViewProperties":
            return ViewStatement(kind, name, properties=dict(_pairs(plan.properties())))
        case "UnsetViewProperties":
            return ViewStatement(
                kind,
                name,
                keys=tuple(map(str, each(plan.propertyKeys()))),
                exists=bool(plan.ifExists()),
            )
        case "RenameTable":
            return ViewStatement(kind, name, new_name=tuple(map(str, each(plan.newName()))))
        case "DropView":
            return ViewStatement(kind, name, exists=bool(plan.ifExists()))
        case "ShowViews":
            return ViewStatement(kind, name, pattern=_text(plan.pattern()))
        case "DescribeRelation":
            return ViewStatement(kind, name, extended=bool(plan.isExtended()))
        case "DescribeColumn":
            return ViewStatement(kind, name, keys=tuple(map(str, each(plan.column().nameParts()))))
        case "ShowTableProperties":
            key = _text(plan.propertyKey())
            return ViewStatement(kind, name, keys=() if key is None else (key,))
    return ViewStatement(kind, name)


def view_of_query(spark: Session, plan: JavaObject) -> Any:
    """Return the parsed plan of a `CREATE TEMPORARY VIEW … USING iceberg OPTIONS (path 'db.t', …)`
    as that of a view of `SELECT * FROM db.t WITH (…)`: Spark asks a data source of Python in a
    process that does not know the session's catalogs. Plans of views of a location, of views with
    columns of their own, and of other statements are returned as they are.
    """
    if kind_of(plan) != "CreateTempViewUsing" or str(plan.provider()).lower() != "iceberg":
        return plan
    options = {key.lower(): value for key, value in _pairs(plan.options())}
    table = options.pop("path", "")
    if not table or is_location(table) or plan.userSpecifiedSchema().isDefined():
        return plan
    replacing = "OR REPLACE " if plan.replace() else ""
    reach = "GLOBAL " if getattr(plan, "global")() else ""
    stated = ", ".join(f"{quoted_text(k)} = {quoted_text(v)}" for k, v in options.items())
    text = (
        f"CREATE {replacing}{reach}TEMPORARY VIEW {plan.tableIdent().quotedString()} AS "
        f"SELECT * FROM {back_quoted(identifier_parts(table))}{stated and f' WITH ({stated})'}"
    )
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def _text(option: JavaObject) -> str | None:
    return str(option.get()) if option.isDefined() else None


def _pairs(scala_map: JavaObject) -> Iterator[tuple[str, str]]:
    return ((str(pair._1()), str(pair._2())) for pair in each(scala_map.toSeq()))


def _temporary(spark: Session, query: JavaObject, text: str) -> tuple[str, ...]:
    """Return the temporary views and functions that a query names."""
    sessions = spark._jsparkSession.sessionState().catalog()
    views = [full_name(t.parts) for t in named_tables(spark, query) if is_temporary(spark, t.parts)]
    identifier = getattr(spark._jvm, CATALYST + "FunctionIdentifier")
    words = tokens(text, lenient=True)
    before = ["", *(t.text for t in words)]  # behind a dot is a catalog's function
    called = dict.fromkeys(
        t.value
        for dot, (t, after) in zip(before, pairwise(words), strict=False)
        if t.kind in ("word", "quoted") and dot != "." and after.text == "("
    )
    functions = [name for name in called if sessions.isTemporaryFunction(identifier(name))]
    return (*(f"view {name}" for name in views), *(f"function {name}" for name in functions))


def is_temporary(spark: Session, parts: Sequence[str]) -> bool:
    """Tell whether a name is that of a temporary view, of the session or a global one."""
    if len(parts) == 1:
        return is_temporary_view(spark, parts[0])
    return len(parts) == 2 and parts[0].lower() == global_database(spark)


def global_database(spark: Session) -> str:
    """Return the name of the database of global temporary views."""
    return str(spark._jsparkSession.sessionState().catalog().globalTempDatabase())


def temporary_views(spark: Session) -> list[tuple[str, str]]:
    """Return the database, empty for those of the session, and the name of each temporary view."""
    jvm = classic_jvm(spark)
    return [(view.database or "", view.name) for view in TemporaryViews(spark, jvm)]
