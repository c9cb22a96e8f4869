"""Provide the methods of Catalog for views; Catalog is made of this class."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.catalog import CatalogBackend, configured_names, load_backend
from frazil.catalog import Identifier as Parts
from frazil.catalog.backend import views_of
from frazil.catalog.base import LoadedView
from frazil.commit.evolve.update_properties import property_texts
from frazil.errors import InvalidInput, NoSuchTableError, NoSuchViewError, Unsupported
from frazil.ops import views
from frazil.ops.engine import Frame
from frazil.ops.session import Session
from frazil.ops.table_definition import GivenSchema
from frazil.spec.schema import with_unique_ids
from frazil.spec.view import ViewVersion, new_view
from frazil.storage import place_of
from frazil.table import engines
from frazil.table.create import schema_of
from frazil.table.table import Table
from frazil.table.views.view import View

Identifier = str | tuple[str, ...]


class CatalogViews:
    """Create, replace, list, load, rename and drop views; a part of Catalog. Catalogs of type sql,
    memory, hive and rest keep views.
    """

    _backend: CatalogBackend
    _parts: Callable[[Identifier], Parts]
    _new_name: Callable[[Parts], Parts]
    _full_name: Callable[[Parts], str]
    identifier_to_tuple: Callable[[Identifier], Parts]
    load_table: Callable[[Identifier], Table]

    def create_view(
        self,
        identifier: Identifier,
        schema: GivenSchema,
        view_version: ViewVersion | None = None,
        location: str | None = None,
        properties: Mapping[str, object] = {},
        *,
        sql: str | Mapping[str, str] | None = None,
        default_namespace: Identifier | None = None,
        default_catalog: str | None = None,
    ) -> View:
        """Create a view: `catalog.create_view("db.daily", "day date, n bigint", sql="SELECT day,
        count(*) FROM events GROUP BY day")`.

        `schema`: the query's columns, as `create_table` takes them. `sql`: the query for Spark, or
        a mapping of dialects to queries. `default_namespace` (None: the view's own) and
        `default_catalog` (None: this one) are those of names in the query that tell none.
        `view_version` describes all this at once, as in PyIceberg. Raises ViewAlreadyExistsError,
        also for a table of that name, NoSuchNamespaceError, and Unsupported where the catalog keeps
        no views.
        """
        views_of(self._backend)  # raises where the catalog keeps no views
        parts = self._new_name(self._parts(identifier))
        version = views.version_of(view_version, sql, default_namespace, default_catalog, parts)
        place = place_of(location) if location else ""
        metadata = new_view(
            place, with_unique_ids(schema_of(schema)), version, property_texts(properties)
        )
        return self._view(views.create_view(self._backend, parts, metadata, self._full_name(parts)))

    def replace_view(
        self,
        identifier: Identifier,
        schema: GivenSchema | None = None,
        view_version: ViewVersion | None = None,
        location: str | None = None,
        properties: Mapping[str, object] = {},
        *,
        sql: str | Mapping[str, str] | None = None,
        default_namespace: Identifier | None = None,
        default_catalog: str | None = None,
        create: bool = False,
    ) -> View:
        """Give a view another query, which becomes its current version; the arguments are those of
        `create_view`. `schema` None: as it is. `create`: create the view if it does not exist, as
        CREATE OR REPLACE does.

        Raises NoSuchViewError, and ValidationError where a dialect of the current query would be
        lost.
        """
        view_backend, parts = views_of(self._backend), self._new_name(self._parts(identifier))
        if create and not view_backend.view_exists(parts):
            if schema is None:
                raise InvalidInput(
                    f"View {self._full_name(parts)} does not exist, and a new one needs a schema."
                )
            return self.create_view(
                parts,
                schema,
                view_version,
                location,
                properties,
                sql=sql,
                default_namespace=default_namespace,
                default_catalog=default_catalog,
            )
        if location is not None:
            raise Unsupported(
                "A view keeps its location when it is replaced.",
                hint="Leave location out.",
                view=self._full_name(parts),
            )
        columns, texts = (
            None if schema is None else with_unique_ids(schema_of(schema)),
            property_texts(properties),
        )
        version = views.version_of(view_version, sql, default_namespace, default_catalog, parts)
        return self._view(
            views.replace_view(
                self._backend, parts, version, columns, texts, self._full_name(parts)
            )
        )

    def update_view_properties(
        self,
        identifier: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, object] = {},
    ) -> View:
        """Remove and set properties of a view; keys that are not set are ignored. Raises
        NoSuchViewError, ValidationError.
        """
        parts, removed = self._parts(identifier), removals or set()
        changed = views.change_view_properties(
            self._backend, parts, removed, property_texts(updates), self._full_name(parts)
        )
        return self._view(changed)

    def load_view(self, identifier: Identifier) -> View:
        """Load a view. Raises NoSuchViewError."""
        return self._view(views_of(self._backend).load_view(self._parts(identifier)))

    def view_exists(self, identifier: Identifier) -> bool:
        """Tell whether a view exists. Raises Unsupported in catalogs without views."""
        return views_of(self._backend).view_exists(self._parts(identifier))

    def list_views(self, namespace: Identifier) -> list[Parts]:
        """Return the identifiers of the views in a namespace, namespace included. Raises
        NoSuchNamespaceError.
        """
        return views_of(self._backend).list_views(self.identifier_to_tuple(namespace))

    def drop_view(self, identifier: Identifier) -> None:
        """Drop a view; its metadata files stay, unless the server of a REST catalog deletes them.
        Raises NoSuchViewError.
        """
        views_of(self._backend).drop_view(self._parts(identifier))

    def rename_view(self, from_identifier: Identifier, to_identifier: Identifier) -> View:
        """Rename a view. Raises NoSuchViewError, ViewAlreadyExistsError, NoSuchNamespaceError."""
        views_of(self._backend).rename_view(
            self._parts(from_identifier), self._new_name(self._parts(to_identifier))
        )
        return self.load_view(to_identifier)

    def register_view(self, identifier: Identifier, metadata_location: str) -> View:
        """Add an existing view to the catalog, by the location of its metadata file. Raises
        ViewAlreadyExistsError, NoSuchFileError, CorruptData."""
        parts = self._new_name(self._parts(identifier))
        return self._view(views_of(self._backend).register_view(parts, metadata_location))

    def _view(self, loaded: LoadedView) -> View:
        return View(loaded, self._full_name(loaded.identifier), self._rows_of)

    def _rows_of(
        self, spark: Session | None, version: ViewVersion, parts: Parts, reading: tuple[str, ...]
    ) -> Frame | Parts:
        """Return the rows of a table or view that a view's query names; the full name of a table of
        Spark's own catalog.
        """
        own, settings = self._backend.name, engines.session_catalogs()
        name, rest = views.named_in_query(
            parts, version, reading[-1], own, configured_names(settings)
        )
        if name == views.SPARK_CATALOG:
            return (name, *rest)
        catalog = self if name == own else type(self)(load_backend(name, spark_conf=settings))  # type: ignore[call-arg]
        try:
            return catalog.load_table(rest).to_spark(spark)
        except NoSuchTableError as error:
            try:
                view = catalog.load_view(rest)
            except (NoSuchViewError, Unsupported):
                raise error from None
            return view._frame(spark, reading)
