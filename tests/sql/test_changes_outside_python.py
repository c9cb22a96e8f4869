"""Changes of rows that no text was parsed for reach a table from the JVM's Dataset, as Scala and the
plain clients of Spark Connect call it, also in a session that the JVM has just made.
"""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

pytestmark = [pytest.mark.spark, pytest.mark.versions]
CHANGED = [(1, "a", "x"), (2, "b", "z"), (3, "c", "n")]


def merge(rows, table, called="t"):
    writer = getattr(rows, "as")("s").mergeInto(table, F.expr(f"{called}.id = s.id")._jc)
    writer.whenMatched().updateAll().whenNotMatched().insertAll().merge()


def overwrite_partitions(rows, table):
    rows.writeTo(table).overwritePartitions()


@pytest.mark.parametrize("change", [merge, overwrite_partitions])
@pytest.mark.parametrize("of_session", ["its own", "new"])
def test_the_jvms_dataset_changes_rows(lake, spark, of_session, change):
    table = f"{lake}.db.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, p STRING, v STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    session = spark._jsparkSession
    if of_session == "new":
        session = session.newSession()
        for key in ("", ".type", ".uri", ".warehouse"):
            name = f"spark.sql.catalog.{lake}{key}"
            session.conf().set(name, spark.conf.get(name))
    columns = ("id + 2 AS id", "IF(id = 0, 'b', 'c') AS p", "IF(id = 0, 'z', 'n') AS v")
    rows = session.range(0, 2).selectExpr(spark._jvm.PythonUtils.toSeq(list(columns)))
    change(rows, table)
    assert sorted(map(tuple, spark.table(table).collect())) == CHANGED


def test_a_table_that_is_missing_is_sparks_to_refuse(lake, spark):
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        merge(spark.range(1)._jdf, f"{lake}.db.missing", "missing")


def test_a_session_has_the_strategy_once(lake, spark):
    strategies = spark._jsparkSession.experimental().extraStrategies()
    names = [str(strategies.apply(n).getClass().getName()) for n in range(strategies.size())]
    assert names.count("frazil.spark.jvm.PartitionOverwrites") == 1
