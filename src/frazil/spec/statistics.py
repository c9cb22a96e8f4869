"""Describe statistics files of snapshots under PyIceberg's names (spec, "Table Statistics");
metadata holds them as their JSON objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StatisticsBlob:
    """Describe one blob of a statistics file. `type`: as in `apache-datasketches-theta-v1`.
    `snapshot_id`, `sequence_number`: the state that it was computed from. `fields`: ids of its
    columns. `properties`: as in `ndv`; None: none."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: Sequence[int]
    properties: dict[str, str] | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the blob as the spec's JSON object."""
        obj: dict[str, Any] = {
            "type": self.type,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "fields": list(self.fields),
        }
        return obj if self.properties is None else {**obj, "properties": dict(self.properties)}


@dataclass(frozen=True, kw_only=True)
class StatisticsFile:
    """Describe a Puffin file with statistics of the snapshot `snapshot_id`: its location
    (`statistics_path`), `file_size_in_bytes`, `file_footer_size_in_bytes`, and its blobs
    (`blob_metadata`). `key_metadata`: of an encrypted file, else None."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: Sequence[StatisticsBlob] = field(default=())
    key_metadata: str | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object of the spec."""
        obj: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            "file-footer-size-in-bytes": self.file_footer_size_in_bytes,
            "blob-metadata": [b.to_object() for b in self.blob_metadata],
        }
        return obj if self.key_metadata is None else {**obj, "key-metadata": self.key_metadata}


@dataclass(frozen=True, kw_only=True)
class PartitionStatisticsFile:
    """Describe a file with counts per partition at the snapshot `snapshot_id`: its location
    (`statistics_path`) and `file_size_in_bytes`."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object of the spec."""
        return {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
        }
