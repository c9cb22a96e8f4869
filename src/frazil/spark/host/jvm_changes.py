"""Read what Spark passes for ALTER TABLE and for defaults of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import types as s

from frazil.errors import Unsupported
from frazil.ops import table_definition as changes
from frazil.ops.session import Session
from frazil.spark.host.jvm_plans import session_frame

_CHANGING = re.compile(
    r"(?i)\b(?:current_\w+|now|localtimestamp|rand\w*|uuid|monotonically_increasing_id|session_user|user)\b"
)


def table_changes(spark: Session, of_java: JavaObject) -> list[changes.TableChange]:
    """Read an array of `TableChange`."""
    return [_change(spark, change) for change in of_java]


def _change(spark: Session, change: JavaObject) -> changes.TableChange:
    kind = str(change.getClass().getSimpleName())
    read = _READERS.get(kind)
    return changes.NotServed(_NAMES.get(kind, kind)) if read is None else read(spark, change)


def _path(change: JavaObject) -> changes.Path:
    return tuple(str(name) for name in change.fieldNames())


def _position(position: JavaObject) -> changes.ColumnPosition | None:
    if position is None:
        return None
    return (
        changes.FIRST
        if str(position.getClass().getSimpleName()) == "First"
        else ("AFTER", str(position.column()))
    )


def _type(data_type: JavaObject) -> s.DataType:
    return s._parse_datatype_json_string(data_type.json())


def _added(spark: Session, change: JavaObject) -> changes.AddColumn:
    of_java, default = _type(change.dataType()), change.defaultValue()
    value = None if default is None else constant(spark, str(default.getSql()), of_java)
    comment = change.comment()
    return changes.AddColumn(
        _path(change),
        of_java,
        bool(change.isNullable()),
        None if comment is None else str(comment),
        _position(change.position()),
        value,
    )


_READERS: Mapping[str, Callable[[Any, Any], changes.TableChange]] = {
    "AddColumn": _added,
    "DeleteColumn": lambda _, c: changes.DeleteColumn(_path(c), bool(c.ifExists())),
    "RenameColumn": lambda _, c: changes.RenameColumn(_path(c), str(c.newName())),
    "UpdateColumnType": lambda _, c: changes.ChangeType(_path(c), _type(c.newDataType())),
    "UpdateColumnComment": lambda _, c: changes.ChangeComment(_path(c), str(c.newComment() or "")),
    "UpdateColumnNullability": lambda _, c: changes.ChangeNullable(_path(c), bool(c.nullable())),
    "UpdateColumnPosition": lambda _, c: changes.MoveColumn(
        _path(c), _position(c.position()) or changes.FIRST
    ),
    "UpdateColumnDefaultValue": lambda _, c: changes.ChangeDefault(
        _path(c), str(c.newDefaultValue() or "")
    ),
    "SetProperty": lambda _, c: changes.SetProperty(str(c.property()), str(c.value())),
    "RemoveProperty": lambda _, c: changes.RemoveProperty(str(c.property())),
}
_NAMES = {
    "ClusterBy": "CLUSTER BY",
    "AddConstraint": "ADD CONSTRAINT",
    "DropConstraint": "DROP CONSTRAINT",
}


def namespace_changes(of_java: JavaObject) -> tuple[list[str], dict[str, str]]:
    """Read an array of `NamespaceChange`: the properties to remove, and those to set."""
    removals: list[str] = []
    updates: dict[str, str] = {}
    for change in of_java:
        if str(change.getClass().getSimpleName()) == "SetProperty":
            updates[str(change.property())] = str(change.value())
        else:
            removals.append(str(change.property()))
    return removals, updates


def constant(spark: Session, text: str, data_type: s.DataType) -> Any:
    """Evaluate the default of a column, given as SQL text, to the value that the format keeps:
    days, microseconds, numbers, text or bytes.

    Raises Unsupported for a text whose value is another one at each time, since a table keeps
    constants.
    """
    if _CHANGING.search(re.sub(r"'(?:[^'\\]|\\.)*'", "", text)):
        raise Unsupported(
            f"DEFAULT {text} has another value at each time: Iceberg keeps constants as defaults."
        )
    frame = session_frame(
        spark, spark._jsparkSession.sql(f"SELECT CAST(({text}) AS {_sql(data_type)}) AS value")
    )
    row = frame._jdf.queryExecution().executedPlan().executeCollect()[0]
    if row.isNullAt(0):
        return None
    match data_type:
        case s.BooleanType():
            return bool(row.getBoolean(0))
        case s.ByteType():
            return int(row.getByte(0))
        case s.ShortType():
            return int(row.getShort(0))
        case s.IntegerType() | s.DateType():
            return int(row.getInt(0))
        case s.LongType() | s.TimestampType() | s.TimestampNTZType():
            return int(row.getLong(0))
        case s.FloatType():
            return float(row.getFloat(0))
        case s.DoubleType():
            return float(row.getDouble(0))
        case s.DecimalType():
            return Decimal(str(row.getDecimal(0, data_type.precision, data_type.scale).toString()))
        case s.StringType() | s.CharType() | s.VarcharType():
            return str(row.getUTF8String(0).toString())
        case s.BinaryType():
            return bytes(row.getBinary(0))
    raise Unsupported(f"A column of type {data_type.simpleString()} takes no default.")


def _sql(data_type: s.DataType) -> str:
    return (
        "STRING"
        if isinstance(data_type, s.StringType | s.CharType | s.VarcharType)
        else data_type.simpleString()
    )
