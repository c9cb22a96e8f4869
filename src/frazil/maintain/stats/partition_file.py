"""Write and read partition statistics files, in the table's data format (spec, "Partition
Statistics File").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.values.arrays import array_of, internal_values
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.maintain.stats.partition_counts import COUNTS, PartitionCounts
from frazil.scan.partition_union import unified_partition_type
from frazil.scan.tasks import WHOLLY, FileScanTask, TaskFacts
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import UNPARTITIONED_PARTITION_SPEC
from frazil.spec.properties import DATA_FORMAT
from frazil.spec.schema import Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER
from frazil.spec.types import IntegerType, LongType, NestedField, StructType
from frazil.storage import Storage

_COUNT_IDS = (3, 4, 5, 6, 7, 8, 9, 13)  # field ids of COUNTS


def statistics_schema(metadata: TableMetadata) -> Schema:
    """Return the columns of the file in the table's format version; files of older versions are
    read by it as well.
    """
    newest = metadata.format_version >= 3
    columns = [
        NestedField(
            i,
            name,
            IntegerType() if name.endswith(("file_count", "dv_count")) else LongType(),
            newest or i < 6,
        )
        for i, name in zip(_COUNT_IDS[:-1], COUNTS, strict=False)
    ]
    last = (
        [NestedField(13, COUNTS[-1], IntegerType(), True, initial_default=0, write_default=0)]
        if newest
        else []
    )
    return Schema(
        NestedField(1, "partition", unified_partition_type(metadata), True),
        NestedField(2, "spec_id", IntegerType(), True),
        *columns,
        NestedField(10, "total_record_count", LongType(), False),
        NestedField(11, "last_updated_at", LongType(), False),
        NestedField(12, "last_updated_snapshot_id", LongType(), False),
        *last,
    )


def write_counts(
    counts: Sequence[PartitionCounts], metadata: TableMetadata, storage: Storage, path: str
) -> int:
    """Write a file, one row per partition; returns its size. `total_record_count` stays null, as in
    Java: it would need all rows read.
    """
    schema = statistics_schema(metadata)
    partition_ids = [f.field_id for f in unified_partition_type(metadata).fields]
    values: dict[int, list[Any]] = {
        1: [dict(zip(partition_ids, c.partition, strict=True)) for c in counts],
        2: [c.spec_id for c in counts],
        10: [None] * len(counts),
        11: [c.last_updated_at for c in counts],
        12: [c.last_updated_snapshot_id for c in counts],
        **{i: [c.counts[n] for c in counts] for n, i in enumerate(_COUNT_IDS)},
    }
    arrays = [array_of(f.field_type, values[f.field_id]) for f in schema.fields]
    batch = pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(schema))
    format_ = DATA_FORMAT.of(metadata.properties).lower()
    context = WriteContext(
        schema,
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        storage,
        metadata.location,
        {},
        format_,
    )
    with storage.open_output(path) as sink:
        writer = context.writer(sink)
        writer.write([batch])
        writer.close()
        return int(sink.tell())


def read_counts(
    statistics: Mapping[str, Any], metadata: TableMetadata, storage: Storage
) -> list[PartitionCounts]:
    """Read a file that the metadata names (a JSON object of the spec), also one of another engine,
    or written before the table's specs or format version changed."""
    path = statistics["statistics-path"]
    schema = statistics_schema(metadata)
    file = DataFile(
        file_path=path,
        file_format=path.rpartition(".")[2].lower(),
        record_count=0,
        file_size_in_bytes=statistics["file-size-in-bytes"],
    )
    task = FileScanTask(
        None, 0, None, UNPARTITIONED_PARTITION_SPEC, TaskFacts(file, None, None, None, WHOLLY)
    )
    counts: list[PartitionCounts] = []
    for batch in read_task(task, ReadContext(schema, storage, schema)):
        counts += _counts(batch, schema)
    return counts


def _counts(batch: pa.RecordBatch, schema: Schema) -> list[PartitionCounts]:
    columns = {f.field_id: batch.column(n) for n, f in enumerate(schema.fields)}
    unified = schema.fields[0].field_type
    assert isinstance(unified, StructType)
    members = zip(unified.fields, columns[1].flatten(), strict=True)
    inner = [internal_values(field.field_type, values) for field, values in members]
    partitions = list(zip(*inner, strict=True))
    numbers = [columns[i].to_pylist() if i in columns else [0] * len(batch) for i in _COUNT_IDS]
    rest = [columns[i].to_pylist() for i in (2, 11, 12)]
    return [
        PartitionCounts(partition, spec_id, [n or 0 for n in counts], updated_at, updated_by)
        for partition, counts, spec_id, updated_at, updated_by in zip(
            partitions, zip(*numbers, strict=True), *rest, strict=True
        )
    ]
