"""Files as one long number each, so that Spark finds what belongs to a file without comparing texts.

Files of our own index have the numbers that we give them. On Spark Connect, which has no such index, a file's number is
`xxhash64(_metadata.file_path)`: the driver knows all paths of a scan and computes the same (XXH64 with seed 42, as Spark's function has
it). Such a number is the first of a span of `SPAN`, one for each 65,536 rows of the file; where two spans meet, or one would pass the
largest long, another salt is taken.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.spark.scan.file_index import FILE
from frazil.spark.scan.paths import spark_text

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
ROW = "__frazil_row"
ROW_INDEX = "_tmp_metadata_row_index"  # the column behind `_metadata.row_index`, which Spark would hand over in a struct made for each row
UNIT = 64  # rows of a word of a bitmap
SPAN = 1 << 20  # chunks of 65,536 rows: 68 billion rows a file
_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


@dataclass(frozen=True, eq=False)
class FileKeys:
    """`numbers[i]` is the key of the i-th file; `text` gives a row's, None: it has it already, as the numbers are ours and no hashes."""

    numbers: Numbers
    text: str | None

    @classmethod
    def given(cls, numbers: Numbers) -> FileKeys:
        """Of the files of an index of ours (`FileIndex`) that has these numbers."""
        return cls(numbers, None)

    @classmethod
    def of(cls, paths: Sequence[str]) -> FileKeys:
        """Of locations; two names of one file have one key."""
        texts = [spark_text(p) for p in paths]
        for n in itertools.count():
            salt = f"{n}" if n else ""
            numbers = xxhash64([salt + t for t in texts])
            if apart(xxhash64([salt + t for t in set(texts)]) if len(set(texts)) < len(texts) else numbers):
                return cls(numbers, f"xxhash64(concat('{salt}', _metadata.file_path))" if salt else "xxhash64(_metadata.file_path)")
        raise AssertionError

    def added(self, scan: DataFrame, rows: bool = False, direct: bool = False) -> DataFrame:
        """The scan with the key of each row's file, and with `rows` the row's number in it. `direct`: the scan has `ROW_INDEX`."""
        row = ROW_INDEX if direct else "_metadata.row_index"
        numbered = f"coalesce({row}, CAST(raise_error('Spark gave no row numbers.') AS BIGINT)) AS {ROW}"
        return scan.selectExpr("*", *([f"{self.text} AS {FILE}"] if self.text else []), *([numbered] if rows else []))


def counted(count: int) -> Numbers:
    """Numbers for files of which nothing is asked but to be told apart."""
    return np.arange(count, dtype=np.int64)


def by_rows(rows: Numbers, numbered: npt.NDArray[np.bool_]) -> Numbers:
    """Keys for files of so many rows: the place of a file's first row among the rows of all `numbered` files, a multiple of `UNIT`. The
    others come behind them."""
    units = np.where(numbered, np.maximum(-(-rows // UNIT), 1), 0)
    begins = np.cumsum(units) - units
    return np.where(numbered, begins, units.sum() + np.cumsum(~numbered) - 1) * UNIT


def apart(numbers: Numbers) -> bool:
    """Whether spans that begin at these numbers neither meet nor overflow (an overflow is an error in Spark)."""
    ascending = np.sort(numbers)
    if not len(ascending):
        return True
    gaps = ascending[1:].view(np.uint64) - ascending[:-1].view(np.uint64)
    return bool((gaps >= SPAN).all()) and int(ascending[-1]) <= np.iinfo(np.int64).max - SPAN


def chunk_key() -> Column:
    """Of a row of a scan that has keys: the number of its file and its 65,536 rows."""
    return F.col(FILE) + F.shiftright(F.col(ROW), 16)


def same_files(scan: DataFrame, paths: Sequence[str]) -> bool:
    """Whether Spark tells the files of a scan in the words that `spark_text` foresees; else nothing would be found by their hashes."""
    return {re.sub("^file://(?=/)", "file:", t) for t in scan.inputFiles()} == {spark_text(p) for p in paths}


def xxhash64(texts: Sequence[str]) -> Numbers:
    """Spark's `xxhash64` of each text."""
    raw = [t.encode() for t in texts]
    lengths = np.array([len(b) for b in raw], np.int64)
    found = np.zeros(len(raw), np.uint64)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths):
            at = np.flatnonzero(lengths == length)
            found[at] = _hashed(np.frombuffer(b"".join(raw[i] for i in at), np.uint8).reshape(len(at), int(length)))
    return found.view(np.int64)


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _hashed(data: npt.NDArray[np.uint8]) -> Words:
    """XXH64 of rows of equal length."""
    count, length = data.shape
    seed, whole = np.uint64(_SEED), length // 8
    words = np.ascontiguousarray(data[:, : whole * 8]).view(np.uint64).reshape(count, whole)
    at = 0
    if length >= 32:
        lanes = [np.full(count, s, np.uint64) for s in (seed + _P1 + _P2, seed + _P2, seed, seed - _P1)]
        while at + 4 <= whole:
            lanes = [_rotated(v + words[:, at + i] * _P2, 31) * _P1 for i, v in enumerate(lanes)]
            at += 4
        found = sum((_rotated(v, r) for v, r in zip(lanes, (1, 7, 12, 18), strict=True)), np.zeros(count, np.uint64))
        for v in lanes:
            found = (found ^ (_rotated(v * _P2, 31) * _P1)) * _P1 + _P4
    else:
        found = np.full(count, seed + _P5, np.uint64)
    found = found + np.uint64(length)
    for i in range(at, whole):
        found = _rotated(found ^ (_rotated(words[:, i] * _P2, 31) * _P1), 27) * _P1 + _P4
    rest = data[:, whole * 8 :]
    if rest.shape[1] >= 4:
        four = np.ascontiguousarray(rest[:, :4]).view(np.uint32).reshape(count).astype(np.uint64)
        found = _rotated(found ^ (four * _P1), 23) * _P2 + _P3
        rest = rest[:, 4:]
    for i in range(rest.shape[1]):
        found = _rotated(found ^ (rest[:, i].astype(np.uint64) * _P5), 11) * _P1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))
