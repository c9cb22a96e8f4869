"""Look up the rows of a batch in a set of keys of one or more columns, in memory or spilled to
disk: equality deletes (spec, "Equality Delete Files").

Keys are held as Arrow columns, sorted by a 64-bit hash, with a table of buckets that tells where a
hash begins. Rows with an equal hash are compared column by column, so a collision of hashes never
deletes a row. Most rows are no keys: a `HashFilter` excludes nearly all of these at one look. A key
costs the bytes of its columns, 8 for the hash, 8 to 16 for the buckets and as many for the filter;
while the set is made, about twice as many. Null equals null. Floats are compared by their bits, and
all NaNs are equal: 0.0 is not -0.0 (as in Java's comparison of keys).

A set that is too large for memory is split by hash into parts (`SpilledKeys`), each a sorted set
that is memory-mapped. A lookup loads the pages that it touches into the system's page cache, which
drops them under memory pressure. The files are unlinked once they are mapped, so they disappear
with the process, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.transforms import hash_values
from frazil.scan.deletes import float_bits
from frazil.spec.types import BinaryType
from frazil.storage.base import temporary_folder

Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# 2**64 by the golden ratio, an odd number: stands for null, and spreads neighbours (Knuth)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FILTER_BITS = 24  # of the hash, at most, so that a filter takes no more than 16 MiB
KEY_BYTES = 40  # per key, in addition to its columns


def canonical(array: pa.Array) -> pa.Array:
    """Convert a key column so that equal keys have equal values: floats to the integers of their
    bits, dates and times to integers.
    """
    t = array.type
    if pa.types.is_floating(t):
        return float_bits(array)
    if pa.types.is_timestamp(t) or pa.types.is_time64(t):
        return array.view(pa.int64())
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return array.view(pa.int32())
    return array


@dataclass(frozen=True, eq=False)
class HashFilter:
    """Tell which rows may be in a set of keys; most of the others are excluded at one look. `flags`:
    whether some key has these first bits of the hash; up to `_FILTER_BITS` bits at most every
    eighth flag is set. A single integer column has a hash of its own here, a product, so that the
    rows that it excludes are never hashed in full."""

    flags: Flags
    shift: np.uint64

    @classmethod
    def for_keys(cls, count: int) -> HashFilter:
        """Make an empty filter for so many keys."""
        bits = min(_FILTER_BITS, count.bit_length() + 3)
        return cls(np.zeros(1 << bits, bool), np.uint64(64 - bits))

    def add(self, columns: Sequence[pa.Array], hashes: Words) -> None:
        """Add the rows of canonical columns, whose hashes are given (`hash_columns`)."""
        quick = _products(columns)
        self.flags[(hashes if quick is None else quick) >> self.shift] = True

    def rows(self, columns: Sequence[pa.Array]) -> tuple[Rows, Words]:
        """Return the rows of canonical columns that may have been added, and their hashes."""
        quick = _products(columns)
        if quick is None:
            hashes = hash_columns(columns)
            rows = np.flatnonzero(self.flags[hashes >> self.shift])
            return rows, hashes[rows]
        rows = np.flatnonzero(self.flags[quick >> self.shift])
        return rows, hash_columns([columns[0].take(pa.array(rows))])


def _products(columns: Sequence[pa.Array]) -> Words | None:
    """Return the products of a single integer column and an odd number; None for other columns."""
    if len(columns) > 1 or not pa.types.is_integer(columns[0].type):
        return None
    with np.errstate(over="ignore"):
        return _words(columns[0])[0] * _GOLDEN


@dataclass(frozen=True, eq=False)
class KeySet:
    """Hold a set of keys. `columns`: canonical, in the order of `hashes`, which ascend. `starts`:
    where each bucket begins; the bucket of a hash is its first bits. `filter`: holds all keys."""

    columns: tuple[pa.Array, ...]
    hashes: Words
    starts: npt.NDArray[np.int32]
    shift: int
    filter: HashFilter

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> KeySet:
        """Make a set of canonical columns, at most 2^31 keys; keys may repeat."""
        hashes = hash_columns(columns)
        order = np.argsort(hashes, kind="stable")
        hashes, taken = hashes[order], pa.array(order)
        sorted_ = [c.take(taken) for c in columns]
        if len(hashes) > 1:
            again = np.flatnonzero(hashes[1:] == hashes[:-1])
            if len(again):
                same = again[rows_equal(sorted_, again, sorted_, again + 1)]
                keep = np.ones(len(hashes), bool)
                keep[same + 1] = False
                hashes, mask = hashes[keep], pa.array(keep)
                sorted_ = [c.filter(mask) for c in sorted_]
        bits = max(1, min(31, len(hashes).bit_length() + 1))
        edges = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        starts = np.append(np.searchsorted(hashes, edges), len(hashes)).astype(np.int32)
        likely = HashFilter.for_keys(len(hashes))
        likely.add(sorted_, hashes)
        return cls(tuple(sorted_), hashes, starts, 64 - bits, likely)

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        arrays = (self.hashes, self.starts, self.filter.flags)
        return int(sum(c.nbytes for c in self.columns) + sum(a.nbytes for a in arrays))

    def has(self, columns: Sequence[pa.Array]) -> Flags:
        """Flag the rows of these canonical columns that are keys of the set."""
        flags = np.zeros(len(columns[0]), bool)
        likely, wanted = self.filter.rows(columns)
        bucket = (wanted >> np.uint64(self.shift)).astype(np.int64)
        slot, end_slot = self.starts[bucket].astype(np.int64), self.starts[bucket + 1]
        places = np.flatnonzero(slot < end_slot)
        while len(places):
            candidates = places[self.hashes[slot[places]] == wanted[places]]
            if len(candidates):
                rows = likely[candidates]
                flags[rows[rows_equal(columns, rows, self.columns, slot[candidates])]] = True
            slot[places] += 1
            places = places[(slot[places] < end_slot[places]) & ~flags[likely[places]]]
        return flags


def rows_equal(
    left: Sequence[pa.Array],
    left_rows: npt.NDArray[np.int64],
    right: Sequence[pa.Array],
    right_rows: npt.NDArray[np.int64],
) -> Flags:
    """Compare the rows `left_rows` and `right_rows`, pair by pair: equal when all columns are; null
    equals null.
    """
    same = np.ones(len(left_rows), bool)
    left_rows, right_rows = pa.array(left_rows), pa.array(right_rows)
    for left_column, right_column in zip(left, right, strict=True):
        left_values, right_values = left_column.take(left_rows), right_column.take(right_rows)
        equal = pc.fill_null(pc.equal(left_values, right_values), False)
        if left_values.null_count and right_values.null_count:
            equal = pc.or_(equal, pc.and_(left_values.is_null(), right_values.is_null()))
        same &= equal.to_numpy(zero_copy_only=False)
    return same


def hash_columns(columns: Sequence[pa.Array]) -> Words:
    """Hash the rows of canonical columns to 64 bits per row; equal rows have equal hashes."""
    with np.errstate(over="ignore"):
        hashes = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            for words in _words(column):
                hashes = _mixed(hashes ^ _mixed(words + _GOLDEN))
            if column.null_count:
                hashes[column.is_null().to_numpy(zero_copy_only=False)] ^= _GOLDEN
    return hashes


def _words(column: pa.Array) -> list[Words]:
    """Convert a column to one or two 64-bit words per row; those of null rows are 0."""
    type_ = column.type
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        filled = pc.fill_null(column, pa.scalar(0).cast(type_)) if column.null_count else column
        return [filled.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)]
    if pa.types.is_decimal128(type_):
        begin, end = 2 * column.offset, 2 * (column.offset + len(column))
        raw = np.frombuffer(column.buffers()[1] or b"", np.uint64)[begin:end].reshape(-1, 2).copy()
        if column.null_count:
            raw[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return [raw[:, 0], raw[:, 1]]
    if pa.types.is_null(type_):
        return [np.zeros(len(column), np.uint64)]
    data = column.cast(pa.large_binary())
    lengths = (
        pc.fill_null(pc.binary_length(data), 0).to_numpy(zero_copy_only=False).astype(np.uint64)
    )
    return [
        hash_values(BinaryType(), data).astype(np.uint64) if len(data) else np.zeros(0, np.uint64),
        lengths,
    ]


def _mixed(x: Words) -> Words:
    """Mix the bits of words by the finalizer of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


PART = 64 * 1024 * 1024  # bytes per part, which is sorted in memory
_PARTS = 256  # files open at once, at most


@dataclass(frozen=True, eq=False)
class SpilledKeys:
    """Hold a set of keys in parts on disk, with the methods of a `KeySet`. Part i holds the keys
    whose hash ends in i; None: empty.
    """

    parts: tuple[KeySet | None, ...]

    @classmethod
    def of(cls, batches: Iterable[Sequence[pa.Array]], size: int) -> SpilledKeys:
        """Make a set of batches of canonical columns. `size`: about how many bytes all of them
        take.
        """
        count = 1 << min(_PARTS, max(2, -(-size // PART)) - 1).bit_length()
        with temporary_folder("keys") as place:
            written = _split(batches, count, Path(place))
            return cls(tuple(_mapped(p) if p is not None else None for p in written))

    def __len__(self) -> int:
        return sum(len(p) for p in self.parts if p is not None)

    @property
    def nbytes(self) -> int:
        """Estimate the bytes of memory that the system cannot take back: next to none."""
        return 1000 * len(self.parts)

    def has(self, columns: Sequence[pa.Array]) -> Flags:
        """Flag the rows of these canonical columns that are keys of the set."""
        flags = np.zeros(len(columns[0]), bool)
        where = _places(columns, len(self.parts))
        for n in np.unique(where):
            if (part := self.parts[n]) is not None:
                rows = np.flatnonzero(where == n)
                flags[rows] = part.has([c.take(pa.array(rows)) for c in columns])
        return flags


def _places(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    return (hash_columns(columns) & np.uint64(count - 1)).astype(np.int64)


def _split(batches: Iterable[Sequence[pa.Array]], count: int, place: Path) -> list[Path | None]:
    """Write the keys of each part to a file of its own."""
    paths: list[Path | None] = [None] * count
    writers: list[pa.RecordBatchWriter | None] = [None] * count
    with ExitStack() as stack:
        for columns in batches:
            where = _places(columns, count)
            order = np.argsort(where, kind="stable")
            batch = pa.RecordBatch.from_arrays(
                list(columns), names=[str(i) for i in range(len(columns))]
            ).take(pa.array(order))
            ends = np.searchsorted(where[order], np.arange(count + 1))
            for n in np.unique(where):
                if (writer := writers[n]) is None:
                    paths[n] = path = place / f"{n}.arrows"
                    sink = stack.enter_context(pa.OSFile(str(path), "wb"))
                    writers[n] = writer = stack.enter_context(pa.ipc.new_stream(sink, batch.schema))
                writer.write_batch(batch.slice(int(ends[n]), int(ends[n + 1] - ends[n])))
    return paths


def _mapped(path: Path) -> KeySet:
    """Sort the keys of a file into a set, write the set beside the file, and map it."""
    with pa.OSFile(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all().combine_chunks()
    path.unlink()
    key_set = KeySet.of([c.chunk(0) for c in table.columns])
    place = path.with_suffix(".arrow")
    with pa.OSFile(str(place), "wb") as sink:
        arrays = [*key_set.columns, pa.array(key_set.hashes)]
        columns = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
        with pa.ipc.new_file(sink, columns.schema) as writer:
            writer.write_batch(columns)
    mapped = pa.ipc.open_file(pa.memory_map(str(place))).get_batch(0)
    *keys, hashes = mapped.columns
    starts = _saved(path.with_suffix(".starts.npy"), key_set.starts)
    flags = _saved(path.with_suffix(".filter.npy"), key_set.filter.flags)
    likely = replace(key_set.filter, flags=flags)
    return KeySet(tuple(keys), hashes.to_numpy(), starts, key_set.shift, likely)


def _saved(path: Path, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Write an array to a file, and map it."""
    np.save(path, numbers)
    mapped: npt.NDArray[Any] = np.load(path, mmap_mode="r")
    return mapped
