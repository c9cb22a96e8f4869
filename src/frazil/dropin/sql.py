"""Route `spark.sql` of a prepared session: Spark runs the statement, and asks Frazil's catalogs for their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.dropin.catalogs import register
from frazil.spark.host.jvm_relations import HAS_VIEWS
from frazil.spark.host.quiet import quietly
from frazil.sql import view_statements


def run(spark_sql: Callable[..., Any], spark: Any, sqlQuery: str, args: Any = None, **named: Any) -> Any:
    """Run a statement, after the session's catalogs were looked over: settings may have changed."""
    served = register(spark)
    with quietly():
        if not HAS_VIEWS and not args and not named and (answer := view_statements.run(spark, sqlQuery, served)) is not None:
            return answer
        return spark_sql(sqlQuery, args, **named)
