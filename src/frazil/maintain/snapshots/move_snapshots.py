"""Move branches between snapshots under the names of Java's procedures: roll back, set current,
cherry-pick, publish, fast-forward.

The changes themselves are those of `t.manage_snapshots()`; here they get Java's output columns and
dry runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from frazil.catalog import LoadedTable
from frazil.commit.actions import Action, MetadataChange
from frazil.commit.cherry_pick import CherryPick
from frazil.commit.context import Context
from frazil.commit.done_once import AlreadyDone
from frazil.commit.evolve import manage_snapshots
from frazil.errors import InvalidInput, ValidationException
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_state
from frazil.maintain.progress import ProgressCallback, progress
from frazil.ops.operation import Preview
from frazil.spec.metadata import TableMetadata
from frazil.spec.shown import time_text
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.updates import Update

_SHOWN = 20  # ancestors in a repr


@dataclass(frozen=True, kw_only=True, repr=False)
class MovedSnapshotResult(ProcedureResult):
    """Report which snapshot was current before (`previous_snapshot_id`, None: the table was empty),
    and which is now. In a dry run that picks a snapshot, `current_snapshot_id` is None, since the
    new snapshot has no id yet."""

    previous_snapshot_id: int | None = None
    current_snapshot_id: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class PickedSnapshotResult(ProcedureResult):
    """Report which snapshot was picked (`source_snapshot_id`), and which one is current now
    (`current_snapshot_id`, None in a dry run that would make one)."""

    source_snapshot_id: int | None = None
    current_snapshot_id: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class FastForwardResult(ProcedureResult):
    """Report that the branch `branch_updated` was moved, from the snapshot `previous_ref` (None:
    the branch was created) to `updated_ref`."""

    branch_updated: str = MAIN_BRANCH
    previous_ref: int | None = None
    updated_ref: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class AncestorsResult(ProcedureResult):
    """List the ancestors of a snapshot. `ancestors`: pairs of snapshot id and milliseconds since
    1970 at which it was committed, the snapshot itself first."""

    ancestors: tuple[tuple[int, int], ...] = ()

    def to_arrow(self) -> pa.Table:
        """Return one row per ancestor: snapshot_id, timestamp."""
        columns = list(zip(*self.ancestors, strict=True)) or [(), ()]
        return pa.table(
            {
                n: pa.array(c, pa.int64())
                for n, c in zip(("snapshot_id", "timestamp"), columns, strict=True)
            }
        )

    def __repr__(self) -> str:
        lines = [f"{snapshot_id}  {time_text(ms)}" for snapshot_id, ms in self.ancestors[:_SHOWN]]
        more = (
            [f"and {len(self.ancestors) - _SHOWN:,} older ones"]
            if len(self.ancestors) > _SHOWN
            else []
        )
        return "\n    ".join(
            [f"AncestorsResult({len(self.ancestors):,} snapshots, newest first)", *lines, *more]
        )


@dataclass(frozen=True)
class _Moved:
    """Hold the states before and after a change. `made_ids`: the snapshots that the change made,
    whose ids a dry run cannot know.
    """

    before: TableMetadata
    after: TableMetadata
    dry_run: bool
    seconds: float
    made_ids: frozenset[int] = frozenset()

    def head(self, branch: str = MAIN_BRANCH) -> int | None:
        """Return the snapshot that the branch is at now; None for one that a dry run would make."""
        snapshot_id = head_of(self.after, branch)
        return None if snapshot_id in self.made_ids else snapshot_id


@dataclass
class _Recorded:
    """Record the state of the table that an action was last applied to."""

    action: Action
    before: TableMetadata

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        self.before = metadata
        return self.action.apply(metadata, context)


def head_of(metadata: TableMetadata, branch: str) -> int | None:
    """Return the snapshot of a branch; None when there is no such branch."""
    if branch == MAIN_BRANCH:
        return metadata.current_snapshot_id
    ref = metadata.refs.get(branch)
    return None if ref is None else ref.snapshot_id


def _move(
    table: MaintainedTable, action: Action, dry_run: bool, callback: ProgressCallback | None
) -> _Moved:
    """Commit the action to the newest state of the table; in a dry run, apply it to a copy of the
    metadata.
    """
    with progress(1, "branches moved", callback) as shown:
        moved = _moved(table, action, dry_run)
        shown.advance()
    return moved


def _moved(table: MaintainedTable, action: Action, dry_run: bool) -> _Moved:
    started = time.monotonic()
    newest = newest_state(table, dry_run)
    if dry_run:
        preview = Preview(newest.metadata, newest.storage)
        try:
            after = preview.metadata([action])
        finally:
            preview.remove()
        return _Moved(
            newest.metadata, after, True, time.monotonic() - started, preview.snapshot_ids
        )
    states = [newest.loaded]

    def on_commit(loaded: LoadedTable) -> None:
        states.append(loaded)
        table.on_commit(loaded)

    recorded = _Recorded(action, newest.metadata)
    with replace(newest, on_commit=on_commit).begin() as operation:
        operation.stage(recorded)
    return _Moved(recorded.before, states[-1].metadata, False, time.monotonic() - started)


def _moved_main(
    table: MaintainedTable, action: Action, dry_run: bool, callback: ProgressCallback | None
) -> MovedSnapshotResult:
    moved = _move(table, action, dry_run, callback)
    return MovedSnapshotResult(
        previous_snapshot_id=moved.before.current_snapshot_id,
        current_snapshot_id=moved.head(),
        dry_run=dry_run,
        seconds=moved.seconds,
    )


def rollback_to_snapshot(
    table: MaintainedTable,
    snapshot_id: int,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> MovedSnapshotResult:
    """Roll main back to one of its ancestors."""
    return _moved_main(
        table,
        MetadataChange(lambda m: manage_snapshots.rollback_to(m, snapshot_id)),
        dry_run,
        callback,
    )


def rollback_to_timestamp(
    table: MaintainedTable,
    timestamp_ms: int,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> MovedSnapshotResult:
    """Roll main back to its newest ancestor that is older than a time."""
    return _moved_main(
        table,
        MetadataChange(lambda m: manage_snapshots.rollback_to_timestamp(m, timestamp_ms)),
        dry_run,
        callback,
    )


def set_current_snapshot(
    table: MaintainedTable,
    snapshot_id: int | None = None,
    ref: str | None = None,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> MovedSnapshotResult:
    """Set main to any snapshot, by its id or by a branch or tag."""
    if (snapshot_id is None) == (ref is None):
        raise InvalidInput(
            "Either snapshot_id or ref must be provided, not both.", table=table.name
        )
    return _moved_main(
        table,
        MetadataChange(lambda m: manage_snapshots.set_current(m, snapshot_id, ref)),
        dry_run,
        callback,
    )


def cherrypick_snapshot(
    table: MaintainedTable,
    snapshot_id: int,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> PickedSnapshotResult:
    """Apply the change of a snapshot again on top of main."""
    moved = _move(table, CherryPick(snapshot_id), dry_run, callback)
    return PickedSnapshotResult(
        source_snapshot_id=snapshot_id,
        current_snapshot_id=moved.head(),
        dry_run=dry_run,
        seconds=moved.seconds,
    )


def publish_changes(
    table: MaintainedTable,
    wap_id: str,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> PickedSnapshotResult:
    """Pick the snapshot that was staged under a WAP id."""
    newest = newest_state(table, dry_run)
    staged = [s.snapshot_id for s in newest.metadata.snapshots if s.summary.get("wap.id") == wap_id]
    if len(staged) > 1:
        raise ValidationException(
            f"Cannot apply non-unique WAP ID. Found multiple snapshots with WAP ID '{wap_id}'",
            hint=f"cherrypick_snapshot(…) publishes one of them: {', '.join(map(str, staged))}.",
            table=newest.metadata.location,
        )
    if not staged:
        raise ValidationException(
            f"Cannot apply unknown WAP ID '{wap_id}'",
            hint="The id is that of spark.wap.id when the rows were written; the snapshot may have expired.",
            table=newest.metadata.location,
        )
    return cherrypick_snapshot(newest, staged[0], dry_run, callback)


def fast_forward(
    table: MaintainedTable,
    branch: str,
    to: str,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> FastForwardResult:
    """Move a branch forward to the head of another one; a branch that does not exist is created."""
    moved = _move(
        table,
        MetadataChange(lambda m: manage_snapshots.fast_forward(m, branch, to)),
        dry_run,
        callback,
    )
    return FastForwardResult(
        branch_updated=branch,
        previous_ref=head_of(moved.before, branch),
        updated_ref=moved.head(branch),
        dry_run=dry_run,
        seconds=moved.seconds,
    )


def ancestors_of(
    table: MaintainedTable,
    snapshot_id: int | None = None,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> AncestorsResult:
    """List the ancestors of a snapshot (None: the current one) as far as the table keeps them."""
    started, metadata = time.monotonic(), newest_state(table, table.backend is None).metadata
    start = (
        metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    )
    with progress(None, "snapshots listed", callback) as shown:
        ancestors = tuple((s.snapshot_id, s.timestamp_ms) for s in metadata.ancestors(start))
        shown.advance(len(ancestors))
    return AncestorsResult(ancestors=ancestors, dry_run=dry_run, seconds=time.monotonic() - started)
