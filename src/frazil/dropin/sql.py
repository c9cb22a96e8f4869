"""Route `spark.sql` of a prepared session. Spark runs the statements; those about Frazil's tables, and those of Iceberg's SQL extensions,
are refused by name, with the Python call that does the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from frazil.catalog.names import IN_SQL, identifier_parts, without_blanks
from frazil.dropin.names import catalog_of, default_has_namespace, is_catalog, is_ours
from frazil.dropin.statements import Statement, is_explained, statement_of
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.tokens import TEXTS, without_comments
from frazil.spark.host.quiet import quietly

_USES_ICEBERG = re.compile(rf"{TEXTS}|(?P<uses>\busing\s+(?:iceberg\b|`iceberg`))", re.IGNORECASE | re.DOTALL)
_DROPS_IF_EXISTS = re.compile(r"\s*drop\s+\w+\s+if\s+exists\b", re.IGNORECASE)
_TEXT_OR_NAME = re.compile(rf"{TEXTS}|(?P<name>{IN_SQL})", re.DOTALL)
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "CATALOG_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "ROUTINE_NOT_FOUND",
            "UNRESOLVED_ROUTINE", "FAILED_TO_LOAD_ROUTINE", "MISSING_CATALOG_ABILITY", "CANNOT_LOAD",
            "NESTED_DATABASE_UNSUPPORTED", "Nested databases are not supported", "Error occurred during query planning")  # fmt: skip


def run(spark_sql: Callable[..., Any], spark: Any, sqlQuery: str, args: Any = None, **named: Any) -> Any:
    """Run a statement by Spark. Raises Unsupported, with the call to use instead, for statements about Frazil's tables and catalogs."""
    text = without_comments(sqlQuery)
    statement = statement_of(text)
    if statement is not None and _is_refused_at_once(spark, text, statement):
        raise _refused(spark, statement, uses_iceberg=_uses_iceberg(text))
    with quietly():
        try:
            answer = spark_sql(sqlQuery, args, **named)
        except Exception as error:
            if (refusal := _refusal(spark, text, statement, error)) is not None:
                raise refusal from error
            raise
    if is_explained(text) and (refusal := _refusal(spark, text, statement, _Planless(answer.first()[0]))) is not None:
        raise refusal
    return answer


class _Planless(Exception):
    """Hold what EXPLAIN answers for a statement without a plan: Spark returns the error as a row."""


def _is_refused_at_once(spark: Any, text: str, statement: Statement) -> bool:
    """Return whether a statement must not reach Spark: Spark would create a table USING iceberg in its own catalog, without knowing the
    format, and DROP … IF EXISTS would succeed without dropping Frazil's table."""
    if statement.kind.startswith(("CREATE TABLE", "REPLACE TABLE")):
        return _uses_iceberg(text)
    return _DROPS_IF_EXISTS.match(text) is not None and _is_about_ours(spark, statement)


def _uses_iceberg(text: str) -> bool:
    return any(match["uses"] for match in _USES_ICEBERG.finditer(text))


def _refusal(spark: Any, text: str, statement: Statement | None, error: Exception) -> Unsupported | None:
    """Return the refusal for a failed statement that is about a table of Frazil's; None where Spark's error stands."""
    is_missing = any(m in str(error) for m in _MISSING)
    if statement is not None:
        unknown = statement.of_iceberg and (is_missing or type(error).__name__ == "ParseException")
        if unknown or _is_about_ours(spark, statement):
            return _refused(spark, statement)
    if is_missing and (name := _table_in(spark, text)):
        hint = f'spark.table({name!r}).createOrReplaceTempView("v") gives SQL a name for its rows.'
        return Unsupported(f"spark.sql over table {name} is not supported yet.", hint=hint, table=name)
    return None


def _refused(spark: Any, statement: Statement, uses_iceberg: bool = False) -> Unsupported:
    """Return the refusal of a statement, with the call that does the same."""
    catalog, parts = _split(spark, statement)
    hint = statement.call(catalog, parts)
    if statement.of_iceberg:
        return Unsupported(f"This Iceberg statement ({statement.kind}) is not supported yet.", hint=hint)
    if uses_iceberg:
        return Unsupported(f"{statement.kind} … USING iceberg is not supported yet.", hint=hint)
    subject = f"table {statement.name}" if statement.about == "table" else f"catalog {catalog or 'default'}"
    return Unsupported(f"spark.sql over {subject} ({statement.kind}) is not supported yet.", hint=hint)


def _split(spark: Any, statement: Statement) -> tuple[str | None, tuple[str, ...]]:
    """Split the name of a statement into its catalog (None: the default one) and the rest."""
    first, *rest = parts = _parts(statement.name)
    if statement.about == "table":
        return (first, tuple(rest)) if catalog_of(spark, statement.name) is not None else (None, tuple(parts))
    return (first, tuple(rest)) if is_catalog(spark, first, bool(rest)) else (None, tuple(parts))


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name; a text that is no identifier is one part."""
    try:
        return identifier_parts(name)
    except InvalidInput:
        return (name,)


def _is_about_ours(spark: Any, statement: Statement) -> bool:
    """Return whether the table or namespace of a statement is, or would become, one of Frazil's."""
    catalog, parts = _split(spark, statement)
    if catalog is not None:
        return True
    if statement.about == "table":
        makes = statement.kind.startswith("CREATE") and len(parts) > 1
        return is_ours(spark, statement.name) or (makes and default_has_namespace(spark, parts[:-1]))
    return not statement.kind.startswith("CREATE") and default_has_namespace(spark, parts)


def _table_in(spark: Any, text: str) -> str | None:
    """Return the first name in a text that is a table of Frazil's."""
    for match in _TEXT_OR_NAME.finditer(text):
        name = without_blanks(match["name"] or "")
        if len(_parts(name)) > 1 and is_ours(spark, name):
            return name
    return None
