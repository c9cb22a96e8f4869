"""Commit several changes to one table together. Data files are written as each method is called,
metadata once, at the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Generic, Self, TypeVar

from frazil.commit.actions import Action
from frazil.commit.cherry_pick import CherryPick
from frazil.commit.done_once import txn_of
from frazil.errors import InvalidInput
from frazil.ops import metadata_changes
from frazil.ops.arguments import GivenFrame
from frazil.ops.changes import DataChange, MergeRows
from frazil.ops.operation import CommitResult, TableOperation
from frazil.ops.session import Session
from frazil.ops.target import WriteArguments
from frazil.rows.clauses import Merge
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import place_of
from frazil.table.evolve import UpdateSnapshot, Updating
from frazil.table.verbs import TableHandle, Verbs
from frazil.tasks.runner import Runner

T = TypeVar("T", bound=TableHandle)
U = TypeVar("U")


class Transaction(Verbs[None, "Transaction[T]"], Generic[T]):
    """Stage changes to a table, and commit them together at the end of the block: `with
    t.transaction() as tx: …`. After an error nothing is committed, and the files that were written
    are removed."""

    def __init__(
        self, table: T, operation: TableOperation | None = None, txn: tuple[str, int] | None = None
    ):
        self.table = table
        self._operation = operation or (table if txn is None else table.refresh())._begin(
            txn_of(txn)
        )
        self._operation.plans_anew = False

    @property
    def metadata(self) -> TableMetadata:
        """Return the table's metadata with this transaction's changes of schema, specs and
        properties.
        """
        return self._operation.metadata

    @property
    def table_metadata(self) -> TableMetadata:
        """Return `metadata`, by the name that PyIceberg gives it."""
        return self.metadata

    @property
    def result(self) -> CommitResult:
        """Return the result of the commit; before the commit it is empty."""
        return self._operation.result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._operation.__exit__(kind, error, trace)

    def commit_transaction(self) -> T:
        """Commit all staged changes together, and return the table. The transaction cannot be used
        afterwards.

        Raises CommitFailedException, ValidationException, CommitStateUnknownException.
        """
        self._operation.commit()
        return self.table

    def _run_write(self, change: DataChange, txn: tuple[str, int] | None = None) -> None:
        if txn is not None or change.txn is not None:
            raise InvalidInput(
                "txn= belongs to the whole transaction, not to one of its writes: they are committed together.",
                hint="Use t.transaction(txn=…).",
                table=self.table._name,
            )
        self._operation.run(change)

    def _change(self, action: Callable[[TableMetadata], Action]) -> Self:
        self._operation.stage(action(self.metadata))
        return self

    def _updating(self, update: Callable[[TableMetadata], U]) -> Updating[U]:
        return Updating(self._operation, update(self.metadata), commit_at_end=False)

    # --- methods that a table does not have

    def update_snapshot(
        self, snapshot_properties: Mapping[str, str] = {}, branch: str | None = MAIN_BRANCH
    ) -> UpdateSnapshot:
        """Add and remove existing data files by their entries:
        `with tx.update_snapshot().fast_append() as files: files.append_data_file(f)`."""
        return UpdateSnapshot(
            self._operation, WriteArguments("append", branch, snapshot_properties)
        )

    def do_merge(
        self,
        df: GivenFrame,
        merge: Merge,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
        **write_options: object,
    ) -> None:
        """Stage a MERGE given as an object; `merge` returns the builder for it."""
        self._run_write(
            MergeRows(
                df,
                merge,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
                mode=mode,
                runner=runner,
                spark=spark,
            )
        )

    def update_location(self, location: str) -> Self:
        """Set the table's location, below which new files are written. A relative path is taken
        from the current directory and made absolute. Existing files stay where they are."""
        place = place_of(location)
        return self._change(lambda _: metadata_changes.set_location(place))

    def upgrade_table_version(self, format_version: int) -> Self:
        """Upgrade the table to a newer format version (2 or 3), when the transaction commits.
        Raises ValidationError for an older or unknown version."""
        return self._change(lambda metadata: metadata_changes.upgrade(format_version, metadata))

    def cherrypick_snapshot(self, snapshot_id: int) -> Self:
        """Apply an append or partition overwrite that was staged, or made on another branch, to
        main (Java's cherrypick_snapshot).
        """
        return self._change(lambda _: CherryPick(snapshot_id=snapshot_id))
