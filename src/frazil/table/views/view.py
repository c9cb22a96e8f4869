"""Provide View: a stored query with its schema, versions and properties (PyIceberg's View)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from frazil.catalog.base import LoadedView
from frazil.catalog.names import full_name
from frazil.errors import Unsupported
from frazil.ops.engine import Frame, ViewQuery
from frazil.ops.session import Session
from frazil.spec.fact_tree import html_of, text_of
from frazil.spec.schema import Schema
from frazil.spec.view import SQLViewRepresentation, ViewHistoryEntry, ViewMetadata, ViewVersion
from frazil.table import engines
from frazil.table.shown import overview

Resolver = Callable[
    [Session | None, ViewVersion, tuple[str, ...], tuple[str, ...]], Frame | tuple[str, ...]
]
"""Return the rows of a table that a version's query names, in a session; the last argument holds
the views that are being read.
"""
_QUERY_COLUMNS = (
    "spark.query-column-names"  # under this property Java keeps how the query's columns were called
)


@dataclass(frozen=True)
class View:
    """Show one Iceberg view as it was when it was loaded. `catalog.load_view` and
    `catalog.create_view` make it.
    """

    _loaded: LoadedView = field(repr=False)
    _full_name: str
    _resolver: Resolver = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return text_of(overview.view_tree(self._full_name, self.metadata))

    def _repr_html_(self) -> str:
        return html_of(overview.view_tree(self._full_name, self.metadata))

    def name(self) -> tuple[str, ...]:
        """Return the identifier of the view."""
        return self._loaded.identifier

    @property
    def metadata(self) -> ViewMetadata:
        """Return the metadata of the view, as it was loaded."""
        return self._loaded.metadata

    @property
    def metadata_location(self) -> str:
        """Return the location of the metadata file; empty where there is none."""
        return self._loaded.metadata_location

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties, as a copy."""
        return dict(self.metadata.properties)

    @property
    def versions(self) -> list[ViewVersion]:
        """Return the versions that are kept, oldest first."""
        return list(self.metadata.versions)

    def location(self) -> str:
        """Return the location of the view's directory."""
        return self.metadata.location

    def uuid(self) -> uuid.UUID:
        """Return the UUID of the view."""
        return uuid.UUID(self.metadata.view_uuid)

    def schema(self) -> Schema:
        """Return the schema of the current version."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Return all schemas by id."""
        return {s.schema_id: s for s in self.metadata.schemas}

    def current_version(self) -> ViewVersion:
        """Return the current version."""
        return self.metadata.current_version()

    def version(self, version_id: int) -> ViewVersion | None:
        """Return the version of that id; None: there is none."""
        return next((v for v in self.metadata.versions if v.version_id == version_id), None)

    def history(self) -> list[ViewHistoryEntry]:
        """Return which version became the current one when, oldest first."""
        return list(self.metadata.version_log)

    def sql_for(self, dialect: str) -> SQLViewRepresentation | None:
        """Return the current query in a dialect of SQL (`spark`, `trino`, …); None: the view has
        none in it.
        """
        return self.current_version().queries.get(dialect.lower())

    def to_spark(self, spark: Session | None = None) -> Frame:
        """Return the view's rows as a Spark DataFrame: its query in Spark's dialect, run now. Names
        in it that tell no catalog or namespace are those of the view's default catalog and
        namespace; tables and views of Frazil's catalogs are read by Frazil.

        Raises Unsupported where the view has no query for Spark, and on Spark Connect;
        SchemaMismatch where the query's columns no longer fit the view's schema.
        """
        return self._frame(spark, ())

    def _frame(self, spark: Session | None, reading: tuple[str, ...]) -> Frame:
        version, query = self.current_version(), self.sql_for("spark")
        if query is None:
            dialects = ", ".join(sorted(version.queries)) or "no dialect"
            text = f"View {self._full_name} has its query in {dialects}, not for Spark."
            hint = f"Frazil runs Spark's dialect only: catalog.replace_view({full_name(self.name())!r}, …) adds a query for it."
            raise Unsupported(text, hint=hint, view=self._full_name)
        if self._full_name in reading:
            raise Unsupported(
                f"View {self._full_name} reads itself: {' > '.join((*reading, self._full_name))}.",
                view=self._full_name,
            )
        names = [n for n in self.properties.get(_QUERY_COLUMNS, "").split(",") if n]

        def resolve(parts: tuple[str, ...]) -> Frame | tuple[str, ...]:
            return self._resolver(spark, version, parts, (*reading, self._full_name))

        view_query = ViewQuery(self._full_name, query.sql, self.schema(), names, resolve)
        return engines.spark_entry_points().view_rows(engines.session_of_frames(spark), view_query)
