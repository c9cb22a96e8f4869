"""Give each file of a scan a key, a long, by which Spark joins deletes and facts (partition values,
sequence numbers, first row ids) to its rows; and join the facts. To join by path, Spark would
compare strings.

Planned files have the numbers that Frazil gives them. On Spark Connect, which knows no such files,
the key is `xxhash64(_metadata.file_path)`: the driver knows all paths of a scan and computes
the same hashes (XXH64 with seed 42, as in Spark). Each key begins a span of `SPAN` keys, one per
65,536 rows of the file (`chunk_key`). If two spans overlap, or one would pass the largest long, the
paths are hashed again with a salt.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.uuids import uuid_to_text
from frazil.spark.scan.paths import spark_text
from frazil.spark.scan.planned_files import FILE
from frazil.spark.types.spark_types import spark_type
from frazil.spec.types import (
    DateType,
    IcebergType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
ROW = "__frazil_row"
# the column behind `_metadata.row_index`; reading it saves a struct per row
ROW_INDEX = "_tmp_metadata_row_index"
UNIT = 64  # rows per word of a bitmap
SPAN = 1 << 20  # keys per file, one per 65,536 rows: up to 68 billion rows
_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@dataclass(frozen=True, eq=False)
class FileKeys:
    """Hold the keys of a scan's files. `numbers[i]`: the key of the i-th file; `text`: the SQL of a
    row's key, None if the scan has the column `FILE` already."""

    numbers: Numbers
    text: str | None

    @classmethod
    def given(cls, numbers: Numbers) -> FileKeys:
        """Return the keys of planned files that have these numbers."""
        return cls(numbers, None)

    @classmethod
    def of(cls, paths: Sequence[str]) -> FileKeys:
        """Return the keys of files, hashed from their locations; two spellings of one location have
        one key.
        """
        texts = [spark_text(p) for p in paths]
        for attempt in itertools.count():
            salt = f"{attempt}" if attempt else ""
            numbers = xxhash64([salt + t for t in texts])
            if apart(
                xxhash64([salt + t for t in set(texts)])
                if len(set(texts)) < len(texts)
                else numbers
            ):
                return cls(
                    numbers,
                    f"xxhash64(concat('{salt}', _metadata.file_path))"
                    if salt
                    else "xxhash64(_metadata.file_path)",
                )
        raise AssertionError

    def added(self, scan: DataFrame, rows: bool = False, direct: bool = False) -> DataFrame:
        """Return a scan with each row's file key as `FILE`, and if `rows` the row's position in its
        file as `ROW`. `direct`: the scan has the column `ROW_INDEX`. A row without a position fails
        the query, since its deletes could not be applied."""
        row_index = ROW_INDEX if direct else "_metadata.row_index"
        row = f"coalesce({row_index}, CAST(raise_error('Spark did not return the position of a row in its file.') AS BIGINT)) AS {ROW}"
        return scan.selectExpr(
            "*", *([f"{self.text} AS {FILE}"] if self.text else []), *([row] if rows else [])
        )


def counted(count: int) -> Numbers:
    """Return the keys 0, 1, 2, … for files that only have to be distinguished."""
    return np.arange(count, dtype=np.int64)


def by_rows(rows: Numbers, numbered: npt.NDArray[np.bool_]) -> Numbers:
    """Return keys for files with these numbers of rows: the position of the file's first row when
    the rows of all `numbered` files are counted through, each file beginning at a multiple of
    `UNIT`. So one bitmap can hold the deletes of all these files. The keys of the other files
    follow."""
    units = np.where(numbered, np.maximum(-(-rows // UNIT), 1), 0)
    first_units = np.cumsum(units) - units
    return np.where(numbered, first_units, units.sum() + np.cumsum(~numbered) - 1) * UNIT


def apart(numbers: Numbers) -> bool:
    """Tell whether the spans of keys that begin at these numbers neither overlap nor exceed a long
    (which would be an error in Spark).
    """
    ascending = np.sort(numbers)
    if not len(ascending):
        return True
    gaps = ascending[1:].view(np.uint64) - ascending[:-1].view(np.uint64)
    return bool((gaps >= SPAN).all()) and int(ascending[-1]) <= np.iinfo(np.int64).max - SPAN


def chunk_key() -> Column:
    """Return the key of a row's chunk: its file's key plus the number of the chunk of 65,536 rows
    in which the row lies.
    """
    return F.col(FILE) + F.shiftright(F.col(ROW), 16)


def same_files(scan: DataFrame, paths: Sequence[str]) -> bool:
    """Tell whether Spark spells the files of a scan as `spark_text` expects. If not, the hashes
    differ, and no delete would be applied.
    """
    return {re.sub("^file://(?=/)", "file:", t) for t in scan.inputFiles()} == {
        spark_text(p) for p in paths
    }


def xxhash64(texts: Sequence[str]) -> Numbers:
    """Compute Spark's `xxhash64` of each text. Texts of equal length are hashed together,
    vectorised.
    """
    raw = [t.encode() for t in texts]
    lengths = np.array([len(b) for b in raw], np.int64)
    hashes = np.zeros(len(raw), np.uint64)
    with np.errstate(over="ignore"):
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            hashes[places] = _hashed(
                np.frombuffer(b"".join(raw[i] for i in places), np.uint8).reshape(
                    len(places), int(length)
                )
            )
    return hashes.view(np.int64)


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _hashed(data: npt.NDArray[np.uint8]) -> Words:
    """Compute XXH64 of byte strings of equal length, one per row of `data`."""
    count, length = data.shape
    seed, word_count = np.uint64(_SEED), length // 8
    words = (
        np.ascontiguousarray(data[:, : word_count * 8]).view(np.uint64).reshape(count, word_count)
    )
    words_done = 0
    if length >= 32:
        lanes = [
            np.full(count, s, np.uint64) for s in (seed + _P1 + _P2, seed + _P2, seed, seed - _P1)
        ]
        while words_done + 4 <= word_count:
            lanes = [
                _rotated(v + words[:, words_done + number] * _P2, 31) * _P1
                for number, v in enumerate(lanes)
            ]
            words_done += 4
        hashes = sum(
            (_rotated(v, r) for v, r in zip(lanes, (1, 7, 12, 18), strict=True)),
            np.zeros(count, np.uint64),
        )
        for v in lanes:
            hashes = (hashes ^ (_rotated(v * _P2, 31) * _P1)) * _P1 + _P4
    else:
        hashes = np.full(count, seed + _P5, np.uint64)
    hashes = hashes + np.uint64(length)
    for number in range(words_done, word_count):
        hashes = _rotated(hashes ^ (_rotated(words[:, number] * _P2, 31) * _P1), 27) * _P1 + _P4
    tail = data[:, word_count * 8 :]
    if tail.shape[1] >= 4:
        four = np.ascontiguousarray(tail[:, :4]).view(np.uint32).reshape(count).astype(np.uint64)
        hashes = _rotated(hashes ^ (four * _P1), 23) * _P2 + _P3
        tail = tail[:, 4:]
    for number in range(tail.shape[1]):
        hashes = _rotated(hashes ^ (tail[:, number].astype(np.uint64) * _P5), 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


_FILE, _IS_PLANNED = "__frazil_fact_of", "__frazil_found"


def spark_values(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Convert internal values (`expr.values.arrow_type`) of a primitive type to the Arrow type in
    which Spark takes them.
    """
    match type_:
        case DateType():
            return values.cast(pa.int32()).cast(pa.date32())
        case TimestampType():
            return values.cast(pa.int64()).cast(pa.timestamp("us"))
        case TimestamptzType():
            return values.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        case TimeType():
            return values.cast(pa.int64()).cast(pa.time64("us"))
        case UUIDType():
            return uuid_to_text(values)
        case UnknownType():
            return pa.nulls(len(values), pa.string())
    return values


def with_facts(
    scan: DataFrame,
    keys: Numbers,
    columns: Mapping[str, tuple[pa.Array, IcebergType]],
    time: bool = False,
) -> DataFrame:
    """Return a scan that has the column `FILE` with more columns, by name, that hold a fact of each
    row's file.

    `keys`: the key of each planned file; `columns`: per name the facts of these files, in the same
    order, and their type. The query fails if a row's file is not among them, since its rows would
    otherwise have nulls in place of facts.
    """
    numbers, first = np.unique(keys, return_index=True)
    fields = [s.StructField(_FILE, s.LongType()), s.StructField(_IS_PLANNED, s.BooleanType())]
    arrays: list[pa.Array] = [pa.array(numbers), pa.repeat(True, len(numbers))]
    for name, (values, type_) in columns.items():
        fields.append(
            s.StructField(
                name,
                s.StringType()
                if isinstance(type_, UnknownType)
                else spark_type(type_, name, time=time),
            )
        )
        arrays.append(values.take(pa.array(first)))
    table = pa.Table.from_arrays(arrays, names=[f.name for f in fields])
    facts = scan.sparkSession.createDataFrame(table, schema=s.StructType(fields))
    joined = scan.join(F.broadcast(facts), F.col(FILE) == F.col(_FILE), "left")
    unplanned = F.raise_error(F.lit("Spark read a file that Frazil did not plan for this scan."))
    return joined.withColumns(
        {n: F.when(F.col(_IS_PLANNED), F.col(n)).otherwise(unplanned) for n in columns}
    ).drop(_FILE, _IS_PLANNED)


def partition_values(
    table: pa.Table, fields: Iterable[tuple[int, IcebergType]]
) -> dict[int, pa.Array]:
    """Return the partition values of planned files, as Spark shows them, by partition field id.
    `fields`: ids and types that are wanted; those that no file has are left out."""
    column = table.column("partition").combine_chunks()
    places = {column.type.field(n).name: n for n in range(column.type.num_fields)}
    values = {}
    for field_id, type_ in fields:
        if (place := places.get(str(field_id))) is not None:
            values[field_id] = spark_values(column.flatten()[place], type_)
    return values
