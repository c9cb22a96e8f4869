"""Create or replace a table together with its first rows, in one transaction."""

from __future__ import annotations

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.ops.creation import Creation
from frazil.spec.metadata import TableMetadata
from frazil.table.table import Table
from frazil.table.transaction import Transaction


class CreateTableTransaction(Transaction[Table]):
    """Stage writes on a table that does not exist yet, or that is replaced. After the block `tx.table` is the new table."""

    def __init__(self, backend: CatalogBackend, parts: Parts, metadata: TableMetadata, base: LoadedTable | None, name: str):
        """Begin the transaction. `base`: the table to replace; None: the table is new.

        Raises TableAlreadyExistsError, NoSuchNamespaceError for a new table that cannot be created.
        """
        operation = Creation(backend, parts, metadata, base, name)
        table = Table(backend, operation.base, name)
        operation.on_commit = table._show
        super().__init__(table, operation)
