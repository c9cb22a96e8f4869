"""Few deleted positions: one bitmap over all rows of the files that have any, handed to the tasks as the value of a sub-query; no join.

A row finds its bit from its number and from where the rows of its file begin in the bitmap. That is looked up by a number of the file,
modulo the length of a table in which no two files have one place: the file's size when all sizes differ and Spark has the same ones as the
manifests, since that costs nothing for each row, else the hash of its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.delete_files import DeleteCache, positions_of
from frazil.spark import bitmaps
from frazil.spark.file_keys import FILE, ROW
from frazil.storage import Storage

Numbers = npt.NDArray[np.int64]
ROWS = 1 << 26  # of the files, at most: 8 MB of bits
FILES = 256
_ARRAYS = _WORDS, _BEGINS, _ROWS = "__frazil_words", "__frazil_begins", "__frazil_rows"
_LONGS, _INTS = s.ArrayType(s.LongType(), False), s.ArrayType(s.IntegerType(), False)
_ROW = s.StructType([s.StructField(name, _INTS if name == _BEGINS else _LONGS) for name in _ARRAYS])


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
    """`begins[n]`, `rows[n]`: the first word and the number of rows of the file whose number modulo `len(begins)` is n. Of files that have
    no deletes `rows` is 0."""

    words: Numbers
    begins: npt.NDArray[np.int32]
    rows: Numbers

    @classmethod
    def of(cls, files: Sequence[bitmaps.Deleted], numbers: Mapping[int, int], storage: Storage) -> OneBitmap:
        """`numbers`: of every file of the scan, by its key; those of `files` may be asked twice, but stand for one file."""
        sizes = {f.key: -(-f.file.record_count // 64) for f in files}
        words = np.zeros(max(1, sum(sizes.values())), np.int64)
        length = places(list(set(numbers.values())))
        begins, rows = np.zeros(length, np.int32), np.zeros(length, np.int64)
        cache, at = DeleteCache(bitmaps.CACHE), 0
        for f in {f.key: f for f in files}.values():
            size = sizes[f.key]
            bits = np.zeros(size * 64, bool)
            positions = positions_of(f.file, f.deletes, storage, cache)
            bits[positions] = True
            words[at : at + size] = np.packbits(bits, bitorder="little").view(np.int64)
            place = numbers[f.key] % length
            begins[place], rows[place] = at, f.file.record_count
            at += size
        return cls(words, begins, rows)

    def beside(self, scan: DataFrame) -> DataFrame:
        """A scan with the numbers of files and of rows, as `is_deleted` takes it."""
        arrays = [_list(self.words), _list(self.begins), _list(self.rows)]
        made = scan.sparkSession.createDataFrame(pa.table(arrays, names=[*_ARRAYS]), _ROW)
        return scan.withColumns({name: made.select(name).scalar() for name in _ARRAYS})

    def is_deleted(self) -> Column:
        """Of a row beside the bitmap. The sub-queries move from their columns into this test, which is one text, as a call of the JVM for
        each part of it takes its time."""
        place = f"CAST(pmod({FILE}, {len(self.rows)}L) AS INT)"
        bit = f"getbit(get({_WORDS}, get({_BEGINS}, {place}) + CAST(shiftright({ROW}, 6) AS INT)), CAST({ROW} & 63 AS INT))"
        # The last test is made of deleted rows only: the bit is another file's where this one holds more rows than its manifest says.
        return F.expr(f"coalesce({bit} = 1 AND {ROW} < get({_ROWS}, {place}), false)")


def places(numbers: Sequence[int]) -> int:
    """The length of a table in which all these numbers have places of their own."""
    length = max(1, len(numbers) ** 2)
    while len({n % length for n in numbers}) < len(numbers):
        length += 1
    return length


def _list(numbers: Numbers | npt.NDArray[np.int32]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), pa.array(numbers))
