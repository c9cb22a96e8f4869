"""A table in a catalog, and writes to it, made by the room itself, without the user's classes."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.ops.changes import AppendRows
from frazil.ops.operation import TableOperation
from tests.builders.frames import frame_of

PARTS = ("db", "t")


@dataclass(frozen=True)
class Place:
    """A catalog with a table in it."""

    backend: CatalogBackend
    name: str = "mem.db.t"

    def load(self) -> LoadedTable:
        return self.backend.load(PARTS)

    def operation(self, **named: object) -> TableOperation:
        return TableOperation(self.backend, self.load(), self.name, **named)  # type: ignore[arg-type]

    def files(self) -> set[str]:
        loaded = self.load()
        return {found.location for found in loaded.storage.list(loaded.metadata.location)}


def appended(*ids: int, branch: str | None = "main") -> AppendRows:
    """A change that appends rows with these ids."""
    return AppendRows(frame_of([(n, "p", n) for n in ids]), branch=branch)
