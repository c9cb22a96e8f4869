"""Parquet files of one schema as one file: their row groups one after another, and one footer in which everything has moved.

Where things are stands in the footer's row groups (parquet.thrift: RowGroup, ColumnChunk, ColumnMetaData); everything else is kept as the
first file has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frazil.arrow.parquet_footer import LIST, STRUCT, list_head, parse, read_field, read_unsigned, skip, varint, zigzag

_ROWS, _GROUPS = 3, 4
_Change = Callable[[int], int] | Mapping[int, Any]


def joined_footer(parts: Sequence[tuple[bytes, int]]) -> bytes:
    """The footer of a file made of the bodies of others. `parts`: the footer of each, and by how many bytes its body has moved."""
    rows = 0
    groups: list[bytes] = []
    for footer, moved in parts:
        data = parse(footer).after
        count, found, _ = _opened(data)
        rows += count
        for position in found:
            groups.append(_changed(data, position, _changes(moved, len(groups)))[0])
    first = parse(parts[0][0])
    rest = first.after[_opened(first.after)[2] :]
    return b"".join([first.before, first.schema, b"\x16", varint(rows << 1), b"\x19", list_head(len(groups)), *groups, rest])


def _changes(moved: int, ordinal: int) -> Mapping[int, _Change]:
    """Of a RowGroup: file_offset, ordinal, and of its columns file_offset, offset_index_offset, column_index_offset, data_page_offset,
    index_page_offset, dictionary_page_offset, bloom_filter_offset."""

    def move(offset: int) -> int:
        return offset + moved if offset > 0 else offset  # 0 in file_offset: not told

    return {1: {2: move, 3: {9: move, 10: move, 11: move, 14: move}, 4: move, 6: move}, 5: move, 7: lambda _: ordinal}


def _opened(data: bytes) -> tuple[int, list[int], int]:
    """Of what stands behind the schema: how many rows there are, where the row groups begin, and where they end. Raises ValueError."""
    kind, number, position = read_field(data, 0, 2)
    rows, position = read_unsigned(data, position)
    groups, last, position = read_field(data, position, number)
    if (number, last) != (_ROWS, _GROUPS) or groups != LIST:
        raise ValueError(f"fields {number} and {last} of kinds {kind} and {groups} where rows and row groups are due")
    count, position = _length(data, position)
    found = []
    for _ in range(count):
        found.append(position)
        position = skip(data, position, STRUCT, 0)
    return zigzag(rows), found, position


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Of a list of structs."""
    head = data[position]
    if head & 0x0F != STRUCT:
        raise ValueError("a list of other things than structs")
    return (head >> 4, position + 1) if head >> 4 != 15 else read_unsigned(data, position + 1)


def _changed(data: bytes, begin: int, changes: Mapping[int, _Change]) -> tuple[bytes, int]:
    """A struct with other numbers, and where it ended."""
    out, position, last = [], begin, 0
    while True:
        before = position
        kind, number, position = read_field(data, position, last)
        change = changes.get(number) if kind else None
        if change is None:
            position, last = skip(data, position, kind, 0) if kind else position, number
            out.append(data[before:position])
            if not kind:
                return b"".join(out), position
            continue
        if callable(change):
            out.append(data[before:position])
            value, position = read_unsigned(data, position)
            new = change(zigzag(value))
            out.append(varint(new << 1 if new >= 0 else (-new << 1) - 1))
        elif kind == STRUCT:
            out.append(data[before:position])
            inside, position = _changed(data, position, change)
            out.append(inside)
        else:
            count, position = _length(data, position)
            out.append(data[before:position])
            for _ in range(count):
                inside, position = _changed(data, position, change)
                out.append(inside)
        last = number
