"""Decode Avro records to Arrow columns: many entries by the native reader of datafusion, few of
them by Python (docs/adr/0020).

datafusion reads a path, not bytes, and fails on records without fields. So it is given a file in
memory with a header written here: a flat record, no logical type but decimal, and all entries
decompressed in one block, since it needs half as long again for many small blocks. Files that it
cannot read, damaged ones among them, are read by Python, which says what is wrong.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import itertools
import logging
import os
import random
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import deflate
import msgspec
import numpy as np
import pyarrow as pa

from frazil.codec.avro import FREE_BYTES, MAX_RATIO, Container, read_records, record_reader
from frazil.codec.avro_schema import AvroNode, least_size
from frazil.codec.avro_write import header, write_long
from frazil.errors import CorruptData, Unsupported
from frazil.expr.building import column, from_numpy

_log = logging.getLogger("frazil.codec")
NATIVE_FROM_BYTES = (
    24_000  # decompressed; below, starting the native reader costs more than it saves
)
# a manifest has fewer, as a rule: its columns come in one piece each, which need not be copied
# together
_ENTRIES_AT_ONCE = 1 << 17
_SYNC = bytes(range(16))
_MANY, _TRIED, _TRIED_RATIO, _FEW_BYTES = 32, 16, 20, 4096
_USUAL_RATIO = 8
_libdeflate = deflate.deflate_decompress
# each short call releases the interpreter lock; two threads that inflate would only wait for each
# other
_inflating = threading.Lock()


def storage_type(node: AvroNode) -> pa.DataType:
    """Convert an Avro type to the Arrow type of its stored values: dates and times are integers,
    uuids binary. Raises Unsupported.
    """
    node = node.not_null
    match node.kind:
        case "fixed" | "bytes" if node.logical == "decimal":
            precision, scale = node.properties.get("precision"), node.properties.get("scale", 0)
            if (
                not isinstance(precision, int)
                or not isinstance(scale, int)
                or not 0 < precision <= 38
                or not -38 <= scale <= 38
            ):
                raise CorruptData(
                    f"A decimal has precision {str(precision)[:20]} and scale {str(scale)[:20]}."
                )
            return pa.decimal128(precision, scale)
        case "fixed" | "bytes":
            return pa.binary()
        case "array":
            return pa.list_(_field("item", node.inside[0]))
        case "record":
            return pa.struct([_field(name, n) for name, _, n in node.fields])
    simple = _SIMPLE.get(node.kind)
    if simple is None:
        raise Unsupported(f"Cannot read Avro type {node.kind} as a column.")
    return simple


_SIMPLE = {"null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
           "string": pa.string()}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _field(name: str, node: AvroNode) -> pa.Field:
    return pa.field(name, storage_type(node), nullable=node.kind in ("union", "null"))


def read_columns(
    container: Container, record: AvroNode, types: Mapping[str, pa.DataType], file: str
) -> tuple[int, dict[str, pa.Array]]:
    """Decode the wanted fields of a flat `record` to arrays; returns the number of entries and the
    arrays. Raises CorruptData.
    """
    if (
        len(container.data) >= NATIVE_FROM_BYTES // 8
        and (native := _native(container, record, types)) is not None
    ):
        return native
    present = {name for name, _, _ in record.fields if name in types}
    rows = read_records(container, record_reader(record, present), file)
    return len(rows), arrays_of(rows, record, types, file)


def arrays_of(
    rows: Sequence[tuple[Any, ...]], record: AvroNode, types: Mapping[str, pa.DataType], file: str
) -> dict[str, pa.Array]:
    """Convert entries, tuples of the wanted fields of a flat `record` in its order, to an array for
    each. Raises CorruptData.
    """
    fields = [(name, node.not_null) for name, _, node in record.fields if name in types]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    try:
        return {
            name: _array(values, node, types[name])
            for (name, node), values in zip(fields, columns, strict=True)
        }
    except (pa.ArrowException, OverflowError) as e:
        raise CorruptData(
            f"A value in {file or 'an Avro file'} does not fit its type: {e}", file=file or None
        ) from e


def _array(values: tuple[Any, ...], node: AvroNode, type_: pa.DataType) -> pa.Array:
    if node.kind == "array" and _has_unions(node.inside[0]):
        values = tuple(
            None if items is None else [i for i in items if not _lacks(i)] for items in values
        )
    if not pa.types.is_decimal(type_):
        return column(values, type_)
    missing = np.array([v is None for v in values], dtype=np.bool_)
    words = b"".join(_word(v) for v in values)
    return from_numpy(np.frombuffer(words, dtype="V16"), type_, missing=missing)


def _lacks(item: object) -> bool:
    """Tell whether an item of an array is null, or a pair without key or value, which says nothing."""
    return item is None or (isinstance(item, tuple) and None in item)


@functools.lru_cache(maxsize=1024)
def _has_unions(node: AvroNode) -> bool:
    return node.kind == "union" or any(
        _has_unions(n) for n in (*node.inside, *(n for _, _, n in node.fields))
    )


def _word(data: bytes | None) -> bytes:
    """Convert two's complement, big-endian and of any length, to the 16 bytes of an Arrow decimal.

    The type's precision is not checked, since truncate may give a digit more than the type has.
    """
    if data is not None and len(data) > 20:
        raise CorruptData(f"A decimal has {len(data)} bytes.")
    number = int.from_bytes(data or b"", "big", signed=True)
    if abs(number) >= 10**38:
        raise OverflowError("a decimal has more than 38 digits")
    return number.to_bytes(16, "little", signed=True)


# The native reader


def _native(
    container: Container, record: AvroNode, types: Mapping[str, pa.DataType]
) -> tuple[int, dict[str, pa.Array]] | None:
    """Decode by datafusion; None when the file is too small to be worth it, has a type that it
    cannot read or is damaged, or when it is not installed."""
    if not _takes(record) or (entries := _entries(container, record)) is None:
        return None
    count, parts = entries
    engine = _engine()  # loaded only when it is worth it
    if engine is None:
        return None
    fields = [_field(name, node) for name, _, node in record.fields if name in types]
    try:
        table = _collect(engine, parts, pa.schema(fields))
        if table.num_rows != count:
            return None
        return count, {f.name: _as(table.column(f.name), types[f.name]) for f in fields}
    except BaseException as e:  # a Rust panic is raised as a BaseException
        if isinstance(e, Exception) or type(e).__name__ == "PanicException":
            return None
        raise


def _entries(container: Container, record: AvroNode) -> tuple[int, list[Any]] | None:
    """Prepare the file for the native reader; returns the number of entries and the parts of the
    file, None for too few or impossibly many.

    Many small blocks are decompressed here by one thread at a time, which is faster than in the
    native reader. Other threads meanwhile give it their blocks as they are: it does not hold the
    interpreter lock, so all cores are busy. It decompresses without bounds; so a sample of blocks
    is tried first, and a file made to exhaust memory never reaches it.
    """
    small = _small_blocks(container)
    entries: list[bytes | bytearray]
    if small is None:
        count, entries = container.count, [b for _, b in container.blocks]
    elif _inflating.acquire(blocking=False):
        try:
            count, entries = small[0], [_inflated(small[1], container)]
        finally:
            _inflating.release()
    elif any(_swells(chunk) for chunk in random.sample(small[1], _TRIED)):
        return None
    else:
        return small[0], [
            header(_schema(record), {}, container.codec, container.sync),
            memoryview(container.data)[container.start + 16 :],
        ]
    size = sum(map(len, entries))
    if size < NATIVE_FROM_BYTES or count * max(least_size(record), 1) > size:
        return None
    return count, [
        header(_schema(record), {}, "null", _SYNC),
        write_long(count),
        write_long(size),
        *entries,
        _SYNC,
    ]


def joined(containers: Sequence[Container]) -> tuple[Container, list[int]]:
    """Join the entries of container files of one schema in one container, decompressed; returns it,
    and the number of entries of each file.

    The native reader takes some milliseconds to begin, so many small files are read much faster
    together. Raises CorruptData.
    """
    parts: list[bytes | bytearray] = [_SYNC]
    counts = []
    for container in containers:
        small = _small_blocks(container)
        blocks = (
            [(small[0], _inflated(small[1], container))] if small is not None else container.blocks
        )
        for count, block in blocks:
            parts += [write_long(count), write_long(len(block)), block, _SYNC]
        counts.append(sum(count for count, _ in blocks))
    return Container({}, containers[0].schema, "null", b"".join(parts), 0), counts


def _small_blocks(container: Container) -> tuple[int, list[bytes]] | None:
    """Split a file of many small deflate blocks, as a writer leaves it that flushes after each
    entry.

    The blocks are found by their sync markers, all at once. Returns the number of entries and the
    blocks with their heads of three bytes; None for other files, and where the head of a block does
    not match its length.
    """
    if container.codec != "deflate":
        return None
    chunks = container.data[container.start + 16 :].split(container.sync)
    if len(chunks) < _MANY or chunks.pop() != b"":
        return None
    lengths = np.fromiter(map(len, chunks), dtype=np.int64, count=len(chunks))
    starts = np.cumsum(lengths + 16) - lengths + container.start
    # for a chunk that is too short, the marker after it is read and does not match
    data = np.frombuffer(container.data, dtype=np.uint8)
    entries, low, high = (data[starts + i].astype(np.int64) for i in range(3))
    # one byte of count, two of size
    sound = (entries & 129 == 0) & (low & 129 == 128) & (high < 128)
    if not (sound & (((low & 127) | (high << 7)) >> 1 == lengths - 3)).all():
        return None
    return int((entries >> 1).sum()), chunks


def _inflated(chunks: list[bytes], container: Container) -> bytes:
    """Decompress blocks by libdeflate, a third faster than zlib for small blocks, or by zlib where
    the guess of a size is too small.
    """
    blocks: list[bytes | bytearray] = []
    left = max(FREE_BYTES, MAX_RATIO * len(container.data))
    for begin in range(0, len(chunks), _MANY):
        some = chunks[begin : begin + _MANY]
        try:
            inflated: list[bytes | bytearray] = [
                _libdeflate(chunk[3:], _USUAL_RATIO * len(chunk)) for chunk in some
            ]
        except deflate.DeflateError:
            inflated = [zlib.decompress(chunk[3:], -15) for chunk in some]
        blocks += inflated
        left -= sum(map(len, inflated))
        if left < 0:
            raise CorruptData("The Avro file decompresses to far more than its size allows.")
    return b"".join(blocks)


def _swells(chunk: bytes) -> bool:
    return len(zlib.decompress(chunk[3:], -15)) > _TRIED_RATIO * len(chunk) + _FEW_BYTES


def _collect(engine: ModuleType, parts: list[Any], schema: pa.Schema) -> pa.Table:
    with _memory_file(parts) as path:
        config = engine.SessionConfig().with_target_partitions(1).with_batch_size(_ENTRIES_AT_ONCE)
        context = engine.SessionContext(config)  # a new one, since contexts cache by path
        batches = context.read_avro(path, schema, [], "").collect()
    return pa.Table.from_batches(batches, schema=schema) if batches else schema.empty_table()


def _as(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    if pa.types.is_string(type_):
        array.validate(full=True)  # UTF-8
    return array if array.type == type_ else array.cast(type_)


@functools.lru_cache(maxsize=128)
def _takes(node: AvroNode) -> bool:
    """Tell whether the native reader can be given a type: not one whose items take no bytes, with
    which a file could make it loop or allocate without bound, no union but an optional type, and no
    items that may be null, which are left out here."""
    match node.kind:
        case "array" | "map":
            return (
                least_size(node.inside[0]) > 0
                and _takes(node.inside[0])
                and not _has_unions(node.inside[0])
            )
        case "union":
            return (
                len(node.inside) == 2
                and node.inside[0].kind == "null"
                and node.inside[1].kind not in ("null", "union")
                and _takes(node.inside[1])
            )
        case "record":
            return bool(node.fields) and all(_takes(n) for _, _, n in node.fields)
        case "null" | "enum":
            return False
    return True


@functools.lru_cache(maxsize=128)
def _schema(record: AvroNode) -> bytes:
    """Write the schema of a flat record for the native reader; the manifests of a table mostly
    share one.
    """
    return msgspec.json.encode(_json(record, itertools.count()))


def _json(node: AvroNode, numbers: Iterator[int]) -> Any:
    """Write an Avro schema that reads the same bytes, with made-up names and no logical type but
    decimal.
    """
    match node.kind:
        case "record":
            fields = [{"name": name, "type": _json(n, numbers)} for name, _, n in node.fields]
            return {"type": "record", "name": f"r{next(numbers)}", "fields": fields}
        case "fixed":
            return {
                "type": "fixed",
                "name": f"f{next(numbers)}",
                "size": node.size,
                **_decimal(node),
            }
        case "bytes":
            return {"type": "bytes", **_decimal(node)} if node.logical == "decimal" else "bytes"
        case "array":
            return {"type": "array", "items": _json(node.inside[0], numbers)}
        case "map":
            return {"type": "map", "values": _json(node.inside[0], numbers)}
        case "union":
            return [_json(n, numbers) for n in node.inside]
    return node.kind


def _decimal(node: AvroNode) -> dict[str, Any]:
    if node.logical != "decimal":
        return {}
    return {
        "logicalType": "decimal",
        "precision": node.properties.get("precision"),
        "scale": node.properties.get("scale", 0),
    }


@contextlib.contextmanager
def _memory_file(parts: list[Any]) -> Iterator[str]:
    """Give bytes a path for the time of the context: a file in memory where the system has them,
    otherwise a temporary file.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("manifest"), "wb") as memory:
            memory.writelines(parts)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
        return
    with tempfile.NamedTemporaryFile(suffix=".avro") as disk:
        disk.writelines(parts)
        disk.flush()
        yield disk.name


_loading = threading.Lock()
_loaded: list[tuple[int, Any]] = []


def _engine() -> Any:
    """Load datafusion's extension module alone, in 6 ms: its package imports pandas, which takes
    more than a second.

    None where it is not installed, and in a process that was forked after it was used, since its
    threads stay behind in the parent.
    """
    if _loaded:
        pid, engine = _loaded[0]
        return engine if pid == os.getpid() else None
    with _loading:  # it panics when two threads load it at the same time
        if not _loaded:
            _loaded.append((os.getpid(), _load()))
            if _loaded[0][1] is None:
                _log.info(
                    "Large manifests are decoded by Python; pip install 'frazil[datafusion]' decodes them many times faster."
                )
    return _loaded[0][1]


def _load() -> Any:
    name = "datafusion._internal"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("datafusion")
    if package is None or not package.submodule_search_locations:
        return None
    spec = importlib.machinery.PathFinder.find_spec(name, list(package.submodule_search_locations))
    if spec is None or spec.loader is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:
        return None
    sys.modules[name] = module
    return (
        module if hasattr(module, "SessionContext") and hasattr(module, "SessionConfig") else None
    )
