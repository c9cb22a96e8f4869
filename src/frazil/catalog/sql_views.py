"""Keep views in the SQL catalog, as Java's JDBC catalog does: rows of iceberg_tables with
iceberg_type VIEW (layout V1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from frazil.catalog import metadata_files, sql_statements
from frazil.catalog.base import Conflict, Identifier, Identifiers, check_identifier, check_namespace
from frazil.catalog.database import DuplicateKey
from frazil.catalog.names import full_name
from frazil.catalog.sql_namespaces import SqlNamespaces
from frazil.catalog.views import LoadedView, ViewOutcome, read_view, write_view
from frazil.codec.view_json import decode_view
from frazil.errors import (
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchViewError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.spec.view import ViewMetadata
from frazil.storage import Storage, absolute

_TAKEN = "Table or view exists: {}"
_MAX_LOCATION = 1000


def check_length(location: str) -> None:
    """Check that the database can hold a metadata location. Raises InvalidInput."""
    if len(location) > _MAX_LOCATION:
        raise InvalidInput(
            f"A SQL catalog holds metadata locations of at most {_MAX_LOCATION} characters; this one has {len(location)}."
        )


class SqlViews(SqlNamespaces):
    """Create, commit and drop views in a SQL database; a part of SqlBackend."""

    _v1: bool
    _row: Callable[[Identifier], dict[str, str]]
    _storage: Callable[[str], Storage]
    _check_namespace_of: Callable[[Identifier], None]
    _is_taken: Callable[[Identifier], bool]
    table_location: Callable[[Identifier], str]

    def _has_views(self) -> None:
        if not self._v1:
            text = f"The database of catalog {self.name!r} has the layout V0, which keeps no views."
            raise Unsupported(
                text,
                hint="The property schema_version=v1 upgrades it; Java and PyIceberg read V1, too.",
            )

    def _kind(self, identifier: Identifier) -> tuple[str | None, str | None]:
        """Return TABLE or VIEW and the metadata location of the table or view of that name; (None,
        None) if there is neither.
        """
        if any("." in level for level in check_identifier(identifier)[:-1]):
            return None, None  # no namespace of a SQL catalog has a dot in its name
        row = self._row(identifier)
        for location, namespace, name, kind in self.database.query(
            sql_statements.get(self._v1), row
        ):
            if (namespace, name) == (
                row["namespace"],
                row["name"],
            ) and location:  # MySQL compares texts without regard to case
                return str(kind or "TABLE"), str(location)
        return None, None

    def _view_pointer(self, identifier: Identifier) -> str | None:
        kind, location = self._kind(identifier)
        return location if kind == "VIEW" else None

    def _no_view(self, identifier: Identifier) -> NoSuchViewError:
        name = f"{self.name}.{full_name(identifier)}"
        if self._kind(identifier)[0] == "TABLE":
            return NoSuchViewError(
                f"{name} is a table, not a view.",
                hint=f"load_table({full_name(identifier)!r}) loads it.",
                view=name,
            )
        return NoSuchViewError(
            f"View does not exist: {name}.",
            hint="list_views(namespace) lists those that do.",
            view=name,
        )

    def load_view(self, identifier: Identifier) -> LoadedView:
        view = read_view(lambda: self._view_pointer(identifier), self._storage, identifier)
        if view is None:
            raise self._no_view(identifier)
        return view

    def view_exists(self, identifier: Identifier) -> bool:
        return self._view_pointer(identifier) is not None

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> ViewOutcome:
        self._has_views()
        row, conflict = self._row(identifier), _TAKEN.format(full_name(identifier))
        self._check_namespace_of(identifier)
        if self._is_taken(identifier):
            return Conflict(conflict)
        placed = replace(metadata, location=metadata.location or self.table_location(identifier))

        def insert(view: LoadedView) -> bool:
            check_length(view.metadata_location)
            try:
                return (
                    self.database.execute(
                        [(sql_statements.INSERT_VIEW, row | {"new": view.metadata_location})]
                    )[0]
                    == 1
                )
            except DuplicateKey:
                return False

        view = LoadedView(tuple(identifier), "", placed)
        return write_view(
            None,
            view,
            self._storage(placed.location),
            insert,
            lambda: self.load_view(identifier),
            conflict,
        )

    def swap_view(self, base: LoadedView, metadata: ViewMetadata) -> ViewOutcome:
        row = self._row(base.identifier)

        def update(view: LoadedView) -> bool:
            check_length(view.metadata_location)
            values = row | {"new": view.metadata_location, "old": base.metadata_location}
            return self.database.execute([(sql_statements.SWAP_VIEW, values)])[0] == 1

        view = LoadedView(base.identifier, "", metadata)
        conflict = f"The metadata location of view {full_name(base.identifier)} is no longer {base.metadata_location}"
        return write_view(
            base,
            view,
            self._storage(metadata.location),
            update,
            lambda: self.load_view(base.identifier),
            conflict,
        )

    def drop_view(self, identifier: Identifier) -> None:
        if (
            not self.view_exists(identifier)
            or self.database.execute([(sql_statements.DROP_VIEW, self._row(identifier))])[0] == 0
        ):
            raise self._no_view(identifier)

    def rename_view(self, source: Identifier, target: Identifier) -> None:
        to = self._row(target)
        if not self.view_exists(source):
            raise self._no_view(source)
        if not self.namespace_exists(tuple(target[:-1])):
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {full_name(target[:-1])}.",
                namespace=full_name(target[:-1]),
            )
        values = self._row(source) | {"to_namespace": to["namespace"], "to_name": to["name"]}
        try:
            if self.database.execute([(sql_statements.RENAME_VIEW, values)])[0] == 0:
                raise self._no_view(source)
        except DuplicateKey as error:
            name = f"{self.name}.{full_name(target)}"
            raise ViewAlreadyExistsError(
                f"Table or view already exists: {name}.", view=name
            ) from error

    def register_view(self, identifier: Identifier, metadata_location: str) -> LoadedView:
        self._has_views()
        location, row = absolute(metadata_location), self._row(identifier)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        metadata = decode_view(
            metadata_files.read_bytes(self._storage(location), location), location
        )
        self._check_namespace_of(identifier)
        check_length(location)
        try:
            self.database.execute([(sql_statements.INSERT_VIEW, row | {"new": location})])
        except DuplicateKey as error:
            name = f"{self.name}.{full_name(identifier)}"
            raise ViewAlreadyExistsError(
                f"Table or view already exists: {name}.", view=name
            ) from error
        return LoadedView(tuple(identifier), location, metadata)

    def list_views(self, namespace: Identifier) -> Identifiers:
        self._check_exists(check_namespace(namespace))
        if not self._v1:
            return []
        joined = self._joined(namespace)
        rows = self.database.query(
            sql_statements.VIEW_NAMES, {"catalog": self.name, "namespace": joined}
        )
        return sorted((*namespace, str(name)) for stored, name in rows if stored == joined)
