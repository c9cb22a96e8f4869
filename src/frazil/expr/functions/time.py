"""Implement date and time functions. Timestamps with time zone are split in the session's time zone
(UTC without Spark).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.calendar import DAY_MICROS, civil, days_of
from frazil.expr.casts import floor_divide, local_values, over_numpy, shift_zone
from frazil.expr.functions.function import Bind, Function, Kernel, Signature, plain
from frazil.expr.values import MOMENTS, NANOS
from frazil.spec.types import (
    DateType,
    IcebergType,
    IntegerType,
    StringType,
    TimestamptzType,
    TimeType,
    UnknownType,
)

DATE, INT = DateType(), IntegerType()
Types = Sequence[IcebergType]
_MONTHS = "datetime64[M]"


# what an argument may be and stays, what else it may be, and the type to which that is cast
_Argument = tuple[tuple[type, ...], tuple[type, ...], IcebergType]
_DAYS_OR_TEXT = (DateType, *MOMENTS, StringType, UnknownType)
_DATE_OR_TIME: _Argument = ((DateType, *MOMENTS), (StringType, UnknownType), DATE)
_AS_DATE: _Argument = ((), _DAYS_OR_TEXT, DATE)
_DAY_COUNT: _Argument = ((IntegerType,), (UnknownType, StringType), INT)
_NUMBER: _Argument = ((IntegerType,), (UnknownType,), INT)
_OF_CLOCK: _Argument = (
    (TimeType, *MOMENTS),
    (DateType, StringType, UnknownType),
    TimestamptzType(),
)
_UNIT: _Argument = ((StringType,), (), StringType())
# Spark returns a timestamp with zone for timestamps without zone, too
_AS_MOMENT: _Argument = ((), _DAYS_OR_TEXT, TimestamptzType())


def _takes(says: str, *arguments: _Argument, result: IcebergType) -> Bind:
    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        pairs = [*zip(types, arguments, strict=False)]
        if len(types) != len(arguments) or not all(
            isinstance(t, (*same, *others)) for t, (same, others, _) in pairs
        ):
            return says
        return Signature(
            tuple(t if isinstance(t, same) else to for t, (same, _, to) in pairs), result
        )

    return bind


_MICROS_TIME = pa.timestamp("us")
_ARROW_TIME: dict[type, pa.DataType] = {
    DateType: pa.date32(),
    **{t: pa.timestamp("ns") for t in NANOS},
}
_MOST_DAYS = 30_000 * 365


def _units(type_: IcebergType) -> int:
    """Return the number of internal values per day."""
    return (
        1 if isinstance(type_, DateType) else DAY_MICROS * (1000 if isinstance(type_, NANOS) else 1)
    )


def _within_years(local: pa.Array, type_: IcebergType) -> bool:
    ends = pc.min_max(local).as_py()
    most = _MOST_DAYS * _units(type_)
    return ends["min"] is None or (ends["min"] > -most and ends["max"] < most)


def _days(local: pa.Array, type_: IcebergType) -> pa.Array:
    """Return the int32 days of dates or local timestamps."""
    return (
        local
        if isinstance(type_, DateType)
        else floor_divide(local, _units(type_)).cast(pa.int32())
    )


def _part(
    function: Callable[[Any], Any], fast: Callable[[pa.Array], pa.Array] | None = None
) -> Kernel:
    """Make a kernel that extracts a number from days (numpy datetime64[D]). `fast`: Arrow's
    function, which knows 16-bit years only.
    """

    def kernel(
        values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str
    ) -> pa.Array:
        local = local_values(values[0], types[0], zone)
        if fast is not None and _within_years(local, types[0]):
            return fast(local.view(_ARROW_TIME.get(type(types[0]), _MICROS_TIME))).cast(pa.int32())
        days = _days(local, types[0])
        return over_numpy(
            days, lambda d: function(d.astype("datetime64[D]")).astype(np.int32), pa.int32()
        )

    return kernel


def _year(days: npt.NDArray[np.datetime64]) -> Any:
    return days.astype("datetime64[Y]").astype(np.int64) + 1970


def _month(days: npt.NDArray[np.datetime64]) -> Any:
    return days.astype(_MONTHS).astype(np.int64) % 12 + 1


def _day(days: npt.NDArray[np.datetime64]) -> Any:
    return (days - days.astype(_MONTHS).astype("datetime64[D]")).astype(np.int64) + 1


def _day_of_year(days: npt.NDArray[np.datetime64]) -> Any:
    return (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1


def _weekday(days: npt.NDArray[np.datetime64]) -> Any:
    return (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0


def _week(days: npt.NDArray[np.datetime64]) -> Any:
    """Return the ISO 8601 week: that of the year in which the week's Thursday lies."""
    thursday = days - _weekday(days).astype("timedelta64[D]") + np.timedelta64(3, "D")
    return (_day_of_year(thursday) - 1) // 7 + 1


def _clock(seconds: int, modulus: int) -> Kernel:
    def kernel(
        values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str
    ) -> pa.Array:
        per_second = 1_000_000_000 if isinstance(types[0], NANOS) else 1_000_000
        local = local_values(values[0], types[0], zone)
        return over_numpy(
            local, lambda v: (v // (per_second * seconds) % modulus).astype(np.int32), pa.int32()
        )

    return kernel


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"), "quarter": "quarter", **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week", **dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip
_MICROS = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}


def _is_unit(texts: pa.Array) -> pa.Array:
    if not pa.types.is_string(texts.type):
        return texts.is_valid()
    return pc.is_in(pc.utf8_lower(texts), pa.array(list(_UNITS)))


def _trunc(values: Sequence[pa.Array], types: Types, result: IcebergType, zone: str) -> pa.Array:
    units = {u for u in values[0].unique().to_pylist() if u is not None}
    truncated = pa.nulls(len(values[1]), pa.int64())
    local = local_values(values[1], types[1], zone)
    for text in units:
        if unit := _UNITS.get(text.lower()):
            truncated = pc.if_else(
                pc.equal(values[0], text), over_numpy(local, partial(_floored, unit)), truncated
            )
    return shift_zone(truncated, zone, 1, to_instant=True)


def _floored(unit: str, micros: npt.NDArray[np.int64]) -> Any:
    if unit in _MICROS:
        return micros // _MICROS[unit] * _MICROS[unit]
    days = (micros // DAY_MICROS).astype("datetime64[D]")
    match unit:
        case "year":
            days = days.astype("datetime64[Y]").astype("datetime64[D]")
        case "quarter":
            months = days.astype(_MONTHS).astype(np.int64)
            days = (months - months % 3).astype(_MONTHS).astype("datetime64[D]")
        case "month":
            days = days.astype(_MONTHS).astype("datetime64[D]")
        case "week":
            days = days - _weekday(days).astype("timedelta64[D]")
    return days.astype(np.int64) * DAY_MICROS


def _last_day(dates: pa.Array) -> pa.Array:
    def last(days: npt.NDArray[np.int32]) -> Any:
        return (
            (days.astype("datetime64[D]").astype(_MONTHS) + 1)
            .astype("datetime64[D]")
            .astype(np.int64)
            - 1
        ).astype(np.int32)

    return over_numpy(dates, last, pa.int32())


_DAYS = range(-(2**31), 2**31)  # the days that a date can hold


def _make_date(*parts: pa.Array) -> pa.Array:
    dates = []
    for row in zip(*(v.to_pylist() for v in parts), strict=True):
        days = None if None in row or not 1 <= row[1] <= 12 else days_of(*row)
        if None not in row and (days is None or days not in _DAYS or civil(days) != row):
            raise EvaluationError(f"make_date({', '.join(map(str, row))}) is not a valid date.")
        dates.append(days)
    return pa.array(dates, pa.int32())


_DATE_BIND = _takes("takes a date or timestamp.", _DATE_OR_TIME, result=INT)
_CLOCK_BIND = _takes("takes a timestamp or time.", _OF_CLOCK, result=INT)
_SHIFT_BIND = _takes("takes a date and a number of days.", _AS_DATE, _DAY_COUNT, result=DATE)
TIME_FUNCTIONS = (
    Function("year", _DATE_BIND, _part(_year, pc.year), monotone=0),
    Function("quarter", _DATE_BIND, _part(lambda d: (_month(d) - 1) // 3 + 1, pc.quarter)),
    Function("month", _DATE_BIND, _part(_month, pc.month)),
    Function("day", _DATE_BIND, _part(_day, pc.day), ("dayofmonth",)),
    Function("dayofweek", _DATE_BIND, _part(lambda d: (_weekday(d) + 1) % 7 + 1)),
    Function("weekday", _DATE_BIND, _part(_weekday)),
    Function("dayofyear", _DATE_BIND, _part(_day_of_year)),
    Function("weekofyear", _DATE_BIND, _part(_week)),
    Function("hour", _CLOCK_BIND, _clock(3600, 24)),
    Function("minute", _CLOCK_BIND, _clock(60, 60)),
    Function("second", _CLOCK_BIND, _clock(1, 60)),
    # beyond the last day and the first one Spark goes round
    Function("date_add", _SHIFT_BIND, plain(pc.add), ("dateadd",)),
    Function("date_sub", _SHIFT_BIND, plain(pc.subtract)),
    Function(
        "datediff",
        _takes("takes two dates.", _AS_DATE, _AS_DATE, result=INT),
        plain(pc.subtract),
        ("date_diff",),
    ),
    Function(
        "date_trunc",
        _takes(
            "takes a unit and a timestamp, as in date_trunc('day', ts).",
            _UNIT,
            _AS_MOMENT,
            result=TimestamptzType(),
        ),
        _trunc,
        strict=False,
        goes_on=_is_unit,
    ),
    Function(
        "last_day",
        _takes("takes a date or timestamp.", _AS_DATE, result=DATE),
        plain(_last_day),
    ),
    Function(
        "make_date",
        _takes("takes year, month and day.", _NUMBER, _NUMBER, _NUMBER, result=DATE),
        plain(_make_date),
        can_fail=True,
    ),
)
