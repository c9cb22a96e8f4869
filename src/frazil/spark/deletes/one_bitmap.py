"""Few deleted positions: one bitmap over all rows of the files that have any, handed to the tasks as the value of a sub-query; no join.

A row finds its bit from its number and from where the rows of its file begin in the bitmap. That is the file's key (`by_rows`); where keys
are hashes it is looked up by them, modulo the length of a table in which no two files with deletes have one place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.spark.deletes import bitmaps
from frazil.spark.deletes.one_array import one_array
from frazil.spark.scan.file_index import FILE
from frazil.spark.scan.file_keys import ROW, UNIT, FileKeys, by_rows
from frazil.storage import Storage

Numbers = npt.NDArray[np.int64]
ROWS = 1 << 26  # of the files, at most: 8 MB of bits
FILES = 256
_BITS = "__frazil_bits"


def fits(files: Sequence[bitmaps.Deleted]) -> bool:
    """Whether deletes are few enough to be read here, and their files to make one bitmap."""
    positions, _, deletes = bitmaps.ON_DRIVER
    return (
        len(files) <= FILES
        and sum(f.file.record_count for f in files) <= ROWS
        and sum(f.positions for f in files) <= positions
        and len({d.file_path for f in files for d in f.deletes}) <= deletes
    )


@dataclass(frozen=True, eq=False)
class OneBitmap:
    """`numbers`: the words of all files, then for each of `places` the row where its file begins, then the number of its file's rows, then
    its file's key. `direct`: the key of a file is the row where it begins."""

    numbers: Numbers
    words: int
    places: int
    direct: bool

    @classmethod
    def of(cls, files: Sequence[bitmaps.Deleted], keys: FileKeys, storage: Storage) -> OneBitmap:
        """`keys`: of every file of the scan; where they are ours, they are `by_rows`, and these files exactly the numbered ones. A file may
        be among `files` twice."""
        ours = keys.text is None
        mine = {f.key: f for f in files}
        rows = np.array([f.file.record_count for f in mine.values()], np.int64)
        begins = np.array(list(mine)) if ours else by_rows(rows, np.ones(len(rows), np.bool_))
        sizes = np.maximum(-(-rows // UNIT), 1)
        words, length = int(sizes.sum()), places(list(mine))
        numbers = np.zeros(words + 3 * length, np.int64)
        cache = DeleteCache(bitmaps.CACHE)
        for (key, f), begin, size in zip(mine.items(), begins.tolist(), sizes.tolist(), strict=True):
            bits = np.zeros(size * UNIT, bool)
            bits[positions_of(f.file, f.deletes, storage, cache)] = True
            numbers[begin // UNIT :][:size] = np.packbits(bits, bitorder="little").view(np.int64)
            place = words + key % length
            numbers[[place, place + length, place + 2 * length]] = begin, f.file.record_count, key
        return cls(numbers, words, length, ours)

    def beside(self, scan: DataFrame) -> DataFrame:
        """A scan with the numbers of files and of rows, as `is_deleted` takes it."""
        return scan.withColumn(_BITS, one_array(scan.sparkSession, self.numbers))

    def is_deleted(self) -> Column:
        """Of a row beside the bitmap. The sub-query moves from its column into this test, which is one text, as a call of the JVM for each
        part of it takes its time."""
        place = f"{self.words} + CAST(pmod({FILE}, {self.places}L) AS INT)"
        begin = FILE if self.direct else f"get({_BITS}, {place})"
        word = f"get({_BITS}, CAST(shiftright({begin} + {ROW}, 6) AS INT))"
        bit = f"getbit({word}, CAST({ROW} & 63 AS INT)) = 1"
        # Asked of deleted rows only: the bit is another file's where this one has none, or more rows than its manifest says.
        rows, key = (f"get({_BITS}, {place} + {n * self.places})" for n in (1, 2))
        return F.expr(f"coalesce({bit} AND {FILE} = {key} AND {ROW} < {rows}, false)")


def places(numbers: Sequence[int]) -> int:
    """The length of a table in which all these numbers have places of their own."""
    few = max(1, len(numbers))
    return next(n for n in itertools.chain(range(few, 2 * few), itertools.count(few**2)) if len({k % n for k in numbers}) == len(numbers))
