"""Create tables of a catalog over files that are there, and move tables between catalogs
(`Catalog.snapshot`, `migrate`, `migrate_to`; the work: `maintain.migration`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.catalog import CatalogBackend
from frazil.catalog import Identifier as Parts
from frazil.catalog.names import identifier_parts
from frazil.commit.evolve.update_properties import property_texts
from frazil.errors import InvalidInput, TableAlreadyExistsError
from frazil.expr.sql_text import back_quoted
from frazil.maintain.migration import move_tables as moves
from frazil.maintain.migration.new_tables import (
    Import,
    MigrateTableResult,
    SnapshotTableResult,
    migrate,
    snapshot,
)
from frazil.maintain.migration.source import Source, resolve_source
from frazil.maintain.progress import ProgressCallback
from frazil.ops.creation import Creation, with_catalog_properties
from frazil.ops.session import Session
from frazil.ops.table_definition import table_metadata
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.storage import storage_for
from frazil.table import engines
from frazil.table.catalog import Catalog, Identifier


def move_tables(
    source: CatalogBackend,
    target: CatalogBackend,
    tables: Sequence[Parts] | None,
    *,
    dry_run: bool,
) -> moves.MoveTablesResult:
    """Move tables to another catalog; None: every table."""
    parts = moves.every_table(source) if tables is None else tables
    return moves.move_tables(source, target, parts, dry_run=dry_run)


def snapshot_table(
    catalog: Catalog,
    source_table: str,
    identifier: Identifier,
    location: str | None,
    properties: Mapping[str, object],
    parallelism: int | None,
    ignore_missing_files: bool,
    *,
    dry_run: bool,
    progress: ProgressCallback | None,
    spark: Session | None,
) -> SnapshotTableResult:
    """Create a table over the files of a directory or of a table of Spark, which stays."""
    source, new = _import(
        catalog,
        source_table,
        identifier,
        location,
        properties,
        parallelism,
        ignore_missing_files,
        progress,
        spark,
    )
    return snapshot(source, new, dry_run=dry_run)


def migrate_table(
    catalog: Catalog,
    source_table: str,
    identifier: Identifier | None,
    properties: Mapping[str, object],
    drop_backup: bool,
    backup_table_name: str | None,
    parallelism: int | None,
    ignore_missing_files: bool,
    *,
    dry_run: bool,
    progress: ProgressCallback | None,
    spark: Session | None,
) -> MigrateTableResult:
    """Create a table over the files of a table of Spark, or of a directory, in place of it."""
    if identifier is None and "/" in source_table:
        raise InvalidInput("A directory has no name: give the new table's as identifier=.")
    source, new = _import(
        catalog,
        source_table,
        _own_name(source_table) if identifier is None else identifier,
        "",
        properties,
        parallelism,
        ignore_missing_files,
        progress,
        spark,
    )
    return migrate(
        source,
        new,
        lambda: engines.spark_tables(spark),
        drop_backup=drop_backup,
        backup_table_name=backup_table_name,
        dry_run=dry_run,
    )


def _own_name(source_table: str) -> tuple[str, ...]:
    """Return the name that a table of Spark's keeps in another catalog: without Spark's own."""
    parts = tuple(identifier_parts(source_table))
    return parts[1:] if len(parts) > 2 and parts[0] == "spark_catalog" else parts


def _import(
    catalog: Catalog,
    source_table: str,
    identifier: Identifier,
    location: str | None,
    properties: Mapping[str, object],
    parallelism: int | None,
    ignore_missing_files: bool,
    progress: ProgressCallback | None,
    spark: Session | None,
) -> tuple[Source, Import]:
    """Find the source of a new table, and describe how it is created. `location` "": where the
    source is.
    """
    parts, own = catalog._new_name(catalog._parts(identifier)), catalog._backend.properties
    if catalog._backend.table_exists(parts):
        raise TableAlreadyExistsError(
            f"Table already exists: {catalog._full_name(parts)}", table=catalog._full_name(parts)
        )
    source = resolve_source(
        source_table, lambda place: storage_for(place, own), lambda: engines.spark_tables(spark)
    )
    place = catalog._place(parts, location if location != "" else source.location)

    def create(
        schema: Schema, partition_columns: Sequence[str], stored: Mapping[str, str]
    ) -> Creation:
        spec = build_spec(schema, [back_quoted((c,)) for c in partition_columns])
        metadata = table_metadata(place, schema, spec, None, with_catalog_properties(stored, own))
        return Creation(catalog._backend, parts, metadata, None, catalog._full_name(parts))

    storage = storage_for(source.location, own)
    return source, Import(
        create, storage, property_texts(properties), parallelism, ignore_missing_files, progress
    )
