"""Keep tables in a warehouse that is laid out as by Java's Hadoop catalog
(`warehouse/namespace/table`): a table is found by its directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalog.backend import ScanPlanner
from frazil.catalog.base import (
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    PropertiesUpdateSummary,
    Swap,
    check_identifier,
    check_namespace,
    shown,
)
from frazil.catalog.names import full_name
from frazil.catalog.path import files
from frazil.catalog.reporting import Reporting
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
from frazil.storage import Storage, absolute, normalise, storage_for
from frazil.storage.locations import join


class PathCatalog:
    """Keep tables in a warehouse directory: each namespace level and each table is a directory in
    it. Namespaces need not be created first.

    Raises InvalidInput without the property warehouse, and for the property uri.
    """

    kind, writes_metadata_files, views = "path", True, None

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

    def planner(self, table: LoadedTable) -> ScanPlanner | None:
        return None

    # --- tables

    def table_location(self, identifier: Identifier) -> str:
        return join(self.warehouse, *check_identifier(identifier))

    def load(self, identifier: Identifier) -> LoadedTable:
        root = self.table_location(identifier)
        current = files.load(self.storage, root)
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
        if (inner := files.table_within(self.storage, root)) is not None:
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
            if files.head(self.storage, join(self.warehouse, *namespace[:depth])) is not None:
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
        return files.create(self.table_location(identifier), self._staged(identifier, metadata))

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        return files.swap(self.storage, self.table_location(base.identifier), base, metadata)

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        raise files.refuse_together(f"Path catalog {self.name!r}")

    def table_exists(self, identifier: Identifier) -> bool:
        return files.head(self.storage, self.table_location(identifier)) is not None

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        """Delete the directory of a table: a path table exists as long as its directory does.
        `purge`: also delete files in the directories that write.data.path and write.metadata.path
        name. Returns the paths of files elsewhere, which stay. Raises NoSuchTableError."""
        root = self.table_location(identifier)
        if files.head(self.storage, root) is None:
            raise self._no_table(identifier)
        return files.drop(self.storage, root, self.load(identifier) if purge else None)

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        raise _refuse_relocation(f"Tables of path catalog {self.name!r} cannot be renamed.")

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        raise _refuse_relocation(f"Tables cannot be registered in path catalog {self.name!r}.")

    def list_tables(self, namespace: Identifier) -> Identifiers:
        place = self._existing(namespace)
        return [
            (*namespace, n)
            for n in self._visible(place)
            if files.head(self.storage, join(place, n)) is not None
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
        return [n for n in self.storage.directories(place) if not files.is_leftover(n)]

    def namespace_exists(self, namespace: Identifier) -> bool:
        place = self._place(check_namespace(namespace))
        return self.storage.is_directory(place) and files.head(self.storage, place) is None

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
        return [(*parent, n) for n in names if files.head(self.storage, join(place, n)) is None]

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        return {"location": self._existing(namespace)}

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        raise Unsupported(f"Namespaces of path catalog {self.name!r} have no properties.")


def _refuse_relocation(message: str) -> Unsupported:
    """Return the error for renaming or registering a path table."""
    return Unsupported(
        message,
        hint="A path table is identified by its directory. Use a catalog of type sql for tables that move.",
    )
