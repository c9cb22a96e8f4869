"""Several changes to one table as one commit. Data files are written when a verb is called, metadata once, at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from frazil.commit.actions import Action
from frazil.commit.cherry_pick import CherryPick
from frazil.commit.done_once import txn_of
from frazil.errors import InvalidInput
from frazil.ops import metadata_changes
from frazil.ops.operation import TableOperation
from frazil.ops.result import CommitResult
from frazil.ops.target import WriteArguments
from frazil.rows.clauses import Merge
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import place_of
from frazil.table.evolve import Updating
from frazil.table.handle import TableHandle
from frazil.table.update_snapshot import UpdateSnapshot
from frazil.table.verbs import Stage, Verbs
from frazil.tasks.runner import Runner

T = TypeVar("T", bound=TableHandle)
U = TypeVar("U")


class Transaction(Verbs[None, "Transaction[Any]"], Generic[T]):
    """`with t.transaction() as tx: …` commits at the end of the block; an error in it commits nothing and removes what was written."""

    def __init__(self, table: T, operation: TableOperation | None = None, txn: tuple[str, int] | None = None):
        self.table = table
        self._operation = operation or (table if txn is None else table.refresh())._begin(txn_of(txn))

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata with this transaction's schema, spec and property changes."""
        return self._operation.metadata

    @property
    def table_metadata(self) -> TableMetadata:
        """The same, by PyIceberg's name."""
        return self.metadata

    @property
    def result(self) -> CommitResult:
        """What the commit has done; before it, nothing."""
        return self._operation.result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._operation.__exit__(kind, error, trace)

    def commit_transaction(self) -> T:
        """Makes all of it visible at once; afterwards the transaction cannot be used again."""
        self._operation.commit()
        return self.table

    def _apply(self, staged: Stage, txn: tuple[str, int] | None, *, again: bool | None = None) -> None:
        if txn is not None:
            raise InvalidInput(
                "txn= is given to one change of a transaction, all of which become visible at once.",
                hint="Give it to the transaction: t.transaction(txn=…).", table=self.table._name,
            )  # fmt: skip
        self._operation.run(staged)

    def _change(self, action: Callable[[TableMetadata], Action]) -> Self:
        self._operation.stage(action(self.metadata))
        return self

    def _updating(self, update: Callable[[TableMetadata], U]) -> Updating[U]:
        return Updating(self._operation, update(self.metadata), commit_at_end=False)

    # --- beside the verbs of a table

    def update_snapshot(self, snapshot_properties: Mapping[str, str] = {}, branch: str | None = MAIN_BRANCH) -> UpdateSnapshot:
        """A snapshot of data files that are there: `with tx.update_snapshot().fast_append() as files: files.append_data_file(f)`."""
        return UpdateSnapshot(self._operation, WriteArguments("append", branch, snapshot_properties))

    def do_merge(
        self,
        df: Any,
        merge: Merge,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> None:
        """A MERGE that has been described (`merge` gives the builder)."""
        arguments = WriteArguments("merge", branch, snapshot_properties, write_options, case_sensitive)
        self._merged(df, merge, arguments, mode, runner, spark)

    def update_location(self, location: str) -> Self:
        """Where new files go from now on; a relative path is from the current directory, and is stored absolute."""
        place = place_of(location)
        return self._change(lambda _: metadata_changes.set_location(place))

    def upgrade_table_version(self, format_version: int) -> Self:
        return self._change(lambda metadata: metadata_changes.upgrade(format_version, metadata))

    def cherrypick_snapshot(self, snapshot_id: int) -> Self:
        """Applies a staged (or other branch's) append or partition overwrite to main, as Java's cherrypick_snapshot does."""
        return self._change(lambda _: CherryPick(snapshot_id=snapshot_id))
