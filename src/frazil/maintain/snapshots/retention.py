"""Decide which snapshots and refs expire, by the retention policies of the table and of its refs
(spec, "Snapshot Retention Policy").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from frazil.errors import NoSuchSnapshotError, ValidationException
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import EXPIRE_MAX_REF_AGE, EXPIRE_MAX_SNAPSHOT_AGE, EXPIRE_MIN_SNAPSHOTS
from frazil.spec.shown import age_text, count_text, time_text
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef

STREAM_MARKS = (
    ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId"),
    ("flink.job-id", "flink.max-committed-checkpoint-id"),
)
"""Summary keys in which streams of Java Iceberg keep their name, and the last batch that they
committed. (Frazil's own marks are table properties, which expiry leaves alone.)"""


@dataclass(frozen=True)
class RetentionRequest:
    """Hold the arguments of an expiry; times are in milliseconds since 1970.

    `older_than_ms` None: by history.expire.max-snapshot-age-ms. `retain_last` None:
    history.expire.min-snapshots-to-keep. `snapshot_ids`: snapshots that expire whatever their age.
    `by_age` False: no other snapshots expire, as with PyIceberg's `by_id`.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_age: bool = True


@dataclass(frozen=True)
class Expired:
    """Name the snapshots and refs that expire, in the order of the metadata."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()


def expired_in(metadata: TableMetadata, request: RetentionRequest, now_ms: int) -> Expired:
    """Return the snapshots and refs that expire. Raises NoSuchSnapshotError for an id that the
    table does not have, and ValidationException for one that a branch or tag names."""
    refs = _retained_refs(metadata, now_ms) if request.by_age else _all_refs(metadata)
    _check_ids(metadata, request.snapshot_ids, refs)
    named = set(request.snapshot_ids)
    if not request.by_age:
        return Expired(tuple(i for i in metadata.snapshots.ids if i in named))
    retained = _retained_snapshots(metadata, request, refs, now_ms)
    gone = tuple(i for i in metadata.snapshots.ids if i in named or i not in retained)
    return Expired(gone, tuple(name for name in metadata.refs if name not in refs))


def why_kept(metadata: TableMetadata, request: RetentionRequest, now_ms: int) -> str:
    """Say why an expiry that takes no snapshot takes none."""
    count = count_text(len(metadata.snapshots), "snapshot")
    longest = EXPIRE_MAX_SNAPSHOT_AGE.of(metadata.properties)
    since = now_ms - longest if request.older_than_ms is None else request.older_than_ms
    if all(s.timestamp_ms >= since for s in metadata.snapshots):
        if request.older_than_ms is not None:
            return f"{count}, none older than {time_text(since)}"
        return f"{count}, all younger than {age_text(longest)} (history.expire.max-snapshot-age-ms)"
    fewest = EXPIRE_MIN_SNAPSHOTS.of(metadata.properties)
    fewest = fewest if request.retain_last is None else request.retain_last
    return (
        f"{count}; those that are old enough are named by a branch or tag, are among the newest "
        f"{fewest:,} of a branch, which are kept, or hold the marks of streams"
    )


def _all_refs(metadata: TableMetadata) -> dict[str, SnapshotRef]:
    head = metadata.current_snapshot_id
    return (
        metadata.refs
        if MAIN_BRANCH in metadata.refs or head is None
        else {MAIN_BRANCH: SnapshotRef(head), **metadata.refs}
    )


def _retained_refs(metadata: TableMetadata, now_ms: int) -> dict[str, SnapshotRef]:
    """Return the refs that stay: main, and those whose snapshot is not older than their
    max-ref-age-ms.
    """
    longest = EXPIRE_MAX_REF_AGE.of(metadata.properties)
    retained: dict[str, SnapshotRef] = {}
    for name, ref in _all_refs(metadata).items():
        snapshot = metadata.snapshots.by_id(ref.snapshot_id)
        age = longest if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name == MAIN_BRANCH or (snapshot is not None and now_ms - snapshot.timestamp_ms <= age):
            retained[name] = ref
    return retained


def _check_ids(metadata: TableMetadata, ids: Collection[int], refs: dict[str, SnapshotRef]) -> None:
    for snapshot_id in ids:
        if metadata.snapshots.by_id(snapshot_id) is None:
            raise NoSuchSnapshotError(
                f"Cannot expire snapshot {snapshot_id}: table {metadata.location} does not have it.",
                hint="t.snapshots() lists those that are there.",
                table=metadata.location,
                snapshot_id=snapshot_id,
            )
        if names := [name for name, ref in refs.items() if ref.snapshot_id == snapshot_id]:
            raise ValidationException(
                f"Cannot expire {snapshot_id}. Still referenced by refs: {names}",
                hint="Remove the branch or tag first.",
                table=metadata.location,
                snapshot_id=snapshot_id,
            )


def _retained_snapshots(
    metadata: TableMetadata, request: RetentionRequest, refs: dict[str, SnapshotRef], now_ms: int
) -> set[int]:
    properties = metadata.properties
    longest = EXPIRE_MAX_SNAPSHOT_AGE.of(properties)
    older_than = now_ms - longest if request.older_than_ms is None else request.older_than_ms
    fewest = (
        EXPIRE_MIN_SNAPSHOTS.of(properties) if request.retain_last is None else request.retain_last
    )
    retained: set[int] = set()
    reached: set[int] = set()
    for ref in refs.values():
        retained.add(ref.snapshot_id)
        reached.add(ref.snapshot_id)
        if ref.is_branch:
            since = (
                older_than if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
            )
            retained |= _of_branch(metadata, ref, since, ref.min_snapshots_to_keep or fewest)
            reached.update(_ancestor_ids(metadata, ref, reached))
    retained.update(
        s.snapshot_id
        for s in metadata.snapshots
        if s.timestamp_ms >= older_than and s.snapshot_id not in reached
    )
    return retained | _marked(metadata, refs, retained, now_ms - longest)


def _of_branch(metadata: TableMetadata, branch: SnapshotRef, since: int, fewest: int) -> set[int]:
    """Return the newest snapshots of a branch: at least `fewest`, and those up to the first that is
    older than `since`.
    """
    retained: set[int] = set()
    for s in metadata.ancestors(metadata.snapshots.by_id(branch.snapshot_id)):
        if len(retained) >= fewest and s.timestamp_ms < since:
            break
        retained.add(s.snapshot_id)
    return retained


def _ancestor_ids(
    metadata: TableMetadata, branch: SnapshotRef, seen_ids: set[int]
) -> Iterator[int]:
    """Yield the ancestors of a branch that are not known yet, so that branches with a common
    history cost its length once.
    """
    for n, s in enumerate(metadata.ancestors(metadata.snapshots.by_id(branch.snapshot_id))):
        if n and s.snapshot_id in seen_ids:
            return
        yield s.snapshot_id


def _marked(
    metadata: TableMetadata, refs: dict[str, SnapshotRef], retained: Collection[int], since: int
) -> set[int]:
    """Return the newest snapshot of each stream of Java Iceberg (on Spark or Flink) that committed
    after `since`: its summary tells the stream, when it is started again, which batches are in the
    table already."""
    candidates = [
        s
        for s in metadata.snapshots
        if s.timestamp_ms >= since and any(name in s.summary for name, _ in STREAM_MARKS)
    ]
    if all(s.snapshot_id in retained for s in candidates):
        return set()
    wanted = {s.snapshot_id for s in candidates}
    marked_ids: set[int] = set()
    for ref in refs.values():
        if ref.is_branch:
            marked_ids |= _newest_marks(metadata, ref, wanted)
    return marked_ids


def _newest_marks(metadata: TableMetadata, branch: SnapshotRef, wanted: set[int]) -> set[int]:
    seen: dict[tuple[str, ...], Snapshot] = {}
    for s in metadata.ancestors(metadata.snapshots.by_id(branch.snapshot_id)):
        for name, batch in STREAM_MARKS:
            if s.snapshot_id in wanted and name in s.summary and batch in s.summary:
                seen.setdefault((name, s.summary[name], s.summary.get("flink.operator-id", "")), s)
    return {s.snapshot_id for s in seen.values()}
