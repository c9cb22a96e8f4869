"""Build the metadata tables `manifests` and `all_manifests`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.codec import single_value
from frazil.scan.manifests import manifests_of
from frazil.scan.source_types import partition_types
from frazil.spec.manifest import FieldSummary, ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage

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


def _table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


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
            transform: Any = field.transform,
            source: Any = source,
            type_: Any = type_,
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
