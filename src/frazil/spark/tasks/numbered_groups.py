"""Run a function over groups of work in tasks of Spark, one task per group: the rows of a small DataFrame are the groups' numbers, and
`mapInArrow` hands each number to a worker, which finds its group among those that travel with the function.

What travels with one function is bounded: every task receives all groups of its function, so many groups are spread over several functions.
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

from frazil.spark.host.workers import guarded

PAYLOAD_BYTES = 16 << 20
"""Packed groups that travel with one function at most (one group may be larger)."""


def over_groups(spark: Any, groups: Iterable[Any], schema: s.StructType | str, module: str, function: str, *shared: Any) -> DataFrame:
    """Make a DataFrame of the batches that `module.function(number, group, *shared)` yields for each group, lazily and in no order.

    `groups` and `shared` are picklable, and the batches have exactly the columns of `schema`; no groups give no rows.
    """
    frames = [f for f, _ in jobs_over_groups(spark, groups, schema, module, function, *shared)]
    if not frames:
        empty: DataFrame = spark.createDataFrame([], schema)
        return empty
    return functools.reduce(DataFrame.unionAll, frames)


def jobs_over_groups(
    spark: Any, groups: Iterable[Any], schema: s.StructType | str, module: str, function: str, *shared: Any
) -> Iterator[tuple[DataFrame, int]]:
    """As `over_groups`, but a DataFrame for each payload, with the number of groups it holds, to be run one after the other."""
    first = 0
    for packed in _payloads(groups):
        task = guarded(__name__, "work_on_numbers", module, function, shared, first, packed)
        yield spark.range(0, len(packed), 1, len(packed)).mapInArrow(task, schema), len(packed)
        first += len(packed)


def _payloads(groups: Iterable[Any]) -> Iterator[list[bytes]]:
    """Groups packed, in as few lists as their size allows."""
    held: list[bytes] = []
    size = 0
    for group in groups:
        one = zlib.compress(cloudpickle.dumps(group), 1)
        if held and size + len(one) > PAYLOAD_BYTES:
            yield held
            held, size = [], 0
        held.append(one)
        size += len(one)
    if held:
        yield held


def work_on_numbers(
    module: str, function: str, shared: tuple[Any, ...], first: int, packed: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The worker's side: each number that comes in stands for a group."""
    work = getattr(importlib.import_module(module), function)
    for numbers in batches:
        for number in numbers.column(0).to_pylist():
            yield from work(first + number, cloudpickle.loads(zlib.decompress(packed[number])), *shared)
