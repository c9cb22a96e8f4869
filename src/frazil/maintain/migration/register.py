"""Register a table by its metadata file, with the output columns and the dry run of a procedure
(Java's procedure register_table).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from frazil.catalog import CatalogBackend, Identifier, LoadedTable, metadata_files
from frazil.catalog.names import full_name
from frazil.catalog.path import PathCatalog
from frazil.errors import InvalidInput, NoSuchNamespaceError, TableAlreadyExistsError, Unsupported
from frazil.maintain.procedure import ProcedureResult
from frazil.spec.metadata import TableMetadata
from frazil.storage import storage_for
from frazil.storage.locations import absolute


@dataclass(frozen=True, kw_only=True, repr=False)
class RegisterTableResult(ProcedureResult):
    """Hold the result of register_table. `current_snapshot_id`: None for a table without snapshot.
    `total_records_count`, `total_data_files_count`: the rows and data files that the snapshot's
    summary counts, None where it does not say. `table_uuid`: which table it is."""

    current_snapshot_id: int | None = None
    total_records_count: int | None = None
    total_data_files_count: int | None = None
    table_uuid: str | None = field(default=None, metadata={"ours": True})


def register_table(
    backend: CatalogBackend,
    identifier: Identifier,
    metadata_file: str,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
) -> RegisterTableResult:
    """Register the table of a metadata file; with `dry_run` check that it can be, and return what
    it holds.

    Raises TableAlreadyExistsError unless `overwrite`, NoSuchNamespaceError, NoSuchFileError,
    CorruptData, InvalidInput for a file that is no metadata file, Unsupported for path catalogs.
    """
    started = time.monotonic()
    take = _read if dry_run else _registered
    metadata = take(backend, identifier, metadata_file, overwrite)
    return result_of(metadata, dry_run, time.monotonic() - started)


def result_of(metadata: TableMetadata, dry_run: bool, seconds: float) -> RegisterTableResult:
    """Return the output columns for a state of a table."""
    snapshot = metadata.current_snapshot()

    def total(name: str) -> int | None:
        text = None if snapshot is None else snapshot.summary.get(name)
        return None if text is None else int(text)

    return RegisterTableResult(
        dry_run=dry_run,
        seconds=seconds,
        current_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        total_records_count=total("total-records"),
        total_data_files_count=total("total-data-files"),
        table_uuid=None if metadata.table_uuid is None else str(metadata.table_uuid),
    )


def _registered(
    backend: CatalogBackend, identifier: Identifier, metadata_file: str, overwrite: bool
) -> TableMetadata:
    loaded: LoadedTable = backend.register_table(identifier, metadata_file, overwrite=overwrite)
    return loaded.metadata


def _read(
    backend: CatalogBackend, identifier: Identifier, metadata_file: str, overwrite: bool
) -> TableMetadata:
    """Read the metadata file, after the checks that a catalog makes when it registers one."""
    location, name = absolute(metadata_file), f"{backend.name}.{full_name(identifier)}"
    if isinstance(backend, PathCatalog):
        raise Unsupported(
            f"Tables cannot be registered in path catalog {backend.name!r}.",
            hint="Use a catalog of type sql, hive or rest.",
            table=name,
        )
    if not metadata_files.is_metadata_file(location):
        raise InvalidInput(
            f"{location} is no metadata file: its name ends in .metadata.json.", file=location
        )
    if not backend.namespace_exists(identifier[:-1]):
        raise NoSuchNamespaceError(
            f"Namespace does not exist: {full_name(identifier[:-1])}.",
            namespace=full_name(identifier[:-1]),
        )
    if not overwrite and backend.table_exists(identifier):
        raise TableAlreadyExistsError(
            f"Table already exists: {name}.", hint="overwrite=True replaces it.", table=name
        )
    return metadata_files.read(storage_for(location, backend.properties), location)
