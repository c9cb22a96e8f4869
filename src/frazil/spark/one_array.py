"""An array of longs as the value of a sub-query. PySpark's own way takes an Arrow file and some sixty calls of the JVM; this one, a dozen.

No literal: Spark spells those out wherever it shows a plan.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as s

from frazil.spark.jvm import jvm_of
from frazil.storage.base import temporary

_SCHEMA = s.StructType([s.StructField("numbers", s.ArrayType(s.LongType(), False), False)])


def one_array(spark: Any, numbers: npt.NDArray[np.int64]) -> Column:
    return _frame(spark, numbers).scalar()


def _frame(spark: Any, numbers: npt.NDArray[np.int64]) -> DataFrame:
    """One row of one column."""
    if (jvm := jvm_of(spark)) is None:
        whole = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), pa.array(numbers))
        made: DataFrame = spark.createDataFrame(pa.table([whole], names=["numbers"]), _SCHEMA)
        return made
    view, own, gateway = jvm.view, spark._jsparkSession, spark.sparkContext._gateway
    longs = gateway.new_array(view.long, len(numbers))
    with contextlib.ExitStack() as stack:  # py4j would spell the bytes as text
        with temporary():
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(numbers.astype(">i8").tobytes())
            file.flush()
        with contextlib.closing(view.java.io.RandomAccessFile(file.name, "r")) as opened:
            opened.getChannel().map(view.java.nio.channels.FileChannel.MapMode.READ_ONLY, 0, opened.length()).asLongBuffer().get(longs)
    values = gateway.new_array(view.java.lang.Object, 1)
    values[0] = getattr(view, "org.apache.spark.sql.catalyst.expressions.UnsafeArrayData").fromPrimitiveArray(longs)
    row = getattr(view, "org.apache.spark.sql.catalyst.expressions.GenericInternalRow")(values)
    columns = getattr(view, "org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(own.parseDataType(_SCHEMA.json()))
    plan = getattr(view, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")(columns, jvm.nil.prepended(row), False, jvm.none)
    return DataFrame(getattr(view, "org.apache.spark.sql.classic.Dataset").ofRows(own, plan), spark)
