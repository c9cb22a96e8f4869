"""Report why the columns of a frame do not fit those of a table: one SchemaMismatch with a line per
problem and a hint per kind of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from frazil.errors import SchemaMismatch
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

NEW_COLUMNS = "merge_schema=True adds new columns to the table."
_ZONED, _LOCAL = (TimestamptzType, TimestamptzNanoType), (TimestampType, TimestampNanoType)
_GIVE_A_ZONE = (
    "Times without a zone are not points in time: give them one (pandas: frame['x'].dt.tz_localize('UTC'); pyarrow: "
    "pyarrow.compute.assume_timezone(column, 'UTC'); Python: datetime(…, tzinfo=timezone.utc); Spark: CAST(x AS timestamp) takes the "
    "session's), or make the column timestamp_ntz."
)
_TAKE_THE_ZONE = (
    "Points in time have no clock time until a zone is chosen: choose one (pandas: frame['x'].dt.tz_convert('UTC').dt.tz_localize(None); "
    "pyarrow: pyarrow.compute.local_timestamp(column); Spark: CAST(x AS timestamp_ntz) takes the session's), or make the column timestamp."
)
_ROUND = "Most doubles have no equal float: cast the column to float, which rounds, or make the table's column double."
_WHOLE = (
    "Whole numbers with missing ones are doubles with NaN in numpy: use pandas' dtype 'Int64', an Arrow integer column with nulls, or cast "
    "(NaN is taken for null in pandas frames only); fractions need a double column."
)
_NOT_EXACT = "Doubles hold every whole number up to 2^53, floats up to 2^24: cast the column to round, or make the table's column a long."
_FINER = "Round the times to microseconds (pandas: frame['x'].dt.floor('us')), or make the column timestamp_ns (format version 3)."
CAST = "Cast the column to the table's type."


@dataclass(frozen=True)
class Problem:
    """Hold one column that does not fit: its name, the types of frame and table as text, what is
    wrong, what to do about it, and whether the type is what is wrong, or the table's column is
    missing or ambiguous in the frame, or the frame's unknown to the table.
    """

    column: str
    frame: str
    table: str
    text: str
    hint: str = ""
    kind: Literal["type", "missing", "ambiguous", "unknown"] = "type"


def mismatch(problems: Sequence[Problem]) -> SchemaMismatch:
    """Make the error that lists all problems as a table of (column, the frame's type, the table's
    type, what is wrong).
    """
    rows = [
        ("column", "frame", "table", "problem"),
        *((p.column, p.frame, p.table, p.text) for p in problems),
    ]
    widths = [max(len(r[i]) for r in rows) for i in range(3)]
    lines = [
        "  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[3]]) for r in rows
    ]
    text = "The frame does not fit the table:\n" + "\n".join(lines) + "\n"
    return SchemaMismatch(text, hint=hints(problems), columns=[p.column for p in problems])


def hints(problems: Iterable[Problem]) -> str | None:
    """Join the hints of problems, each once."""
    return " ".join(dict.fromkeys(p.hint for p in problems if p.hint)) or None


def no_such_column(name: str, type_: str, columns: Iterable[str]) -> Problem:
    """Describe a column of the frame that the table lacks, or has in other case."""
    near = next((k for k in columns if k.lower() == name.rpartition(".")[2].lower()), None)
    if near is not None:
        text = f"is no column of the table, which has {near!r}"
        return Problem(
            name,
            type_,
            "",
            text,
            "Names are matched with their case: rename the column, or use case_sensitive=False.",
            "unknown",
        )
    return Problem(name, type_, "", "is no column of the table", NEW_COLUMNS, "unknown")


def advice(have: pa.DataType, want: IcebergType) -> str:
    """Advise what to do where a column does not take values of another type, or a value has no
    equal in it; "" where that is plain.
    """
    types = pa.types
    if types.is_timestamp(have) or types.is_date(have):
        if isinstance(want, _ZONED) and (types.is_date(have) or have.tz is None):
            return _GIVE_A_ZONE
        if (
            isinstance(want, (*_LOCAL, DateType, TimeType))
            and types.is_timestamp(have)
            and have.tz is not None
        ):
            return _TAKE_THE_ZONE
        if (
            isinstance(want, TimestampType | TimestamptzType)
            and types.is_timestamp(have)
            and have.unit == "ns"
        ):
            return _FINER
    if types.is_floating(have) and isinstance(want, FloatType):
        return _ROUND
    if types.is_floating(have) and isinstance(want, IntegerType | LongType):
        return _WHOLE
    if types.is_integer(have) and isinstance(want, FloatType | DoubleType):
        return _NOT_EXACT
    if types.is_integer(have) and isinstance(want, IntegerType):
        return "Make the table's column a long: t.update_schema().update_column(…, LongType())."
    if types.is_decimal(have) and isinstance(want, DecimalType):
        return "Cast the column to the table's decimal, which rounds, or make the table's wider."
    return ""
