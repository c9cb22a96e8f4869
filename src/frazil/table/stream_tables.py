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
from frazil.table.create import schema_of
from frazil.table.table import Table

_ARGUMENTS = ("partition_by", "sort_by", "identifier_fields", "properties", "format_version")


@dataclass(frozen=True)
class StreamTables:
    """Implement `stream.sink.many_tables.TablePlaces` on a catalog. `namespace`: that of names
    without one. `arguments`: those of `create_table` for tables that are made. The functions are
    the catalog's own."""

    backend: CatalogBackend
    identifier: Callable[[str | Parts], Parts]
    name_of: Callable[[Parts], str]
    create_table: Callable[..., Table]
    create_namespace: Callable[[Parts], None]
    namespace: Parts = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, name: str) -> Parts:
        """Return the identifier that a row's text names. Raises InvalidInput where it names none."""
        if self.namespace and "." not in name and "`" not in name:
            return self.identifier((*self.namespace, name))
        return self.identifier(name)

    def full_name(self, parts: Parts) -> str:
        """Return the table's name for messages."""
        return self.name_of(parts)

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
        self.create_namespace(parts[:-1])
        return self.create_table(
            parts, schema_of(frame_or_schema), **(self.arguments if as_asked else {})
        )._loaded


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
