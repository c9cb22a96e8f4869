"""Manage branches, tags, rollback and fast-forward: PyIceberg's ManageSnapshots with Java's checks;
and set and remove the statistics files of snapshots. Functions take the metadata as it is at each
attempt to commit, and return the updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from frazil.commit.actions import Action, MetadataChange
from frazil.commit.cherry_pick import CherryPick
from frazil.commit.done_once import moved_marks, without_marks
from frazil.errors import NoSuchRefError, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH, PartitionStatisticsFile, SnapshotRef, StatisticsFile
from frazil.spec.updates import (
    RemovePartitionStatistics,
    RemoveSnapshotRef,
    RemoveStatistics,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
    Update,
)
from frazil.spec.values import Time, milliseconds
from frazil.storage import absolute


def create_ref(
    metadata: TableMetadata,
    snapshot_id: int | None,
    name: str,
    kind: str,
    **retention: Any,
) -> Sequence[Update]:
    """Create a branch or tag at a snapshot (None: the current one). Raises ValidationError when the
    table has no snapshot.
    """
    if name in metadata.refs:
        moves = f"replace_{kind}(…), in SQL CREATE OR REPLACE {kind.upper()}, moves it."
        hint = moves if metadata.refs[name].type == kind else None
        raise ValidationError(f"Ref {name} already exists.", hint=hint, table=metadata.location)
    target = snapshot_id if snapshot_id is not None else metadata.current_snapshot_id
    if target is None:
        raise ValidationError(
            f"Cannot create {kind} {name}: the table has no snapshot yet",
            table=metadata.location,
        )
    metadata.snapshot_by_id(target)
    _check_retention(metadata, retention)
    return (SetSnapshotRef(name, SnapshotRef(target, kind, **retention)),)


def remove_ref(metadata: TableMetadata, name: str, kind: str) -> Sequence[Update]:
    if name == MAIN_BRANCH:
        raise ValidationError("Cannot remove main branch", table=metadata.location)
    _existing(metadata, name, kind)
    return (
        RemoveSnapshotRef(name),
        *(without_marks(metadata, name) if kind == "branch" else ()),
    )


def rename_branch(metadata: TableMetadata, name: str, new_name: str) -> Sequence[Update]:
    if name == MAIN_BRANCH:
        raise ValidationError("Cannot rename main branch", table=metadata.location)
    ref = _existing(metadata, name)
    if new_name in metadata.refs:
        raise ValidationError(f"Ref {new_name} already exists.", table=metadata.location)
    return (
        RemoveSnapshotRef(name),
        SetSnapshotRef(new_name, ref),
        *moved_marks(metadata, name, new_name),
    )


def replace_ref(
    metadata: TableMetadata, name: str, snapshot_id: int, kind: str
) -> Sequence[Update]:
    ref = _existing(metadata, name, kind)
    metadata.snapshot_by_id(snapshot_id)
    return _moved(metadata, name, replace(ref, snapshot_id=snapshot_id))


def set_retention(metadata: TableMetadata, name: str, **retention: Any) -> Sequence[Update]:
    """Set the retention of a ref: min_snapshots_to_keep and max_snapshot_age_ms (branches only),
    max_ref_age_ms (branches and tags).
    """
    ref = _existing(metadata, name)
    if not ref.is_branch and (
        retention.get("min_snapshots_to_keep") or retention.get("max_snapshot_age_ms")
    ):
        raise ValidationError(
            f"Tags do not support snapshot retention: {name}", table=metadata.location
        )
    _check_retention(metadata, retention)
    return _moved(
        metadata, name, replace(ref, **{k: v for k, v in retention.items() if v is not None})
    )


def _check_retention(metadata: TableMetadata, retention: Mapping[str, Any]) -> None:
    """Raise ValidationError for numbers that no reference can have: Java reads no table with one."""
    for key, value in retention.items():
        if value is not None and value <= 0:
            raise ValidationError(
                f"{key} must be greater than 0, got {value}", table=metadata.location
            )


def set_current(
    metadata: TableMetadata, snapshot_id: int | None = None, ref_name: str | None = None
) -> Sequence[Update]:
    if (snapshot_id is None) == (ref_name is None):
        raise ValidationError("Give either snapshot_id or ref_name", table=metadata.location)
    target = (
        metadata.ref(ref_name).snapshot_id
        if ref_name is not None
        else metadata.snapshot_by_id(snapshot_id or 0).snapshot_id
    )
    return _moved_main(metadata, target)


def rollback_to(metadata: TableMetadata, snapshot_id: int) -> Sequence[Update]:
    metadata.snapshot_by_id(snapshot_id)
    if not metadata.is_ancestor(snapshot_id, metadata.current_snapshot()):
        raise ValidationError(
            f"Cannot roll back to snapshot, not an ancestor of the current state: {snapshot_id}",
            hint="set_current_snapshot moves to any snapshot.",
            table=metadata.location,
            snapshot_id=snapshot_id,
        )
    return _moved_main(metadata, snapshot_id)


def rollback_to_timestamp(metadata: TableMetadata, timestamp_ms: int) -> Sequence[Update]:
    """Roll back to the newest ancestor of the current snapshot that is older than the time."""
    older = [
        s for s in metadata.ancestors(metadata.current_snapshot()) if s.timestamp_ms < timestamp_ms
    ]
    if not older:
        raise ValidationError(
            f"Cannot roll back, no valid snapshot older than: {timestamp_ms}",
            table=metadata.location,
        )
    return _moved_main(metadata, max(older, key=lambda s: s.timestamp_ms).snapshot_id)


def fast_forward(metadata: TableMetadata, branch: str, to: str) -> Sequence[Update]:
    """Move `branch` to the head of `to`, of which it must be an ancestor; a missing branch is
    created.
    """
    target = metadata.ref(to)
    current = metadata.refs.get(branch) or (
        metadata.ref(branch) if branch == MAIN_BRANCH and metadata.current_snapshot_id else None
    )
    if current is None:
        return (SetSnapshotRef(branch, SnapshotRef(target.snapshot_id)),)
    if not current.is_branch:
        raise ValidationError(f"Ref {branch} is a tag not a branch", table=metadata.location)
    if not metadata.is_ancestor(current.snapshot_id, metadata.snapshot_by_id(target.snapshot_id)):
        raise ValidationError(
            f"Cannot fast-forward: {branch} is not an ancestor of {to}", table=metadata.location
        )
    return _moved(metadata, branch, replace(current, snapshot_id=target.snapshot_id))


def _existing(metadata: TableMetadata, name: str, kind: str = "") -> SnapshotRef:
    ref = metadata.refs.get(name)
    if ref is None and name == MAIN_BRANCH and metadata.current_snapshot_id is not None:
        ref = SnapshotRef(metadata.current_snapshot_id)
    if ref is None:
        raise NoSuchRefError(f"Ref does not exist: {name}", table=metadata.location)
    if kind and ref.type != kind:
        raise ValidationError(f"Ref {name} is a {ref.type} not a {kind}", table=metadata.location)
    return ref


def _moved(metadata: TableMetadata, name: str, ref: SnapshotRef) -> Sequence[Update]:
    return () if metadata.refs.get(name) == ref else (SetSnapshotRef(name, ref),)


def _moved_main(metadata: TableMetadata, snapshot_id: int) -> Sequence[Update]:
    if snapshot_id == metadata.current_snapshot_id:
        return ()
    return _moved(
        metadata,
        MAIN_BRANCH,
        replace(metadata.refs.get(MAIN_BRANCH, SnapshotRef(snapshot_id)), snapshot_id=snapshot_id),
    )


class ManageSnapshots:
    """Manage branches and tags, roll back, fast-forward and cherry-pick: `with t.manage_snapshots()
    as ms: ms.create_tag(id, "v1").create_branch(id, "audit")`. All calls are applied in order, in
    one commit.
    """

    def __init__(self) -> None:
        self._steps: list[Action] = []

    def _do(
        self, change: Callable[..., Sequence[Update]], *arguments: Any, **named: Any
    ) -> ManageSnapshots:
        self._steps.append(MetadataChange(lambda m: change(m, *arguments, **named)))
        return self

    @property
    def steps(self) -> Sequence[Action]:
        """Return the actions to commit, in order."""
        return tuple(self._steps)

    def create_tag(
        self, snapshot_id: int | None, tag_name: str, max_ref_age_ms: int | None = None
    ) -> ManageSnapshots:
        """Create a tag. `snapshot_id` None: at the current snapshot. `max_ref_age_ms`: expiry
        removes it after so long; None: the table property `history.expire.max-ref-age-ms` decides.
        Raises ValidationError when a ref of that name exists, NoSuchSnapshotError."""
        return self._do(create_ref, snapshot_id, tag_name, "tag", max_ref_age_ms=max_ref_age_ms)

    def create_branch(
        self,
        snapshot_id: int | None,
        branch_name: str,
        max_ref_age_ms: int | None = None,
        max_snapshot_age_ms: int | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> ManageSnapshots:
        """Create a branch. `snapshot_id` None: at the current snapshot."""
        return self._do(
            create_ref,
            snapshot_id,
            branch_name,
            "branch",
            max_ref_age_ms=max_ref_age_ms,
            max_snapshot_age_ms=max_snapshot_age_ms,
            min_snapshots_to_keep=min_snapshots_to_keep,
        )

    def remove_tag(self, tag_name: str) -> ManageSnapshots:
        """Remove a tag; its snapshot stays until it expires. Raises ValidationError for a branch,
        NoSuchRefError."""
        return self._do(remove_ref, tag_name, "tag")

    def remove_branch(self, branch_name: str) -> ManageSnapshots:
        """Remove a branch; its snapshots stay until they expire. Raises ValidationError for main
        and for a tag, NoSuchRefError."""
        return self._do(remove_ref, branch_name, "branch")

    def rename_branch(self, branch_name: str, new_name: str) -> ManageSnapshots:
        """Rename a branch. Raises ValidationError for main and when the new name is taken,
        NoSuchRefError."""
        return self._do(rename_branch, branch_name, new_name)

    def replace_branch(self, branch_name: str, snapshot_id: int) -> ManageSnapshots:
        """Let a branch point to another snapshot. Raises ValidationError for a tag, NoSuchRefError,
        NoSuchSnapshotError."""
        return self._do(replace_ref, branch_name, snapshot_id, "branch")

    def replace_tag(self, tag_name: str, snapshot_id: int) -> ManageSnapshots:
        """Let a tag point to another snapshot. Raises ValidationError for a branch, NoSuchRefError,
        NoSuchSnapshotError."""
        return self._do(replace_ref, tag_name, snapshot_id, "tag")

    def set_retention(
        self,
        name: str,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
    ) -> ManageSnapshots:
        """Set how long a branch or tag and the snapshots of a branch are kept; settings that are
        not given stay.
        """
        return self._do(
            set_retention,
            name,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )

    def set_current_snapshot(
        self, snapshot_id: int | None = None, ref_name: str | None = None
    ) -> ManageSnapshots:
        """Set main to any snapshot, by its id or by a branch or tag. Raises ValidationError unless
        exactly one of both is given, NoSuchRefError, NoSuchSnapshotError."""
        return self._do(set_current, snapshot_id, ref_name)

    def rollback_to_snapshot(self, snapshot_id: int) -> ManageSnapshots:
        """Set main back to one of its ancestors. Raises ValidationError for a snapshot that is
        none, NoSuchSnapshotError."""
        return self._do(rollback_to, snapshot_id)

    def rollback_to_timestamp(self, timestamp_ms: Time) -> ManageSnapshots:
        """Roll main back to its newest ancestor that is older than a time (milliseconds since the
        epoch, datetime or ISO text).
        """
        return self._do(rollback_to_timestamp, milliseconds(timestamp_ms))

    def cherrypick_snapshot(self, snapshot_id: int) -> ManageSnapshots:
        """Apply the changes of a staged snapshot (an append or a partition overwrite) to main."""
        self._steps.append(CherryPick(snapshot_id=snapshot_id))
        return self

    def fast_forward(self, branch: str, to: str) -> ManageSnapshots:
        """Move a branch to the head of another branch or tag, of which it must be an ancestor; a
        missing branch is created. Raises ValidationError when it is no ancestor, NoSuchRefError
        when there is no `to`."""
        return self._do(fast_forward, branch, to)


def _with_absolute_path(
    statistics_file: StatisticsFile | PartitionStatisticsFile | dict[str, Any],
) -> dict[str, Any]:
    """Return a statistics file as a JSON object with an absolute path."""
    statistics = (
        statistics_file if isinstance(statistics_file, dict) else statistics_file.to_object()
    )
    path = statistics.get("statistics-path")
    return statistics if path is None else {**statistics, "statistics-path": absolute(str(path))}


class UpdateStatistics:
    """Set and remove the statistics files of snapshots, given as classes of
    `frazil.table.statistics` or as JSON objects of the spec (`snapshot-id`, `statistics-path`, …).
    """

    def __init__(self) -> None:
        self._updates: list[Update] = []

    def set_statistics(self, statistics_file: StatisticsFile | dict[str, Any]) -> UpdateStatistics:
        """Set the statistics file (Puffin) of its snapshot, as an object or a dict of the spec's
        names."""
        self._updates.append(SetStatistics(_with_absolute_path(statistics_file)))
        return self

    def remove_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Remove the statistics file of a snapshot from the metadata."""
        self._updates.append(RemoveStatistics(snapshot_id))
        return self

    def set_partition_statistics(
        self, partition_statistics_file: PartitionStatisticsFile | dict[str, Any]
    ) -> UpdateStatistics:
        """Set the partition statistics file of its snapshot, as an object or a dict of the spec's
        names."""
        self._updates.append(SetPartitionStatistics(_with_absolute_path(partition_statistics_file)))
        return self

    def remove_partition_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Remove the partition statistics file of a snapshot from the metadata."""
        self._updates.append(RemovePartitionStatistics(snapshot_id))
        return self

    def updates(self, _: object) -> Sequence[Update]:
        """Return the metadata updates that set and remove the files, in the order of the calls."""
        return tuple(self._updates)
