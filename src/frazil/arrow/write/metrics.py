"""Collect the metrics of data files for manifests: from a Parquet footer, or from the batches while
they are written; and read which of them a table keeps per column (`write.metadata.metrics.*`;
Java's MetricsConfig).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.files.project import FileField, file_schema
from frazil.arrow.files.read_parquet import ChunkStatistics, chunk_statistics, first_byte
from frazil.arrow.values.arrays import internal_values
from frazil.codec.single_value import to_bytes
from frazil.spec.name_mapping import NameMapping
from frazil.spec.properties import METRICS_DEFAULT, METRICS_MAX_INFERRED, METRICS_OF_COLUMN
from frazil.spec.schema import Schema
from frazil.spec.sorting import SortOrder
from frazil.spec.types import (
    BinaryType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    VariantType,
    children,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MetricsMode:
    """Hold the metrics mode of a column. `kind`: none, counts, truncate or full. `length`: code
    points (bytes) of truncated bounds.
    """

    kind: str
    length: int = 0

    @property
    def has_bounds(self) -> bool:
        return self.kind in ("truncate", "full")


NONE, COUNTS, FULL, TRUNCATE_16 = (
    MetricsMode("none"),
    MetricsMode("counts"),
    MetricsMode("full"),
    MetricsMode("truncate", 16),
)


def parse_mode(text: str, otherwise: MetricsMode = TRUNCATE_16) -> MetricsMode:
    """Parse a metrics mode; an invalid one counts as `otherwise`, as in Java, with a warning."""
    lowered = text.strip().lower()
    if lowered in ("none", "counts", "full"):
        return MetricsMode(lowered)
    if (match := re.fullmatch(r"truncate\((\d+)\)", lowered)) and int(match[1]) > 0:
        return MetricsMode("truncate", int(match[1]))
    _log.warning("Ignoring metrics mode %r: it must be none, counts, truncate(n) or full.", text)
    return otherwise


@dataclass(frozen=True)
class MetricsConfig:
    """Hold metrics modes by field id; all other columns have the `default`."""

    modes: Mapping[int, MetricsMode]
    default: MetricsMode = TRUNCATE_16

    def mode(self, field_id: int) -> MetricsMode:
        return self.modes.get(field_id, self.default)


def metrics_config(
    properties: Mapping[str, str], schema: Schema, order: SortOrder | None = None
) -> MetricsConfig:
    """Derive the modes of columns as Java does: the default for columns up to the inferred limit,
    at least truncate(16) for columns of the sort order, then the modes that properties set per
    column."""
    modes: dict[int, MetricsMode] = {}
    default = TRUNCATE_16
    if (default_text := METRICS_DEFAULT.text(properties)) is not None:
        default = parse_mode(default_text)
    elif len(_measured(schema)) > (limit := METRICS_MAX_INFERRED.of(properties)):
        modes = dict.fromkeys(_first_ids(schema.as_struct(), limit, []), TRUNCATE_16)
        default = NONE
    sorted_mode = TRUNCATE_16 if default in (NONE, COUNTS) else default
    for sorted_by in order.fields if order else ():
        if sorted_by.transform.keeps_order and sorted_by.source_id in schema.by_id:
            modes[sorted_by.source_id] = sorted_mode
    for name, text in METRICS_OF_COLUMN.texts(properties).items():
        if (column := schema.get_field(name)) is not None:
            modes[column.field_id] = parse_mode(text, default)
    return MetricsConfig(modes, default)


def _measured(schema: Schema) -> list[int]:
    """List the ids that Java counts against the limit: those of all leaves."""
    return [i for i, f in schema.by_id.items() if not children(f.field_type)]


def _first_ids(struct: StructType, limit: int, ids: list[int]) -> list[int]:
    """List the first `limit` leaves: those directly in a struct before those in its nested fields."""
    for f in struct.fields:
        if len(ids) < limit and not children(f.field_type):
            ids.append(f.field_id)
    for f in struct.fields:
        if len(ids) < limit:
            _inside(f, limit, ids)
    return ids


def _inside(field: NestedField, limit: int, ids: list[int]) -> None:
    match field.field_type:
        case StructType():
            _first_ids(field.field_type, limit, ids)
        case ListType() | MapType():
            members = children(field.field_type)
            ids.extend(m.field_id for m in members if not children(m.field_type))
            del ids[limit:]
            for m in members:
                if len(ids) < limit:
                    _inside(m, limit, ids)


FLOATS = (FloatType, DoubleType)
_NO_BOUNDS = (VariantType, GeometryType, GeographyType, UnknownType)


@dataclass
class Metrics:
    """Hold metrics by field id. `unknown`: columns whose bounds the footer leaves out, to be found
    by reading them.
    """

    records: int
    sizes: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    nans: dict[int, int] = field(default_factory=dict)
    lower: dict[int, bytes] = field(default_factory=dict)
    upper: dict[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] | None = None
    unknown: list[FileField] = field(default_factory=list)

    def set_bounds(
        self, field_id: int, type_: IcebergType, lower: object, upper: object, config: MetricsConfig
    ) -> None:
        mode = config.mode(field_id)
        if (low := lower_bound(type_, lower, mode)) is not None:
            self.lower[field_id] = low
        if (high := upper_bound(type_, upper, mode)) is not None:
            self.upper[field_id] = high

    def as_file(self) -> dict[str, Any]:
        """Return the metrics as fields of DataFile. Java, too, writes an empty map, not null, where
        no column has a count or a bound; what the file's format does not say at all is null."""
        return {
            "record_count": self.records,
            "column_sizes": self.sizes or None,
            "value_counts": self.values,
            "null_value_counts": self.nulls,
            "nan_value_counts": self.nans,
            "lower_bounds": self.lower,
            "upper_bounds": self.upper,
            "split_offsets": self.split_offsets,
        }


def footer_metrics(
    footer: pq.FileMetaData,
    schema: Schema,
    config: MetricsConfig,
    *,
    nan_counts: Mapping[int, int] | None = None,
    mapping: NameMapping | None = None,
) -> dict[str, Any]:
    """Make DataFile fields of a `pyarrow.parquet.FileMetaData`: what a full scan would find, as far
    as the footer tells.

    `nan_counts`: number of NaNs by field id, where the writer counted them. A footer shows NaNs
    only when parquet-mr wrote it (a chunk that holds one has NaN as its bound). `mapping` gives
    field ids to a file that has none.
    """
    return parquet_metrics(footer, schema, config, nan_counts, mapping).as_file()


def parquet_metrics(
    footer: pq.FileMetaData,
    schema: Schema,
    config: MetricsConfig,
    nan_counts: Mapping[int, int] | None = None,
    mapping: NameMapping | None = None,
) -> Metrics:
    """Collect the metrics of a Parquet footer, as `footer_metrics` does."""
    metrics = Metrics(footer.num_rows)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    metrics.split_offsets = tuple(sorted(first_byte(g) for g in groups if g.num_columns)) or None
    columns = file_schema(footer.schema.to_arrow_schema(), mapping)
    for column, repeated in _leaves(columns.fields if columns else (), schema, False):
        assert column.field_id is not None
        if config.mode(column.field_id).kind == "none":
            continue
        chunks = [g.column(column.leaves[0]) for g in groups]
        want = schema.by_id[column.field_id].field_type
        if not isinstance(want, VariantType):
            metrics.sizes[column.field_id] = sum(c.total_compressed_size for c in chunks)
        if not repeated:
            _column(
                metrics,
                column,
                want,
                [chunk_statistics(c, column.type, want) for c in chunks],
                footer.created_by,
                config,
                nan_counts,
            )
    return metrics


def _leaves(
    fields: Iterable[FileField], schema: Schema, repeated: bool
) -> Iterator[tuple[FileField, bool]]:
    """List the leaf columns that the schema knows (a variant counts as one), and whether they are
    inside a list or map.
    """
    for column in fields:
        field = schema.by_id.get(column.field_id) if column.field_id is not None else None
        if column.children and not (field and isinstance(field.field_type, VariantType)):
            yield from _leaves(
                column.children, schema, repeated or not pa.types.is_struct(column.type)
            )
        elif field is not None and field.field_type.is_primitive:
            yield column, repeated


def _column(
    metrics: Metrics,
    column: FileField,
    want: IcebergType,
    chunks: Sequence[ChunkStatistics | None],
    writer: str | None,
    config: MetricsConfig,
    nan_counts: Mapping[int, int] | None,
) -> None:
    """Add counts and bounds of one column over all row groups; if any chunk has no statistics, the
    column has no metrics.
    """
    field_id = column.field_id
    assert field_id is not None
    statistics = [c for c in chunks if c is not None]
    if len(statistics) != len(chunks):
        return
    metrics.values[field_id] = values = sum(c.values for c in statistics)
    if any(c.nulls is None for c in statistics):
        return
    metrics.nulls[field_id] = nulls = sum(c.nulls or 0 for c in statistics)
    some = [c for c in statistics if c.values > (c.nulls or 0)]
    bounded = [c for c in some if c.lower is not None and c.upper is not None]
    if isinstance(want, FLOATS):
        if nan_counts is not None and field_id in nan_counts:
            metrics.nans[field_id] = nan_counts[field_id]
        elif values == nulls or (
            len(bounded) == len(some) and (writer or "").startswith("parquet-mr")
        ):
            metrics.nans[field_id] = 0
    if isinstance(want, _NO_BOUNDS):
        bounded = []
    # Arrow's writer leaves out the bounds of a chunk of NaNs
    all_nan = isinstance(want, FLOATS) and (writer or "").startswith("parquet-cpp-arrow")
    if bounded and (len(bounded) == len(some) or all_nan):
        metrics.set_bounds(
            field_id, want, min(c.lower for c in bounded), max(c.upper for c in bounded), config
        )
    elif (
        some
        and not all_nan
        and not isinstance(want, _NO_BOUNDS)
        and config.mode(field_id).has_bounds
    ):
        metrics.unknown.append(column)


@dataclass
class _ColumnCounts:
    """Hold the counts and bounds of one column so far."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Any = None
    upper: Any = None


class BatchMetrics:
    """Collect metrics from batches (typed as `to_arrow_schema`) while they are written, for formats
    whose footers do not hold them.

    `only_nans`: count NaNs only, for Parquet, whose footer holds the rest.
    """

    def __init__(self, schema: Schema, config: MetricsConfig, *, only_nans: bool = False):
        self._schema, self._config, self._only_nans = schema, config, only_nans
        self._found: dict[int, _ColumnCounts] = {}
        self.records = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.records += batch.num_rows
        for f, column in zip(self._schema.fields, batch.columns, strict=True):
            self._column(f.field_id, f.field_type, column)

    def nan_counts(self) -> dict[int, int]:
        schema = self._schema
        return {
            i: gathered.nans
            for i, gathered in self._found.items()
            if isinstance(schema.by_id[i].field_type, FLOATS)
        }

    def finish(self) -> Metrics:
        metrics = Metrics(self.records)
        for field_id, gathered in self._found.items():
            type_ = self._schema.by_id[field_id].field_type
            metrics.values[field_id], metrics.nulls[field_id] = gathered.values, gathered.nulls
            if isinstance(type_, FLOATS):
                metrics.nans[field_id] = gathered.nans
            metrics.set_bounds(field_id, type_, gathered.lower, gathered.upper, self._config)
        return metrics

    def _column(self, field_id: int, type_: IcebergType, column: pa.Array) -> None:
        if isinstance(type_, StructType):
            for f, inside in zip(
                type_.fields, column.flatten() if type_.fields else (), strict=True
            ):
                self._column(f.field_id, f.field_type, inside)
            return
        if (
            not type_.is_primitive
            or (self._only_nans and not isinstance(type_, FLOATS))
            or self._config.mode(field_id).kind == "none"
        ):
            return
        if isinstance(type_, UnknownType):
            return
        gathered = self._found.setdefault(field_id, _ColumnCounts())
        gathered.values += len(column)
        gathered.nulls += column.null_count
        if isinstance(type_, FLOATS):
            is_nan = pc.is_nan(column)
            if nans := is_nan.true_count:
                gathered.nans += nans
                column = column.filter(pc.invert(is_nan))
        if (
            not self._only_nans
            and self._config.mode(field_id).has_bounds
            and not isinstance(type_, _NO_BOUNDS)
        ):
            _widen(gathered, type_, column)


def _widen(gathered: _ColumnCounts, type_: IcebergType, column: pa.Array) -> None:
    if len(column) == column.null_count:
        return
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    extremes = pc.min_max(column)
    lower, upper = internal_values(type_, pa.array([extremes["min"], extremes["max"]], column.type))
    if isinstance(type_, FLOATS):
        # Arrow takes 0.0 and -0.0 for equal, so the bounds must cover both
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    gathered.lower = lower if gathered.lower is None else min(gathered.lower, lower)
    gathered.upper = upper if gathered.upper is None else max(gathered.upper, upper)


def column_bounds(batches: Iterable[pa.Array], type_: IcebergType) -> tuple[Any, Any]:
    """Find the least and greatest value of a column in its batches; (None, None) when all values
    are null.
    """
    gathered = _ColumnCounts()
    for batch in batches:
        _widen(gathered, type_, batch)
    return gathered.lower, gathered.upper


# Encode lower and upper bounds of columns for manifests, truncated by the metrics mode (spec,
# "Manifests"; Java's UnicodeUtil).

_SURROGATES, _LAST = range(0xD800, 0xE000), 0x10FFFF


def lower_bound(type_: IcebergType, value: Any, mode: MetricsMode) -> bytes | None:
    """Encode a lower bound: of a long value its first characters (bytes), which are not above it.
    None stays None.
    """
    if value is None or not mode.has_bounds:
        return None
    return to_bytes(type_, value[: mode.length] if _cuts(type_, mode) else value)


def upper_bound(type_: IcebergType, value: Any, mode: MetricsMode) -> bytes | None:
    """Encode an upper bound: of a long value its first characters, the last that can be increased
    increased by one; None when none can.
    """
    if value is None or not mode.has_bounds:
        return None
    if _cuts(type_, mode) and len(value) > mode.length:
        value = (
            next_text(value[: mode.length])
            if isinstance(value, str)
            else next_bytes(value[: mode.length])
        )
    return None if value is None else to_bytes(type_, value)


def _cuts(type_: IcebergType, mode: MetricsMode) -> bool:
    return mode.kind == "truncate" and isinstance(type_, StringType | BinaryType)


def next_text(text: str) -> str | None:
    """Find the least text of at most the same length that is above every text that begins with
    `text`; None when there is none.
    """
    for i in range(len(text) - 1, -1, -1):
        code = ord(text[i]) + 1
        code = _SURROGATES.stop if code in _SURROGATES else code
        if code <= _LAST:
            return text[:i] + chr(code)
    return None


def next_bytes(data: bytes) -> bytes | None:
    """Find the least bytes above all that begin with `data`, as `next_text` does for text."""
    prefix = data.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
