"""Find and make the tables that the rows of a stream name (`Catalog.write_stream`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.errors import InvalidInput
from frazil.ops.engine import Frame
from frazil.ops.table_definition import GivenSchema, defining_columns, table_metadata
from frazil.stream.sink.arguments import ManyTables
from frazil.stream.sink.many_tables import TablesResult
from frazil.table.catalog import Catalog
from frazil.table.create import schema_of

_ARGUMENTS = ("partition_by", "sort_by", "identifier_fields", "properties", "format_version")


@dataclass(frozen=True)
class StreamTables:
    """Implement `stream.sink.many_tables.TablePlaces` on a catalog. `namespace`: that of names
    without one. `arguments`: those of `create_table` for tables that are made."""

    catalog: Catalog
    namespace: Parts = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def backend(self) -> CatalogBackend:
        """Return the catalog's back end."""
        return self.catalog._backend

    def parts(self, name: str) -> Parts:
        """Return the identifier that a row's text names. Raises InvalidInput where it names none."""
        if self.namespace and "." not in name and "`" not in name:
            return self.catalog._parts((*self.namespace, name))
        return self.catalog._parts(name)

    def full_name(self, parts: Parts) -> str:
        """Return the table's name for messages."""
        return self.catalog._full_name(parts)

    def needed(self, frame: Frame) -> frozenset[str]:
        """Return the columns of a frame without which a new table cannot be made: sources of its
        partitions and of its sort order.
        """
        if not self.arguments:
            return frozenset()
        arguments = {"properties": {}, **self.arguments}
        return defining_columns(
            table_metadata("memory:needed", schema_of(frame), None, None, **arguments)
        )

    def create(self, parts: Parts, frame_or_schema: GivenSchema, as_asked: bool) -> LoadedTable:
        """Make a table, and its namespace. `as_asked`: with the caller's own arguments. Raises
        TableAlreadyExistsError.
        """
        self.catalog.create_namespace_if_not_exists(parts[:-1])
        return self.catalog.create_table(
            parts, schema_of(frame_or_schema), **(self.arguments if as_asked else {})
        )._loaded


def many_tables(
    catalog: Catalog,
    table_column: str,
    create: bool | Mapping[str, Any],
    evolve: bool,
    namespace: Parts,
    on_bad_table: str,
    set_aside_table: str | None,
    on_commit: Callable[[int, TablesResult], object] | None,
) -> ManyTables:
    """Check the arguments of `Catalog.write_stream` and describe where its rows go. Raises
    InvalidInput.
    """
    return ManyTables(
        StreamTables(catalog, namespace, creation_arguments(create)),
        table_column,
        create is not False,
        evolve,
        on_bad_table,
        set_aside_table,
        on_commit,
    )


def creation_arguments(create: bool | Mapping[str, Any]) -> Mapping[str, Any]:
    """Check the argument `create` of a stream into many tables: whether tables are made, or how.
    Raises InvalidInput.
    """
    if isinstance(create, bool):
        return {}
    if not isinstance(create, Mapping):
        raise InvalidInput(
            f"create is True, False or a mapping with arguments of create_table, not {create!r}."
        )
    if unknown := [str(k) for k in create if k not in _ARGUMENTS]:
        raise InvalidInput(
            f"create: {unknown[0]} is not for tables of a stream.",
            hint=f"There are {', '.join(_ARGUMENTS)}.",
        )
    return dict(create)
