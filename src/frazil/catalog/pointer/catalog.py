"""Keep tables and views in a store that has, under each name, a pointer to a metadata file: a SQL
database, a Hive Metastore, or any other.
"""

from __future__ import annotations

import contextlib
import difflib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

from frazil.catalog import metadata_files
from frazil.catalog.backend import ScanPlanner, ViewBackend
from frazil.catalog.base import (
    Conflict,
    Identifier,
    Identifiers,
    LoadedTable,
    LoadedView,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
    Unknown,
    ViewOutcome,
    check_identifier,
    check_namespace,
    shown,
)
from frazil.catalog.names import full_name
from frazil.catalog.own_files import check_gc, delete_all
from frazil.catalog.pointer.commit import (
    S,
    create_pointed,
    load_pointed,
    outcome_of,
    swap_pointed,
    swap_pointed_together,
)
from frazil.catalog.pointer.store import NamespaceStore, Noun, PointerStore, Stored
from frazil.catalog.reporting import Reporting
from frazil.codec.view_json import decode_view
from frazil.errors import (
    CommitFailedException,
    CorruptData,
    FrazilError,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.spec.view import ViewMetadata
from frazil.storage import Storage, absolute, place_of, storage_for
from frazil.storage.locations import join

_TRIES = 10


@dataclass(frozen=True)
class _Kind(Generic[S]):
    """Describe what tables and views differ in. `state`: makes the loaded state of identifier,
    metadata location, metadata, storage and catalog properties."""

    noun: Noun
    other: Noun
    decode: Callable[[bytes, str], Any]
    state: Callable[[Identifier, str, Any, Storage, Mapping[str, str]], S]
    missing: Callable[..., FrazilError]
    taken: Callable[..., FrazilError]


_TABLE = _Kind[LoadedTable](
    "table", "view", metadata_files.decode,
    lambda name, location, metadata, storage, properties: LoadedTable(name, location, metadata, storage, dict(properties)),
    NoSuchTableError, TableAlreadyExistsError,
)  # fmt: skip
_VIEW = _Kind[LoadedView](
    "view", "table", decode_view, lambda name, location, metadata, *_: LoadedView(name, location, metadata),
    NoSuchViewError, ViewAlreadyExistsError,
)  # fmt: skip


class PointerCatalog:
    """Keep tables and views by pointers in a store. `kind`: the type of catalog.

    `warehouse`: where new tables lie whose namespace has no location. `unique_locations`: each new
    table gets a directory of its own name (unique-table-location of Java's catalogs). `strict`: a
    namespace must be created before its first table.
    """

    writes_metadata_files = True

    def __init__(
        self,
        kind: str,
        name: str,
        properties: Mapping[str, str],
        store: PointerStore,
        namespaces: NamespaceStore,
        *,
        warehouse: str | None = None,
        unique_locations: bool = False,
        strict: bool = True,
    ):
        self.kind, self.name, self.properties = kind, name, dict(properties)
        self.store, self.namespaces = store, namespaces
        self.warehouse, self._unique_locations, self._strict = warehouse, unique_locations, strict
        self.reporting = Reporting(name, self.properties)

    def __repr__(self) -> str:
        return f"PointerCatalog({shown(self.name, self.properties)})"

    def close(self) -> None:
        self.reporting.close()
        self.store.close()

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        return None

    @property
    def views(self) -> ViewBackend:
        return self

    # --- tables

    def load(self, identifier: Identifier) -> LoadedTable:
        return self._load(_TABLE, identifier)

    def reload(self, known: LoadedTable) -> LoadedTable:
        """Load the newest state of a table: the known one, unread, where the pointer has not moved
        and the name of the metadata file is used once.
        """
        if metadata_files.is_of_catalog(known.metadata_location):
            if self._pointer(_TABLE, known.identifier) == known.metadata_location:
                return known
        return self.load(known.identifier)

    def table_exists(self, identifier: Identifier) -> bool:
        return self._pointer(_TABLE, identifier) is not None

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        if (stored := self._holder(identifier)) is not None:
            raise self._taken(_TABLE, identifier, stored)
        return self._staged(_TABLE, identifier, metadata)[0]

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return outcome_of(self._created(_TABLE, identifier, metadata))

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return outcome_of(self._swapped(_TABLE, base, metadata, base.storage))

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        self.store.move_together(())  # raises Unsupported before a file is written
        check = partial(self.store.check, "table")
        old = {swap.base.identifier: swap.base.metadata_location for swap in swaps}

        def move(tables: Sequence[LoadedTable]) -> bool:
            return self.store.move_together([(table, old[table.identifier]) for table in tables])

        return swap_pointed_together(swaps, move, self.load, check) if swaps else ()

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        if purge:
            return delete_all(self._dropped(identifier))
        self._drop(_TABLE, identifier)
        return ()

    def _dropped(self, identifier: Identifier) -> LoadedTable:
        """Remove the name of a table and return the table as it was last. Others may commit
        meanwhile, or create another table of that name, whose files must not be lost: only the
        state that was loaded is dropped. Raises CommitFailedException."""
        for _ in range(_TRIES):
            table = self.load(identifier)
            check_gc(table.metadata, self._full_name(identifier))
            if self.store.delete("table", identifier, table.metadata_location):
                return table
        text = f"Table {full_name(identifier)} changed {_TRIES} times while it was dropped."
        raise CommitFailedException(
            text, hint="Others commit to it; try again.", table=full_name(identifier)
        )

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        self._rename(_TABLE, source, target)

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        return self._register(_TABLE, identifier, metadata_location, overwrite)

    def list_tables(self, namespace: Identifier) -> Identifiers:
        return self._list(_TABLE, namespace)

    # --- views

    def load_view(self, identifier: Identifier) -> LoadedView:
        return self._load(_VIEW, identifier)

    def view_exists(self, identifier: Identifier) -> bool:
        return self._pointer(_VIEW, identifier) is not None

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        return self._created(_VIEW, identifier, metadata)

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        return self._swapped(_VIEW, base, metadata, self.storage_of(metadata.location))

    def drop_view(self, identifier: Identifier) -> None:
        self._drop(_VIEW, identifier)

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        self._rename(_VIEW, source, target)

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView:
        return self._register(_VIEW, identifier, metadata_location, overwrite=False)

    def list_views(self, namespace: Identifier) -> Identifiers:
        return self._list(_VIEW, namespace)

    # --- tables and views alike

    def storage_of(self, location: str) -> Storage:
        return storage_for(location, self.properties)

    def _full_name(self, identifier: Identifier) -> str:
        return f"{self.name}.{full_name(identifier)}"

    def _pointer(self, kind: _Kind[Any], identifier: Identifier) -> str | None:
        """Return the metadata location of a table or view; None: there is none of that name."""
        stored = self.store.get(check_identifier(identifier))
        return stored.location if stored is not None and stored.noun == kind.noun else None

    def _load(self, kind: _Kind[S], identifier: Identifier) -> S:
        pointer, name = partial(self._pointer, kind, identifier), full_name(identifier)
        loaded = load_pointed(pointer, self.storage_of, name, kind.decode, kind.noun)
        if loaded is None:
            raise self._missing(kind, identifier)
        return kind.state(tuple(identifier), *loaded, self.properties)

    def _load_or(self, kind: _Kind[S], old: S) -> S:
        """Load a table or view that is replaced. Where its metadata file is missing or damaged,
        `old` stands for the pointer alone.
        """
        try:
            return self._load(kind, old.identifier)
        except (NoSuchFileError, CorruptData):
            return old

    def _holder(self, identifier: Identifier) -> Stored | None:
        """Return what has the name of a table or view that is to be created. Raises
        NoSuchNamespaceError.
        """
        key = check_identifier(identifier)
        if self._strict:
            self._existing(key[:-1])
        return self.store.get(key)

    def table_location(self, identifier: Identifier) -> str:
        """Choose the location of a new table or view: its name below the namespace's property
        `location`, else below `<warehouse>/<namespace>`.

        A suffix makes it unique if all are to be, or if the directory holds the files of another
        table already: a table keeps its files where they are when it is renamed.
        """
        *namespace, name = check_identifier(identifier)
        parent = (self.namespaces.get(tuple(namespace)) or {}).get("location")
        if parent is None and self.warehouse is not None:
            parent = join(self.warehouse, *namespace)
        if not parent:
            where = f"namespace {full_name(namespace)} has a location nor catalog {self.name!r} a warehouse"
            raise InvalidInput(
                f"Neither {where}, so a new table needs a location.", hint="Set one of them."
            )
        place = join(absolute(parent), name)
        if self._unique_locations or self.storage_of(place).is_directory(join(place, "metadata")):
            place += f"-{uuid.uuid4().hex}"
        return place

    def _staged(
        self, kind: _Kind[S], identifier: Identifier, metadata: TableMetadata | ViewMetadata
    ) -> tuple[S, Storage]:
        """Return a new table or view in its place, with the storage of that location."""
        place = metadata.location or self.table_location(identifier)
        storage, placed = self.storage_of(place), replace(metadata, location=place)
        return kind.state(tuple(identifier), "", placed, storage, self.properties), storage

    def _created(
        self, kind: _Kind[S], identifier: Identifier, metadata: TableMetadata | ViewMetadata
    ) -> S | Conflict | Unknown:
        if (stored := self._holder(identifier)) is not None:
            return Conflict(str(self._taken(kind, identifier, stored)))
        staged, storage = self._staged(kind, identifier, metadata)
        check, load = partial(self.store.check, kind.noun), partial(self._load, kind, identifier)
        return create_pointed(staged, storage, self.store.insert, load, check)

    def _swapped(
        self, kind: _Kind[S], base: S, metadata: TableMetadata | ViewMetadata, storage: Storage
    ) -> S | Conflict | Unknown:
        def move(new: S) -> bool:
            return self.store.move(new, base.metadata_location, lambda: base)

        check = partial(self.store.check, kind.noun)
        load = partial(self._load, kind, base.identifier)
        return swap_pointed(base, metadata, storage, move, load, check)

    def _drop(self, kind: _Kind[Any], identifier: Identifier) -> None:
        is_there = self._pointer(kind, identifier) is not None
        if not is_there or not self.store.delete(kind.noun, identifier, None):
            raise self._missing(kind, identifier)

    def _rename(self, kind: _Kind[Any], source: Identifier, target: Identifier) -> None:
        to = check_identifier(target)
        if self._pointer(kind, source) is None:
            raise self._missing(kind, source)
        self._existing(to[:-1])
        try:
            state = partial(self._load, kind, source)
            renamed = self.store.rename(kind.noun, tuple(source), to, state)
        except TableAlreadyExistsError as error:
            raise self._taken(kind, to, self.store.get(to)) from error
        if not renamed:
            if self._pointer(kind, source) is None:
                raise self._missing(kind, source)
            text = f"{kind.noun.capitalize()} {full_name(source)} changed while it was renamed."
            raise CommitFailedException(text, hint="Try again.", **{kind.noun: full_name(source)})

    def _register(
        self, kind: _Kind[S], identifier: Identifier, metadata_location: str, overwrite: bool
    ) -> S:
        location, name = absolute(metadata_location), full_name(identifier)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        self.store.check(kind.noun, check_identifier(identifier), location)
        storage = self.storage_of(location)
        metadata = kind.decode(metadata_files.read_bytes(storage, location), location)
        new = kind.state(tuple(identifier), location, metadata, storage, self.properties)
        stored = self._holder(identifier)
        if overwrite and stored is not None and stored.noun == kind.noun:
            old = replace(new, metadata_location=stored.location)
            if not self.store.move(new, stored.location, partial(self._load_or, kind, old)):
                text = f"{kind.noun.capitalize()} {name} changed while it was registered."
                raise CommitFailedException(text, hint="Try again.", **{kind.noun: name})
        elif stored is not None or not self.store.insert(new):
            stored = stored or self.store.get(identifier)
            error = self._taken(kind, identifier, stored)
            if kind.noun == "table" and (stored is None or stored.noun == "table"):
                error.advise("overwrite=True replaces it.")
            raise error
        return new

    def _list(self, kind: _Kind[Any], namespace: Identifier) -> Identifiers:
        key = check_namespace(namespace)
        self._existing(key)
        return sorted((*key, name) for name in self.store.list(kind.noun, key))

    def _missing(self, kind: _Kind[Any], identifier: Identifier) -> FrazilError:
        """Return the error for a table or view that does not exist, which says what else has its
        name.
        """
        name, stored = self._full_name(identifier), None
        with contextlib.suppress(FrazilError):
            stored = self.store.get(identifier)
        if stored is not None and stored.noun == kind.other:
            text = f"{name} is a {kind.other}, not a {kind.noun}."
            hint: str | None = f"load_{kind.other}({full_name(identifier)!r}) loads it."
        elif stored is not None and stored.described:
            text = f"{name} is no Iceberg {kind.noun}, but {stored.described}."
            hint = "It is left alone."
        else:
            text = f"{kind.noun.capitalize()} does not exist: {name}."
            hint = self.namespaces.hint(identifier[:-1]) or self._near(kind, identifier)
        return kind.missing(text, hint=hint, **{kind.noun: name})

    def _near(self, kind: _Kind[Any], identifier: Identifier) -> str | None:
        """Return the hint for a name that does not exist, by what its namespace holds."""
        *namespace, name = identifier
        with contextlib.suppress(FrazilError):
            if not self.namespace_exists(tuple(namespace)):
                return f"The namespace {full_name(namespace)} does not exist either; list_namespaces() lists those that do."
            names = [each[-1] for each in self._list(kind, tuple(namespace))]
            if similar := difflib.get_close_matches(name, names, 1):
                return f"Did you mean {similar[0]!r}?"
            return f"list_{kind.noun}s({full_name(namespace)!r}) lists those that do."
        return None

    def _taken(
        self, kind: _Kind[Any], identifier: Identifier, stored: Stored | None
    ) -> FrazilError:
        """Return the error for a name that is taken. `stored`: what has it, where that is known."""
        name = self._full_name(identifier)
        is_other = f" It is {stored.described}." if stored is not None and stored.described else ""
        text = f"Table or view already exists: {name}.{is_other}"
        return kind.taken(text, **{kind.noun: name})

    # --- namespaces

    def _existing(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace. Raises NoSuchNamespaceError."""
        properties = self.namespaces.get(check_namespace(namespace))
        if properties is None:
            raise self._no_namespace(namespace)
        return properties

    def _no_namespace(self, namespace: Identifier) -> NoSuchNamespaceError:
        name = full_name(namespace)
        hint = self.namespaces.hint(namespace) or "Create it with create_namespace first."
        return NoSuchNamespaceError(f"Namespace does not exist: {name}.", hint=hint, namespace=name)

    def namespace_exists(self, namespace: Identifier) -> bool:
        return self.namespaces.get(check_namespace(namespace)) is not None

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        if not self.namespaces.create(check_namespace(namespace), _placed(properties)):
            name = full_name(namespace)
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {name}.", namespace=name)

    def drop_namespace(self, namespace: Identifier) -> None:
        if not self.namespaces.drop(check_namespace(namespace)):
            raise self._no_namespace(namespace)

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        if parent:
            self._existing(parent)
        return sorted(self.namespaces.list(tuple(parent)))

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        return self._existing(namespace)

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        removed = set(removals or ())
        if both := sorted(removed & set(updates)):
            raise InvalidInput(
                f"A namespace property cannot be set and removed at once: {', '.join(both)}."
            )
        before = self.namespaces.change(check_namespace(namespace), removed, _placed(updates))
        if before is None:
            raise self._no_namespace(namespace)
        return PropertiesUpdateSummary(
            removed=tuple(sorted(removed & set(before))),
            updated=tuple(sorted(updates)),
            missing=tuple(sorted(removed - set(before))),
        )


def _placed(properties: Mapping[str, str]) -> dict[str, str]:
    """Return namespace properties as text, with an absolute `location`, below which new tables are
    created.
    """
    texts = {key: str(value) for key, value in properties.items()}
    if "location" in texts:
        texts["location"] = place_of(texts["location"], "property location of a namespace")
    return texts
