"""Serve a catalog in memory the way a REST catalog's server does: it keeps the metadata, chooses
locations, and applies updates.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from frazil.catalog import metadata_files
from frazil.catalog.backend import ScanPlanner
from frazil.catalog.base import (
    Committed,
    Conflict,
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
    check_identifier,
    check_namespace,
)
from frazil.catalog.names import full_name
from frazil.catalog.own_files import delete_all
from frazil.catalog.reporting import Reporting
from frazil.commit.apply import apply_updates
from frazil.errors import (
    CommitFailedException,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, SetLocation, Update, check_requirements
from frazil.storage import Storage
from frazil.storage.memory import MemoryStorage


@dataclass
class ServerBackend:
    """Keep the tables of the catalog `name` in memory and write no metadata files
    (`writes_metadata_files`). `properties`: its settings. Commits apply the `updates` under their
    `requirements`, never the `metadata`.

    A commit on a stale base succeeds if its requirements hold. New tables get a location and a
    storage that the server chooses, with a scheme that only this storage serves, and each load
    returns a new token in `config`. `received`: the kinds of updates of each commit.
    """

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    storage: Storage = field(default_factory=MemoryStorage)
    received: list[tuple[str, ...]] = field(default_factory=list)
    writes_metadata_files: bool = False
    kind: ClassVar[str] = "server"
    views: ClassVar[None] = None

    def __post_init__(self) -> None:
        self.reporting = Reporting(self.name, self.properties)
        self._root = f"vended://{self.name}-{uuid.uuid4().hex[:8]}"
        self._tables: dict[Identifier, LoadedTable] = {}
        self._namespaces: dict[Identifier, dict[str, str]] = {}
        self._tokens = itertools.count(1)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"ServerBackend({self.name!r})"

    def close(self) -> None:
        """Do nothing: no connection is held open."""

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        """Return None: scans are planned out of the manifests."""
        return None

    # --- tables

    def load(self, identifier: Identifier) -> LoadedTable:
        """Load the state of a table, with a new token. Raises NoSuchTableError."""
        with self._lock:
            return self._granted(self._known(identifier))

    def _known(self, identifier: Identifier) -> LoadedTable:
        table = self._tables.get(check_identifier(identifier))
        if table is None:
            name = f"{self.name}.{full_name(identifier)}"
            raise NoSuchTableError(f"Table does not exist: {name}.", table=name)
        return table

    def _granted(self, table: LoadedTable) -> LoadedTable:
        return replace(table, config={**self.properties, "token": f"secret-{next(self._tokens)}"})

    def table_exists(self, identifier: Identifier) -> bool:
        """Tell whether a table exists."""
        return check_identifier(identifier) in self._tables

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        """Prepare a new table at a location that the server chooses."""
        with self._lock:
            key = self._check_namespace_of(identifier)
            if key in self._tables:
                raise TableAlreadyExistsError(
                    f"Table already exists: {full_name(key)}.", table=full_name(key)
                )
            placed = replace(
                metadata,
                location=metadata.location or self._place(key),
                table_uuid=metadata.table_uuid or str(uuid.uuid4()),
            )
            return self._granted(LoadedTable(key, "", placed, self.storage))

    def _check_namespace_of(self, identifier: Identifier) -> Identifier:
        key = check_identifier(identifier)
        self._existing(key[:-1])
        return key

    def _place(self, identifier: Identifier) -> str:
        """Choose the location of a new table: its name below the root, unless files of another
        table are there.
        """
        place = "/".join((self._root, *identifier))
        taken = any(
            t.metadata.location == place for t in self._tables.values()
        ) or self.storage.is_directory(place)
        return f"{self._root}/{uuid.uuid4().hex}/{'/'.join(identifier)}" if taken else place

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Create a table by the updates. Conflict: it exists."""
        with self._lock:
            key = self._check_namespace_of(identifier)
            try:
                check_requirements(
                    self._tables[key].metadata if key in self._tables else None, requirements
                )
            except CommitFailedException as error:
                return Conflict(str(error))
            self.received.append(tuple(u.kind for u in updates))
            given_location = any(isinstance(u, SetLocation) for u in updates)
            located = updates if given_location else (*updates, SetLocation(self._place(key)))
            created = apply_updates(None, located)
            return self._keep(
                LoadedTable(key, metadata_files.new_location(None, created), created, self.storage)
            )

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Apply the updates to the newest state if the requirements hold there; else Conflict."""
        with self._lock:
            now = self._tables.get(base.identifier)
            if now is None:
                return Conflict(f"Table does not exist: {full_name(base.identifier)}")
            try:
                check_requirements(now.metadata, requirements)
                changed = apply_updates(now.metadata, updates)
            except CommitFailedException as error:
                return Conflict(str(error))
            except ValidationError as error:
                if now.metadata_location == base.metadata_location:
                    raise
                # for example a sequence number that a commit to another branch has taken in the
                # meantime
                return Conflict(str(error))
            self.received.append(tuple(u.kind for u in updates))
            logged, _ = metadata_files.with_log(now, changed)
            return self._keep(
                replace(
                    now, metadata_location=metadata_files.new_location(now, logged), metadata=logged
                )
            )

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        """Apply the updates of several tables, if the requirements of all hold."""
        with self._lock:
            before, received = dict(self._tables), len(self.received)
            done: list[Committed] = []
            for swap in swaps:
                outcome = self.swap(
                    swap.base, swap.metadata, updates=swap.updates, requirements=swap.requirements
                )
                if not isinstance(outcome, Committed):
                    self._tables, self.received = before, self.received[:received]
                    return outcome
                done.append(outcome)
            return tuple(done)

    def _keep(self, table: LoadedTable) -> Outcome:
        self._tables[table.identifier] = table
        return Committed(self._granted(table))

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Drop a table. Raises NoSuchTableError."""
        with self._lock:
            table = self._known(identifier)
            del self._tables[table.identifier]
        return delete_all(table) if purge else ()

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Rename a table. Raises NoSuchTableError, TableAlreadyExistsError."""
        with self._lock:
            table, key = self._known(source), self._check_namespace_of(target)
            if key in self._tables:
                raise TableAlreadyExistsError(
                    f"Table already exists: {full_name(key)}.", table=full_name(key)
                )
            self._tables[key] = replace(self._tables.pop(table.identifier), identifier=key)

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        """Register the table of a metadata file. `overwrite`: in place of a table of that name.
        Raises InvalidInput, TableAlreadyExistsError."""
        if not metadata_files.is_metadata_file(metadata_location):
            raise InvalidInput(
                f"{metadata_location} is no metadata file: its name ends in .metadata.json.",
                file=metadata_location,
            )
        with self._lock:
            key = self._check_namespace_of(identifier)
            if key in self._tables and not overwrite:
                raise TableAlreadyExistsError(
                    f"Table already exists: {full_name(key)}.", table=full_name(key)
                )
            metadata = metadata_files.read(self.storage, metadata_location)
            self._tables[key] = LoadedTable(key, metadata_location, metadata, self.storage)
            return self.load(key)

    def list_tables(self, namespace: Identifier) -> Identifiers:
        """List the tables of a namespace. Raises NoSuchNamespaceError."""
        self._existing(check_namespace(namespace))
        return sorted(t for t in self._tables if t[:-1] == tuple(namespace))

    # --- namespaces

    def _existing(self, namespace: Identifier) -> dict[str, str]:
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {full_name(namespace)}.", namespace=full_name(namespace)
            )
        return self._namespaces.setdefault(tuple(namespace), {})

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Tell whether a namespace exists."""
        key = check_namespace(namespace)
        return any(existing[: len(key)] == key for existing in self._namespaces)

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        """Create a namespace. Raises NamespaceAlreadyExistsError."""
        with self._lock:
            if self.namespace_exists(namespace):
                raise NamespaceAlreadyExistsError(
                    f"Namespace already exists: {full_name(namespace)}.",
                    namespace=full_name(namespace),
                )
            self._namespaces[tuple(namespace)] = dict(properties)

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drop an empty namespace. Raises NoSuchNamespaceError, NamespaceNotEmptyError."""
        with self._lock:
            self._existing(namespace)
            if self.list_tables(namespace) or self.list_namespaces(namespace):
                raise NamespaceNotEmptyError(
                    f"Namespace {full_name(namespace)} is not empty.",
                    namespace=full_name(namespace),
                )
            del self._namespaces[tuple(namespace)]

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        """List the namespaces directly within one."""
        if parent:
            self._existing(parent)
        depth = len(parent) + 1
        return sorted(
            {
                path[:depth]
                for path in self._namespaces
                if len(path) >= depth and path[: depth - 1] == tuple(parent)
            }
        )

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return the properties of a namespace. Raises NoSuchNamespaceError."""
        return dict(self._existing(namespace))

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        """Remove and set properties of a namespace. Raises NoSuchNamespaceError."""
        removals = set(removals or ())
        if both := sorted(removals & set(updates)):
            raise InvalidInput(
                f"A namespace property cannot be set and removed at once: {', '.join(both)}."
            )
        with self._lock:
            held = self._existing(namespace)
            removed, missing = sorted(removals & held.keys()), sorted(removals - held.keys())
            for key in removed:
                del held[key]
            held.update(updates)
        return PropertiesUpdateSummary(tuple(removed), tuple(sorted(updates)), tuple(missing))
