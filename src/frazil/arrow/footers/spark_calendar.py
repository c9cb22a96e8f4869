"""Files in which Spark wrote old dates by the hybrid calendar, as it did before 3.0 and does where its rebase mode is LEGACY.

Their numbers mean other days than Iceberg's (proleptic Gregorian): read as they stand, 0001-01-01 would be 0000-12-30. Spark marks such
files in their footers (`DataSourceUtils.getRebaseSpec`), nobody else looks at the marks.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import Unsupported

_VERSION = b"org.apache.spark.version"
_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_IN_FOOTER = re.compile(b"|".join(map(re.escape, _MARKS)) + b"|" + re.escape(_VERSION) + rb"\x18.[12]\.", re.DOTALL)
_GREGORIAN = -141_427  # days: 1582-10-15, since when both calendars agree
_ZONES_AGREE = -2_208_988_800  # seconds: 1900-01-01, since when Java's time zones do, too
_TICKS = {"milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def check_calendar(path: str, file: Any) -> None:
    """Raises Unsupported when an open Parquet file holds a date or time that means another one in Iceberg."""
    footer = file.metadata
    if not _is_marked(footer.metadata or {}):
        return
    for leaf in range(footer.num_columns):
        column = footer.schema.column(leaf)
        limit = _limit(column)
        if limit is not None and (least := _least(file, leaf, column)) is not None and least < limit:
            raise Unsupported(
                f"Column {column.path} of {path} holds dates before 1582 or times before 1900 in the calendar of Spark 2.",
                hint="Read the file with Spark and append its rows.", file=path,
            )  # fmt: skip


def may_be_marked(footer: bytes) -> bool:
    """Whether the bytes of a footer hold a mark. Only what stands in a footer by chance can deceive it, and only to say yes."""
    return _IN_FOOTER.search(footer) is not None


def _is_marked(notes: dict[bytes, bytes]) -> bool:
    version = notes.get(_VERSION)
    return any(m in notes for m in _MARKS) or (version is not None and version < b"3.")


def _limit(column: Any) -> int | None:
    """The first value that means the same in both, as the file counts; None: no date, no time with a zone."""
    if column.physical_type == "INT96":
        return _ZONES_AGREE * _TICKS["microseconds"]
    kind = json.loads(column.logical_type.to_json())
    if kind["Type"] == "Date":
        return _GREGORIAN
    return _ZONES_AGREE * _TICKS[kind["timeUnit"]] if kind["Type"] == "Timestamp" and kind["isAdjustedToUTC"] else None


def _least(file: Any, leaf: int, column: Any) -> int | None:
    """The least value of a column: of its statistics, else of its rows. None: there is none."""
    found: list[int] = []
    for group in range(file.metadata.num_row_groups):
        chunk = file.metadata.row_group(group).column(leaf)
        if chunk.is_stats_set and chunk.statistics.has_min_max and column.physical_type != "INT96":
            found.append(chunk.statistics.min_raw)
            continue
        for values in file.reader.read_row_group(group, column_indices=[leaf]).column(0).chunks:
            if (least := pc.min(_numbers(values)).as_py()) is not None:
                found.append(least)
    return min(found, default=None)


def _numbers(values: pa.Array) -> pa.Array:
    """What stands in a column of one leaf, whatever is around it."""
    while pa.types.is_nested(values.type):
        inside = values.flatten()
        values = inside[0] if isinstance(inside, list) else inside
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values.cast(pa.int64())
