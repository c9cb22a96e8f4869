"""Serve Frazil's default catalog to SQL: as `default.db.t`, and as `db.t` where Spark has no
database `db`.

Spark takes the first part of a name for a catalog if there is one of that name. So the default
catalog, and each of its namespaces, is a catalog for as long as a statement that names it runs.
`default.t` and databases of Spark's own thus stay what they are.
"""

from __future__ import annotations

import re

from frazil.catalog.configuration import DEFAULT_CATALOG
from frazil.catalog.names import IN_SQL, identifier_parts, without_blanks
from frazil.dropin.catalogs import (
    default_catalog,
    default_is_there,
    registered_in,
    serve_in_passing,
    spark_asks,
)
from frazil.dropin.names import in_session_catalog
from frazil.errors import FrazilError, InvalidInput
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN
from frazil.spark.host.jvm_catalog import (
    SESSION_CATALOG,
    current_catalog,
    has_database,
    remove_catalog,
)

_NAME = re.compile(IN_SQL)
_ALL_CATALOGS = re.compile(r"\bshow\s+catalogs\b", re.IGNORECASE)
_OF_NAMESPACE = re.compile(
    rf"\b(?:in|from|use|namespace|database|schema|describe|desc)\s+({IN_SQL})", re.IGNORECASE
)


def serve_default(spark: Session, text: str) -> None:
    """Make the default catalog known for a statement that names it, and forget it for others. Does
    nothing on Spark Connect.
    """
    if not spark_asks(spark):
        return
    try:
        _serve(spark, text)
    except NOT_AS_KNOWN as error:
        fall_back(
            "The default catalog", error, "SQL does not reach its tables; spark.table(…) does."
        )


def _serve(spark: Session, text: str) -> None:
    registered = registered_in(spark)
    wanted = _wanted(spark, text) if default_is_there(spark) else set()
    if not wanted and not registered.passing:
        return
    current = current_catalog(spark)
    for name in registered.passing.keys() - wanted - {current}:
        remove_catalog(spark, name)
        del registered.passing[name]
    for name in wanted - registered.passing.keys():
        serve_in_passing(spark, name)


def _wanted(spark: Session, text: str) -> set[str]:
    """Return the names in a text under which the default catalog has to be known: its own, and
    those of its namespaces.
    """
    wanted: set[str] = {DEFAULT_CATALOG} if _ALL_CATALOGS.search(text) else set()
    seen: set[str] = set()
    is_sparks = current_catalog(spark) == SESSION_CATALOG
    of_namespace = {without_blanks(m[1]) for m in _OF_NAMESPACE.finditer(text)}
    for name in {without_blanks(m[0]) for m in _NAME.finditer(text) if "." in m[0]} | of_namespace:
        try:
            first, *rest = identifier_parts(name)
        except InvalidInput:
            continue
        if first == DEFAULT_CATALOG and len(rest) > 1:
            if in_session_catalog(spark, (first, *rest)) is None:  # `default.t.files` of its table
                wanted.add(first)
                first = rest[0]  # the text of a view may name its tables without the catalog
        if is_sparks and first not in seen and first not in (DEFAULT_CATALOG, SESSION_CATALOG):
            seen.add(first)
            if (
                first not in registered_in(spark).served
                and _has_namespace(spark, first)
                and not has_database(spark, first)
            ):
                wanted.add(first)
    return wanted


def _has_namespace(spark: Session, name: str) -> bool:
    try:
        return default_catalog(spark).namespace_exists((name,))
    except FrazilError:
        return False


__all__ = ["serve_default"]
