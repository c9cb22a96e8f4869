"""Route `spark.sql` of a prepared session: Spark runs the statement, asks Frazil's catalogs for their tables, and hands over the statements
that it cannot parse or plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError

from frazil.dropin.catalogs import register
from frazil.dropin.default_catalog import serve_default
from frazil.dropin.sql_names import SessionNames
from frazil.errors import InvalidInput
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, jvm_of
from frazil.spark.host.jvm_parser import parse_by
from frazil.spark.host.quiet import quietly
from frazil.sql.statements import SessionStatements
from frazil.table.engines import active_session


def run(spark_sql: Callable[..., Any], spark: Any, sqlQuery: str, args: Any = None, **named: Any) -> Any:
    """Run a statement, after the session's catalogs were looked over: settings may have changed."""
    register(spark)
    serve_default(spark, sqlQuery)
    with quietly():
        return spark_sql(sqlQuery, args, **named)


def sql(sqlQuery: str, spark: Any = None, args: Any = None, **named: Any) -> Any:
    """Run Spark SQL over Frazil's catalogs and return the DataFrame, as `spark.sql` does in a session that `frazil.install` has prepared.

    `spark`: the session (None: the running one), which comes to know Frazil's catalogs by that; nothing else of it changes. `args` and
    keyword arguments: as those of `spark.sql`. Raises InvalidInput without a session.
    """
    session = active_session() if spark is None else spark
    if session is None:
        raise InvalidInput("frazil.sql needs a running SparkSession.", hint="frazil.spark_session() starts one.")
    register(session)
    take_statements(session)
    serve_default(session, sqlQuery)
    with quietly():
        return session.sql(sqlQuery, args, **named)


def take_statements(spark: Any) -> None:
    """Let a classic session hand over the statements that Spark cannot parse or plan. Where Spark's inside has changed, it does not, and a
    warning says so once."""
    if jvm_of(spark) is None:
        return
    try:
        parse_by(spark, SessionStatements(spark, SessionNames(spark)))
    except (*NOT_AS_KNOWN, Py4JJavaError) as error:
        loss = "DELETE, UPDATE, MERGE and Iceberg's extension statements are not taken; the methods of tables are."
        fall_back("The parser of a session", error, loss)
