"""Choose the columns of a Parquet file that are written with a dictionary of their values, by its
first rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

DECIDING_ROWS = (
    20_000  # rows that decide: those of the first page, by which Java's writer decides, too
)


def without_dictionary(rows: pa.Table) -> frozenset[str]:
    """Return the names of top-level columns whose values a dictionary would make larger: in the
    first rows, the distinct values with a number for each row take as many bytes as the values
    themselves.

    pyarrow keeps a dictionary of values that are all different until it fills a page, so that a
    small file would hold each value and its number. Columns with nested values keep their
    dictionaries.
    """
    first = rows.slice(0, DECIDING_ROWS)
    return frozenset(
        name
        for name, column in zip(first.column_names, first.columns, strict=True)
        if _grows(column)
    )


def _grows(column: pa.ChunkedArray) -> bool:
    """Tell whether a dictionary makes the values of a column larger."""
    count = len(column) - column.null_count
    if column.type.id in _NO_DICTIONARY or pa.types.is_nested(column.type) or count == 0:
        return False
    values = _stored(column.combine_chunks())
    plain = (
        count * width
        if (width := _width(values.type))
        else 4 * count + (pc.sum(pc.binary_length(values)).as_py() or 0)
    )
    distinct = pc.count_distinct(values).as_py()
    numbers = count * (distinct - 1).bit_length() / 8
    return bool(plain * distinct / count + numbers >= plain)


def _width(type_: pa.DataType) -> int | None:
    """Return the bytes of a value in a Parquet file; None: that differs from value to value."""
    if pa.types.is_decimal(type_):
        return 4 if type_.precision <= 9 else 8 if type_.precision <= 18 else int(type_.byte_width)
    return (
        int(type_.bit_width) // 8
        if pa.types.is_primitive(type_) or pa.types.is_fixed_size_binary(type_)
        else None
    )


def _stored(values: Any) -> Any:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


_NO_DICTIONARY: Collection[int] = frozenset({pa.bool_().id, pa.null().id})
