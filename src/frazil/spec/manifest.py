"""Describe manifests as a manifest list names them (spec, "Manifest Lists")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ManifestContent(IntEnum):
    """Name what the files of a manifest hold: rows or deletes."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True)
class FieldSummary:
    """Summarise the values of one partition field over a manifest's files; bounds are single-value
    bytes of the partition type. None: the writer did not say."""

    contains_null: bool | None
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """Describe a manifest. Counts are None when an old writer left them out; they are then taken as
    "some". Sequence numbers are None in a manifest that is not in a list yet."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int = 0
    content: int = 0
    sequence_number: int | None = None
    min_sequence_number: int | None = None
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """Tell whether the manifest has live files; unknown counts are taken as some."""
        return self.added_files_count != 0 or self.existing_files_count != 0
