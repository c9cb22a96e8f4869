"""Hold the result of a write: the new snapshot, its summary and the counts of rows and files.

Counts are the sums over the snapshots' summaries, except where a change counts its rows itself.
Updated, deleted and copied rows are counted by the deciders of each data file
(`rows.rewrite`, summed in `rows.change`) or by Spark's plan (`spark.dml`), inserted rows of a
MERGE in `rows.inserts`; `ops.step` and `ops.merge` hand them over as `StagedWrite.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from frazil.spec.fact_tree import FactNode, html_of
from frazil.spec.snapshot import Snapshot

METRICS = (
    "rows_inserted", "rows_updated", "rows_deleted", "rows_copied", "files_added", "files_removed", "delete_files_added",
    "attempts", "seconds_writing", "seconds_committing",
)  # fmt: skip
NOTHING: Mapping[str, Any] = MappingProxyType(
    {name: 0.0 if name.startswith("seconds") else 0 for name in METRICS}
)


@dataclass(frozen=True)
class CommitResult:
    """Hold the result of one write.

    `snapshot_id` is None when no snapshot was made: nothing changed, or only metadata did.
    `operation`: append, overwrite, delete or replace; None without a snapshot. `summary` is the
    summary of the snapshot. `metrics` holds counts of rows and files, the number of commit
    attempts, and seconds; each is also an attribute, as in `result.rows_inserted`. `skipped`: the
    write's `txn` was committed before, in the snapshot `done_in` (None: it changed no rows), and
    nothing was written this time.
    """

    snapshot_id: int | None
    operation: str | None
    summary: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False
    done_in: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name in METRICS:
            return self.metrics.get(name, 0)
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        """List the metrics beside the other attributes, for completion."""
        return sorted({*super().__dir__(), *METRICS})

    def _repr_html_(self) -> str:
        """Show the result as a table in notebooks."""
        outcome = repr(self).removeprefix("CommitResult(").removesuffix(")").partition(":")[0]
        counts = [
            (k, f"{v:.3f}" if isinstance(v, float) else f"{v:,}")
            for k, v in self.metrics.items()
            if v
        ]
        return html_of(FactNode(outcome, tuple(counts)))

    def __repr__(self) -> str:
        if self.skipped:
            return f"CommitResult(skipped: done already{'' if self.done_in is None else f', in snapshot {self.done_in}'})"
        if self.snapshot_id is None:
            return (
                "CommitResult(metadata only, no new snapshot)"
                if self.metrics.get("attempts")
                else "CommitResult(nothing changed)"
            )
        shown = ", ".join(
            f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v:,}"
            for k, v in self.metrics.items()
            if v
        )
        return f"CommitResult({self.operation}, snapshot {self.snapshot_id}: {shown})"


def skipped(done_in: int | None) -> CommitResult:
    """Return the result of a write whose txn was committed before."""
    return CommitResult(None, None, {}, dict(NOTHING), skipped=True, done_in=done_in)


def result_of(
    snapshots: Sequence[Snapshot],
    *,
    attempts: int,
    seconds_writing: float,
    seconds_committing: float,
    metrics: Mapping[str, int] = {},
) -> CommitResult:
    """Return the result of one commit. Its snapshot is the last of `snapshots` (none: the commit
    changed only metadata); its counts are the sums over all their summaries, except for those that
    are given as `metrics`."""
    spent = {
        "attempts": attempts,
        "seconds_writing": seconds_writing,
        "seconds_committing": seconds_committing,
    }
    if not snapshots:
        return CommitResult(None, None, {}, {**NOTHING, **spent})

    def count(key: str, counted: Sequence[Snapshot] = snapshots) -> int:
        texts = [s.summary.get(key, "0") for s in counted]
        return sum(int(t) for t in texts if t.isdigit())

    def removed(counted: Sequence[Snapshot]) -> int:
        """Count the rows of removed files, without those that position deletes, removed as well,
        had deleted before.
        """
        return max(
            0, count("deleted-records", counted) - count("removed-position-deletes", counted)
        )

    counts = {
        "rows_inserted": count("added-records"),
        "rows_updated": 0,
        "rows_deleted": removed(snapshots),
        "rows_copied": 0,
        "files_added": count("added-data-files"),
        "files_removed": count("deleted-data-files"),
        "delete_files_added": count("added-delete-files"),
        **spent,
        **metrics,
    }
    if (
        "rows_deleted" in metrics
    ):  # a partition overwrite knows how many rows it replaces only once it is committed
        counts["rows_deleted"] += removed(
            [s for s in snapshots if s.summary.get("replace-partitions") == "true"]
        )
    last = snapshots[-1]
    return CommitResult(last.snapshot_id, last.operation, last.summary, counts)
