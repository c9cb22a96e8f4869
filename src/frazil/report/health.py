"""Gather the facts of a table's health from its metadata: growth, files, deletes by partition,
snapshots, columns, manifests, advice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.sql_text import shown_value
from frazil.maintain.advice.positions import Axis, axis_of
from frazil.maintain.advice.recommend import recommend
from frazil.maintain.advice.table_state import LiveFiles, state_of
from frazil.maintain.procedure import MaintainedTable, newest_readable
from frazil.report.facts import (
    ColumnHealth,
    Health,
    Moment,
    PartitionHealth,
    SizeClass,
    SnapshotNode,
)
from frazil.scan.inspect.partitions import partitions
from frazil.scan.scan_log.files import read_log
from frazil.scan.scan_log.records import LoggedScan
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import SCAN_LOG, TARGET_FILE_SIZE
from frazil.spec.shown import shortened, size_text
from frazil.spec.types import IcebergType

POINTS, PARTITIONS, COLUMNS, SNAPSHOTS, SCANS = 240, 25, 10, 40, 200
"""How many points of a curve, partitions, columns, snapshots and scans a page shows: a page stays
below 2 MB however large the table is.
"""
_FILES_WITH_BOUNDS = 20_000


def health_of(table: MaintainedTable) -> Health:
    """Gather the facts of the table's newest state. Reads metadata and manifests, no data files."""
    table = newest_readable(table)
    metadata = table.metadata
    chosen = _columns_to_show(metadata)
    state = state_of(table, frozenset(chosen))
    moments = tuple(_moments(metadata))
    by_partition, partition_count = _partitions(table) if state is not None else ([], 0)
    health = Health(
        table.name,
        metadata.location,
        metadata.format_version,
        int(time.time() * 1000),
        (),
        moments,
        tuple(_sizes(state)) if state is not None else (),
        TARGET_FILE_SIZE.of(metadata.properties),
        tuple(by_partition),
        partition_count,
        tuple(_columns(state, chosen)) if state is not None else (),
        tuple(_snapshots(metadata)),
        len(metadata.snapshots.ids),
        tuple(_manifests(state)) if state is not None else (),
        tuple(_scans(table)),
        recommend(table),
    )
    return _with_facts(health, metadata, state)


def _with_facts(health: Health, metadata: TableMetadata, state: LiveFiles | None) -> Health:
    names = {i: metadata.schema().find_column_name(i) or f"#{i}" for i in metadata.schema().by_id}
    spec = ", ".join(f"{f.transform}({names.get(f.source_id)})" for f in metadata.spec().fields)
    order = ", ".join(
        f"{names.get(f.source_id)} {f.direction.value}" for f in metadata.sort_order().fields
    )
    facts = [("location", metadata.location), ("format version", str(metadata.format_version))]
    facts += [("partitioned by", spec or "nothing"), ("sorted by", order or "nothing")]
    if state is not None:
        facts += [
            ("rows in data files", f"{state.rows:,}"),
            ("data files", f"{state.files.num_rows:,}"),
        ]
        facts += [
            ("size", size_text(state.file_bytes)),
            ("delete files", f"{state.deletes.num_rows:,}"),
        ]
        facts += [("manifests", f"{len(state.manifests):,}")]
    facts += [
        ("snapshots", f"{health.snapshot_count:,}"),
        ("branches and tags", f"{len(metadata.refs):,}"),
    ]
    if (grown := health.growth_per_day) is not None:
        facts += [
            (
                "growth",
                f"{'-' if grown < 0 else ''}{size_text(abs(grown))} a day, over the last 30 days",
            )
        ]
    return replace(health, facts=tuple(facts))


def _number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key, "")
    return int(text) if text.isdigit() else None


def _moments(metadata: TableMetadata) -> list[Moment]:
    """Return the totals over time of the current snapshot and its ancestors, as many points as a
    curve shows. Snapshots of branches and those that were rolled back are not the table's growth.
    """
    lineage = [*metadata.ancestors(metadata.current_snapshot())][::-1]
    count = len(lineage)
    if count > POINTS:
        places = sorted({round(i * (count - 1) / (POINTS - 1)) for i in range(POINTS)})
        lineage = [lineage[i] for i in places]
    moments = []
    for snapshot in lineage:
        summary = snapshot.summary
        totals = [
            _number(summary, f"total-{what}")
            for what in ("records", "files-size", "data-files", "delete-files")
        ]
        moments.append(Moment(snapshot.timestamp_ms, *totals))
    return sorted(moments, key=lambda m: m.time_ms)


def _sizes(state: LiveFiles) -> list[SizeClass]:
    """Count data files by classes of size, each twice as large as the one before."""
    sizes = state.numbers("file_size_in_bytes").astype(np.int64)
    if not len(sizes):
        return []
    powers = np.clip(np.floor(np.log2(np.maximum(sizes, 1))), 10, 40).astype(int)
    classes = []
    for power in range(int(powers.min()), int(powers.max()) + 1):
        inside = sizes[powers == power]
        classes.append(
            SizeClass(
                f"{size_text(2**power)} to {size_text(2 ** (power + 1))}",
                len(inside),
                int(inside.sum()),
            )
        )
    return classes


def _partitions(table: MaintainedTable) -> tuple[list[PartitionHealth], int]:
    """Return the partitions with the most deleted rows, then the largest, and how many partitions
    there are.
    """
    metadata = table.metadata
    rows = partitions(metadata, table.storage, metadata.current_snapshot())
    order = pc.sort_indices(
        rows,
        [
            ("position_delete_record_count", "descending"),
            ("total_data_file_size_in_bytes", "descending"),
        ],
    )
    shown = []
    top = rows.take(order.slice(0, PARTITIONS)).to_pylist()
    for row in top:
        shown.append(
            PartitionHealth(
                _partition_name(metadata, row.get("spec_id", 0), row.get("partition") or {}),
                row["file_count"],
                row["record_count"],
                row["total_data_file_size_in_bytes"],
                row["position_delete_record_count"],
                row["equality_delete_record_count"],
            )
        )
    return shown, rows.num_rows


def _partition_name(metadata: TableMetadata, spec_id: int, values: dict[str, Any]) -> str:
    fields = metadata.spec_by_id(spec_id).fields
    return "/".join(f"{f.name}={values.get(f.name)}" for f in fields) or "not partitioned"


def _columns_to_show(metadata: TableMetadata) -> list[int]:
    """Choose the columns to show: those of the sort order, of partition fields and of the primary
    key, then the first ones.
    """
    schema = metadata.schema()
    candidates = [
        *(f.source_id for f in metadata.sort_order().fields),
        *(f.source_id for f in metadata.spec().fields),
        *sorted(schema.identifier_field_ids),
        *(f.field_id for f in schema.fields),
    ]
    top = {f.field_id for f in schema.fields if f.field_type.is_primitive}
    return [i for i in dict.fromkeys(candidates) if i in top][:COLUMNS]


def _columns(state: LiveFiles, chosen: Sequence[int]) -> list[ColumnHealth]:
    """Describe columns by the bounds of the data files; of very many files by a sample."""
    schema = state.metadata.schema()
    files = state.files
    if files.num_rows > _FILES_WITH_BOUNDS:
        step = np.linspace(0, files.num_rows - 1, _FILES_WITH_BOUNDS).astype(np.int64)
        files = files.take(pa.array(step))
    sorting = {f.source_id for f in state.metadata.sort_order().fields}
    shown = []
    for field_id in chosen:
        column = schema.by_id[field_id]
        if f"low{field_id}" not in files.column_names:
            continue
        low, high = (files.column(f"{side}{field_id}").combine_chunks() for side in ("low", "high"))
        axis = axis_of(column.field_type, low, high)
        least, greatest = (
            _extreme(side, column.field_type, name) for side, name in ((low, "min"), (high, "max"))
        )
        shown.append(
            ColumnHealth(
                column.name,
                str(column.field_type),
                least,
                greatest,
                _skipped(axis),
                field_id in sorting,
            )
        )
    return shown


def _extreme(bounds: pa.Array, type_: IcebergType, name: str) -> str:
    try:
        value = pc.min_max(bounds)[name].as_py()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, ValueError, OverflowError):
        return ""
    if value is None:
        return ""
    return shortened(shown_value(value, type_), 40)


def _skipped(axis: Axis | None) -> float | None:
    """Return the share of files that a look-up of one value skips, over values spread as the files
    are.
    """
    if axis is None or len(axis.low) < 2:
        return None
    low, high = np.sort(axis.low), np.sort(axis.high)
    is_known = np.isfinite(axis.low) & np.isfinite(axis.high)
    middles = (axis.low[is_known] + axis.high[is_known]) / 2
    points = np.quantile(middles, np.linspace(0, 1, 101))
    read = np.searchsorted(low, points, "right") - np.searchsorted(high, points, "left")
    return float(1 - read.mean() / len(low))


def _snapshots(metadata: TableMetadata) -> list[SnapshotNode]:
    """Return the newest snapshots and those at branches and tags, oldest first."""
    refs: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, []).append(name)
    if metadata.current_snapshot_id is not None and "main" not in metadata.refs:
        refs.setdefault(metadata.current_snapshot_id, []).append("main")
    ids = metadata.snapshots.ids
    wanted = {*ids[-SNAPSHOTS:], *list(refs)[:SNAPSHOTS]}
    nodes = []
    for snapshot in (metadata.snapshots.by_id(i) for i in ids if i in wanted):
        assert snapshot is not None
        nodes.append(
            SnapshotNode(
                snapshot.snapshot_id,
                snapshot.parent_snapshot_id,
                snapshot.timestamp_ms,
                snapshot.operation or "",
                _number(snapshot.summary, "added-records"),
                tuple(sorted(refs.get(snapshot.snapshot_id, ()))),
            )
        )
    return sorted(nodes, key=lambda n: n.time_ms)


def _manifests(state: LiveFiles) -> list[tuple[str, int, int, int]]:
    """Return for data and delete manifests: how many, their bytes, the live files that they list."""
    lines = []
    for kind in ("data", "deletes"):
        some = [m for m in state.manifests if ("deletes" if m.content == 1 else "data") == kind]
        live = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in some)
        lines.append((kind, len(some), sum(m.manifest_length for m in some), live))
    return lines


def _scans(table: MaintainedTable) -> list[LoggedScan]:
    if not SCAN_LOG.of(table.metadata.properties):
        return []
    return read_log(table.metadata, table.storage)[-SCANS:]
