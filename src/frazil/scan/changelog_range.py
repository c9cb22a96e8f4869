"""Select the snapshots of a changelog: after one (exclusive) up to another (inclusive), by id or by
time, on a branch.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.errors import InvalidInput
from frazil.scan.incremental import snapshots_between
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot


@dataclass(frozen=True)
class ChangelogRange:
    """Name the range of a changelog. Start exclusive; None: from the first snapshot that is kept.
    End inclusive; None: the branch's head.

    Times are in milliseconds. A start time selects the snapshots committed after it, an end time
    those committed up to it. Giving both an id and a time for the start, or for the end, is
    refused.
    """

    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    branch: str | None = None

    def __post_init__(self) -> None:
        for which in ("start", "end"):
            if (
                getattr(self, f"{which}_snapshot_id") is not None
                and getattr(self, f"{which}_ms") is not None
            ):
                raise InvalidInput(
                    f"Cannot set both {which}-snapshot-id and {which}-timestamp for changelogs."
                )
        if self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms:
            raise InvalidInput(
                f"Cannot set start-timestamp ({self.start_ms}) to be greater than end-timestamp ({self.end_ms})."
            )

    def snapshots(self, metadata: TableMetadata) -> list[Snapshot]:
        """List the snapshots of the range, oldest first. Raises NoSuchSnapshotError and
        NoSuchRefError, and InvalidInput when the start is not an ancestor of the end or the history
        before a start time has expired."""
        head = self._head(metadata)
        if head is None:
            return snapshots_between(metadata, self.start_snapshot_id, self.end_snapshot_id)
        end = head
        if self.end_snapshot_id is not None:
            end = metadata.snapshot_by_id(self.end_snapshot_id)
            self._check_on_branch(metadata, head, end)
        snapshots = snapshots_between(metadata, self.start_snapshot_id, end.snapshot_id)
        if self.end_ms is not None:
            last = max(
                (n for n, s in enumerate(snapshots) if s.timestamp_ms <= self.end_ms), default=-1
            )
            snapshots = snapshots[: last + 1]
        return snapshots if self.start_ms is None else self._after(metadata, snapshots)

    def _head(self, metadata: TableMetadata) -> Snapshot | None:
        if self.branch is None or self.branch == MAIN_BRANCH:
            return metadata.current_snapshot()
        ref = metadata.ref(self.branch)
        if not ref.is_branch:
            raise InvalidInput(
                f"{self.branch!r} is a tag of table {metadata.location}; changes follow a branch.",
                table=metadata.location,
            )
        return metadata.snapshot_by_id(ref.snapshot_id)

    def _check_on_branch(self, metadata: TableMetadata, head: Snapshot, end: Snapshot) -> None:
        if self.branch is not None and not metadata.is_ancestor(end.snapshot_id, head):
            raise InvalidInput(
                f"Snapshot {end.snapshot_id} is not on branch {self.branch} of table {metadata.location}.",
                table=metadata.location,
                snapshot_id=end.snapshot_id,
            )

    def _after(self, metadata: TableMetadata, snapshots: list[Snapshot]) -> list[Snapshot]:
        """Keep the snapshots committed after the start time.

        Clocks of writers differ, so times may run backwards along the history: the range starts
        after the newest snapshot whose time is not after the start time.
        """
        assert self.start_ms is not None
        last = max(
            (n for n, s in enumerate(snapshots) if s.timestamp_ms <= self.start_ms), default=-1
        )
        if (
            last < 0
            and snapshots
            and self.start_snapshot_id is None
            and snapshots[0].parent_snapshot_id is not None
        ):
            raise InvalidInput(
                f"Cannot find a snapshot older than {self.start_ms} in table {metadata.location}: the history before snapshot "
                f"{snapshots[0].snapshot_id} has expired.",
                hint="Start at a snapshot that is still kept; t.history() lists them.",
                table=metadata.location,
            )
        return snapshots[last + 1 :]
