"""What planning did: Java's counters, and a text one can read."""

from __future__ import annotations

import html
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ScanReport:
    """Counters with Java's names (`_` for `-`); the duration in nanoseconds, as Java's timer gives it.

    The last three are ours: data files that partition values left out, that counts and bounds left out, and those that match wholly.
    """

    table: str = ""
    snapshot_id: int | None = None
    filter: str = "true"
    schema_id: int = 0
    total_planning_duration: int = 0
    result_data_files: int = 0
    result_delete_files: int = 0
    total_data_manifests: int = 0
    total_delete_manifests: int = 0
    scanned_data_manifests: int = 0
    scanned_delete_manifests: int = 0
    skipped_data_manifests: int = 0
    skipped_delete_manifests: int = 0
    total_file_size_in_bytes: int = 0
    total_delete_file_size_in_bytes: int = 0
    skipped_data_files: int = 0
    skipped_delete_files: int = 0
    indexed_delete_files: int = 0
    equality_delete_files: int = 0
    positional_delete_files: int = 0
    dvs: int = 0
    total_records: int = 0
    skipped_by_partition: int = 0
    skipped_by_statistics: int = 0
    wholly_matching_files: int = 0

    def as_dict(self) -> dict[str, Any]:
        """With Java's dashed names."""
        return {f.name.replace("_", "-"): getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Explanation:
    """A plan in words: `str()` is the text, `report` the numbers."""

    report: ScanReport
    lines: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(report: ScanReport) -> Explanation:
    r = report
    if r.snapshot_id is None:
        return Explanation(r, (f"Scan of {r.table}: no snapshot, no rows",))
    files = r.result_data_files + r.skipped_data_files
    lines = [
        f"Scan of {r.table}, snapshot {r.snapshot_id}",
        f"  filter: {r.filter}",
        f"  manifests: {r.scanned_data_manifests} of {r.total_data_manifests} read, "
        f"{r.skipped_data_manifests} skipped by partition summaries",
        f"  files: {r.result_data_files} of {files} in them kept; skipped {r.skipped_by_partition} by partition values, "
        f"{r.skipped_by_statistics} by counts and bounds",
        f"  of the kept files {r.wholly_matching_files} match wholly (no row is tested)",
        f"  to read: {r.total_records} rows, {size_text(r.total_file_size_in_bytes)}",
    ]
    if r.total_delete_manifests:
        skipped = r.skipped_delete_manifests
        lines.append(f"  delete manifests: {r.total_delete_manifests - skipped} of {r.total_delete_manifests} apply, {skipped} skipped")
    lines.append(f"  planned in {r.total_planning_duration / 1e6:.1f} ms")
    return Explanation(r, tuple(lines))


def size_text(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
