"""Deleted positions as bitmaps: a row for each 65,536 rows of a data file that hold deletes, with 1,024 longs, under one long key.

Three ways to make them, by size: here on the driver when they are few; in tasks, each with the deletes of some data files; and for delete
files too large to be held, in tasks that stream each delete file, with a shuffle that puts together what belongs to one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.deletes.delete_files import DeleteCache, Positions, position_batches, positions_of
from frazil.spark.host.workers import check_workers, guarded
from frazil.spark.scan.file_keys import ROW, chunk_key
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spec.data_file import DataFile
from frazil.storage import Storage

Words = npt.NDArray[np.int64]
CHUNK, WORDS = "__frazil_chunk", "__frazil_words"
ROWS = 1 << 16  # of a chunk
BYTES = ROWS // 8
CACHE = 256 * 1024 * 1024
ON_DRIVER = 1_000_000, 2_048, 64  # positions, chunks and delete files at most
LARGE = 4_000_000  # positions of a delete file that is streamed when several data files need it
_SLICE = 256  # chunks spelled out at once: 16 MB
_PACK = 4 * 1024 * 1024  # bytes of deletes that are worth a task of their own
_SCHEMA = s.StructType([s.StructField(CHUNK, s.LongType()), s.StructField(WORDS, s.ArrayType(s.LongType(), False))])
ARROW = pa.schema([(CHUNK, pa.int64()), (WORDS, pa.list_(pa.int64()))])


@dataclass(frozen=True)
class Deleted:
    """A data file, the first of its keys, and the delete files of positions (or the vector) that apply to it. `key`: until it has one, its
    place among the files of the scan."""

    file: DataFile
    key: int
    deletes: tuple[DataFile, ...]

    @property
    def positions(self) -> int:
        """At most."""
        return min(self.file.record_count, sum(d.record_count for d in self.deletes))

    @property
    def chunks(self) -> int:
        """At most: chunks that may hold deletes."""
        return min(self.positions, -(-self.file.record_count // ROWS))

    @property
    def bytes(self) -> int:
        return sum(d.size for d in self.deletes)


def bitmaps(spark: Any, files: Sequence[Deleted], storage: Storage) -> DataFrame:
    """The bitmaps of these data files, lazily unless they are few; each key once."""
    names = {d.file_path for f in files for d in f.deletes}
    most = sum(f.positions for f in files), sum(f.chunks for f in files), len(names)
    if all(a <= b for a, b in zip(most, ON_DRIVER, strict=True)):
        batches = list(of_files(files, storage))
        if not batches:  # delete files of a partition may name no row of these files; Spark takes no table without batches
            return spark.createDataFrame([], _SCHEMA)
        return spark.createDataFrame(pa.Table.from_batches(batches, ARROW), schema=_SCHEMA)
    check_workers(spark)
    shared = _shared(files)
    frames = []
    if own := [f for f in files if not any(d.file_path in shared for d in f.deletes)]:
        frames.append(over_groups(spark, _packs(own), _SCHEMA, __name__, "read_files", storage))
    if rest := [f for f in files if any(d.file_path in shared for d in f.deletes)]:
        partial = over_groups(spark, _by_delete(rest).values(), _SCHEMA, __name__, "read_deletes", storage)
        near = partial.repartition(F.col(CHUNK)).sortWithinPartitions(CHUNK)
        frames.append(near.mapInArrow(guarded(__name__, "united"), _SCHEMA))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def is_deleted() -> Column:
    """Of a row of a scan with keys, beside its bitmap: is its position deleted?"""
    return F.col(WORDS).isNotNull() & _bit_set()


def _bit_set() -> Column:
    row: Any = F.col(ROW)
    word = F.get(F.col(WORDS), F.shiftright(row, 6).bitwiseAND(F.lit(1023)).cast("int"))
    bit = F.getbit(word, row.bitwiseAND(F.lit(63)).cast("int"))
    return bit == F.lit(1).cast("byte")


def without_deleted(scan: DataFrame, bits: DataFrame) -> DataFrame:
    """A scan with keys (`FileKeys.added`) without its deleted rows. An anti join: no bitmap is laid beside the rows that stay."""
    return scan.join(F.broadcast(bits), (chunk_key() == F.col(CHUNK)) & _bit_set(), "left_anti")


def joined(scan: DataFrame, bits: DataFrame) -> DataFrame:
    """A scan with keys (`FileKeys.added`), each row beside its bitmap, where there is one."""
    return scan.join(F.broadcast(bits), chunk_key() == F.col(CHUNK), "left")


def _shared(files: Iterable[Deleted]) -> set[str]:
    """Large delete files that several of the data files need."""
    seen: dict[str, int] = {}
    for f in files:
        for d in f.deletes:
            if not d.is_dv and d.record_count > LARGE:
                seen[d.file_path] = seen.get(d.file_path, 0) + 1
    return {path for path, count in seen.items() if count > 1}


def _packs(files: Sequence[Deleted]) -> list[list[Deleted]]:
    """Data files by task; those that share a delete file come together as a rule, so that it is read once."""
    packs: list[list[Deleted]] = []
    size = _PACK
    for f in sorted(files, key=lambda f: (f.deletes[0].file_path, f.deletes[0].content_offset or 0)):
        if size >= _PACK or not packs:
            packs.append([])
            size = 0
        packs[-1].append(f)
        size += f.bytes + f.chunks * 64
    return packs


def _by_delete(files: Sequence[Deleted]) -> dict[Any, tuple[DataFile, list[Deleted]]]:
    """Each delete file once, with the data files it applies to."""
    found: dict[Any, tuple[DataFile, list[Deleted]]] = {}
    for f in files:
        for d in f.deletes:
            found.setdefault((d.file_path, d.content_offset), (d, []))[1].append(f)
    return found


# In tasks ------------------------------------------------------------------------------------------------------------------------------


def of_files(files: Iterable[Deleted], storage: Storage) -> Iterator[pa.RecordBatch]:
    cache = DeleteCache(CACHE)
    for f in files:
        yield from batches_of(f.key, positions_of(f.file, f.deletes, storage, cache))


def read_files(_: int, files: Sequence[Deleted], storage: Storage) -> Iterator[pa.RecordBatch]:
    """The worker's side: the bitmaps of some data files, whose deletes are read whole."""
    yield from of_files(files, storage)


def read_deletes(_: int, group: tuple[DataFile, Sequence[Deleted]], storage: Storage) -> Iterator[pa.RecordBatch]:
    """The worker's side: the bitmaps that one delete file makes, which is streamed; a key may come several times."""
    delete, files = group
    keys = {f.file.file_path: f.key for f in files}
    if delete.is_dv:
        for f in files:
            yield from batches_of(f.key, positions_of(f.file, (delete,), storage, DeleteCache(CACHE)))
        return
    for path, positions in position_batches(delete, [f.file for f in files], storage):
        yield from batches_of(keys[path], positions)


def united(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bitmaps in the order of their keys; those of one key become one."""
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=ARROW) if batch.schema != ARROW else batch
        keys, words = _spelled(batch)
        if waiting is not None:
            before, bits = _spelled(waiting)
            keys, words = np.concatenate([before, keys]), np.concatenate([bits, words])
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        whole = _batch(keys[first], np.bitwise_or.reduceat(words, first, axis=0))
        if whole.num_rows > 1:
            yield whole.slice(0, whole.num_rows - 1)
        waiting = _batch(*_spelled(whole.slice(whole.num_rows - 1)))
    if waiting is not None:
        yield waiting


def _spelled(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], Words]:
    words = batch.column(1).flatten().to_numpy(zero_copy_only=False)
    return batch.column(0).to_numpy(), words.reshape(batch.num_rows, ROWS // 64)


def batches_of(key: int, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The bitmaps of positions, which ascend."""
    chunks = positions >> 16
    numbers, begins = np.unique(chunks, return_index=True)
    ends = np.append(begins[1:], len(positions))
    for at in range(0, len(numbers), _SLICE):
        here = numbers[at : at + _SLICE]
        some = slice(begins[at], ends[min(at + _SLICE, len(numbers)) - 1])
        bits = np.zeros(len(here) * ROWS, bool)
        bits[np.searchsorted(here, chunks[some]) * ROWS + (positions[some] & (ROWS - 1))] = True
        yield _batch(here + key, np.packbits(bits, bitorder="little").view(np.int64))


def _batch(keys: npt.NDArray[np.int64], words: Words) -> pa.RecordBatch:
    ends = np.arange(len(keys) + 1, dtype=np.int32) * (ROWS // 64)
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.ListArray.from_arrays(pa.array(ends), pa.array(words.ravel()))], schema=ARROW)


__all__ = ["Deleted", "bitmaps", "is_deleted", "joined", "without_deleted"]
