"""Implement Spark's catalog interfaces over a catalog of Frazil's.

Spark's analyser asks a catalog for each table that a statement names. For a query the answer is a
V1Table that stands for the plan of the table's native scan (`jvm_catalog.relation`), so that SQL
reads as `Table.to_spark` does. For any other statement, and for writes, it is a `ServedTable`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject

from frazil.catalog.names import full_name
from frazil.catalog.options import DEFAULT_NAMESPACE, USE_NULLABLE_QUERY_SCHEMA, value
from frazil.errors import (
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.maintain.procedures import Procedure
from frazil.ops.find_table import FoundTable, find_in
from frazil.ops.insert import require_branch
from frazil.ops.session import Session
from frazil.spark.catalog.changes import OPTIONS, changelog_of
from frazil.spark.catalog.functions import function_names, function_of
from frazil.spark.catalog.procedures import UnboundProcedure, procedure_names, procedure_of
from frazil.spark.catalog.protocol import Calls, Parts, TableDefinition
from frazil.spark.catalog.proxy import remembering
from frazil.spark.catalog.relation import Relations, shown_columns, stated_options
from frazil.spark.catalog.table import (
    DescribedState,
    PipelineTable,
    ServedTable,
    ShownTable,
    StagedTable,
)
from frazil.spark.catalog.views import ServedViews
from frazil.spark.engine.read_target import (
    STATE_OPTIONS,
    ReadRequest,
    read_request,
    target_of,
)
from frazil.spark.host import jvm_errors, jvm_relations
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes
from frazil.spark.host.jvm_changes import namespace_changes, table_changes
from frazil.spark.host.jvm_relations import HAS_VIEWS
from frazil.spark.host.settings import session_zone

_CAPABILITIES = ("SUPPORT_COLUMN_DEFAULT_VALUE",)
_INTERFACES = ("StagingTableCatalog", "SupportsNamespaces", "ProcedureCatalog", "FunctionCatalog")
_VIEWS = ("RelationCatalog",) if HAS_VIEWS else ()


class ServedCatalog(ServedViews):
    """Answer Spark's calls for one catalog in one session. `calls`: what a statement does, as a
    user could have typed it.
    """

    Java = implementing(*(CATALOG + name for name in (*_INTERFACES, *_VIEWS)))

    def __init__(self, types: CatalogTypes, spark: Session, calls: Calls):
        super().__init__(types, calls.name)
        self.spark, self.calls = spark, calls
        self._relations = Relations(types, spark, calls.name)

    # --- CatalogPlugin

    def name(self) -> str:
        return self.calls.name

    def initialize(self, name: str, options: JavaObject) -> None:
        """Do nothing: the catalog was configured when it was registered."""

    def defaultNamespace(self) -> Any:
        named = DEFAULT_NAMESPACE.of(self.calls.backend.properties)
        return self.types.strings(named.split(".") if named else ())

    # --- TableCatalog: what there is

    def capabilities(self) -> Any:
        return self.types.catalog_capabilities(_CAPABILITIES)

    def useNullableQuerySchema(self) -> bool:
        # by default, as in Java Iceberg, the columns of CREATE TABLE … AS SELECT take nulls, also
        # where the query's do not
        return value(self.calls.backend.properties, USE_NULLABLE_QUERY_SCHEMA)

    def tableStateOptionKeys(self) -> Any:
        return self.types.option_keys(STATE_OPTIONS)

    def changelogStateOptionKeys(self) -> Any:
        return self.types.option_keys(OPTIONS)

    def listTables(self, namespace: JavaObject) -> Any:
        parts = tuple(namespace)
        with self._spark_errors(namespace=namespace):
            names = list(self.calls.list_tables(parts))
            return self.types.identifiers(
                [*names, *self.calls.list_views(parts)] if self.types.lists_all() else names
            )

    def listTableSummaries(self, namespace: JavaObject) -> Any:
        with self._spark_errors(namespace=namespace):
            return jvm_relations.summaries(
                self.types, list(self.calls.list_tables(tuple(namespace)))
            )

    def tableExists(self, identifier: JavaObject) -> bool:
        parts = self.types.names(identifier)
        if len(parts) < 2:
            return False
        try:
            self._find(parts)
        except (NoSuchTableError, NoSuchNamespaceError):
            return False
        return True

    def invalidateTable(self, identifier: JavaObject) -> None:
        """Do nothing: each statement loads the table's newest state."""

    # --- TableCatalog: one table

    def loadTable(self, identifier: JavaObject, *how: JavaObject | str | int) -> Any:
        parts = self.types.names(identifier)
        with self._spark_errors(identifier):
            try:
                return self._load(parts, *how)
            except NoSuchTableError:
                if not how and self.types.lists_all():
                    return self._shown_view(parts)
                if HAS_VIEWS or how:
                    raise
                return self._view(parts)

    def _load(self, parts: Parts, *how: JavaObject | str | int) -> Any:
        return remembering(self.spark, self._asked(parts, *how))

    def _asked(self, parts: Parts, *how: JavaObject | str | int) -> Any:
        request, asked = self.types.table_request(*how), self.types.asked()
        table = self._find(parts)
        loaded, whole, name = table.loaded, (self.calls.name, *parts), table.name
        own = parts[: len(parts) - len(table.suffixes)]
        if request.writes:
            branch = _written_branch(table)
            return ServedTable(self.types, self.spark, self.calls, own, loaded, branch)
        if not asked.as_relation and not table.suffixes:
            served = PipelineTable if asked.by_pipeline else ServedTable
            return served(self.types, self.spark, self.calls, own, loaded)
        options = {**request.options, **stated_options(self.spark, asked, whole)}
        read = (
            read_request({**options, "path": name}, session_zone(self.spark))
            if options
            else ReadRequest(name)
        )
        if read.selectors and request.selectors:
            both = ", ".join(read.selectors)
            raise InvalidInput(
                f"{name} has a time to travel to, and the options {both}.",
                hint="Give one.",
                table=name,
            )
        selectors = {**read.selectors, **request.selectors}
        target = target_of(table, read, selectors)
        if not asked.as_relation:
            columns = shown_columns(self.spark, target)
            if target.metadata_table is None:
                return DescribedState(self.types, self.spark, name, loaded, columns)
            return ShownTable(self.types, self.spark, name, columns)
        return self._relations.of(target, asked, parts)

    def _find(self, parts: Parts) -> FoundTable:
        """Find the table that a name means in this catalog."""
        if len(parts) < 2:
            raise NoSuchTableError(f"{full_name(parts)} has no namespace.", table=full_name(parts))
        return find_in(self.calls.backend, parts, full_name((self.calls.name, *parts)))

    def loadChangelog(
        self, identifier: JavaObject, context: JavaObject, options: JavaObject
    ) -> Any:
        with self._spark_errors(identifier):
            table = self._find(self.types.names(identifier))
            return changelog_of(self.types, self.spark, table, context, self.types.options(options))

    # --- TableCatalog: changes

    def createTable(self, identifier: JavaObject, *definition: JavaObject) -> Any:
        return self._created(identifier, self._definition(*definition))

    def createTableLike(self, identifier: JavaObject, info: JavaObject, source: JavaObject) -> Any:
        # Spark copies columns and partitions, no properties. The format version says which types
        # and defaults columns may have, so the new table takes that of its source.
        definition, version = self._definition(info), source.properties().get("format-version")
        if version is not None:
            properties = {"format-version": str(version), **definition.properties}
            definition = replace(definition, properties=properties)
        return self._created(identifier, definition)

    def _created(self, identifier: JavaObject, definition: TableDefinition) -> Any:
        parts = self.types.names(identifier)
        with self._spark_errors(identifier):
            self.calls.create_table(parts, definition)
            loaded = self.calls.backend.load(parts)
            table = ServedTable(self.types, self.spark, self.calls, parts, loaded)
        return remembering(self.spark, table)

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> Any:
        parts = self.types.names(identifier)
        with self._spark_errors(identifier):
            # An INSERT WITH SCHEMA EVOLUTION changes the table under the name that it writes to.
            target = self._find(parts)
            own, branch = parts[: len(parts) - len(target.suffixes)], _written_branch(target)
            self.calls.alter_table(own, table_changes(self.spark, changes))
            loaded = self.calls.backend.load(own)
            table = ServedTable(self.types, self.spark, self.calls, own, loaded, branch)
        return remembering(self.spark, table)

    def dropTable(self, identifier: JavaObject) -> bool:
        return self._drop(identifier, purge=False)

    def purgeTable(self, identifier: JavaObject) -> bool:
        return self._drop(identifier, purge=True)

    def _drop(self, identifier: JavaObject, purge: bool) -> bool:
        parts = self.types.names(identifier)
        try:
            self.calls.drop_table(parts, purge)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._refuse_suffix(parts)
            return False
        return True

    def _refuse_suffix(self, parts: Parts) -> None:
        """Raise InvalidInput for the name of a branch, tag or metadata table: none can be dropped."""
        with contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
            target = self._find(parts)
            if target.suffixes:
                raise InvalidInput(
                    f"{target.name} is a part of table {target.place}, which DROP TABLE does not drop.",
                    hint="ALTER TABLE … DROP BRANCH, or DROP TAG, drops a branch or tag.",
                    table=target.place,
                )

    def renameTable(self, identifier: JavaObject, to: JavaObject) -> None:
        with self._spark_errors(identifier, to=to):
            self.calls.rename_table(self.types.names(identifier), self.types.names(to))

    # --- StagingTableCatalog

    def stageCreate(self, identifier: JavaObject, *definition: JavaObject) -> Any:
        return self._stage(identifier, definition, replace=False, create=True)

    def stageReplace(self, identifier: JavaObject, *definition: JavaObject) -> Any:
        return self._stage(identifier, definition, replace=True, create=False)

    def stageCreateOrReplace(self, identifier: JavaObject, *definition: JavaObject) -> Any:
        return self._stage(identifier, definition, replace=True, create=True)

    def supportedCustomMetrics(self) -> Any:
        return self.types.no_metrics

    def _stage(
        self, identifier: JavaObject, arguments: tuple[Any, ...], *, replace: bool, create: bool
    ) -> Any:
        parts, definition = self.types.names(identifier), self._definition(*arguments)
        with self._spark_errors(identifier):
            staged = self.calls.stage_table(parts, definition, replace=replace, create=create)
        transforms = self.types.transforms_of(*arguments)
        table = StagedTable(
            self.types, self.spark, self.calls, parts, definition, staged, transforms
        )
        return remembering(self.spark, table)

    def _definition(self, *arguments: JavaObject) -> TableDefinition:
        schema, partitions, properties = self.types.definition(*arguments)
        return TableDefinition(schema, partitions, properties)

    # --- SupportsNamespaces

    def listNamespaces(self, *parent: JavaObject) -> Any:
        of = tuple(parent[0]) if parent else ()
        with self._spark_errors(namespace=parent[0] if parent else None):
            return self.types.string_arrays(list(self.calls.list_namespaces(of)))

    def namespaceExists(self, namespace: JavaObject) -> bool:
        return self.calls.namespace_exists(tuple(namespace))

    def loadNamespaceMetadata(self, namespace: JavaObject) -> Any:
        with self._spark_errors(namespace=namespace):
            return self.types.string_map(self.calls.namespace_properties(tuple(namespace)))

    def createNamespace(self, namespace: JavaObject, properties: JavaObject) -> None:
        with self._spark_errors(namespace=namespace):
            self.calls.create_namespace(tuple(namespace), self.types.pairs(properties))

    def alterNamespace(self, namespace: JavaObject, changes: JavaObject) -> None:
        removals, updates = namespace_changes(changes)
        with self._spark_errors(namespace=namespace):
            self.calls.alter_namespace(tuple(namespace), removals, updates)

    def dropNamespace(self, namespace: JavaObject, cascade: bool) -> bool:
        with self._spark_errors(namespace=namespace):
            self.calls.drop_namespace(tuple(namespace), cascade)
        return True

    # --- ProcedureCatalog

    def listProcedures(self, namespace: JavaObject) -> Any:
        return self.types.identifiers(procedure_names(tuple(namespace)))

    def loadProcedure(self, identifier: JavaObject) -> Any:
        if (procedure := procedure_of(self.types.names(identifier))) is None:
            hint = f"SHOW PROCEDURES IN {self.calls.name}.system lists them."
            raise Unsupported(
                f"[FAILED_TO_LOAD_ROUTINE] There is no procedure {identifier.toString()}.",
                hint=hint,
                condition="FAILED_TO_LOAD_ROUTINE",
            )
        unbound = UnboundProcedure(self.types, self.spark, self.call, procedure)
        return remembering(self.spark, unbound)

    def call(self, procedure: Procedure, arguments: Mapping[str, Any]) -> pa.Table:
        """Run a procedure, and return its output columns."""
        return self.calls.call(procedure, arguments)

    # --- FunctionCatalog

    def listFunctions(self, namespace: JavaObject) -> Any:
        return self.types.identifiers(function_names(tuple(namespace)))

    def loadFunction(self, identifier: JavaObject) -> Any:
        if (function := function_of(self.types, self.spark, self.types.names(identifier))) is None:
            raise jvm_errors.no_such_function(self.types.jvm, identifier)
        return function

    def functionExists(self, identifier: JavaObject) -> bool:
        return function_of(self.types, self.spark, self.types.names(identifier)) is not None

    # --- errors

    @contextlib.contextmanager
    def _spark_errors(
        self,
        identifier: JavaObject | None = None,
        namespace: JavaObject | None = None,
        to: JavaObject | None = None,
    ) -> Iterator[None]:
        """Raise Spark's own exceptions for what is missing or there already: Spark shows them with
        the place in the statement's text.
        """
        jvm = self.types.jvm
        try:
            yield
        except (NoSuchTableError, NoSuchViewError) as error:
            if identifier is None:
                raise
            raise jvm_errors.no_such_table(jvm, identifier) from error
        except TableAlreadyExistsError as error:
            if identifier is None:
                raise
            raise jvm_errors.table_exists(jvm, to if to is not None else identifier) from error
        except NoSuchNamespaceError as error:
            if namespace is None and identifier is not None:
                namespace = identifier.namespace()
            if namespace is None or to is not None:  # renameTable may not throw Spark's exception
                raise
            raise jvm_errors.no_such_namespace(jvm, namespace) from error
        except NamespaceAlreadyExistsError as error:
            raise jvm_errors.namespace_exists(jvm, namespace) from error
        except NamespaceNotEmptyError as error:
            raise jvm_errors.namespace_not_empty(jvm, namespace) from error


def _written_branch(found: FoundTable) -> str | None:
    """Return the branch that a write goes to. Raises NoSuchRefError."""
    branch = found.written_branch()
    require_branch(branch, found.loaded.metadata)
    return branch


__all__ = ["ServedCatalog"]
