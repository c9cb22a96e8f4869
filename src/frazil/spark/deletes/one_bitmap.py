"""Apply few deleted positions without a join: one bitmap over all rows of the files with deletes,
handed to tasks by a sub-query.

A look-up of one bit takes half the time of a broadcast join with bitmaps per chunk (docs/adr/0011).
Every task receives the whole bitmap, so deletes beyond the limits below are joined (`bitmaps`).

The bit of a row is found from the row's position and from the place where its file begins in the
bitmap. That place is the file's key (`by_rows`) where Frazil numbered the files itself. Where keys
are hashes, the place is looked up in a table by the key modulo the length of the table, which is
chosen such that no two files with deletes share an entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.ops.session import Session
from frazil.spark.deletes import bitmaps
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, jvm_of
from frazil.spark.host.jvm_reads import array_frame
from frazil.spark.scan.file_keys import ROW, UNIT, FileKeys, by_rows
from frazil.spark.scan.planned_files import FILE
from frazil.storage import Storage

Numbers = npt.NDArray[np.int64]
ROWS = 1 << 26  # rows of all files with deletes, at most: 8 MB of bits
FILES = 256  # files with deletes, at most
_BITS = "__frazil_bits"


def fits(files: Sequence[bitmaps.Deleted]) -> bool:
    """Return whether the deletes are few enough to be read on the driver, and their data files
    small enough for one bitmap.
    """
    positions, _, deletes = bitmaps.ON_DRIVER
    return (
        len(files) <= FILES
        and sum(f.file.record_count for f in files) <= ROWS
        and sum(f.positions for f in files) <= positions
        and len({d.file_path for f in files for d in f.deletes}) <= deletes
    )


@dataclass(frozen=True, eq=False)
class OneBitmap:
    """Hold the bitmap of all files with deletes and the table that finds a file in it, as one array
    of longs.

    `numbers` has the bits (`words` longs), then three columns of the table (`places` longs each):
    the row where a file begins, the number of its rows, its key. `direct`: the key of a file is the
    row where it begins, and needs no look-up.
    """

    numbers: Numbers
    words: int
    places: int
    direct: bool

    @classmethod
    def of(cls, files: Sequence[bitmaps.Deleted], keys: FileKeys, storage: Storage) -> OneBitmap:
        """Read the deletes of files into a bitmap. A file may be among `files` twice.

        `keys` are those of every file of the scan. Where they are ours, they were made by
        `by_rows`, and `files` are exactly the files that have numbers there.
        """
        direct = keys.text is None
        by_key = {deleted.key: deleted for deleted in files}
        rows = np.array([deleted.file.record_count for deleted in by_key.values()], np.int64)
        begins = np.array(list(by_key)) if direct else by_rows(rows, np.ones(len(rows), np.bool_))
        sizes = np.maximum(-(-rows // UNIT), 1)
        words, length = int(sizes.sum()), places(list(by_key))
        numbers = np.zeros(words + 3 * length, np.int64)
        cache = DeleteCache(bitmaps.CACHE)
        for (key, deleted), begin, size in zip(
            by_key.items(), begins.tolist(), sizes.tolist(), strict=True
        ):
            bits = np.zeros(size * UNIT, bool)
            bits[positions_of(deleted.file, deleted.deletes, storage, cache)] = True
            numbers[begin // UNIT :][:size] = np.packbits(bits, bitorder="little").view(np.int64)
            place = words + key % length
            numbers[[place, place + length, place + 2 * length]] = (
                begin,
                deleted.file.record_count,
                key,
            )
        return cls(numbers, words, length, direct)

    def beside(self, scan: DataFrame) -> DataFrame:
        """Add the bitmap to a scan that has the numbers of files and rows, as `is_deleted` expects."""
        return scan.withColumn(_BITS, one_array(scan.sparkSession, self.numbers))

    def is_deleted(self) -> Column:
        """Return a column that tells whether a row beside the bitmap is deleted.

        Spark's optimiser moves the sub-query from its column into this test. The test is one SQL
        text because composing it of Columns takes a call of the JVM for each part.
        """
        place = f"{self.words} + CAST(pmod({FILE}, {self.places}L) AS INT)"
        begin = FILE if self.direct else f"get({_BITS}, {place})"
        word = f"get({_BITS}, CAST(shiftright({begin} + {ROW}, 6) AS INT))"
        bit = f"getbit({word}, CAST({ROW} & 63 AS INT)) = 1"
        # The checks after the bit run for set bits only. A set bit may be another file's where this
        # file has no deletes, or where it has more rows than its manifest says.
        rows, key = (f"get({_BITS}, {place} + {n * self.places})" for n in (1, 2))
        return F.expr(f"coalesce({bit} AND {FILE} = {key} AND {ROW} < {rows}, false)")


def places(numbers: Sequence[int]) -> int:
    """Return the length of a table in which no two of these numbers have the same place (the number
    modulo the length).
    """
    least = max(1, len(numbers))
    lengths = itertools.chain(range(least, 2 * least), itertools.count(least**2))
    return next(n for n in lengths if len({k % n for k in numbers}) == len(numbers))


# Hand an array of longs to Spark tasks as the value of a scalar sub-query.
#
# A literal would do as well, but Spark prints literals in full wherever it shows a plan. The frame
# behind the sub-query is made by a dozen calls of the JVM, where PySpark's `createDataFrame` takes
# an Arrow file and some sixty calls.

_SCHEMA = s.StructType([s.StructField("numbers", s.ArrayType(s.LongType(), False), False)])


def one_array(spark: Session, numbers: npt.NDArray[np.int64]) -> Column:
    """Return a column whose value in every row is this array."""
    return _frame(spark, numbers).scalar()


def _frame(spark: Session, numbers: npt.NDArray[np.int64]) -> DataFrame:
    """Return a DataFrame of one row whose one column holds the array; on Spark Connect, or where
    the JVM is not as known, by PySpark.
    """
    if (jvm := jvm_of(spark)) is not None:
        try:
            return array_frame(spark, jvm, _SCHEMA, numbers)
        except NOT_AS_KNOWN as error:
            fall_back("A local relation", error)
    array = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), pa.array(numbers))
    frame: DataFrame = spark.createDataFrame(pa.table([array], names=["numbers"]), _SCHEMA)
    return frame
