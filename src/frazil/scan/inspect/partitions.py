"""Build the metadata table `partitions`: counts and sizes of live files, summed up by partition.

As in Java, a partition is a set of values of the unified partition type together with the number of
its fields that the file's spec has, so files of an older spec are not mixed with those of a newer
one. Values are equal when their bits are: -0.0 and 0.0 are two partitions, all NaNs are one.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.bind import bind
from frazil.expr.bound import Bound, Constant, references
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.columns import projected_fields, unified_partition_type
from frazil.scan.inspect.partition_type import (
    TIMESTAMP,
    coerce_partition,
    documented,
    partition_arrow_type,
    partition_struct,
)
from frazil.scan.manifests import (
    ENTRY,
    STATISTICS,
    column_of,
    each,
    live,
    manifests_of,
    read_manifest,
    threads_for,
)
from frazil.scan.options import default_workers
from frazil.scan.plan import may_match
from frazil.scan.prune import file_pruner
from frazil.spec.manifest import DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import StructType
from frazil.storage import Storage

_COUNTS = (
    ("record_count", pa.int64()), ("file_count", pa.int32()), ("total_data_file_size_in_bytes", pa.int64()),
    ("position_delete_record_count", pa.int64()), ("position_delete_file_count", pa.int32()),
    ("equality_delete_record_count", pa.int64()), ("equality_delete_file_count", pa.int32()),
)  # fmt: skip
_COMMENTS = {
    "record_count": "Number of rows in data files",
    "file_count": "Number of data files",
    "total_data_file_size_in_bytes": "Size of all data files in bytes",
    "position_delete_record_count": "Number of deletes in position delete files and deletion vectors",
    "position_delete_file_count": "Number of position delete files and deletion vectors",
    "equality_delete_record_count": "Number of deletes in equality delete files",
    "equality_delete_file_count": "Number of equality delete files",
    "last_updated_at": "When the last snapshot that changed the partition was committed",
    "last_updated_snapshot_id": "Id of the last snapshot that changed the partition",
}
_SUMMED = (*ENTRY, "content", "file_path", "partition", "record_count", "file_size_in_bytes")


def partitions_schema(metadata: TableMetadata) -> pa.Schema:
    """Return Java's columns; `partition` and `spec_id` are left out when no spec has a field."""
    unified = unified_partition_type(metadata)
    keys = (
        [
            pa.field("partition", partition_arrow_type(unified), False),
            pa.field("spec_id", pa.int32(), False),
        ]
        if unified.fields
        else []
    )
    counts = [pa.field(name, type_, False) for name, type_ in _COUNTS]
    last = [
        pa.field("last_updated_at", TIMESTAMP),
        pa.field("last_updated_snapshot_id", pa.int64()),
    ]
    return pa.schema([*keys, *documented([*counts, *last], _COMMENTS)])


def partitions(
    metadata: TableMetadata,
    storage: Storage,
    snapshot: Snapshot | None,
    row_filter: Predicate | None = None,
    case_sensitive: bool = True,
) -> pa.Table:
    """Sum up the live files of a snapshot by partition. `row_filter` is on the table's columns:
    files that cannot hold matching rows are not counted."""
    schema, unified = partitions_schema(metadata), unified_partition_type(metadata)
    if snapshot is None:
        return schema.empty_table()
    bound = bind(
        row_filter if row_filter is not None else AlwaysTrue(),
        metadata.schema(),
        case_sensitive=case_sensitive,
    )
    chosen = may_match(
        manifests_of(metadata, snapshot, storage), metadata, bound, metadata.schema()
    )
    ranks = _Ranks(metadata)
    work = partial(
        _manifest, metadata=metadata, storage=storage, bound=bound, unified=unified, ranks=ranks
    )
    tables = [
        t for t in each(work, chosen, threads_for(chosen, storage, default_workers())) if t.num_rows
    ]
    if not tables:
        return schema.empty_table()
    return _finish(_sum(pa.concat_tables(tables), unified), unified, ranks, schema)


class _Ranks:
    """Rank snapshots by time, so that the newest has the highest rank; -1 is a snapshot that has
    expired.
    """

    def __init__(self, metadata: TableMetadata):
        ordered = sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number))
        self.ids = pa.array([s.snapshot_id for s in ordered], type=pa.int64())
        self.times = pa.array([s.timestamp_ms * 1000 for s in ordered], type=pa.int64()).cast(
            TIMESTAMP
        )

    def of(self, snapshot_ids: pa.Array) -> pa.Array:
        return pc.index_in(snapshot_ids, self.ids).fill_null(-1).cast(pa.int64())


# most specs that a table may have; rank * _SPECS + spec id is one number, whose maximum is the
# newest of both
_SPECS = 1 << 24


def _manifest(
    manifest: ManifestFile,
    *,
    metadata: TableMetadata,
    storage: Storage,
    bound: Bound,
    unified: StructType,
    ranks: _Ranks,
) -> pa.Table:
    """Sum up one manifest: keys k0, k1, …, the number of fields, the counts, and the newest
    (snapshot, spec) as one number.
    """
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    columns = (*_SUMMED, "split_offsets", *STATISTICS) if references(bound) else _SUMMED
    entries = live(read_manifest(storage, manifest, columns))
    if bound != Constant(True):
        entries = file_pruner(bound, metadata.schema(), spec, metadata.snapshots)(entries)[0]
    entries = entries.combine_chunks()
    partition = column_of(entries, "partition")
    keys = [_one_nan(c) for c in coerce_partition(partition, unified)]
    content = column_of(entries, "content").fill_null(0)
    records, sizes = column_of(entries, "record_count"), column_of(entries, "file_size_in_bytes")
    counted: list[pa.Array] = []
    for kind in (
        DataFileContent.DATA,
        DataFileContent.POSITION_DELETES,
        DataFileContent.EQUALITY_DELETES,
    ):
        of_kind = pc.equal(content, int(kind))
        counted += [pc.if_else(of_kind, records, 0), of_kind.cast(pa.int64())]
        if kind == DataFileContent.DATA:
            counted.append(pc.if_else(of_kind, sizes, 0))
    newest = pc.add(pc.multiply(ranks.of(column_of(entries, "snapshot_id")), _SPECS), spec.spec_id)
    fields = pa.repeat(pa.scalar(projected_fields(spec, unified), pa.int32()), len(entries))
    names = [
        *(f"k{i}" for i in range(len(keys))),
        "fields",
        *(name for name, _ in _COUNTS),
        "newest",
    ]
    return _sum(pa.Table.from_arrays([*keys, fields, *counted, newest], names=names), unified)


def _one_nan(values: pa.Array) -> pa.Array:
    """Give all NaNs the same bits, so that they fall into one group."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)


def _sum(table: pa.Table, unified: StructType) -> pa.Table:
    names = [name for name, _ in _COUNTS]
    keys = [*(f"k{i}" for i in range(len(unified.fields))), "fields"]
    summed = table.group_by(keys, use_threads=False).aggregate(
        [*((n, "sum") for n in names), ("newest", "max")]
    )
    return summed.select([*keys, *(f"{n}_sum" for n in names), "newest_max"]).rename_columns(
        [*keys, *names, "newest"]
    )


def _finish(table: pa.Table, unified: StructType, ranks: _Ranks, schema: pa.Schema) -> pa.Table:
    table = table.combine_chunks()
    newest = column_of(table, "newest")
    rank = pc.shift_right(newest, 24)
    spec_ids = pc.subtract(newest, pc.multiply(rank, _SPECS)).cast(pa.int32())
    snapshot_rank = pc.if_else(pc.less(rank, 0), pa.scalar(None, pa.int64()), rank)
    columns: list[pa.Array] = []
    if unified.fields:
        columns += [
            partition_struct(
                [column_of(table, f"k{i}") for i in range(len(unified.fields))], unified
            ),
            spec_ids,
        ]
    columns += [column_of(table, name).cast(type_) for name, type_ in _COUNTS]
    columns += [ranks.times.take(snapshot_rank), ranks.ids.take(snapshot_rank)]
    return pa.Table.from_arrays(columns, schema=schema)
