"""A transaction on a table that it creates or replaces together with its first rows, as one commit."""

from __future__ import annotations

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.ops.creation import Creation
from frazil.spec.metadata import TableMetadata
from frazil.table.table import Table
from frazil.table.transaction import Transaction


class CreateTableTransaction(Transaction[Table]):
    """A transaction on a table that is not there yet, or that is replaced; after the block `tx.table` is the table."""

    def __init__(self, backend: CatalogBackend, parts: Parts, metadata: TableMetadata, base: LoadedTable | None, name: str):
        """Raises TableAlreadyExistsError, NoSuchNamespaceError for a new table that cannot be made."""
        operation = Creation(backend, parts, metadata, base, name)
        table = Table(backend, operation.base, name)
        operation.on_commit = table._show
        super().__init__(table, operation)
