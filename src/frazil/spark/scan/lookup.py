"""Facts of files beside their rows: partition values, sequence numbers and first row ids, joined to the scan by the file's key."""

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
from frazil.spec.types import DateType, IcebergType, TimestampType, TimestamptzType, TimeType, UnknownType, UUIDType

_FILE, _FOUND = "__frazil_fact_of", "__frazil_found"


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


def with_facts(scan: DataFrame, keys: Numbers, columns: Mapping[str, tuple[pa.Array, IcebergType]], time: bool = False) -> DataFrame:
    """A scan with keys, each row beside the facts of its file. A file that is not among them fails the read: no row is guessed."""
    numbers, first = np.unique(keys, return_index=True)
    fields = [s.StructField(_FILE, s.LongType()), s.StructField(_FOUND, s.BooleanType())]
    arrays: list[pa.Array] = [pa.array(numbers), pa.repeat(True, len(numbers))]
    for name, (values, type_) in columns.items():
        fields.append(s.StructField(name, s.StringType() if isinstance(type_, UnknownType) else spark_type(type_, name, time=time)))
        arrays.append(values.take(pa.array(first)))
    made = pa.Table.from_arrays(arrays, names=[f.name for f in fields])
    facts = scan.sparkSession.createDataFrame(made, schema=s.StructType(fields))
    beside = scan.join(F.broadcast(facts), F.col(FILE) == F.col(_FILE), "left")
    unknown = F.raise_error(F.lit("A file of the scan was not planned by Frazil."))
    return beside.withColumns({n: F.when(F.col(_FOUND), F.col(n)).otherwise(unknown) for n in columns}).drop(_FILE, _FOUND)


def partition_values(table: pa.Table, fields: Iterable[tuple[int, IcebergType]]) -> dict[int, pa.Array]:
    """Partition values of a plan's table by partition field id, as Spark shows them."""
    column = table.column("partition").combine_chunks()
    children = {column.type.field(n).name: n for n in range(column.type.num_fields)}
    found = {}
    for field_id, type_ in fields:
        if (at := children.get(str(field_id))) is not None:
            found[field_id] = shown(column.flatten()[at], type_)
    return found
