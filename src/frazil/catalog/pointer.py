"""The compare-and-swap of catalogs that keep a pointer to a table's metadata file (SQL rows, Hive Metastore tables).

Write a new metadata file, move the pointer to it, and tell what became of it: Committed, Conflict (certainly not applied, the file is
removed) or Unknown (it may be applied, the file stays). Only moving the pointer differs from catalog to catalog.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace

from frazil.catalog import metadata_files
from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unclear, Unknown
from frazil.catalog.names import full_name
from frazil.errors import CommitFailedException, FrazilError, NoSuchFileError, TableAlreadyExistsError
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage, normalise

Move = Callable[[LoadedTable], bool]
"""Make the pointer name this table's metadata file: True when it does now, False when another writer was first.

Raises Unclear when it may have moved; any other FrazilError says that it certainly has not.
"""
Load = Callable[[], LoadedTable]
Check = Callable[[str], None]


def create_pointed(staged: LoadedTable, move: Move, load: Load, check: Check | None = None) -> Outcome:
    """Make a table visible whose name is free. `load`: the table under this name as it is by then; `check` refuses a location for the
    metadata file before it is written."""
    table = replace(staged, metadata_location=_location(None, staged.metadata, check))
    _write(table)
    return _moved(table, f"Table or view exists: {full_name(table.identifier)}", move, load)


def swap_pointed(base: LoadedTable, metadata: TableMetadata, move: Move, load: Load, check: Check | None = None) -> Outcome:
    """Make `metadata` the state of the table that `base` shows, its metadata log continued, if the pointer still names base's file."""
    complete, fallen = metadata_files.with_log(base, metadata)
    table = replace(base, metadata_location=_location(base, complete, check), metadata=complete)
    _write(table)
    reason = f"The metadata location of {full_name(base.identifier)} is no longer {base.metadata_location}"
    outcome = _moved(table, reason, move, load)
    if isinstance(outcome, Committed):
        metadata_files.delete_fallen(base.storage, complete, fallen)
    return outcome


def load_pointed(
    pointer: Callable[[], str | None], storage_of: Callable[[str], Storage], name: str
) -> tuple[str, TableMetadata, Storage] | None:
    """The metadata file that a pointer names, its contents and its storage; None: there is no pointer.

    Others may commit, and remove the file, between the two looks: then the pointer is read again. Raises NoSuchFileError for a pointer
    to a file that is not there.
    """
    location = pointer()
    while location is not None:
        storage = storage_of(location)
        try:
            return location, metadata_files.read(storage, location), storage
        except NoSuchFileError as error:
            newer = pointer()
            if newer == location:
                message = f"The metadata file of table {name} is missing: {location}."
                raise NoSuchFileError(message, table=name, file=location) from error
            location = newer
    return None


def _location(base: LoadedTable | None, metadata: TableMetadata, check: Check | None) -> str:
    location = metadata_files.new_location(base, metadata)
    if check is not None:
        check(location)
    return location


def _write(table: LoadedTable) -> None:
    gzipped = metadata_files.wants_gzip(table.metadata)
    table.storage.write(table.metadata_location, metadata_files.encode(table.metadata, gzipped))


def _moved(table: LoadedTable, lost: str, move: Move, load: Load) -> Outcome:
    """What became of a table whose metadata file is written. A certain failure takes the file with it."""
    try:
        won = move(table)
    except Unclear as error:
        return _after_unclear(table, load, error)
    except (CommitFailedException, TableAlreadyExistsError) as error:
        metadata_files.discard(table.storage, table.metadata_location)
        return Conflict(str(error))
    except FrazilError:
        metadata_files.discard(table.storage, table.metadata_location)
        raise
    if won:
        return Committed(table)
    metadata_files.discard(table.storage, table.metadata_location)
    return Conflict(lost)


def _after_unclear(table: LoadedTable, load: Load, error: Unclear) -> Outcome:
    """Committed if the new file is current, or in the log of what is. Else nobody knows: the answer may still be under way."""
    with contextlib.suppress(FrazilError):
        current = load()
        if normalise(table.metadata_location) in set(_history(current)):
            return Committed(table)
    return Unknown(error)


def _history(table: LoadedTable) -> Iterable[str]:
    yield normalise(table.metadata_location)
    yield from (normalise(entry.metadata_file) for entry in table.metadata.metadata_log)
