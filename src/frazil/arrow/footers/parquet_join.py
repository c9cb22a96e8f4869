"""Join the footers of Parquet files of one schema whose row groups are put one after another into
one file.

Row groups are encoded at the same time, each as a file of its own, and joined here (docs/adr/0013,
0019). The offsets in the footer's row groups (parquet.thrift: RowGroup, ColumnChunk,
ColumnMetaData) are moved; everything else is kept as the first file has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frazil.arrow.footers.parquet_footer import (
    LIST,
    STRUCT,
    list_head,
    parse,
    read_field,
    read_list,
    read_unsigned,
    signed,
    skip,
    zigzag,
)

_ROWS, _GROUPS = 3, 4
_Change = Callable[[int], int] | Mapping[int, Any]


def joined_footer(parts: Sequence[tuple[bytes, int]]) -> bytes:
    """Make the footer of a file of the bodies of others. `parts`: the footer of each, and by how
    many bytes its body moved.
    """
    footers = [parse(footer) for footer, _ in parts]
    rows, rest = 0, b""
    groups: list[bytes] = []
    for footer, (_, moved) in zip(footers, parts, strict=True):
        count, begins, end = _opened(footer.after)
        rows, rest = rows + count, rest or footer.after[end:]
        for position in begins:
            groups.append(_changed(footer.after, position, _changes(moved, len(groups)))[0])
    first = footers[0]
    return b"".join(
        [
            first.before,
            first.schema,
            b"\x16",
            signed(rows),
            b"\x19",
            list_head(len(groups)),
            *groups,
            rest,
        ]
    )


def _changes(moved: int, ordinal: int) -> Mapping[int, _Change]:
    """Map the numbers of the Thrift fields of a RowGroup that change to their new values.

    These are file_offset and ordinal, and of its columns file_offset, offset_index_offset,
    column_index_offset, data_page_offset, index_page_offset, dictionary_page_offset and
    bloom_filter_offset.
    """

    def move(offset: int) -> int:
        return (
            offset + moved if offset > 0 else offset
        )  # file_offset 0 means that the writer did not set it

    return {
        1: {2: move, 3: {9: move, 10: move, 11: move, 14: move}, 4: move, 6: move},
        5: move,
        7: lambda _: ordinal,
    }


def _opened(data: bytes) -> tuple[int, list[int], int]:
    """Read what follows the schema: (number of rows, where each row group begins, where the last
    ends). Raises ValueError.
    """
    kind, number, position = read_field(data, 0, 2)
    rows, position = read_unsigned(data, position)
    groups, last, position = read_field(data, position, number)
    if (number, last) != (_ROWS, _GROUPS) or groups != LIST:
        raise ValueError(
            f"fields {number} and {last} of kinds {kind} and {groups} in place of num_rows and row_groups"
        )
    kind, count, position = read_list(data, position)
    if kind != STRUCT:
        raise ValueError("row groups that are not structs")
    begins = []
    for _ in range(count):
        begins.append(position)
        position = skip(data, position, STRUCT, 0)
    return zigzag(rows), begins, position


def _changed(data: bytes, begin: int, changes: Mapping[int, _Change]) -> tuple[bytes, int]:
    """Copy a Thrift struct with changed numbers; returns its bytes and where the original ended."""
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
            out.append(signed(change(zigzag(value))))
        elif kind == STRUCT:
            out.append(data[before:position])
            inside, position = _changed(data, position, change)
            out.append(inside)
        else:
            _, count, position = read_list(data, position)
            out.append(data[before:position])
            for _ in range(count):
                inside, position = _changed(data, position, change)
                out.append(inside)
        last = number
