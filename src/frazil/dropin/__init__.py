"""Scripts written for the Java jar run unchanged: in sessions it was called on, `install` sends Iceberg's reads and writes to Frazil.

Door: `install(spark)`. PySpark's entry points are properties of classes, so those are hooked, once, at the first `install` of a process;
each hook asks the session whether it was prepared, and in any other session what PySpark does is what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.dropin.hooks import hook_classes, mark
from frazil.errors import InvalidInput
from frazil.spark.host import session


def install(spark: Any) -> Any:
    """Prepares a running session, classic or Connect, and returns it. Calling it again changes nothing.

    With a local master the workers become this Python, unless another was chosen (PYSPARK_PYTHON, spark.pyspark.python).
    Afterwards `spark.table`, `spark.read.format("iceberg")`, `spark.read.table`, `df.write.format("iceberg")`, `saveAsTable`,
    `insertInto`, `df.writeTo`, `df.mergeInto`, `spark.readStream` and `spark.catalog.tableExists` know Frazil's catalogs. Streaming writes
    and SQL text that name Frazil's tables are refused by name.
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidInput(f"install takes a running SparkSession, not {spark!r}.", hint="frazil.spark_session() gives one that is ready.")
    session.use_this_python(spark)
    hook_classes(spark)
    mark(spark)
    return spark


def configure(builder: Any) -> Any:
    """A builder of your own, made ready: workers get this Python, unless PYSPARK_PYTHON is set, and what it makes is installed."""
    if not hasattr(builder, "getOrCreate"):
        raise InvalidInput(f"configure takes a builder, not {builder!r}.", hint="frazil.configure(SparkSession.builder).")
    made = session.configure(builder).getOrCreate
    builder.getOrCreate = lambda: install(made())
    return builder


def spark_session(app_name: str | None = None, master: str | None = None, config: Mapping[str, Any] | None = None) -> Any:
    """The running session or a new one, ready for Iceberg and installed. `master` defaults to what Spark itself would take; `config`
    are settings of Spark, catalogs included (`spark.sql.catalog.<name>.<key>`)."""
    return install(session.spark_session(app_name, master, config))


__all__ = ["configure", "install", "spark_session"]
