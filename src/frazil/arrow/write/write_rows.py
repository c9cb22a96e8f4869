"""Write rows to data files: files roll at the target size per partition, rows are sorted within
bounded memory, and a failed write removes its files.

Steps: batches -> (generations of bounded size -> partitions -> sorted) -> row groups -> files ->
DataFile with metrics.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from frazil.arrow.write.conform import Conformed
from frazil.arrow.write.grouping import by_partition, sorted_rows
from frazil.arrow.write.metrics import Metrics
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_parquet import missing_bounds
from frazil.spec.manifest import DataFile
from frazil.storage.base import translated_errors
from frazil.storage.locations import data_location
from frazil.tasks.in_order import default_workers, map_in_order

__all__ = ["OutputFiles", "Rolling", "WriteContext", "write"]
MAX_ROWS = 1 << 20  # per row group
CHUNK_ROWS, CHUNK_BYTES = 1 << 20, 64 * 1024 * 1024  # rows that are grouped by partition at once
SPLIT_BYTES = 128 * 1024 * 1024  # a larger frame is written as several files at the same time
MAX_OPEN = 256  # partitions whose files stay open between generations


def write(batches: Iterable[pa.RecordBatch], context: WriteContext) -> list[DataFile]:
    """Write rows (typed as `to_arrow_schema(context.schema)`) and list the files, durable and
    complete; an error leaves none behind.
    """
    assert context.settings is not None  # reading them checks them before the first byte is written
    files = OutputFiles(context)
    if context.lineage:
        batches = map(context.rows, batches)
    try:
        if context.spec.fields or context.sort_order.fields:
            _write_grouped(batches, context, files)
        else:
            _write_plain(batches, context, files)
        return files.finished()
    except BaseException:
        files.abort()
        raise


def _write_plain(
    batches: Iterable[pa.RecordBatch], context: WriteContext, files: OutputFiles
) -> None:
    count = -(-batches.nbytes // SPLIT_BYTES) if isinstance(batches, Conformed) else 0
    if count == 1 or (workers := context.workers or default_workers()) == 1:
        _roll(batches, context, files, 0)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="frazil-write") as pool:
        if not isinstance(batches, Conformed) or not count:
            files.pool = pool
            _roll(batches, context, files, 0)
            return
        futures = [
            pool.submit(_roll, part, context, files, i)
            for i, part in enumerate(batches.parts(min(workers, count)))
        ]
        errors = [e for f in futures if (e := f.exception()) is not None]
    if errors:
        raise next((e for e in errors if not isinstance(e, _Stopped)), errors[0])


def _roll(
    batches: Iterable[pa.RecordBatch], context: WriteContext, files: OutputFiles, part: int
) -> None:
    writer = Rolling(context, files, (), part)
    try:
        for batch in batches:
            writer.add(batch)
            files.check()
        writer.close()
    except BaseException:
        files.failed = True
        raise


class _Stopped(Exception):
    """Stop a thread because another thread of the same write has failed."""


def _write_grouped(
    batches: Iterable[pa.RecordBatch], context: WriteContext, files: OutputFiles
) -> None:
    """Write rows by partition, in generations: as many rows as memory allows are grouped, then all
    partitions are written in parallel.

    Files of a sorted table end with their generation, since a file must be sorted as a whole.
    """
    workers = context.workers or default_workers()
    writers: dict[tuple[Any, ...], Rolling] = {}
    is_sorted = not context.sort_order.is_unsorted
    for generation in _generations(batches, context.memory):
        chunks = iter([_joined(generation)]) if is_sorted else _chunks(generation)
        for groups in map_in_order(
            lambda c: list(by_partition(_in_order(c, context), context.schema, context.spec)),
            chunks,
            workers,
        ):
            for group in groups:
                if (writer := writers.get(group.key)) is None:
                    writer = writers[group.key] = Rolling(
                        context, files, group.values, len(writers)
                    )
                writer.hold(group.rows)
        end = is_sorted or len(writers) > MAX_OPEN
        emptied = Rolling.close if end else Rolling.flush
        for _ in map_in_order(emptied, list(writers.values()), workers):
            files.check()
    for _ in map_in_order(Rolling.close, list(writers.values()), workers):
        files.check()


def _in_order(batch: pa.RecordBatch, context: WriteContext) -> pa.RecordBatch:
    return (
        batch
        if context.sort_order.is_unsorted
        else sorted_rows(batch, context.schema, context.sort_order)
    )


def _generations(batches: Iterable[pa.RecordBatch], memory: int) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= memory:
            yield held
            held, size = [], 0
    if held:
        yield held


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches to chunks that are worth grouping by partition."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class OutputFiles:
    """Track all files of a write, numbered from `first`: list finished ones in the order of their
    rows, remove all when the write fails.
    """

    def __init__(self, context: WriteContext, first: int = 1):
        self._context, self._lock = context, threading.Lock()
        self._count = first - 1
        self._open: set[_OpenFile] = set()
        self._finished: list[tuple[int, int, DataFile]] = []
        self.failed = False
        self.pool: ThreadPoolExecutor | None = (
            None  # encodes row groups of one file at the same time
        )

    def start(self, context: WriteContext, partition: tuple[Any, ...], part: int) -> _OpenFile:
        with self._lock:
            self._count += 1
            number = self._count
        location = data_location(
            context.location,
            context.properties,
            context.directory(partition),
            context.file_name(number),
        )
        open_file = _OpenFile(context, location, partition, part, number, self.pool)
        with self._lock:
            self._open.add(open_file)
        return open_file

    def finish(self, file: _OpenFile) -> None:
        data_file = file.close()
        with self._lock:
            self._open.discard(file)
            self._finished.append((file.part, file.number, data_file))

    def finished(self) -> list[DataFile]:
        return [file for *_, file in sorted(self._finished, key=lambda f: f[:2])]

    def check(self) -> None:
        """Raise in a thread when another thread of the write has failed."""
        if self.failed:
            raise _Stopped

    def abort(self) -> None:
        """Remove all files as far as possible; what cannot be removed stays as an orphan file."""
        self.failed = True
        for file in list(self._open):
            file.abort()
        with contextlib.suppress(Exception):
            self._context.storage.delete_many([f.file_path for *_, f in self._finished])


class _OpenFile:
    """Write one data file; `close` returns its manifest entry."""

    def __init__(
        self,
        context: WriteContext,
        location: str,
        partition: tuple[Any, ...],
        part: int,
        number: int,
        pool: ThreadPoolExecutor | None,
    ):
        self._context, self.location, self._partition, self.part, self.number = (
            context,
            location,
            partition,
            part,
            number,
        )
        self._output = context.storage.open_output(location)
        self._sink = self._output.__enter__()
        try:
            with translated_errors(location, "write"):
                self.writer = context.writer(self._sink, pool)
        except BaseException as error:
            self._output.__exit__(type(error), error, error.__traceback__)
            raise

    def write(self, batches: list[pa.RecordBatch]) -> None:
        with translated_errors(self.location, "write"):
            # the batches are in memory already, so an OSError is one of the file
            self.writer.write(batches)

    def close(self) -> DataFile:
        with translated_errors(self.location, "write"):
            metrics = self.writer.close()
            size = int(self._sink.tell())
        self._output.__exit__(None, None, None)
        try:
            self._complete(metrics)
        except BaseException:
            with contextlib.suppress(Exception):
                self._context.storage.delete_many([self.location])
            raise
        context = self._context
        return DataFile(
            file_path=self.location,
            file_format=context.format,
            partition=self._partition,
            file_size_in_bytes=size,
            sort_order_id=context.sort_order.order_id,
            spec_id=context.spec.spec_id,
            **metrics.as_file(),
        )

    def _complete(self, metrics: Metrics) -> None:
        if metrics.unknown:
            with self._context.storage.open_input(self.location) as source:
                missing_bounds(metrics, source, self._context.schema, self._context.metrics)

    def abort(self) -> None:
        """Remove the file: the context of `open_output` does so when it ends by an error, which is
        raised again and suppressed here.
        """
        error = _Stopped()
        with contextlib.suppress(Exception):
            self.writer.abort()
        with contextlib.suppress(Exception):
            self._output.__exit__(_Stopped, error, None)


class Rolling:
    """Write the files of one partition, one after another: rows are held until they fill a row
    group, a file ends at the target size.
    """

    def __init__(
        self, context: WriteContext, files: OutputFiles, partition: tuple[Any, ...], part: int
    ):
        self._context, self._files, self._partition, self._part = context, files, partition, part
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0
        self._file: _OpenFile | None = None
        self._group_bytes = context.group_bytes

    def hold(self, batch: pa.RecordBatch) -> None:
        """Hold rows without writing them."""
        if batch.num_rows:
            self._held.append(batch)

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold rows, and write a row group whenever there are enough."""
        while batch.num_rows:
            each = max(1, batch.nbytes // batch.num_rows)
            room = min(MAX_ROWS - self._rows, max(1, (self._group_bytes - self._bytes) // each))
            part = batch.slice(0, room)
            self._held.append(part)
            self._rows += part.num_rows
            self._bytes += part.num_rows * each
            if self._rows >= MAX_ROWS or self._bytes + each > self._group_bytes:
                self._write()
            batch = batch.slice(part.num_rows)

    def flush(self) -> None:
        """Write the rows that are held."""
        held, self._held, self._rows, self._bytes = self._held, [], 0, 0
        for batch in held:
            self.add(batch)
        self._write()

    def close(self) -> None:
        """Write the rows that are held and finish the last file."""
        self.flush()
        if self._file is not None:
            self._files.finish(self._file)
            self._file = None

    def _write(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._file = self._files.start(self._context, self._partition, self._part)
        self._file.write(self._held)
        self._held, self._rows, self._bytes = [], 0, 0
        if self._file.writer.has(self._context.target_size):
            self._files.finish(self._file)
            self._file = None
