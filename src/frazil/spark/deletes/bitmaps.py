"""Build bitmaps of deleted positions as a DataFrame: one row per chunk of 65,536 rows of a data
file that has deletes, with the key of the chunk (a long) and its bits (1,024 longs).

Bitmaps, not positions, are joined with the scan: the bitmaps of a chunk take 8 KB however many of
its rows are deleted, so they fit into a broadcast where millions of positions would not, and one
equi-join on a long with a test of one bit replaces a join on file and position.

Bitmaps are built in one of three ways, by size: on the driver when there are few; in tasks, each
with the deletes of some data files; or, for position delete files too large to be held in memory,
in tasks that stream each delete file, followed by a shuffle that unites the bitmaps of each key.
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
from frazil.ops.session import Session
from frazil.spark.host.workers import check_workers, guarded
from frazil.spark.scan.file_keys import ROW, chunk_key
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spec.manifest import DataFile
from frazil.storage import Storage

Words = npt.NDArray[np.int64]
CHUNK, WORDS = "__frazil_chunk", "__frazil_words"
ROWS = 1 << 16  # rows per chunk
BYTES = ROWS // 8  # per chunk
# bytes of decoded delete files that are kept while several data files are read
CACHE = 256 * 1024 * 1024
# positions, chunks and delete files that the driver reads itself, at most
ON_DRIVER = (
    1_000_000,
    2_048,
    64,
)
LARGE = 4_000_000  # a delete file with more positions is streamed when several data files need it
_SLICE = 256  # chunks whose bits are unpacked at once, one byte per bit: 16 MB
_PACK = 4 * 1024 * 1024  # bytes of delete files per task
_SCHEMA = s.StructType(
    [s.StructField(CHUNK, s.LongType()), s.StructField(WORDS, s.ArrayType(s.LongType(), False))]
)
ARROW = pa.schema([(CHUNK, pa.int64()), (WORDS, pa.list_(pa.int64()))])


@dataclass(frozen=True)
class Deleted:
    """Hold a data file with the position delete files (or the deletion vector) that apply to it.

    `key` is the key of the file's first chunk; until keys are assigned it is the index of the file
    among the files of the scan.
    """

    file: DataFile
    key: int
    deletes: tuple[DataFile, ...]

    @property
    def positions(self) -> int:
        """Return an upper bound of the number of deleted positions."""
        return min(self.file.record_count, sum(d.record_count for d in self.deletes))

    @property
    def chunks(self) -> int:
        """Return an upper bound of the number of chunks with deletes."""
        return min(self.positions, -(-self.file.record_count // ROWS))

    @property
    def bytes(self) -> int:
        """Return the size of the delete files in bytes."""
        return sum(d.size for d in self.deletes)


def bitmaps(spark: Session, files: Sequence[Deleted], storage: Storage) -> DataFrame:
    """Return a DataFrame of the bitmaps of data files, each key once; it is lazy unless the driver
    reads the deletes itself.
    """
    names = {d.file_path for f in files for d in f.deletes}
    sizes = sum(f.positions for f in files), sum(f.chunks for f in files), len(names)
    if all(size <= limit for size, limit in zip(sizes, ON_DRIVER, strict=True)):
        batches = list(of_files(files, storage))
        # the delete files of a partition may name no row of these files, and Spark refuses a table
        # without batches
        if not batches:
            return spark.createDataFrame([], _SCHEMA)
        return spark.createDataFrame(pa.Table.from_batches(batches, ARROW), schema=_SCHEMA)
    check_workers(spark)
    shared = _shared(files)
    frames = []
    if held := [f for f in files if not any(d.file_path in shared for d in f.deletes)]:
        frames.append(over_groups(spark, _packs(held), _SCHEMA, __name__, "read_files", storage))
    if streamed := [f for f in files if any(d.file_path in shared for d in f.deletes)]:
        partial = over_groups(
            spark, _by_delete(streamed).values(), _SCHEMA, __name__, "read_deletes", storage
        )
        by_key = partial.repartition(F.col(CHUNK)).sortWithinPartitions(CHUNK)
        frames.append(by_key.mapInArrow(guarded(__name__, "united"), _SCHEMA))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def is_deleted() -> Column:
    """Return a column that tells whether a row is deleted, for the rows of a scan that `joined` has
    put beside their bitmaps.
    """
    return F.col(WORDS).isNotNull() & _bit_set()


def _bit_set() -> Column:
    """Return a column that tells whether the bit of a row's position is set in its bitmap."""
    row: Any = F.col(ROW)
    word = F.get(F.col(WORDS), F.shiftright(row, 6).bitwiseAND(F.lit(1023)).cast("int"))
    bit = F.getbit(word, row.bitwiseAND(F.lit(63)).cast("int"))
    return bit == F.lit(1).cast("byte")


def without_deleted(scan: DataFrame, bits: DataFrame) -> DataFrame:
    """Drop the deleted rows of a scan with keys (`FileKeys.added`). An anti join, so that no bitmap
    is copied to the rows that stay.
    """
    return scan.join(F.broadcast(bits), (chunk_key() == F.col(CHUNK)) & _bit_set(), "left_anti")


def joined(scan: DataFrame, bits: DataFrame) -> DataFrame:
    """Add to each row of a scan with keys (`FileKeys.added`) the bitmap of its chunk, null where
    there is none.
    """
    return scan.join(F.broadcast(bits), chunk_key() == F.col(CHUNK), "left")


def _shared(files: Iterable[Deleted]) -> set[str]:
    """Return the paths of large position delete files that apply to several of the data files."""
    users: dict[str, int] = {}
    for f in files:
        for d in f.deletes:
            if not d.is_dv and d.record_count > LARGE:
                users[d.file_path] = users.get(d.file_path, 0) + 1
    return {path for path, count in users.items() if count > 1}


def _packs(files: Sequence[Deleted]) -> list[list[Deleted]]:
    """Group data files by task. Files that share a delete file are neighbours, so that a task reads
    it once for all of them.
    """
    packs: list[list[Deleted]] = []
    size = _PACK
    for f in sorted(
        files, key=lambda f: (f.deletes[0].file_path, f.deletes[0].content_offset or 0)
    ):
        if size >= _PACK or not packs:
            packs.append([])
            size = 0
        packs[-1].append(f)
        size += f.bytes + f.chunks * 64
    return packs


def _by_delete(files: Sequence[Deleted]) -> dict[Any, tuple[DataFile, list[Deleted]]]:
    """Return each delete file (or deletion vector) once, with the data files it applies to."""
    by_delete: dict[Any, tuple[DataFile, list[Deleted]]] = {}
    for f in files:
        for d in f.deletes:
            by_delete.setdefault((d.file_path, d.content_offset), (d, []))[1].append(f)
    return by_delete


# In tasks
# --------------------------------------------------------------------------------------------------


def of_files(files: Iterable[Deleted], storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the bitmaps of data files; delete files that several of them share are read once,
    within the limit of the cache.
    """
    cache = DeleteCache(CACHE)
    for f in files:
        yield from batches_of(f.key, positions_of(f.file, f.deletes, storage, cache))


def read_files(_: int, files: Sequence[Deleted], storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield in a worker the bitmaps of some data files, whose delete files are read whole."""
    yield from of_files(files, storage)


def read_deletes(
    _: int, group: tuple[DataFile, Sequence[Deleted]], storage: Storage
) -> Iterator[pa.RecordBatch]:
    """Yield in a worker the bitmaps of one delete file, which is streamed; a key may be yielded
    several times.
    """
    delete, files = group
    keys = {f.file.file_path: f.key for f in files}
    if delete.is_dv:
        for f in files:
            yield from batches_of(
                f.key, positions_of(f.file, (delete,), storage, DeleteCache(CACHE))
            )
        return
    for path, positions in position_batches(delete, [f.file for f in files], storage):
        yield from batches_of(keys[path], positions)


def united(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unite the bitmaps of each key. Bitmaps arrive sorted by key; the last of a batch waits, as
    the next batch may continue its key.
    """
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        batch = (
            pa.RecordBatch.from_arrays(batch.columns, schema=ARROW)
            if batch.schema != ARROW
            else batch
        )
        keys, words = _keys_and_words(batch)
        if waiting is not None:
            waiting_keys, waiting_words = _keys_and_words(waiting)
            keys, words = (
                np.concatenate([waiting_keys, keys]),
                np.concatenate([waiting_words, words]),
            )
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        by_key = _batch(keys[first], np.bitwise_or.reduceat(words, first, axis=0))
        if by_key.num_rows > 1:
            yield by_key.slice(0, by_key.num_rows - 1)
        waiting = _batch(*_keys_and_words(by_key.slice(by_key.num_rows - 1)))
    if waiting is not None:
        yield waiting


def _keys_and_words(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], Words]:
    """Return the keys of a batch, and their bits as an array of shape (keys, 1024)."""
    words = batch.column(1).flatten().to_numpy(zero_copy_only=False)
    return batch.column(0).to_numpy(), words.reshape(batch.num_rows, ROWS // 64)


def batches_of(key: int, positions: Positions) -> Iterator[pa.RecordBatch]:
    """Yield the bitmaps of the ascending positions of one data file, whose first chunk has this
    key.
    """
    chunks = positions >> 16
    numbers, begins = np.unique(chunks, return_index=True)
    ends = np.append(begins[1:], len(positions))
    for start in range(0, len(numbers), _SLICE):
        slice_numbers = numbers[start : start + _SLICE]
        in_slice = slice(begins[start], ends[min(start + _SLICE, len(numbers)) - 1])
        bits = np.zeros(len(slice_numbers) * ROWS, bool)
        bits[
            np.searchsorted(slice_numbers, chunks[in_slice]) * ROWS
            + (positions[in_slice] & (ROWS - 1))
        ] = True
        yield _batch(slice_numbers + key, np.packbits(bits, bitorder="little").view(np.int64))


def _batch(keys: npt.NDArray[np.int64], words: Words) -> pa.RecordBatch:
    """Return keys and their bits as a batch of schema ARROW."""
    ends = np.arange(len(keys) + 1, dtype=np.int32) * (ROWS // 64)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.ListArray.from_arrays(pa.array(ends), pa.array(words.ravel()))],
        schema=ARROW,
    )


__all__ = ["Deleted", "bitmaps", "is_deleted", "joined", "without_deleted"]
