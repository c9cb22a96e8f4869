"""Prune manifests and data files: evaluate a filter on partition summaries, partition values,
counts and bounds.

The result is one mask of possible outcomes per manifest or file: bit 1 TRUE, 2 FALSE, 4 NULL. Three
outcomes rather than a yes or no serve two questions at once: without bit 1 the file is skipped, and
exactly 1 means that every row matches, so that no row need be tested (and NOT is exact). A
statistic that is missing, damaged or of an unknown transform excludes nothing. A column without
statistics may be missing in the file or may just not have been measured, so nothing follows from
that either.

`prune_by_bounds_first` prunes a large manifest before its other columns are read. That saves time
only where a filter keeps few files of a manifest, and costs a second look into it where it keeps
many. A few of the manifest's blocks are therefore pruned first, as a sample. What else is known of
the files that are kept is then read from their blocks alone.

The rules for predicates are in `expr.pruning.prune`; filters that Spark adds when a query runs
prune again in `scan.narrow`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.codec.avro import Container
from frazil.codec.manifest import decode_manifest
from frazil.expr.bound import Bound, references
from frazil.expr.building import from_numpy, scalar, to_numpy
from frazil.expr.pruning.partitions import range_of_values
from frazil.expr.pruning.prune import outcomes
from frazil.expr.pruning.ranges import Range
from frazil.expr.values import FLOATS, arrow_type
from frazil.scan.bounds import MapColumn, decode_bounds, trusted
from frazil.scan.manifests import (
    BOUNDS,
    PLAN_COLUMNS,
    PRUNED_BY,
    STATISTICS,
    column_of,
    is_cached,
    manifest_bytes,
    read_manifest,
)
from frazil.scan.summaries import source_range
from frazil.spec.manifest import ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshots
from frazil.spec.transforms import VoidTransform
from frazil.spec.types import IcebergType, StructType
from frazil.storage import Storage

__all__ = ["STATISTICS", "file_outcomes", "file_pruner", "manifest_outcomes", "partition_outcomes"]

Mask = npt.NDArray[np.uint8]
EVERYTHING = 7


def telling_fields(
    spec: PartitionSpec, schema: Schema, columns: Sequence[int]
) -> list[tuple[int, PartitionField, IcebergType]]:
    """Return (position, field, source type) of the partition fields by which a filter on one of the
    columns can be decided.
    """
    return [
        (place, field, schema.by_id[field.source_id].field_type)
        for place, field in enumerate(spec.fields)
        if field.source_id in columns and field.source_id in schema.by_id and not field.source_ids
        if field.transform.is_known and not isinstance(field.transform, VoidTransform)
        if field.transform.can_transform(schema.by_id[field.source_id].field_type)
    ]


# --- manifests
# --------------------------------------------------------------------------------------------------


def manifest_outcomes(
    manifests: Sequence[ManifestFile], bound: Bound, schema: Schema, spec: PartitionSpec
) -> Mask:
    """Return one mask per manifest, from its partition summaries; all manifests were written with
    `spec`.
    """
    telling = telling_fields(spec, schema, list(references(bound)))
    ranges_by_column: dict[int, list[Range]] = {}
    for _, field, source in telling:
        ranges_by_column.setdefault(field.source_id, []).append(
            source_range(manifests, spec, field, source)
        )
    if not ranges_by_column:
        return np.full(len(manifests), EVERYTHING, dtype=np.uint8)
    return outcomes(bound, lambda i: ranges_by_column.get(i, ()), len(manifests))


# --- files
# --------------------------------------------------------------------------------------------------


def partition_ranges(
    partition: pa.Array, spec: PartitionSpec, schema: Schema, columns: Sequence[int]
) -> dict[int, list[Range]]:
    """Derive ranges of source columns from the files' partition values, by column id."""
    ranges_by_column: dict[int, list[Range]] = {}
    have = {partition.type.field(i).name: i for i in range(partition.type.num_fields)}
    for _, field, source in telling_fields(spec, schema, columns):
        place = have.get(str(field.field_id))
        if place is None:
            continue
        values = _cast(partition.field(place), arrow_type(field.transform.result_type(source)))
        if values is not None:
            ranges_by_column.setdefault(field.source_id, []).append(
                range_of_values(field.transform, source, values)
            )
    return ranges_by_column


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array | None:
    """Cast partition values to the type of the current source column (int to long, float to double,
    …); None: no such cast exists.
    """
    if values.type == type_:
        return values
    try:
        return values.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def statistics_ranges(
    entries: pa.Table, schema: Schema, columns: Sequence[int], snapshots: Snapshots | None = None
) -> dict[int, list[Range]]:
    """Derive ranges of columns from the files' counts and bounds, by column id; counts that
    `entries` lacks are unknown.

    `snapshots`: those of the table, which tell who wrote the statistics (`bounds.trusted`).
    """
    if not set(BOUNDS).issubset(entries.column_names) or not entries.num_rows:
        return {}
    metrics = _Metrics(entries, snapshots)
    records = column_of(entries, "record_count")
    primitive_columns = [
        i for i in columns if i in schema.by_id and schema.by_id[i].field_type.is_primitive
    ]
    return {i: [_statistics_range(metrics, records, schema, i)] for i in primitive_columns}


class _Metrics:
    """Read statistics columns of manifest entries, each opened when it is first asked for."""

    def __init__(self, entries: pa.Table, snapshots: Snapshots | None):
        self.entries, self.snapshots = entries, snapshots
        self._columns: dict[str, MapColumn] = {}

    def of(self, name: str, field_id: int) -> pa.Array:
        if name not in self.entries.column_names:
            return pa.nulls(self.entries.num_rows, pa.int64())
        if name not in self._columns:
            self._columns[name] = MapColumn(self.entries.column(name))
        return self._columns[name].at(field_id)


def _statistics_range(metrics: _Metrics, records: pa.Array, schema: Schema, field_id: int) -> Range:
    type_ = schema.by_id[field_id].field_type
    lower, upper = (decode_bounds(metrics.of(name, field_id), type_) for name in BOUNDS)
    unbounded = to_numpy(lower.is_null()) & to_numpy(upper.is_null())
    lower, upper = trusted(lower, upper, type_, metrics.entries, metrics.snapshots)
    rows = _counts(records)
    values, nulls = (
        _counts(metrics.of("value_counts", field_id)),
        _counts(metrics.of("null_value_counts", field_id)),
    )
    complete = ((values == rows) & (rows >= 0)) | ((values < 0) & _always_counted(schema, field_id))
    may_null = ~((nulls == 0) & complete)
    counted = np.where(
        values >= 0, values, rows
    )  # without a value count, every row is taken to be counted
    only_null = unbounded & (nulls >= 0) & (counted >= 0) & (nulls >= counted)
    if not isinstance(type_, FLOATS):
        return Range(_bound(lower), _bound(upper), may_null, False, ~only_null)
    nans = _counts(metrics.of("nan_value_counts", field_id))
    only_nan = unbounded & (nans > 0) & (nulls >= 0) & (counted >= 0) & (nulls + nans >= counted)
    return Range(
        _bound(lower), _bound(upper), may_null, (nans != 0) & ~only_null, ~(only_null | only_nan)
    )


def _bound(values: pa.Array) -> pa.Array | None:
    return None if values.null_count == len(values) else values


def _counts(values: pa.Array) -> npt.NDArray[np.int64]:
    """Convert counts to numpy, with -1 for unknown (old writers wrote -1 too)."""
    filled: npt.NDArray[np.int64] = to_numpy(values.fill_null(scalar(-1, values.type)))
    return np.maximum(filled, -1)


def _always_counted(schema: Schema, field_id: int) -> bool:
    """Tell whether no null struct can hide the column: a null count of 0 is then complete even when
    the value count is missing.
    """
    around = [schema.by_id[p] for p in schema.parents[field_id]]
    return all(p.required and isinstance(p.field_type, StructType) for p in around)


def partition_outcomes(
    entries: pa.Table, bound: Bound, schema: Schema, spec: PartitionSpec
) -> Mask | None:
    """Return one mask per entry, from partition values alone; None: the filter does not depend on
    them.
    """
    columns = list(references(bound))
    if not telling_fields(spec, schema, columns):
        return None
    ranges_by_column = partition_ranges(column_of(entries, "partition"), spec, schema, columns)
    return (
        outcomes(bound, lambda i: ranges_by_column.get(i, ()), entries.num_rows)
        if ranges_by_column
        else None
    )


def file_outcomes(
    entries: pa.Table,
    bound: Bound,
    schema: Schema,
    spec: PartitionSpec,
    snapshots: Snapshots | None = None,
) -> Mask:
    """Return one mask per entry, from partition values, counts and bounds (those columns of
    `STATISTICS` that `entries` has).
    """
    columns = list(references(bound))
    by_statistics = statistics_ranges(entries, schema, columns, snapshots)
    has_partition = bool(columns) and "partition" in entries.column_names
    by_partition = (
        partition_ranges(column_of(entries, "partition"), spec, schema, columns)
        if has_partition
        else {}
    )
    result = outcomes(
        bound, lambda i: (*by_partition.get(i, ()), *by_statistics.get(i, ())), entries.num_rows
    )
    empty = to_numpy(column_of(entries, "record_count")) == 0
    return np.where(empty, 0, result).astype(np.uint8) if empty.any() else result


def file_pruner(
    bound: Bound, schema: Schema, spec: PartitionSpec, snapshots: Snapshots | None = None
) -> Callable[[pa.Table], tuple[pa.Table, int, int]]:
    """Make a function from live entries to (entries that may match, with `_match`; skipped by
    partition values; skipped by statistics).
    """

    def prune(entries: pa.Table) -> tuple[pa.Table, int, int]:
        all_entries = entries.num_rows
        by_partition = partition_outcomes(entries, bound, schema, spec)
        if by_partition is not None and not bool((by_partition & 1).all()):
            entries = entries.filter(from_numpy((by_partition & 1).astype(bool)))
        in_partitions = entries.num_rows
        masks: Any = file_outcomes(entries, bound, schema, spec, snapshots)
        if not bool((masks & 1).all()):
            keep = (masks & 1).astype(bool)
            entries, masks = entries.filter(from_numpy(keep)), masks[keep]
        matching = entries.append_column("_match", from_numpy(masks.astype(np.uint8)))
        return matching, all_entries - in_partitions, in_partitions - matching.num_rows

    return prune


Pruned = tuple[pa.Table, int, int]
# --- large manifests, by bounds first
# --------------------------------------------------------------------------------------------------

LEAST_BYTES = 256 << 10  # of a manifest that is worth a sample
SAMPLED_BLOCKS = 4
FEW = 8  # a filter that keeps at most one file of so many keeps few
_SAMPLED = tuple(c for c in (*PLAN_COLUMNS, *STATISTICS) if c != "first_row_id")
_OTHERS = tuple(c for c in (*PLAN_COLUMNS, *STATISTICS) if c not in PRUNED_BY)
_ROW = "_row"


def prune_by_bounds_first(
    storage: Storage,
    manifest: ManifestFile,
    entries: Callable[[pa.Table], pa.Table],
    prune: Callable[[pa.Table], Pruned],
) -> Pruned | None:
    """Read and prune a manifest: (files that are left, skipped by partition values, skipped by
    statistics). None for one that is small, was read before, or has many files that are left.

    `entries`: the entries that are planned at all. `prune`: as `prune.file_pruner` makes it.
    """
    if manifest.manifest_length < LEAST_BYTES or is_cached(manifest):
        return None
    data = manifest_bytes(storage, manifest)
    sample = decode_manifest(data, manifest, columns=_SAMPLED, choose=_sample)
    if not _few(prune(sample)[0], sample):
        return None
    table = read_manifest(storage, manifest, PRUNED_BY, data=data)
    numbered = table.append_column(_ROW, from_numpy(np.arange(table.num_rows, dtype=np.int64)))
    left, by_partition, by_statistics = prune(entries(numbered))
    if not _few(left, table):
        return None
    rows = to_numpy(column_of(left, _ROW))
    others = decode_manifest(
        data, manifest, columns=_OTHERS, choose=lambda container: _of_rows(container, rows)
    )
    left = left.drop_columns(["_match"])
    for name in others.column_names:
        left = left.append_column(name, others.column(name))
    left, _, more = prune(left)
    return left.drop_columns([_ROW]), by_partition, by_statistics + more


def _few(left: pa.Table, table: pa.Table) -> bool:
    return bool(left.num_rows * FEW <= table.num_rows)


def _sample(container: Container) -> tuple[Container, None]:
    """Choose blocks that are spread over a file; all of them where it has few."""
    count = len(container.spans)
    spread = ((2 * n + 1) * count // (2 * SAMPLED_BLOCKS) for n in range(SAMPLED_BLOCKS))
    return container.part(range(count) if count <= SAMPLED_BLOCKS else spread), None


def _of_rows(
    container: Container, rows: npt.NDArray[np.int64]
) -> tuple[Container, npt.NDArray[np.int64]]:
    """Choose the blocks that hold some entries (ascending), and return the numbers of these entries
    in them.
    """
    counts = np.array([count for count, _, _ in container.spans], dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    blocks = np.searchsorted(firsts, rows, side="right") - 1
    wanted, place = np.unique(blocks, return_inverse=True)
    begins = np.cumsum(counts[wanted]) - counts[wanted]
    return container.part(wanted.tolist()), begins[place] + rows - firsts[blocks]
