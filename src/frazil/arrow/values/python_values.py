"""Convert Python values to Arrow columns, and Arrow columns to arrays of internal values.

`column_of` makes a column as the table's type where the values are of that kind, by Arrow's
inference where they are not. Inference alone would take a dict for a struct where the table has a
map, drop the time of a datetime beside a date, and read a naive datetime beside one with a zone as
UTC. All columns go through the rule of safe casts afterwards (`casts`); so values of another kind
than the column's type are inferred here and judged by that rule.

`as_internal` gives dates and times as whole numbers and uuids as bytes (see `expr.values`).
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.mismatch import advice
from frazil.arrow.values.uuids import uuid_from_text
from frazil.errors import InvalidInput, SchemaMismatch, ValueMismatch
from frazil.expr.casts import floor_divide
from frazil.expr.values import MOMENTS, NANOS, arrow_type
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

TYPED = "Give values of one type per column, or a pyarrow Table with the types wanted."
_MISSING = ("NaTType", "NAType")  # pandas' nulls of times and of anything
_NANOS = (TimestampNanoType, TimestamptzNanoType)
_MOMENTS = (TimestampType, TimestamptzType, *_NANOS)
_ZONED = (TimestamptzType, TimestamptzNanoType)
_BYTES = (BinaryType, FixedType, GeometryType, GeographyType)
_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def column_of(name: str, values: Iterable[Any], want: IcebergType | None = None) -> pa.Array:
    """Make a column of Python values; None is null. `want`: the type of the table's column, None
    where the table has no such column.

    Raises SchemaMismatch, naming the column, for values of several types and for values that the
    column's type cannot hold.
    """
    items = list(values)
    kinds = set(map(type, items)) - {type(None)}
    if missing := {k for k in kinds if k.__name__ in _MISSING}:
        items = [None if type(v) in missing else v for v in items]
        kinds -= missing
    if not kinds and want is not None:
        return pa.nulls(len(items), to_arrow_type(want))
    try:
        typed = None if want is None else _typed(name, items, kinds, want)
        return _inferred(name, items, kinds) if typed is None else typed
    except SchemaMismatch:
        raise
    except _ERRORS as error:
        _refuse(name, str(error).splitlines()[0] if str(error) else type(error).__name__)


def _typed(name: str, items: list[Any], kinds: set[type], want: IcebergType) -> pa.Array | None:
    """Make a column of the wanted type; None when the values are of another kind."""
    match want:
        case StructType() if _all(kinds, Mapping):
            return _struct(name, items, want)
        case ListType() if _all(kinds, list, tuple, np.ndarray):
            flat = itertools.chain.from_iterable(v for v in items if v is not None)
            inside = column_of(f"{name}.element", flat, want.element_type)
            return pa.ListArray.from_arrays(
                _offsets(items), inside, type=pa.list_(pa.field("element", inside.type))
            )
        case MapType() if _all(kinds, Mapping) or _all(kinds, list, tuple):
            return _map(name, items, want)
    if not want.is_primitive:
        return None
    target = to_arrow_type(want)
    if isinstance(want, _MOMENTS):
        return _moments(name, items, kinds, want, target)
    if isinstance(want, FloatType | DoubleType):
        return (
            _floats(name, items, kinds, want)
            if _all(kinds, int, float, np.integer, np.floating)
            else None
        )
    if isinstance(want, UUIDType):
        if kinds == {bytes}:
            return pa.array(items, pa.binary(16))
        return (
            pa.array([None if v is None else str(v) for v in items], pa.string())
            if _all(kinds, str, UUID)
            else None
        )
    if isinstance(want, TimeType) and any(
        v is not None and getattr(v, "tzinfo", None) is not None for v in items
    ):
        _refuse(name, "a time of the day has a zone", want)
    if not _all(kinds, *_KINDS.get(type(want), ())):
        return None
    try:
        return pa.array(items, pa.binary() if isinstance(want, _BYTES) else target)
    except _ERRORS as error:
        hint = advice(pa.int64() if _all(kinds, int, np.integer) else pa.decimal128(38, 0), want)
        raise _does_not_fit(name, want, str(error).splitlines()[0], hint or None) from error


_KINDS: dict[type, tuple[type, ...]] = {
    BooleanType: (bool, np.bool_), IntegerType: (int, np.integer), LongType: (int, np.integer), DecimalType: (int, np.integer, Decimal),
    DateType: (dt.date,), TimeType: (dt.time,), StringType: (str,), VariantType: (str,),
    **dict.fromkeys(_BYTES, (bytes, bytearray, memoryview)),
}  # fmt: skip


def _all(kinds: set[type], *classes: type) -> bool:
    """Tell whether all kinds are among those wanted. Unlike in Python, a bool is not a number and a
    datetime is not a date.
    """
    return all(
        issubclass(kind, classes)
        and (bool in classes or not issubclass(kind, bool))
        and (classes != (dt.date,) or not issubclass(kind, dt.datetime))
        for kind in kinds
    )


def _floats(
    name: str, items: list[Any], kinds: set[type], want: FloatType | DoubleType
) -> pa.Array:
    """Make a float or double column: Python's floats are rounded to float, since Python has no such
    type; whole numbers must be exact.
    """
    narrow = isinstance(want, FloatType)
    if _all(kinds, float, np.floating):
        numbers: list[Any] = items
    else:
        numbers = [float(v) if isinstance(v, int | np.integer) else v for v in items]
        for value, number in zip(items, numbers, strict=True):
            if isinstance(value, int | np.integer) and (
                float(np.float32(number)) if narrow else number
            ) != int(value):
                raise _does_not_fit(
                    name, want, f"{value} has no equal {want}", advice(pa.int64(), want)
                )
    wide = pa.array(numbers, pa.float64())
    if not narrow:
        return wide
    narrowed = pc.cast(wide, pa.float32(), safe=False)
    if pc.any(pc.and_(pc.is_inf(narrowed), pc.is_finite(wide))).as_py():
        raise _does_not_fit(name, want, "a number is too large", advice(pa.float64(), want))
    return narrowed


def _moments(
    name: str, items: list[Any], kinds: set[type], want: IcebergType, target: pa.DataType
) -> pa.Array | None:
    if not _all(kinds, dt.datetime, dt.date):
        return None
    if not any(issubclass(k, dt.datetime) for k in kinds):
        return None  # dates alone: the rule of safe casts takes them as midnight, or refuses them
    zoned = isinstance(want, _ZONED)
    if not _all(kinds, dt.datetime):
        items = [
            v if v is None or isinstance(v, dt.datetime) else dt.datetime(v.year, v.month, v.day)
            for v in items
        ]
    aware = _aware(items)
    if aware != {zoned}:
        kind = (
            "times with and without a zone"
            if len(aware) == 2
            else "times without a zone"
            if zoned
            else "times with a zone"
        )
        raise _does_not_fit(
            name,
            want,
            f"the values are {kind}.",
            advice(pa.timestamp("us", None if zoned else "UTC"), want),
        )
    if _have_nanos(items, kinds):
        nanos = pa.array(
            [None if v is None else v.value if hasattr(v, "value") else _nanos(v) for v in items],
            pa.int64(),
        )
        return nanos.view(pa.timestamp("ns", target.tz))
    return pa.array(items, pa.timestamp("us", target.tz))


def _aware(times: list[Any]) -> set[bool]:
    """Tell whether times have a zone: {True}, {False}, or both."""
    return {zone is not None for zone in {v.tzinfo for v in times if v is not None}}


def _have_nanos(times: list[Any], kinds: set[type]) -> bool:
    """Tell whether there are pandas Timestamps among the values whose nanoseconds Arrow would drop."""
    return any(hasattr(k, "nanosecond") for k in kinds) and any(
        getattr(v, "nanosecond", 0) for v in times
    )


def _nanos(value: dt.datetime) -> int:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if value.tzinfo is not None else None)
    return (value - epoch) // dt.timedelta(microseconds=1) * 1000


# Nested
# --------------------------------------------------------------------------------------------------


def _struct(name: str, items: list[Any], want: StructType) -> pa.Array:
    """Make a struct column of dicts, fields by name; fields that the table's struct lacks are
    inferred, and refused later.
    """
    names = dict.fromkeys(n for v in items if v is not None for n in v)
    types = {f.name: f.field_type for f in want.fields}
    inside = [
        column_of(f"{name}.{n}", [None if v is None else v.get(n) for v in items], types.get(n))
        for n in names
    ]
    mask = pa.array([v is None for v in items], pa.bool_())
    if not names:
        return pa.array([None if v is None else {} for v in items], pa.struct([]))
    return pa.StructArray.from_arrays(inside, names=[name_of(n) for n in names], mask=mask)


def _map(name: str, items: list[Any], want: MapType) -> pa.Array:
    pairs = [
        pair
        for v in items
        if v is not None
        for pair in (v.items() if isinstance(v, Mapping) else v)
    ]
    if any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        _refuse(name, "a map must be a dict or a list of pairs", want)
    keys = column_of(f"{name}.key", [k for k, _ in pairs], want.key_type)
    values = column_of(f"{name}.value", [v for _, v in pairs], want.value_type)
    return pa.MapArray.from_arrays(_offsets(items), keys, values)


def _offsets(items: Sequence[Any]) -> pa.Array:
    """Compute list offsets: where each list begins, null for a null list, and where the last ends."""
    lengths = [0 if v is None else len(v) for v in items]
    starts = itertools.accumulate(lengths, initial=0)
    return pa.array(
        [None if v is None else s for v, s in zip([*items, ()], starts, strict=True)], pa.int32()
    )


# Values of no wanted type
# --------------------------------------------------------------------------------------------------


def _inferred(name: str, items: list[Any], kinds: set[type]) -> pa.Array:
    """Make a column by Arrow's inference; refuses mixtures of which Arrow would drop a part."""
    moments = [v for v in items if isinstance(v, dt.datetime)]
    if moments and any(not issubclass(k, dt.datetime) for k in kinds):
        _refuse(name, "datetimes and other values are mixed")
    if len(_aware(moments)) == 2:
        _refuse(name, "times with and without a zone are mixed")
    if _have_nanos(moments, kinds):
        return pa.array(items, pa.timestamp("ns", "UTC" if True in _aware(moments) else None))
    return pa.array(items)


def _refuse(name: str, why: str, want: IcebergType | None = None) -> NoReturn:
    to = "" if want is None else f" for {want}"
    raise SchemaMismatch(
        f"Column {name} cannot be read as one type{to}: {why.rstrip('.')}.", hint=TYPED, column=name
    )


def _does_not_fit(name: str, want: IcebergType, why: str, hint: str | None = None) -> ValueMismatch:
    return ValueMismatch(
        f"A value of column {name} does not fit its type {want}: {why.rstrip('.')}.",
        hint=hint,
        column=name,
    )


def name_of(name: object) -> str:
    """Check that the name of a column is text. Raises InvalidInput."""
    if not isinstance(name, str):
        raise InvalidInput(f"The name of a column must be text, not {name!r}.")
    return name


def field_named(
    fields: Iterable[NestedField], name: str, case_sensitive: bool
) -> NestedField | None:
    """Find the table's column for the name of a frame's column; None when there is none, or more
    than one.
    """
    columns = list(fields)
    near = [f for f in columns if f.name == name] or (
        [] if case_sensitive else [f for f in columns if f.name.lower() == name.lower()]
    )
    return near[0] if len(near) == 1 else None


# Internal values of Arrow columns
# --------------------------------------------------------------------------------------------------

_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def as_internal(values: pa.Array | pa.ChunkedArray, type_: IcebergType) -> pa.Array:
    """Convert a column to internal values of `type_`. Raises InvalidInput when its Arrow type
    cannot hold them.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if not type_.is_primitive:
        return values
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    wanted = arrow_type(type_)
    if values.type == wanted:
        return values
    try:
        return _converted(values, type_, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
        raise InvalidInput(
            f"An Arrow column of type {values.type} cannot be read as {type_}: {e}"
        ) from e


def _converted(values: pa.Array, type_: IcebergType, storage_type: pa.DataType) -> pa.Array:
    if isinstance(type_, MOMENTS) and pa.types.is_timestamp(values.type):
        return _internal_moments(values, 1 if isinstance(type_, NANOS) else 1000)
    if isinstance(type_, DateType) and pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if isinstance(type_, MOMENTS) and pa.types.is_date32(values.type):  # promoted from date
        return values.cast(pa.timestamp("ns" if isinstance(type_, NANOS) else "us")).view(
            pa.int64()
        )
    if isinstance(type_, TimeType) and pa.types.is_time(values.type):
        return (values if values.type == pa.time64("us") else values.cast(pa.time64("us"))).view(
            pa.int64()
        )
    if isinstance(type_, UUIDType) and (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        return uuid_from_text(values).cast(pa.binary())
    return values.cast(storage_type)


def _internal_moments(values: pa.Array, nanos: int) -> pa.Array:
    """Convert timestamps to whole numbers in units of `nanos` nanoseconds; finer units are rounded
    down.
    """
    have = _UNITS[values.type.unit]
    whole = values.view(pa.int64())
    if have == nanos:
        return whole
    if have > nanos:
        return pc.multiply_checked(whole, have // nanos)
    return floor_divide(whole, nanos // have)
