"""Provide Catalog, by which users manage namespaces and tables by name (PyIceberg's Catalog)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from frazil.catalog import CatalogBackend, PropertiesUpdateSummary
from frazil.catalog import Identifier as Parts
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.options import USE_NULLABLE_QUERY_SCHEMA, value
from frazil.errors import InvalidInput, NamespaceAlreadyExistsError, TableAlreadyExistsError
from frazil.ops import arguments
from frazil.ops.arguments import SparkFrame, holds_rows, is_spark_frame
from frazil.ops.creation import create_empty, with_catalog_properties
from frazil.ops.session import Session
from frazil.ops.table_definition import GivenSchema, table_metadata
from frazil.spec.on_demand import on_demand
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.sorting import SortOrder
from frazil.storage import place_of, redact
from frazil.table import engines, pickling
from frazil.table.catalog_transaction import CatalogTransaction, CreateTableTransaction
from frazil.table.create import schema_of
from frazil.table.missing_methods import OF_CATALOGS, no_such_method
from frazil.table.on_demand_types import results
from frazil.table.table import Table
from frazil.table.views import CatalogViews

Identifier = str | tuple[str, ...]
_MIGRATION = "table.migration"  # loaded by the calls that move tables


class Catalog(CatalogViews, AbstractContextManager["Catalog"]):
    """Manage the namespaces, tables and views of one catalog. `frazil.load_catalog` makes it.

    Identifiers are text as in "namespace.table", or tuples of names; the catalog's own name may
    stand first. As a context manager it closes its connections at the end of the block.
    """

    def __init__(self, backend: CatalogBackend):
        self._backend = backend

    @property
    def name(self) -> str:
        """Return the name under which the catalog was loaded."""
        return self._backend.name

    @property
    def properties(self) -> dict[str, str]:
        """Return the catalog's properties as configured, with secrets replaced by ***."""
        return redact(self._backend.properties)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the catalog by its name and its settings without secrets. Raises Unsupported for a
        catalog in memory.
        """
        return _opened_again, (type(self), pickling.settings_of(self._backend))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog's connections."""
        self._backend.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self._backend.kind})"

    # --- names

    @staticmethod
    def identifier_to_tuple(identifier: Identifier) -> Parts:
        """Return the parts of an identifier, which is dotted text (with back-quotes around parts
        that hold dots) or a tuple of names. Raises InvalidInput for other values."""
        if not isinstance(identifier, str | tuple | list):
            raise InvalidInput(
                f'{identifier!r} is not an identifier: give text as in "db.events", or a tuple of names.'
            )
        return (
            tuple(identifier)
            if isinstance(identifier, tuple | list)
            else identifier_parts(identifier)
        )

    @classmethod
    def table_name_from(cls, identifier: Identifier) -> str:
        """Return the last part of an identifier."""
        return cls.identifier_to_tuple(identifier)[-1]

    @classmethod
    def namespace_from(cls, identifier: Identifier) -> Parts:
        """Return the namespace of a table's identifier, as a tuple."""
        return cls.identifier_to_tuple(identifier)[:-1]

    @classmethod
    def namespace_to_string(cls, identifier: Identifier) -> str:
        """Return a namespace as dotted text."""
        return full_name(cls.identifier_to_tuple(identifier))

    def _parts(self, identifier: Identifier) -> Parts:
        parts = self.identifier_to_tuple(identifier)
        if len(parts) > 2 and parts[0] == self.name:
            parts = parts[1:]
        if len(parts) < 2 or not all(parts):
            raise InvalidInput(
                f"{identifier!r} is not a table identifier: give a namespace and a name, as in db.events."
            )
        return parts

    @staticmethod
    def _new_name(parts: Parts) -> Parts:
        """Check the name of a new table or namespace. An existing one can be opened whatever its
        name is.
        """
        if blank := [p for p in parts if not p.strip()]:
            raise InvalidInput(
                f"{blank[0]!r} cannot be a name: it is blank.", hint="Names are as in db.events."
            )
        return parts

    def _full_name(self, parts: Parts) -> str:
        return full_name((self.name, *parts))

    # --- tables

    def create_table(
        self,
        identifier: Identifier,
        schema: GivenSchema,
        location: str | None = None,
        partition_spec: PartitionSpec | None = None,
        sort_order: SortOrder | None = None,
        properties: Mapping[str, object] = {},
        *,
        partition_by: Sequence[str] | str = (),
        sort_by: Sequence[str] | str = (),
        identifier_fields: Sequence[str] | str = (),
        format_version: int | None = None,
    ) -> Table:
        """Create a new, empty table.

        `schema`: a Schema, DDL text, a mapping of column names to types, a pyarrow or Spark schema,
        or a frame. `location`: a path or URI (a relative path is made absolute); None: the catalog
        chooses. `partition_by`: transforms as in "days(ts)", "bucket(16, id)", "region"; `sort_by`:
        as in "id desc nulls last"; either may be given as an object instead, `partition_spec` and
        `sort_order`. `identifier_fields`: the columns of the primary key, which become required.
        `format_version`: 1, 2 or 3; None: 2.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError.
        """
        parts = self._new_name(self._parts(identifier))
        if holds_rows(schema):
            text = f"create_table takes the columns of the frame for {full_name(parts)}, not its rows: append(frame) adds them."
            warnings.warn(text, stacklevel=2)
        metadata = table_metadata(
            self._place(parts, location),
            self._columns(schema),
            partition_spec,
            sort_order,
            with_catalog_properties(properties, self._backend.properties),
            partition_by=partition_by,
            sort_by=sort_by,
            identifier_fields=identifier_fields,
            format_version=format_version,
        )
        loaded = create_empty(self._backend, parts, metadata, self._full_name(parts))
        return Table(self._backend, loaded, self._full_name(parts))

    def _columns(self, schema: GivenSchema) -> Schema:
        takes_nulls = value(self._backend.properties, USE_NULLABLE_QUERY_SCHEMA)
        return schema_of(schema.schema if is_spark_frame(schema) and not takes_nulls else schema)

    def _place(self, parts: Parts, location: str | None) -> str:
        hint = "location= is the third argument; columns to partition by are given by name: partition_by=[…]. ./name is a directory here."
        return place_of(location, hint=hint) if location else ""  # "" lets the catalog choose

    def create_table_if_not_exists(
        self, identifier: Identifier, schema: GivenSchema, *arguments: Any, **named: Any
    ) -> Table:
        """Create a table as `create_table` does, or return the existing one of that name unchanged."""
        try:
            return self.create_table(identifier, schema, *arguments, **named)
        except TableAlreadyExistsError:
            return self.load_table(identifier)

    def create_table_transaction(
        self, identifier: Identifier, schema: GivenSchema, location: str | None = None, **named: Any
    ) -> CreateTableTransaction:
        """Create a table that becomes visible together with its first rows, as one commit: `with
        catalog.create_table_transaction("db.t", schema) as tx: tx.append(df)`. `named`: further
        arguments of `create_table`.
        """
        return self._creation(identifier, schema, location, named, replace=False, create=True)

    def replace_table_transaction(
        self,
        identifier: Identifier,
        schema: GivenSchema,
        location: str | None = None,
        create: bool = False,
        **named: Any,
    ) -> CreateTableTransaction:
        """Replace a table's schema, partition spec and rows in one commit that keeps its history,
        as CREATE OR REPLACE does.

        `create`: create the table if it does not exist. `named`: further arguments of
        `create_table`.
        """
        return self._creation(identifier, schema, location, named, replace=True, create=create)

    def _creation(
        self,
        identifier: Identifier,
        schema: GivenSchema,
        location: str | None,
        named: dict[str, Any],
        replace: bool,
        create: bool,
    ) -> CreateTableTransaction:
        parts = self._new_name(self._parts(identifier))
        base = (
            self._backend.load(parts)
            if replace and (not create or self._backend.table_exists(parts))
            else None
        )
        place = base.metadata.location if base and not location else self._place(parts, location)
        properties = with_catalog_properties(
            named.pop("properties", None), self._backend.properties
        )
        spec, order = named.pop("partition_spec", None), named.pop("sort_order", None)
        metadata = table_metadata(place, self._columns(schema), spec, order, properties, **named)
        return CreateTableTransaction(self._backend, parts, metadata, base, self._full_name(parts))

    def load_table(self, identifier: Identifier) -> Table:
        """Load a table. Raises NoSuchTableError."""
        parts = self._parts(identifier)
        return Table(self._backend, self._backend.load(parts), self._full_name(parts))

    def transaction(self, *, txn: tuple[str, int] | None = None) -> CatalogTransaction:
        """Begin a transaction over several tables, which makes their changes one commit: all or
        none. `with catalog.transaction() as tx: tx.table("db.a").append(a);
        tx.table("db.b").delete("id = 1")`.

        `txn`: a name and a number, as for a single write, kept in each of the tables. Raises
        Unsupported where the catalog cannot do it: path and Hive catalogs, and REST catalogs whose
        server does not offer it.
        """
        return CatalogTransaction(self._backend, self._parts, self.load_table, txn)

    def table_exists(self, identifier: Identifier) -> bool:
        """Tell whether a table exists; False for a view."""
        return self._backend.table_exists(self._parts(identifier))

    def drop_table(self, identifier: Identifier, purge_requested: bool = False) -> None:
        """Drop a table from the catalog. Its files stay, unless `purge_requested` (see
        `purge_table`) or the catalog is a path catalog, where the table is its directory. Raises
        NoSuchTableError."""
        self._drop(identifier, purge_requested)

    def purge_table(self, identifier: Identifier) -> tuple[str, ...]:
        """Drop a table, and delete its files below its location and below the directories that the
        properties write.data.path and write.metadata.path name. Files elsewhere, for example those
        of `add_files`, stay; their paths are logged and returned.

        Raises NoSuchTableError, and ValidationException when gc.enabled is false, since other
        tables may share the files.
        """
        return self._drop(identifier, purge=True)

    def _drop(self, identifier: Identifier, purge: bool) -> tuple[str, ...]:
        parts = self._parts(identifier)
        engines.uncache(lambda: self._backend.load(parts).metadata)
        return self._backend.drop_table(parts, purge=purge)

    def rename_table(self, from_identifier: Identifier, to_identifier: Identifier) -> Table:
        """Rename a table; its files stay where they are. Raises NoSuchTableError,
        TableAlreadyExistsError, NoSuchNamespaceError.
        """
        old, new = self._parts(from_identifier), self._new_name(self._parts(to_identifier))
        self._backend.rename_table(old, new)
        table = self.load_table(to_identifier)
        engines.cache_renamed(table._loaded, old, new)
        return table

    @overload
    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str,
        overwrite: bool = False,
        *,
        dry_run: Literal[False] = False,
    ) -> Table: ...

    @overload
    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str,
        overwrite: bool = False,
        *,
        dry_run: Literal[True],
    ) -> results.RegisterTableResult: ...

    @overload
    def register_table(
        self,
        identifier: Identifier,
        *,
        metadata_file: str,
        overwrite: bool = False,
        dry_run: bool = False,
    ) -> results.RegisterTableResult: ...

    def register_table(
        self,
        identifier: Identifier,
        metadata_location: str | None = None,
        overwrite: bool = False,
        *,
        metadata_file: str | None = None,
        dry_run: bool = False,
    ) -> Table | results.RegisterTableResult:
        """Add an existing table to the catalog, by the location of its metadata file. `overwrite`:
        replace a table of that name.

        Given as `metadata_file=`, as in Java, it is Java's procedure, which returns the current
        snapshot and how many rows and files there are; `dry_run=True` returns the same and
        registers nothing. Raises TableAlreadyExistsError, NoSuchFileError, CorruptData.
        """
        if (metadata_location is None) == (metadata_file is None):
            raise InvalidInput(
                "register_table takes the location of a metadata file, once: metadata_location= or metadata_file=."
            )
        parts, place = (
            self._new_name(self._parts(identifier)),
            metadata_location or metadata_file or "",
        )
        if metadata_file is not None or dry_run:
            registered: results.RegisterTableResult = on_demand(
                "maintain.migration.register", "register_table"
            )(self._backend, parts, place, overwrite=overwrite, dry_run=dry_run)
            return registered
        return Table(
            self._backend,
            self._backend.register_table(parts, place, overwrite=overwrite),
            self._full_name(parts),
        )

    def migrate_to(
        self,
        other: Catalog,
        tables: Identifier | Sequence[Identifier] | None = None,
        *,
        dry_run: bool = False,
    ) -> results.MoveTablesResult:
        """Move tables to another catalog without copying data: it registers their metadata files,
        and this one drops its entries.

        `tables`: a name, a list of names, or None for every table; they keep their names, and
        missing namespaces are created. `dry_run`: return what would be moved and the `problems`;
        without it the first problem is raised before anything is moved. A table is renamed while it
        is moved, so that a commit by its old name fails instead of being lost. Views stay. Raises
        Unsupported for path catalogs.
        """
        if not isinstance(other, Catalog):
            raise InvalidInput(
                f"migrate_to takes a catalog, not {other!r:.200}.",
                hint="frazil.load_catalog(name) loads one.",
            )
        names = [tables] if isinstance(tables, str | tuple) else tables
        parts = None if names is None else [self._parts(name) for name in names]
        moved: results.MoveTablesResult = on_demand(_MIGRATION, "move_tables")(
            self._backend, other._backend, parts, dry_run=dry_run
        )
        return moved

    # --- files that are there (the work: frazil.maintain.migration)

    def add_files(
        self,
        identifier: Identifier,
        source_table: str,
        partition_filter: Mapping[str, object] | None = None,
        check_duplicate_files: bool = True,
        parallelism: int | None = None,
        *,
        dry_run: bool = False,
        progress: results.ProgressCallback | None = None,
        spark: Session | None = None,
    ) -> results.AddFilesResult:
        """Add the Parquet files of a directory or of a table of Spark to a table, at their
        location; see `t.maintenance.add_files`.
        """
        return self.load_table(identifier).maintenance.add_files(
            source_table,
            partition_filter,
            check_duplicate_files,
            parallelism,
            dry_run=dry_run,
            progress=progress,
            spark=spark,
        )

    def snapshot(
        self,
        source_table: str,
        identifier: Identifier,
        location: str | None = None,
        properties: Mapping[str, object] = {},
        parallelism: int | None = None,
        ignore_missing_files: bool = False,
        *,
        dry_run: bool = False,
        progress: results.ProgressCallback | None = None,
        spark: Session | None = None,
    ) -> results.SnapshotTableResult:
        """Create a table over the Parquet files of a directory, or of a table of Spark's own
        catalog, which stays as it is.

        `source_table`: parquet.`/a/directory`, a directory, or a name as in "db.table". Columns
        come from the files, partition columns from folders. The new table may be written to; it
        never deletes the files of the source (gc.enabled is false).
        """
        created: results.SnapshotTableResult = on_demand(_MIGRATION, "snapshot_table")(
            self,
            source_table,
            identifier,
            location,
            properties,
            parallelism,
            ignore_missing_files,
            dry_run=dry_run,
            progress=progress,
            spark=spark,
        )
        return created

    def migrate(
        self,
        source_table: str,
        identifier: Identifier | None = None,
        properties: Mapping[str, object] = {},
        drop_backup: bool = False,
        backup_table_name: str | None = None,
        parallelism: int | None = None,
        ignore_missing_files: bool = False,
        *,
        dry_run: bool = False,
        progress: results.ProgressCallback | None = None,
        spark: Session | None = None,
    ) -> results.MigrateTableResult:
        """Create a table over the files of a table of Spark, or of a directory, at the same
        location and in place of it.

        `identifier` None: the name that the table of Spark has. That one is renamed to
        `backup_table_name` (None: its name with _BACKUP_), which `drop_backup` drops in the end, or
        gets its name back when the migration fails.
        """
        migrated: results.MigrateTableResult = on_demand(_MIGRATION, "migrate_table")(
            self,
            source_table,
            identifier,
            properties,
            drop_backup,
            backup_table_name,
            parallelism,
            ignore_missing_files,
            dry_run=dry_run,
            progress=progress,
            spark=spark,
        )
        return migrated

    def list_tables(self, namespace: Identifier) -> list[Parts]:
        """Return the identifiers of the tables in a namespace, namespace included. Raises
        NoSuchNamespaceError.
        """
        return self._backend.list_tables(self.identifier_to_tuple(namespace))

    # --- streams

    def write_stream(
        self,
        frame: SparkFrame,
        table_column: str,
        mode: str | None = None,
        *,
        create: bool | Mapping[str, object] = True,
        evolve: bool = True,
        namespace: Identifier = (),
        on_bad_table: str = "fail",
        set_aside_table: str | None = None,
        branch: str | None = None,
        snapshot_properties: Mapping[str, str] = {},
        on_commit: Callable[[int, results.TablesResult], object] | None = None,
        case_sensitive: bool | None = None,
        **options: object,
    ) -> results.StreamWriter:
        """Return a DataStreamWriter that writes each row of a streaming DataFrame into the table
        that the row names in `table_column`, one commit for each table and micro-batch, exactly
        once: `catalog.write_stream(frame, "topic").option("checkpointLocation", …).start()`.

        `mode`: append, overwrite, upsert or cdc; None: append, or what the table says. `create`:
        make missing tables and namespaces; a mapping holds arguments of `create_table` for them.
        `evolve`: add columns that a table lacks and its rows fill. `namespace`: that of without
        one. `on_bad_table`: rows that no table takes stop the query ("fail"), or go to
        `set_aside_table` ("set-aside"). `on_commit`: called after each batch with its number and
        TablesResult. `options`: see docs/streams-sink.md.
        """
        if not isinstance(table_column, str):
            raise InvalidInput(f"table_column must be the name of a column, not {table_column!r}.")
        many = on_demand("table.stream_tables", "many_tables")(
            self,
            table_column,
            create,
            arguments.flag("evolve", evolve),
            self.identifier_to_tuple(namespace) if namespace else (),
            on_bad_table,
            set_aside_table,
            on_commit,
        )
        sink_arguments = on_demand("stream.sink.arguments", "SinkArguments")(
            mode,
            options if branch is None else {**options, "branch": branch},
            snapshot_properties=arguments.mapping("snapshot_properties", snapshot_properties),
            case_sensitive=arguments.flag("case_sensitive", case_sensitive),
        )
        return engines.spark_entry_points().write_many(frame, many, sink_arguments)

    # --- namespaces

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        """Create a namespace. `properties`: `location` is the directory of new tables. Raises
        NamespaceAlreadyExistsError, and Unsupported for properties in a path catalog."""
        self._backend.create_namespace(
            self._new_name(self.identifier_to_tuple(namespace)), dict(properties)
        )

    def create_namespace_if_not_exists(
        self, namespace: Identifier, properties: Mapping[str, str] = {}
    ) -> None:
        """Create a namespace unless it exists; `properties` count for a new one only."""
        try:
            self.create_namespace(namespace, properties)
        except NamespaceAlreadyExistsError:
            return

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drop an empty namespace. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        self._backend.drop_namespace(self.identifier_to_tuple(namespace))

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Tell whether a namespace exists."""
        return self._backend.namespace_exists(self.identifier_to_tuple(namespace))

    def list_namespaces(self, namespace: Identifier = ()) -> list[Parts]:
        """Return the namespaces directly within a namespace; (): the top-level ones. Raises
        NoSuchNamespaceError.
        """
        return self._backend.list_namespaces(
            self.identifier_to_tuple(namespace) if namespace else ()
        )

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace. Raises NoSuchNamespaceError."""
        return self._backend.load_namespace_properties(self.identifier_to_tuple(namespace))

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        """Remove and set properties of a namespace. Returns the keys by what became of them:
        `removed`, `updated`, `missing`.

        Raises NoSuchNamespaceError, and Unsupported in a path catalog.
        """
        return self._backend.update_namespace_properties(
            self.identifier_to_tuple(namespace), removals or set(), dict(updates)
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_method(self, name, OF_CATALOGS)


def _opened_again(cls: type[Catalog], settings: pickling.CatalogSettings) -> Catalog:
    catalog = cls.__new__(cls)
    Catalog.__init__(catalog, pickling.open_backend(settings))
    return catalog
