"""Build snapshot summaries with Java's keys: what a commit added and removed, and the totals
carried on from the parent snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.spec.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from frazil.spec.partitioning import PartitionKey, partition_key, plain_values

MAX_LONG = 2**63 - 1
TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
_OF_DELETES = ("files-size", "position-deletes", "equality-deletes")
PartitionPath = Callable[[int, tuple[Any, ...]], str]


@dataclass
class SummaryCounts:
    """Count files and rows of one partition or of all, by summary key; zeros are left out of the
    summary.

    `trusted` False: a delete manifest was added as a whole, so sizes and counts of deletes are
    unknown and left out.
    """

    values: dict[str, int] = field(default_factory=dict)
    trusted: bool = True

    def bump(self, key: str, by: int = 1) -> None:
        self.values[key] = self.values.get(key, 0) + by

    def file(self, file: DataFile, added: bool) -> None:
        change = "added" if added else "removed"
        self.bump(f"{change}-files-size", file.size)
        match file.content:
            case DataFileContent.DATA:
                # Java's keys say "deleted" of data, "removed" of the rest
                data_change = "added" if added else "deleted"
                self.bump(f"{data_change}-data-files")
                self.bump(f"{data_change}-records", file.record_count)
                return
            case DataFileContent.POSITION_DELETES:
                self.bump(f"{change}-dvs" if file.is_dv else f"{change}-position-delete-files")
                self.bump(f"{change}-position-deletes", file.record_count)
            case _:
                self.bump(f"{change}-equality-delete-files")
                self.bump(f"{change}-equality-deletes", file.record_count)
        self.bump(f"{change}-delete-files")

    def shown(self) -> dict[str, str]:
        return {
            k: str(v)
            for k, v in self.values.items()
            if v > 0 and (self.trusted or not k.endswith(_OF_DELETES))
        }


@dataclass
class SummaryBuilder:
    """Collect what one snapshot adds and removes. `path` returns a partition's path for (spec id,
    values).
    """

    path: PartitionPath
    counts: SummaryCounts = field(default_factory=SummaryCounts)
    partitions: dict[PartitionKey, SummaryCounts] | None = field(default_factory=dict)
    """None: a manifest was added as a whole, so its partitions are unknown."""
    duplicates: int = 0

    def files(self, files: Iterable[DataFile], added: bool) -> None:
        for f in files:
            self.counts.file(f, added)
            if self.partitions is not None:
                key = partition_key(f.spec_id, f.partition)
                part = self.partitions.get(key)
                if part is None:
                    part = self.partitions[key] = SummaryCounts()
                part.file(f, added)

    def manifest(self, manifest: ManifestFile) -> None:
        """Count a manifest of new files that is added as it is."""
        self.partitions = None
        if manifest.content == ManifestContent.DATA:
            self.counts.bump("added-data-files", manifest.added_files_count or 0)
            self.counts.bump("added-records", manifest.added_rows_count or 0)
            self.counts.bump("deleted-data-files", manifest.deleted_files_count or 0)
            self.counts.bump("deleted-records", manifest.deleted_rows_count or 0)
        else:
            self.counts.bump("added-delete-files", manifest.added_files_count or 0)
            self.counts.bump("removed-delete-files", manifest.deleted_files_count or 0)
            self.counts.trusted = False

    def build(self, limit: int = 0) -> dict[str, str]:
        """Build the summary. `limit`: partitions are listed one by one if at most so many changed
        (`write.summary.partition-limit`).
        """
        summary = self.counts.shown()
        if self.duplicates:
            summary["deleted-duplicate-files"] = str(self.duplicates)
        if self.partitions is None:
            return summary
        by_path = self._by_path() if self.partitions else {}
        summary["changed-partition-count"] = str(len(by_path))
        if by_path and len(by_path) <= limit:
            summary["partition-summaries-included"] = "true"
            for path, counts in by_path.items():
                if path:
                    summary["partitions." + path] = ",".join(
                        f"{k}={v}" for k, v in counts.shown().items()
                    )
        return summary

    def _by_path(self) -> dict[str, SummaryCounts]:
        merged: dict[str, SummaryCounts] = {}
        for key, counts in (self.partitions or {}).items():
            into = merged.setdefault(self.path(key[0], plain_values(key)), SummaryCounts())
            for name, value in counts.values.items():
                into.bump(name, value)
        return merged


def with_totals(summary: Mapping[str, str], previous: Mapping[str, str] | None) -> dict[str, str]:
    """Add the table's totals to the summary: those of the parent snapshot (None: no parent, so 0)
    plus added minus removed.

    As in Java, a total is left out when the parent's is missing or not a number, or when the result
    would be negative.
    """
    extended = dict(summary)
    for total, added, removed in TOTALS:
        before = "0" if previous is None else previous.get(total)
        value = _long(before)
        for key, sign in ((added, 1), (removed, -1)):
            if value is not None and value >= 0 and key in summary:
                change = _long(summary[key])
                value = None if change is None else value + sign * change
        if value is not None and 0 <= value <= MAX_LONG:
            extended[total] = str(value)
    return extended


def _long(text: str | None) -> int | None:
    """Parse a Java long; None if the text is not one."""
    if text is None or not text.lstrip("+-").isascii() or not text.lstrip("+-").isdigit():
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -MAX_LONG - 1 <= value <= MAX_LONG else None
