"""Decode column statistics of manifests into Arrow arrays: the value of one field id, and lower and
upper bounds as typed values.

Bounds keep the width of the type they were written with (spec, "Schema Evolution"): a long may have
a bound of 4 bytes, a timestamp the 4 bytes of a date, a decimal any length. A bound whose bytes
cannot be of its type becomes null, which means unknown and prunes nothing. The types of partition
fields are found by their source columns, those that were dropped since included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.building import column, from_numpy, scalar, to_numpy
from frazil.expr.pruning.ranges import possible_bounds
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.snapshot import Snapshots
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
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
    UUIDType,
)
from frazil.spec.version import WRITER

_DAY_US, _DAY_NS = 86_400_000_000, 86_400_000_000_000
_MILLIS_END, _NANOS_BEGIN = 10**13, 10**17  # the year 2286 in milliseconds, 1973 in nanoseconds


class MapColumn:
    """Look up one field id at a time in a statistics column of manifest entries (`list<struct<key
    int32, value>>`).

    Most writers give every file of a manifest the same ids in the same order. `_even` then holds
    these ids, and the place of a value is computed instead of searched for.
    """

    __slots__ = ("_array", "_even", "_keys", "_parents", "_start", "_values", "rows")

    def __init__(self, column: pa.Array | pa.ChunkedArray):
        if isinstance(column, pa.ChunkedArray):
            column = (
                pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
            )
        array = column
        self.rows, self._array = len(array), array
        self._parents: np.ndarray[Any, Any] | None = None
        self._even: list[int] | None = None
        pairs = array.values
        keys = to_numpy(pairs.field(0))
        offsets = to_numpy(array.offsets)
        if self.rows and not array.null_count:
            width, begin = int(offsets[1] - offsets[0]), int(offsets[0])
            if bool((np.diff(offsets) == width).all()):
                first = keys[begin : begin + width]
                if bool(
                    (
                        keys[begin : begin + width * self.rows].reshape(self.rows, width) == first
                    ).all()
                ):
                    self._even, self._start, self._values = first.tolist(), begin, pairs.field(1)
                    return
        flat = array.flatten()
        self._values, self._keys = flat.field(1), to_numpy(flat.field(0))

    def at(self, field_id: int) -> pa.Array:
        """Return one value per row, null where the row has none for this id."""
        if self._even is not None:
            if field_id not in self._even:
                return pa.nulls(self.rows, self._values.type)
            place, width = self._even.index(field_id), len(self._even)
            return self._values.take(
                from_numpy(np.arange(self.rows) * width + (self._start + place))
            )
        if self._parents is None:
            self._parents = to_numpy(pc.list_parent_indices(self._array))
        value_places = np.flatnonzero(self._keys == field_id)
        places = np.full(self.rows, -1, dtype=np.int64)
        places[self._parents[value_places]] = value_places
        return self._values.take(from_numpy(places, missing=places < 0))


def decode_bounds(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Decode single-value bytes to `expr.values.arrow_type(type_)`; null where the bytes are
    missing, NaN or not of this type.
    """
    match type_:
        case IntegerType() | DateType():
            return _narrow(values)
        case LongType():
            return _numbers(values, "<i8", pa.int64(), {8: "<i8", 4: "<i4"})
        case TimestampType():
            return _numbers(values, "<i8", pa.int64(), {8: "<i8"}, days=_DAY_US)
        case TimestampNanoType():
            return _numbers(values, "<i8", pa.int64(), {8: "<i8"}, days=_DAY_NS)
        case TimeType() | TimestamptzType() | TimestamptzNanoType():
            return _numbers(values, "<i8", pa.int64(), {8: "<i8"})
        case FloatType():
            return _numbers(values, "<f4", pa.float32(), {4: "<f4"})
        case DoubleType():
            return _numbers(values, "<f8", pa.float64(), {8: "<f8", 4: "<f4"})
        case BooleanType():
            return pc.not_equal(
                _numbers(values, "u1", pa.uint8(), {1: "u1"}), scalar(0, pa.uint8())
            )
        case DecimalType(precision=p, scale=s):
            return _decimals(values, p, s)
        case StringType():
            return _text(values)
        case UUIDType():
            return _of_length(values, 16)
        case FixedType(length=n):
            return _of_length(values, n)
        case BinaryType():
            return values
    return pa.nulls(len(values), pa.binary())


def trusted(
    lower: pa.Array,
    upper: pa.Array,
    type_: IcebergType,
    entries: pa.Table,
    snapshots: Snapshots | None = None,
) -> tuple[pa.Array, pa.Array]:
    """Drop decoded bounds that cannot be right (lower above upper) or that a known writer bug may
    have spoiled; they become null.

    `snapshots`: those of the table, which tell the files that Frazil wrote; None: no file is known
    to be Frazil's.
    """
    if lower.null_count == upper.null_count == len(lower):
        return lower, upper
    if isinstance(type_, TimestampType | TimestamptzType):
        lower, upper = _of_known_unit(lower, upper, entries)
    elif isinstance(type_, UUIDType):
        wrong = _joined_as_signed(entries, snapshots)
        lower, upper = _without(lower, wrong), _without(upper, wrong)
    return possible_bounds(lower, upper)


def _joined_as_signed(entries: pa.Table, snapshots: Snapshots | None) -> np.ndarray[Any, Any]:
    """Mark the files whose uuid bounds Java may have merged from several row groups in the wrong
    order.

    Java (1.12) takes the range of each row group from Parquet, which compares unsigned bytes as the
    specification does, and merges the ranges by comparing signed halves: row groups of 10… to f0…
    and of 20… to 30… give 10… to 30…, which hides f0…. The bounds themselves do not show it. So
    bounds of uuids are used only where a file has one row group (one split offset), or where
    Frazil, which compares as the specification says, collected them: in files added by a snapshot
    that it committed and did not cherry-pick.
    """
    wrong = np.ones(entries.num_rows, dtype=bool)
    if "split_offsets" in entries.column_names:
        one_row_group = pc.equal(
            pc.list_value_length(entries.column("split_offsets")), scalar(1, pa.int32())
        )
        wrong = ~np.asarray(one_row_group.fill_null(scalar(False, pa.bool_())).to_numpy())
    if snapshots is None or "snapshot_id" not in entries.column_names or not wrong.any():
        return wrong
    added_by = entries.column("snapshot_id").filter(from_numpy(wrong))
    ours = [
        i
        for i in pc.unique(added_by).to_pylist()
        if (s := snapshots.by_id(i)) is not None and s.has_statistics_of(WRITER)
    ]
    if ours:
        wrong &= ~np.asarray(
            pc.is_in(entries.column("snapshot_id"), value_set=column(ours, pa.int64())).to_numpy()
        )
    return wrong


def _of_known_unit(
    lower: pa.Array, upper: pa.Array, entries: pa.Table
) -> tuple[pa.Array, pa.Array]:
    """Drop bounds of timestamps whose unit is in doubt: Java's `add_files` copies those of a
    Parquet file, whatever their unit there.

    Such files have no split offsets. Milliseconds read as microseconds lie in the months around
    1970, nanoseconds after the year 5000.
    """
    doubtful = np.ones(len(lower), dtype=bool)
    if "split_offsets" in entries.column_names:
        doubtful = np.asarray(entries.column("split_offsets").is_null().to_numpy())
        if not doubtful.any():
            return lower, upper
    plain = np.ones(len(lower), dtype=bool)
    for bound in (lower, upper):
        size = np.abs(to_numpy(bound.fill_null(scalar(_MILLIS_END, bound.type))).astype(np.float64))
        plain &= (size >= _MILLIS_END) & (size <= _NANOS_BEGIN)
    return _without(lower, doubtful & ~plain), _without(upper, doubtful & ~plain)


def _without(values: pa.Array, rows: np.ndarray[Any, Any]) -> pa.Array:
    return (
        pc.if_else(from_numpy(~rows), values, scalar(None, values.type)) if rows.any() else values
    )


def _parts(
    values: pa.Array,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Split a binary array into (data bytes, start of each value, length of each value, whether the
    value is valid).
    """
    _, offset_buffer, data_buffer = values.buffers()
    if offset_buffer is None:
        none = np.zeros(len(values), dtype=np.int64)
        return np.zeros(0, dtype=np.uint8), none, none, np.zeros(len(values), dtype=bool)
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=width)[
        values.offset : values.offset + len(values) + 1
    ]
    data = (
        np.frombuffer(data_buffer, dtype=np.uint8)
        if data_buffer is not None
        else np.zeros(0, dtype=np.uint8)
    )
    valid = to_numpy(values.is_valid()) if values.null_count else np.ones(len(values), dtype=bool)
    return data, offsets[:-1].astype(np.int64), np.diff(offsets), valid


def _gather(
    data: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], width: int
) -> np.ndarray[Any, Any]:
    """Gather the `width` bytes at each start, one row per value; contiguous values are sliced, not
    copied one by one.
    """
    if (
        len(starts)
        and starts[-1] - starts[0] == width * (len(starts) - 1)
        and bool((np.diff(starts) == width).all())
    ):
        return data[starts[0] : starts[0] + width * len(starts)].reshape(-1, width)
    return data[starts[:, None] + np.arange(width)]


def _numbers(
    values: pa.Array, dtype: str, result: pa.DataType, widths: dict[int, str], days: int = 0
) -> pa.Array:
    data, starts, lengths, valid = _parts(values)
    out, known = np.zeros(len(values), dtype=dtype), np.zeros(len(values), dtype=bool)
    for width, stored in widths.items():
        rows = np.flatnonzero(valid & (lengths == width))
        if len(rows):
            out[rows] = (
                np.ascontiguousarray(_gather(data, starts[rows], width)).view(stored).ravel()
            )
            known[rows] = True
    if days:
        rows = np.flatnonzero(valid & (lengths == 4))
        if len(rows):
            day = (
                np.ascontiguousarray(_gather(data, starts[rows], 4))
                .view("<i4")
                .ravel()
                .astype(np.int64)
            )
            limit = (2**63 - 1) // days
            out[rows], known[rows] = day * days, np.abs(day) < limit
    if out.dtype.kind == "f":
        known &= ~np.isnan(out)
    return from_numpy(out, result, missing=~known)


def _narrow(values: pa.Array) -> pa.Array:
    """Decode ints. Eight bytes are accepted when the value fits: the reader's schema may be older
    than the writer's.
    """
    wide = _numbers(values, "<i8", pa.int64(), {4: "<i4", 8: "<i8"})
    numbers = to_numpy(wide.fill_null(scalar(0, pa.int64())))
    unknown = ~to_numpy(wide.is_valid()) | (numbers < -(2**31)) | (numbers >= 2**31)
    return from_numpy(np.where(unknown, 0, numbers).astype(np.int32), missing=unknown)


def _decimals(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """Decode big-endian two's complement of 1 to 16 bytes to decimal128."""
    data, starts, lengths, valid = _parts(values)
    out, known = (
        np.zeros((len(values), 16), dtype=np.uint8),
        valid & (lengths >= 1) & (lengths <= 16),
    )
    for width in np.unique(lengths[known]).tolist():
        rows = np.flatnonzero(known & (lengths == width))
        read = _gather(data, starts[rows], width)
        sign = np.where(read[:, :1] >= 128, 255, 0).astype(np.uint8)
        out[rows] = np.concatenate(
            [read[:, ::-1], np.broadcast_to(sign, (len(rows), 16 - width))], axis=1
        )
    return from_numpy(out.reshape(-1).view("V16"), pa.decimal128(precision, scale), missing=~known)


def _text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # a writer truncated a bound in the middle of a character
        return column([_utf8(v) for v in values.to_pylist()], pa.string())


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _of_length(values: pa.Array, length: int) -> pa.Array:
    return pc.if_else(
        pc.equal(pc.binary_length(values), scalar(length, pa.int32())),
        values,
        pa.nulls(1, values.type)[0],
    )


def source_type(field_id: int, metadata: TableMetadata) -> IcebergType | None:
    """Return the type of a column in the current schema, else in the newest schema that has it;
    None: no kept schema has it.
    """
    current = metadata.schema().by_id.get(field_id)
    if current is not None:
        return current.field_type
    for schema in sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True):
        if field := schema.by_id.get(field_id):
            return field.field_type
    return None


def partition_types(
    spec: PartitionSpec, metadata: TableMetadata
) -> list[tuple[IcebergType, IcebergType]]:
    """Return (source type, type of the partition value) per field; text where no kept schema has
    the source column.
    """
    types = []
    for field in spec.fields:
        source = source_type(field.source_id, metadata) or StringType()
        types.append((source, field.transform.result_type(source)))
    return types
