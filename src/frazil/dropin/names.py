"""Whose table a name means: Frazil's or Spark's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from frazil.catalog import load_backend
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names, home
from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import FrazilError, InvalidInput, NoSuchTableError, NotFound
from frazil.spark.door.iceberg_read import session_catalogs
from frazil.spark.door.read_target import locate, read_request
from frazil.spark.host.jvm import class_is_loaded
from frazil.spark.host.quiet import quietly

_PREFIX = "spark.sql.catalog."
_NO_PLACE = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "UNSUPPORTED_FEATURE.TABLE_OPERATION")


def catalog_of(spark: Any, name: str) -> str | None:
    """The Frazil catalog that a name begins with; None also for what is no identifier, of which Spark will say so."""
    try:
        first, *rest = identifier_parts(name)
    except InvalidInput:
        return None
    return first if rest and is_catalog(spark, first, len(rest) > 1) else None


def is_catalog(spark: Any, name: str, default: bool = True) -> bool:
    """Whether Frazil serves the catalog of this name. One whose JVM class can be loaded stays the JVM's (the Java jar is there).

    `default`: whether the name of the default catalog counts without being configured.
    """
    settings = session_catalogs(spark)
    if name == "spark_catalog" or name not in {*configured_names(settings), *([DEFAULT_CATALOG] if default else [])}:
        return False
    jvm_class = settings.get(_PREFIX + name)
    return not (jvm_class and class_is_loaded(spark, jvm_class))


def is_ours(spark: Any, name: str) -> bool:
    """Whether reads and writes of this name go to Frazil: its catalog is Frazil's, or Spark does not know it and Frazil's default does."""
    if "/" in name or catalog_of(spark, name) is not None:
        return True
    if not _has_namespace(name) or _spark_knows(spark, name) or not _default_is_there(spark):
        return False
    return exists(spark, name)


def _has_namespace(name: str) -> bool:
    try:
        return len(identifier_parts(name)) > 1
    except InvalidInput:
        return False


def _default_is_there(spark: Any) -> bool:
    """Looking for a table never makes a catalog."""
    return DEFAULT_CATALOG in configured_names(session_catalogs(spark)) or (home() / "catalog.db").exists()


def default_has_namespace(spark: Any, namespace: Sequence[str]) -> bool:
    """Whether Frazil's default catalog has a namespace that Spark has not."""
    if not _default_is_there(spark):
        return False
    with contextlib.suppress(Exception), quietly():  # Spark's own catalog has no namespaces of several parts
        if spark.catalog.own.databaseExists(full_name(namespace)):
            return False
    try:
        return load_backend(None, spark_conf=session_catalogs(spark)).namespace_exists(tuple(namespace))
    except FrazilError:
        return False


@contextlib.contextmanager
def led_to_ours(spark: Any, name: str, hint: str) -> Iterator[None]:
    """Where Spark does not find the place of a table that is written, its error says how the table becomes one of Frazil's. Raises
    NoSuchTableError where the namespace is one of Frazil's default catalog."""
    with quietly():
        try:
            yield
        except Exception as error:
            if any(m in str(error) for m in _NO_PLACE):
                namespace = identifier_parts(name)[:-1]
                if namespace and default_has_namespace(spark, namespace):
                    told = f"Spark has no table {name}, and no namespace {full_name(namespace)}, which Frazil's default catalog has."
                    raise NoSuchTableError(told, hint=hint, table=name) from error
                error.add_note(hint)
            raise


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
        with quietly():
            return bool(spark.catalog.own.tableExists(name))
    except Exception:  # Spark refuses names whose catalog it does not know
        return False
