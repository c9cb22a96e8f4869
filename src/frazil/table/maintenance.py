"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names,
arguments and defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar, overload

from frazil.errors import InvalidInput
from frazil.maintain import rewrite_manifests
from frazil.maintain.advice.auto import AutoResult, auto
from frazil.maintain.advice.finding import Findings
from frazil.maintain.advice.metadata_files import ORPHANS
from frazil.maintain.advice.recommend import recommend
from frazil.maintain.compact.procedure import RewriteDataFilesResult, rewrite_data_files
from frazil.maintain.migration.add_files import AddFilesResult, add_files
from frazil.maintain.migration.source import resolve_source
from frazil.maintain.orphans import remove_orphan_files as orphans
from frazil.maintain.orphans.remove_orphan_files import OrphanFilesResult
from frazil.maintain.position_deletes import convert_equality
from frazil.maintain.position_deletes import rewrite_position_delete_files as position_deletes
from frazil.maintain.position_deletes.convert_equality import ConvertEqualityDeletesResult
from frazil.maintain.position_deletes.rewrite_position_delete_files import (
    RewritePositionDeleteFilesResult,
)
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, log_result
from frazil.maintain.procedures import (
    BIGINT,
    BOOLEAN,
    BY_NAME,
    INT,
    NUMBERS,
    ON_MAINTENANCE,
    PROCEDURES,
    STRING,
    TEXT_MAP,
)
from frazil.maintain.progress import ProgressCallback
from frazil.maintain.rewrite_manifests import RewriteManifestsResult
from frazil.maintain.rewrite_table_path.table_path import RewriteTablePathResult, rewrite_table_path
from frazil.maintain.snapshots import expire_snapshots, move_snapshots
from frazil.maintain.snapshots.expire_snapshots import ExpireSnapshotsResult
from frazil.maintain.snapshots.move_snapshots import (
    AncestorsResult,
    FastForwardResult,
    MovedSnapshotResult,
    PickedSnapshotResult,
)
from frazil.maintain.snapshots.retention import RetentionRequest
from frazil.maintain.stats.partition_stats import PartitionStatsResult, compute_partition_stats
from frazil.maintain.stats.table_stats import TableStatsResult, compute_table_stats
from frazil.maintain.stream_upkeep.lease import LEASE_SECONDS, lease
from frazil.maintain.stream_upkeep.upkeep import record_run
from frazil.ops import arguments
from frazil.ops.arguments import GivenFrame
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.sorting import SortOrder
from frazil.spec.values import Time, milliseconds
from frazil.table import engines
from frazil.table.expire_chain import ExpireSnapshots
from frazil.table.missing_methods import OF_MAINTENANCE, no_such_method
from frazil.table.verbs import TableHandle
from frazil.tasks.runner import Runner

T = TypeVar("T")
_BY_KIND: dict[str, arguments.Check] = {
    BOOLEAN: arguments.flag, STRING: arguments.text, INT: arguments.number, BIGINT: arguments.number, NUMBERS: arguments.numbers,
    TEXT_MAP: arguments.mapping,
}  # fmt: skip
_CHECKS: dict[str, arguments.Check] = {
    "progress": arguments.function,
    **{
        p.in_python: _BY_KIND[p.kind]
        for one in PROCEDURES
        if one.on == ON_MAINTENANCE
        for p in one.parameters
        if not p.wide
    },
}


def _logged(cls: type[T]) -> type[T]:
    """Log the result of each procedure that a method of the class runs."""

    def logged(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(maintenance: MaintenanceTable, *args: object, **named: object) -> Any:
            result = method(maintenance, *args, **named)
            if isinstance(result, ProcedureResult):
                log_result(maintenance._handle._name, name, result)
            return result

        return call

    for name, method in [*vars(cls).items()]:
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, logged(name, method))
    return cls


@_logged
@arguments.checked(_CHECKS)
class MaintenanceTable:
    """Run maintenance procedures on one table. Each takes `dry_run=True`, which returns the plan
    and changes nothing.

    `runner` and `spark` choose where the work is done: a Runner or "in-process", a Spark session;
    by default the session that runs, else this process.
    """

    def __init__(self, handle: TableHandle):
        self._handle = handle

    def __repr__(self) -> str:
        procedures = [name for name in vars(type(self)) if not name.startswith("_")]
        return f"Maintenance of {self._handle._name}, each procedure by a method: {', '.join(sorted(procedures))}"

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such_method(self, name, OF_MAINTENANCE)

    def _table(
        self, runner: Runner | str | None = None, spark: Session | None = None
    ) -> MaintainedTable:
        handle = self._handle
        engine, chosen = engines.of_rows(handle.metadata, handle._loaded.storage, runner, spark)
        return MaintainedTable(
            handle._backend, handle._loaded, handle._name, engine, chosen, handle._show
        )

    # --- snapshots, manifests, orphan files: metadata only, always done in this process

    @overload
    def expire_snapshots(self) -> ExpireSnapshots: ...

    @overload
    def expire_snapshots(
        self,
        older_than: Time | None = None,
        retain_last: int | None = None,
        max_concurrent_deletes: int | None = None,
        stream_results: bool | None = None,
        snapshot_ids: Iterable[int] | None = None,
        clean_expired_metadata: bool | None = None,
        *,
        dry_run: bool | None = None,
        progress: ProgressCallback | None = None,
    ) -> ExpireSnapshotsResult: ...

    def expire_snapshots(
        self,
        older_than: Time | None = None,
        retain_last: int | None = None,
        max_concurrent_deletes: int | None = None,
        stream_results: bool | None = None,
        snapshot_ids: Iterable[int] | None = None,
        clean_expired_metadata: bool | None = None,
        *,
        dry_run: bool | None = None,
        progress: ProgressCallback | None = None,
    ) -> ExpireSnapshotsResult | ExpireSnapshots:
        """Expire snapshots, and delete the files that only they reach. With any argument it runs at
        once, as Java's procedure: `older_than` (default: history.expire.max-snapshot-age-ms, 5
        days) and `retain_last` (history.expire.min-snapshots-to-keep, 1), within the retention of
        branches and tags; `snapshot_ids` expire besides. `clean_expired_metadata` drops unused
        schemas and specs. `stream_results` changes nothing: files are always deleted in batches.

        Without any argument it returns PyIceberg's chain, which expires nothing before `.commit()`;
        alone, that commit runs the defaults.
        """
        chosen = (
            older_than,
            retain_last,
            max_concurrent_deletes,
            stream_results,
            snapshot_ids,
            clean_expired_metadata,
            dry_run,
            progress,
        )

        def run(request: RetentionRequest) -> ExpireSnapshotsResult:
            return expire_snapshots.expire_snapshots(
                self._table("in-process"),
                request,
                max_concurrent_deletes=max_concurrent_deletes,
                clean_expired_metadata=bool(clean_expired_metadata),
                dry_run=bool(dry_run),
                callback=progress,
            )

        if all(argument is None for argument in chosen):
            return ExpireSnapshots(run)
        return run(
            RetentionRequest(
                None if older_than is None else milliseconds(older_than),
                retain_last,
                tuple(snapshot_ids or ()),
            )
        )

    def rewrite_manifests(
        self,
        use_caching: bool = False,
        spec_id: int | None = None,
        sort_by: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RewriteManifestsResult:
        """Rewrite the manifests of a partition spec (None: the current one), sorted by partition,
        or by the partition fields of `sort_by`. `use_caching` changes nothing: no manifest is read
        twice."""
        fields = () if sort_by is None else arguments.names("sort_by", sort_by)
        if sort_by is not None and not fields:
            raise InvalidInput(
                "sort_by must not be empty when provided",
                hint="None sorts by all fields of the partition spec.",
            )
        return rewrite_manifests.rewrite_manifests(
            self._table("in-process"), spec_id, fields, dry_run=dry_run, callback=progress
        )

    def ancestors_of(
        self,
        snapshot_id: int | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> AncestorsResult:
        """List the ancestors of a snapshot, newest first (None: of the current one)."""
        return move_snapshots.ancestors_of(
            self._table("in-process"), snapshot_id, dry_run, progress
        )

    def rollback_to_snapshot(
        self, snapshot_id: int, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> MovedSnapshotResult:
        """Roll main back to one of its ancestors."""
        return move_snapshots.rollback_to_snapshot(
            self._table("in-process"), snapshot_id, dry_run, progress
        )

    def rollback_to_timestamp(
        self, timestamp: Time, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> MovedSnapshotResult:
        """Roll main back to its newest ancestor that is older than a time."""
        return move_snapshots.rollback_to_timestamp(
            self._table("in-process"), milliseconds(timestamp), dry_run, progress
        )

    def set_current_snapshot(
        self,
        snapshot_id: int | None = None,
        ref: str | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> MovedSnapshotResult:
        """Set main to any snapshot, by its id or by a branch or tag."""
        return move_snapshots.set_current_snapshot(
            self._table("in-process"), snapshot_id, ref, dry_run, progress
        )

    def cherrypick_snapshot(
        self, snapshot_id: int, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> PickedSnapshotResult:
        """Apply the change of a staged snapshot on top of main."""
        return move_snapshots.cherrypick_snapshot(
            self._table("in-process"), snapshot_id, dry_run, progress
        )

    def publish_changes(
        self, wap_id: str, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> PickedSnapshotResult:
        """Publish the snapshot that was staged under a WAP id."""
        return move_snapshots.publish_changes(self._table("in-process"), wap_id, dry_run, progress)

    def fast_forward(
        self,
        branch: str,
        to: str,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> FastForwardResult:
        """Move a branch forward to the snapshot of another branch or tag, `to`, of which it must
        be an ancestor; a branch that does not exist is created.
        """
        return move_snapshots.fast_forward(self._table("in-process"), branch, to, dry_run, progress)

    def rewrite_data_files(
        self,
        strategy: str | None = None,
        sort_order: str | Sequence[str] | SortOrder | None = None,
        options: Mapping[str, object] | None = None,
        where: RowFilter | None = None,
        branch: str | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> RewriteDataFilesResult:
        """Rewrite small files, files with many deletes and too large ones to files of the target
        size (compaction); rows stay the same.

        `strategy`: `binpack` (the default: rows keep their order), `sort`, `zorder` or `hilbert`.
        `sort_order`: `a ASC NULLS LAST, b DESC`, `zorder(a, b)`, `hilbert(a, b)`, a list of
        columns; by default the table's. `options`: Java's, such as `{"target-file-size-bytes": 128
        << 20, "partial-progress.enabled": True}`. `where`: only files that may hold matching rows.
        `progress`: called with how many files are done, how many there are, and a text. Writers may
        go on meanwhile; raises ValidationException when one of them removes a file that is being
        rewritten.
        """
        return rewrite_data_files(
            self._table(runner, spark),
            strategy,
            sort_order,
            options,
            where,
            branch,
            dry_run,
            progress,
        )

    # --- statistics

    def compute_table_stats(
        self,
        snapshot_id: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> TableStatsResult:
        """Compute the numbers of distinct values of columns (None: all primitive ones at the top),
        as sketches in a Puffin file that other engines read. `snapshot_id` None: the current one.
        """
        table = self._table(runner, spark)
        return compute_table_stats(
            table, snapshot_id=snapshot_id, columns=columns, dry_run=dry_run, callback=progress
        )

    def compute_partition_stats(
        self,
        snapshot_id: int | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> PartitionStatsResult:
        """Count files, rows and deletes of each partition, as a file that other engines read. Where
        an ancestor of the snapshot has such a file, only what came since is read. `snapshot_id`
        None: the current one."""
        return compute_partition_stats(
            self._table(runner, spark), snapshot_id=snapshot_id, dry_run=dry_run, callback=progress
        )

    # --- copies of a table

    def rewrite_table_path(
        self,
        source_prefix: str,
        target_prefix: str,
        start_version: str | None = None,
        end_version: str | None = None,
        staging_location: str | None = None,
        create_file_list: bool = True,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> RewriteTablePathResult:
        """Stage the table's metadata as it is to be below `target_prefix`, and list the files to
        copy there.

        `start_version`, `end_version`: names of metadata files; only what was committed after the
        first, up to the second (None: the newest), is staged. `staging_location` None: a new
        directory beside the metadata. The table itself stays as it is.
        """
        return rewrite_table_path(
            self._table("in-process"),
            source_prefix,
            target_prefix,
            start_version=start_version,
            end_version=end_version,
            staging_location=staging_location,
            create_file_list=create_file_list,
            dry_run=dry_run,
            callback=progress,
        )

    def add_files(
        self,
        source_table: str,
        partition_filter: Mapping[str, object] | None = None,
        check_duplicate_files: bool = True,
        parallelism: int | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        spark: Session | None = None,
    ) -> AddFilesResult:
        """Add the Parquet files of a directory, or of a table of Spark's own catalog, to the table,
        at their location.

        `source_table`: parquet.`/a/directory`, a directory, or a name as in "db.table".
        `partition_filter`: values of partition columns, as in {"day": "2026-01-01"}. A file that
        the table has already is refused, or with `check_duplicate_files=False` added again, so that
        its rows are read twice. `parallelism`: threads that read footers (None: one per core).
        """
        table = self._table("in-process")
        source = resolve_source(
            source_table, lambda _: table.storage, lambda: engines.spark_tables(spark)
        )
        return add_files(
            table,
            source,
            partition_filter=partition_filter or {},
            again=not check_duplicate_files,
            parallelism=parallelism,
            dry_run=dry_run,
            callback=progress,
        )

    def remove_orphan_files(
        self,
        older_than: Time | None = None,
        location: str | None = None,
        dry_run: bool = False,
        max_concurrent_deletes: int | None = None,
        file_list_view: GivenFrame | str | None = None,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "ERROR",
        prefix_listing: bool = False,
        stream_results: bool = False,
        *,
        allow_short_interval: bool = False,
        progress: ProgressCallback | None = None,
    ) -> OrphanFilesResult:
        """Remove files below the table's location (or `location`, a directory of it) that no
        snapshot names and that are older than a time, by default three days. Less than 24 hours are
        refused, unless `allow_short_interval`.

        `file_list_view`: a frame of file_path and last_modified, or the name of a view of the Spark
        session, in place of a listing. `equal_schemes`, `equal_authorities`: as `{"a,b": "c"}`.
        `prefix_mismatch_mode`: what becomes of files that metadata names under another scheme or
        authority: "ERROR", "IGNORE" or "DELETE". `prefix_listing`: list everything at once, not by
        directories. `stream_results` changes nothing: files are always deleted in batches.
        """
        listed = (
            engines.named_frame(file_list_view)
            if isinstance(file_list_view, str)
            else file_list_view
        )
        request = orphans.request_of(
            None if older_than is None else milliseconds(older_than),
            location,
            listed,
            equal_schemes,
            equal_authorities,
            prefix_mismatch_mode,
            prefix_listing,
            allow_short_interval,
        )
        return orphans.remove_orphan_files(
            self._table("in-process"),
            request,
            max_concurrent_deletes=max_concurrent_deletes,
            dry_run=dry_run,
            callback=progress,
        )

    # --- advice

    def recommend(self) -> Findings:
        """Return findings about the table in words and numbers: each with the call that cures it,
        and the cost and gain of that call; empty for a healthy table. Reads metadata only."""
        return recommend(self._table())

    def auto(
        self,
        *,
        budget_bytes: int | str | None = None,
        budget_minutes: float | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> AutoResult:
        """Do what `recommend` says, as far as it fits the budget: bytes read and written, as a
        number or as `"10GB"`, and minutes (None: no limit). `progress`: passed on to each
        procedure.

        May run at any time beside writers and readers, also from cron: it holds the table's lease,
        and does nothing while another `auto` or a stream maintains the table. A cure that fails is
        reported in the result, and the others run.
        """

        def procedure(name: str) -> Callable[..., object] | None:
            return (
                partial(getattr(self, name), progress=progress)
                if name in BY_NAME and BY_NAME[name].cure
                else None
            )

        def record(kind: str) -> None:
            if kind == ORPHANS:
                # what is left behind is estimated, so that only a record tells that it was removed
                record_run(self._table(), kind)

        return auto(
            lambda: self.recommend(),
            procedure,
            lambda: lease(self._table(), "auto", max(LEASE_SECONDS, 120 * (budget_minutes or 0))),
            record,
            budget_bytes=budget_bytes,
            budget_minutes=budget_minutes,
            dry_run=dry_run,
        )

    def rewrite_position_delete_files(
        self,
        options: Mapping[str, object] | None = None,
        where: RowFilter | None = None,
        branch: str | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> RewritePositionDeleteFilesResult:
        """Rewrite small position delete files as few, drop deletes of data files that are gone, and
        in tables of format version 3 turn what is left of them into deletion vectors.

        `where`: only partitions that may hold matching rows. `options`: Java's, as `{"rewrite-all":
        "true"}`.
        """
        table = self._table(runner, spark)
        return position_deletes.rewrite_position_delete_files(
            table, where, options, branch or MAIN_BRANCH, dry_run=dry_run, callback=progress
        )

    def convert_equality_deletes(
        self,
        where: RowFilter | None = None,
        branch: str | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Runner | str | None = None,
        spark: Session | None = None,
    ) -> ConvertEqualityDeletesResult:
        """Turn equality deletes into deletion vectors (format version 3) or position deletes, which
        are read faster and by every engine.

        `where`: only data files that may hold matching rows. A dry run reads the data files too,
        since nothing else tells what is deleted.
        """
        table = self._table(runner, spark)
        return convert_equality.convert_equality_deletes(
            table, where, branch or MAIN_BRANCH, dry_run=dry_run, callback=progress
        )
