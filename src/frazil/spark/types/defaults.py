"""Initial defaults as the SQL text that Spark keeps in a column's metadata (`EXISTS_DEFAULT`)."""

from __future__ import annotations

import math
from typing import Any

from frazil.spec import types as i


def default_sql(type_: i.IcebergType, value: Any) -> str | None:
    """SQL of a default (an internal value); None for types whose default Spark's vectorised reader refuses (binary and nested ones)."""
    match type_:
        case i.BooleanType():
            return "true" if value else "false"
        case i.IntegerType() | i.LongType():
            return f"CAST('{value}' AS {'INT' if isinstance(type_, i.IntegerType) else 'BIGINT'})"
        case i.FloatType() | i.DoubleType():
            text = "NaN" if math.isnan(value) else "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else repr(value)
            return f"CAST('{text}' AS {'FLOAT' if isinstance(type_, i.FloatType) else 'DOUBLE'})"
        case i.DecimalType():
            return f"CAST('{value:f}' AS DECIMAL({type_.precision}, {type_.scale}))"
        case i.DateType():
            return f"date_from_unix_date({value})"
        case i.TimestamptzType():
            return f"timestamp_micros({value})"
        case i.TimestampType():
            days, micros = divmod(value, 86_400_000_000)
            return f"timestampadd(MICROSECOND, {micros}, CAST(date_from_unix_date({days}) AS TIMESTAMP_NTZ))"
        case i.StringType():
            text = str(value).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{text}'"
    return None
