"""Whose table a name means: Frazil's or Spark's."""

from __future__ import annotations

from typing import Any

from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names, home
from frazil.errors import FrazilError, NotFound
from frazil.spark.door.iceberg_read import session_catalogs
from frazil.spark.door.target import locate, read_request
from frazil.spark.host.jvm import class_is_loaded

_PREFIX = "spark.sql.catalog."


def parts_of(name: str) -> list[str]:
    """The parts of an identifier as Spark splits it: at dots, but not inside back-quotes."""
    parts, quoted = [""], False
    for c in name:
        if c == "`":
            quoted = not quoted
        elif c == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def catalog_of(spark: Any, name: str) -> str | None:
    """The Frazil catalog that a name begins with. One whose JVM class can be loaded stays the JVM's (the Java jar is there)."""
    first, *rest = parts_of(name)
    settings = session_catalogs(spark)
    known = {*configured_names(settings), *([DEFAULT_CATALOG] if len(rest) > 1 else [])}
    if not rest or first not in known or first == "spark_catalog":
        return None
    jvm_class = settings.get(_PREFIX + first)
    return None if jvm_class and class_is_loaded(spark, jvm_class) else first


def is_ours(spark: Any, name: str) -> bool:
    """Whether reads and writes of this name go to Frazil: its catalog is Frazil's, or Spark does not know it and Frazil's default does."""
    if "/" in name or catalog_of(spark, name) is not None:
        return True
    if len(parts_of(name)) < 2 or _spark_knows(spark, name) or not _default_is_there(spark):
        return False
    return exists(spark, name)


def _default_is_there(spark: Any) -> bool:
    """Looking for a table never makes a catalog."""
    return DEFAULT_CATALOG in configured_names(session_catalogs(spark)) or (home() / "catalog.db").exists()


def exists(spark: Any, name: str) -> bool:
    """Whether Frazil has it: a table, one of its metadata tables, branches, tags or snapshots."""
    try:
        locate(read_request({"path": name}), session_catalogs(spark))
    except NotFound:
        return False
    except FrazilError:  # damaged or refused: it is Frazil's all the same, and the caller shall hear why
        return True
    return True


def _spark_knows(spark: Any, name: str) -> bool:
    """Spark's own answer."""
    try:
        return bool(spark.catalog.own.tableExists(name))
    except Exception:  # Spark refuses names whose catalog it does not know
        return False
