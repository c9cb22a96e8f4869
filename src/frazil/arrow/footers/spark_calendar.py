"""Refuse files in which Spark wrote old dates in the hybrid calendar, as it did before 3.0 and does
where its rebase mode is LEGACY.

Their numbers mean other days than in Iceberg, which has the proleptic Gregorian calendar:
0001-01-01 would be read as 0000-12-30. Spark marks such files in their footers
(`DataSourceUtils.getRebaseSpec`); no other reader looks at the marks.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import Unsupported

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_VERSION = b"org.apache.spark.version"
_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_IN_FOOTER = re.compile(
    b"|".join(map(re.escape, _MARKS)) + b"|" + re.escape(_VERSION) + rb"\x18.[12]\.", re.DOTALL
)
_GREGORIAN = -141_427  # in days: 1582-10-15, from which on both calendars agree
# in seconds: 1900-01-01, from which on Java's old and new time zones agree as well
_ZONES_AGREE = -2_208_988_800
_TICKS = {"milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def check_calendar(path: str, file: pq.ParquetFile) -> None:
    """Check the dates of an open Parquet file. Raises Unsupported when it holds a date or time that
    would mean another one in Iceberg.
    """
    footer = file.metadata
    if not _is_marked(footer.metadata or {}):
        return
    for leaf in range(footer.num_columns):
        column = footer.schema.column(leaf)
        limit = _limit(column)
        if (
            limit is not None
            and (least := _least(file, leaf, column)) is not None
            and least < limit
        ):
            raise Unsupported(
                f"Column {column.path} of {path} holds dates before 1582 or times before 1900 in the legacy calendar of Spark.",
                hint="Read the file with Spark and append its rows.",
                file=path,
            )


def may_be_marked(footer: bytes) -> bool:
    """Tell quickly whether the bytes of a footer may hold a mark. It may say yes by mistake (a
    column may have such a name), never no.
    """
    return _IN_FOOTER.search(footer) is not None


def _is_marked(key_values: dict[bytes, bytes]) -> bool:
    version = key_values.get(_VERSION)
    return any(mark in key_values for mark in _MARKS) or (version is not None and version < b"3.")


def _limit(column: pq.ColumnSchema) -> int | None:
    """Find the first value of a column that means the same in both calendars, in the unit of the
    file; None for columns of other types.
    """
    if column.physical_type == "INT96":
        return _ZONES_AGREE * _TICKS["microseconds"]
    kind = json.loads(column.logical_type.to_json())
    if kind["Type"] == "Date":
        return _GREGORIAN
    return (
        _ZONES_AGREE * _TICKS[kind["timeUnit"]]
        if kind["Type"] == "Timestamp" and kind["isAdjustedToUTC"]
        else None
    )


def _least(file: pq.ParquetFile, leaf: int, column: pq.ColumnSchema) -> int | None:
    """Find the least value of a column by its statistics or, without them, by its rows; None when
    all are null.
    """
    least_values: list[int] = []
    for group in range(file.metadata.num_row_groups):
        chunk = file.metadata.row_group(group).column(leaf)
        if chunk.is_stats_set and chunk.statistics.has_min_max and column.physical_type != "INT96":
            least_values.append(chunk.statistics.min_raw)
            continue
        for values in file.reader.read_row_group(group, column_indices=[leaf]).column(0).chunks:
            if (least := pc.min(_numbers(values)).as_py()) is not None:
                least_values.append(least)
    return min(least_values, default=None)


def _numbers(values: pa.Array) -> pa.Array:
    """Take the values of the only leaf of a column out of the structs, lists and maps around it, as
    integers.
    """
    while pa.types.is_nested(values.type):
        inside = values.flatten()
        values = inside[0] if isinstance(inside, list) else inside
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values.cast(pa.int64())
