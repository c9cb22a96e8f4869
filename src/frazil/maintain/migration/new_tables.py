"""Create a table over existing Parquet files: beside the table that owns them (Java's procedure
snapshot) or in its place (migrate).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from frazil.catalog.names import full_name, identifier_parts
from frazil.errors import CommitStateUnknownException, InvalidInput, Unsupported
from frazil.maintain.migration.add_files import paths_to_add
from frazil.maintain.migration.source import Source, SparkTables, columns_of
from frazil.maintain.procedure import ProcedureResult
from frazil.maintain.progress import ProgressCallback, progress
from frazil.ops.changes import AddFiles
from frazil.ops.creation import Creation
from frazil.spec.properties import GC_ENABLED, PLACES
from frazil.spec.schema import Schema
from frazil.storage import Storage, is_inside

_log = logging.getLogger("frazil")
_PATHS = frozenset((*(place.name for place in PLACES), "location", "path"))
BACKUP_SUFFIX = "_BACKUP_"
Create = Callable[[Schema, tuple[str, ...], Mapping[str, str]], Creation]
"""Begin to create the table with these columns, identity partition columns and properties."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SnapshotTableResult(ProcedureResult):
    """Hold the result of snapshot. `imported_files_count`: how many data files the new table has;
    they are the source's own."""

    imported_files_count: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class MigrateTableResult(ProcedureResult):
    """Hold the result of migrate. `migrated_files_count`: how many data files the table has now."""

    migrated_files_count: int = 0


@dataclass(frozen=True)
class Import:
    """Describe how files become a table. `create`: begins the new table. `parallelism`: threads
    that read footers, None: one per core. `callback`: called as they are read."""

    create: Create
    storage: Storage
    properties: Mapping[str, str]
    parallelism: int | None = None
    ignore_missing_files: bool = False
    callback: ProgressCallback | None = None

    def run(self, source: Source, marks: Mapping[str, str], dry_run: bool) -> int:
        """Create the table with all files of the source, in one commit; returns how many files it
        has.
        """
        if self.parallelism is not None and self.parallelism < 1:
            raise InvalidInput("Parallelism should be larger than 0")
        files = [
            f for f in source.files if not self.ignore_missing_files or self.storage.exists(f.path)
        ]
        source = replace(source, files=tuple(files))
        schema = columns_of(source, self.storage)
        own = {k: v for k, v in source.properties.items() if k not in _PATHS}
        creation = self.create(
            schema, source.partition_columns, {**own, **self.properties, **marks}
        )
        refuse_overlap(source.location, creation.metadata.location, "migrated" in marks)
        if dry_run:
            return len(files)
        with creation:
            if files:
                paths = paths_to_add(source, creation.metadata, self.storage)
                with progress(len(paths), "footers read", self.callback) as shown:
                    creation.run(AddFiles(paths, False, self.parallelism, shown.advance))
        return int(creation.result.summary.get("total-data-files", 0))


def refuse_overlap(source: str, table: str, in_place: bool) -> None:
    """Refuse a new table whose directory would mix its files with those of the source."""
    if not in_place and (is_inside(table, source) or is_inside(source, table)):
        raise InvalidInput(
            f"Cannot create a snapshot at location {table} because it would overlap with source table location {source}.",
            hint="Give another location=: overlapping snapshot and source would mix table files.",
            table=table,
        )


def snapshot(source: Source, new: Import, *, dry_run: bool = False) -> SnapshotTableResult:
    """Create a table over the files of a source, which stays as it is. The table never deletes
    them: gc.enabled is false.
    """
    begun = time.monotonic()
    count = new.run(source, {GC_ENABLED.name: "false", "snapshot": "true"}, dry_run)
    return SnapshotTableResult(
        dry_run=dry_run, imported_files_count=count, seconds=time.monotonic() - begun
    )


def migrate(
    source: Source,
    new: Import,
    spark: Callable[[], SparkTables],
    *,
    drop_backup: bool = False,
    backup_table_name: str | None = None,
    dry_run: bool = False,
) -> MigrateTableResult:
    """Create a table over the files of a source, which it replaces. A table of Spark is renamed
    first, so that nobody writes to it any more, and gets its name back after a failure; files stay
    where they are or where Spark moves them."""
    begun = time.monotonic()
    if source.name is None:
        if drop_backup or backup_table_name:
            raise InvalidInput(
                "drop_backup and backup_table_name are for tables of Spark: a directory has no backup."
            )
        if [f.path for f in source.files] == [source.location]:
            text = f"{source.location} is a file: migrate puts a table in the place of a directory."
            raise InvalidInput(
                text, hint="snapshot and add_files take a single file.", file=source.location
            )
        count = new.run(source, {"migrated": "true"}, dry_run)
        return MigrateTableResult(
            dry_run=dry_run, migrated_files_count=count, seconds=time.monotonic() - begun
        )
    tables = spark()
    managed = tables.is_managed(source.name)
    if managed and source.partition_columns:
        raise Unsupported(
            f"{source.name} is a managed table with partitions: Spark moves its directory and may lose partitions when it is renamed.",
            hint="Take its files over with snapshot(), or migrate an external table.",
            table=source.name,
        )
    if managed and drop_backup:
        raise Unsupported(
            f"{source.name} is a managed table: to drop its backup would delete the files of the new table.",
            hint="Leave drop_backup=False; the backup keeps the files.",
            table=source.name,
        )
    backup = _backup_name(source.name, backup_table_name)
    if dry_run:
        count = new.run(source, {"migrated": "true"}, True)
        return MigrateTableResult(
            dry_run=True, migrated_files_count=count, seconds=time.monotonic() - begun
        )
    tables.rename(source.name, backup)
    try:
        renamed = replace(tables.source(backup), properties=source.properties)
        _refuse_lost_files(source, renamed)
        count = new.run(renamed, {"migrated": "true"}, False)
    except CommitStateUnknownException:
        _log.error(
            "It is not known whether %s was migrated; the table of Spark is now %s.",
            source.name,
            backup,
        )
        raise
    except BaseException:
        tables.rename(backup, source.name)
        raise
    if drop_backup:
        tables.drop(backup)
    return MigrateTableResult(migrated_files_count=count, seconds=time.monotonic() - begun)


def _refuse_lost_files(source: Source, renamed: Source) -> None:
    """Refuse to go on when a table has fewer files under its new name than before."""
    if len(renamed.files) < len(source.files):
        raise Unsupported(
            f"Spark finds {len(renamed.files)} of {len(source.files)} files of {source.name} after it was renamed; it keeps its name.",
            hint="Try again when nobody writes to it, or take its files over with snapshot().",
            table=source.name,
        )


def _backup_name(name: str, backup_table_name: str | None) -> str:
    """Return the name of the backup, in the database of the table. Raises InvalidInput for a
    backup_table_name of several parts.
    """
    *above, last = identifier_parts(name)
    if not backup_table_name:
        return full_name((*above, last + BACKUP_SUFFIX))
    backup, *more = identifier_parts(backup_table_name)
    if more:
        text = f"backup_table_name is a name without a database, not {backup_table_name!r}: the backup stays in the database of {name}."
        raise InvalidInput(text, hint="Put a name that holds a dot into back-quotes.", table=name)
    return full_name((*above, backup))
