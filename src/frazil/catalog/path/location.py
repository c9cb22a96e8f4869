"""Serve a path table by its directory, without a catalog, and open the metadata file of a table
that another catalog has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalog import metadata_files
from frazil.catalog.backend import CatalogBackend, ScanPlanner
from frazil.catalog.base import (
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
)
from frazil.catalog.names import full_name
from frazil.catalog.options import canonical, check_of_location
from frazil.catalog.path import files
from frazil.catalog.reporting import Reporting
from frazil.errors import (
    InvalidInput,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, absolute, check_location, normalise, storage_for
from frazil.storage.locations import base_name

log = logging.getLogger("frazil.catalog")


class LocationBackend:
    """Serve one path table by its directory, without a catalog. Its identifier is (); `(location,)`
    is accepted as well.
    """

    kind, writes_metadata_files, views = "location", True, None

    def __init__(self, location: str, properties: Mapping[str, str]):
        self.location, self.properties = absolute(location), dict(properties)
        self.name = self.location
        self.storage: Storage = storage_for(self.location, self.properties)
        self.reporting = Reporting(self.name, {})

    def __repr__(self) -> str:
        return f"LocationBackend({self.location!r})"

    def close(self) -> None:
        """Do nothing: no connection is held open."""

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        return None

    def _check(self, identifier: Identifier) -> None:
        if identifier and normalise(absolute(identifier[0])) != normalise(self.location):
            raise InvalidInput(
                f"This is the table at {self.location}, not {full_name(identifier)}.",
                hint="Load the other table by its own location.",
            )

    def table_location(self, identifier: Identifier = ()) -> str:
        self._check(identifier)
        return self.location

    def load(self, identifier: Identifier = ()) -> LoadedTable:
        self._check(identifier)
        current = files.load(self.storage, self.location)
        if current is None:
            text = f"There is no table at {self.location}: no v<N>.metadata.json in its directory metadata."
            raise NoSuchTableError(
                text, hint=files.instead(self.storage, self.location), table=self.location
            )
        return LoadedTable((), *current, self.storage, dict(self.properties))

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        if self.table_exists(identifier):
            raise TableAlreadyExistsError(
                f"Table already exists: {self.location}.", table=self.location
            )
        return self._staged(metadata)

    def _staged(self, metadata: TableMetadata) -> LoadedTable:
        if metadata.location and normalise(metadata.location) != normalise(self.location):
            raise ValidationError(
                f"The table at {self.location} cannot have the location {metadata.location}.",
                table=self.location,
            )
        placed = replace(metadata, location=metadata.location or self.location)
        return LoadedTable((), "", placed, self.storage, dict(self.properties))

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        self._check(identifier)
        return files.create(self.location, self._staged(metadata))

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return files.swap(self.storage, self.location, base, metadata)

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        raise files.refuse_together(f"The location {self.location}")

    def table_exists(self, identifier: Identifier = ()) -> bool:
        self._check(identifier)
        return files.head(self.storage, self.location) is not None

    def drop_table(self, identifier: Identifier = (), purge: bool = False) -> tuple[str, ...]:
        loaded = self.load(identifier)
        return files.drop(self.storage, self.location, loaded if purge else None)

    def _refusal(self, missing: str) -> Unsupported:
        return Unsupported(
            f"A table that was opened by its location ({self.location}) has no {missing}.",
            hint="Use a catalog for that.",
        )

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        raise self._refusal("name that could be changed")

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        raise self._refusal("name to register")

    def list_tables(self, namespace: Identifier) -> Identifiers:
        raise self._refusal("namespaces")

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        raise self._refusal("namespaces")

    def drop_namespace(self, namespace: Identifier) -> None:
        raise self._refusal("namespaces")

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        raise self._refusal("namespaces")

    def namespace_exists(self, namespace: Identifier) -> bool:
        raise self._refusal("namespaces")

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        raise self._refusal("namespaces")

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        raise self._refusal("namespaces")


def load_location(
    location: str, properties: Mapping[str, str] | None = None
) -> tuple[CatalogBackend | None, LoadedTable]:
    """Load a path table by its directory, or one `…metadata.json` file read-only (the back end is
    None).

    The directory of a table that belongs to another catalog opens read-only as well, at its newest
    metadata file, if that is unambiguous. Raises NoSuchTableError, NoSuchFileError, CorruptData.
    """
    properties = _of_store(location, properties)
    location = absolute(check_location(location))
    if metadata_files.is_metadata_file(location):
        storage = storage_for(location, properties)
        return None, LoadedTable(
            (), location, metadata_files.read(storage, location), storage, properties
        )
    backend = LocationBackend(location, properties)
    try:
        return backend, backend.load()
    except NoSuchTableError as e:
        newest = metadata_files.newest_of_catalog(backend.storage, location)
        if newest is None:
            raise
        if len(newest) > 1:
            names = ", ".join(base_name(n) for n in newest)
            raise NoSuchTableError(
                f"{e.message} Only its catalog knows which of several newest metadata files is current: {names}.",
                hint="Load it through the catalog, or give the path of one of these files.",
            ) from e
        log.warning(
            "%s is the table of a catalog; it is opened read-only, as of %s.",
            location,
            base_name(newest[0]),
        )
        return None, LoadedTable(
            (),
            newest[0],
            metadata_files.read(backend.storage, newest[0]),
            backend.storage,
            properties,
        )


def create_at(
    location: str, metadata: TableMetadata, properties: Mapping[str, str] | None = None
) -> Outcome:
    """Create a path table at a location, without a catalog."""
    return LocationBackend(location, _of_store(location, properties)).create((), metadata)


def _of_store(location: str, properties: Mapping[str, str] | None) -> dict[str, str]:
    """Return the properties of a location's store as text, checked. Raises InvalidInput."""
    texts = {canonical(k): str(v) for k, v in (properties or {}).items()}
    check_of_location(location, texts)
    return texts
