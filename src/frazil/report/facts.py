"""Hold the facts of a table's health, as a report shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.maintain.advice.finding import Findings

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Moment:
    """Hold the totals of a table at one snapshot, None where the snapshot's summary lacks them.
    `rows`: without those that position deletes and vectors remove.
    """

    time_ms: int
    rows: int | None
    bytes: int | None
    files: int | None
    delete_files: int | None


@dataclass(frozen=True)
class SizeClass:
    """Count the data files between two sizes."""

    label: str
    files: int
    bytes: int


@dataclass(frozen=True)
class PartitionHealth:
    """Describe a partition. `name`: its path, as `a=1/b=x`. `files`, `rows`, `bytes`: its data
    files, deleted rows included. `deleted_rows`: rows that position deletes and vectors remove.
    `equality_deletes`: keys of its equality deletes."""

    name: str
    files: int
    rows: int
    bytes: int
    deleted_rows: int
    equality_deletes: int


@dataclass(frozen=True)
class ColumnHealth:
    """Describe a column. `lower`, `upper`: the bounds of its values over all files, as text, empty
    where they are not known; long texts may be cut off in them.
    `skipped`: the share (0 to 1) of files that a look-up of one value skips; None: not
    known. `is_sorted_by`: whether the table's sort order names it."""

    name: str
    type: str
    lower: str
    upper: str
    skipped: float | None
    is_sorted_by: bool


@dataclass(frozen=True)
class SnapshotNode:
    """Describe a snapshot for the graph: its parent, its operation, and the branches and tags at
    it.
    """

    snapshot_id: int
    parent_id: int | None
    time_ms: int
    operation: str
    added_rows: int | None
    refs: tuple[str, ...]


@dataclass(frozen=True)
class Health:
    """Hold the facts that a report shows. `rows`: those of data files without `deleted_rows`, which
    position deletes and vectors remove; `equality_deletes`: keys that equality deletes hold, which
    may remove more. `maintained_ms`: when files were last rewritten. `largest`: name and bytes of
    the largest partition, and the bytes of the one in the middle; None: no partitions.
    """

    name: str
    location: str
    format_version: int
    made_at_ms: int
    facts: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    sizes: tuple[SizeClass, ...]
    target_bytes: int
    partitions: tuple[PartitionHealth, ...]
    partition_count: int
    columns: tuple[ColumnHealth, ...]
    column_count: int
    snapshots: tuple[SnapshotNode, ...]
    snapshot_count: int
    manifests: tuple[tuple[str, int, int, int], ...]
    findings: Findings = field(repr=False)
    rows: int | None = None
    deleted_rows: int = 0
    equality_deletes: int = 0
    maintained_ms: int | None = None
    largest: tuple[str, int, int] | None = None

    @property
    def growth_per_day(self) -> float | None:
        """Return the bytes that the table grew by in a day, over the last 30 days; None: it is
        younger than a day, or its snapshots' summaries hold no sizes.
        """
        sized = [m for m in self.moments if m.bytes is not None]
        recent = [m for m in sized if m.time_ms >= self.made_at_ms - 30 * DAY_MS]
        if len(recent) < 2 or (days := (recent[-1].time_ms - recent[0].time_ms) / DAY_MS) < 1:
            return None
        return ((recent[-1].bytes or 0) - (recent[0].bytes or 0)) / days
