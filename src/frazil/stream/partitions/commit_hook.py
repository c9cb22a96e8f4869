"""Take part in the commits of a stream's batches: record the written partitions with the rows, and
announce due ones after the commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog import LoadedTable
from frazil.commit.actions import Action
from frazil.commit.produce import parent_of
from frazil.commit.table_commit import commit
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata
from frazil.storage.locations import data_root, join
from frazil.stream.hooks import MicroBatch
from frazil.stream.partitions.archive import ArchiveReader, archive_old
from frazil.stream.partitions.extractor import TimeExtractor, UnparsablePartition
from frazil.stream.partitions.fields import Fields, Partition, fields_of, path_of
from frazil.stream.partitions.options import (
    IDLE,
    PARTITION_TIME,
    PartitionCommitOptions,
    is_partition_option,
    partition_commit_options,
)
from frazil.stream.partitions.policies.chain import Chain, check_for_table, table_chain
from frazil.stream.partitions.policies.context import (
    PartitionContext,
    Policy,
    TableSite,
    address_of,
)
from frazil.stream.partitions.policies.success_file import now_ms
from frazil.stream.partitions.state import PartitionState, Pending, state_of
from frazil.stream.partitions.tracking import (
    MarkDone,
    PartitionRecords,
    TrackPartitions,
    watermark_field,
)
from frazil.tasks.runner import InProcess, Runner

log = logging.getLogger(__name__)
Judged = Mapping[Partition, Pending | None]


_HOUR = 3_600_000
TIME = "(time)"  # in place of a policy's name: the time of a pending partition cannot be determined
RECORD = (
    "(record)"  # in place of a policy's name: the commit that records announced partitions failed
)


@dataclass(frozen=True)
class PolicyFailure:
    """Report a policy that failed; the partition stays pending and is announced with the next
    batch.
    """

    partition: str
    policy: str
    error: Exception


def partition_commit_of(
    options: Mapping[str, Any], policies: Sequence[Policy] = (), runner: Runner | None = None
) -> tuple[PartitionCommit | None, dict[str, Any]]:
    """Make the hook of a streaming write from all its options (None if they name no policy), and
    return it with the options that are not about partition commit. Raises InvalidInput,
    Unsupported."""
    ours = {k: v for k, v in options.items() if is_partition_option(k)}
    chosen = partition_commit_options(ours, policies)
    check_for_table(chosen)
    hook = PartitionCommit(chosen, runner=runner or InProcess()) if chosen.enabled else None
    return hook, {k: v for k, v in options.items() if k not in ours}


@dataclass
class PartitionCommit:
    """Commit the partitions of a stream into a table (a `stream.hooks.BatchHook`).

    `clock`: returns the present time in milliseconds. `failures`: policies that failed after the
    last batch. `committed` may be called at any time, for instance when a query is idle.
    """

    options: PartitionCommitOptions
    clock: Callable[[], int] = now_ms
    runner: Runner = field(default_factory=InProcess)
    failures: tuple[PolicyFailure, ...] = ()
    records: PartitionRecords = field(default_factory=PartitionRecords, repr=False)
    _turn: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def actions(self, batch: MicroBatch, table: LoadedTable) -> Sequence[Action]:
        """Return the action that records, in the batch's commit, which partitions it wrote to.
        Raises InvalidInput for options that do not fit the table. (That a query has a watermark is
        checked when it starts: its first batch has none yet.)"""
        self.check(table.metadata, batch)
        return (TrackPartitions(batch.branch, self.options, batch.watermark_ms, self.records),)

    def check(self, metadata: TableMetadata, batch: MicroBatch) -> None:
        """Raise InvalidInput if partition commit has nothing to do: the table has no partitions, or
        the rows are only staged.
        """
        if batch.wap_id is not None:
            raise InvalidInput(
                f"Partition commit contradicts the WAP id {batch.wap_id}: rows that are only staged under it are on no branch yet.",
                hint="Stage on a branch (spark.wap.branch), or leave sink.partition-commit.policy.kind out.",
                table=batch.name,
            )
        options, fields = self.options, fields_of(metadata, metadata.default_spec_id)
        if not fields:
            hint = "Partition the table, or leave sink.partition-commit.policy.kind out."
            raise InvalidInput(
                f"Partition commit needs a partitioned table: {batch.name} is not.",
                hint=hint,
                table=batch.name,
            )
        if options.trigger == PARTITION_TIME:
            TimeExtractor(options).check(fields)
            if options.watermark_column is not None:
                watermark_field(metadata, options.watermark_column)

    def committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        """Announce the partitions that are due. Nothing happens for a batch that is replayed after
        its partitions were announced.
        """
        waited = not self._turn.acquire(blocking=False)
        if waited:  # an idle query's listener, or a batch, announces partitions in another thread
            self._turn.acquire()
        try:
            self._committed(batch, batch.backend.load(address_of(table)) if waited else table)
        finally:
            self._turn.release()

    def _committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        stored = state_of(table.metadata, batch.branch)
        state = self.records.caught_up(
            stored, table.metadata, parent_of(table.metadata, batch.branch), table.storage
        )
        by_column = self.options.watermark_column is not None or batch.watermark_ms is None
        watermark = state.watermark_ms if by_column else batch.watermark_ms
        due, self.failures = self._due(state, table.metadata, watermark, batch.last)
        changed = stored.pending != state.pending or stored.done != state.done
        changed = changed or (
            stored.looked_at != state.looked_at and _is_far_behind(stored, table.metadata)
        )
        if not due and not changed:
            return
        site = TableSite(
            batch.backend, address_of(table), batch.name, batch.branch, table.storage, self.runner
        )
        contexts = {
            p: context_of(p, state, table, site, self.options, watermark, self.records.archives)
            for p in due
        }
        announced, failures = announce(contexts, table_chain(self.options, site))
        self.failures += failures
        try:
            if announced or changed:
                mark(site, {p: due[p] for p in announced}, watermark, self.records)
        except Exception as e:
            # the rows are committed: the stream goes on, and the partitions are announced again
            log.exception(
                "Could not record the partitions of %s that were announced; they are announced again.",
                batch.name,
            )
            self.failures += tuple(PolicyFailure(_shown(contexts[p]), RECORD, e) for p in announced)

    def _due(
        self, state: PartitionState, metadata: TableMetadata, watermark_ms: int | None, last: bool
    ) -> tuple[dict[Partition, Pending], tuple[PolicyFailure, ...]]:
        ends = last and self.options.end_input
        return due_of(
            self.options,
            state,
            self.clock(),
            watermark_ms,
            ends,
            lambda p: fields_of(metadata, p.spec_id),
        )


def _is_far_behind(state: PartitionState, metadata: TableMetadata) -> bool:
    """Tell whether the snapshots that other writers made since the state was stored are to be noted
    as looked at, before they expire.
    """
    if state.looked_at is None or not (state.done or state.archives):
        return False
    looked_at = metadata.snapshots.by_id(state.looked_at)
    return looked_at is None or metadata.last_updated_ms - looked_at.timestamp_ms > _HOUR


def due_of(
    options: PartitionCommitOptions,
    state: PartitionState,
    now_ms: int,
    watermark_ms: int | None,
    ends: bool,
    fields_of_partition: Callable[[Partition], Fields],
) -> tuple[dict[Partition, Pending], tuple[PolicyFailure, ...]]:
    """Find the partitions that are due (`ends`: all), and those whose time cannot be determined,
    for example because an older spec lacks the pattern's fields: these stay pending. The rows are
    committed by now, so no error may stop the query here."""
    times, failures = TimeExtractor(options), list[PolicyFailure]()

    def time_ms(partition: Partition) -> int | None:
        fields = fields_of_partition(partition)
        try:
            return times.time_ms(partition, fields)
        except Exception as e:  # a caller's extractor may raise any error
            if options.on_unparsable == "fail" or not isinstance(e, UnparsablePartition):
                failures.append(PolicyFailure(path_of(partition, fields), TIME, e))
                log.warning(
                    "A partition stays pending: %s",
                    e,
                    exc_info=not isinstance(e, UnparsablePartition),
                )
            return None

    due = {
        p: seen
        for p, seen in state.pending.items()
        if ends or is_due(options, seen, now_ms, watermark_ms, lambda p=p: time_ms(p))  # type: ignore[misc]
    }
    return due, tuple(failures)


def context_of(
    partition: Partition,
    state: PartitionState,
    table: LoadedTable,
    site: TableSite,
    options: PartitionCommitOptions,
    watermark_ms: int | None,
    archives: ArchiveReader,
) -> PartitionContext:
    """Describe a complete partition to the policies that announce it."""
    metadata = table.metadata
    fields = fields_of(metadata, partition.spec_id)
    record = state.done.get(partition) or archives.find(partition, state, metadata, table.storage)
    *database, name = table.identifier or (metadata.location,)
    return PartitionContext(
        catalog=site.backend.name,
        database=".".join(database),
        table=name,
        partition_keys=tuple(f.name for f in fields),
        partition_values=texts_of(partition, options),
        path=folder_of(metadata, partition, fields),
        watermark=watermark_ms,
        late=record is not None and record.late_ms is not None,
        branch=site.branch,
        partition=partition,
    )


def texts_of(partition: Partition, options: PartitionCommitOptions) -> tuple[str, ...]:
    """Return the values of a partition as texts; null becomes partition.default-name, as in Flink."""
    return tuple(options.default_name if v is None else v for v in partition.values)


def folder_of(metadata: TableMetadata, partition: Partition, fields: Fields) -> str:
    """Return the folder of a partition, `<data>/dt=2026-01-01`: the same with and without
    object-store layout, so that marks can be found."""
    return join(data_root(metadata.location, metadata.properties), path_of(partition, fields))


def announce(
    contexts: Mapping[Partition, PartitionContext], chain: Chain
) -> tuple[list[Partition], tuple[PolicyFailure, ...]]:
    """Run the policies for each partition, in the order in which the options name them; the first
    one that fails ends the chain of its partition. Returns the partitions for which all policies
    succeeded, and the failures, which are logged too."""
    announced, failures = [], []
    for partition, context in contexts.items():
        for kind, policy in chain:
            try:
                policy(context)
            except Exception as e:
                # a caller's function may raise any error: the stream goes on, and the policy is
                # tried again
                path = _shown(context)
                failures.append(PolicyFailure(path, kind, e))
                log.exception(
                    "Policy %s failed for partition %s of %s; it is tried again at the next batch.",
                    kind,
                    path,
                    context.table,
                )
                break
        else:
            announced.append(partition)
    return announced, tuple(failures)


def _shown(context: PartitionContext) -> str:
    return "/".join(f"{k}={v}" for k, v in context.partition_spec.items())


def mark(
    site: TableSite, judged: Judged, watermark_ms: int | None, records: PartitionRecords
) -> LoadedTable:
    """Record partitions as done, and what other writers changed, in a commit of its own; return the
    table's newest state.
    """
    table = commit(
        site.backend, site.load(), [MarkDone(site.branch, judged, watermark_ms, records)]
    ).table
    try:
        return archive_old(site.backend, table, site.branch)
    except Exception:  # the partitions are recorded; only the property stays longer than it should
        log.exception(
            "Could not archive old partition commits of %s; it is tried again when partitions are announced.",
            site.name,
        )
        return table


def is_due(
    options: PartitionCommitOptions,
    pending: Pending,
    now_ms: int,
    watermark_ms: int | None,
    time_ms: Callable[[], int | None],
) -> bool:
    """Tell whether a partition is due. `time_ms`: its time, for partition-time only; None: the time
    cannot be determined, and the partition is never due.

    process-time: at once without a delay, else after it, from when the partition was first seen.
    partition-time: the watermark is past the partition's time and the delay. idle: no data came for
    longer than the delay.
    """
    if options.trigger == PARTITION_TIME:
        time = time_ms()
        return (
            time is not None and watermark_ms is not None and watermark_ms > time + options.delay_ms
        )
    if options.trigger == IDLE:
        return now_ms > pending.last_ms + options.delay_ms
    return options.delay_ms == 0 or now_ms > pending.first_ms + options.delay_ms
