"""Announce the partitions of a plain folder when they are complete: the same triggers and policies
as for tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from frazil.errors import InvalidInput, Unsupported
from frazil.stream.partitions.commit_hook import PolicyFailure, announce, due_of, texts_of
from frazil.stream.partitions.directories.folder import (
    STORAGE,
    Folder,
    read_state,
    write_done_mark,
    write_state,
)
from frazil.stream.partitions.directories.merge_files import check_exchange, merge_folder
from frazil.stream.partitions.directories.publish import recover
from frazil.stream.partitions.extractor import TimeExtractor
from frazil.stream.partitions.fields import Partition
from frazil.stream.partitions.options import (
    MERGE,
    METASTORE,
    PARTITION_TIME,
    PROPERTY,
    SUCCESS_FILE,
    TAG,
    PartitionCommitOptions,
)
from frazil.stream.partitions.policies.chain import chain_of
from frazil.stream.partitions.policies.context import PartitionContext
from frazil.stream.partitions.policies.metastore import check_metastore, metastore
from frazil.stream.partitions.policies.success_file import now_ms, success_file
from frazil.stream.partitions.state import Done, PartitionState, Pending


@dataclass(frozen=True)
class LastBatch:
    """Name the newest batch of a query that is in a folder. `batch_id` None: none is."""

    query_id: str
    batch_id: int | None


@dataclass(frozen=True)
class FolderCommit:
    """Commit the partitions of a folder. `clock`: returns the present time in milliseconds."""

    folder: Folder
    options: PartitionCommitOptions
    clock: Callable[[], int] = now_ms

    def check(self) -> None:
        """Check the options before the query starts. Raises InvalidInput, Unsupported,
        StorageError.
        """
        if of_tables := [k for k in self.options.policies if k in (TAG, PROPERTY)]:
            hint = "Plain folders have success-file, metastore, merge and custom."
            raise Unsupported(
                f"The policy {of_tables[0]} is for Iceberg tables.",
                hint=hint,
                option="sink.partition-commit.policy.kind",
            )
        name = self.options.success_file
        if SUCCESS_FILE in self.options.policies and not name.startswith(("_", ".")):
            raise InvalidInput(
                f"sink.partition-commit.success-file.name must begin with _ or . in a plain folder, not be {name!r}.",
                hint="Choose such a name: readers would take the file for data.",
                option="sink.partition-commit.success-file.name",
            )
        if self.options.trigger == PARTITION_TIME:
            TimeExtractor(self.options).check(self.folder.fields)
        if MERGE in self.options.policies:
            check_exchange(self.folder)
        if METASTORE in self.options.policies:
            check_metastore(self.options, self.folder.columns)

    def commit_due(
        self, watermark_ms: int | None, last: LastBatch | None = None
    ) -> tuple[PolicyFailure, ...]:
        """Announce the partitions that are due; may be called at any time, also when a query is
        idle. Returns the policies that failed.

        `watermark_ms` None: that of the last batch with rows. `last`: the input of a run has ended
        with this batch.
        """
        if not self.options.enabled:
            return ()
        with self.folder.locked("announce.lock"):
            return self._commit_due(watermark_ms, last)

    def newest_batches(self) -> Mapping[str, int]:
        """Return the newest batch of each query that is in the folder."""
        with self.folder.locked():
            recover(self.folder)
            return read_state(self.folder).batches

    def _commit_due(
        self, watermark_ms: int | None, last: LastBatch | None
    ) -> tuple[PolicyFailure, ...]:
        with self.folder.locked():
            recover(self.folder)
            folder_state = read_state(self.folder)
        if last is not None and folder_state.batches.get(last.query_id) != last.batch_id:
            # the query's next run has begun to write, and partitions are complete when its input
            # has ended
            return ()
        state = folder_state.partitions
        if self.options.watermark_column is not None or watermark_ms is None:
            watermark_ms = state.watermark_ms
        due, undated = self._due(state, watermark_ms, last is not None)
        if not due:
            return undated
        chain = chain_of(
            self.options,
            {
                SUCCESS_FILE: lambda: success_file(STORAGE, self.options.success_file, self.clock),
                MERGE: lambda: merge_folder(self.folder, self.options.merge_target),
                METASTORE: lambda: metastore(self.options),
            },
        )
        announced, failures = announce(
            {p: self._context(p, state, watermark_ms) for p in due}, chain
        )
        with self.folder.locked():
            recover(self.folder)
            for partition in announced:
                self._mark(partition, due[partition], watermark_ms)
        return (*undated, *failures)

    def _due(
        self, state: PartitionState, watermark_ms: int | None, last: bool
    ) -> tuple[dict[Partition, Pending], tuple[PolicyFailure, ...]]:
        """Find the partitions that are due, and those whose time cannot be determined, which stay
        pending (`commit_hook.due_of`).
        """
        ends = last and self.options.end_input
        return due_of(
            self.options, state, self.clock(), watermark_ms, ends, lambda _: self.folder.fields
        )

    def _context(
        self, partition: Partition, state: PartitionState, watermark_ms: int | None
    ) -> PartitionContext:
        path = self.folder.path.rstrip("/")
        database, _, name = path.rpartition("/")
        return PartitionContext(
            catalog="",
            database=database,
            table=name,
            partition_keys=self.folder.columns,
            partition_values=texts_of(partition, self.options),
            path=self.folder.partition_path(partition),
            watermark=watermark_ms,
            late=partition in state.done,
            partition=partition,
        )

    def _mark(self, partition: Partition, seen: Pending, watermark_ms: int | None) -> None:
        """Record a partition as done: first in its folder, then in the state. Repeated after a
        crash in between, it counts once.
        """
        state = read_state(self.folder)
        now = state.partitions.pending.get(partition)
        if now is None:
            return
        more, before = now.commits > seen.commits, state.partitions.done.get(partition)
        # the mark in the folder may be of this announcement already, and is not counted
        times = 1 if before is None else before.times + 1
        done = Done(self.clock(), watermark_ms, None, times, now.last_ms if more else None)
        write_done_mark(self.folder, partition, done)
        pending = {p: s for p, s in state.partitions.pending.items() if p != partition}
        late = {p: d for p, d in state.partitions.done.items() if p != partition}
        if more:
            pending[partition] = Pending(now.last_ms, now.last_ms, now.commits - seen.commits)
            late[partition] = done
        write_state(
            self.folder,
            replace(state, partitions=replace(state.partitions, pending=pending, done=late)),
        )
