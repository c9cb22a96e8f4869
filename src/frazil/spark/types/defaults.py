"""Express a column's default as the Spark SQL text (`EXISTS_DEFAULT`) by which Spark fills files
that lack the column.
"""

from __future__ import annotations

import math
from typing import Any

from frazil.spec import types as i


def default_sql(type_: i.IcebergType, value: Any) -> str | None:
    """Return the SQL text of a default, which is given as an internal value. None for binary and
    nested types, for which Spark's vectorised reader refuses a default."""
    match type_:
        case i.BooleanType():
            return "true" if value else "false"
        case i.IntegerType() | i.LongType():
            return f"CAST('{value}' AS {'INT' if isinstance(type_, i.IntegerType) else 'BIGINT'})"
        case i.FloatType() | i.DoubleType():
            text = (
                "NaN"
                if math.isnan(value)
                else "Infinity"
                if value == math.inf
                else "-Infinity"
                if value == -math.inf
                else repr(value)
            )
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
