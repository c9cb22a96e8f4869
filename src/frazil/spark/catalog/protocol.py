"""Define what the objects of Spark's catalog interfaces ask of the room above: each call could have
been typed in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as s

from frazil.catalog import CatalogBackend
from frazil.maintain.procedures import Procedure
from frazil.ops.insert import Insertion
from frazil.ops.table_definition import TableChange

Parts = tuple[str, ...]
"""The namespace and name of a table, or a namespace, within its catalog."""


@dataclass(frozen=True)
class TableDefinition:
    """Describe a table to create. `schema`: comments and defaults are in the metadata of its
    fields; `partition_by`: transforms as text, as in `days(ts)`; `properties`: as Spark passes
    them, `provider`, `location`, `comment` and `owner` included."""

    schema: s.StructType
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewDefinition:
    """Describe a view. `text`: its query; `columns`: Spark's, with comments; `query_columns`: how
    the query's own columns are called; `catalog` and `namespace`: those of names in the query that
    tell none; `properties`: the comment included; `schema_mode`: Spark's word for what becomes of
    the view where the columns of its tables change."""

    text: str
    columns: s.StructType
    query_columns: Sequence[str] = ()
    catalog: str | None = None
    namespace: Parts = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    schema_mode: str | None = None


class Staged(Protocol):
    """Hold a table that is created or replaced together with its rows, as one commit."""

    def insert(self, insertion: Insertion) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Calls(Protocol):
    """Answer for one catalog. Names are parts within the catalog. Errors are those of
    `frazil.errors`.
    """

    name: str
    prefix: Parts

    @property
    def backend(self) -> CatalogBackend: ...

    # --- tables

    def list_tables(self, namespace: Parts) -> Iterable[Parts]: ...

    def create_table(self, parts: Parts, definition: TableDefinition) -> None: ...

    def stage_table(
        self, parts: Parts, definition: TableDefinition, *, replace: bool, create: bool
    ) -> Staged: ...

    def alter_table(self, parts: Parts, changes: Sequence[TableChange]) -> None: ...

    def truncate(self, parts: Parts) -> None: ...

    def drop_table(self, parts: Parts, purge: bool) -> None: ...

    def rename_table(self, parts: Parts, to: Parts) -> None: ...

    def insert(self, parts: Parts, insertion: Insertion, branch: str | None) -> None: ...

    # --- views

    def list_views(self, namespace: Parts) -> Iterable[Parts]: ...

    def load_view(self, parts: Parts, to_read: bool) -> ViewDefinition: ...

    def view_exists(self, parts: Parts) -> bool: ...

    def create_view(self, parts: Parts, definition: ViewDefinition) -> None: ...

    def replace_view(self, parts: Parts, definition: ViewDefinition, create: bool) -> None: ...

    def alter_view(
        self, parts: Parts, removals: Iterable[str], updates: Mapping[str, str]
    ) -> None: ...

    def drop_view(self, parts: Parts) -> None: ...

    def rename_view(self, parts: Parts, to: Parts) -> None: ...

    # --- procedures

    def call(self, procedure: Procedure, arguments: Mapping[str, Any]) -> pa.Table: ...

    # --- namespaces

    def list_namespaces(self, parent: Parts) -> Iterable[Parts]: ...

    def namespace_exists(self, namespace: Parts) -> bool: ...

    def namespace_properties(self, namespace: Parts) -> Mapping[str, str]: ...

    def create_namespace(self, namespace: Parts, properties: Mapping[str, str]) -> None: ...

    def alter_namespace(
        self, namespace: Parts, removals: Sequence[str], updates: Mapping[str, str]
    ) -> None: ...

    def drop_namespace(self, namespace: Parts, cascade: bool) -> None: ...
