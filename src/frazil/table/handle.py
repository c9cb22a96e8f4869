"""Hold a loaded table: its catalog, its state when it was last read, and its name.

Table is a handle; transactions and updates hold one, and give it the state that their commit made.
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
    """Hold a loaded table and begin operations on it. `_backend` None: the table was opened from a
    metadata file and is read-only.

    A refresh or commit replaces `_loaded` as a whole, so that threads may share a handle.
    """

    def __init__(self, backend: CatalogBackend | None, loaded: LoadedTable, name: str):
        self._backend, self._loaded, self._name = backend, loaded, name

    @property
    def metadata(self) -> TableMetadata:
        """Return the metadata of the state that was loaded, or committed last by this object."""
        return self._loaded.metadata

    def refresh(self) -> Self:
        """Load the newest state of the table, with the commits of other writers. Raises
        NoSuchTableError when the table was dropped, ValidationError when another table has taken
        its name or when this one is read-only."""
        fresh = self._writable().load(self._loaded.identifier or (self.metadata.location,))
        if fresh.metadata.table_uuid != self.metadata.table_uuid:
            raise ValidationError(
                f"Table {self._name} was dropped and created again: its uuid was {self.metadata.table_uuid} and is now "
                f"{fresh.metadata.table_uuid}.",
                hint="Load it again.",
                table=self._name,
            )
        self._loaded = fresh
        return self

    def _writable(self) -> CatalogBackend:
        return writable(self._backend, self._name)

    def _show(self, loaded: LoadedTable) -> None:
        """Take over the state after a commit, and show it to the temporary views of running Spark
        sessions.
        """
        self._loaded = loaded
        refresh_views(loaded)

    def _begin(self, txn: Txn | None = None) -> TableOperation:
        """Begin an operation on the state of the table that this handle holds."""
        return TableOperation(
            self._backend, self._loaded, self._name, on_commit=self._show, txn=txn
        )
