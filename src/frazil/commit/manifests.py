"""Write the manifests and the manifest list of a commit, and read manifests back for filtering and
merging (spec, "Manifests").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from frazil.codec.manifest import encode_manifest, entries_from_table
from frazil.codec.manifest_list import encode_manifest_list
from frazil.codec.single_value import to_bytes
from frazil.errors import ValidationError
from frazil.scan.manifests import keep_list, read_manifest
from frazil.spec.manifest import (
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import (
    MANIFEST_CODEC,
    MANIFEST_LEVEL,
    MANIFEST_MERGE,
    MANIFEST_MIN_COUNT_TO_MERGE,
    MANIFEST_TARGET_SIZE,
)
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import IcebergType
from frazil.storage.base import Storage
from frazil.storage.locations import metadata_location

_MIN_ROWS_TO_ROLL = 250
ADDED, EXISTING, DELETED = (
    ManifestEntryStatus.ADDED,
    ManifestEntryStatus.EXISTING,
    ManifestEntryStatus.DELETED,
)


def field_summaries(
    types: Sequence[IcebergType], partitions: Iterable[tuple[Any, ...]]
) -> tuple[FieldSummary, ...]:
    """Summarise partition values per field: whether there are nulls and NaNs, and the bounds of the
    other values; -0.0 is below 0.0.
    """
    columns = list(zip(*set(partitions), strict=True)) or [()] * len(types)
    return tuple(_summary(t, values) for t, values in zip(types, columns, strict=True))


def _summary(type_: IcebergType, values: Sequence[Any]) -> FieldSummary:
    not_null = [v for v in values if v is not None]
    numbers = [v for v in not_null if not (isinstance(v, float) and math.isnan(v))]
    if not numbers:
        return FieldSummary(len(not_null) < len(values), len(numbers) < len(not_null))
    floats = isinstance(numbers[0], float)
    low = min(numbers, key=_float_order) if floats else min(numbers)
    high = max(numbers, key=_float_order) if floats else max(numbers)
    return FieldSummary(
        len(not_null) < len(values),
        len(numbers) < len(not_null),
        to_bytes(type_, low),
        to_bytes(type_, high),
    )


def _float_order(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


@dataclass
class Output:
    """Write the files of one commit. Every path is recorded before its first byte is written, so
    that after certain failure exactly these files can be removed."""

    storage: Storage
    written: list[str] = field(default_factory=list)
    sync_folder: bool = False
    """True when the manifest list is the last file that the commit writes to the metadata folder,
    because the catalog keeps the table's metadata elsewhere."""

    def write(self, location: str, data: bytes, *, last: bool = False) -> None:
        """Write and sync a file. The folder is synced by the last file written to it, usually the
        catalog's metadata file.
        """
        self.written.append(location)
        self.storage.write(location, data, durable=last and self.sync_folder)


@dataclass
class ManifestWriter:
    """Write the manifests of one snapshot: `<uuid>-m<n>.avro`. Entries are kept, so that merging
    need not read back what was just written."""

    output: Output
    metadata: TableMetadata
    snapshot_id: int
    uuid: str
    count: int = 0
    entries: dict[str, Sequence[ManifestEntry]] = field(default_factory=dict)

    def location(self, name: str) -> str:
        return metadata_location(self.metadata.location, self.metadata.properties, name)

    def write(
        self, entries: Sequence[ManifestEntry], spec_id: int, content: int = ManifestContent.DATA
    ) -> ManifestFile:
        return self._store(self._encode(entries, spec_id, content), entries, spec_id, content)

    def write_rolling(
        self, entries: Sequence[ManifestEntry], spec_id: int, content: int = ManifestContent.DATA
    ) -> list[ManifestFile]:
        """Write the entries, in their order, to as few manifests of about
        `commit.manifest.target-size-bytes` as possible.
        """
        target = max(1, MANIFEST_TARGET_SIZE.of(self.metadata.properties))
        data = self._encode(entries, spec_id, content)
        parts = min(math.ceil(len(data) / target), max(1, len(entries) // _MIN_ROWS_TO_ROLL))
        if parts <= 1:
            return [self._store(data, entries, spec_id, content)]
        step = math.ceil(len(entries) / parts)
        return [
            self.write(entries[start : start + step], spec_id, content)
            for start in range(0, len(entries), step)
        ]

    def _encode(self, entries: Sequence[ManifestEntry], spec_id: int, content: int) -> bytes:
        md, spec = self.metadata, self.metadata.spec_by_id(spec_id)
        return encode_manifest(
            entries,
            spec=spec,
            schema=schema_of_spec(md, spec),
            format_version=md.format_version,
            content=content,
            snapshot_id=self.snapshot_id,
            codec=MANIFEST_CODEC.of(md.properties),
            level=MANIFEST_LEVEL.of(md.properties),
        )

    def _store(
        self, data: bytes, entries: Sequence[ManifestEntry], spec_id: int, content: int
    ) -> ManifestFile:
        spec = self.metadata.spec_by_id(spec_id)
        path = self.location(f"{self.uuid}-m{self.count}.avro")
        self.count += 1
        manifest = described(
            entries,
            path,
            len(data),
            spec,
            schema_of_spec(self.metadata, spec),
            content,
            self.snapshot_id,
        )
        self.output.write(path, data)
        self.entries[path] = entries
        return manifest


def described(
    entries: Sequence[ManifestEntry],
    path: str,
    length: int,
    spec: PartitionSpec,
    schema: Schema,
    content: int,
    snapshot_id: int | None,
) -> ManifestFile:
    """Describe a manifest as a manifest list does; sequence numbers that the commit has yet to
    assign are None.
    """
    files, rows = [0, 0, 0], [0, 0, 0]
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    explicit = [
        entry.sequence_number
        for entry in entries
        if entry.status != DELETED and entry.sequence_number is not None
    ]
    types = [f.field_type for f in spec.partition_type(schema)]
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec.spec_id,
        content=int(content),
        min_sequence_number=min(explicit, default=None),
        added_snapshot_id=snapshot_id,
        added_files_count=files[ADDED],
        existing_files_count=files[EXISTING],
        deleted_files_count=files[DELETED],
        added_rows_count=rows[ADDED],
        existing_rows_count=rows[EXISTING],
        deleted_rows_count=rows[DELETED],
        partitions=field_summaries(types, (entry.data_file.partition for entry in entries)),
    )


# -- reading
# --------------------------------------------------------------------------------------------------


def with_counts(manifest: ManifestFile, table: pa.Table) -> ManifestFile:
    """Add the counts that an old writer left out of a manifest's description."""
    files, rows = [0, 0, 0], [0, 0, 0]
    for status, records in zip(
        table["status"].to_pylist(), table["record_count"].to_pylist(), strict=True
    ):
        files[status] += 1
        rows[status] += records
    return replace(
        manifest,
        added_files_count=files[ADDED],
        existing_files_count=files[EXISTING],
        deleted_files_count=files[DELETED],
        added_rows_count=rows[ADDED],
        existing_rows_count=rows[EXISTING],
        deleted_rows_count=rows[DELETED],
    )


def read_entries(
    manifest: ManifestFile,
    metadata: TableMetadata,
    storage: Storage,
    own: Mapping[str, Sequence[ManifestEntry]],
) -> Sequence[ManifestEntry]:
    """Return the entries of a manifest; `own` holds those of manifests that this commit wrote,
    which need not be read.
    """
    if manifest.manifest_path in own:
        return own[manifest.manifest_path]
    return entries_from_table(
        read_manifest(storage, manifest, keep=False),
        metadata.spec_by_id(manifest.partition_spec_id),
    )


# -- the list
# --------------------------------------------------------------------------------------------------


def numbered(
    manifests: Sequence[ManifestFile],
    sequence_number: int,
    first_row_id: int | None,
    metadata: TableMetadata,
    storage: Storage,
) -> tuple[list[ManifestFile], int | None]:
    """Assign sequence numbers and, in v3, first row ids to the manifests of a commit; return them
    and the first row id that is left.
    """
    result, next_row_id = [], first_row_id
    for manifest in manifests:
        file_counts = (
            manifest.added_files_count,
            manifest.existing_files_count,
            manifest.deleted_files_count,
        )
        if None in (*file_counts, manifest.added_rows_count, manifest.existing_rows_count):
            if metadata.format_version > 1:
                manifest = with_counts(
                    manifest, read_manifest(storage, manifest, ("status", "record_count"))
                )
        if manifest.sequence_number is None:
            oldest = (
                sequence_number
                if manifest.min_sequence_number is None
                else manifest.min_sequence_number
            )
            manifest = replace(
                manifest, sequence_number=sequence_number, min_sequence_number=oldest
            )
        if (
            next_row_id is not None
            and manifest.content == ManifestContent.DATA
            and manifest.first_row_id is None
        ):
            manifest = replace(manifest, first_row_id=next_row_id)
            next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        result.append(manifest)
    return result, next_row_id


def write_list(
    writer: ManifestWriter,
    manifests: Sequence[ManifestFile],
    attempt: int,
    parent: Snapshot | None,
    sequence_number: int,
    first_row_id: int | None,
) -> str:
    """Write the manifest list of an attempt, `snap-<snapshot>-<attempt>-<uuid>.avro`; return its
    location.
    """
    md = writer.metadata
    location = writer.location(f"snap-{writer.snapshot_id}-{attempt}-{writer.uuid}.avro")
    data = encode_manifest_list(
        manifests,
        snapshot_id=writer.snapshot_id,
        parent_snapshot_id=None if parent is None else parent.snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
        format_version=md.format_version,
        codec=MANIFEST_CODEC.of(md.properties),
    )
    writer.output.write(location, data, last=True)
    before = None if parent is None else parent.manifest_list
    keep_list(location, tuple(manifests), len(data), in_place_of=before)
    return location


def check_known_specs(metadata: TableMetadata, spec_ids: Iterable[int]) -> None:
    table_spec_ids = {s.spec_id for s in metadata.partition_specs}
    if unknown := sorted(set(spec_ids) - table_spec_ids):
        text = f"Cannot find partition spec {unknown[0]} for the files to commit in {metadata.location}."
        raise ValidationError(text, table=metadata.location)


T = TypeVar("T")
MergeCache = dict[tuple[tuple[str, int | None], ...], ManifestFile]


def pack_end(items: Sequence[T], target: int, weight: Callable[[T], int]) -> list[list[T]]:
    """Pack items, in their order, into bins of at most `target`, filled from the end, so that the
    first bin is the one left underfilled.
    """
    bins: list[list[T]] = []
    room = -1
    for item in reversed(items):
        if bins and weight(item) <= room:
            bins[-1].append(item)
            room -= weight(item)
        else:
            bins.append([item])
            room = target - weight(item)
    return [list(reversed(b)) for b in reversed(bins)]


def merge(
    manifests: Sequence[ManifestFile],
    writer: ManifestWriter,
    metadata: TableMetadata,
    cache: MergeCache,
) -> tuple[list[ManifestFile], int]:
    """Merge manifests where Java would; return them and how many manifests of earlier snapshots
    were replaced.

    Per spec, bins of `commit.manifest.target-size-bytes` are merged; the bin with the newest
    manifest only once it holds `commit.manifest.min-count-to-merge` manifests. Results are kept in
    `cache` for the next attempt.
    """
    props = metadata.properties
    if not manifests or not MANIFEST_MERGE.of(props):
        return list(manifests), 0
    target, fewest = MANIFEST_TARGET_SIZE.of(props), MANIFEST_MIN_COUNT_TO_MERGE.of(props)
    first, result, replaced = manifests[0], list[ManifestFile](), 0
    for spec_id in sorted({m.partition_spec_id for m in manifests}, reverse=True):
        group = [m for m in manifests if m.partition_spec_id == spec_id]
        for packed in pack_end(group, target, lambda m: m.manifest_length):
            waits = any(m is first for m in packed) and len(packed) < fewest
            if len(packed) == 1 or waits:
                result += packed
                continue
            key = tuple((m.manifest_path, m.first_row_id) for m in packed)
            if key not in cache:
                cache[key] = writer.write(
                    _merged_entries(packed, writer, metadata), spec_id, packed[0].content
                )
            result.append(cache[key])
            replaced += sum(m.added_snapshot_id != writer.snapshot_id for m in packed)
    return result, replaced


def _merged_entries(
    packed: Sequence[ManifestFile], writer: ManifestWriter, metadata: TableMetadata
) -> list[ManifestEntry]:
    """Merge the entries: ADDED and DELETED entries of this snapshot keep their status, other live
    ones become EXISTING, and DELETED entries of earlier snapshots are dropped."""
    entries = []
    for manifest in packed:
        for entry in read_entries(manifest, metadata, writer.output.storage, writer.entries):
            is_own = entry.snapshot_id == writer.snapshot_id
            if entry.status == DELETED:
                if is_own:
                    entries.append(entry)
            elif entry.status == ADDED and is_own:
                entries.append(entry)
            else:
                entries.append(
                    entry if entry.status == EXISTING else replace(entry, status=EXISTING)
                )
    return entries
