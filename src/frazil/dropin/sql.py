"""`spark.sql` of a prepared session. Statements are Spark's; those that name Frazil's tables, or are Iceberg's own, are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from frazil.dropin.names import catalog_of, is_catalog, is_ours
from frazil.errors import Unsupported

_CREATES = re.compile(r"^\s*(?:create|replace)\b.*\btable\b.*\busing\s+iceberg\b", re.IGNORECASE | re.DOTALL)
_EXTENSION = re.compile(
    r"^\s*alter\s+table\s+\S+\s+(?:add\s+partition\s+field|drop\s+partition\s+field|replace\s+partition\s+field|write\s|set\s+identifier"
    r"|drop\s+identifier|create\s+(?:or\s+replace\s+)?(?:branch|tag)|replace\s+(?:branch|tag)|drop\s+(?:branch|tag))",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))+")
_CATALOG = re.compile(r"^\s*(?:use|show|create|drop|describe|desc|alter)\b.*?(?:`([^`]+)`|(\w+))\s*;?\s*$", re.IGNORECASE | re.DOTALL)
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "CATALOG_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "ROUTINE_NOT_FOUND",
            "UNRESOLVED_ROUTINE", "FAILED_TO_LOAD_ROUTINE", "MISSING_CATALOG_ABILITY", "CANNOT_LOAD",
            "NESTED_DATABASE_UNSUPPORTED", "Nested databases are not supported")  # fmt: skip


def run(own: Callable[..., Any], spark: Any, sqlQuery: str, args: Any = None, **named: Any) -> Any:
    """Spark's answer; where Spark does not know a name that is Frazil's, an error that says so."""
    if _CREATES.match(sqlQuery):
        raise _refused("CREATE TABLE … USING iceberg", "catalog.create_table or df.writeTo(…).create() makes one.")
    try:
        return own(sqlQuery, args, **named)
    except Exception as error:
        if _EXTENSION.match(sqlQuery):
            raise _refused(
                "This Iceberg statement", "Table has a method for it: update_spec, update_sort_order, manage_snapshots, …"
            ) from error
        if any(m in str(error) for m in _MISSING) and (name := _named(spark, sqlQuery)):
            if "." not in name:
                raise _refused(f"spark.sql over catalog {name}", f"frazil.load_catalog({name!r}) has methods for it.") from error
            raise _refused(
                f"spark.sql over table {name}", f"spark.table({name!r}).createOrReplaceTempView(…) gives SQL a name for it."
            ) from error
        raise


def _refused(what: str, hint: str) -> Unsupported:
    return Unsupported(f"{what} is not supported yet.", hint=hint)


def _named(spark: Any, text: str) -> str | None:
    """A name in the text that belongs to one of Frazil's catalogs or tables."""
    for match in _NAME.finditer(re.sub(r"'(?:[^'\\]|\\.)*'", "''", text)):
        name = re.sub(r"\s*\.\s*", ".", match[0])
        if catalog_of(spark, name) or is_ours(spark, name):
            return name
    last = _CATALOG.match(text)  # USE prod, SHOW NAMESPACES IN prod
    name = (last[1] or last[2]) if last else ""
    return name if name and is_catalog(spark, name, default=False) else None
