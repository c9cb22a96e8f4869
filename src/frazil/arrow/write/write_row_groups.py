"""Write a Parquet file whose row groups are encoded at the same time, each in memory as a file of
its own, and joined in their order.

Writing spends its time in encoding and compressing, for which pyarrow uses one core per file
(docs/adr/0013).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.footers.parquet_footer import MAGIC, closing
from frazil.arrow.footers.parquet_join import joined_footer
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
        self._first: list[
            pa.RecordBatch
        ] = []  # the file's first rows, by which every row group chooses its dictionaries
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
        while (
            self._waiting and self._written < size <= self._written + 2 * self._coming
        ):  # encoding never doubles the size
            self._take()
        return self._written >= size

    def _encoded(self, batches: Sequence[pa.RecordBatch]) -> tuple[pa.Buffer, ParquetFileWriter]:
        sink = pa.BufferOutputStream()
        writer = self._make(sink)
        try:
            if self._first:
                writer.decide_by(self._first)
            writer.write(batches)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        return sink.getvalue(), writer

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
