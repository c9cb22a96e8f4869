"""Write a Parquet file whose row groups are encoded at the same time, each in memory as a file of
its own, and joined in their order under one footer.

Writing spends its time in encoding and compressing, for which pyarrow uses one core per file
(docs/adr/0013). `joined_footer` moves the offsets in the footers' row groups (parquet.thrift:
RowGroup, ColumnChunk, ColumnMetaData) and keeps everything else as the first file has it
(docs/adr/0019).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.footers.parquet_footer import (
    LIST,
    MAGIC,
    STRUCT,
    closing,
    list_head,
    parse,
    read_field,
    read_list,
    read_unsigned,
    signed,
    skip,
    zigzag,
)
from frazil.arrow.write.metrics import Metrics
from frazil.arrow.write.write_parquet import DECIDING_ROWS, ParquetFileWriter


class RowGroupsWriter:
    """Write one Parquet file. Each `write` makes one row group; `close` returns the metrics.

    `make`: makes the writer of a whole file, as which each row group is encoded. At most `most` row
    groups wait to be joined, of at most `memory` bytes together.
    """

    def __init__(
        self,
        sink: Any,
        make: Callable[[Any], ParquetFileWriter],
        pool: ThreadPoolExecutor,
        most: int,
        memory: int,
    ):
        self._sink, self._make, self._pool, self._most, self._memory = (
            sink,
            make,
            pool,
            most,
            memory,
        )
        self._waiting: deque[tuple[int, Future[tuple[pa.Buffer, ParquetFileWriter]]]] = deque()
        self._footers: list[tuple[bytes, int]] = []
        self._last: ParquetFileWriter | None = None
        self._nans: dict[int, int] = {}
        # the file's first rows, by which every row group chooses its dictionaries
        self._first: list[pa.RecordBatch] = []
        self._deciding = threading.Lock()
        self._arguments: dict[str, Any] | None = None
        self._written = self._coming = 0

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        if not sum(b.num_rows for b in batches):
            return
        if not self._first:
            left = DECIDING_ROWS
            for batch in batches:
                self._first.append(batch.slice(0, left))
                left = max(0, left - batch.num_rows)
        size = sum(b.nbytes for b in batches)
        while self._waiting and (
            len(self._waiting) >= self._most or self._coming + size > self._memory
        ):
            self._take()
        self._waiting.append((size, self._pool.submit(self._encoded, list(batches))))
        self._coming += size

    def has(self, size: int) -> bool:
        """Tell whether the file has at least `size` bytes; waits for row groups that are being
        encoded where the answer depends on them.
        """
        while self._waiting and self._written < size <= self._written + 2 * self._coming:
            # encoding never doubles the size
            self._take()
        return self._written >= size

    def _encoded(self, batches: Sequence[pa.RecordBatch]) -> tuple[pa.Buffer, ParquetFileWriter]:
        sink = pa.BufferOutputStream()
        writer = self._make(sink)
        try:
            if self._first:
                writer.decide(self._decided(writer))
            writer.write(batches)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        return sink.getvalue(), writer

    def _decided(self, writer: ParquetFileWriter) -> dict[str, Any]:
        """Decide by the file's first rows, once."""
        with self._deciding:
            if self._arguments is None:
                self._arguments = writer.decided_by(self._first)
            return self._arguments

    def _take(self) -> None:
        """Write the next encoded row group to the file."""
        size, future = self._waiting.popleft()
        data, writer = future.result()
        self._coming -= size
        end = (
            len(data)
            - 8
            - int.from_bytes(data[len(data) - 8 : len(data) - 4].to_pybytes(), "little")
        )
        begin = 4 if self._written else 0
        self._footers.append((data[end : len(data) - 8].to_pybytes(), self._written - begin))
        self._sink.write(data[begin:end])
        self._written += end - begin
        for field_id, count in writer.nan_counts().items():
            self._nans[field_id] = self._nans.get(field_id, 0) + count
        self._last = writer

    def abort(self) -> None:
        for _, future in self._waiting:
            future.cancel()

    def close(self) -> Metrics:
        if not self._waiting and self._last is None:  # without rows, the file has one empty part
            self._waiting.append((0, self._pool.submit(self._encoded, ())))
        while self._waiting:
            self._take()
        footer = self._footers[0][0] if len(self._footers) == 1 else joined_footer(self._footers)
        end = closing(footer)
        self._sink.write(end)
        assert self._last is not None
        return self._last.metrics(pq.read_metadata(pa.BufferReader(MAGIC + end)), self._nans)


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
        # file_offset 0 means that the writer did not set it
        return offset + moved if offset > 0 else offset

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
