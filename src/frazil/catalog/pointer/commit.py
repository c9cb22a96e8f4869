"""Commit by compare-and-swap in catalogs that keep a pointer to the metadata file of each table and
view (SQL rows, Hive Metastore tables).

A commit writes a new metadata file and moves the pointer to it. The outcome is the new state,
Conflict (certainly not applied, and the file is removed) or Unknown (it may have been applied, and
the file stays). `PointerCatalog` supplies the functions that move the pointer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from frazil.catalog import metadata_files, own_files
from frazil.catalog.base import (
    Committed,
    Conflict,
    Identifier,
    LoadedTable,
    LoadedView,
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
from frazil.spec.view import ViewMetadata
from frazil.storage import Storage, normalise, settled

S = TypeVar("S", LoadedTable, LoadedView)
M = TypeVar("M", TableMetadata, ViewMetadata)
Move = Callable[[S], bool]
"""Make the pointer name the metadata file of this state of a table or view. Returns True when it
does, False when another writer was first.

Raises Unclear when the pointer may have moved; any other FrazilError means that it certainly has
not.
"""
Load = Callable[[], S]
Check = Callable[[Identifier, str], None]


def create_pointed(
    staged: S, storage: Storage, move: Move[S], load: Load[S], check: Check | None = None
) -> S | Conflict | Unknown:
    """Create a table or view under a name that is free. `load`: loads what has this name now.
    `check`: raises for a name or metadata location that the catalog cannot store, before the file
    is written."""
    new = replace(
        staged, metadata_location=_location(None, staged.identifier, staged.metadata, check)
    )
    outcome = _moved(new, storage, move, load)
    return outcome or Conflict(f"Table or view exists: {full_name(new.identifier)}")


def swap_pointed(
    base: S,
    metadata: TableMetadata | ViewMetadata,
    storage: Storage,
    move: Move[S],
    load: Load[S],
    check: Check | None = None,
) -> S | Conflict | Unknown:
    """Replace the state of a table or view by `metadata`, if the pointer still names the file of
    `base`, which is added to the log of a table. `load` and `check` are those of `create_pointed`."""
    fallen: tuple[str, ...] = ()
    if isinstance(base, LoadedTable) and isinstance(metadata, TableMetadata):
        metadata, fallen = metadata_files.with_log(base, metadata)
    changes: dict[str, Any] = {"metadata": metadata}
    new = replace(
        base, metadata_location=_location(base, base.identifier, metadata, check), **changes
    )
    outcome = _moved(new, storage, move, load)
    if outcome is None:
        name = full_name(base.identifier)
        return Conflict(f"The metadata location of {name} is no longer {base.metadata_location}")
    if fallen and isinstance(base, LoadedTable) and isinstance(outcome, LoadedTable):
        own_files.delete_fallen(base, outcome.metadata, fallen)
    return outcome


def outcome_of(result: LoadedTable | Conflict | Unknown) -> Outcome:
    """Return the outcome of a commit to a table by what `create_pointed` or `swap_pointed` returned."""
    return Committed(result) if isinstance(result, LoadedTable) else result


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
            swap.base,
            metadata_location=_location(swap.base, swap.base.identifier, metadata, check),
            metadata=metadata,
        )
        for swap, (metadata, _) in zip(swaps, complete, strict=True)
    ]
    written: list[LoadedTable] = []
    try:
        for table in tables:
            written.append(table)
            _write(table, table.storage)
        won = move(tables)
    except Unclear as error:
        outcomes = [
            _after_unclear(table, partial(load, table.identifier), error) for table in tables
        ]
        landed = [Committed(table) for table in outcomes if isinstance(table, LoadedTable)]
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
        if fallen:
            own_files.delete_fallen(swap.base, metadata, fallen)
    return tuple(Committed(table) for table in tables)


def load_pointed(
    pointer: Callable[[], str | None],
    storage_of: Callable[[str], Storage],
    name: str,
    decode: Callable[[bytes, str], M],
    noun: str = "table",
) -> tuple[str, M, Storage] | None:
    """Return the metadata file that a pointer names, its contents and its storage; None: there is
    no pointer. `decode`: of `metadata_files` or `view_json`; `noun`: table or view, for messages.

    Another writer may commit and remove the file after the pointer was read; then the pointer is
    read again. Raises NoSuchFileError for a pointer to a file that does not exist.
    """
    location = pointer()
    while location is not None:
        try:
            storage = storage_of(settled(location))
        except InvalidInput as error:
            error.advise(
                f"The catalog names this metadata file for {noun} {name}. Register the {noun} again by the file's plain location."
            )
            raise
        try:
            data = metadata_files.read_bytes(storage, location)
            return location, decode(data, location), storage
        except NoSuchFileError as error:
            newer = pointer()
            if newer == location:
                message = f"The metadata file of {noun} {name} is missing: {location}."
                raise NoSuchFileError(message, file=location, **{noun: name}) from error
            location = newer
    return None


def _location(
    base: LoadedTable | LoadedView | None,
    identifier: Identifier,
    metadata: TableMetadata | ViewMetadata,
    check: Check | None,
) -> str:
    location = metadata_files.new_location(base, metadata)
    if check is not None:
        check(identifier, location)
    return location


def _write(new: LoadedTable | LoadedView, storage: Storage) -> None:
    gzipped = metadata_files.wants_gzip(new.metadata)
    storage.write(new.metadata_location, metadata_files.encode(new.metadata, gzipped))


def _discard(tables: Iterable[LoadedTable]) -> None:
    for table in tables:
        metadata_files.discard(table.storage, table.metadata_location)


def _moved(new: S, storage: Storage, move: Move[S], load: Load[S]) -> S | Conflict | Unknown | None:
    """Write a metadata file, move the pointer to it, and return the outcome; None: another writer
    was first. After a certain failure the file is removed.
    """
    _write(new, storage)
    try:
        won = move(new)
    except Unclear as error:
        return _after_unclear(new, load, error)
    except (CommitFailedException, TableAlreadyExistsError) as error:
        metadata_files.discard(storage, new.metadata_location)
        return Conflict(str(error))
    except FrazilError:
        metadata_files.discard(storage, new.metadata_location)
        raise
    if won:
        return new
    metadata_files.discard(storage, new.metadata_location)
    return None


def _after_unclear(new: S, load: Load[S], error: Unclear) -> S | Unknown:
    """Decide after an unclear failure: the new state if its file is current, or in the log of the
    current one of a table, else Unknown, since the statement may still be running."""
    with contextlib.suppress(FrazilError):
        if normalise(new.metadata_location) in set(_history(load())):
            return new
    return Unknown(error)


def _history(current: LoadedTable | LoadedView) -> Iterable[str]:
    yield normalise(current.metadata_location)
    if isinstance(current, LoadedTable):
        yield from (normalise(entry.metadata_file) for entry in current.metadata.metadata_log)
