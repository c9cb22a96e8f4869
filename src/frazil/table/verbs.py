"""Define the methods that change a table, each with its signature once. On a Table each call is a
commit, in a Transaction it is staged. `TableHandle` holds the table that they change: transactions
and updates give it the state that their commit made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Self, TypeVar

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog.backend import reloaded
from frazil.commit.actions import Action
from frazil.commit.done_once import Txn, txn_of
from frazil.commit.evolve.evolve_spec import UpdateSortOrder, UpdateSpec
from frazil.commit.evolve.manage_snapshots import ManageSnapshots, UpdateStatistics
from frazil.commit.evolve.update_properties import UpdateProperties
from frazil.errors import InvalidInput, ValidationError, ValidationException
from frazil.expr.nodes import AlwaysTrue
from frazil.ops import metadata_changes
from frazil.ops.arguments import GivenFrame
from frazil.ops.changes import (
    AddFiles,
    AppendRows,
    DataChange,
    DeleteRows,
    MergeRows,
    OverwritePartitions,
    OverwriteRows,
    UpdateRows,
    UpsertRows,
)
from frazil.ops.engine import Frame
from frazil.ops.operation import CommitResult, TableOperation, writable
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.rows.clauses import Merge
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.table import engines
from frazil.table.engines import refresh_views
from frazil.table.evolve import UpdateSchema, Updating
from frazil.table.merge import MergeBuilder
from frazil.tasks.runner import Runner

R = TypeVar("R")
P = TypeVar("P")
U = TypeVar("U")


class Verbs(ABC, Generic[R, P]):
    """Change a table: write, delete, update and merge rows, set properties, evolve schema,
    partitioning and sort order.

    `R`: the result type of methods that write rows; `P`: that of methods that change properties.

    Arguments that several methods share:
    `branch`: the branch to write to; it is created from main if it does not exist. None stages the
    snapshot without moving a branch. `snapshot_properties`: added to the summary of the snapshot.
    `write_options`: see docs/options.md. `txn`: a name and a number, as in `("my-app", 17)`, that
    make a write idempotent. A write is committed once per name and number on a branch, however
    often and by whomever it is sent, even after its snapshot has expired or was rolled back;
    `CommitResult.skipped` tells that it was committed before. The numbers of a name must rise. The
    mark is the table property `frazil.txn.<name>@<branch>`.

    Methods that write rows raise InvalidInput for arguments that are wrong (SchemaMismatch for
    frames that do not fit the table), ValidationException for a conflict with another writer,
    CommitFailedException when a commit was not applied, and CommitStateUnknownException when it may
    have been.
    """

    @abstractmethod
    def _run_write(self, change: DataChange, txn: tuple[str, int] | None = None) -> R:
        """Run a change on an operation."""

    @abstractmethod
    def _change(self, action: Callable[[TableMetadata], Action]) -> P:
        """Apply a change of metadata alone."""

    @abstractmethod
    def _updating(self, update: Callable[[TableMetadata], U]) -> Updating[U]:
        """Begin an update that is made in several calls."""

    # --- rows of frames

    def append(
        self,
        df: GivenFrame,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Append the rows of a frame: Spark, Arrow, pandas, polars or any object with an Arrow
        stream.

        `case_sensitive`: how the frame's column names are matched; None: True, and for Spark frames
        `spark.sql.caseSensitive`.
        """
        return self._run_write(
            AppendRows(
                df,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
            ),
            txn,
        )

    def overwrite(
        self,
        df: GivenFrame,
        overwrite_filter: RowFilter = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Replace the rows for which the filter is TRUE (by default all rows) by the rows of a
        frame. The session of a Spark frame does the work, for other frames this process."""
        return self._run_write(
            OverwriteRows(
                df,
                overwrite_filter,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
            ),
            txn,
        )

    def dynamic_partition_overwrite(
        self,
        df: GivenFrame,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Replace the partitions that the frame has rows for. An empty frame changes nothing."""
        return self._run_write(
            OverwritePartitions(
                df,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
            ),
            txn,
        )

    def add_files(
        self,
        file_paths: Sequence[str],
        snapshot_properties: Mapping[str, str] = {},
        check_duplicate_files: bool = True,
        branch: str | None = MAIN_BRANCH,
        *,
        txn: tuple[str, int] | None = None,
    ) -> R:
        """Add existing Parquet files to the table at their present location. Only their footers are
        read.

        A file that the table has already is refused. With `check_duplicate_files=False` it is added
        again, and its rows are read twice; they can be changed once the table was overwritten with
        its own rows (docs/adr/0023).
        """
        return self._run_write(
            AddFiles(
                file_paths,
                not check_duplicate_files,
                branch=branch,
                snapshot_properties=snapshot_properties,
            ),
            txn,
        )

    # --- rows that are there

    def delete(
        self,
        delete_filter: RowFilter = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        where: RowFilter | None = None,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
        target_alias: str = "",
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Delete the rows for which the filter is TRUE (by default all rows). Files whose rows all
        match are removed without being read.

        `where`: another name for `delete_filter`, as in `update`. `mode`: copy-on-write or
        merge-on-read; None: the table's write.delete.mode. `runner`: "in-process" or a Runner;
        None: Spark if a session is given or active, else this process. `spark`: the session that
        does the work, whose settings then apply to the filter. The `spark.wap.…` and
        `spark.sql.iceberg.*` of the session that does the work apply also where it is merely
        active, as they do to SQL's DELETE. `target_alias`: a name, of one or more parts, by which a
        Column calls the table, as in `F.col("t.id") < 3`.
        """
        if where is not None and not isinstance(delete_filter, AlwaysTrue):
            raise InvalidInput(
                "delete takes one filter: delete_filter and where= are both given.",
                hint="Join them by AND.",
            )
        return self._run_write(
            DeleteRows(
                delete_filter if where is None else where,
                target_alias,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
                mode=mode,
                runner=runner,
                spark=spark,
            ),
            txn,
        )

    def update(
        self,
        set: Mapping[str, object],
        where: RowFilter | None = None,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
        target_alias: str = "",
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Set columns of the rows for which `where` is TRUE (None: all rows):
        `t.update(set={"qty": "qty + 1", "s.x": "null"}, where="id = 7")`.

        `set`: new values by column or struct member. Texts are Spark SQL expressions over the old
        row, other Python values are constants. Values are cast as Spark's ANSI store assignment
        does. `mode`: copy-on-write or merge-on-read; None: the table's write.update.mode. `runner`,
        `spark`, `target_alias`: as for `delete`.
        """
        return self._run_write(
            UpdateRows(
                set,
                where,
                target_alias,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
                mode=mode,
                runner=runner,
                spark=spark,
            ),
            txn,
        )

    def upsert(
        self,
        df: GivenFrame,
        join_cols: Sequence[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] = {},
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> R:
        """Update the rows whose keys the frame holds and whose columns differ, and insert its other
        rows, as one snapshot.

        `join_cols`: the key columns; None: the table's identifier fields. `mode`: copy-on-write or
        merge-on-read; None: the table's write.merge.mode. `runner`, `spark`: as for `delete`, but
        the settings of a session that is merely active do not apply to frames other than Spark's,
        as in `append`. Raises InvalidInput for a key that the frame holds more than once.
        """
        return self._run_write(
            UpsertRows(
                df,
                join_cols,
                when_matched_update_all,
                when_not_matched_insert_all,
                branch=branch,
                snapshot_properties=snapshot_properties,
                options=write_options,
                case_sensitive=case_sensitive,
                mode=mode,
                runner=runner,
                spark=spark,
            ),
            txn,
        )

    def merge(
        self,
        df: GivenFrame,
        on: RowFilter,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        target_alias: str = "target",
        source_alias: str = "source",
        runner: Runner | str | None = None,
        spark: Session | None = None,
        txn: tuple[str, int] | None = None,
        **write_options: object,
    ) -> MergeBuilder[R]:
        """Begin a MERGE of a frame into this table. Add clauses by `.when_…`, then run it as one
        snapshot by `.execute()`.

        `on`: the condition over `target.…` and `source.…`. `runner`, `spark`: as for `upsert`. The
        write option `merge_schema=True` adds the assigned columns that only the frame has, and widens
        the types of columns that are assigned the frame's column of their name.
        """

        def run(frame: Frame, merge: Merge, mode: str | None) -> R:
            return self._run_write(
                MergeRows(
                    frame,
                    merge,
                    branch=branch,
                    snapshot_properties=snapshot_properties,
                    options=write_options,
                    case_sensitive=case_sensitive,
                    mode=mode,
                    runner=runner,
                    spark=spark,
                ),
                txn,
            )

        return MergeBuilder(df, Merge(on, (), target_alias, source_alias), run)

    # --- metadata

    def set_properties(self, properties: Mapping[str, object] = {}, **named: object) -> P:
        """Set table properties, given as a mapping or as keyword arguments; values are stored as
        text. Raises InvalidInput for a value that a known property does not take."""
        return self._change(lambda _: metadata_changes.set_properties({**properties, **named}))

    def remove_properties(self, *keys: str) -> P:
        """Remove table properties; keys that are not set are ignored."""
        return self._change(lambda _: metadata_changes.remove_properties(keys))

    # Evolution: each method returns a context manager; on a Table each is one commit.

    def update_schema(
        self, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> Updating[UpdateSchema]:
        """Add, rename, move, change and delete columns: `with t.update_schema() as update:
        update.add_column("x", "bigint")`.

        `allow_incompatible_changes`: also allow changes that existing rows may not satisfy, such as
        making a column required.
        """
        return self._updating(
            lambda metadata: UpdateSchema(metadata, allow_incompatible_changes, case_sensitive)
        )

    def update_spec(self, case_sensitive: bool = True) -> Updating[UpdateSpec]:
        """Change the partitioning of new files: `with t.update_spec() as update:
        update.add_field("ts", "day")`.
        """
        return self._updating(lambda metadata: UpdateSpec(metadata, case_sensitive))

    def update_sort_order(self, case_sensitive: bool = True) -> Updating[UpdateSortOrder]:
        """Replace the sort order of new files: `with t.update_sort_order() as update:
        update.asc("id")`.
        """
        return self._updating(lambda metadata: UpdateSortOrder(metadata, case_sensitive))

    def update_properties(self) -> Updating[UpdateProperties]:
        """Set and remove table properties in one commit: `with t.update_properties() as update:
        update.set("k", "v").remove("old")`.
        """
        return self._updating(lambda _: UpdateProperties())

    def update_statistics(self) -> Updating[UpdateStatistics]:
        """Set and remove statistics files of snapshots."""
        return self._updating(lambda _: UpdateStatistics())

    def manage_snapshots(self) -> Updating[ManageSnapshots]:
        """Manage branches and tags, roll back, fast-forward and cherry-pick:
        `with t.manage_snapshots() as manage: manage.create_tag(snapshot_id, "v1")`."""
        return self._updating(lambda _: ManageSnapshots())


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
        earlier = self._loaded
        fresh = reloaded(self._writable(), earlier)
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
            self._backend,
            self._loaded,
            self._name,
            on_commit=self._show,
            txn=txn,
            engines=engines,
        )


class CommittingVerbs(TableHandle, Verbs[CommitResult, CommitResult]):
    """Change a table, with one commit per call."""

    def _run_write(self, change: DataChange, txn: tuple[str, int] | None = None) -> CommitResult:
        """Run a change and commit it.

        If a DELETE, UPDATE or MERGE matches no rows in the state that this handle holds, there is
        nothing to commit, and no commit would notice that the handle is stale. So the newest state
        is loaded then, and if it is another one, the change runs once more on it.

        With a txn the newest state is loaded first, so that a repeated write is recognised before
        anything is read or written.
        """
        if (once := txn_of(change.txn if txn is None else txn)) is not None:
            self.refresh()
            return self._committed(change, once)
        result = self._committed(change)
        before = self._loaded.metadata_location
        if (
            change.repeatable is None
            or result.snapshot_id is not None
            or self.refresh()._loaded.metadata_location == before
        ):
            return result
        if not change.repeatable:
            text = f"Table {self._name} has changed since it was loaded, and the stream of rows has been consumed."
            raise ValidationException(
                text, hint="The table is refreshed now: pass the rows again.", table=self._name
            )
        return self._committed(change)

    def _committed(self, change: DataChange, txn: Txn | None = None) -> CommitResult:
        with self._begin(txn) as operation:
            operation.run(change)
        return operation.result

    def _change(self, action: Callable[[TableMetadata], Action]) -> CommitResult:
        with self._begin() as operation:
            operation.stage(action(operation.metadata))
        return operation.result

    def _updating(self, update: Callable[[TableMetadata], U]) -> Updating[U]:
        operation = self._begin()
        return Updating(operation, update(operation.metadata))
