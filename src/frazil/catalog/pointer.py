"""Commit by compare-and-swap in catalogs that keep a pointer to a table's metadata file (SQL rows,
Hive Metastore tables).

A commit writes a new metadata file and moves the pointer to it. The outcome is Committed, Conflict
(certainly not applied, and the file is removed) or Unknown (it may have been applied, and the file
stays). A catalog only has to supply the function that moves its pointer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from frazil.catalog import metadata_files, own_files
from frazil.catalog.base import (
    Committed,
    Conflict,
    Identifier,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    Swap,
    Unclear,
    Unknown,
)
from frazil.catalog.names import full_name
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NoSuchFileError,
    TableAlreadyExistsError,
)
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage, normalise, settled

Move = Callable[[LoadedTable], bool]
"""Make the pointer name this table's metadata file. Returns True when it does, False when another
writer was first.

Raises Unclear when the pointer may have moved; any other FrazilError means that it certainly has
not.
"""
Load = Callable[[], LoadedTable]
Check = Callable[[str], None]


def create_pointed(
    staged: LoadedTable, move: Move, load: Load, check: Check | None = None
) -> Outcome:
    """Create a table under a name that is free. `load`: loads the current table of this name.
    `check`: raises for a metadata location that the catalog cannot store, before the file is
    written."""
    table = replace(staged, metadata_location=_location(None, staged.metadata, check))
    _write(table)
    return _moved(table, f"Table or view exists: {full_name(table.identifier)}", move, load)


def swap_pointed(
    base: LoadedTable, metadata: TableMetadata, move: Move, load: Load, check: Check | None = None
) -> Outcome:
    """Replace the state of a table by `metadata`, with the file of `base` added to its log, if the
    pointer still names that file. `load` and `check` are those of `create_pointed`."""
    complete, fallen = metadata_files.with_log(base, metadata)
    table = replace(base, metadata_location=_location(base, complete, check), metadata=complete)
    _write(table)
    reason = f"The metadata location of {full_name(base.identifier)} is no longer {base.metadata_location}"
    outcome = _moved(table, reason, move, load)
    if isinstance(outcome, Committed):
        own_files.delete_fallen(base, complete, fallen)
    return outcome


def swap_pointed_together(
    swaps: Sequence[Swap],
    move: Callable[[Sequence[LoadedTable]], bool],
    load: Callable[[Identifier], LoadedTable],
    check: Check | None = None,
) -> OutcomeTogether:
    """Replace the states of several tables as `swap_pointed` does for one. `move`: moves the
    pointers of all tables and returns True, or of none and returns False; it raises as `Move` does.
    """
    complete = [metadata_files.with_log(swap.base, swap.metadata) for swap in swaps]
    tables = [
        replace(
            swap.base, metadata_location=_location(swap.base, metadata, check), metadata=metadata
        )
        for swap, (metadata, _) in zip(swaps, complete, strict=True)
    ]
    written: list[LoadedTable] = []
    try:
        for table in tables:
            written.append(table)
            _write(table)
        won = move(tables)
    except Unclear as error:
        outcomes = [
            _after_unclear(table, partial(load, table.identifier), error) for table in tables
        ]
        landed = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
        return tuple(landed) if len(landed) == len(tables) else Unknown(error)
    except (CommitFailedException, TableAlreadyExistsError) as error:
        _discard(written)
        return Conflict(str(error))
    except FrazilError:
        _discard(written)
        raise
    if not won:
        _discard(written)
        names = ", ".join(full_name(table.identifier) for table in tables)
        return Conflict(f"The metadata location of one of {names} is no longer that of its base")
    for swap, (metadata, fallen) in zip(swaps, complete, strict=True):
        own_files.delete_fallen(swap.base, metadata, fallen)
    return tuple(Committed(table) for table in tables)


def load_pointed(
    pointer: Callable[[], str | None], storage_of: Callable[[str], Storage], name: str
) -> tuple[str, TableMetadata, Storage] | None:
    """Return the metadata file that a pointer names, its contents and its storage; None: there is
    no pointer.

    Another writer may commit and remove the file after the pointer was read; then the pointer is
    read again. Raises NoSuchFileError for a pointer to a file that does not exist.
    """
    location = pointer()
    while location is not None:
        try:
            storage = storage_of(settled(location))
        except InvalidInput as error:
            error.advise(
                f"The catalog names this metadata file for table {name}. Register the table again by the file's plain location."
            )
            raise
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


def _discard(tables: Iterable[LoadedTable]) -> None:
    for table in tables:
        metadata_files.discard(table.storage, table.metadata_location)


def _moved(table: LoadedTable, conflict: str, move: Move, load: Load) -> Outcome:
    """Move the pointer to a written metadata file, and return the outcome. After a certain failure
    the file is removed.
    """
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
    return Conflict(conflict)


def _after_unclear(table: LoadedTable, load: Load, error: Unclear) -> Outcome:
    """Decide after an unclear failure: Committed if the new file is current or in the log of the
    current one, else Unknown, since the statement may still be running."""
    with contextlib.suppress(FrazilError):
        current = load()
        if normalise(table.metadata_location) in set(_history(current)):
            return Committed(table)
    return Unknown(error)


def _history(table: LoadedTable) -> Iterable[str]:
    yield normalise(table.metadata_location)
    yield from (normalise(entry.metadata_file) for entry in table.metadata.metadata_log)
