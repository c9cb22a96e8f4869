"""Spark's limits of a micro-batch, which PySpark has from 4.2 on, against those of the options: no
Spark runs.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from frazil.spark.streams.source.stream_planner import default_limit, limits_of
from frazil.stream.source.options import Limits


@pytest.fixture
def limits() -> Any:
    """PySpark's module of limits: imported by the tests, which run on the newest PySpark; 4.1,
    where it is missing, collects them, too.
    """
    return importlib.import_module("pyspark.sql.streaming.datasource")


@pytest.mark.parametrize(
    "options",
    [
        Limits(),
        Limits(files=3),
        Limits(rows=5),
        Limits(bytes=7),
        Limits(snapshots=2),
        Limits(3, 5, 7, 2),
    ],
    ids=str,
)
def test_the_limit_that_spark_is_given_comes_back_as_all_limits_of_the_options(
    options: Limits,
) -> None:
    found = limits_of(default_limit(options), options)
    assert (found.files, found.bytes, found.snapshots) == (
        options.files,
        options.bytes,
        options.snapshots,
    )
    assert found.rows == options.rows or (options.rows is None and (found.rows or 0) >= 2**62)


def test_trigger_once_reads_all_there_is_whatever_the_limits(limits: Any) -> None:
    assert limits_of(limits.ReadAllAvailable(), Limits(1, 1, 1, 1)) == Limits()


def test_a_limit_of_sparks_own_tightens_those_of_the_options(limits: Any) -> None:
    assert limits_of(limits.ReadMaxFiles(2), Limits(files=5, rows=9)) == Limits(files=2, rows=9)
    assert limits_of(None, Limits(files=5)) == Limits(files=5)
