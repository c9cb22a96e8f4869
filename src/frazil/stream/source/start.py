"""Resolve a starting strategy to a position on a branch (Flink's table of strategies;
docs/streams.md shows it with its edge cases).
"""

from __future__ import annotations

from frazil.errors import NoSuchSnapshotError
from frazil.scan.snapshot_ref import tagged_snapshot_id
from frazil.spec.snapshot import Snapshot
from frazil.stream.source.history import StreamHistory
from frazil.stream.source.offset import NO_SNAPSHOT, Position
from frazil.stream.source.options import StartingStrategy, StreamOptions


def resolve_start(
    history: StreamHistory, options: StreamOptions, scan_order: str = ""
) -> Position | None:
    """Return where a stream starts, given the history of its branch; None if that is not known
    before the first snapshot at or after Java's `stream-from-timestamp`.

    Raises NoSuchSnapshotError and NoSuchRefError for a start that is not on the branch.
    """
    head = history.head
    match options.strategy:
        case StartingStrategy.SNAPSHOT_ID:
            return _from_id(history, options)
        case StartingStrategy.SNAPSHOT_TIMESTAMP:
            return _from_time(history, options)
        case StartingStrategy.JAVA_TIMESTAMP:
            return _from_java_time(history, options)
    if head is None:
        return Position(NO_SNAPSHOT)
    match options.strategy:
        case StartingStrategy.TABLE_SCAN_THEN_INCREMENTAL:
            return Position(head.snapshot_id, "scan", 0, scan_order)
        case StartingStrategy.EARLIEST:
            return earliest(history)
        case StartingStrategy.LATEST if head.operation == "append" or options.changes:
            return _before(head)
    return Position(head.snapshot_id)  # the newest snapshot is read only if it is an append


def earliest(history: StreamHistory) -> Position:
    """Return the position before the oldest ancestor of the head that is kept."""
    oldest = history.oldest()
    return Position(NO_SNAPSHOT) if oldest is None else _before(oldest)


def after_loss(
    history: StreamHistory, lost: Position, policy: str, scan_order: str = ""
) -> Position:
    """Return where a stream goes on whose position is lost: `latest` after the head, `earliest` so
    that no row which the kept history holds stays unread.

    The rows of expired appends, and of an initial scan that was not at its end, are in the oldest
    snapshot that is kept, so this one is scanned whole. Only after a rollback that left the lost
    position's own line in the metadata are the rows before it known to be read.
    """
    if policy == "latest":
        return latest(history)
    oldest = history.oldest()
    if oldest is None:
        return Position(NO_SNAPSHOT)
    line = StreamHistory(history.metadata, history.metadata.snapshots.by_id(lost.snapshot_id))
    has_read_before = lost.phase != "scan" and line.place_of(oldest.snapshot_id) is not None
    return (
        _before(oldest)
        if has_read_before and oldest.operation == "append"
        else Position(oldest.snapshot_id, "scan", 0, scan_order)
    )


def latest(history: StreamHistory) -> Position:
    """Return the position after the head."""
    return Position(NO_SNAPSHOT if history.head is None else history.head.snapshot_id)


def _before(snapshot: Snapshot) -> Position:
    return Position(snapshot.snapshot_id, "files")


def _from_id(history: StreamHistory, options: StreamOptions) -> Position:
    metadata, wanted = history.metadata, options.start_snapshot_id
    if options.start_tag is not None:
        wanted = tagged_snapshot_id(metadata, options.start_tag, "start-tag")
    assert wanted is not None
    if history.place_of(wanted) is None:
        raise NoSuchSnapshotError(
            f"Start snapshot id not found in history: {wanted} (branch {options.branch} of table {metadata.location}).",
            hint="It may have expired or be on another branch; t.history() lists the snapshots that are kept.",
            table=metadata.location,
            snapshot_id=wanted,
        )
    return Position(wanted, "files")


def _from_time(history: StreamHistory, options: StreamOptions) -> Position:
    metadata, moment = history.metadata, options.start_timestamp_ms
    assert moment is not None
    snapshot = _oldest_since(history, moment)
    if snapshot is None:
        raise NoSuchSnapshotError(
            f"Cannot find a snapshot after: {moment} (branch {options.branch} of table {metadata.location}).",
            hint="starting-strategy=INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE reads what comes from now on.",
            table=metadata.location,
        )
    if _is_oldest_of_a_cut_history(history, snapshot, moment):
        raise NoSuchSnapshotError(
            f"Cannot find a snapshot older than {moment}: the history of table {metadata.location} before snapshot {snapshot.snapshot_id} "
            f"({snapshot.timestamp_ms}) has expired.",
            hint="Use a later start-snapshot-timestamp, or starting-strategy=INCREMENTAL_FROM_EARLIEST_SNAPSHOT.",
            table=metadata.location,
        )
    return _before(snapshot)


def _from_java_time(history: StreamHistory, options: StreamOptions) -> Position | None:
    assert options.start_timestamp_ms is not None
    snapshot = _oldest_since(history, options.start_timestamp_ms)
    return None if snapshot is None else _before(snapshot)


def _oldest_since(history: StreamHistory, moment: int) -> Snapshot | None:
    """Return the oldest of the ancestors that were all committed at this time or later, as Java
    looks for it from the head.
    """
    oldest: Snapshot | None = None
    for snapshot in history.metadata.ancestors(history.head):
        if snapshot.timestamp_ms < moment:
            return oldest
        oldest = snapshot
        if snapshot.timestamp_ms == moment:
            return oldest
    return oldest


def _is_oldest_of_a_cut_history(history: StreamHistory, snapshot: Snapshot, moment: int) -> bool:
    parent = snapshot.parent_snapshot_id
    return (
        parent is not None
        and history.metadata.snapshots.by_id(parent) is None
        and snapshot.timestamp_ms != moment
    )
