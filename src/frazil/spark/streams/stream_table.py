"""Describe a streaming read completely, so that it can be sent to a query's processes, which cannot
see the session: where the table is (its catalog with all properties, or its location), the options,
and the schema at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as s

from frazil.catalog import CatalogBackend, LoadedTable, load_backend
from frazil.catalog.path import LocationBackend, load_location
from frazil.errors import Unsupported
from frazil.spark.types.spark_types import contains, to_spark
from frazil.spec.schema import Schema
from frazil.spec.types import VariantType, children
from frazil.storage.locations import absolute, scheme_of
from frazil.stream.source.file_order import order_of
from frazil.stream.source.history import head_of
from frazil.stream.source.options import StreamOptions
from frazil.stream.source.plan_batch import TableState


@dataclass(frozen=True)
class StreamTable:
    """Name a table for other processes. `catalog`: None if the table is loaded by its location.
    `properties`: those of the catalog or of the storage; they may hold secrets, so no text shows
    them."""

    name: str
    catalog: str | None
    identifier: tuple[str, ...]
    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, backend: CatalogBackend | None, loaded: LoadedTable, name: str) -> StreamTable:
        """Describe a loaded table. A table opened by its metadata file (`backend` is None) has no
        newer state than the one in that file.

        Raises Unsupported for a table at a memory: location.
        """
        if scheme_of(loaded.metadata.location) == "memory":
            text = "A table in memory lives in this process, and the processes of a streaming query cannot see it."
            raise Unsupported(
                text,
                hint="Use a catalog of another type, or incremental_append_scan().",
                table=name,
            )
        if backend is None:
            return cls(name, None, (), absolute(name), dict(loaded.config))
        if isinstance(backend, LocationBackend):
            return cls(name, None, (), backend.location, dict(backend.properties))
        return cls(
            name,
            backend.name,
            tuple(loaded.identifier),
            loaded.metadata.location,
            dict(backend.properties),
        )

    def loader(self) -> Callable[[], LoadedTable]:
        """Return a function that loads the table's newest state."""
        if self.catalog is None:
            return lambda: load_location(self.location, dict(self.properties))[1]
        properties: dict[str, Any] = dict(self.properties)
        backend = load_backend(self.catalog, environ={}, **properties)
        return lambda: backend.load(self.identifier)


@dataclass(frozen=True)
class StreamSpec:
    """Hold what the processes of a query need. `schema`: the table's at the start of the query;
    `columns`: those of the rows that it reads; `parallelism`: the number of tasks that run at the
    same time, over which files are distributed."""

    table: StreamTable
    options: StreamOptions
    schema: Schema = field(repr=False)
    columns: Schema = field(repr=False)
    parallelism: int = 8

    @classmethod
    def of(
        cls, table: StreamTable, loaded: LoadedTable, options: StreamOptions, parallelism: int = 8
    ) -> StreamSpec:
        """Describe the read of a table in its present state. Raises InvalidInput for columns,
        filters and branches that do not fit the table, and Unsupported for columns that the Python
        data source cannot return."""
        schema = loaded.metadata.schema()
        order_of(options, schema)
        head_of(loaded.metadata, options.branch)
        state = TableState(loaded.metadata, loaded.storage, schema, options)
        state.check_filter()
        columns = state.projection()
        if refused := [
            f.name
            for f in columns.fields
            if any(contains(c.field_type, VariantType) for c in children(f.field_type))
        ]:
            text = f"Columns {', '.join(refused)} hold variants inside other types, which the Python data source cannot return."
            raise Unsupported(text, hint="Select other columns.")
        return cls(table, options, schema, columns, parallelism)

    def spark_schema(self, time: bool = True) -> s.StructType:
        """Return the Spark schema of the rows. `time`: whether the session has Spark's TIME type
        switched on.
        """
        return to_spark(self.columns, time=time)
