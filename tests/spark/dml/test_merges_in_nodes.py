"""Which Columns of a MERGE Frazil's nodes can say, and deletes and updates whose Columns
call the table by a name.
"""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.commit.new_table import new_metadata
from frazil.rows.clauses import Merge, matched_update
from frazil.spark.dml.merge_nodes import in_nodes
from frazil.spec.schema import Schema
from frazil.spec.types import IntegerType, LongType, NestedField

pytestmark = pytest.mark.spark
SCHEMA = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "v", IntegerType(), False))
METADATA = new_metadata(SCHEMA)


@pytest.mark.parametrize(
    "value, node",
    [
        ("s.v + 1", "(source.v + 1)"),
        ("nvl(s.v, t.v)", "coalesce(source.v, target.v)"),
        (
            "nullif(s.v, t.v)",
            "CASE WHEN (source.v = target.v) THEN CAST(NULL AS int) ELSE source.v END",
        ),
        ("try_add(s.v, 1)", None),
        ("CASE WHEN EXISTS (SELECT 1 FROM range(3) r WHERE r.id = s.id) THEN 1 ELSE 2 END", None),
    ],
)
def test_a_column_is_translated_only_where_frazils_nodes_mean_the_same(plain_spark, value, node):
    source = plain_spark.range(1).selectExpr("id", "1 AS v").alias("s")
    merge = in_nodes(
        source,
        METADATA,
        Merge(F.expr("t.id = s.id"), (matched_update({"v": F.expr(value)}),), "t", ""),
    )
    assert (None if merge.native is None else str(merge.clauses[0].assignments[0][1])) == node


def test_a_variable_of_sql_is_its_value_and_no_column(plain_spark):
    plain_spark.sql("DECLARE OR REPLACE VARIABLE v INT DEFAULT 7")
    try:
        source = plain_spark.range(1).selectExpr("id", "1 AS w").alias("s")
        merge = in_nodes(
            source,
            METADATA,
            Merge(
                F.expr("t.id = s.id"), (matched_update({"v": F.expr("s.w + session.v")}),), "t", ""
            ),
        )
        assert str(merge.clauses[0].assignments[0][1]) == "(source.w + 7)"
    finally:
        plain_spark.sql("DROP TEMPORARY VARIABLE v")


def test_columns_of_delete_and_update_call_the_table_by_its_alias(plain_spark, home):
    t = home.create_table("db.t", SCHEMA)
    t.append(pa.table({"id": [1, 2, 3], "v": pa.array([1, 2, 3], pa.int32())}))
    t.update(
        {"v": F.expr("nullif(cat.db.t.v, 2)")},
        F.col("t.id") < 3,
        spark=plain_spark,
        target_alias="cat.db.t",
    )
    t.delete(
        F.expr("x.id IN (SELECT max(id) + 2 FROM range(2))"), spark=plain_spark, target_alias="x"
    )
    assert t.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": 1},
        {"id": 2, "v": None},
    ]
