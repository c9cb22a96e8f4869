"""Stand in the place of Spark's own catalog, as Java's SparkSessionCatalog does: the tables of a
catalog of Frazil's beside the session's own tables.

Namespaces, functions and all tables that are not Iceberg's are the own catalog's, whose answers are
passed on as they are. Spark takes a `CatalogExtension` for its own catalog, so that its tables keep
the commands that they have without it (CREATE TABLE … AS SELECT, partitions, views, statistics).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import (
    FrazilError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.maintain.procedures import Procedure
from frazil.ops.session import Session
from frazil.spark.catalog.catalog import ServedCatalog
from frazil.spark.catalog.functions import SYSTEM
from frazil.spark.catalog.protocol import Calls, Parts
from frazil.spark.host import jvm_relations
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes, current_namespace
from frazil.spark.host.jvm_errors import unchecked
from frazil.spark.host.settings import is_case_sensitive

_INTERFACES = ("CatalogExtension", "StagingTableCatalog", "ProcedureCatalog")
_ICEBERG = "iceberg"
_MAKE_TABLES = frozenset({"migrate", "register_table", "snapshot"})


class ServedSessionCatalog(ServedCatalog):
    """Answer for `spark_catalog`. `own`: the catalog that Spark made itself."""

    Java = implementing(*(CATALOG + name for name in _INTERFACES))

    def __init__(self, types: CatalogTypes, spark: Session, calls: Calls, own: JavaObject):
        super().__init__(types, spark, calls)
        self._own = own

    def setDelegateCatalog(self, own: JavaObject) -> None:
        """Do nothing: the catalog was given its delegate when it was made."""

    def defaultNamespace(self) -> Any:
        return self._own.defaultNamespace()

    def capabilities(self) -> Any:
        return self._own.capabilities()

    # --- tables: Iceberg's first, else the session's own

    def listTables(self, namespace: JavaObject) -> Any:
        own = self._own.listTables(namespace)
        return self.types.with_more_tables(own, self._listed(namespace, own))

    def listTableSummaries(self, namespace: JavaObject) -> Any:
        own = self._own.listTableSummaries(namespace)
        names = self._listed(namespace, self._own.listTables(namespace))
        return self.types.with_more_summaries(own, jvm_relations.summaries(self.types, names))

    def _listed(self, namespace: JavaObject, own: JavaObject) -> list[Parts]:
        """Return the tables in a namespace that the own catalog does not list: a Hive Metastore
        that both share has Iceberg's tables, too.
        """
        tables = self._tables(tuple(namespace))
        return self.types.not_among(list(tables), own)

    def _tables(self, namespace: Parts) -> Iterable[Parts]:
        try:
            return self.calls.list_tables(namespace)
        except NoSuchNamespaceError:
            return ()

    def tableExists(self, identifier: JavaObject) -> bool:
        return self._is_ours(identifier) or bool(self._own.tableExists(identifier))

    def loadTable(self, identifier: JavaObject, *how: JavaObject | str | int) -> Any:
        try:
            return self._load(self.types.names(identifier), *how)
        except (NoSuchTableError, NoSuchNamespaceError):
            return self._own.loadTable(identifier, *how)

    def loadChangelog(
        self, identifier: JavaObject, context: JavaObject, options: JavaObject
    ) -> Any:
        if self._is_ours(identifier):
            return super().loadChangelog(identifier, context, options)
        return self._own.loadChangelog(identifier, context, options)

    def invalidateTable(self, identifier: JavaObject) -> None:
        self._own.invalidateTable(identifier)

    def createTable(self, identifier: JavaObject, *definition: JavaObject) -> Any:
        if not self._is_iceberg(definition):
            return self._own.createTable(identifier, *definition)
        self._make_room(identifier)
        return super().createTable(identifier, *definition)

    def createTableLike(self, identifier: JavaObject, info: JavaObject, source: JavaObject) -> Any:
        provider = self.types.provider(info) or str(source.properties().get("provider") or "")
        if provider.lower() != _ICEBERG:
            return self._own.createTableLike(identifier, info, source)
        self._make_room(identifier)
        return super().createTableLike(identifier, info, source)

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> Any:
        if self._is_ours(identifier):
            return super().alterTable(identifier, changes)
        return self._own.alterTable(identifier, changes)

    def dropTable(self, identifier: JavaObject) -> bool:
        return self._drop(identifier, purge=False) or bool(self._own.dropTable(identifier))

    def purgeTable(self, identifier: JavaObject) -> bool:
        return self._drop(identifier, purge=True) or bool(self._own.purgeTable(identifier))

    def renameTable(self, identifier: JavaObject, to: JavaObject) -> None:
        """Rename a table. A name that a table of either kind has is refused: of two tables with one
        name only Iceberg's would be seen.
        """
        with self._spark_errors(identifier, to=to):
            if self.tableExists(to):
                name = full_name(self.types.names(to))
                raise TableAlreadyExistsError(f"Table already exists: {name}", table=name)
        if self._is_ours(identifier):
            super().renameTable(identifier, to)
        else:
            self._own.renameTable(identifier, to)

    def _stage(
        self, identifier: JavaObject, arguments: tuple[Any, ...], *, replace: bool, create: bool
    ) -> Any:
        if not self._is_iceberg(arguments):
            raise Unsupported(
                "Frazil stages no tables of other sources than Iceberg.",
                hint="CREATE TABLE without AS SELECT, then INSERT INTO.",
                table=identifier.toString(),
            )
        self._make_room(identifier)
        return super()._stage(identifier, arguments, replace=replace, create=create)

    def _is_ours(self, identifier: JavaObject) -> bool:
        parts = self.types.names(identifier)
        try:
            self._find(parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            return False
        return True

    def _is_iceberg(self, definition: tuple[Any, ...]) -> bool:
        """Tell whether a table is defined as one of Iceberg's; Spark has set the provider where the
        statement names none.
        """
        return self.types.provider(*definition).lower() == _ICEBERG

    def _make_room(self, identifier: JavaObject) -> None:
        """Make the namespace of a new table in the catalog, which need not have those of Spark's.
        A name that is taken by a table of Spark's own is refused."""
        *namespace, _ = parts = self.types.names(identifier)
        with self._spark_errors(identifier):
            if not self._is_ours(identifier) and self._own.tableExists(identifier):
                raise TableAlreadyExistsError(
                    f"Table already exists: {full_name(parts)}", table=full_name(parts)
                )
        self._make_namespace(tuple(namespace))

    def _make_namespace(self, namespace: Parts) -> None:
        own = self._own.namespaceExists(self.types.strings(namespace))
        if own and not self.calls.namespace_exists(namespace):
            self.calls.create_namespace(namespace, {})

    def call(self, procedure: Procedure, arguments: Mapping[str, Any]) -> pa.Table:
        """Run a procedure; one that makes a table makes its namespace, as CREATE TABLE does."""
        if procedure.name in _MAKE_TABLES and (name := arguments["table"]).strip():
            *namespace, _ = identifier_parts(name)
            if namespace[:1] == [self.calls.name]:
                namespace = namespace[1:]
            self._make_namespace(tuple(namespace) or current_namespace(self.spark))
        return super().call(procedure, arguments)

    # --- namespaces: the session's own

    def listNamespaces(self, *parent: JavaObject) -> Any:
        return self._own.listNamespaces(*parent)

    def namespaceExists(self, namespace: JavaObject) -> bool:
        return bool(self._own.namespaceExists(namespace))

    def loadNamespaceMetadata(self, namespace: JavaObject) -> Any:
        return self._own.loadNamespaceMetadata(namespace)

    def createNamespace(self, namespace: JavaObject, properties: JavaObject) -> None:
        self._own.createNamespace(namespace, properties)

    def alterNamespace(self, namespace: JavaObject, changes: JavaObject) -> None:
        self._own.alterNamespace(namespace, changes)

    def dropNamespace(self, namespace: JavaObject, cascade: bool) -> bool:
        """Drop a database, which is not empty as long as it holds tables of Iceberg's. The default
        one keeps them: Spark refuses to drop it.
        """
        default = tuple(self._own.defaultNamespace())
        if self._as_spark(tuple(namespace)) == self._as_spark(default):
            return self._drop_own(namespace, cascade)
        spellings = self._spellings(tuple(namespace))
        tables = [table for spelled in spellings for table in self._tables(spelled)]
        with self._spark_errors(namespace=namespace):
            if tables and not cascade:
                raise NamespaceNotEmptyError(f"Namespace is not empty: {full_name(namespace)}")
        for table in tables:
            self.calls.drop_table(table, purge=False)
        dropped = self._drop_own(namespace, cascade)
        for spelled in spellings:
            with contextlib.suppress(FrazilError):  # a metastore that both share has dropped it
                self.calls.drop_namespace(spelled, cascade=False)
        return dropped

    def _drop_own(self, namespace: JavaObject, cascade: bool) -> bool:
        try:
            return bool(self._own.dropNamespace(namespace, cascade))
        except (Py4JJavaError, PySparkException) as error:
            raise unchecked(self.spark, error) from error

    def _spellings(self, database: Parts) -> list[Parts]:
        """Return the namespaces of the catalog that are one database to Spark, which compares its
        names without case.
        """
        wanted = self._as_spark(database)
        return [n for n in self.calls.list_namespaces(()) if self._as_spark(n) == wanted]

    def _as_spark(self, namespace: Parts) -> Parts:
        if is_case_sensitive(self.spark):
            return namespace
        return tuple(name.lower() for name in namespace)

    # --- functions

    def listFunctions(self, namespace: JavaObject) -> Any:
        if _is_system(namespace):
            return super().listFunctions(namespace)
        return self._own.listFunctions(namespace)

    def loadFunction(self, identifier: JavaObject) -> Any:
        if _is_system(identifier.namespace()):
            return super().loadFunction(identifier)
        return self._own.loadFunction(identifier)

    def functionExists(self, identifier: JavaObject) -> bool:
        if _is_system(identifier.namespace()):
            return super().functionExists(identifier)
        return bool(self._own.functionExists(identifier))


def _is_system(namespace: JavaObject) -> bool:
    return [str(n).lower() for n in namespace] == [SYSTEM]


__all__ = ["ServedSessionCatalog"]
