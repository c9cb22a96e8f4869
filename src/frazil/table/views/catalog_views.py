"""Provide the methods of Catalog for views; Catalog is made of this class."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from frazil.catalog import CatalogBackend, Conflict, Unknown, configured_names, load_backend
from frazil.catalog import Identifier as Parts
from frazil.catalog.names import full_name, identifier_parts
from frazil.catalog.views import ViewOutcome, views_of
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    InvalidInput,
    NoSuchTableError,
    NoSuchViewError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.ops.metadata_changes import property_texts
from frazil.spec.schema import with_unique_ids
from frazil.spec.view import SQLViewRepresentation, ViewMetadata, ViewVersion, new_view, with_version
from frazil.storage import place_of
from frazil.table import engines
from frazil.table.create import schema_of
from frazil.table.table import Table
from frazil.table.views.view import View

Identifier = str | tuple[str, ...]
_ATTEMPTS = 5  # the first one, and Java's commit.retry.num-retries
_OF_SPARK = "spark_catalog"


class CatalogViews:
    """Create, replace, list, load, rename and drop views; a part of Catalog. Catalogs of type sql, memory, hive and rest keep views."""

    _backend: CatalogBackend
    _parts: Callable[[Identifier], Parts]
    _new_name: Callable[[Parts], Parts]
    _full_name: Callable[[Parts], str]
    identifier_to_tuple: Callable[[Identifier], Parts]
    load_table: Callable[[Identifier], Table]

    def create_view(
        self,
        identifier: Identifier,
        schema: Any,
        view_version: ViewVersion | None = None,
        location: str | None = None,
        properties: Mapping[str, Any] = {},
        *,
        sql: str | Mapping[str, str] | None = None,
        default_namespace: Identifier | None = None,
        default_catalog: str | None = None,
    ) -> View:
        """Create a view: `catalog.create_view("db.daily", "day date, n bigint", sql="SELECT day, count(*) FROM events GROUP BY day")`.

        `schema`: the query's columns, as `create_table` takes them. `sql`: the query for Spark, or a mapping of dialects to queries.
        `default_namespace` (None: the view's own) and `default_catalog` (None: this one) are those of names in the query that tell none.
        `view_version` describes all this at once, as in PyIceberg. Raises ViewAlreadyExistsError, also for a table of that name,
        NoSuchNamespaceError, and Unsupported where the catalog keeps no views.
        """
        views, parts = views_of(self._backend), self._new_name(self._parts(identifier))
        version = _version(view_version, sql, default_namespace, default_catalog, parts)
        place = place_of(location) if location else ""
        outcome = views.create_view(parts, new_view(place, with_unique_ids(schema_of(schema)), version, property_texts(properties)))
        if isinstance(outcome, Conflict):
            name = self._full_name(parts)
            raise ViewAlreadyExistsError(f"Table or view already exists: {name}.", hint="replace_view replaces a view.", view=name)
        return self._view(self._certain(outcome, parts))

    def replace_view(
        self,
        identifier: Identifier,
        schema: Any = None,
        view_version: ViewVersion | None = None,
        location: str | None = None,
        properties: Mapping[str, Any] = {},
        *,
        sql: str | Mapping[str, str] | None = None,
        default_namespace: Identifier | None = None,
        default_catalog: str | None = None,
        create: bool = False,
    ) -> View:
        """Give a view another query, which becomes its current version; the arguments are those of `create_view`. `schema` None: as it is.
        `create`: create the view if it does not exist, as CREATE OR REPLACE does.

        Raises NoSuchViewError, and ValidationError where a dialect of the current query would be lost.
        """
        views, parts = views_of(self._backend), self._new_name(self._parts(identifier))
        if create and not views.view_exists(parts):
            if schema is None:
                raise InvalidInput(f"View {self._full_name(parts)} does not exist, and a new one needs a schema.")
            return self.create_view(
                parts, schema, view_version, location, properties,
                sql=sql, default_namespace=default_namespace, default_catalog=default_catalog,
            )  # fmt: skip
        if location is not None:
            raise Unsupported("A view keeps its location when it is replaced.", hint="Leave location out.", view=self._full_name(parts))
        columns, texts = None if schema is None else with_unique_ids(schema_of(schema)), property_texts(properties)
        version = _version(view_version, sql, default_namespace, default_catalog, parts)

        def replaced(base: ViewMetadata) -> ViewMetadata:
            if base.current_version().extra.get("storage-table") is not None:
                text = f"View {self._full_name(parts)} is materialized; replacing it would leave its stored rows behind."
                raise Unsupported(text, hint="Replace it in the engine that made it.", view=self._full_name(parts))
            return with_version(base, columns or base.schema(), version, texts, _now_ms())

        return self._changed(parts, replaced)

    def _changed(self, parts: Parts, change: Callable[[ViewMetadata], ViewMetadata]) -> View:
        """Change a view, again on its newest state when another writer was first."""
        views, reason = views_of(self._backend), ""
        for attempt in range(_ATTEMPTS):
            base = views.load_view(parts)
            if (metadata := change(base.metadata)) == base.metadata:
                return self._view(base)
            outcome = views.swap_view(base, metadata)
            if not isinstance(outcome, Conflict):
                return self._view(self._certain(outcome, parts))
            reason = outcome.reason
            time.sleep(0.05 * 2**attempt)
        name = self._full_name(parts)
        raise CommitFailedException(f"View {name} could not be changed in {_ATTEMPTS} attempts: {reason}.", view=name, attempts=_ATTEMPTS)

    def _certain(self, outcome: ViewOutcome, parts: Parts) -> Any:
        if isinstance(outcome, Unknown):
            text = f"It is not known whether view {self._full_name(parts)} was changed: {outcome.cause}"
            raise CommitStateUnknownException(text, hint="Load the view and look before you try again.") from outcome.cause
        return outcome

    def load_view(self, identifier: Identifier) -> View:
        """Load a view. Raises NoSuchViewError."""
        return self._view(views_of(self._backend).load_view(self._parts(identifier)))

    def view_exists(self, identifier: Identifier) -> bool:
        return views_of(self._backend).view_exists(self._parts(identifier))

    def list_views(self, namespace: Identifier) -> list[Parts]:
        """Return the identifiers of the views in a namespace, namespace included. Raises NoSuchNamespaceError."""
        return views_of(self._backend).list_views(self.identifier_to_tuple(namespace))

    def drop_view(self, identifier: Identifier) -> None:
        """Drop a view; its metadata files stay, unless the server of a REST catalog deletes them. Raises NoSuchViewError."""
        views_of(self._backend).drop_view(self._parts(identifier))

    def rename_view(self, from_identifier: Identifier, to_identifier: Identifier) -> View:
        """Rename a view. Raises NoSuchViewError, ViewAlreadyExistsError, NoSuchNamespaceError."""
        views_of(self._backend).rename_view(self._parts(from_identifier), self._new_name(self._parts(to_identifier)))
        return self.load_view(to_identifier)

    def register_view(self, identifier: Identifier, metadata_location: str) -> View:
        """Add an existing view to the catalog, by the location of its metadata file. Raises ViewAlreadyExistsError, NoSuchFileError,
        CorruptData."""
        parts = self._new_name(self._parts(identifier))
        return self._view(views_of(self._backend).register_view(parts, metadata_location))

    def _view(self, loaded: Any) -> View:
        return View(loaded, self._full_name(loaded.identifier), self._rows_of)

    def _rows_of(self, spark: Any, version: ViewVersion, parts: Parts, reading: tuple[str, ...]) -> Any:
        """Return the rows of a table or view that a view's query names; the full name of a table of Spark's own catalog."""
        own, settings = self._backend.name, engines.session_catalogs()
        default, configured = version.default_catalog or self._backend.name, {self._backend.name, _OF_SPARK, *configured_names(settings)}
        if len(parts) == 1:
            name, rest = default, (*version.default_namespace, *parts)
        elif len(parts) > 2 and parts[0] in {*configured, default}:
            name, rest = parts[0], parts[1:]
        else:
            name, rest = default, parts
        if name == _OF_SPARK:
            return (name, *rest)
        if name not in configured:
            text = f"The query of view {reading[-1]} names {full_name(rest)} in catalog {name!r}, which is not configured here."
            raise NoSuchTableError(text, hint="frazil.list_catalogs() lists those that are.", table=full_name((name, *rest)))
        catalog = self if name == own else type(self)(load_backend(name, spark_conf=settings))  # type: ignore[call-arg]
        try:
            return catalog.load_table(rest).to_spark(spark)
        except NoSuchTableError as error:
            try:
                view = catalog.load_view(rest)
            except (NoSuchViewError, Unsupported):
                raise error from None
            return view._frame(spark, reading)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _namespace(given: Identifier) -> Parts:
    return identifier_parts(given) if isinstance(given, str) else tuple(given)


def _version(
    given: ViewVersion | None,
    sql: str | Mapping[str, str] | None,
    namespace: Identifier | None,
    catalog: str | None,
    parts: Parts,
) -> ViewVersion:
    """Return the new version that the arguments of `create_view` describe; its ids are assigned later."""
    if (given is None) == (sql is None):
        raise InvalidInput("Give either sql or view_version.", hint='As in sql="SELECT …", or sql={"spark": …, "trino": …}.')
    if given is not None:
        if not isinstance(given, ViewVersion):
            raise InvalidInput(f"view_version must be a ViewVersion, not {given!r:.200}.", hint='sql="SELECT …" is simpler.')
        if namespace is not None or catalog is not None:
            raise InvalidInput("view_version tells the default namespace and catalog itself.", hint="Give them there.")
        return given
    queries = {"spark": sql} if isinstance(sql, str) else dict(sql or {})
    for dialect, query in queries.items():
        if not isinstance(query, str) or not query.strip() or not dialect.strip():
            raise InvalidInput(f"The query of dialect {dialect!r} must be text, not {query!r:.200}.")
    return ViewVersion(
        version_id=1, schema_id=0, timestamp_ms=_now_ms(),
        representations=tuple(SQLViewRepresentation(query, dialect) for dialect, query in queries.items()),
        default_namespace=parts[:-1] if namespace is None else _namespace(namespace),
        default_catalog=catalog, summary={"engine-name": "frazil"},
    )  # fmt: skip
