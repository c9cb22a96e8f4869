"""Carry the state of a commit from attempt to attempt: files written, snapshot ids assigned,
manifests that can be reused; and remove the files of a commit that certainly failed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.commit.apply import now_millis
from frazil.commit.filtering import FilterCache
from frazil.commit.manifests import ManifestWriter, MergeCache, Output
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import METADATA_PATH
from frazil.storage.base import Storage


def new_snapshot_id(metadata: TableMetadata) -> int:
    """Return a random positive long that is not a snapshot id of the table (made from the halves of
    a uuid4, as in Java).
    """
    while True:
        bits = uuid.uuid4().int
        snapshot_id = ((bits >> 64) ^ bits) & (2**63 - 1)
        if snapshot_id and metadata.snapshots.by_id(snapshot_id) is None:
            return snapshot_id


@dataclass
class SnapshotState:
    """Hold the state of one action that makes a snapshot. The snapshot id is the same in all
    attempts, so that a commit that succeeded although its response was lost is recognised."""

    snapshot_id: int
    writer: ManifestWriter
    new_data: list[ManifestFile] | None = None
    new_deletes: list[ManifestFile] | None = None
    new_deletes_of: tuple[tuple[str, int | None], ...] = ()
    filtered: FilterCache = field(default_factory=dict)
    merged: MergeCache = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Paths of the manifests and of the manifest list of the last attempt."""

    def forget_manifests(self) -> None:
        """Drop the manifests that earlier attempts wrote."""
        self.new_data = self.new_deletes = None
        self.filtered, self.merged = {}, {}
        self.writer.entries.clear()


@dataclass
class Context:
    """Hold what every action of a commit gets. `attempt` counts from 1; `environment` goes into
    every summary (engine-name, …).
    """

    output: Output
    environment: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 1
    now_ms: int = field(default_factory=now_millis)
    action: int = 0
    states: dict[int, SnapshotState] = field(default_factory=dict)
    unneeded: dict[int, set[str]] = field(default_factory=dict)
    """By action, files that the last attempt left out; they are deleted when the commit succeeds.
    """
    only_new: bool = False
    """Actions write the manifests of their new files, which all attempts use, and change nothing.
    """
    looked_at: dict[int, set[str]] = field(default_factory=dict)
    """By action, paths of manifests that it need not read again."""
    planned_anew: dict[int, int] = field(default_factory=dict)
    """By action, how often it was planned anew (see `planned_change`)."""
    seconds_planning: float = 0.0
    """How long actions were planned anew in all: other writers do not take as long for a commit."""

    @property
    def storage(self) -> Storage:
        return self.output.storage

    def begin(self, action: int) -> None:
        """Prepare for applying the action of this index."""
        self.action = action
        if action in self.states:
            self.states[action].used = set()

    def state(self, metadata: TableMetadata) -> SnapshotState:
        """Return the state of the current action; manifests written for another format version or
        location are not reused.
        """
        state = self.states.get(self.action)
        if state is None:
            snapshot_id = new_snapshot_id(metadata)
            while any(s.snapshot_id == snapshot_id for s in self.states.values()):
                snapshot_id = new_snapshot_id(metadata)
            writer = ManifestWriter(self.output, metadata, snapshot_id, str(uuid.uuid4()))
            state = self.states[self.action] = SnapshotState(snapshot_id, writer)
        elif _place(state.writer.metadata) != _place(metadata):
            state.forget_manifests()
        state.writer.metadata = metadata
        return state

    def planned_anew_before(self) -> int:
        """Count how often the actions before the current one were planned anew."""
        return sum(count for action, count in self.planned_anew.items() if action < self.action)

    def plan_anew(self) -> None:
        """Record that the current action has other files now: manifests written for the old ones
        are not reused.
        """
        self.planned_anew[self.action] = self.planned_anew.get(self.action, 0) + 1
        if (state := self.states.get(self.action)) is not None:
            state.forget_manifests()

    def unneeded_files(self) -> list[str]:
        return [f for files in self.unneeded.values() for f in files]

    def snapshot_ids(self) -> Sequence[int]:
        return [s.snapshot_id for s in self.states.values()]


def _place(metadata: TableMetadata) -> tuple[int, str, str | None]:
    return metadata.format_version, metadata.location, METADATA_PATH.text(metadata.properties)


log = logging.getLogger(__name__)


def remove(storage: Storage, locations: Iterable[str], why: str) -> None:
    """Delete files; one that cannot be deleted is left as an orphan, with a warning, never an
    error.
    """
    wanted = list(dict.fromkeys(locations))
    if not wanted:
        return
    try:
        failed = storage.delete_many(wanted)
    except Exception as e:
        # any error of the store: the caller must get the outcome of the commit, not this error
        log.warning("Could not remove %d files of %s: %s", len(wanted), why, e)
        return
    for location, error in failed:
        log.warning("Could not remove %s of %s: %s", location, why, error)
