"""Find the snapshots between a position and the head of a branch, or find that the position is
lost.

A position is lost when its snapshot is no ancestor of the head: it has expired, or the branch was
rolled back or replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.stream.source.offset import NO_SNAPSHOT, Position


class Lost(Enum):
    """Say why a position is not in the history: its snapshot has expired, or is not of this branch
    (any more).
    """

    EXPIRED = "expired"
    ROLLED_BACK = "rolled back"


def head_of(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """Return the head of a branch; None: `main` has no snapshot yet. Raises NoSuchRefError,
    InvalidInput for a tag.
    """
    return metadata.existing_branch_head(branch)


@dataclass
class StreamHistory:
    """Walk from a head to its ancestors, as far as is asked for; the snapshots that were passed are
    kept, newest first.

    `files`, `rows`: what the snapshots before each place of the walk added, by their summaries.
    """

    metadata: TableMetadata
    head: Snapshot | None
    walked: list[Snapshot] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    files: list[int] = field(default_factory=lambda: [0])
    rows: list[int] = field(default_factory=lambda: [0])
    _ended: bool = False

    def place_of(self, snapshot_id: int) -> int | None:
        """Return how many snapshots came after this one; None: it is no ancestor of the head."""
        while snapshot_id not in self.places and self._step():
            pass
        return self.places.get(snapshot_id)

    def oldest(self) -> Snapshot | None:
        """Return the oldest ancestor that is kept."""
        while self._step():
            pass
        return self.walked[-1] if self.walked else None

    def after(self, position: Position) -> int | Lost:
        """Return how many snapshots are to be read or passed over, including one that is partly
        read; or why the position is lost.
        """
        if self.head is None:
            return 0 if position.snapshot_id == NO_SNAPSHOT else Lost.ROLLED_BACK
        if position.snapshot_id == NO_SNAPSHOT:
            oldest = self.oldest()
            assert oldest is not None
            return len(self.walked) if oldest.parent_snapshot_id is None else Lost.EXPIRED
        place = self.place_of(position.snapshot_id)
        if place is not None:
            return place + (position.phase == "files")
        oldest = self.walked[-1]
        if position.phase == "after" and oldest.parent_snapshot_id == position.snapshot_id:
            return len(self.walked)
        return (
            Lost.ROLLED_BACK
            if self._is_on_another_line(position.snapshot_id, oldest)
            else Lost.EXPIRED
        )

    def _is_on_another_line(self, snapshot_id: int, oldest: Snapshot) -> bool:
        """Tell whether a snapshot that is none of the kept ancestors was never one: all ancestors
        are kept, or the snapshot is kept and is no older than `oldest`, or it has the expired
        parent of `oldest` as an ancestor too.

        Any other one that is kept may be an ancestor, kept by a tag while those between have
        expired.
        """
        if oldest.parent_snapshot_id is None:
            return True
        snapshot = self.metadata.snapshots.by_id(snapshot_id)
        if snapshot is None:
            return False
        if (snapshot.sequence_number, snapshot.timestamp_ms) >= (
            oldest.sequence_number,
            oldest.timestamp_ms,
        ):
            return True
        line = StreamHistory(self.metadata, snapshot)
        first = line.oldest()
        return first is not None and first.parent_snapshot_id == oldest.parent_snapshot_id

    def _step(self) -> bool:
        """Walk to the next older snapshot; False at the end."""
        if self._ended:
            return False
        snapshot = (
            self.metadata.snapshots.by_id(self.walked[-1].parent_snapshot_id)
            if self.walked
            else self.head
        )
        if snapshot is None or snapshot.snapshot_id in self.places:
            self._ended = True
            return False
        self.places[snapshot.snapshot_id] = len(self.walked)
        self.walked.append(snapshot)
        added = snapshot.operation == "append"
        self.files.append(self.files[-1] + (counted(snapshot, "added-data-files") or 0) * added)
        self.rows.append(self.rows[-1] + (counted(snapshot, "added-records") or 0) * added)
        return True


def counted(snapshot: Snapshot, key: str) -> int | None:
    """Read a number of a snapshot's summary; None: it is not there."""
    text = snapshot.summary.get(key, "")
    return int(text) if text.isdigit() else None
