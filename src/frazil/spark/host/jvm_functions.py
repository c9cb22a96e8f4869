"""Make the objects of Iceberg's functions of SQL (`system.bucket`, `truncate`, `years`, …) for Spark,
and convert the parameters, arguments and rows of its procedures.

A function of a catalog is called in tasks, which objects of this process do not reach: they are
classes of Java (`spark/jvm/Functions.java`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.jvm import SPARK, Jvm, classic_jvm
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes
from frazil.spark.host.jvm_classes import let_tasks_load, make

_TYPES = f"{SPARK}sql.types."


def integer_type(jvm: Jvm) -> Any:
    """Return Spark's type INT, in the JVM."""
    return getattr(jvm.view, f"{_TYPES}DataTypes").IntegerType


def scalar_function(spark: Session, class_name: str, name: str, takes: Sequence[Any]) -> Any:
    """Make Spark's ScalarFunction of a class of `Functions.java`. `takes`: Spark's types of its
    arguments, in the JVM.
    """
    let_tasks_load(spark)
    types = getattr(classic_jvm(spark).view, f"{_TYPES}DataType")
    array = spark.sparkContext._gateway.new_array(types, len(takes))
    for place, of in enumerate(takes):
        array[place] = of
    return make(spark, f"Functions${class_name}", name, array)


_PARAMETER = CATALOG + "procedures.ProcedureParameter"


def parameters(types: CatalogTypes, described: Sequence[tuple[str, str, bool]]) -> Any:
    """Make an array of ProcedureParameter. `described`: the name, the type as SQL text, and whether
    it is required, of each.
    """
    return types.lasting(("parameters", *described), lambda: _parameters(types, described))


def _parameters(types: CatalogTypes, described: Sequence[tuple[str, str, bool]]) -> Any:
    kind = getattr(types.jvm.view, _PARAMETER)
    parse = getattr(types.jvm.view, "org.apache.spark.sql.types.DataType").fromDDL
    built = []
    for name, type_text, required in described:
        builder = getattr(kind, "in")(name, parse(type_text))
        built.append((builder if required else builder.defaultValue("NULL")).build())
    return types.array(kind, built)


def arguments(row: JavaObject, kinds: Sequence[str]) -> list[Any]:
    """Read the row of arguments that Spark calls a procedure with. Times are milliseconds since
    1970.
    """
    return [
        None if row.isNullAt(place) else _value(row, place, kind)
        for place, kind in enumerate(kinds)
    ]


def _value(values: JavaObject, place: int, kind: str) -> Any:
    match kind:
        case "STRING":
            return str(values.getUTF8String(place).toString())
        case "BOOLEAN":
            return bool(values.getBoolean(place))
        case "INT":
            return int(values.getInt(place))
        case "BIGINT":
            return int(values.getLong(place))
        case "DOUBLE":
            return float(values.getDouble(place))
        case "TIMESTAMP":
            return int(values.getLong(place)) // 1000
        case "ARRAY<STRING>" | "ARRAY<BIGINT>":
            return _members(values.getArray(place), kind[6:-1])
        case "MAP<STRING, STRING>":
            pairs = values.getMap(place)
            return dict(
                zip(
                    _members(pairs.keyArray(), "STRING"),
                    _members(pairs.valueArray(), "STRING"),
                    strict=True,
                )
            )
    raise NotImplementedError(f"A parameter of type {kind} cannot be read.")


def _members(array: JavaObject, kind: str) -> list[Any]:
    return [
        None if array.isNullAt(n) else _value(array, n, kind) for n in range(array.numElements())
    ]


def rows(spark: Session, stream: bytes, schema: s.StructType) -> Any:
    """Make an array of Spark's internal rows of a stream of Arrow with the types of `schema`. No job
    is run. (`createDataFrame` asks for eight settings by 26 calls before it does the same.)"""
    jvm = classic_jvm(spark)
    converters = getattr(
        getattr(jvm.view, f"{SPARK}sql.execution.arrow.ArrowConverters$"), "MODULE$"
    )
    channel = jvm.java_class("java.nio.channels.Channels").newChannel(
        jvm.java_class("java.io.ByteArrayInputStream")(stream)
    )
    frame = converters.toDataFrame(
        converters.getBatchesFromStream(channel), schema.json(), spark._jsparkSession
    )
    return frame.queryExecution().executedPlan().executeCollect()


def iterator_over(jvm: Jvm, scan: object) -> Any:
    """Make Java's iterator over one object of this process."""
    scans = jvm.java_class("java.util.ArrayList")()
    scans.add(scan)
    return scans.iterator()
