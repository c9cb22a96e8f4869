"""Decide whether a name refers to a table or catalog of Frazil's or of Spark's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from frazil.catalog import load_backend
from frazil.catalog.configuration import DEFAULT_CATALOG, SPARK_PREFIX, configured_names, home
from frazil.catalog.names import full_name, identifier_parts
from frazil.dropin.catalogs import register, registered_in, served_catalogs
from frazil.errors import (
    FrazilError,
    InvalidInput,
    NoSuchTableError,
    NotFound,
    TableAlreadyExistsError,
)
from frazil.ops.find_table import find_in
from frazil.ops.session import Session
from frazil.spark.engine.read_target import locate, read_request
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.jvm import class_is_loaded
from frazil.spark.host.jvm_catalog import (
    SESSION_CATALOG,
    current_catalog,
    current_namespace,
    has_database,
)
from frazil.spark.host.jvm_views import is_temporary_view
from frazil.spark.host.quiet import quietly
from frazil.table.catalog import Catalog

_NO_PLACE = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNSUPPORTED_FEATURE.TABLE_OPERATION")


def catalog_of(spark: Session, name: str) -> str | None:
    """Return the Frazil catalog that a name begins with, else None; None also for what is no
    identifier, which Spark reports.
    """
    try:
        first, *rest = identifier_parts(name)
    except InvalidInput:
        return None
    return first if rest and is_catalog(spark, first, len(rest) > 1) else None


def is_catalog(spark: Session, name: str, default: bool = True) -> bool:
    """Return whether Frazil serves a catalog. A catalog whose JVM class can be loaded is left to
    Spark: the Iceberg jar is there.

    `default`: whether the name of the default catalog counts without being configured.
    """
    register(spark)
    if name == SESSION_CATALOG:  # which has tables of Spark's too: `in_session_catalog`
        return False
    if name in served_catalogs(spark):
        return True
    settings = session_catalogs(spark)
    if name not in {
        *configured_names(settings),
        *([DEFAULT_CATALOG] if default else []),
    }:
        return False
    jvm_class = settings.get(SPARK_PREFIX + name)
    return not (jvm_class and class_is_loaded(spark, jvm_class))


def is_served(spark: Session, name: str) -> bool:
    """Tell whether Spark itself finds a name among Frazil's catalogs: it begins with one of them,
    or one of them is the current one.
    """
    served = served_catalogs(spark)
    if not served or "/" in name:
        return False
    try:
        first, *rest = identifier_parts(name)
    except InvalidInput:
        return False
    if rest and first in served or current_catalog(spark) in served.keys() - {SESSION_CATALOG}:
        return True
    return in_session_catalog(spark, (first, *rest)) is not None


def in_session_catalog(
    spark: Session, parts: Sequence[str], *, new: bool = False
) -> tuple[Catalog, tuple[str, ...]] | None:
    """Return the catalog that Frazil serves in the place of Spark's own one (SparkSessionCatalog),
    and the name there of one of its tables; None for all other names. `new`: also of a table that
    could be created in a database of Spark's; raises TableAlreadyExistsError where the name is one
    of Spark's own tables."""
    served = served_catalogs(spark).get(SESSION_CATALOG)
    if served is None:
        return None
    if len(parts) > 1 and parts[0] == SESSION_CATALOG:
        place = tuple(parts[1:])
    elif current_catalog(spark) != SESSION_CATALOG or (
        len(parts) > 1 and is_catalog(spark, parts[0], default=False)
    ):
        return None
    else:
        place = tuple(parts)
    if len(place) == 1:
        if place == tuple(parts) and is_temporary_view(spark, place[0]):
            return None
        place = (*current_namespace(spark), *place)
    try:
        find_in(served.backend, place)
    except NotFound:
        if not new or len(place) != 2 or not has_database(spark, place[0]):
            return None
        if _spark_knows(spark, full_name(place)):
            text = f"{full_name(place)} is a table of Spark's own, not of Iceberg."
            raise TableAlreadyExistsError(text, table=full_name(place)) from None
    return served.catalog, place


def is_ours(spark: Session, name: str) -> bool:
    """Return whether reads and writes of a name go to Frazil: a location, a name in a catalog of
    Frazil's, or a name that Spark does not know and Frazil's default catalog does."""
    if "/" in name or catalog_of(spark, name) is not None or _is_in_session_catalog(spark, name):
        return True
    if not _has_namespace(name) or _spark_knows(spark, name) or not default_is_there(spark):
        return False
    return exists(spark, name)


def _is_in_session_catalog(spark: Session, name: str) -> bool:
    try:
        return in_session_catalog(spark, identifier_parts(name)) is not None
    except InvalidInput:
        return False


def _has_namespace(name: str) -> bool:
    """Return whether a name has several parts."""
    try:
        return len(identifier_parts(name)) > 1
    except InvalidInput:
        return False


def default_is_there(spark: Session) -> bool:
    """Return whether the default catalog is configured or exists, since looking for a table must
    not create it.
    """
    return (
        DEFAULT_CATALOG in configured_names(session_catalogs(spark))
        or (home() / "catalog.db").exists()
    )


def default_has_namespace(spark: Session, namespace: Sequence[str]) -> bool:
    """Return whether Frazil's default catalog has a namespace that Spark does not have."""
    if not default_is_there(spark):
        return False
    with (
        contextlib.suppress(Exception),
        quietly(),
    ):
        # Spark's own catalog has no namespaces of several parts
        if spark.catalog.spark_catalog.databaseExists(full_name(namespace)):
            return False
    try:
        return load_backend(None, spark_conf=session_catalogs(spark)).namespace_exists(
            tuple(namespace)
        )
    except FrazilError:
        return False


@contextlib.contextmanager
def led_to_ours(spark: Session, name: str, hint: str) -> Iterator[None]:
    """Add a hint to Spark's error for a write to a table or namespace that it does not find: how to
    create the table in Frazil.

    Raises NoSuchTableError where the namespace is one of Frazil's default catalog.
    """
    with quietly():
        try:
            yield
        except Exception as error:
            if any(m in str(error) for m in _NO_PLACE):
                namespace = identifier_parts(name)[:-1]
                if namespace and default_has_namespace(spark, namespace):
                    message = f"Spark has no table {name}, and no namespace {full_name(namespace)}, which Frazil's default catalog has."
                    raise NoSuchTableError(message, hint=hint, table=name) from error
                error.add_note(hint)
            raise


def exists(spark: Session, name: str) -> bool:
    """Return whether Frazil has a table of this name, or one of its metadata tables, branches, tags
    or snapshots.
    """
    try:
        locate(read_request({"path": name}), session_catalogs(spark))
    except NotFound:
        return False
    except FrazilError:
        # damaged or refused: the table is Frazil's all the same, and its reader will report why
        return True
    return True


def _spark_knows(spark: Session, name: str) -> bool:
    """Tell whether Spark itself knows a table of this name, and not by way of the default catalog,
    under a name that the last statement had.
    """
    try:
        if identifier_parts(name)[0] in registered_in(spark).passing:
            return False
        with quietly():
            return bool(spark.catalog.spark_catalog.tableExists(name))
    except Exception:  # Spark refuses names whose catalog it does not know
        return False
