"""Index the join keys of a MERGE source, in memory or on disk: find the source rows whose keys
equal those of target rows, a whole batch at a time.

The index holds the sorted hashes of the keys, with the number of the source row beside each. Equal
hashes form a run, and a bucket table says where the run of a hash may begin. Keys with equal hashes
are then compared by value, so a hash collision never makes a match. Keys are equal as in Spark's
`=`: NaN equals NaN, -0.0 equals 0.0; null equals null for `<=>` only. In a MERGE most target rows
have no match, and a `HashFilter` excludes nearly all of these at one look.

`index_on_disk` keeps the arrays of a source that is too large for memory in memory-mapped files.
Pairs of hash and row number are scattered to files by the first bits of the hash; each file is
sorted in memory and appended to the index. Only for rows with equal hashes are the keys themselves
read from the source.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.key_set import HashFilter, canonical, hash_columns, rows_equal
from frazil.storage.base import temporary_files

Rows = npt.NDArray[np.int64]
# rows of the target's batch and rows of the source, two arrays of one length
Pairs = tuple[Rows, Rows]
PAIRS = 1 << 20  # pairs that are processed together


def comparable_key(values: pa.Array) -> pa.Array:
    """Normalise internal values so that equal keys have equal values: -0.0 becomes 0.0, all NaNs
    become one.
    """
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
    return canonical(values)


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """Look up source rows by their keys.

    `hashes`: distinct hashes, ascending; the rows with `hashes[i]` are `rows[begins[i]:begins[i +
    1]]`. `starts`, `shift`: the bucket table. `keys_at`: returns the keys of source rows. `exact`:
    equal hashes mean equal keys. `filter`: holds all keys.
    """

    keys_at: Callable[[Rows], Sequence[pa.Array]]
    null_safe: tuple[bool, ...]
    hashes: npt.NDArray[np.uint64]
    begins: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    shift: int
    exact: bool
    filter: HashFilter

    @classmethod
    def of(
        cls, keys: Sequence[pa.Array], null_safe: Sequence[bool], candidates: Rows | None = None
    ) -> KeyIndex:
        """Build the index. `keys`: one array of comparable keys per key, with one value per source
        row. `candidates`: the rows to index (None: all)."""
        usable = np.flatnonzero(usable_mask(keys, null_safe))
        if candidates is not None:
            usable = np.intersect1d(usable, candidates, assume_unique=True)
        indexed = [k.take(pa.array(usable)) for k in keys] if len(usable) < len(keys[0]) else keys
        hashed = hash_columns(indexed)
        hashes, begins, rows = runs_of(hashed, usable)
        starts, shift = buckets_of(hashes)
        exact = is_exact([k.type for k in keys], null_safe)
        likely = HashFilter.for_keys(len(hashes))
        likely.add(indexed, hashed)

        def keys_at(source_rows: Rows) -> list[pa.Array]:
            return [k.take(pa.array(source_rows)) for k in keys]

        return cls(keys_at, tuple(null_safe), hashes, begins, rows, starts, shift, exact, likely)

    def __len__(self) -> int:
        return len(self.rows)

    def pairs(self, keys: Sequence[pa.Array]) -> Iterator[Pairs]:
        """Yield pairs of rows with equal keys, some at a time; target rows ascend. `keys`:
        comparable keys of the target rows.
        """
        if not len(self.rows) or not len(keys[0]):
            return
        likely, hashes = self.filter.rows(keys)
        usable = usable_mask(keys, self.null_safe)[likely]
        likely, hashes = likely[usable], hashes[usable]
        places, runs = self._runs(hashes)
        counts = (self.begins[runs + 1] - self.begins[runs]).astype(np.int64, copy=False)
        for portion in _portions(counts):
            target_rows, source_rows = expanded(
                likely[places[portion]], self.begins[runs[portion]], counts[portion]
            )
            source_rows = self.rows[source_rows].astype(np.int64, copy=False)
            if not self.exact:
                same = rows_equal(
                    keys, target_rows, self.keys_at(source_rows), np.arange(len(source_rows))
                )
                target_rows, source_rows = target_rows[same], source_rows[same]
            if len(target_rows):
                yield target_rows, source_rows

    def _runs(self, hashes: npt.NDArray[np.uint64]) -> Pairs:
        """Return the rows whose hash occurs in the index, and the run of each."""
        bucket = (hashes >> np.uint64(self.shift)).astype(np.int64)
        place, end = self.starts[bucket].astype(np.int64), self.starts[bucket + 1]
        run = np.full(len(hashes), -1, np.int64)
        unsettled = np.flatnonzero(place < end)
        while len(unsettled):  # few rounds: a bucket holds few hashes, since these are distinct
            is_equal = self.hashes[place[unsettled]] == hashes[unsettled]
            run[unsettled[is_equal]] = place[unsettled[is_equal]]
            unsettled = unsettled[~is_equal]
            place[unsettled] += 1
            unsettled = unsettled[place[unsettled] < end[unsettled]]
        with_run = np.flatnonzero(run >= 0)
        return with_run, run[with_run]


def usable_mask(keys: Sequence[pa.Array], null_safe: Sequence[bool]) -> npt.NDArray[np.bool_]:
    """Flag the rows that can match at all: none of their keys compared by `=` is null."""
    mask = np.ones(len(keys[0]), bool)
    for key, safe in zip(keys, null_safe, strict=True):
        if key.null_count and not safe:
            mask &= key.is_valid().to_numpy(zero_copy_only=False)
    return mask


def is_exact(types: Sequence[pa.DataType], null_safe: Sequence[bool]) -> bool:
    """Tell whether equal hashes mean equal keys, as for a single integer key that is not null."""
    return len(types) == 1 and pa.types.is_integer(types[0]) and not null_safe[0]


def runs_of(
    hashed: npt.NDArray[np.uint64], numbers: Rows
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any], npt.NDArray[Any]]:
    """Sort hashes into runs: (distinct hashes, where each run begins and the last one ends, row
    numbers in this order).
    """
    order = np.argsort(hashed, kind="stable")
    hashed, rows = hashed[order], _narrow(numbers[order])
    first = (
        np.flatnonzero(np.concatenate([[True], hashed[1:] != hashed[:-1]]))
        if len(hashed)
        else np.zeros(0, np.int64)
    )
    return hashed[first], _narrow(np.append(first, len(hashed))), rows


def buckets_of(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[Any], int]:
    """Build the bucket table: where the hashes of each bucket (their first bits) begin, and the
    shift from hash to bucket.
    """
    bits = max(1, min(26, len(hashes).bit_length()))
    edges = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return _narrow(np.append(np.searchsorted(hashes, edges), len(hashes))), 64 - bits


def _narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return numbers.astype(np.int32) if not len(numbers) or int(numbers.max()) < 2**31 else numbers


def _portions(counts: Rows) -> Iterator[slice]:
    """Cut runs into portions of about PAIRS pairs each."""
    ends = np.cumsum(counts)
    begin = done = 0
    while begin < len(counts):
        end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS, "right")))
        yield slice(begin, end)
        begin, done = end, int(ends[end - 1])


def expanded(places: Rows, begins: Rows, counts: Rows) -> Pairs:
    """Expand runs into pairs: each place once per row of its run, and the positions of these rows."""
    total = int(counts.sum())
    offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(places, counts), np.repeat(begins, counts) + offsets


def every_pair(rows: npt.NDArray[np.int64], source_rows: int) -> Iterator[Pairs]:
    """Pair every target row with every source row, some at a time, for a MERGE without join keys."""
    rows = np.asarray(rows, np.int64)
    if not len(rows) or not source_rows:
        return
    width = min(source_rows, PAIRS)
    height = max(1, PAIRS // width)
    for begin in range(0, len(rows), height):
        some = rows[begin : begin + height]
        for start in range(0, source_rows, width):
            stop = min(source_rows, start + width)
            yield np.repeat(some, stop - start), np.tile(np.arange(start, stop), len(some))


PARTS = 64
_PAIR = np.dtype([("hash", np.uint64), ("row", np.int64)])


def index_on_disk(
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    keys_at: Callable[[Rows], Sequence[pa.Array]],
    candidates: npt.NDArray[np.bool_] | None = None,
) -> KeyIndex:
    """Build the index. `batches`: comparable keys of the source, in the order of its rows.
    `candidates`: a flag per row to take (None: all)."""
    with temporary_files():
        folder = tempfile.mkdtemp(prefix="frazil-index-")
    with temporary_files(folder):
        return _index_in(folder, batches, null_safe, keys_at, candidates)


def _index_in(
    folder: str,
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    keys_at: Callable[[Rows], Sequence[pa.Array]],
    candidates: npt.NDArray[np.bool_] | None,
) -> KeyIndex:
    """Build the index in a folder, which is removed together with the index, or at once if the
    index cannot be built.
    """
    try:
        types, likely = _scatter(batches, null_safe, candidates, folder)
        hashes, begins, rows = _gathered(folder)
        starts, shift = buckets_of(hashes)
        index = KeyIndex(
            keys_at,
            tuple(null_safe),
            hashes,
            begins,
            rows,
            starts,
            shift,
            is_exact(types, null_safe),
            likely,
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(index, shutil.rmtree, folder, True)
    return index


def _scatter(
    batches: Iterable[Sequence[pa.Array]],
    null_safe: Sequence[bool],
    candidates: npt.NDArray[np.bool_] | None,
    folder: str,
) -> tuple[list[pa.DataType], HashFilter]:
    """Write pairs of hash and row number to the file of their part; return the types of the keys
    and a filter that holds them.
    """
    types: list[pa.DataType] = []
    likely = HashFilter.for_keys(2**31)  # the largest there is: the source has many keys
    files = [open(_part(folder, i), "wb") for i in range(PARTS)]  # noqa: SIM115 (closed below)
    try:
        first = 0
        for keys in batches:
            types = [k.type for k in keys]
            usable, count = np.flatnonzero(usable_mask(keys, null_safe)), len(keys[0])
            if candidates is not None:
                usable = usable[candidates[first + usable]]
            indexed = [k.take(pa.array(usable)) for k in keys]
            hashed = hash_columns(indexed)
            likely.add(indexed, hashed)
            pairs = np.empty(len(usable), _PAIR)
            pairs["hash"], pairs["row"] = hashed, first + usable
            first += count
            parts = (pairs["hash"] >> np.uint64(58)).astype(np.uint8)
            order = np.argsort(parts, kind="stable")
            edges = np.searchsorted(parts[order], np.arange(PARTS + 1))
            for file, begin, end in zip(files, edges, edges[1:], strict=False):
                file.write(pairs[order[begin:end]].tobytes())
    finally:
        for file in files:
            file.close()
    return types, likely


def _gathered(folder: str) -> tuple[npt.NDArray[np.uint64], Rows, Rows]:
    """Sort the parts one after another into three memory-mapped files."""
    names = [os.path.join(folder, n) for n in ("hashes", "begins", "rows")]
    total = 0
    with (
        open(names[0], "wb") as to_hashes,
        open(names[1], "wb") as to_begins,
        open(names[2], "wb") as to_rows,
    ):
        for number in range(PARTS):
            pairs = np.fromfile(_part(folder, number), _PAIR)
            os.unlink(_part(folder, number))
            hashes, begins, rows = runs_of(pairs["hash"], pairs["row"])
            to_hashes.write(hashes.tobytes())
            to_begins.write((begins[:-1].astype(np.int64) + total).tobytes())
            to_rows.write(rows.astype(np.int64).tobytes())
            total += len(rows)
        to_begins.write(np.array([total], np.int64).tobytes())
    return _mapped(names[0], np.uint64), _mapped(names[1], np.int64), _mapped(names[2], np.int64)


def _part(folder: str, number: int) -> str:
    return os.path.join(folder, f"part-{number:02d}")


def _mapped(name: str, type_: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.memmap(name, type_, "r") if os.path.getsize(name) else np.zeros(0, type_)
