"""What a table in a user's hand is made of: the catalog that it came from, its state when it was last read, its name.

Table is one; transactions and updates hold one, and show it the state that their commit made.
"""

from __future__ import annotations

from typing import Self

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.done_once import Txn
from frazil.errors import ValidationError
from frazil.ops.operation import TableOperation, writable
from frazil.spec.metadata import TableMetadata
from frazil.table.engines import refresh_views


class TableHandle:
    """`_backend` None: the state of one metadata file, read-only. `_loaded` changes as a whole, so that threads may share a handle."""

    def __init__(self, backend: CatalogBackend | None, loaded: LoadedTable, name: str):
        self._backend, self._loaded, self._name = backend, loaded, name

    @property
    def metadata(self) -> TableMetadata:
        return self._loaded.metadata

    def refresh(self) -> Self:
        """Looks for commits of others. Raises NoSuchTableError when it was dropped, ValidationError when another took its name."""
        fresh = self._writable().load(self._loaded.identifier or (self.metadata.location,))
        if fresh.metadata.table_uuid != self.metadata.table_uuid:
            raise ValidationError(
                f"Table {self._name} was dropped and made anew: its uuid was {self.metadata.table_uuid}, is {fresh.metadata.table_uuid}.",
                hint="Load it again.", table=self._name,
            )  # fmt: skip
        self._loaded = fresh
        return self

    def _writable(self) -> CatalogBackend:
        return writable(self._backend, self._name)

    def _show(self, loaded: LoadedTable) -> None:
        self._loaded = loaded
        refresh_views(loaded)

    def _begin(self, txn: Txn | None = None) -> TableOperation:
        """An operation on the table as this handle has it."""
        return TableOperation(self._backend, self._loaded, self._name, on_commit=self._show, txn=txn)
