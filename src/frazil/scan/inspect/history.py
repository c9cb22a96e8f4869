"""Build the metadata tables that need only the table metadata: history, snapshots, refs,
metadata_log_entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.scan.inspect.types import TIMESTAMP
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH, SnapshotRef

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
