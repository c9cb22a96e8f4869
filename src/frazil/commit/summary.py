"""Snapshot summaries with Java's keys: what a commit added and removed, and the totals chained from the branch head before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.spec.data_file import DataFile, DataFileContent
from frazil.spec.manifest import ManifestContent, ManifestFile
from frazil.spec.partition_key import PartitionKey, partition_key, plain_values

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
    """Counts of one partition or of all, by summary key; zero ones are left out when they are shown.

    `trusted` False: a delete manifest was taken over whole, so sizes and counts of deletes are not known and not shown.
    """

    values: dict[str, int] = field(default_factory=dict)
    trusted: bool = True

    def bump(self, key: str, by: int = 1) -> None:
        self.values[key] = self.values.get(key, 0) + by

    def file(self, f: DataFile, added: bool) -> None:
        removed = "added" if added else "removed"
        self.bump(f"{removed}-files-size", f.size)
        match f.content:
            case DataFileContent.DATA:
                gone = "added" if added else "deleted"
                self.bump(f"{gone}-data-files")
                self.bump(f"{gone}-records", f.record_count)
                return
            case DataFileContent.POSITION_DELETES:
                self.bump(f"{removed}-dvs" if f.is_dv else f"{removed}-position-delete-files")
                self.bump(f"{removed}-position-deletes", f.record_count)
            case _:
                self.bump(f"{removed}-equality-delete-files")
                self.bump(f"{removed}-equality-deletes", f.record_count)
        self.bump(f"{removed}-delete-files")

    def shown(self) -> dict[str, str]:
        return {k: str(v) for k, v in self.values.items() if v > 0 and (self.trusted or not k.endswith(_OF_DELETES))}


@dataclass
class SummaryBuilder:
    """Gathers what one snapshot adds and removes. `path` gives a partition's path from (spec id, values)."""

    path: PartitionPath
    counts: SummaryCounts = field(default_factory=SummaryCounts)
    partitions: dict[PartitionKey, SummaryCounts] | None = field(default_factory=dict)
    """None: a manifest was taken over whole, so the partitions are not known."""
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

    def manifest(self, m: ManifestFile) -> None:
        """A manifest of new files taken over as it is."""
        self.partitions = None
        if m.content == ManifestContent.DATA:
            self.counts.bump("added-data-files", m.added_files_count or 0)
            self.counts.bump("added-records", m.added_rows_count or 0)
            self.counts.bump("deleted-data-files", m.deleted_files_count or 0)
            self.counts.bump("deleted-records", m.deleted_rows_count or 0)
        else:
            self.counts.bump("added-delete-files", m.added_files_count or 0)
            self.counts.bump("removed-delete-files", m.deleted_files_count or 0)
            self.counts.trusted = False

    def build(self, limit: int = 0) -> dict[str, str]:
        """`limit`: at most so many changed partitions are listed one by one (`write.summary.partition-limit`)."""
        found = self.counts.shown()
        if self.duplicates:
            found["deleted-duplicate-files"] = str(self.duplicates)
        if self.partitions is None:
            return found
        by_path = self._by_path() if self.partitions else {}
        found["changed-partition-count"] = str(len(by_path))
        if by_path and len(by_path) <= limit:
            found["partition-summaries-included"] = "true"
            for path, counts in by_path.items():
                if path:
                    found["partitions." + path] = ",".join(f"{k}={v}" for k, v in counts.shown().items())
        return found

    def _by_path(self) -> dict[str, SummaryCounts]:
        merged: dict[str, SummaryCounts] = {}
        for key, counts in (self.partitions or {}).items():
            into = merged.setdefault(self.path(key[0], plain_values(key)), SummaryCounts())
            for name, value in counts.values.items():
                into.bump(name, value)
        return merged


def with_totals(summary: Mapping[str, str], previous: Mapping[str, str] | None) -> dict[str, str]:
    """The summary with the table's totals: those of the branch head before (None: no head, so from 0) plus added minus removed.

    A total is left out when the one before is missing or no number, or when it would be negative (as Java does).
    """
    found = dict(summary)
    for total, added, removed in TOTALS:
        before = "0" if previous is None else previous.get(total)
        value = _long(before)
        for key, sign in ((added, 1), (removed, -1)):
            if value is not None and value >= 0 and key in summary:
                change = _long(summary[key])
                value = None if change is None else value + sign * change
        if value is not None and 0 <= value <= MAX_LONG:
            found[total] = str(value)
    return found


def _long(text: str | None) -> int | None:
    """A Java long from text, or None."""
    if text is None or not text.lstrip("+-").isascii() or not text.lstrip("+-").isdigit():
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -MAX_LONG - 1 <= value <= MAX_LONG else None
