"""Move tables from one catalog to another without copying data: the new one registers the metadata
file, the old one drops its entry.

No commit is lost: the old entry is renamed first, so that writers that still use the old name fail,
and only then is the table's newest metadata file read and registered. A table never has its name in
both catalogs, since the writers of each would go on from their own state.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog import CatalogBackend, Identifier, LoadedTable, metadata_files
from frazil.catalog.base import Unclear
from frazil.catalog.names import full_name
from frazil.catalog.path import PathCatalog
from frazil.errors import (
    CommitStateUnknownException,
    CorruptData,
    FrazilError,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    StorageError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.storage import normalise, storage_for
from frazil.storage.locations import scheme_of

_HELD, _LONGEST = "__moving_", 200
_LEFT = re.compile(rf"(.+){_HELD}[0-9a-f]{{8}}", re.S)


@dataclass(frozen=True)
class MovedTable:
    """Name a table that was moved, or would be, and the metadata file by which the new catalog
    knows it.
    """

    identifier: Identifier
    metadata_location: str


@dataclass(frozen=True)
class MoveTablesResult:
    """Report a move of tables. `tables`: those that were moved, in a dry run (`dry_run`) those that
    could be. `problems`: in a dry run, each table that could not be moved, by its name, and why."""

    tables: tuple[MovedTable, ...]
    dry_run: bool
    problems: tuple[tuple[Identifier, str], ...] = ()


def every_table(source: CatalogBackend, parent: Identifier = ()) -> list[Identifier]:
    """List the tables of all namespaces of a catalog."""
    tables: list[Identifier] = []
    for namespace in source.list_namespaces(parent):
        tables += [*source.list_tables(namespace), *every_table(source, namespace)]
    return tables


def move_tables(
    source: CatalogBackend,
    target: CatalogBackend,
    tables: Sequence[Identifier],
    *,
    dry_run: bool = False,
) -> MoveTablesResult:
    """Move tables, all of which are checked before the first one is moved; each move is complete
    before the next begins.

    Raises NoSuchTableError, TableAlreadyExistsError where the new catalog has a table of that name,
    Unsupported for catalogs whose tables are their directories, and what a move itself raises, with
    the tables that were moved before.
    """
    for backend, role in ((source, "from"), (target, "to")):
        if isinstance(backend, PathCatalog):
            text = f"Tables cannot be moved {role} path catalog {backend.name!r}: there a table is its directory."
            raise Unsupported(text, hint="Use catalogs of type sql, rest or hive.")
    if source is target:
        raise InvalidInput(
            f"The tables are in catalog {source.name!r} already.",
            hint="rename_table renames a table within a catalog.",
        )
    moved_tables, problems = _checked(source, target, tables, dry_run)
    if dry_run:
        return MoveTablesResult(tuple(moved_tables), True, tuple(problems))
    moved: list[MovedTable] = []
    for table in moved_tables:
        try:
            moved.append(_moved(source, target, table.identifier))
        except FrazilError as error:
            if moved:
                error.advise(
                    f"Moved before it: {', '.join(full_name(m.identifier) for m in moved)}."
                )
            raise
    return MoveTablesResult(tuple(moved), False)


def _checked(
    source: CatalogBackend, target: CatalogBackend, tables: Sequence[Identifier], dry_run: bool
) -> tuple[list[MovedTable], list[tuple[Identifier, str]]]:
    """Check tables before any is moved. Without `dry_run` the first problem is raised."""
    moved_tables, problems = [], []
    for identifier in dict.fromkeys(tables):
        try:
            loaded = _loaded(source, target, identifier)
            _check(loaded, target)
            moved_tables.append(MovedTable(identifier, loaded.metadata_location))
        except FrazilError as error:
            if not dry_run:
                raise
            problems.append((identifier, str(error)))
    return moved_tables, problems


def _loaded(source: CatalogBackend, target: CatalogBackend, identifier: Identifier) -> LoadedTable:
    """Load a table that is to be moved. An entry that a move has renamed is refused, and the error
    of a missing table names such an entry: the process of that move may have ended between both
    catalogs."""
    if (match := _LEFT.fullmatch(identifier[-1])) is not None:
        left, advice = (
            source.load(identifier),
            _way_out(source, target, identifier, (*identifier[:-1], match[1])),
        )
        text = f"{full_name(identifier)} is a table on its way to another catalog: its move is under way, or was cut off."
        raise Unsupported(text, hint=advice, table=full_name(left.identifier))
    try:
        return source.load(identifier)
    except NoSuchTableError as error:
        with contextlib.suppress(FrazilError):
            for other in source.list_tables(identifier[:-1]):
                match = _LEFT.fullmatch(other[-1])
                if match is not None and match[1] == identifier[-1][:_LONGEST]:
                    error.advise(
                        f"A move of it is under way, or was cut off. {_way_out(source, target, other, identifier)}"
                    )
        raise


def _way_out(
    source: CatalogBackend, target: CatalogBackend, held: Identifier, identifier: Identifier
) -> str:
    """Tell how to end a move that was cut off. `held`: how the table is named in the old catalog."""
    left, name = full_name(held), full_name(identifier)
    try:
        moved = target.load(identifier).metadata.table_uuid == source.load(held).metadata.table_uuid
    except NoSuchTableError:
        return f"If it was cut off, rename_table({left!r}, {name!r}) in catalog {source.name!r} gives it its name; then repeat the move."
    except FrazilError as error:
        return f"Frazil could not find out what catalog {target.name!r} has: {error}"
    if not moved:
        return f"Catalog {target.name!r} has another table {name}: rename {left} in catalog {source.name!r} to a name that is free in both."
    return f"Catalog {target.name!r} has it: if the move was cut off, drop_table({left!r}) in catalog {source.name!r}, and never purge it."


def _check(loaded: LoadedTable, target: CatalogBackend) -> None:
    name = f"{target.name}.{full_name(loaded.identifier)}"
    if target.table_exists(loaded.identifier):
        raise TableAlreadyExistsError(
            f"Table already exists: {name}.", hint="Rename or drop one of them first.", table=name
        )
    if loaded.metadata.table_uuid is None:
        raise Unsupported(
            f"Table {full_name(loaded.identifier)} has no UUID, by which it would be known again.",
            hint="Write to it once.",
        )
    in_memory = scheme_of(loaded.metadata_location) == "memory"
    if in_memory and scheme_of(target.properties.get("warehouse", "")) != "memory":
        text = f"The files of table {full_name(loaded.identifier)} are in this process's memory, which {target.name!r} would outlive."
        raise Unsupported(text, table=full_name(loaded.identifier))
    if target.writes_metadata_files:
        # otherwise the server reads the file, with properties of its own
        metadata_files.read(
            storage_for(loaded.metadata_location, target.properties), loaded.metadata_location
        )


def _moved(source: CatalogBackend, target: CatalogBackend, identifier: Identifier) -> MovedTable:
    """Move one table. Before it is certain that the new catalog has it, an error gives the old
    entry its name back.
    """
    before = source.load(identifier)
    _with_namespaces(source, target, identifier[:-1])
    held = (*identifier[:-1], f"{identifier[-1][:_LONGEST]}{_HELD}{uuid.uuid4().hex[:8]}")
    _hold(source, before, held)
    try:
        table = source.load(held)
        if (
            table.metadata.table_uuid != before.metadata.table_uuid
            or table.metadata.location != before.metadata.location
        ):
            raise CorruptData(
                f"Table {full_name(identifier)} became another one while it was renamed.",
                table=full_name(identifier),
            )
        target.register_table(identifier, table.metadata_location)
        _verify(target, identifier, table)
    except BaseException as error:
        _give_back(source, target, identifier, held, error)
        raise
    try:
        source.drop_table(held, purge=False)
    except FrazilError as error:
        left = full_name(held)
        error.advise(
            f"Table {full_name(identifier)} is in catalog {target.name!r} now; what is left in {source.name!r} is its entry {left}: "
            f"drop it with drop_table({left!r}), and never purge it."
        )
        raise
    return MovedTable(identifier, table.metadata_location)


def _hold(source: CatalogBackend, table: LoadedTable, held: Identifier) -> None:
    """Rename the old entry, so that writers that use its name fail. Where the answer is lost or an
    error, the entry is looked for under its new name. Raises CommitStateUnknownException where it
    may still get that name."""
    name, left = full_name(table.identifier), full_name(held)
    try:
        source.rename_table(table.identifier, held)
    except (StorageError, CommitStateUnknownException) as error:
        with contextlib.suppress(FrazilError):
            if source.load(held).metadata.table_uuid == table.metadata.table_uuid:
                return
        hint = f"If catalog {source.name!r} has no table {name} any more, it is named {left} there: rename it back."
        if isinstance(error, Unclear | CommitStateUnknownException):
            text = f"Could not tell whether table {name} was renamed to {left}: {error}"
            raise CommitStateUnknownException(text, hint=hint, table=name) from error
        error.advise(hint)
        raise


def _verify(target: CatalogBackend, identifier: Identifier, table: LoadedTable) -> None:
    """Check that the new catalog has the table, at the file that was registered, or at one that
    others have committed on top of it since. Raises CorruptData."""
    now = target.load(identifier)
    known_files = (
        now.metadata_location,
        *(entry.metadata_file for entry in now.metadata.metadata_log),
    )
    has_file = normalise(table.metadata_location) in map(normalise, known_files)
    if now.metadata.table_uuid != table.metadata.table_uuid or not has_file:
        text = f"Catalog {target.name!r} has table {full_name(identifier)} at {now.metadata_location}, not at {table.metadata_location}."
        raise CorruptData(text, table=full_name(identifier), file=now.metadata_location)


def _give_back(
    source: CatalogBackend,
    target: CatalogBackend,
    identifier: Identifier,
    held: Identifier,
    error: BaseException,
) -> None:
    """Give the old entry its name back, if the new catalog certainly has no table of that name.
    Raises CommitStateUnknownException where that is not certain, as after a lost answer of the new
    catalog, which may still carry out what it was asked for: a table under its name in both
    catalogs could be written to in both."""
    name, left = full_name(identifier), full_name(held)
    try:
        try:
            target.load(identifier)
        except NoSuchTableError:
            if not isinstance(error, FrazilError) or isinstance(
                error, Unclear | CommitStateUnknownException
            ):
                raise
            source.rename_table(held, identifier)
            return
    except FrazilError as second:
        text = f"Moving table {name} to catalog {target.name!r} failed ({error}), and so did going back ({second})."
        hint = f"In catalog {source.name!r} it is named {left} now: rename it back if {target.name!r} has no table {name}."
        raise CommitStateUnknownException(text, hint=hint, table=name) from error
    text = f"Catalog {target.name!r} has a table {name}, but it is not certain that it is the one that was moved ({error})."
    hint = f"In catalog {source.name!r} it is named {left} now: look at both, then drop that entry without purge, or rename it back."
    raise CommitStateUnknownException(text, hint=hint, table=name) from error


def _with_namespaces(source: CatalogBackend, target: CatalogBackend, namespace: Identifier) -> None:
    """Create a table's namespace in the new catalog if it is missing, with the old one's properties
    but its location: new tables belong to the new catalog's warehouse."""
    for depth in range(1, len(namespace) + 1):
        part = namespace[:depth]
        if not target.namespace_exists(part):
            properties = {
                k: v for k, v in source.load_namespace_properties(part).items() if k != "location"
            }
            try:
                target.create_namespace(part, properties)
            except NamespaceAlreadyExistsError:
                continue
