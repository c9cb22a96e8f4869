"""Keep views in a Hive Metastore, as Java's HiveCatalog does: virtual views whose parameters point
to the views' metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from frazil.catalog import metadata_files
from frazil.catalog.base import Conflict, Identifier, Identifiers, check_namespace
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import MetastoreError
from frazil.catalog.hive.namespaces import HiveNamespaces
from frazil.catalog.hive.pointers import Pointers, view_change
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.structs import ClientCapabilities, GetTablesRequest, HiveTable
from frazil.catalog.hive.table_object import LOCATION, is_iceberg
from frazil.catalog.hive.view_object import described, is_iceberg_view, new_view_object
from frazil.catalog.names import full_name
from frazil.catalog.views import LoadedView, ViewOutcome, read_view, write_view
from frazil.codec.view_json import decode_view
from frazil.errors import (
    CommitFailedException,
    InvalidInput,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from frazil.spec.view import ViewMetadata
from frazil.storage import Storage, absolute

_BATCH = 200  # tables and views that are asked for with one call


class HiveViews(HiveNamespaces):
    """Create, commit and drop views in a Hive Metastore; a part of HiveBackend."""

    settings: HiveSettings
    _pointers: Pointers
    _stored: Callable[[Identifier], HiveTable | None]
    _names: Callable[[Identifier], tuple[str, str]]
    _storage: Callable[[str], Storage]
    table_location: Callable[[Identifier], str]

    def _objects(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        """Return what the metastore has under names; those that have gone meanwhile are left out."""
        batches = [list(names[at : at + _BATCH]) for at in range(0, len(names), _BATCH)]
        requests = [GetTablesRequest(database, batch, ClientCapabilities([])) for batch in batches]
        return [
            table
            for request in requests
            for table in self.client.ask(calls.GET_TABLES, request).tables or []
        ]

    def _view_pointer(self, identifier: Identifier) -> str | None:
        """Return the metadata location of a view; None: there is none of that name, or it is no
        Iceberg view.
        """
        stored = self._stored(identifier)
        return (
            (stored.parameters or {})[LOCATION]
            if stored is not None and is_iceberg_view(stored)
            else None
        )

    def _no_view(self, identifier: Identifier) -> NoSuchViewError:
        name, stored = f"{self.name}.{full_name(identifier)}", self._stored(identifier)
        if stored is not None and is_iceberg(stored):
            return NoSuchViewError(
                f"{name} is a table, not a view.",
                hint=f"load_table({full_name(identifier)!r}) loads it.",
                view=name,
            )
        if stored is not None and not is_iceberg_view(stored):
            return NoSuchViewError(
                f"{name} is no Iceberg view, but {described(stored)}.",
                hint="It is left alone.",
                view=name,
            )
        return NoSuchViewError(
            f"View does not exist: {name}.",
            hint="list_views(namespace) lists those that do.",
            view=name,
        )

    def _taken_for_view(
        self, identifier: Identifier, stored: HiveTable | None
    ) -> ViewAlreadyExistsError:
        name = f"{self.name}.{full_name(identifier)}"
        kind = "" if stored is None or is_iceberg_view(stored) else f" It is {described(stored)}."
        return ViewAlreadyExistsError(f"Table or view already exists: {name}.{kind}", view=name)

    def load_view(self, identifier: Identifier) -> LoadedView:
        view = read_view(lambda: self._view_pointer(identifier), self._storage, identifier)
        if view is None:
            raise self._no_view(identifier)
        return view

    def view_exists(self, identifier: Identifier) -> bool:
        return self._view_pointer(identifier) is not None

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        names = self._names(identifier)
        conflict = f"Table or view exists: {full_name(identifier)}"
        if self._stored(identifier) is not None:
            return Conflict(conflict)
        placed = replace(metadata, location=metadata.location or self.table_location(identifier))
        view, storage = LoadedView(tuple(identifier), "", placed), self._storage(placed.location)
        return write_view(
            None,
            view,
            storage,
            lambda v: self._create_pointer(names, v),
            lambda: self.load_view(identifier),
            conflict,
        )

    def _create_pointer(self, names: tuple[str, str], view: LoadedView) -> bool:
        return self._pointers.create(
            new_view_object(view, *names, self.settings), view.metadata_location
        )

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        names = (base.identifier[0], base.identifier[1])
        conflict = f"The metadata location of view {full_name(base.identifier)} is no longer {base.metadata_location}"

        def move(view: LoadedView) -> bool:
            return self._pointers.move(names, view_change(base, view, self._storage, self.settings))

        view = LoadedView(base.identifier, "", metadata)
        return write_view(
            base,
            view,
            self._storage(metadata.location),
            move,
            lambda: self.load_view(base.identifier),
            conflict,
        )

    def drop_view(self, identifier: Identifier) -> None:
        if not self.view_exists(identifier):
            raise self._no_view(identifier)
        try:
            self.client.ask(calls.DROP_TABLE, *identifier, False)
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                raise self._no_view(identifier) from error
            raise

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        if not self.view_exists(source):
            raise self._no_view(source)
        names = self._names(target)
        if (stored := self._stored(target)) is not None:
            raise self._taken_for_view(target, stored)
        view = self.load_view(source)
        try:
            moved = self._pointers.rename(
                (source[0], source[1]), names, view_change(view, view, self._storage, self.settings)
            )
        except TableAlreadyExistsError as error:
            raise self._taken_for_view(target, None) from error
        if not moved:
            message = f"View {full_name(source)} changed while it was renamed."
            raise CommitFailedException(message, hint="Try again.", view=full_name(source))

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView:
        location = absolute(metadata_location)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        metadata = decode_view(
            metadata_files.read_bytes(self._storage(location), location), location
        )
        view, names = LoadedView(tuple(identifier), location, metadata), self._names(identifier)
        if (stored := self._stored(identifier)) is not None or not self._create_pointer(
            names, view
        ):
            raise self._taken_for_view(identifier, stored)
        return view

    def list_views(self, namespace: Identifier) -> Identifiers:
        """Return the Iceberg views of a database, without Hive's own."""
        self._existing(check_namespace(namespace))
        names = sorted(self.client.ask(calls.GET_NAMES_BY_TYPE, namespace[0], "*", "VIRTUAL_VIEW"))
        return sorted(
            (*namespace, str(stored.tableName))
            for stored in self._objects(namespace[0], names)
            if is_iceberg_view(stored)
        )
