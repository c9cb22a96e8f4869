"""Several changes to one table as one commit. Data files are written when a verb is called, metadata once, at the end."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frazil.arrow.write.write_options import Verb
from frazil.arrow.write.write_options import write_options as options_of
from frazil.commit.actions import Action, MetadataChange
from frazil.commit.apply import apply_updates
from frazil.commit.cherry_pick import CherryPick
from frazil.commit.cleanup import remove
from frazil.commit.evolve.evolve_sort_order import UpdateSortOrder
from frazil.commit.evolve.evolve_spec import UpdateSpec
from frazil.commit.transaction import CommitOutcome, commit
from frazil.errors import CommitStateUnknownException, FrazilError, InvalidInput
from frazil.expr.nodes import AlwaysTrue
from frazil.rows.clauses import Merge
from frazil.rows.upsert import upsert_of
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import property_text
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.updates import RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion
from frazil.storage import Storage, absolute, place_of
from frazil.table import rows, write
from frazil.table.arguments import flag, mapping
from frazil.table.evolve import ManageSnapshots, UpdateProperties, UpdateSchema, UpdateStatistics, Updating
from frazil.table.frames import active_session, after_commit, is_spark_column, is_spark_frame, running, spark_room
from frazil.table.merge import MergeBuilder, stage_merge
from frazil.table.naming import naming
from frazil.table.preview import Preview
from frazil.table.result import NOTHING, CommitResult, result_of
from frazil.table.step import Step, meanings, runner_for
from frazil.tasks.runner import Runner

if TYPE_CHECKING:
    from frazil.table.table import Table


@dataclass
class _Pending:
    """What has been staged: actions in order, files on disk, seconds spent writing them, counts of rows, the session that wrote."""

    actions: list[Action] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    seconds: float = 0.0
    spark: Any = None
    metrics: dict[str, int] = field(default_factory=dict)
    preview: Preview | None = None

    def look(self, base: TableMetadata, storage: Storage) -> Preview:
        self.preview = self.preview or Preview(base, storage)
        return self.preview


class Transaction:
    """`with t.transaction() as tx: …` commits at the end of the block; an error in it commits nothing and removes what was written."""

    def __init__(self, table: Table):
        self.table = table
        self._base = table._loaded
        self._metadata = self._base.metadata
        self._pending = _Pending()
        self._done = False
        self.result = CommitResult(None, None, {}, dict(NOTHING))

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata with this transaction's schema, spec and property changes."""
        return self._metadata

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FrazilError):
            error.of_table(self.table._name, self._base.metadata.location)
        if error is None:
            self.commit_transaction()
        elif not self._done:
            self._done = True
            if not isinstance(error, CommitStateUnknownException):
                remove(self._base.storage, self._pending.written, "a transaction that failed")
            self._end()

    def commit_transaction(self) -> Table:
        """Makes all of it visible at once; afterwards the transaction cannot be used again."""
        self._open()
        self._done = True
        if self._has_work:
            try:
                with naming(self.table._name, self._base.metadata.location):
                    outcome = self._commit()
            finally:
                self._end()
            self.table._loaded = outcome.table
            self.result = result_of(
                outcome.snapshots, attempts=outcome.attempts, seconds_writing=self._pending.seconds, seconds_committing=outcome.seconds,
                metrics=self._pending.metrics,
            )  # fmt: skip
            after_commit(outcome.table)
        return self.table

    def _end(self) -> None:
        if self._pending.preview is not None:
            self._pending.preview.remove()

    def _commit(self) -> CommitOutcome:
        pending = self._pending
        return commit(self.table._writable(), self._base, pending.actions, written=pending.written, environment=environment(pending.spark))

    @property
    def _has_work(self) -> bool:
        return bool(self._pending.actions)

    def _open(self) -> None:
        if self._done:
            raise InvalidInput("This transaction has been committed or has failed already.", hint="Start a new one with t.transaction().")

    def _stage(self, *actions: Action) -> Transaction:
        self._open()
        for action in actions:
            if isinstance(action, MetadataChange):  # later steps see the new schema, spec and properties
                self._metadata = apply_updates(self._metadata, action.build(self._metadata))
            self._pending.actions.append(action)
        return self

    def _staged(self, staged: write.StagedWrite) -> None:
        self._pending.written += staged.written
        self._pending.seconds += staged.seconds
        for name, count in staged.metrics.items():
            self._pending.metrics[name] = self._pending.metrics.get(name, 0) + count
        self._stage(*staged.actions)

    def _target(
        self,
        verb: Verb,
        branch: str | None,
        snapshot_properties: Mapping[str, str],
        options: Mapping[str, Any],
        case_sensitive: bool | None = None,
        frame: Any = None,
        spark: Any = None,
    ) -> write.WriteTarget:
        self._open()
        spark = frame.sparkSession if is_spark_frame(frame) else spark
        if spark is not None:
            running(spark)
            self._pending.spark = spark
        session = spark_room("host.session_conf").write_defaults(spark) if spark is not None else {}
        self.table._writable()
        asked = options_of(options, verb, session)
        found = write.target(self._metadata, branch, snapshot_properties, asked, verb, spark or self._pending.spark)
        return replace(found, known_columns=self._known_columns, case_sensitive=flag("case_sensitive", case_sensitive))

    def _row_step(
        self, verb: Verb, branch: str | None, snapshot_properties: Mapping[str, str], options: Mapping[str, Any],
        case_sensitive: bool | None, runner: Runner | str | None, spark: Any, frame: Any = None, words: Iterable[Any] = (),
    ) -> Step:  # fmt: skip
        """A row-level step on what this transaction has staged so far; conflicts with others count from the snapshot that was loaded.
        `words`: conditions and values; a Column among them is about the running session."""
        self._open()
        if frame is not None and is_spark_frame(frame):
            spark = spark or frame.sparkSession
        if any(is_spark_column(w) for w in words):
            spark = spark or active_session()
        base, storage = self._base.metadata, self._base.storage
        named = spark is not None or runner is not None
        runner, session = runner_for(self._metadata, storage, runner, spark)
        to = self._target(verb, branch, snapshot_properties, options, case_sensitive, frame, session)
        look = self._pending.look(base, storage)
        now = look.metadata(self._pending.actions)
        meant = meanings(session if named else None, case_sensitive)
        return Step(now, storage, to, runner, write.start_of(base, to), look.snapshot_ids, session, **meant)

    @property
    def _known_columns(self) -> int:
        return self._base.metadata.last_column_id

    # --- data

    def append(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        **write_options: Any,
    ) -> None:
        to = self._target("append", branch, snapshot_properties, write_options, case_sensitive, df)
        self._staged(write.stage_append(df, self._metadata, self._base.storage, to))

    def overwrite(
        self,
        df: Any,
        overwrite_filter: Any = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        **write_options: Any,
    ) -> None:
        self._open()
        if options_of(write_options).overwrite_mode == "dynamic":
            if not isinstance(overwrite_filter, AlwaysTrue):
                raise InvalidInput("overwrite-mode=dynamic replaces partitions and takes no filter.")
            self.dynamic_partition_overwrite(df, snapshot_properties, branch, case_sensitive=case_sensitive, **write_options)
            return
        runner = "in-process" if isinstance(overwrite_filter, AlwaysTrue) else None  # then there is nothing to read
        words = [overwrite_filter]
        step = self._row_step("overwrite", branch, snapshot_properties, write_options, case_sensitive, runner, None, df, words)
        self._staged(rows.stage_overwrite(step, df, overwrite_filter))

    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] = {},
        branch: str | None = MAIN_BRANCH,
        *,
        case_sensitive: bool | None = None,
        **write_options: Any,
    ) -> None:
        to = self._target("dynamic_partition_overwrite", branch, snapshot_properties, write_options, case_sensitive, df)
        self._staged(write.stage_replace_partitions(df, self._metadata, self._base.storage, to))

    def add_files(
        self,
        file_paths: Sequence[str],
        snapshot_properties: Mapping[str, str] = {},
        check_duplicate_files: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if isinstance(file_paths, str):
            raise InvalidInput(f"add_files takes a list of paths, not one text: [{file_paths!r}].")
        to = self._target("append", branch, snapshot_properties, {})
        paths = [absolute(os.fspath(p)) for p in file_paths]
        self._staged(write.stage_add_files(paths, self._metadata, self._base.storage, to, check_duplicate_files))

    def delete(
        self,
        delete_filter: Any = AlwaysTrue(),
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> None:
        words = [delete_filter]
        step = self._row_step("delete", branch, snapshot_properties, write_options, case_sensitive, runner, spark, None, words)
        self._staged(rows.stage_delete(step, delete_filter, mode))

    def update(
        self,
        set: Mapping[str, Any],
        where: Any = None,
        snapshot_properties: Mapping[str, str] = {},
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> None:
        set = mapping("set", set)
        words = [where, *set.values()]
        step = self._row_step("update", branch, snapshot_properties, write_options, case_sensitive, runner, spark, None, words)
        self._staged(rows.stage_update(step, set, where, mode))

    def upsert(
        self,
        df: Any,
        join_cols: Sequence[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool | None = None,
        branch: str | None = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] = {},
        *,
        mode: str | None = None,
        runner: Runner | str | None = None,
        spark: Any = None,
        **write_options: Any,
    ) -> None:
        step = self._row_step("merge", branch, snapshot_properties, write_options, case_sensitive, runner, spark, df)
        asked, names = upsert_of(step.schema, join_cols, when_matched_update_all, when_not_matched_insert_all)
        self._staged(stage_merge(step, df, asked, mode, unique=names))

    def merge(
        self, df: Any, on: Any, *, target_alias: str = "target", source_alias: str = "source", **options: Any
    ) -> MergeBuilder[None]:  # fmt: skip
        """As `Table.merge`; `.execute()` stages it in this transaction."""
        return MergeBuilder(df, Merge(on, (), target_alias, source_alias), lambda f, m, mode: self.do_merge(f, m, mode=mode, **options))

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
        words = merge.words
        step = self._row_step("merge", branch, snapshot_properties, write_options, case_sensitive, runner, spark, df, words)
        self._staged(stage_merge(step, df, merge, mode))

    # --- metadata

    def set_properties(self, properties: Mapping[str, Any] = {}, **named: Any) -> Transaction:
        """Properties as a mapping or by name; values are stored as text."""
        updates = {str(k): property_text(k, v) for k, v in {**properties, **named}.items()}
        return self._stage(MetadataChange(lambda _: (SetProperties(updates),)))

    def remove_properties(self, *keys: str) -> Transaction:
        return self._stage(MetadataChange(lambda _: (RemoveProperties(tuple(keys)),)))

    def update_location(self, location: str) -> Transaction:
        """Where new files go from now on; a relative path is from the current directory, and is stored absolute."""
        place = place_of(location)
        return self._stage(MetadataChange(lambda _: (SetLocation(place),)))

    def upgrade_table_version(self, format_version: int) -> Transaction:
        if not isinstance(format_version, int):
            raise InvalidInput(f"format_version is a number, not {format_version!r}.", table=self._base.metadata.location)
        return self._stage(MetadataChange(lambda m: () if m.format_version == format_version else (UpgradeFormatVersion(format_version),)))

    def cherrypick_snapshot(self, snapshot_id: int) -> Transaction:
        """Applies a staged (or other branch's) append or partition overwrite to main, as Java's cherrypick_snapshot does."""
        return self._stage(CherryPick(snapshot_id=snapshot_id))

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> Updating[UpdateSchema]:
        return Updating(self, UpdateSchema(self._metadata, allow_incompatible_changes, case_sensitive), commit_at_end=False)

    def update_spec(self, case_sensitive: bool = True) -> Updating[UpdateSpec]:
        return Updating(self, UpdateSpec(self._metadata, case_sensitive), commit_at_end=False)

    def update_sort_order(self, case_sensitive: bool = True) -> Updating[UpdateSortOrder]:
        return Updating(self, UpdateSortOrder(self._metadata, case_sensitive), commit_at_end=False)

    def update_properties(self) -> Updating[UpdateProperties]:
        return Updating(self, UpdateProperties(), commit_at_end=False)

    def update_statistics(self) -> Updating[UpdateStatistics]:
        return Updating(self, UpdateStatistics(), commit_at_end=False)

    def manage_snapshots(self) -> Updating[ManageSnapshots]:
        return Updating(self, ManageSnapshots(), commit_at_end=False)


def environment(spark: Any) -> dict[str, str]:
    """What every snapshot's summary says of the engine that made it; `spark`: the session, None for writes without Spark."""
    if spark is None:
        return {"engine-name": "frazil", "engine-version": _version()}
    return {"engine-name": "spark", "engine-version": spark.version, "spark.app.id": spark.conf.get("spark.app.id", "")}


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("frazil")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
