"""Answer aggregates of a query (count, least and greatest value of columns) from the statistics that
manifests keep of files without deletes, so that no file is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.pruning.ranges import Range
from frazil.scan.bounds import MapColumn
from frazil.scan.narrow import planned_again
from frazil.scan.plan import Plan
from frazil.scan.prune import statistics_ranges
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, IntegerType, LongType, TimestampType, TimestamptzType

_EXACT = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
"""Types whose bounds writers do not truncate, and that no NaN or -0.0 makes ambiguous."""
THETA_BLOB = "apache-datasketches-theta-v1"
Aggregate = tuple[str, int]
"""An aggregate: "count", "min" or "max", and the id of a column."""


def from_statistics(
    plan: Plan, paths: Collection[str], schema: Schema, asked: Iterable[Aggregate]
) -> dict[Aggregate, int | None]:
    """Return those of the aggregates over planned files, to which no deletes apply, that statistics
    tell: counts of values, and least and greatest values as internal values (days, microseconds),
    None where there is no value. `schema`: the columns with the table's field ids. Raises the
    errors of `plan`.
    """
    if plan.storage is None or plan.snapshot is None or plan.by_server is not None:
        return {}
    exact = [
        (kind, field_id)
        for kind, field_id in asked
        if (f := schema.by_id.get(field_id)) is not None
        and (kind == "count" or isinstance(f.field_type, _EXACT))
    ]
    if not exact:
        return {}
    wanted = pa.array(paths, pa.string())
    tables = [
        entries
        for group in planned_again(plan, plan.row_filter, plan.schema, with_stats=True)
        if len(entries := group.table.filter(pc.is_in(group.table.column("file_path"), wanted)))
    ]
    if sum(map(len, tables)) != len(paths):
        return {}
    ids = list({field_id for kind, field_id in exact if kind != "count"})
    ranges = [statistics_ranges(t, schema, ids, plan.metadata.snapshots) for t in tables]
    answers: dict[Aggregate, int | None] = {}
    for kind, field_id in exact:
        of_files = [
            _counted(t, field_id) if kind == "count" else _extreme(r, len(t), field_id, kind)
            for t, r in zip(tables, ranges, strict=True)
        ]
        of_each = [values for values in of_files if values is not None]
        if len(of_each) == len(of_files):
            answers[kind, field_id] = _together(kind, [v for values in of_each for v in values])
    return answers


def distinct_values(plan: Plan) -> dict[int, int]:
    """Return how many distinct values columns of the planned snapshot have, by field id, as the
    sketches of its statistics file tell (`compute_table_stats`; the blobs' property `ndv`)."""
    if plan.snapshot is None:
        return {}
    blobs = (
        blob
        for file in plan.metadata.statistics
        if file.get("snapshot-id") == plan.snapshot.snapshot_id
        for blob in file.get("blob-metadata", ())
        if blob.get("type") == THETA_BLOB and len(blob.get("fields", ())) == 1
    )
    ndv = {b["fields"][0]: (b.get("properties") or {}).get("ndv", "") for b in blobs}
    return {i: int(text) for i, text in ndv.items() if text.isdigit()}


def _together(kind: str, values: Sequence[int]) -> int | None:
    if kind == "count":
        return sum(values)
    return (min if kind == "min" else max)(values, default=None)


def _counted(entries: pa.Table, field_id: int) -> list[int] | None:
    """Return how many values a column has that are not null, None where that is not known."""
    records = entries.column("record_count").to_numpy()
    of_column = []
    for name in ("value_counts", "null_value_counts"):
        counts = MapColumn(entries.column(name)).at(field_id)
        if counts.null_count:
            return None
        of_column.append(np.asarray(counts))
    values, nulls = of_column
    if not (values == records).all() or not ((nulls >= 0) & (nulls <= records)).all():
        return None
    return [int((records - nulls).sum())]


def _extreme(
    ranges: Mapping[int, Sequence[Range]], files: int, field_id: int, kind: str
) -> list[int] | None:
    """Return a column's least or greatest value, no value where all are null, None where that is
    not known."""
    if field_id not in ranges:
        return None
    (of_column,) = ranges[field_id]
    has_values = np.broadcast_to(np.asarray(of_column.values, bool), files)
    bounds = of_column.lower if kind == "min" else of_column.upper
    if not has_values.any():
        return []
    if not isinstance(bounds, pa.Array):
        return None
    bounds = bounds.filter(pa.array(has_values))
    if bounds.null_count:
        return None
    value = (pc.min if kind == "min" else pc.max)(bounds)
    return [int(value.cast(pa.int64() if value.type.bit_width == 64 else pa.int32()).as_py())]
