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

from frazil.arrow.delete_files import DeleteCache, positions_of
from frazil.spark import bitmaps
from frazil.spark.file_keys import FILE, ROW
from frazil.storage import Storage

Numbers = npt.NDArray[np.int64]
ROWS = 1 << 26  # of the files, at most: 8 MB of bits
FILES = 256


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

    def is_deleted(self, scan: DataFrame) -> Column:
        """Of a row of a scan with the numbers of files and of rows."""
        place = F.pmod(F.col(FILE), F.lit(len(self.rows)).cast("bigint")).cast("int")
        word = F.get(_value(scan, self.begins), place) + F.shiftright(ROW, 6).cast("int")
        bit = F.getbit(F.get(_value(scan, self.words), word), F.col(ROW).bitwiseAND(F.lit(63)).cast("int"))
        # The last test is made of deleted rows only: the bit is another file's where this one holds more rows than its manifest says.
        return F.coalesce((bit == F.lit(1).cast("byte")) & (F.col(ROW) < F.get(_value(scan, self.rows), place)), F.lit(False))


def places(numbers: Sequence[int]) -> int:
    """The length of a table in which all these numbers have places of their own."""
    length = max(1, len(numbers) ** 2)
    while len({n % length for n in numbers}) < len(numbers):
        length += 1
    return length


def _value(scan: DataFrame, numbers: Numbers | npt.NDArray[np.int32]) -> Column:
    """An array as the result of a sub-query: Spark puts it into the tasks, and prints its name only."""
    type_ = "int" if numbers.dtype == np.int32 else "bigint"
    row = pa.table({"v": pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), pa.array(numbers))})
    return scan.sparkSession.createDataFrame(row, schema=f"v array<{type_}>").scalar()
