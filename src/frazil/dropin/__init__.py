"""Route PySpark's reader, writer and catalog to Frazil, so that scripts written for the Iceberg jar
of Java run unchanged.

Entry point: `install(spark)`. PySpark's entry points are properties of its classes, so the classes
are hooked, once, at the first `install` of a process. Each hook asks the session whether it was
prepared; any other session behaves as PySpark does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.dropin.catalogs import register
from frazil.dropin.hooks import hook_classes, mark
from frazil.dropin.sql import take_statements
from frazil.errors import InvalidInput
from frazil.ops.session import Session
from frazil.spark.host import jvm_classes, session
from frazil.spec.on_demand import module_on_demand

if TYPE_CHECKING:
    from pyspark import sql as pyspark_sql
else:
    pyspark_sql = module_on_demand("pyspark.sql")


def install(spark: Session) -> Any:
    """Prepare a running session, classic or Connect, for Iceberg tables and return it. Calling it
    again changes nothing.

    With a local master, workers run this Python, unless another one was chosen (PYSPARK_PYTHON,
    spark.pyspark.python). Afterwards `spark.table`, `spark.read.format("iceberg")`,
    `spark.read.table`, `df.write.format("iceberg")`, `saveAsTable`, `insertInto`, `df.writeTo`,
    `df.mergeInto`, `spark.readStream`, `df.writeStream`, `spark.sql` and `spark.catalog` know
    Frazil's catalogs. Raises InvalidInput if `spark` is not a session.
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidInput(
            f"install takes a running SparkSession, not {spark!r}.",
            hint="frazil.spark_session() gives one that is ready.",
        )
    session.use_this_python(spark)
    hook_classes(spark)
    mark(spark)
    jvm_classes.prepare(spark)
    register(spark)
    take_statements(spark)
    return spark


def configure(builder: pyspark_sql.SparkSession.Builder) -> Any:
    """Prepare a session builder and return it: workers run this Python, unless PYSPARK_PYTHON is
    set, and its sessions are installed.

    Raises InvalidInput for what is no builder.
    """
    if not hasattr(builder, "getOrCreate"):
        raise InvalidInput(
            f"configure takes a builder, not {builder!r}.",
            hint="Call frazil.configure(SparkSession.builder).",
        )
    get_or_create = session.configure(builder).getOrCreate
    builder.getOrCreate = lambda: install(get_or_create())
    return builder


def spark_session(
    app_name: str | None = None, master: str | None = None, config: Mapping[str, Any] | None = None
) -> Any:
    """Return the running session or a new one, installed for Iceberg. `master` defaults to Spark's
    own default; `config` has settings of Spark, those of catalogs included
    (`spark.sql.catalog.<name>.<key>`)."""
    return install(session.spark_session(app_name, master, config))


__all__ = ["configure", "install", "server", "spark_session", "sql"]
