"""Compute the counts of each partition as a statistics file in the table's data format (spec,
"Partition Statistics", "Partition Statistics File"; Java's procedure compute_partition_stats).

Where an ancestor of the snapshot has such a file, it is read, and then only the manifests that were
added since.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.values.arrays import array_of, internal_values
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.commit.actions import AddStatistics
from frazil.errors import FrazilError, ValidationError
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_readable
from frazil.maintain.progress import ProgressCallback, progress
from frazil.maintain.stats.partition_counts import (
    COUNTS,
    PartitionCounts,
    added_manifests,
    count_partitions,
    summed,
)
from frazil.scan.columns import unified_partition_type
from frazil.scan.manifests import manifests_of
from frazil.scan.tasks import WHOLLY, FileScanTask, TaskFacts
from frazil.spec.manifest import DataFile, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import UNPARTITIONED_PARTITION_SPEC
from frazil.spec.properties import DATA_FORMAT
from frazil.spec.schema import Schema
from frazil.spec.snapshot import PartitionStatisticsFile, Snapshot
from frazil.spec.sorting import UNSORTED_SORT_ORDER
from frazil.spec.types import IntegerType, LongType, NestedField, StructType
from frazil.storage import Storage, metadata_location

_log = logging.getLogger("frazil")


@dataclass(frozen=True, kw_only=True, repr=False)
class PartitionStatsResult(ProcedureResult):
    """Hold the result of compute_partition_stats. `partition_statistics_file`: its location, None
    for a table without snapshot and for a dry run.

    `snapshot_id`: the snapshot that was counted. `partitions`: how many it has. `manifests_read`:
    how many manifests were read, 0 where the snapshot has its file already. `continued_from`: the
    snapshot whose file was continued; None: all manifests were read.
    """

    partition_statistics_file: str | None = None
    snapshot_id: int | None = field(default=None, metadata={"ours": True})
    partitions: int = field(default=0, metadata={"ours": True})
    manifests_read: int = field(default=0, metadata={"ours": True})
    continued_from: int | None = field(default=None, metadata={"ours": True})

    def to_arrow(self) -> pa.Table:
        """Return the column of Java's procedure: one row, none where there is no file."""
        path = self.partition_statistics_file
        return pa.table(
            {"partition_statistics_file": pa.array([path] if path else [], pa.string())}
        )


@dataclass(frozen=True)
class PartitionStatsPlan:
    """Hold the manifests to read. `base`: the statistics file to which their counts are added;
    None: all live files are counted.
    """

    snapshot: Snapshot
    manifests: Sequence[ManifestFile]
    base: dict[str, Any] | None = None

    @property
    def is_there(self) -> bool:
        """Tell whether the snapshot has its statistics file already."""
        return self.base is not None and self.base["snapshot-id"] == self.snapshot.snapshot_id


def compute_partition_stats(
    table: MaintainedTable,
    *,
    snapshot_id: int | None = None,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> PartitionStatsResult:
    """Count the partitions of a snapshot (None: the current one), and register the file in the
    table's metadata.
    """
    begun = time.monotonic()
    table = newest_readable(table)
    planned = plan_partition_stats(table, snapshot_id)
    if planned is None:
        return PartitionStatsResult(dry_run=dry_run)
    result = PartitionStatsResult(
        dry_run=dry_run,
        snapshot_id=planned.snapshot.snapshot_id,
        manifests_read=len(planned.manifests),
        continued_from=planned.base["snapshot-id"]
        if planned.base is not None and not planned.is_there
        else None,
    )
    result = apply_partition_stats(table, planned, result, callback)
    return replace(result, seconds=time.monotonic() - begun)


def plan_partition_stats(
    table: MaintainedTable, snapshot_id: int | None
) -> PartitionStatsPlan | None:
    """Plan which manifests to read; None for a table without snapshot. Raises NoSuchSnapshotError,
    ValidationError for a table that was never partitioned."""
    metadata, storage = table.metadata, table.storage
    snapshot = (
        metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    )
    if snapshot is None:
        return None
    if not unified_partition_type(metadata).fields:
        raise ValidationError("Table must be partitioned", table=metadata.location)
    files = {s["snapshot-id"]: s for s in metadata.partition_statistics}
    since: list[Snapshot] = []
    for ancestor in metadata.ancestors(snapshot):
        if (base := files.get(ancestor.snapshot_id)) is not None:
            return PartitionStatsPlan(
                snapshot, added_manifests(metadata, storage, since), dict(base)
            )
        since.append(ancestor)
    return _from_all_manifests(table, snapshot)


def _from_all_manifests(table: MaintainedTable, snapshot: Snapshot) -> PartitionStatsPlan:
    return PartitionStatsPlan(snapshot, manifests_of(table.metadata, snapshot, table.storage))


def apply_partition_stats(
    table: MaintainedTable,
    planned: PartitionStatsPlan,
    result: PartitionStatsResult,
    callback: ProgressCallback | None = None,
) -> PartitionStatsResult:
    """Count, write the file and register it, unless the snapshot has one; a dry run only counts. If
    the older statistics file cannot be read, all manifests are read instead."""
    metadata = table.metadata
    if not result.dry_run and not planned.is_there:
        _ = table.writable  # raises before manifests are read
    counts: list[PartitionCounts] | None = None
    if planned.base is not None:
        counts = _continued(table, planned, callback)
        if counts is not None and planned.is_there:
            return replace(
                result,
                partition_statistics_file=planned.base["statistics-path"],
                partitions=len(counts),
            )
        if counts is None:
            planned = _from_all_manifests(table, planned.snapshot)
            result = replace(result, manifests_read=len(planned.manifests), continued_from=None)
    if counts is None:
        counts = _counted(table, planned.manifests, False, callback)
    if not counts or result.dry_run:
        return replace(result, partitions=len(counts))
    path = _new_path(metadata, planned.snapshot)
    operation = table.begin()
    operation.written.append(path)
    with operation:
        size = write_counts(counts, metadata, table.storage, path)
        file = PartitionStatisticsFile(
            snapshot_id=planned.snapshot.snapshot_id, statistics_path=path, file_size_in_bytes=size
        )
        operation.stage(AddStatistics(partition_statistics=[file.to_object()]))
    return replace(result, partition_statistics_file=path, partitions=len(counts))


def _counted(
    table: MaintainedTable,
    manifests: Sequence[ManifestFile],
    added_only: bool,
    callback: ProgressCallback | None,
) -> list[PartitionCounts]:
    """Count the partitions of manifests, and show how many manifests are read."""
    with progress(len(manifests), "manifests read", callback) as shown:
        return count_partitions(
            table.metadata,
            table.storage,
            manifests,
            added_only=added_only,
            on_manifest=shown.advance,
        )


def _continued(
    table: MaintainedTable, planned: PartitionStatsPlan, callback: ProgressCallback | None
) -> list[PartitionCounts] | None:
    assert planned.base is not None
    try:
        before = read_counts(planned.base, table.metadata, table.storage)
    except FrazilError as error:
        _log.warning(
            "Partition statistics %s cannot be read; all manifests are read instead: %s",
            planned.base["statistics-path"],
            error,
        )
        return None
    return summed([*before, *_counted(table, planned.manifests, True, callback)])


def _new_path(metadata: TableMetadata, snapshot: Snapshot) -> str:
    name = f"partition-stats-{snapshot.snapshot_id}-{uuid.uuid4()}.{DATA_FORMAT.of(metadata.properties).lower()}"
    return metadata_location(metadata.location, metadata.properties, name)


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
