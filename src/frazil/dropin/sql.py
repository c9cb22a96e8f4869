"""Route `spark.sql` of a prepared session: Spark runs the statement, and asks Frazil's catalogs for their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.dropin.catalogs import register
from frazil.spark.host.quiet import quietly


def run(spark_sql: Callable[..., Any], spark: Any, sqlQuery: str, args: Any = None, **named: Any) -> Any:
    """Run a statement, after the session's catalogs were looked over: settings may have changed."""
    register(spark)
    with quietly():
        return spark_sql(sqlQuery, args, **named)
