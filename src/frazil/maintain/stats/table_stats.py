"""Compute the numbers of distinct values of columns, as theta sketches in a Puffin file (Java's
procedure compute_table_stats).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.values.python_values import as_internal
from frazil.codec.puffin import Blob, encode_puffin
from frazil.codec.theta_sketch import ThetaSketch, Words, hash_fixed, hash_lengths
from frazil.commit.actions import AddStatistics
from frazil.errors import InvalidInput
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_readable
from frazil.maintain.progress import Progress, ProgressCallback, progress
from frazil.ops.arguments import names
from frazil.rows.groups import grouped
from frazil.scan.aggregates import THETA_BLOB
from frazil.scan.plan import Plan, plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, StatisticsBlob, StatisticsFile
from frazil.spec.types import (
    BooleanType,
    DecimalType,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
    UnknownType,
    VariantType,
)
from frazil.spec.version import VERSION
from frazil.storage import metadata_location

_NOT_HASHED = (VariantType, GeometryType, GeographyType, UnknownType)
Sketches = dict[int, ThetaSketch]


@dataclass(frozen=True, kw_only=True, repr=False)
class TableStatsResult(ProcedureResult):
    """Hold the result of compute_table_stats. `statistics_file`: its location, None for a table
    without snapshot and for a dry run.

    `ndv`: the estimated number of distinct values by column. `snapshot_id`: the snapshot that was
    read. `files_read`, `bytes_read`: its data files.
    """

    statistics_file: str | None = None
    ndv: Mapping[str, int] = field(default_factory=dict, metadata={"ours": True})
    snapshot_id: int | None = field(default=None, metadata={"ours": True})
    files_read: int = field(default=0, metadata={"ours": True})
    bytes_read: int = field(default=0, metadata={"ours": True})

    def to_arrow(self) -> pa.Table:
        """Return the column of Java's procedure: one row, none where there is no file."""
        return pa.table(
            {
                "statistics_file": pa.array(
                    [self.statistics_file] if self.statistics_file else [], pa.string()
                )
            }
        )


@dataclass(frozen=True)
class TableStatsPlan:
    """Hold the files of a snapshot to read, and the columns with their paths of names."""

    snapshot: Snapshot
    scan: Plan
    columns: Mapping[int, tuple[str, ...]]


def compute_table_stats(
    table: MaintainedTable,
    *,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> TableStatsResult:
    """Compute the statistics of a snapshot (None: the current one) and register them in the table's
    metadata.
    """
    begun = time.monotonic()
    table = newest_readable(table)
    planned = plan_table_stats(table, snapshot_id, columns)
    if planned is None:
        return TableStatsResult(dry_run=dry_run)
    result = TableStatsResult(
        dry_run=dry_run,
        snapshot_id=planned.snapshot.snapshot_id,
        files_read=len(planned.scan),
        bytes_read=planned.scan.total_size,
    )
    if not dry_run:
        result = apply_table_stats(table, planned, result, callback)
    return replace(result, seconds=time.monotonic() - begun)


def plan_table_stats(
    table: MaintainedTable, snapshot_id: int | None, columns: Sequence[str] | None
) -> TableStatsPlan | None:
    """Plan which files and columns to read; None for a table without snapshot. Raises
    NoSuchSnapshotError, InvalidInput.
    """
    metadata = table.metadata
    snapshot = (
        metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    )
    if snapshot is None:
        return None
    schema = metadata.schema()
    if snapshot_id is not None and snapshot.schema_id is not None:
        schema = metadata.schema_by_id(snapshot.schema_id)
    if columns is None:
        chosen = [
            f
            for f in schema.fields
            if f.field_type.is_primitive and not isinstance(f.field_type, _NOT_HASHED)
        ]
    else:
        chosen = [_column(schema, name) for name in names("columns", columns)]
        if not chosen:
            raise InvalidInput(
                "columns names no column.",
                hint="Leave it out for all primitive columns at the top.",
            )
    paths = {f.field_id: _path(schema, f) for f in chosen}
    return TableStatsPlan(
        snapshot, plan(metadata, table.storage, snapshot=snapshot, schema=schema), paths
    )


def _column(schema: Schema, name: str) -> NestedField:
    column = schema.get_field(name)
    if column is None:
        raise InvalidInput(f"Can't find column {name} in {schema.as_struct()}", columns=(name,))
    if not column.field_type.is_primitive or isinstance(column.field_type, _NOT_HASHED):
        raise InvalidInput(
            f"Can't compute stats on non-primitive type column: {name} ({column.field_type})",
            columns=(name,),
        )
    if any(
        not isinstance(schema.by_id[i].field_type, StructType)
        for i in schema.parents[column.field_id]
    ):
        raise InvalidInput(
            f"Can't compute stats on a column inside a list or map: {name}", columns=(name,)
        )
    return column


def _path(schema: Schema, column: NestedField) -> tuple[str, ...]:
    return (*(schema.by_id[i].name for i in schema.parents[column.field_id]), column.name)


def apply_table_stats(
    table: MaintainedTable,
    planned: TableStatsPlan,
    result: TableStatsResult,
    callback: ProgressCallback | None = None,
) -> TableStatsResult:
    """Read the columns, write the Puffin file and register it."""
    _ = table.writable  # raises for a table that is read-only, before anything is read
    context = ReadContext.of(
        planned.scan, planned.scan.schema.project(planned.columns), table.storage
    )
    groups = grouped(planned.scan.tasks(), table.runner.parallelism, planned.scan.options.split)
    work = partial(sketch_files, context=context, columns=dict(planned.columns))
    with progress(sum(map(len, groups)), "data files read", callback) as shown:
        group_sketches = _counted(table.runner.run(work, groups), groups, shown)
        sketches: Sketches = reduce(
            _merged, group_sketches, dict.fromkeys(planned.columns, ThetaSketch())
        )
    statistics, data = _puffin(table, planned.snapshot, sketches)
    operation = table.begin()
    operation.written.append(statistics.statistics_path)
    with operation:
        table.storage.write(statistics.statistics_path, data)
        operation.stage(AddStatistics(statistics=[statistics.to_object()]))
    ndv = {".".join(path): int(sketches[i].estimate) for i, path in planned.columns.items()}
    return replace(result, statistics_file=statistics.statistics_path, ndv=ndv)


def _counted(
    results: Iterator[Sketches], groups: Sequence[Sequence[FileScanTask]], shown: Progress
) -> Iterator[Sketches]:
    """Yield the results of groups, and count their files as read."""
    for group, result in zip(groups, results, strict=True):
        shown.advance(len(group))
        yield result


def _puffin(
    table: MaintainedTable, snapshot: Snapshot, sketches: Sketches
) -> tuple[StatisticsFile, bytes]:
    blobs = [
        Blob(
            type=THETA_BLOB,
            data=sketch.to_bytes(),
            fields=(column,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            compression_codec="zstd",
            properties={"ndv": str(int(sketch.estimate))},
        )
        for column, sketch in sketches.items()
    ]
    data, places, footer = encode_puffin(blobs, {"created-by": f"frazil {VERSION}"})
    metadata = table.metadata
    path = metadata_location(
        metadata.location, metadata.properties, f"{snapshot.snapshot_id}-{uuid.uuid4()}.stats"
    )
    described = tuple(
        StatisticsBlob(
            type=b.type,
            snapshot_id=b.snapshot_id,
            sequence_number=b.sequence_number,
            fields=b.fields,
            properties=dict(b.properties),
        )
        for b in places
    )
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=path,
        file_size_in_bytes=len(data),
        file_footer_size_in_bytes=footer,
        blob_metadata=described,
    ), data


def sketch_files(
    tasks: Iterable[FileScanTask], context: ReadContext, columns: Mapping[int, tuple[str, ...]]
) -> Sketches:
    """Collect sketches of the values of columns over the rows of files, deletes applied; this runs
    in a task.
    """
    sketches = dict.fromkeys(columns, ThetaSketch())
    types = {i: context.projection.by_id[i].field_type for i in columns}
    for task in tasks:
        for batch in read_task(task, context):
            for column, path in columns.items():
                values = batch.column(path[0])
                inner = values if len(path) == 1 else pc.struct_field(values, list(path[1:]))
                sketches[column] = sketches[column].with_hashes(hash_values(inner, types[column]))
    return sketches


def _merged(left: Sketches, right: Sketches) -> Sketches:
    return {column: sketch.merged(right[column]) for column, sketch in left.items()}


# Hash the values of Arrow columns for theta sketches: by the bytes of their single-value
# serialization, as Java Iceberg does.


def hash_values(values: pa.Array, type_: IcebergType) -> Words:
    """Hash the values of a primitive column that are not null. Empty texts and bytes hash to 0,
    which counts as nothing, as in Java.
    """
    internal_values = as_internal(values, type_).drop_null()
    match type_:
        case BooleanType():
            return hash_fixed(np.asarray(internal_values.cast(pa.uint8())).reshape(-1, 1))
        case DecimalType():
            return _hash_decimals(internal_values.cast(pa.decimal128(type_.precision, type_.scale)))
    if pa.types.is_binary(internal_values.type) or pa.types.is_string(internal_values.type):
        return _hash_bytes(pc.unique(internal_values))
    if pa.types.is_fixed_size_binary(internal_values.type):
        return _hash_bytes(pc.unique(internal_values.cast(pa.binary())))
    numbers = np.ascontiguousarray(internal_values.to_numpy(zero_copy_only=False))
    width = numbers.dtype.itemsize
    return hash_fixed(
        numbers.astype(numbers.dtype.newbyteorder("<")).view(np.uint8).reshape(len(numbers), width)
    )


def _hash_bytes(values: pa.Array) -> Words:
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return hash_lengths(np.frombuffer(data or b"", np.uint8), ends[:-1], np.diff(ends))


def _hash_decimals(values: pa.Array) -> Words:
    """Hash the fewest bytes that hold each unscaled value, big-endian in two's complement."""
    stored: np.ndarray[Any, Any] = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(
        -1, 16
    )
    wide = stored[values.offset : values.offset + len(values), ::-1]
    if not len(wide):
        return np.zeros(0, np.uint64)
    negative = wide[:, :1] >= 128
    filler = np.where(negative, 255, 0).astype(np.uint8)
    # a byte may be left out when it only repeats the sign, and the next one has the sign's bit
    sign_bit = (wide >= 128) == negative
    idle = (wide[:, :-1] == filler) & sign_bit[:, 1:]
    left_out = np.cumprod(idle, axis=1).sum(axis=1)
    flat = np.ascontiguousarray(wide).reshape(-1)
    return hash_lengths(flat, np.arange(len(wide)) * 16 + left_out, 16 - left_out)
