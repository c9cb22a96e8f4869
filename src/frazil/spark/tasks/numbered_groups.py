"""Run a function over groups of work in Spark tasks, one task per group: the rows of a small
DataFrame are the numbers of the groups, and `mapInArrow` hands each number to a worker, which looks
up the group among those that are serialised with the function.

Numbers, not groups, are the rows, because `mapInArrow` ships one serialised function to every task
of a job: groups (file tasks, delete files) are Python objects for which Spark has no column type,
and parallelising them as an RDD would not work on Spark Connect. As every task receives all groups
of its function, the size of one function is bounded, and many groups become several functions.
"""

from __future__ import annotations

import functools
import importlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.workers import guarded

PAYLOAD_BYTES = 16 << 20
"""The bytes of compressed groups that are serialised with one function, at most; a single group may
be larger.
"""


def over_groups(
    spark: Session,
    groups: Iterable[Any],
    schema: s.StructType | str,
    module: str,
    function: str,
    *shared: object,
) -> DataFrame:
    """Return a lazy DataFrame of the batches that `module.function(number, group, *shared)` yields
    for each group, in no order.

    `groups` and `shared` must be picklable, and the batches must have exactly the columns of
    `schema`. Without groups there are no rows.
    """
    frames = [f for f, _ in jobs_over_groups(spark, groups, schema, module, function, *shared)]
    if not frames:
        empty: DataFrame = spark.createDataFrame([], schema)
        return empty
    return functools.reduce(DataFrame.unionAll, frames)


def jobs_over_groups(
    spark: Session,
    groups: Iterable[Any],
    schema: s.StructType | str,
    module: str,
    function: str,
    *shared: object,
) -> Iterator[tuple[DataFrame, int]]:
    """Yield, for `over_groups` or to be run one after the other, one DataFrame per payload with the
    number of its groups.
    """
    first = 0
    for packed in _payloads(groups):
        task = guarded(__name__, "work_on_numbers", module, function, shared, first, packed)
        yield spark.range(0, len(packed), 1, len(packed)).mapInArrow(task, schema), len(packed)
        first += len(packed)


def _payloads(groups: Iterable[Any]) -> Iterator[list[bytes]]:
    """Yield lists of compressed groups, each of at most PAYLOAD_BYTES."""
    payload: list[bytes] = []
    size = 0
    for group in groups:
        packed = zlib.compress(cloudpickle.dumps(group), 1)
        if payload and size + len(packed) > PAYLOAD_BYTES:
            yield payload
            payload, size = [], 0
        payload.append(packed)
        size += len(packed)
    if payload:
        yield payload


def work_on_numbers(
    module: str,
    function: str,
    shared: tuple[Any, ...],
    first: int,
    packed: Sequence[bytes],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the function in a worker for each group whose number arrives as a row."""
    work = getattr(importlib.import_module(module), function)
    for numbers in batches:
        for number in numbers.column(0).to_pylist():
            yield from work(
                first + number, cloudpickle.loads(zlib.decompress(packed[number])), *shared
            )
