"""Hand an array of longs to Spark tasks as the value of a scalar sub-query.

A literal would do as well, but Spark prints literals in full wherever it shows a plan. The frame
behind the sub-query is made by a dozen calls of the JVM, where PySpark's `createDataFrame` takes an
Arrow file and some sixty calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as s

from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, jvm_of
from frazil.spark.host.jvm_reads import array_frame

_SCHEMA = s.StructType([s.StructField("numbers", s.ArrayType(s.LongType(), False), False)])


def one_array(spark: Any, numbers: npt.NDArray[np.int64]) -> Column:
    """Return a column whose value in every row is this array."""
    return _frame(spark, numbers).scalar()


def _frame(spark: Any, numbers: npt.NDArray[np.int64]) -> DataFrame:
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
