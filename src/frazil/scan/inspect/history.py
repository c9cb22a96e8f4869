"""Build the metadata tables of a table's history: history, snapshots, refs, metadata_log_entries,
and those of its manifests: manifests, all_manifests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.codec import single_value
from frazil.scan.bounds import partition_types
from frazil.scan.inspect.partition_type import TIMESTAMP
from frazil.scan.manifests import manifests_of
from frazil.spec.manifest import FieldSummary, ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef
from frazil.spec.transforms import Transform
from frazil.spec.types import IcebergType
from frazil.storage import Storage

HISTORY = pa.schema(
    [
        pa.field("made_current_at", TIMESTAMP, False),
        pa.field("snapshot_id", pa.int64(), False),
        pa.field("parent_id", pa.int64()),
        pa.field("is_current_ancestor", pa.bool_(), False),
    ]
)
SNAPSHOTS = pa.schema(
    [
        pa.field("committed_at", TIMESTAMP, False),
        pa.field("snapshot_id", pa.int64(), False),
        pa.field("parent_id", pa.int64()),
        pa.field("operation", pa.string()),
        pa.field("manifest_list", pa.string()),
        pa.field("summary", pa.map_(pa.string(), pa.field("value", pa.string(), False))),
    ]
)
REFS = pa.schema(
    [
        pa.field("name", pa.string(), False),
        pa.field("type", pa.string(), False),
        pa.field("snapshot_id", pa.int64(), False),
        pa.field("max_reference_age_in_ms", pa.int64()),
        pa.field("min_snapshots_to_keep", pa.int32()),
        pa.field("max_snapshot_age_in_ms", pa.int64()),
    ]
)
METADATA_LOG_ENTRIES = pa.schema(
    [
        pa.field("timestamp", TIMESTAMP, False),
        pa.field("file", pa.string(), False),
        pa.field("latest_snapshot_id", pa.int64()),
        pa.field("latest_schema_id", pa.int32()),
        pa.field("latest_sequence_number", pa.int64()),
    ]
)


def _table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def history(metadata: TableMetadata) -> pa.Table:
    """List each change of the current snapshot (`main`); the parent is null when the snapshot is no
    longer kept.
    """
    ancestors = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot())}
    rows = []
    for entry in metadata.snapshot_log:
        snapshot = metadata.snapshots.by_id(entry.snapshot_id)
        parent = snapshot.parent_snapshot_id if snapshot else None
        rows.append(
            (entry.timestamp_ms * 1000, entry.snapshot_id, parent, entry.snapshot_id in ancestors)
        )
    return _table(rows, HISTORY)


def snapshots(metadata: TableMetadata) -> pa.Table:
    """List the snapshots; `summary` leaves out the operation, which has a column of its own."""
    rows = [
        (
            s.timestamp_ms * 1000,
            s.snapshot_id,
            s.parent_snapshot_id,
            s.operation,
            s.manifest_list,
            [(k, v) for k, v in s.summary.items() if k != "operation"] if s.summary else None,
        )
        for s in metadata.snapshots
    ]
    return _table(rows, SNAPSHOTS)


def refs(metadata: TableMetadata) -> pa.Table:
    named = dict(metadata.refs)
    if metadata.current_snapshot_id is not None and MAIN_BRANCH not in named:
        named[MAIN_BRANCH] = SnapshotRef(metadata.current_snapshot_id)
    rows = [
        (
            name,
            r.type.upper(),
            r.snapshot_id,
            r.max_ref_age_ms,
            r.min_snapshots_to_keep,
            r.max_snapshot_age_ms,
        )
        for name, r in named.items()
    ]
    return _table(rows, REFS)


def metadata_log_entries(metadata: TableMetadata, metadata_location: str) -> pa.Table:
    """List the metadata files of the metadata log, the current one last, with the snapshot that was
    current when each was written.
    """
    rows = []
    for timestamp_ms, file in [
        *((e.timestamp_ms, e.metadata_file) for e in metadata.metadata_log),
        (metadata.last_updated_ms, metadata_location),
    ]:
        latest = None
        for entry in metadata.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms:
                latest = entry.snapshot_id
        snapshot = metadata.snapshots.by_id(latest)
        schema_id = snapshot.schema_id if snapshot else None
        rows.append(
            (
                timestamp_ms * 1000,
                file,
                latest,
                schema_id,
                snapshot.sequence_number if snapshot else None,
            )
        )
    return _table(rows, METADATA_LOG_ENTRIES)


_SUMMARY = pa.struct(
    [
        pa.field("contains_null", pa.bool_(), False),
        pa.field("contains_nan", pa.bool_()),
        pa.field("lower_bound", pa.string()),
        pa.field("upper_bound", pa.string()),
    ]
)
_COUNTS = ("added_data_files_count", "existing_data_files_count", "deleted_data_files_count", "added_delete_files_count",
           "existing_delete_files_count", "deleted_delete_files_count")  # fmt: skip
MANIFESTS = pa.schema(
    [
        pa.field("content", pa.int32(), False),
        pa.field("path", pa.string(), False),
        pa.field("length", pa.int64(), False),
        pa.field("partition_spec_id", pa.int32()),
        pa.field("added_snapshot_id", pa.int64()),
        *(pa.field(name, pa.int32()) for name in _COUNTS),
        pa.field("partition_summaries", pa.list_(pa.field("element", _SUMMARY, False))),
    ]
)
ALL_MANIFESTS = pa.schema(
    [
        *MANIFESTS,
        pa.field("reference_snapshot_id", pa.int64(), False),
        pa.field("key_metadata", pa.binary()),
    ]
)


def manifests(metadata: TableMetadata, storage: Storage, snapshot: Snapshot | None) -> pa.Table:
    listed = manifests_of(metadata, snapshot, storage) if snapshot else ()
    return _table([_row(m, metadata) for m in listed], MANIFESTS)


def all_manifests(metadata: TableMetadata, storage: Storage) -> pa.Table:
    """List the manifests of every snapshot that is kept, once per snapshot that lists them."""
    rows = []
    for snapshot in metadata.snapshots:
        for manifest in manifests_of(metadata, snapshot, storage):
            rows.append((*_row(manifest, metadata), snapshot.snapshot_id, manifest.key_metadata))
    return _table(rows, ALL_MANIFESTS)


def _row(manifest: ManifestFile, metadata: TableMetadata) -> tuple[Any, ...]:
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    none = (0, 0, 0)
    both = (*counts, *none) if manifest.content == ManifestContent.DATA else (*none, *counts)
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    summaries = (
        None if manifest.partitions is None else _summaries(manifest.partitions, spec, metadata)
    )
    path, length = manifest.manifest_path, manifest.manifest_length
    return (
        manifest.content,
        path,
        length,
        manifest.partition_spec_id,
        manifest.added_snapshot_id,
        *both,
        summaries,
    )


def _summaries(
    parts: tuple[FieldSummary, ...], spec: PartitionSpec, metadata: TableMetadata
) -> list[dict[str, Any]]:
    types = partition_types(spec, metadata)
    rows = []
    for part, field, (source, type_) in zip(parts, spec.fields, types, strict=False):

        def human(
            bound: bytes | None,
            transform: Transform = field.transform,
            source: IcebergType = source,
            type_: IcebergType = type_,
        ) -> str:
            value = None if bound is None else single_value.from_bytes(type_, bound)
            return single_value.human_string(transform, source, value)

        rows.append(
            {
                "contains_null": part.contains_null,
                "contains_nan": part.contains_nan,
                "lower_bound": human(part.lower_bound),
                "upper_bound": human(part.upper_bound),
            }
        )
    return rows
