"""Stage the source of a MERGE: evaluate the frame once and number its rows, in memory while it is
small, else in memory-mapped Arrow files.

Row numbers are those of the staged frame, so the same number means the same row in every task, on
any worker. A small source is sent to tasks as its rows, a large one as the list of its files, which
each process opens once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.values.arrow_schema import from_arrow_schema
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write.conform import conform
from frazil.rows.key_index import Rows
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.base import temporary_files, temporary_folder, translated_errors

MEMORY = 256 * 1024 * 1024  # a source of more bytes than this is not held in memory
BATCH_ROWS = 1 << 17
_OPEN_AT_ONCE = 2


@dataclass(frozen=True)
class SourceFiles:
    """Name the files of a staged source: Arrow IPC files, uncompressed so that they can be
    memory-mapped, in the order of their rows.
    """

    locations: tuple[str, ...]
    storage: Storage

    @property
    def token(self) -> str:
        return "\n".join(self.locations)


class MergeSource:
    """Read source rows by number, and keep what this process has computed from them, such as
    indexes (`fact`).
    """

    def __init__(
        self,
        table: pa.Table,
        *,
        token: str | None = None,
        files: SourceFiles | None = None,
        mapped: bool = False,
    ):
        self.table = (
            table
            if mapped or files is not None or table.nbytes > MEMORY
            else table.combine_chunks()
        )
        self.files, self.token = files, token or (files.token if files else str(uuid.uuid4()))
        self._facts: dict[Any, Any] = {}
        self._lock = threading.RLock()

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    @property
    def schema(self) -> Schema:
        """Return the Iceberg schema of the columns, with fresh ids."""
        return from_arrow_schema(self.table.schema.remove_metadata())

    def fact(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, called once per process and key."""
        with self._lock:
            if key not in self._facts:
                self._facts[key] = make()
            return self._facts[key]

    def batches(
        self, names: Sequence[str], start: int = 0, count: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows [start, start + count), batch by batch."""
        for batch in (
            self.table.select(list(names)).slice(start, count).to_batches(max_chunksize=BATCH_ROWS)
        ):
            if batch.num_rows:
                yield batch

    def take(self, rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of these rows, in this order."""
        table = self.table.select(list(names))
        if not names:
            return pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), len(rows), [None])
            )
        batches = table.to_batches()
        if len(batches) <= 1:
            return (batches[0] if batches else _empty(table.schema)).take(pa.array(rows))
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        starts = np.cumsum([0, *(b.num_rows for b in batches)])
        cuts = np.searchsorted(ordered, starts)
        parts = [
            batch.take(pa.array(ordered[begin:end] - start))
            for batch, start, begin, end in zip(
                batches, starts.tolist(), cuts.tolist(), cuts[1:].tolist(), strict=False
            )
            if begin < end
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pa.concat_batches(parts or [_empty(table.schema)]).take(pa.array(back))

    def __reduce__(self) -> Any:
        if self.files is not None:
            return open_source, (self.files,)
        # pickling a slice would include the whole table that it is a part of
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return _restored, (sink.getvalue().to_pybytes(), self.token)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


# One process opens a source once
# --------------------------------------------------------------------------------------------------

_OPEN: OrderedDict[str, MergeSource] = OrderedDict()
_LOCK = threading.Lock()


def open_source(files: SourceFiles) -> MergeSource:
    """Open the rows of staged files; local files are memory-mapped, others are copied to this
    machine first.
    """
    return _once(files.token, lambda: MergeSource(_mapped(files), files=files))


def _restored(data: bytes, token: str) -> MergeSource:
    return _once(token, lambda: MergeSource(pa.ipc.open_stream(data).read_all(), token=token))


def _once(token: str, make: Callable[[], MergeSource]) -> MergeSource:
    with _LOCK:
        if token not in _OPEN:
            while len(_OPEN) >= _OPEN_AT_ONCE:
                _OPEN.popitem(last=False)
            _OPEN[token] = make()
        _OPEN.move_to_end(token)
        return _OPEN[token]


def forget(source: MergeSource) -> None:
    """Drop a source that this process does not need any more."""
    with _LOCK:
        _OPEN.pop(source.token, None)


def _mapped(files: SourceFiles) -> pa.Table:
    with contextlib.ExitStack() as stack:
        folder: str | None = None
        tables = []
        for number, location in enumerate(files.locations):
            path = files.storage.local_path(location)
            if path is None:
                folder = folder or stack.enter_context(temporary_folder("source"))
                path = os.path.join(folder, str(number))
                _copy(files.storage, location, path)
            with translated_errors(location, "read"):
                # stays readable when the file's name is gone
                tables.append(pa.ipc.open_file(pa.memory_map(path)).read_all())
    rows = conform(pa.concat_tables(tables), from_arrow_schema(tables[0].schema))
    return pa.Table.from_batches(list(rows), schema=rows.schema)


def _copy(storage: Storage, location: str, path: str) -> None:
    with (
        translated_errors(location, "read"),
        storage.open_input(location) as remote,
        temporary_files(path),
        open(path, "wb") as local,
    ):
        while chunk := remote.read(1 << 20):
            local.write(chunk)


# Staging
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StagedSource:
    """Hold a staged source, and remove its files when the context ends."""

    source: MergeSource
    remove: Callable[[], None] = lambda: None

    def __enter__(self) -> MergeSource:
        return self.source

    def __exit__(self, *_: object) -> None:
        self.remove()


def stage(
    frame: object,
    *,
    memory: int = MEMORY,
    folder: str | None = None,
    like: Schema | None = None,
    case_sensitive: bool = True,
) -> StagedSource:
    """Stage any Arrow-like frame, which is read once to its end.

    Beyond `memory` bytes its rows go to a file under `folder` (None: the system's temporary
    folder). `like`: the table's schema, by which Python values are typed. uint64 is taken as
    bigint. Raises Unsupported for other Arrow types without an Iceberg type, and ValueMismatch for
    a value beyond bigint, both naming the column.
    """
    arrow = as_arrow(frame, like, case_sensitive=case_sensitive)
    rows = conform(arrow, from_arrow_schema(signed(arrow.schema)))
    held: list[pa.RecordBatch] = []
    size, stream = 0, iter(rows)
    for batch in stream:
        held.append(batch)
        size += batch.nbytes
        if size > memory and not isinstance(rows.source, pa.Table):
            return _spilled(held, stream, rows.schema, folder)
    return StagedSource(MergeSource(pa.Table.from_batches(held, schema=rows.schema)))


def signed(schema: pa.Schema) -> pa.Schema:
    """Replace uint64, which no Iceberg type holds, by int64 at any depth; a value beyond int64 is
    an error where rows are conformed.
    """
    return pa.schema([f.with_type(_signed(f.type)) for f in schema], metadata=schema.metadata)


def _signed(type_: pa.DataType) -> pa.DataType:
    def signed_field(f: pa.Field) -> pa.Field:
        return f.with_type(_signed(f.type))

    types = pa.types
    if types.is_uint64(type_):
        return pa.int64()
    if types.is_struct(type_):
        return pa.struct([signed_field(f) for f in type_])
    if types.is_list(type_):
        return pa.list_(signed_field(type_.value_field))
    if types.is_large_list(type_):
        return pa.large_list(signed_field(type_.value_field))
    if types.is_fixed_size_list(type_):
        return pa.list_(signed_field(type_.value_field), type_.list_size)
    return (
        pa.map_(signed_field(type_.key_field), signed_field(type_.item_field))
        if types.is_map(type_)
        else type_
    )


def _spilled(
    held: list[pa.RecordBatch],
    rest: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    folder: str | None,
) -> StagedSource:
    with temporary_files(folder):
        path = tempfile.mkdtemp(prefix="frazil-source-", dir=folder)

    def remove() -> None:
        shutil.rmtree(path, ignore_errors=True)

    try:
        name = os.path.join(path, "rows.arrow")
        with (
            temporary_files(name),
            pa.OSFile(name, "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            while held:
                writer.write_batch(held.pop(0))
            for batch in _of_callers(rest):
                writer.write_batch(batch)
        with temporary_files(name):
            table = pa.ipc.open_file(pa.memory_map(name)).read_all()
    except _OfTheFrame as error:
        remove()
        raise error.args[0] from None
    except BaseException:
        remove()
        raise
    return StagedSource(MergeSource(table, mapped=True), remove)


class _OfTheFrame(Exception):
    """Carry an OSError of the caller's own stream, to tell it from an error of the file that the
    rows are written to.
    """


def _of_callers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except OSError as error:
        raise _OfTheFrame(error) from error


@contextlib.contextmanager
def on_storage(source: MergeSource, folder: str, storage: Storage) -> Iterator[MergeSource]:
    """Copy the source to a file in the table's storage, which workers can read; the file is removed
    when the context ends.
    """
    try:
        location = f"{folder}/source-{uuid.uuid4()}.arrow"
        with (
            storage.open_output(location) as sink,
            pa.ipc.new_file(sink, source.table.schema) as writer,
        ):
            writer.write_table(source.table, max_chunksize=BATCH_ROWS)
        copied = open_source(SourceFiles((location,), storage))
        yield copied
        forget(copied)
    finally:
        with contextlib.suppress(Exception):
            storage.delete_tree(folder)
