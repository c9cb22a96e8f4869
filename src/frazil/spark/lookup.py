"""Facts of files beside their rows: partition values, sequence numbers and first row ids, joined to the scan by the file's path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.uuids import uuid_to_text
from frazil.spark.paths import spark_text
from frazil.spark.types import spark_type
from frazil.spec.types import DateType, IcebergType, TimestampType, TimestamptzType, TimeType, UnknownType, UUIDType

PATH, FOUND = "__frazil_path", "__frazil_found"


def shown(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Internal values (arrow_value_type) as Spark's column of the type takes them."""
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


def facts_frame(spark: Any, table: pa.Table, columns: Mapping[str, tuple[pa.Array, IcebergType]], time: bool) -> DataFrame:
    """A row a file: its path as Spark tells it, and the columns."""
    paths = pa.array([spark_text(p) for p in table.column("file_path").to_pylist()], pa.string())
    fields = [s.StructField(PATH, s.StringType()), s.StructField(FOUND, s.BooleanType())]
    arrays: list[pa.Array] = [paths, pa.repeat(True, len(paths))]
    for name, (values, type_) in columns.items():
        fields.append(s.StructField(name, s.StringType() if isinstance(type_, UnknownType) else spark_type(type_, name, time=time)))
        arrays.append(values)
    made = pa.Table.from_arrays(arrays, names=[f.name for f in fields])
    return spark.createDataFrame(made, schema=s.StructType(fields))


def with_facts(scan: DataFrame, facts: DataFrame) -> DataFrame:
    """The scan with the facts of each row's file. A path that is not among them fails the read: no row is guessed."""
    keyed = scan.withColumn(PATH, F.col("_metadata.file_path"))
    return keyed.join(F.broadcast(facts), PATH, "left")


def checked(value: Column) -> Column:
    """A fact, or an error when the row's file was not among the facts."""
    message = F.concat(F.lit("Frazil planned no file of the path "), F.col(PATH))
    return F.when(F.col(FOUND), value).otherwise(F.raise_error(message))


def partition_values(table: pa.Table, fields: Iterable[tuple[int, IcebergType]]) -> dict[int, pa.Array]:
    """Partition values of a plan's table by partition field id, as Spark shows them."""
    column = table.column("partition").combine_chunks()
    children = {column.type.field(n).name: n for n in range(column.type.num_fields)}
    found = {}
    for field_id, type_ in fields:
        if (at := children.get(str(field_id))) is not None:
            found[field_id] = shown(column.flatten()[at], type_)
    return found
