"""Gather the facts of a table's health from its metadata: growth, files, deletes by partition,
snapshots, columns, manifests, advice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.sql_text import shown_value
from frazil.maintain.advice.recommend import recommend
from frazil.maintain.advice.table_state import LiveFiles, state_of
from frazil.maintain.compact.commit import idle_deletes
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
from frazil.spec.manifest import DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.spec.shown import shortened, size_text
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

Positions = npt.NDArray[np.float64]
_WHOLE = (
    BooleanType, IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType,
)  # fmt: skip
_REAL = (FloatType, DoubleType, DecimalType)
_TEXT = (StringType, BinaryType)
# bytes of a text that count, after those that all texts have in common: a float holds 53 bits
_LENGTH = 6


@dataclass(frozen=True, eq=False)
class Axis:
    """Hold a column's bounds as numbers: one lower and one upper for each file, infinite where they
    are not known.
    """

    type: IcebergType
    low: Positions
    high: Positions

    @property
    def is_whole(self) -> bool:
        return isinstance(self.type, _WHOLE)


def axis_of(type_: IcebergType, low: pa.Array, high: pa.Array) -> Axis | None:
    """Make the axis of a column from its decoded bounds, one per file; None for other types, and
    where no bounds are known.
    """
    lows, highs = low.to_pylist(), high.to_pylist()
    if isinstance(type_, _TEXT):
        texts = [[v.encode() if isinstance(v, str) else v for v in side] for side in (lows, highs)]
        common = _common([v for side in texts for v in side if v is not None])
        numbers = [
            [np.nan if v is None else _text_position(v, common) for v in side] for side in texts
        ]
    elif isinstance(type_, (*_WHOLE, *_REAL)):
        numbers = [[np.nan if v is None else float(v) for v in side] for side in (lows, highs)]
    else:
        return None
    begins, ends = (np.array(side, np.float64) for side in numbers)
    unknown = np.isnan(begins) | np.isnan(ends) | (begins > ends)
    if unknown.all() or not np.isfinite([begins[~unknown].min(), ends[~unknown].max()]).all():
        return None
    return Axis(type_, np.where(unknown, -np.inf, begins), np.where(unknown, np.inf, ends))


def _common(texts: Sequence[bytes]) -> bytes:
    """Return the bytes with which all texts begin."""
    if not texts:
        return b""
    first, last = min(texts), max(texts)
    return first[
        : next(
            (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
            min(len(first), len(last)),
        )
    ]


def _text_position(content: Any, common: bytes) -> float:
    rest = content[len(common) : len(common) + _LENGTH]
    return float(int.from_bytes(rest.ljust(_LENGTH, b"\0"), "big"))


POINTS, PARTITIONS, COLUMNS, SNAPSHOTS = 240, 25, 10, 40
"""How many points of a curve, partitions, columns and snapshots a page shows: a page stays
below 2 MB however large the table is.
"""
_FILES_WITH_BOUNDS = 20_000


def health_of(table: MaintainedTable) -> Health:
    """Gather the facts of the table's newest state. Reads metadata and manifests, no data files."""
    table = newest_readable(table)
    metadata = table.metadata
    chosen = _columns_to_show(metadata)
    state = state_of(table, frozenset(chosen))
    by_partition, partition_count, largest = _partitions(table) if state else ((), 0, None)
    deleted, equality_deletes = _deleted(table, state) if state else (0, 0)
    health = Health(
        name=table.name,
        location=metadata.location,
        format_version=metadata.format_version,
        made_at_ms=int(time.time() * 1000),
        facts=(),
        moments=tuple(_moments(metadata)),
        sizes=tuple(_sizes(state)) if state else (),
        target_bytes=TARGET_FILE_SIZE.of(metadata.properties),
        partitions=by_partition,
        partition_count=partition_count,
        columns=tuple(_columns(state, chosen)) if state else (),
        column_count=len(metadata.schema().fields),
        snapshots=tuple(_snapshots(metadata)),
        snapshot_count=len(metadata.snapshots.ids),
        manifests=tuple(_manifests(state)) if state else (),
        findings=recommend(table),
        rows=None if state is None else max(state.rows - deleted, 0),
        deleted_rows=deleted,
        equality_deletes=equality_deletes,
        maintained_ms=_maintained_ms(metadata),
        largest=largest,
    )
    return replace(health, facts=tuple(_facts(health, metadata, state)))


def _deleted(table: MaintainedTable, state: LiveFiles) -> tuple[int, int]:
    """Count the rows that position deletes and vectors remove, and the keys of equality deletes;
    delete files that apply to no data file any more are left out.
    """
    counts = dict.fromkeys(DataFileContent, 0)
    if state.deletes.num_rows:
        contents, rows = (state.deletes.column(c).to_pylist() for c in ("content", "record_count"))
        for content, count in zip(contents, rows, strict=True):
            counts[DataFileContent(content)] += count
        for file in idle_deletes(table.metadata, MAIN_BRANCH, table.storage):
            counts[DataFileContent(file.content)] -= file.record_count
    return counts[DataFileContent.POSITION_DELETES], counts[DataFileContent.EQUALITY_DELETES]


def _maintained_ms(metadata: TableMetadata) -> int | None:
    lineage = metadata.ancestors(metadata.current_snapshot())
    return next((s.timestamp_ms for s in lineage if s.operation == "replace"), None)


def _facts(
    health: Health, metadata: TableMetadata, state: LiveFiles | None
) -> list[tuple[str, str]]:
    names = {i: metadata.schema().find_column_name(i) or f"#{i}" for i in metadata.schema().by_id}
    spec = ", ".join(f"{f.transform}({names.get(f.source_id)})" for f in metadata.spec().fields)
    order = ", ".join(
        f"{names.get(f.source_id)} {f.direction.value}" for f in metadata.sort_order().fields
    )
    facts = [("location", metadata.location)]
    if state is not None:
        most = "at most " if health.equality_deletes else ""
        facts += [
            ("rows", f"{most}{health.rows:,}"),
            ("deleted rows in data files", f"{health.deleted_rows:,}"),
        ]
        if health.equality_deletes:
            facts.append(("equality deletes", f"{health.equality_deletes:,}"))
        facts += [
            ("data files", f"{state.files.num_rows:,}"),
            ("size of data files", size_text(state.file_bytes)),
            ("delete files", f"{state.deletes.num_rows:,}"),
            ("manifests", f"{len(state.manifests):,}"),
        ]
    facts += [
        ("snapshots", f"{health.snapshot_count:,}"),
        ("branches and tags", f"{len(metadata.refs):,}"),
        ("columns", f"{health.column_count:,}"),
        ("format version", str(metadata.format_version)),
        ("partitioned by", spec or "nothing"),
        ("sorted by", order or "nothing"),
    ]
    if (grown := health.growth_per_day) is not None:
        text = f"{'-' if grown < 0 else ''}{size_text(abs(grown))} a day, over the last 30 days"
        facts.append(("growth", text))
    return facts


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
        if totals[0] is not None:
            deleted = _number(summary, "total-position-deletes") or 0
            totals[0] = max(totals[0] - deleted, 0)
        moments.append(Moment(snapshot.timestamp_ms, *totals))
    return sorted(moments, key=lambda m: m.time_ms)


def _sizes(state: LiveFiles) -> list[SizeClass]:
    """Count data files by classes of size, each twice as large as the one before; those below 1 KB
    are one class, and so are those of 1 TB and more.
    """
    sizes = state.numbers("file_size_in_bytes").astype(np.int64)
    if not len(sizes):
        return []
    powers = np.clip(np.floor(np.log2(np.maximum(sizes, 1))), 9, 40).astype(int)
    classes = []
    for power in range(int(powers.min()), int(powers.max()) + 1):
        inside = sizes[powers == power]
        label = f"{size_text(2**power)} to {size_text(2 ** (power + 1))}"
        label = {9: "below 1.0 KB", 40: "1.0 TB and more"}.get(power, label)
        classes.append(SizeClass(label, len(inside), int(inside.sum())))
    return classes


def _partitions(
    table: MaintainedTable,
) -> tuple[tuple[PartitionHealth, ...], int, tuple[str, int, int] | None]:
    """Return the partitions with the most deleted rows, then the largest; how many partitions there
    are; and name and bytes of the largest one, with the bytes of the one in the middle.
    """
    metadata = table.metadata
    rows = partitions(metadata, table.storage, metadata.current_snapshot())
    deletes, size = "position_delete_record_count", "total_data_file_size_in_bytes"

    def first(count: int, *keys: str) -> list[PartitionHealth]:
        order = pc.sort_indices(rows, [(key, "descending") for key in keys])
        return [
            PartitionHealth(
                _partition_name(metadata, row.get("spec_id", 0), row.get("partition") or {}),
                row["file_count"],
                row["record_count"],
                row[size],
                row[deletes],
                row["equality_delete_record_count"],
            )
            for row in rows.take(order.slice(0, count)).to_pylist()
        ]

    largest = None
    if rows.num_rows > 1:
        [one], sizes = first(1, size), rows[size].to_numpy()
        largest = one.name, one.bytes, int(np.median(sizes))
    return tuple(first(PARTITIONS, deletes, size)), rows.num_rows, largest


def _partition_name(metadata: TableMetadata, spec_id: int, values: dict[str, Any]) -> str:
    named = ((f.name, values.get(f.name)) for f in metadata.spec_by_id(spec_id).fields)
    return "/".join(f"{n}={'null' if v is None else v}" for n, v in named) or "not partitioned"


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
        lower, upper = (
            _extreme(side, column.field_type, name) for side, name in ((low, "min"), (high, "max"))
        )
        shown.append(
            ColumnHealth(
                column.name,
                str(column.field_type),
                lower,
                upper,
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
    """Return the share of files that a look-up of one value skips: the mean over values that lie in
    the files, at both ends of the range of each and between them.
    """
    if axis is None or len(axis.low) < 2:
        return None
    is_known = np.isfinite(axis.low) & np.isfinite(axis.high)
    begins, ends = axis.low[is_known], axis.high[is_known]
    points = (begins + np.linspace(0, 1, 5)[:, None] * (ends - begins)).ravel()
    points = np.unique(np.floor(points) if axis.is_whole else points)
    low, high = np.sort(axis.low), np.sort(axis.high)
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
