"""Change the state of partition commit within commits: partitions that a batch wrote to become
pending, announced ones become done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo

from frazil.codec.single_value import from_bytes
from frazil.commit.context import Context, SnapshotState
from frazil.commit.produce import parent_of
from frazil.errors import InvalidInput
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import (
    DateType,
    NestedField,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from frazil.spec.updates import Update
from frazil.storage import Storage
from frazil.stream.partitions.archive import ArchiveReader
from frazil.stream.partitions.changes import ChangeReader, Since, changes_in, since
from frazil.stream.partitions.extractor import TimeExtractor, UnparsablePartition
from frazil.stream.partitions.fields import Partition, fields_of, partition_of, path_of
from frazil.stream.partitions.options import PARTITION_TIME, PartitionCommitOptions
from frazil.stream.partitions.state import (
    Done,
    PartitionState,
    Pending,
    state_of,
    stored,
    updates_to,
)
from frazil.stream.partitions.zones import instant_ms, zone_of

log = logging.getLogger(__name__)
_TIMES = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_PER_MS: dict[type, int] = {
    TimestampType: 1000,
    TimestamptzType: 1000,
    TimestampNanoType: 1_000_000,
    TimestamptzNanoType: 1_000_000,
}
_EPOCH = datetime(1970, 1, 1)
FindDone = Callable[[Partition], Done | None]


@dataclass(frozen=True)
class WrittenPartitions:
    """Name the partitions that a batch writes to: those that get data, and those that only lose
    rows.
    """

    data: frozenset[Partition]
    deletes: frozenset[Partition] = frozenset()


def with_written(
    state: PartitionState,
    touched: WrittenPartitions,
    find: FindDone,
    now_ms: int,
    watermark_ms: int | None = None,
) -> PartitionState:
    """Return the state after a batch. A done partition that gets data or loses rows becomes pending
    again; its record notes since when.
    """
    pending, done = dict(state.pending), dict(state.done)
    for partition in sorted(
        touched.data | touched.deletes,
        key=lambda p: (p.spec_id, [(v is not None, v or "") for v in p.values]),
    ):
        record = done.get(partition) or find(partition)
        if partition in pending:
            pending[partition] = pending[partition].again(now_ms)
        elif partition in touched.data or record is not None:
            pending[partition] = Pending(now_ms, now_ms)
        if record is not None:
            done.pop(partition, None)
            done[partition] = (
                record if record.late_ms is not None else replace(record, late_ms=now_ms)
            )
    watermarks = [w for w in (state.watermark_ms, watermark_ms) if w is not None]
    return replace(state, pending=pending, done=done, watermark_ms=max(watermarks, default=None))


def with_done(
    state: PartitionState,
    judged: Mapping[Partition, Pending | None],
    find: FindDone,
    now_ms: int,
    snapshot_id: int | None,
    watermark_ms: int | None,
) -> PartitionState:
    """Return the state after partitions were announced. `judged`: what was pending when they were
    found due, None: marked by hand.

    A partition that another process announced meanwhile is left alone. One that got more data
    meanwhile is recorded as done but late, and stays pending for the new data.
    """
    pending, done = dict(state.pending), dict(state.done)
    for partition, seen in judged.items():
        still_pending = pending.get(partition)
        if seen is not None and (still_pending is None or still_pending.first_ms != seen.first_ms):
            continue
        record = done.pop(partition, None) or find(partition)
        more = (
            still_pending is not None and seen is not None and still_pending.commits > seen.commits
        )
        late_ms = still_pending.last_ms if more and still_pending is not None else None
        done[partition] = Done(
            now_ms, watermark_ms, snapshot_id, 1 + (0 if record is None else record.times), late_ms
        )
        if more and still_pending is not None and seen is not None:
            pending[partition] = Pending(
                still_pending.last_ms, still_pending.last_ms, still_pending.commits - seen.commits
            )
        else:
            pending.pop(partition, None)
    return replace(state, pending=pending, done=done)


@dataclass(frozen=True)
class PartitionRecords:
    """Read what the table itself tells of partitions: archived records of those that are done, and
    the changes of all writers.
    """

    archives: ArchiveReader = field(default_factory=ArchiveReader)
    changes: ChangeReader = field(default_factory=ChangeReader)

    def finder(self, state: PartitionState, metadata: TableMetadata, storage: Storage) -> FindDone:
        """Return a function that finds the record of a done partition in the archives of a state."""
        return lambda partition: self.archives.find(partition, state, metadata, storage)

    def caught_up(
        self,
        state: PartitionState,
        metadata: TableMetadata,
        head: Snapshot | None,
        storage: Storage,
    ) -> PartitionState:
        """Return a state with the changes of all writers up to `head`. Done partitions that were
        changed become pending again, and late; pending ones have more to announce. Partitions that
        no stream has written to and nobody has marked stay unknown.

        Where snapshots have expired unseen, nobody can tell which partitions they changed, so that
        every done partition counts as changed.
        """
        head_id = None if head is None else head.snapshot_id
        if state.looked_at == head_id and head_id is not None:
            return state
        find, came = self.finder(state, metadata, storage), self._since(state, metadata, head)
        if came.gap:
            oldest = next(reversed(list(metadata.ancestors(head))), None)
            changed_ms = metadata.last_updated_ms if oldest is None else oldest.timestamp_ms
            state = with_written(state, self._all_done(state, metadata, storage), find, changed_ms)
        places = (
            {}
            if state.looked_at is not None
            else {s.snapshot_id: n for n, s in enumerate(metadata.ancestors(head))}
        )
        for snapshot in (*came.new, *came.left):
            changes = self.changes.of(snapshot, metadata, storage)
            touched = changes.partitions
            if changes.all:
                touched = self._all_done(state, metadata, storage).deletes
            # partitions of an older version's state, which may have been announced after this
            # snapshot
            if places:
                marks = {
                    p: record.snapshot_id
                    for p in touched
                    if (record := state.done.get(p) or find(p)) is not None
                }
                place = places[snapshot.snapshot_id]
                announced = {
                    p
                    for p, mark in marks.items()
                    if mark is not None and places.get(mark, len(places)) <= place
                }
                touched -= announced
            changed_ms = (
                metadata.last_updated_ms if snapshot in came.left else snapshot.timestamp_ms
            )
            state = with_written(state, WrittenPartitions(frozenset(), touched), find, changed_ms)
        return replace(state, looked_at=head_id)

    def _since(
        self, state: PartitionState, metadata: TableMetadata, head: Snapshot | None
    ) -> Since:
        """Find the snapshots to look at; for a state of an older version those since the oldest
        announcement that is kept.
        """
        if state.looked_at is not None:
            return since(metadata, head, state.looked_at)
        marks = {d.snapshot_id for d in state.done.values()}
        line = list(metadata.ancestors(head)) if marks else []
        places = [n for n, s in enumerate(line) if s.snapshot_id in marks]
        return Since(tuple(reversed(line[: max(places)])) if places else ())

    def _all_done(
        self, state: PartitionState, metadata: TableMetadata, storage: Storage
    ) -> WrittenPartitions:
        return WrittenPartitions(
            frozenset(), frozenset(self.archives.all(state, metadata, storage))
        )


@dataclass(frozen=True)
class TrackPartitions:
    """Record the partitions that the commit's other actions wrote to, and the watermark, in the
    same commit (an action of a commit).
    """

    branch: str
    options: PartitionCommitOptions
    watermark_ms: int | None
    records: PartitionRecords = field(repr=False)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        if context.only_new:
            return ()
        states = [
            s
            for s in context.states.values()
            if metadata.snapshots.by_id(s.snapshot_id) is not None
        ]
        touched = self._judgeable(touched_partitions(metadata, states, context.storage), metadata)
        if not touched.data and not touched.deletes:
            return ()
        own = {s.snapshot_id for s in states}
        base = next(
            (
                s
                for s in metadata.ancestors(parent_of(metadata, self.branch))
                if s.snapshot_id not in own
            ),
            None,
        )
        stored_before = state_of(metadata, self.branch)
        before = self.records.caught_up(stored_before, metadata, base, context.storage)
        watermark = self.watermark_ms
        if self.options.watermark_column is not None:
            watermark = _watermark(metadata, states, self.options)

        find = self.records.finder(before, metadata, context.storage)
        after = with_written(before, touched, find, context.now_ms, watermark)
        head = parent_of(metadata, self.branch)
        after = replace(after, looked_at=None if head is None else head.snapshot_id)
        return () if after == stored_before else stored(after, self.branch)

    def _judgeable(self, touched: WrittenPartitions, metadata: TableMetadata) -> WrittenPartitions:
        """Leave out the partitions whose time cannot be determined if on-unparsable is warn. Raises
        UnparsablePartition otherwise.
        """
        if self.options.trigger != PARTITION_TIME:
            return touched
        times, wrong = TimeExtractor(self.options), set[Partition]()
        for partition in touched.data | touched.deletes:
            fields = fields_of(metadata, partition.spec_id)
            try:
                times.time_ms(partition, fields)
            except UnparsablePartition as e:
                if self.options.on_unparsable == "fail":
                    raise
                wrong.add(partition)
                log.warning(
                    "Partition %s is not tracked: %s",
                    path_of(partition, fields, self.options.default_name),
                    e,
                )
        return WrittenPartitions(touched.data - wrong, touched.deletes - wrong)


def touched_partitions(
    metadata: TableMetadata, states: Sequence[SnapshotState], storage: Storage
) -> WrittenPartitions:
    """List the partitions that the snapshots of a commit added data files and delete files to, and
    removed data files from; those of unpartitioned specs do not count."""
    partitions: list[frozenset[Partition]] = []
    for deletes in (False, True):
        places = {(f.spec_id, f.partition) for f in _added(states, deletes) if f.partition}
        partitions.append(
            frozenset(partition_of(metadata, spec_id, values) for spec_id, values in places)
        )
    removed = frozenset[Partition]()
    for state in states:
        snapshot = metadata.snapshot_by_id(state.snapshot_id)
        if snapshot.summary.get("deleted-data-files", "0") != "0":
            removed |= changes_in(snapshot, metadata, storage).partitions
    return WrittenPartitions(partitions[0], (partitions[1] | removed) - partitions[0])


def _added(states: Sequence[SnapshotState], deletes: bool) -> Iterator[DataFile]:
    for state in states:
        for manifest in (state.new_deletes if deletes else state.new_data) or ():
            yield from (entry.data_file for entry in state.writer.entries[manifest.manifest_path])


def watermark_field(metadata: TableMetadata, name: str) -> NestedField:
    """Find the column of the option watermark-column. Raises InvalidInput unless it is there and
    holds times.
    """
    column = metadata.schema().get_field(name)
    if column is None or not isinstance(column.field_type, _TIMES):
        fault = "does not exist" if column is None else f"is of type {column.field_type}"
        hint = "Name a column of dates or timestamps."
        raise InvalidInput(
            f"watermark-column: column {name} {fault}.",
            hint=hint,
            option="watermark-column",
            table=metadata.location,
        )
    return column


def _watermark(
    metadata: TableMetadata, states: Sequence[SnapshotState], options: PartitionCommitOptions
) -> int | None:
    """Read the watermark from the newest value of the column in the files that the commit adds;
    None: it adds none.
    """
    assert options.watermark_column is not None
    column, zone = watermark_field(metadata, options.watermark_column), zone_of(options.zone)
    assert zone is not None
    newest = [_newest(f, column, zone) for f in _added(states, deletes=False)]
    values = [ms for ms in newest if ms is not None]
    return max(values) - options.watermark_delay_ms if values else None


def _newest(file: DataFile, column: NestedField, zone: tzinfo) -> int | None:
    bound = (file.upper_bounds or {}).get(column.field_id)
    if bound is None:
        nulls = (file.null_value_counts or {}).get(column.field_id)
        if file.record_count == 0 or nulls == file.record_count:
            return None
        raise InvalidInput(
            f"watermark-column: a file has no upper bound of column {column.name}, so the watermark is not known.",
            hint=f"Set the table property write.metadata.metrics.column.{column.name} to full.",
            option="watermark-column",
            file=file.file_path,
        )
    value = from_bytes(column.field_type, bound)
    if isinstance(column.field_type, DateType):
        ms = value * 86_400_000
    else:
        ms = value // _PER_MS[type(column.field_type)]
    if isinstance(column.field_type, TimestamptzType | TimestamptzNanoType):
        return int(ms)
    return instant_ms(_EPOCH + timedelta(milliseconds=ms), zone)


@dataclass(frozen=True)
class MarkDone:
    """Record that partitions were announced, and what other writers changed (an action of a commit
    of its own). `judged`: see `with_done`."""

    branch: str
    judged: Mapping[Partition, Pending | None]
    watermark_ms: int | None
    records: PartitionRecords = field(repr=False)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        stored_before = state_of(metadata, self.branch)
        head = parent_of(metadata, self.branch)
        before = self.records.caught_up(stored_before, metadata, head, context.storage)
        find = self.records.finder(before, metadata, context.storage)
        after = with_done(
            before,
            self.judged,
            find,
            context.now_ms,
            head.snapshot_id if head else None,
            self.watermark_ms,
        )
        return () if after == stored_before else updates_to(after, metadata, self.branch)
