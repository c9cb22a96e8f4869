"""What Python adds to statements that change rows (tests/cases/rows.test has them): classes of errors,
parameters, frames, and which files are read.
"""

from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException, ParseException

import frazil
from frazil.errors import InvalidInput, NoSuchRefError, SchemaMismatch
from tests.sql.statements_on_spark import lake_of

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark, tmp_path):
    with lake_of(spark, tmp_path) as lake:
        yield lake


@pytest.mark.versions
@pytest.mark.parametrize(
    "text, rows, unread",
    [
        ("DELETE FROM {t} WHERE id >= (SELECT min(k) FROM keys) AND id <= (SELECT max(k) FROM keys)", [(1, 10), (4, 40)], (1, 4)),
        ("WITH c AS (SELECT max(id) AS x FROM {t}) DELETE FROM {t} AS a WHERE a.id = (SELECT x - 1 FROM c)", [(1, 10), (2, 20), (4, 40)], ()),
        ("DELETE FROM {t} WHERE id = 4 OR EXISTS (SELECT 1 FROM keys WHERE k > 9)", [(1, 10), (2, 20), (3, 30)], (1, 2, 3)),
        ("DELETE FROM {t} WHERE id <= (SELECT k FROM keys WHERE k > 9)", [(1, 10), (2, 20), (3, 30), (4, 40)], (1, 2, 3, 4)),
        ("DELETE FROM {t} WHERE id = (SELECT min(k) FROM keys) AND soundex(s) = 'B000'", [(1, 10), (3, 30), (4, 40)], (1, 3, 4)),
        ("DELETE FROM {t} WHERE id = (SELECT min(k) FROM keys) AND (SELECT sum(k) FROM keys WHERE k = id) = 2", [(1, 10), (3, 30), (4, 40)], (1, 3, 4)),
        ("UPDATE {t} SET v = (SELECT sum(k) FROM keys) WHERE id > (SELECT max(k) FROM keys)", [(1, 10), (2, 20), (3, 30), (4, 5)], (1, 2, 3)),
        ("UPDATE {t} SET v = (SELECT max(v) + 2 FROM {t}) WHERE EXISTS (SELECT 1 FROM keys)", [(n, 42) for n in (1, 2, 3, 4)], ()),
        (
            """MERGE INTO {t} USING keys ON id = k AND id < (SELECT max(k) FROM keys)
            WHEN MATCHED AND v = (SELECT 20) THEN UPDATE SET v = (SELECT -k FROM keys WHERE k = 3)""",
            [(1, 10), (2, -3), (3, 30), (4, 40)], (1, 4),
        ),
    ],
)  # fmt: skip
def test_sub_queries_that_do_not_depend_on_the_row_are_evaluated_first_and_their_values_prune(
    lake, text, rows, unread
):
    t = lake.table(partition_by=["id"])
    lake.spark.range(2, 4).toDF("k").createOrReplaceTempView("keys")
    away = [
        Path(f["file_path"].removeprefix("file://"))
        for f in t.inspect.files().to_pylist()
        if f["partition"]["id"] in unread
    ]
    for path in away:
        path.rename(path.with_suffix(".away"))
    lake.sql(text.format(t="lake.db.t"))
    for path in away:
        path.with_suffix(".away").rename(path)
    assert lake.rows() == rows


@pytest.mark.parametrize(
    "text, error",
    [
        ("UPDATE lake.db.t SET v = nope", AnalysisException),
        ("UPDATE lake.db.t SET v = 1, v = 2", InvalidInput),
        ("UPDATE lake.db.t SET v = 'x'", SchemaMismatch),
        ("DELETE FROM lake.db.t WHERE id ==== 1", ParseException),
        ("DELETE FROM lake.db.t.branch_nope WHERE id = 1", NoSuchRefError),
    ],
)
def test_errors_are_of_spark_s_own_classes_or_ours(lake, text, error):
    lake.table()
    with pytest.raises(Exception) as raised:
        lake.sql(text)
    assert isinstance(raised.value, error) or (
        error is InvalidInput and isinstance(raised.value, ValueError)
    ), type(raised.value)


@pytest.mark.versions
@pytest.mark.parametrize(
    "text, condition, kind",
    [
        ("UPDATE lake.db.t SET v = 3000000000", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = CAST(s AS int)", "CAST_INVALID_INPUT", "NumberFormatException"),
        ("DELETE FROM lake.db.t WHERE CAST(s AS date) = DATE '2020-01-01'", "CAST_INVALID_INPUT", "DateTimeException"),
        ("UPDATE lake.db.t SET n = NULL", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("MERGE INTO lake.db.t t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS", "AnalysisException"),
    ],
)  # fmt: skip
def test_values_that_fail_have_the_condition_and_class_that_spark_has_for_them(
    lake, text, condition, kind
):
    lake.sql(
        "CREATE TABLE lake.db.t (id bigint, v int, s string, d decimal(4, 2), n string NOT NULL)"
    )
    lake.sql("INSERT INTO lake.db.t VALUES (1, 10, 'a', 1, 'a'), (2, 20, 'b', 2, 'b')")
    with pytest.raises(getattr(pyspark.errors, kind)) as raised:
        lake.sql(text)
    assert raised.value.getCondition() == condition and condition in str(raised.value)
    assert lake.snapshots() == 1


@pytest.mark.versions
def test_merge_refuses_windows_of_times_by_name(lake):
    with pytest.raises(InvalidInput, match="windows of times"):
        lake.table().merge(
            lake.spark.sql("SELECT 1L AS id, 9 AS v"),
            "t.id = s.id AND window(timestamp_seconds(t.v), '2 second').start > '1970-01-01'",
            target_alias="t",
            source_alias="s",
        ).when_matched_delete().execute()
    assert lake.rows() == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.versions
def test_parameters_variables_and_frames_are_taken(lake):
    lake.table()
    lake.sql("DELETE FROM lake.db.t WHERE id = :x", {"x": 4})
    lake.sql("UPDATE lake.db.t SET v = ? WHERE id = ?", [7, 3])
    lake.sql(
        "UPDATE IDENTIFIER(:name) SET s = 'by name' WHERE id = 1", {"name": f"{lake.name}.db.t"}
    )
    lake.sql(
        "MERGE INTO lake.db.t USING {df} AS d ON t.id = d.id WHEN MATCHED THEN UPDATE SET v = 8",
        df=lake.spark.range(1, 2),
    )
    lake.sql("DECLARE OR REPLACE VARIABLE i BIGINT DEFAULT 2")
    lake.sql("UPDATE lake.db.t SET v = i + 1 WHERE id = i")
    lake.sql("EXECUTE IMMEDIATE 'DELETE FROM lake.db.t WHERE id = ?' USING 3")
    lake.sql("DROP TEMPORARY VARIABLE i")
    assert lake.rows("id", "v", "s") == [(1, 8, "by name"), (2, 3, "b")]


def test_tables_of_spark_s_are_left_to_spark(lake):
    lake.spark.sql("CREATE OR REPLACE TEMP VIEW of_spark AS SELECT 1 AS id")
    with pytest.raises(
        Exception, match="(?i)not supported|Unexpected table relation|temporary view|cannot"
    ) as raised:
        lake.spark.sql("DELETE FROM of_spark WHERE id = 1")
    assert "frazil" not in str(raised.value)
    lake.spark.catalog.dropTempView("of_spark")


def test_frazil_sql_serves_a_session_that_was_not_prepared(plain_spark, tmp_path):
    other = plain_spark.newSession()
    with lake_of(other, tmp_path) as lake:
        lake.table()
        frazil.sql(f"DELETE FROM {lake.name}.db.t WHERE id = :x", other, {"x": 1})
        assert frazil.last_result(other).rows_deleted == 1
        assert frazil.sql(f"SELECT id FROM {lake.name}.db.t ORDER BY id", other).first()[0] == 2
