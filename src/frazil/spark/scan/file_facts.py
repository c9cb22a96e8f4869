"""Join facts of files (partition values, sequence numbers, first row ids) to the rows of a scan, by
the files' keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.uuids import uuid_to_text
from frazil.spark.scan.file_index import FILE
from frazil.spark.scan.file_keys import Numbers
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
