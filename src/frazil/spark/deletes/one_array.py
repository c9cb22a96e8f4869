"""An array of longs as the value of a sub-query. PySpark's own way takes an Arrow file and some sixty calls of the JVM; this one, a dozen.

No literal: Spark spells those out wherever it shows a plan.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as s

from frazil.spark.host.jvm import NOT_AS_KNOWN, array_frame, fall_back, jvm_of

_SCHEMA = s.StructType([s.StructField("numbers", s.ArrayType(s.LongType(), False), False)])


def one_array(spark: Any, numbers: npt.NDArray[np.int64]) -> Column:
    return _frame(spark, numbers).scalar()


def _frame(spark: Any, numbers: npt.NDArray[np.int64]) -> DataFrame:
    """One row of one column."""
    if (jvm := jvm_of(spark)) is not None:
        try:
            return array_frame(spark, jvm, _SCHEMA, numbers)
        except NOT_AS_KNOWN as error:
            fall_back("A local relation", error)
    whole = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), pa.array(numbers))
    made: DataFrame = spark.createDataFrame(pa.table([whole], names=["numbers"]), _SCHEMA)
    return made
