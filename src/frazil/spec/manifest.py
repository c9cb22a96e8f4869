"""Describe manifests as a manifest list names them, and the data and delete files that they name
(spec, "Manifests", "Manifest Lists").
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any


class DataFileContent(IntEnum):
    """Name what a data file holds: rows, position deletes or equality deletes."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestEntryStatus(IntEnum):
    """Name what a manifest says of a file: it was there before, was added or was deleted."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """Describe a data or delete file.

    `content`: 0 data, 1 position deletes, 2 equality deletes. `file_path`: the location,
    `file_size_in_bytes`: the size of the whole file. `file_format`: lower case (parquet, orc, avro,
    puffin). `partition`: internal values in the order of the fields of the spec `spec_id`.
    `record_count`: rows, or deleted positions or keys. Metrics are by field id; None: the writer
    kept none: `column_sizes` (bytes), `value_counts`, `null_value_counts`, `nan_value_counts`,
    `lower_bounds` and `upper_bounds` (single-value bytes). `split_offsets`: bytes at which row
    groups or stripes begin. `equality_ids`: field ids that an equality delete compares.
    `sort_order_id`: the order of its rows, None: unknown. `key_metadata`: of an encrypted file.

    `referenced_data_file`: the only data file that a delete file applies to; None: any.
    `content_offset`, `content_size_in_bytes`: where a deletion vector's blob lies in its Puffin
    file. `first_row_id` (v3), and the sequence numbers of the entry around it, are resolved when it
    was read from a manifest. `data_sequence_number`: that of the entry, set on the delete files of
    a plan (None: not set); of a new delete file, the one that its entry gets (None: the
    snapshot's).
    """

    content: int = 0
    file_path: str
    file_format: str
    partition: tuple[Any, ...] = ()
    record_count: int
    file_size_in_bytes: int
    column_sizes: dict[int, int] | None = None
    value_counts: dict[int, int] | None = None
    null_value_counts: dict[int, int] | None = None
    nan_value_counts: dict[int, int] | None = None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    spec_id: int = field(default=0)
    data_sequence_number: int | None = field(default=None, compare=False, repr=False)

    @property
    def is_dv(self) -> bool:
        """Tell whether the file is a deletion vector: a blob of a Puffin file that names its data
        file.
        """
        return self.content == DataFileContent.POSITION_DELETES and self.file_format == "puffin"

    @property
    def size(self) -> int:
        """Count the bytes that belong to this entry: of a deletion vector its blob, else the file."""
        return (
            self.content_size_in_bytes
            if self.is_dv and self.content_size_in_bytes is not None
            else self.file_size_in_bytes
        )


def without_statistics(file: DataFile) -> DataFile:
    """Return a file without its metrics by column."""
    return replace(
        file,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
    )


@dataclass(frozen=True)
class ManifestEntry:
    """Hold one entry of a manifest, about `data_file`. `status`: a ManifestEntryStatus.
    `snapshot_id`: the snapshot that added or deleted the file. `sequence_number` is that of the
    file's data, `file_sequence_number` that of the snapshot that added the file: None in a new
    entry (inherited when it is read), resolved in one that was read."""

    status: int
    data_file: DataFile
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None


class ManifestContent(IntEnum):
    """Name what the files of a manifest hold: rows or deletes."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True)
class FieldSummary:
    """Summarise the values of one partition field over a manifest's files. `contains_null`,
    `contains_nan`: whether any is null or NaN. `lower_bound`, `upper_bound`: single-value bytes of
    the partition type. None: the writer did not say."""

    contains_null: bool | None
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """Describe a manifest, as a manifest list does. `manifest_path` is its location,
    `manifest_length` its size in bytes. `content`: 0 data files, 1 delete files.
    `added_snapshot_id`: the snapshot that wrote it.

    `added_…`, `existing_…` and `deleted_…_count` are files or rows by the status of their entries;
    None when an old writer left them out: they are then taken as "some". `sequence_number`, and
    `min_sequence_number` of its live files, are None in a manifest that is not in a list yet.
    `partitions`: a summary for each field of the spec `partition_spec_id`, None: the writer kept
    none. `key_metadata`: of an encrypted manifest. `first_row_id` (v3): of its first row that has
    no id of its own.
    """

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
