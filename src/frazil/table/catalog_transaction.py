"""Begin transactions that concern the catalog: over several tables, all or none, and over a table
that is created with its first rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog import Identifier as Parts
from frazil.commit.actions import Action
from frazil.commit.done_once import txn_of
from frazil.errors import InvalidInput
from frazil.ops.changes import DataChange
from frazil.ops.creation import Creation
from frazil.ops.operation import CommitResult, TableOperation, commit_operations, naming
from frazil.spec.metadata import TableMetadata
from frazil.table import engines
from frazil.table.table import Table
from frazil.table.transaction import Transaction


class TransactionPart(Transaction[Table]):
    """Stage changes to one of the tables of a catalog's transaction. It has the methods of a
    table's own transaction.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the commit to the catalog's transaction."""

    def _run_write(self, change: DataChange, txn: tuple[str, int] | None = None) -> None:
        with self._naming():
            super()._run_write(change, txn)

    def _change(self, action: Callable[[TableMetadata], Action]) -> Self:
        with self._naming():
            return super()._change(action)

    def _naming(self) -> AbstractContextManager[None]:
        """Name this table in errors, since the block of the catalog's transaction cannot tell whose
        they are.
        """
        return naming(self.table._name, self.metadata.location)

    def commit_transaction(self) -> Table:
        """Raise InvalidInput, since the tables are committed together."""
        raise InvalidInput(
            f"The changes of {self.table._name} are committed with those of the other tables of the catalog's transaction.",
            hint="End the block of catalog.transaction(), or call commit_transaction() of it.",
            table=self.table._name,
        )


class CatalogTransaction:
    """Stage changes to several tables, and commit them together at the end of the block: `with
    catalog.transaction() as tx: tx.table("db.a").append(a); tx.table("db.b").delete("id = 1")`.

    Readers see all changes or none. Data files are written as each method is called. Conflicts are
    looked for in each table that is changed, as for a transaction of its own; tables that are only
    read are not checked. After an error nothing is committed, and the files that were written are
    removed.
    """

    def __init__(
        self,
        backend: CatalogBackend,
        parts_of: Callable[[str | Parts], Parts],
        load: Callable[[str | Parts], Table],
        txn: tuple[str, int] | None = None,
    ):
        """Begin a transaction. `parts_of`: the parts of a table's identifier; `load`: loads the
        table. Raises Unsupported where the catalog cannot commit to several tables at once."""
        backend.swap_together(())
        self._backend, self._parts_of, self._load, self._txn = backend, parts_of, load, txn_of(txn)
        self._tables: dict[Parts, TransactionPart] = {}
        self._ended = False

    def table(self, identifier: str | Parts) -> TransactionPart:
        """Return the part of a table, on which changes are staged. The table is loaded at the first
        call; conflicts are looked for from then on. Raises NoSuchTableError."""
        self._check_open()
        parts = self._parts_of(identifier)
        if parts not in self._tables:
            table = self._load(parts)
            self._tables[parts] = TransactionPart(table, table._begin(self._txn))
        return self._tables[parts]

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidInput(
                "This transaction has been committed or has failed already.",
                hint="Start a new one with catalog.transaction().",
            )

    @property
    def results(self) -> dict[str, CommitResult]:
        """Return the result of each table by its name; before the commit they are empty."""
        return {part.table._name: part.result for part in self._tables.values()}

    def __repr__(self) -> str:
        names = ", ".join(part.table._name for part in self._tables.values())
        return f"CatalogTransaction({self._backend.name}: {names or 'no table yet'}{', ended' if self._ended else ''})"

    def commit_transaction(self) -> dict[str, CommitResult]:
        """Commit the changes of all tables at once, and return `results`. The transaction cannot be
        used afterwards.

        Raises CommitFailedException and ValidationException when no table was changed,
        CommitStateUnknownException.
        """
        self._check_open()
        self._ended = True
        commit_operations(self._backend, self._operations)
        return self.results

    @property
    def _operations(self) -> list[TableOperation]:
        return [part._operation for part in self._tables.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._ended = True
            for operation in self._operations:
                operation.abandon(error)
        elif not self._ended:
            self.commit_transaction()


class CreateTableTransaction(Transaction[Table]):
    """Stage writes on a table that does not exist yet, or that is replaced. After the block
    `tx.table` is the new table.
    """

    def __init__(
        self,
        backend: CatalogBackend,
        parts: Parts,
        metadata: TableMetadata,
        base: LoadedTable | None,
        name: str,
    ):
        """Begin the transaction. `base`: the table to replace; None: the table is new.

        Raises TableAlreadyExistsError, NoSuchNamespaceError for a new table that cannot be created.
        """
        operation = Creation(backend, parts, metadata, base, name)
        table = Table(backend, operation.base, name)
        operation.on_commit, operation.engines = table._show, engines
        super().__init__(table, operation)
