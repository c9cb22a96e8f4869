"""Answer the calls of Spark's catalogs (`spark.catalog.protocol.Calls`) by the methods of
`Catalog`, `Table` and `Transaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import types as s

from frazil.catalog import CatalogBackend
from frazil.catalog.names import full_name
from frazil.errors import (
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchViewError,
    Unsupported,
)
from frazil.maintain.procedures import Procedure
from frazil.ops.changes import OverwritePartitions, OverwriteRows
from frazil.ops.insert import Insertion, with_branch
from frazil.ops.session import Session
from frazil.ops.table_definition import GivenSchema, TableChange
from frazil.spark.catalog.protocol import Parts, TableDefinition, ViewDefinition
from frazil.spark.host.jvm_changes import constant
from frazil.spec.properties import DATA_FORMAT
from frazil.spec.schema import Schema
from frazil.sql import results, views
from frazil.sql.alter import alter_table
from frazil.sql.procedures import call_procedure
from frazil.table.catalog import Catalog
from frazil.table.catalog_transaction import CreateTableTransaction
from frazil.table.create import schema_of

_FORMATS = ("parquet", "avro", "orc")
_NOT_STORED = ("provider", "location", "comment", "external", "is_managed_location", "table_type")


class CatalogCalls:
    """Answer the calls about one catalog in one session. `load`: loads the catalog at its first
    use, so that wrong settings raise their error where a statement names the catalog."""

    def __init__(self, name: str, load: Callable[[], Catalog], spark: Session):
        self.name, self._load, self._spark = name, load, spark
        self.prefix: Parts = ()

    @cached_property
    def catalog(self) -> Catalog:
        """Return the catalog."""
        return self._load()

    @property
    def backend(self) -> CatalogBackend:
        return self.catalog._backend

    # --- tables

    def list_tables(self, namespace: Parts) -> Iterable[Parts]:
        return self.catalog.list_tables(namespace) if namespace else []

    def create_table(self, parts: Parts, definition: TableDefinition) -> None:
        self.catalog.create_table(
            parts, _columns_of(self._spark, definition.schema), **_creation(definition)
        )

    def stage_table(
        self, parts: Parts, definition: TableDefinition, *, replace: bool, create: bool
    ) -> StagedRows:
        schema = _columns_of(self._spark, definition.schema)
        tx = create_as(
            self.catalog, parts, schema, replace=replace, create=create, **_creation(definition)
        )
        return StagedRows(tx, self._spark)

    def alter_table(self, parts: Parts, changes: Sequence[TableChange]) -> None:
        alter_table(self.catalog.load_table(parts), self._spark, changes)

    def truncate(self, parts: Parts) -> None:
        results.note(self._spark, self.catalog.load_table(parts).delete())

    def drop_table(self, parts: Parts, purge: bool) -> None:
        self.catalog.drop_table(parts, purge_requested=purge)

    def rename_table(self, parts: Parts, to: Parts) -> None:
        self.catalog.rename_table(parts, to)

    def insert(self, parts: Parts, insertion: Insertion, branch: str | None) -> None:
        table = self.catalog.load_table(parts)
        if isinstance(insertion, OverwritePartitions) and not table.spec().fields:
            # Spark replaces a table without partitions as a whole, also by no rows.
            insertion = OverwriteRows(insertion.frame, options=insertion.options)
        options = with_branch(insertion.options, branch, table.metadata)
        results.note(self._spark, table._run_write(replace(insertion, options=options)))

    # --- views

    def list_views(self, namespace: Parts) -> Iterable[Parts]:
        return views.list_views(self.catalog, namespace)

    def load_view(self, parts: Parts, to_read: bool) -> ViewDefinition:
        return views.definition_of(
            views.load_view(self.catalog, parts), full_name((self.name, *parts)), to_read
        )

    def view_exists(self, parts: Parts) -> bool:
        try:
            views.load_view(self.catalog, parts)
        except (NoSuchViewError, NoSuchNamespaceError):
            return False
        return True

    def create_view(self, parts: Parts, definition: ViewDefinition) -> None:
        views.create_view(self.catalog, parts, definition)

    def replace_view(self, parts: Parts, definition: ViewDefinition, create: bool) -> None:
        views.replace_view(self.catalog, parts, definition, create)

    def alter_view(self, parts: Parts, removals: Iterable[str], updates: Mapping[str, str]) -> None:
        views.alter_view(self.catalog, parts, removals, updates)

    def drop_view(self, parts: Parts) -> None:
        views.load_view(self.catalog, parts)
        self.catalog.drop_view(parts)

    def rename_view(self, parts: Parts, to: Parts) -> None:
        self.catalog.rename_view(parts, to)

    # --- procedures

    def call(self, procedure: Procedure, arguments: Mapping[str, Any]) -> pa.Table:
        return call_procedure(self.catalog, self._spark, procedure, arguments)

    # --- namespaces

    def list_namespaces(self, parent: Parts) -> Iterable[Parts]:
        return self.catalog.list_namespaces(parent)

    def namespace_exists(self, namespace: Parts) -> bool:
        return bool(namespace) and self.backend.namespace_exists(namespace)

    def namespace_properties(self, namespace: Parts) -> Mapping[str, str]:
        return self.catalog.load_namespace_properties(namespace)

    def create_namespace(self, namespace: Parts, properties: Mapping[str, str]) -> None:
        try:
            self.catalog.create_namespace(namespace, properties)
        except Unsupported:
            if properties.keys() - {"owner"}:
                # Spark adds the owner, which path catalogs cannot keep
                raise
            self.catalog.create_namespace(namespace)

    def alter_namespace(
        self, namespace: Parts, removals: Sequence[str], updates: Mapping[str, str]
    ) -> None:
        self.catalog.update_namespace_properties(namespace, set(removals), dict(updates))

    def drop_namespace(self, namespace: Parts, cascade: bool) -> None:
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(namespace)}")
        if cascade:
            self._empty(namespace)
        self.catalog.drop_namespace(namespace)

    def _empty(self, namespace: Parts) -> None:
        """Drop all that a namespace holds."""
        for inner in self.catalog.list_namespaces(namespace):
            self.drop_namespace(inner, cascade=True)
        for table in self.catalog.list_tables(namespace):
            self.catalog.drop_table(table)
        for view in self.list_views(namespace):
            self.catalog.drop_view(view)


class NamespaceCalls(CatalogCalls):
    """Answer the calls about a namespace of the default catalog as if it were a catalog
    (`dropin.default_catalog`).
    """

    def __init__(self, name: str, load: Callable[[], Catalog], spark: Session):
        super().__init__(name, load, spark)
        self.prefix = (name,)

    def list_tables(self, namespace: Parts) -> Iterable[Parts]:
        return super().list_tables((*self.prefix, *namespace))

    def list_namespaces(self, parent: Parts) -> Iterable[Parts]:
        return super().list_namespaces((*self.prefix, *parent))

    def namespace_exists(self, namespace: Parts) -> bool:
        return super().namespace_exists((*self.prefix, *namespace))

    def namespace_properties(self, namespace: Parts) -> Mapping[str, str]:
        return super().namespace_properties((*self.prefix, *namespace))

    def alter_namespace(
        self, namespace: Parts, removals: Sequence[str], updates: Mapping[str, str]
    ) -> None:
        super().alter_namespace((*self.prefix, *namespace), removals, updates)

    def drop_namespace(self, namespace: Parts, cascade: bool) -> None:
        super().drop_namespace((*self.prefix, *namespace), cascade)


class StagedRows:
    """Hold a table that is created or replaced together with its rows."""

    def __init__(self, transaction: CreateTableTransaction, spark: Session):
        self._transaction, self._spark = transaction, spark

    def insert(self, insertion: Insertion) -> None:
        self._transaction._run_write(insertion)

    def commit(self) -> None:
        self._transaction.commit_transaction()
        results.note(self._spark, self._transaction.result)

    def abort(self) -> None:
        self._transaction.__exit__(RuntimeError, RuntimeError("The statement failed."), None)


def create_as(
    catalog: Catalog,
    parts: Parts,
    schema: GivenSchema,
    *,
    replace: bool,
    create: bool,
    **definition: Any,
) -> CreateTableTransaction:
    """Begin CREATE TABLE AS SELECT, or with `replace` REPLACE TABLE, which with `create` makes a
    table that does not exist. Rows that replace are an overwrite of all rows, as Spark writes them,
    which the snapshot records. `definition`: further arguments of `create_table`.
    """
    if replace:
        return catalog.replace_table_transaction(parts, schema, create=create, **definition)
    return catalog.create_table_transaction(parts, schema, **definition)


def _columns_of(spark: Session, struct: s.StructType) -> Schema:
    """Return the columns of a definition. DEFAULT is what old rows would show and what new ones get
    where nothing is given.
    """
    schema = schema_of(struct)
    fields = []
    for column, field in zip(struct.fields, schema.fields, strict=True):
        text = (column.metadata or {}).get("CURRENT_DEFAULT")
        value = None if text is None else constant(spark, text, column.dataType)
        fields.append(
            field if value is None else replace(field, initial_default=value, write_default=value)
        )
    return Schema(*fields)


def _creation(definition: TableDefinition) -> dict[str, Any]:
    """Return the arguments of `create_table` that a definition says beside its columns. Raises
    InvalidInput for a format in USING that is none of Iceberg's."""
    asked = definition.properties
    properties = {
        k: v for k, v in asked.items() if k not in _NOT_STORED and not k.startswith("option.")
    }
    provider = asked.get("provider", "iceberg").lower()
    if provider in _FORMATS:
        properties.setdefault(DATA_FORMAT.name, provider)
    elif provider != "iceberg":
        hint = "USING iceberg makes an Iceberg table, as do parquet, avro and orc, which name the format of its files."
        raise InvalidInput(f"Unsupported format in USING: {asked['provider']}", hint=hint)
    if comment := asked.get("comment"):
        properties["comment"] = comment
    return {
        "location": asked.get("location"),
        "partition_by": list(definition.partition_by),
        "properties": properties,
    }
