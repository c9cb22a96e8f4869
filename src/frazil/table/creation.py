"""Creating or replacing a table together with its first rows, as one commit."""

from __future__ import annotations

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.commit.actions import ReplaceTable
from frazil.commit.apply import apply_updates
from frazil.commit.new_table import replacement
from frazil.commit.transaction import CommitOutcome, commit, create
from frazil.errors import CommitFailedException, TableAlreadyExistsError
from frazil.spec.metadata import TableMetadata
from frazil.table.table import Table
from frazil.table.transaction import Transaction, environment


class CreateTableTransaction(Transaction):
    """A transaction on a table that is not there yet, or that is replaced; after the block `tx.table` is the table."""

    def __init__(self, backend: CatalogBackend, parts: Parts, metadata: TableMetadata, base: LoadedTable | None, name: str):
        """Raises TableAlreadyExistsError, NoSuchNamespaceError for a new table that cannot be made."""
        self._backend, self._replaced = backend, base
        if base is None:
            loaded = backend.stage_create(parts, metadata)
        else:
            self._replacement = ReplaceTable(
                schema=metadata.schema(),
                spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                location=metadata.location,
                properties=metadata.properties,
            )
            given = self._replacement
            changes = replacement(base.metadata, given.schema, given.spec, given.sort_order, given.location, given.properties)
            loaded = LoadedTable(parts, base.metadata_location, apply_updates(base.metadata, changes), base.storage, base.config)
        super().__init__(Table(backend, loaded, name))

    def _commit(self) -> CommitOutcome:
        pending = self._pending
        if self._replaced is not None:
            actions = [self._replacement, *pending.actions]
            return commit(self._backend, self._replaced, actions, written=pending.written, environment=environment(pending.spark))
        try:
            return create(self._backend, self._base, pending.actions, written=pending.written, environment=environment(pending.spark))
        except CommitFailedException as e:
            if self._backend.table_exists(self._base.identifier):
                raise TableAlreadyExistsError(f"Table was created concurrently: {self.table._name}", table=self.table._name) from e
            raise

    @property
    def _known_columns(self) -> int:
        return self._replaced.metadata.last_column_id if self._replaced is not None else 0

    @property
    def _has_work(self) -> bool:
        return True
