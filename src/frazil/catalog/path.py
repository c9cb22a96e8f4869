"""Find tables by their directory: in a warehouse laid out as by Java's Hadoop catalog
(`warehouse/namespace/table`), or by location.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalog import metadata_files, path_files, purge
from frazil.catalog.base import (
    CatalogBackend,
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
    check_identifier,
    check_namespace,
    refuse_relocation,
    refuse_together,
    shown,
)
from frazil.catalog.names import full_name
from frazil.catalog.reporting import Reporting
from frazil.catalog.served import canonical, check_of_location
from frazil.errors import (
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, absolute, check_location, is_inside, normalise, storage_for
from frazil.storage.locations import base_name, join, parent, scheme_of

log = logging.getLogger("frazil.catalog")


class PathCatalog:
    """Keep tables in a warehouse directory: each namespace level and each table is a directory in
    it. Namespaces need not be created first.

    Raises InvalidInput without the property warehouse, and for the property uri.
    """

    writes_metadata_files = True

    def __init__(self, name: str, properties: Mapping[str, str]):
        self.name, self.properties = name, dict(properties)
        warehouse = self.properties.get("warehouse")
        if not warehouse:
            raise InvalidInput(
                f"Catalog {name!r} of type path needs the property warehouse: the directory of its tables."
            )
        if "uri" in self.properties:
            hint = "Leave it out: the property warehouse names the directory of the tables."
            raise InvalidInput(
                f"Catalog {name!r} of type path has no use for the property uri.", hint=hint
            )
        self.warehouse = absolute(warehouse)
        self.storage: Storage = storage_for(self.warehouse, self.properties)
        self.reporting = Reporting(name, self.properties)

    def __repr__(self) -> str:
        return f"PathCatalog({shown(self.name, self.properties)})"

    def close(self) -> None:
        """Wait a moment for the metrics reports that are under way; no connection is held open."""
        self.reporting.close()

    # --- tables

    def table_location(self, identifier: Identifier) -> str:
        return join(self.warehouse, *check_identifier(identifier))

    def load(self, identifier: Identifier) -> LoadedTable:
        root = self.table_location(identifier)
        current = path_files.load(self.storage, root)
        if current is None:
            raise self._no_table(identifier)
        return LoadedTable(tuple(identifier), *current, self.storage, dict(self.properties))

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        if self.table_exists(identifier):
            name = f"{self.name}.{full_name(identifier)}"
            raise TableAlreadyExistsError(f"Table already exists: {name}.", table=name)
        return self._staged(identifier, metadata)

    def _staged(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        root = self.table_location(identifier)
        self._check_around(identifier[:-1])
        if (inner := path_files.table_within(self.storage, root)) is not None:
            text = f"Table {full_name(identifier)} cannot be created in {root}, which holds another table: {inner}."
            raise ValidationError(
                text,
                hint="A table is dropped with its directory. Choose another name.",
                table=full_name(identifier),
            )
        if metadata.location and normalise(metadata.location) != normalise(root):
            raise ValidationError(
                f"A table of path catalog {self.name!r} cannot have a location of its own: {metadata.location}.",
                hint=f"Leave the location out; it is {root}.",
                table=full_name(identifier),
            )
        placed = replace(metadata, location=metadata.location or root)
        return LoadedTable(tuple(identifier), "", placed, self.storage, dict(self.properties))

    def _check_around(self, namespace: Identifier) -> None:
        """Check that a namespace lies in no table's directory, with which it would be dropped.
        Raises ValidationError.
        """
        name = full_name(namespace)
        for depth in range(1, len(namespace) + 1):
            if path_files.head(self.storage, join(self.warehouse, *namespace[:depth])) is not None:
                table = full_name(namespace[:depth])
                text = f"{name} cannot be a namespace of path catalog {self.name!r}: {table} is a table."
                raise ValidationError(
                    text,
                    hint="A table is dropped with its directory. Choose another name.",
                    namespace=name,
                )

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return path_files.create(
            self.table_location(identifier), self._staged(identifier, metadata)
        )

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return path_files.swap(self.storage, self.table_location(base.identifier), base, metadata)

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        raise refuse_together(f"Path catalog {self.name!r}")

    def table_exists(self, identifier: Identifier) -> bool:
        return path_files.head(self.storage, self.table_location(identifier)) is not None

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Delete the directory of a table: a path table exists as long as its directory does.
        `purge`: also delete files in the directories that write.data.path and write.metadata.path
        name. Returns the paths of files elsewhere, which stay. Raises NoSuchTableError."""
        root = self.table_location(identifier)
        if path_files.head(self.storage, root) is None:
            raise self._no_table(identifier)
        return _drop(self.storage, root, self.load(identifier) if purge else None)

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        raise refuse_relocation(f"Tables of path catalog {self.name!r} cannot be renamed.")

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        raise refuse_relocation(f"Tables cannot be registered in path catalog {self.name!r}.")

    def list_tables(self, namespace: Identifier) -> Identifiers:
        place = self._existing(namespace)
        return [
            (*namespace, n)
            for n in self._visible(place)
            if path_files.head(self.storage, join(place, n)) is not None
        ]

    def _no_table(self, identifier: Identifier) -> NoSuchTableError:
        name = f"{self.name}.{full_name(identifier)}"
        return NoSuchTableError(
            f"Table does not exist: {name}.",
            hint=f"Looked in {self.table_location(identifier)}.",
            table=name,
        )

    # --- namespaces

    def _place(self, namespace: Identifier) -> str:
        return join(self.warehouse, *check_namespace(namespace)) if namespace else self.warehouse

    def _existing(self, namespace: Identifier) -> str:
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {full_name(namespace)}.", namespace=full_name(namespace)
            )
        return self._place(namespace)

    def _visible(self, place: str) -> list[str]:
        return [n for n in self.storage.directories(place) if not path_files.is_leftover(n)]

    def namespace_exists(self, namespace: Identifier) -> bool:
        place = self._place(check_namespace(namespace))
        return self.storage.is_directory(place) and path_files.head(self.storage, place) is None

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        if properties:
            raise Unsupported(
                f"Namespaces of path catalog {self.name!r} have no properties.",
                hint="Leave them out.",
            )
        place = self._place(check_namespace(namespace))
        if self.storage.is_directory(place):
            raise NamespaceAlreadyExistsError(
                f"Namespace already exists: {full_name(namespace)}.", namespace=full_name(namespace)
            )
        self._check_around(namespace)
        self.storage.make_directory(place)

    def drop_namespace(self, namespace: Identifier) -> None:
        place = self._existing(namespace)
        if not self.storage.remove_directory(place):
            raise NamespaceNotEmptyError(
                f"Namespace {full_name(namespace)} is not empty.", namespace=full_name(namespace)
            )

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        place = self._existing(parent) if parent else self.warehouse
        names = self._visible(place)
        return [
            (*parent, n) for n in names if path_files.head(self.storage, join(place, n)) is None
        ]

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        return {"location": self._existing(namespace)}

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        raise Unsupported(f"Namespaces of path catalog {self.name!r} have no properties.")


class LocationBackend:
    """Serve one path table by its directory, without a catalog. Its identifier is (); `(location,)`
    is accepted as well.
    """

    writes_metadata_files = True

    def __init__(self, location: str, properties: Mapping[str, str]):
        self.location, self.properties = absolute(location), dict(properties)
        self.name = self.location
        self.storage: Storage = storage_for(self.location, self.properties)

    def __repr__(self) -> str:
        return f"LocationBackend({self.location!r})"

    def close(self) -> None:
        """Do nothing: no connection is held open."""

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
        current = path_files.load(self.storage, self.location)
        if current is None:
            text = f"There is no table at {self.location}: no v<N>.metadata.json in its directory metadata."
            raise NoSuchTableError(
                text, hint=path_files.instead(self.storage, self.location), table=self.location
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
        return path_files.create(self.location, self._staged(metadata))

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return path_files.swap(self.storage, self.location, base, metadata)

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        raise refuse_together(f"The location {self.location}")

    def table_exists(self, identifier: Identifier = ()) -> bool:
        self._check(identifier)
        return path_files.head(self.storage, self.location) is not None

    def drop_table(self, identifier: Identifier = (), purge: bool = False) -> tuple[str, ...]:
        loaded = self.load(identifier)
        return _drop(self.storage, self.location, loaded if purge else None)

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


def _drop(storage: Storage, root: str, purged: LoadedTable | None) -> tuple[str, ...]:
    """Delete the directory of a table. `purged`: the table, if its files outside the directory are
    deleted too; returns the paths of files that stay. Raises ValidationError where the directory
    holds another table, as Java's catalog lets it."""
    if (inner := path_files.table_within(storage, root)) is not None:
        text = f"The table in {root} cannot be dropped: its directory holds another table, {inner}."
        raise ValidationError(text, hint="Drop that one first, or move it elsewhere.", table=root)
    if purged is not None:
        purge.check_gc(purged.metadata, full_name(purged.identifier) or root)
    own, elsewhere = purge.own_and_others(purged, root) if purged is not None else ([], [])
    if scheme_of(root) in ("file", "hdfs"):  # where a directory disappears in one step
        storage.delete_tree(root)
    else:  # Object stores delete file by file. The versions go oldest first, so that readers never see an older state meanwhile.
        for version in path_files.versions(storage, root):
            storage.delete_many([version.location])
        storage.delete_tree(root)
    return (
        purge.delete(purged, (f for f in own if not is_inside(f, root)), elsewhere)
        if purged is not None
        else ()
    )


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


def table_name_of(location: str) -> str:
    """Format the last two names of a location as `namespace.table`, for display."""
    return f"{base_name(parent(location))}.{base_name(location)}"
