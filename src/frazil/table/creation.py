"""Creating or replacing a table together with its first rows, as one commit."""

from __future__ import annotations

from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.commit.actions import Action, CreateTable, ReplaceTable
from frazil.commit.commit import commit
from frazil.errors import CommitFailedException, TableAlreadyExistsError
from frazil.spec.metadata import TableMetadata
from frazil.storage import storage_for
from frazil.table.result import result_of
from frazil.table.table import Table
from frazil.table.transaction import Transaction


class CreateTableTransaction(Transaction):
    """A transaction on a table that is not there yet, or that is replaced; after the block `tx.table` is the table."""

    def __init__(self, backend: CatalogBackend, parts: Parts, metadata: TableMetadata, base: LoadedTable | None, name: str):
        self._first: Action = CreateTable(metadata) if base is None else ReplaceTable(metadata)
        staged = metadata if base is None else self._replaced(base.metadata)
        storage = base.storage if base else storage_for(metadata.location, backend.properties)
        loaded = LoadedTable(parts, base.metadata_location if base else "", staged, storage, dict(backend.properties))
        super().__init__(Table(backend, loaded, name))
        self._real_base, self._backend, self._parts, self._full_name = base, backend, parts, name

    def _replaced(self, metadata: TableMetadata) -> TableMetadata:
        from_actions: Any = self._first
        return from_actions.preview(metadata)  # type: ignore[no-any-return]

    def commit_transaction(self) -> Table:
        self._open()
        self._done = True
        pending = self._pending
        base: Any = self._real_base if self._real_base is not None else self._parts
        try:
            outcome = commit(self._backend, base, [self._first, *pending.actions], written=pending.written)
        except CommitFailedException as e:
            if self._real_base is None and self._backend.table_exists(self._parts):
                raise TableAlreadyExistsError(f"Table was created concurrently: {self._full_name}", table=self._full_name) from e
            raise
        self.table._loaded = outcome.table
        self.result = result_of(
            outcome.snapshot, attempts=outcome.attempts, seconds_writing=pending.seconds, seconds_committing=outcome.seconds
        )
        return self.table
