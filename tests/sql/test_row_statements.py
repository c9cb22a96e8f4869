"""DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE through `spark.sql`, from the statement as Spark has
parsed it.
"""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException, ParseException

import frazil
from frazil.errors import InvalidInput, NoSuchRefError, SchemaMismatch, Unsupported
from tests.sql.statements_on_spark import lake_of

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark, tmp_path):
    with lake_of(spark, tmp_path) as lake:
        yield lake


# Metadata columns
# -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.versions
@pytest.mark.parametrize(
    "statement, rows",
    [
        ("DELETE FROM lake.db.t WHERE _pos < 2", [(3, 30), (4, 40)]),
        ("DELETE FROM lake.db.t AS x WHERE x._POS = 3 AND lower(s) = 'd'", [(1, 10), (2, 20), (3, 30)]),
        ("DELETE FROM lake.db.t WHERE _file IN (SELECT _file FROM lake.db.t) AND _spec_id = 0", []),
        ("DELETE FROM lake.db.t WHERE EXISTS (SELECT 1 FROM range(2) r WHERE r.id = _pos)", [(3, 30), (4, 40)]),
        ("DELETE FROM lake.db.t WHERE _row_id = 1", [(1, 10), (3, 30), (4, 40)]),
        ("UPDATE lake.db.t SET v = -_pos WHERE lake.db.t._pos >= 2", [(1, 10), (2, 20), (3, -2), (4, -3)]),
        ("UPDATE lake.db.t SET v = 0 WHERE _last_updated_sequence_number = 1", [(i, 0) for i in (1, 2, 3, 4)]),
        ("UPDATE lake.db.t SET v = 0 WHERE _partition IS NOT NULL", [(i, 10 * i) for i in (1, 2, 3, 4)]),
        (
            """MERGE INTO lake.db.t t USING (SELECT _file, _pos, 7 AS new FROM lake.db.t WHERE id = 3) s
            ON t._file = s._file AND t._pos = s._pos WHEN MATCHED THEN UPDATE SET v = new + t._pos
            WHEN NOT MATCHED BY SOURCE AND t._pos = 0 THEN DELETE""",
            [(2, 20), (3, 9), (4, 40)],
        ),
        (
            """MERGE INTO lake.db.t USING (SELECT id + 1 AS id, 5 AS v, s, st FROM lake.db.t) n
            ON t.id = n.id AND _pos < 2 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
            [(1, 10), (2, 5), (3, 30), (3, 5), (4, 40), (4, 5), (5, 5)],
        ),
    ],
)  # fmt: skip
def test_metadata_columns_are_named_in_conditions_and_values(lake, statement, rows):
    for mode in ("copy-on-write", "merge-on-read"):
        modes = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
        lake.table("db.t", properties={"format-version": "3", **modes})
        lake.sql(statement)
        assert lake.rows() == rows, mode
        lake.sql("DROP TABLE lake.db.t")


def test_metadata_columns_that_rows_do_not_have_and_deleted_rows_are_not_named(lake):
    lake.table()
    for condition in ("_row_id = 1", "_last_updated_sequence_number = 1", "_deleted"):
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            lake.sql(f"DELETE FROM lake.db.t WHERE {condition}")
    with pytest.raises(InvalidInput, match="no column '_pos'"):
        lake.sql("UPDATE lake.db.t SET _pos = 1")
    lake.sql("ALTER TABLE lake.db.t ADD COLUMN _pos int")
    lake.sql("UPDATE lake.db.t SET _pos = 7 WHERE _pos IS NULL AND id > 2")
    t = lake.catalog.load_table("db.t")
    assert sorted(t.scan().to_arrow()["_pos"].to_pylist(), key=repr) == [7, 7, None, None]
    assert lake.snapshots() == 2


# DELETE
# -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.versions
@pytest.mark.parametrize(
    "text, left",
    [
        ("DELETE FROM lake.db.t WHERE id = 1", [2, 3, 4]),
        ("delete from lake.db.t as x where x.id > 2 and x.s in ('c', 'd');", [1, 2]),
        ("DELETE FROM lake.db.t WHERE lake.db.t.st.a = 2 OR db.t.v = 30 OR t.s <=> 'd'", [1]),
        ("DELETE FROM lake.db.t WHERE id = 1 OR nullif(v, 20) IS NULL", [3, 4]),
        ("DELETE FROM lake.db.t", []),
        ("TRUNCATE TABLE lake.db.t", []),
        ("/* first */ DELETE -- why\n FROM `lake`.`db`.`t` WHERE `id` /* (= 2) */ = 3", [1, 2, 4]),
    ],
)
def test_delete_removes_the_rows_of_its_condition_in_one_snapshot(lake, text, left):
    lake.table()
    frame = lake.sql(text.replace("`lake`", f"`{lake.name}`"))
    assert frame.columns == [] and frame.collect() == []
    assert [i for (i,) in lake.rows("id")] == left
    assert lake.snapshots() == 2
    assert frazil.last_result(lake.spark).rows_deleted == 4 - len(left)


@pytest.mark.parametrize(
    "text, left",
    [
        ("DELETE FROM lake.db.t WHERE id IN (SELECT max(id) FROM lake.db.t)", [1, 2, 3]),
        (
            "DELETE FROM lake.db.t WHERE EXISTS (SELECT 1 FROM lake.db.t u WHERE u.id = t.id + 2)",
            [3, 4],
        ),
        (
            "WITH two AS (SELECT 2L AS x) DELETE FROM lake.db.t WHERE id NOT IN (SELECT x FROM two)",
            [2],
        ),
    ],
)
def test_sub_queries_see_our_tables_spark_s_and_the_names_of_with(lake, text, left):
    lake.table()
    lake.sql(text)
    assert [i for (i,) in lake.rows("id")] == left


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


@pytest.mark.parametrize("verb", ["DELETE FROM lake.db.t", "UPDATE lake.db.t SET v = 0"])
def test_a_sub_query_of_several_rows_is_the_error_of_spark(lake, verb):
    lake.table()
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS") as of_select:
        lake.sql("SELECT (SELECT id FROM range(2))").collect()
    with pytest.raises(of_select.type, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        lake.sql(f"{verb} WHERE id > (SELECT id FROM range(2))")
    assert lake.snapshots() == 1


@pytest.mark.versions
@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM lake.db.t WHERE EXISTS (SELECT 1 FROM lake.db.u WHERE lake.db.u.id = lake.db.t.id)",
        "DELETE FROM lake.db.t AS a WHERE a.id = (SELECT max(lake.db.u.id) FROM lake.db.u)",
        "WITH c AS (SELECT lake.db.u.id FROM lake.db.u) DELETE FROM lake.db.t WHERE lake.db.t.id IN (SELECT c.id FROM c)",
        "MERGE INTO lake.db.t USING lake.db.u ON lake.db.t.id = lake.db.u.id WHEN MATCHED AND lake.db.u.v > 0 THEN DELETE",
        "BEGIN DELETE FROM lake.db.t WHERE id IN (SELECT lake.db.u.id FROM lake.db.u); END",
    ],
)
def test_columns_of_every_table_can_be_called_by_its_full_name(lake, text):
    lake.table()
    lake.table("db.u")
    lake.sql("DELETE FROM lake.db.u WHERE id <> 2")
    lake.sql(text)
    assert [i for (i,) in lake.rows("id")] == [1, 3, 4]


def test_a_delete_of_whole_partitions_is_a_change_of_metadata(lake):
    lake.table(partition_by=["s"])
    lake.sql("DELETE FROM lake.db.t WHERE s = 'a'")
    summary = lake.catalog.load_table("db.t").current_snapshot().summary
    assert (
        summary["operation"] == "delete"
        and summary["deleted-data-files"] == "1"
        and "added-data-files" not in summary
    )


@pytest.mark.versions
def test_names_are_looked_up_in_the_current_catalog_and_namespace(lake):
    lake.table()
    lake.spark.sql(f"USE {lake.name}.db")
    lake.spark.sql("DELETE FROM t WHERE id = 1")
    lake.spark.sql(f"USE {lake.name}")
    lake.spark.sql("UPDATE db.t SET v = 0 WHERE id = 2")
    lake.spark.sql("USE spark_catalog")
    with pytest.raises(AnalysisException, match="cannot be found"):
        lake.spark.sql("DELETE FROM db.t WHERE id = 3")
    assert lake.rows() == [(2, 0), (3, 30), (4, 40)]


# UPDATE
# -------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.versions
def test_update_sets_columns_struct_members_and_defaults(lake):
    t = lake.table(format_version=3)
    with t.update_schema() as update:
        update.add_column("d", "string", default_value="new")
    lake.sql(
        "UPDATE lake.db.t SET v = v + 1, st.a = t.v * 2, s = DEFAULT, d = 'x' WHERE db.t.id >= 3"
    )
    lake.sql("UPDATE lake.db.t AS u SET u.d = DEFAULT WHERE u.id = 3")
    assert lake.rows("id", "v", "s", "st", "d") == [
        (1, 10, "a", {"a": 1, "b": "x"}, "new"),
        (2, 20, "b", {"a": 2, "b": "x"}, "new"),
        (3, 31, None, {"a": 60, "b": "x"}, "new"),
        (4, 41, None, {"a": 80, "b": "x"}, "x"),
    ]


def test_update_takes_values_of_sub_queries(lake):
    lake.table()
    lake.sql(
        "UPDATE lake.db.t SET v = (SELECT count(*) FROM lake.db.t u), s = (SELECT max(s) FROM lake.db.t) WHERE id = 1"
    )
    assert lake.rows("id", "v", "s")[0] == (1, 4, "d")


@pytest.mark.parametrize(
    "text, error, match",
    [
        (
            "UPDATE lake.db.t SET v = nope",
            AnalysisException,
            r"(?s)UNRESOLVED_COLUMN.*`nope`.*line 1 pos 2\d",
        ),
        ("UPDATE lake.db.t SET nope = 1", AnalysisException, "UNRESOLVED_COLUMN.*`nope`"),
        ("UPDATE lake.db.t SET v = 1, v = 2", InvalidInput, "v"),
        ("UPDATE lake.db.t SET st.a = 1, st = NULL", InvalidInput, "st"),
        ("UPDATE lake.db.t SET v = 'x'", SchemaMismatch, "cannot safely cast STRING to INT"),
        (
            "DELETE FROM lake.db.t AS x WHERE t.id = 1",
            AnalysisException,
            "UNRESOLVED_COLUMN.*`t`.`id`",
        ),
        ("DELETE FROM lake.db.t WHERE rand() > 2", AnalysisException, "(?i)non.?deterministic"),
        (
            "DELETE FROM lake.db.nope WHERE id = 1",
            AnalysisException,
            "(?s)TABLE_OR_VIEW_NOT_FOUND.*line 1 pos 12",
        ),
        ("DELETE FROM lake.db.t WHERE id ==== 1", ParseException, "PARSE_SYNTAX_ERROR"),
        (
            "DELETE FROM lake.db.t.tag_x WHERE id = 1",
            InvalidInput,
            "only tables and branches take writes",
        ),
        ("DELETE FROM lake.db.t.branch_nope WHERE id = 1", NoSuchRefError, "does not exist"),
        (
            "ALTER TABLE lake.db.t ADD PARTITION FIELD foo(id)",
            InvalidInput,
            "Syntax error at or near 'foo'",
        ),
        ("ALTER TABLE lake.db.t CREATE BRANCH main", InvalidInput, "main"),
        (
            "MERGE INTO lake.db.t USING (SELECT 1L AS k) q ON t.id = q.nope WHEN MATCHED THEN DELETE",
            AnalysisException,
            "`q`.`nope`",
        ),
        (
            "MERGE INTO lake.db.t USING (SELECT 1L AS id) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET *",
            AnalysisException,
            "UNRESOLVED",
        ),
        (
            "MERGE INTO lake.db.t USING (SELECT explode(array(1L, 1L)) AS id) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET v = 0",
            InvalidInput,
            "more than one source row",
        ),
    ],
)
def test_errors_are_spark_s_own_or_ours_and_nothing_is_written(lake, text, error, match):
    lake.table()
    with pytest.raises(Exception, match=match) as raised:
        lake.sql(text)
    assert isinstance(raised.value, error) or (
        error is InvalidInput and isinstance(raised.value, ValueError)
    ), type(raised.value)
    assert lake.snapshots() == 1 and len(lake.rows()) == 4


@pytest.mark.versions
@pytest.mark.parametrize(
    "text, condition, kind",
    [
        ("UPDATE lake.db.t SET v = 3000000000", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = id + 3000000000", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = nullif(id + 3000000000, 1)", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = v / 0.5e-10", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET d = id * 1000", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = CAST(id + 3000000000 AS int)", "CAST_OVERFLOW", "ArithmeticException"),
        ("UPDATE lake.db.t SET d = CAST(id * 1000 AS decimal(4, 2))", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = v + 2147483647", "ARITHMETIC_OVERFLOW", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = nullif(v + 2147483647, 1)", "ARITHMETIC_OVERFLOW", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = v % (v - v)", "REMAINDER_BY_ZERO", "ArithmeticException"),
        ("UPDATE lake.db.t SET v = CAST(s AS int)", "CAST_INVALID_INPUT", "NumberFormatException"),
        ("DELETE FROM lake.db.t WHERE CAST(s AS date) = DATE '2020-01-01'", "CAST_INVALID_INPUT", "DateTimeException"),
        ("DELETE FROM lake.db.t WHERE v div (v - v) = 1", "DIVIDE_BY_ZERO", "ArithmeticException"),
        ("UPDATE lake.db.t SET n = NULL", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("UPDATE lake.db.t SET n = if(v = 10, NULL, 'x')", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("UPDATE lake.db.t SET n = nullif(n, 'a')", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("MERGE INTO lake.db.t t USING (SELECT 1L AS id, 3000000000 AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("MERGE INTO lake.db.t t USING (SELECT 1L AS id, CAST(NULL AS string) AS x) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.x", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("MERGE INTO lake.db.t t USING (SELECT 9L AS id, CAST(NULL AS string) AS x) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.x)", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
        ("MERGE INTO lake.db.t t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS", "AnalysisException"),
        ("INSERT INTO lake.db.t (id, v, n) VALUES (1, 3000000000, 'x')", "CAST_OVERFLOW_IN_TABLE_INSERT", "ArithmeticException"),
        ("INSERT INTO lake.db.t (id, n) VALUES (1, NULL)", "NOT_NULL_ASSERT_VIOLATION", "SparkRuntimeException"),
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


def test_the_store_assignment_policy_of_the_session_decides_which_types_are_taken(lake):
    lake.table()
    key = "spark.sql.storeAssignmentPolicy"
    try:
        lake.spark.conf.set(key, "STRICT")
        with pytest.raises(SchemaMismatch, match="BIGINT to INT"):
            lake.sql("UPDATE lake.db.t SET v = id")
        lake.spark.conf.set(key, "LEGACY")
        with pytest.raises(Unsupported, match="LEGACY"):
            lake.sql("UPDATE lake.db.t SET v = 1")
    finally:
        lake.spark.conf.unset(key)
    lake.sql("UPDATE lake.db.t SET v = id + 1")
    assert lake.rows() == [(1, 2), (2, 3), (3, 4), (4, 5)]


# MERGE
# --------------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def source(lake):
    lake.spark.createDataFrame(
        [(3, 300, "z"), (9, 900, "n")], "id long, v int, s string"
    ).createOrReplaceTempView("changes")
    yield
    lake.spark.catalog.dropTempView("changes")


@pytest.mark.versions
def test_merge_runs_all_kinds_of_clauses(lake, source):
    lake.table()
    lake.sql(
        """MERGE INTO lake.db.t USING changes ON t.id = changes.id
        WHEN MATCHED AND changes.v > 1000 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = changes.v, t.s = concat(t.s, changes.s), st.a = -1
        WHEN NOT MATCHED AND changes.v < 0 THEN INSERT (id) VALUES (changes.id)
        WHEN NOT MATCHED BY TARGET THEN INSERT (id, v, s) VALUES (changes.id, changes.v, DEFAULT)
        WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET v = t.v + 1"""
    )
    assert lake.rows("id", "v", "s", "st") == [
        (2, 21, "b", {"a": 2, "b": "x"}),
        (3, 300, "cz", {"a": -1, "b": "x"}),
        (4, 40, "d", {"a": 4, "b": "x"}),
        (9, 900, None, None),
    ]
    assert lake.snapshots() == 2


@pytest.mark.parametrize(
    "using",
    [
        "(SELECT id, v, s, NULL AS st FROM changes) AS c",
        "lake.db.source c",
        "c",
    ],
)
def test_a_source_is_a_query_a_table_or_a_name_of_with(lake, source, using):
    lake.table()
    lake.table("db.source")
    lake.sql(
        "MERGE INTO lake.db.source s USING changes c ON s.id = c.id WHEN MATCHED THEN UPDATE SET v = c.v, s = c.s, st = NULL"
    )
    lake.sql("DELETE FROM lake.db.source WHERE id <> 3")
    lake.sql("INSERT INTO lake.db.source VALUES (9, 900, 'n', NULL)")
    text = f"MERGE INTO lake.db.t AS t USING {using} ON t.id = c.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    lake.sql(
        f"WITH c AS (SELECT id, v, s, NULL AS st FROM changes) {text}" if using == "c" else text
    )
    assert lake.rows("id", "v", "s", "st")[2:] == [
        (3, 300, "z", None),
        (4, 40, "d", {"a": 4, "b": "x"}),
        (9, 900, "n", None),
    ]


@pytest.mark.versions
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE lake.db.t SET st = named_struct('b', 'new', 'a', 7) WHERE id = 1",
        "UPDATE lake.db.t SET st = CASE WHEN levenshtein(s, 'b') = 1 THEN named_struct('b', 'new', 'a', 7) END WHERE id = 1",
        "MERGE INTO lake.db.t USING (SELECT 1 AS id, named_struct('b', 'new', 'a', 7) AS st) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET st = q.st",
        "MERGE INTO lake.db.t USING (SELECT 1 AS id, 5 AS v, 'x' AS s, named_struct('b', 'new', 'a', 7) AS st) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET *",
    ],
)
def test_members_of_structs_are_matched_by_name(lake, text):
    lake.table()
    lake.sql(text)
    assert lake.rows("id", "st")[0] == (1, {"a": 7, "b": "new"})
    for wrong in ("named_struct('b', 'new')", "named_struct('b', 'x', 'a', 1, 'c', 2)", "struct(1, 2)"):  # fmt: skip
        with pytest.raises(AnalysisException) as refused:
            lake.sql(f"UPDATE lake.db.t SET st = {wrong}")
        assert refused.value.getCondition().startswith("INCOMPATIBLE_DATA_FOR_TABLE")
    with pytest.raises(AnalysisException, match="nope"):
        lake.sql("UPDATE lake.db.t SET st = named_struct('b', 'new', 'a', 7), v = nope")


@pytest.mark.versions
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE lake.db.t SET v = int('7'), s = string(id + 1) WHERE id = 1",
        "MERGE INTO lake.db.t USING (SELECT 1 AS id, '7' AS x) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET v = int(q.x), s = string(q.id + 1)",
        "UPDATE lake.db.t SET v = int('7'), s = string(id + 1) WHERE levenshtein(s, 'a') = 0",
    ],
)
def test_a_function_that_casts_is_kept_where_it_has_the_columns_type(lake, text):
    lake.table()
    lake.sql(text)
    assert lake.rows("id", "v", "s")[0] == (1, 7, "2")


@pytest.mark.versions
def test_a_star_takes_what_the_policy_lets_single_columns_take(lake):
    lake.table()
    lake.sql("ALTER TABLE lake.db.t ADD COLUMNS (d DOUBLE, f FLOAT)")
    lake.sql(
        "MERGE INTO lake.db.t USING (SELECT n AS id, 7L AS v, n AS s, NULL AS st, 1.5 AS d, 2.5D AS f FROM VALUES (4), (5) AS v(n)) q "
        "ON t.id = q.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lake.rows("id", "v", "s", "d", "f")[3:] == [
        (4, 7, "4", 1.5, 2.5),
        (5, 7, "5", 1.5, 2.5),
    ]


@pytest.mark.versions
def test_dates_and_times_are_converted_by_the_zone_of_the_session(lake):
    lake.sql("CREATE TABLE lake.db.t (id INT, ts TIMESTAMP, ntz TIMESTAMP_NTZ, d DATE)")
    lake.sql("INSERT INTO lake.db.t VALUES (1, timestamp '2026-07-01 02:00:00Z', NULL, NULL)")
    source = "SELECT id, ntz AS ts, ts AS ntz, ts AS d FROM lake.db.t"
    shown = "SELECT id, CAST(ts AS STRING), CAST(ntz AS STRING), CAST(d AS STRING) FROM lake.db.t"
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.sql("UPDATE lake.db.t SET ntz = ts, d = ts")
        evening = "2026-06-30 22:00:00"
        assert lake.sql(shown).collect() == [(1, evening, evening, "2026-06-30")]
        lake.sql("UPDATE lake.db.t SET ts = d WHERE levenshtein('a', 'b') = 1")
        midnight = "2026-06-30 00:00:00"
        assert lake.sql(shown).collect() == [(1, midnight, evening, "2026-06-30")]
        lake.sql(
            f"MERGE INTO lake.db.t USING ({source}) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET *"
        )
        lake.sql(
            f"MERGE INTO lake.db.t USING ({source}) q ON t.id + 9 = q.id WHEN NOT MATCHED THEN "
            "INSERT (id, d) VALUES (levenshtein('a', 'bc'), q.ts)"
        )
        assert lake.sql(shown + " ORDER BY id").collect() == [
            (1, evening, midnight, "2026-06-30"),
            (2, None, None, "2026-06-30"),
        ]
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.versions
def test_constants_that_fail_in_ansi_mode_are_null_without_it(lake):
    lake.table()
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        lake.sql("DELETE FROM lake.db.t WHERE id = 'abc' OR 1 / 0 > 0")
        lake.sql("UPDATE lake.db.t SET v = 1 / 0 WHERE id = '1.0'")
        lake.sql("UPDATE lake.db.t SET v = CAST('x' AS INT) WHERE id = 2")
        lake.sql(
            "MERGE INTO lake.db.t USING (SELECT 3 AS id) q ON t.id = q.id AND 1 / 0 IS NULL "
            "WHEN MATCHED THEN UPDATE SET v = CAST('x' AS INT)"
        )
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", "true")
    assert lake.rows() == [(1, None), (2, None), (3, None), (4, 40)]


def test_merge_with_schema_evolution_adds_the_columns_of_the_source(lake):
    lake.table()
    lake.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO lake.db.t t USING (SELECT 2L AS id, 5 AS v, 'q' AS s, t.st, 3.5D AS extra FROM lake.db.t t WHERE id = 2) n "
        "ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lake.rows("id", "v", "extra") == [
        (1, 10, None),
        (2, 5, 3.5),
        (3, 30, None),
        (4, 40, None),
    ]


@pytest.mark.versions
def test_merge_with_schema_evolution_widens_types_as_java_iceberg_does(lake):
    lake.sql("CREATE TABLE lake.db.t (id int, v int, f float, d decimal(5, 2), s struct<a: int>)")
    lake.sql("INSERT INTO lake.db.t VALUES (1, 1, 1, 1, struct(1))")

    def merge(source, action):
        lake.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO lake.db.t t USING (SELECT 1 AS id, {source}) n ON t.id = n.id WHEN MATCHED THEN UPDATE SET {action}"
        )
        fields = lake.catalog.load_table("db.t").schema().as_arrow()
        return [str(fields.field(name).type) for name in ("v", "f", "d", "s")]

    before = ["int32", "float", "decimal128(5, 2)", "struct<a: int32>"]
    assert merge("2.5D AS f, 3L AS v", "f = n.f + 1, v = abs(n.v)") == before
    assert merge("3000000000 AS v, 'x' AS other", "v = n.v") == ["int64", *before[1:]]
    assert merge("2.5D AS f, 3000000001 AS v", "`t`.`F` = n.f, v = nullif(n.v, 1)")[1] == "double"
    merge("CAST(12345 AS decimal(7, 2)) AS d", "t.d = n.d")
    types = merge("named_struct('a', 4000000000, 'z', 'new') AS s", "s = n.s")
    assert types == ["int64", "double", "decimal128(7, 2)", "struct<a: int64, z: string>"]
    ((row, s),) = lake.spark.sql(
        f"SELECT struct(id, v, f, CAST(d AS int)), s FROM {lake.name}.db.t"
    ).collect()
    assert tuple(row) == (1, 3000000001, 2.5, 12345) and tuple(s) == (4000000000, "new")
    lake.sql(
        "CREATE OR REPLACE TABLE lake.db.t TBLPROPERTIES ('write.spark.auto-schema-evolution.enabled' = 'false') "
        "AS SELECT 1 AS id, 1 AS v, 1F AS f, 1BD AS d, struct(1 AS a) AS s"
    )
    with pytest.raises(pyspark.errors.ArithmeticException, match="CAST_OVERFLOW_IN_TABLE_INSERT"):
        merge("5000000000 AS v", "v = n.v")


def test_a_table_may_refuse_columns_that_a_merge_would_add(lake):
    lake.table()
    lake.sql(
        "ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.spark.auto-schema-evolution.enabled' = 'false')"
    )
    before = lake.spark.table(f"{lake.name}.db.t").columns
    lake.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO lake.db.t t USING (SELECT 2L AS id, 5 AS v, 'q' AS s, t.st, 3.5D AS extra FROM lake.db.t t WHERE id = 2) n "
        "ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert lake.spark.table(f"{lake.name}.db.t").columns == before
    assert lake.rows("id", "v")[1] == (2, 5)


# Parameters, variables, branches
# --------------------------------------------------------------------------------------------------------


BEYOND = [  # Spark's own text of an analysed expression leaves parts of these out, or names no function
    "variant_get(parse_json('{\"a\": 1}'), '$.a', 'int') = v / 10",
    "from_json('{\"a\": 1}', 'a int').a = id",
    "to_json(struct(id, CAST(NULL AS INT) AS n), map('ignoreNullFields', 'false')) = '{\"id\":1,\"n\":null}'",
    "to_csv(struct(id, s), map('sep', '|')) = '1|a'",
    "exists(array(id, v), x -> x = 1)",
    "aggregate(array(id, 1L), 0L, (a, b) -> a + b) = 2",
    "s LIKE ANY ('a%', 'x%')",
    "to_timestamp(concat('202', id), 'yyyy') = timestamp '2021-01-01 00:00:00'",
    "timestampdiff(HOUR, timestamp '2026-01-01 00:00:00', timestamp '2026-01-01 01:00:00') = id",
    "ceil(v / 7, 1) = 1.5",
]


@pytest.mark.versions
@pytest.mark.parametrize("condition", BEYOND)
def test_conditions_beyond_the_grammar_keep_all_their_arguments(lake, condition):
    lake.table()
    lake.sql(f"UPDATE lake.db.t SET v = 99 WHERE {condition}")
    assert lake.rows() == [(1, 99), (2, 20), (3, 30), (4, 40)]
    lake.sql("UPDATE lake.db.t SET v = 10 WHERE id = 1")
    lake.sql(f"""MERGE INTO lake.db.t USING (SELECT 1 AS one) ON {condition}
                 WHEN MATCHED THEN UPDATE SET v = 98""")
    assert lake.rows() == [(1, 98), (2, 20), (3, 30), (4, 40)]
    lake.sql("UPDATE lake.db.t SET v = 10 WHERE id = 1")
    lake.sql(f"DELETE FROM lake.db.t WHERE {condition}")
    assert lake.rows() == [(2, 20), (3, 30), (4, 40)]


def test_delete_takes_a_window_whose_column_spark_puts_below_the_condition(lake):
    lake.table()
    window = "window(timestamp_seconds(id), '1 second')"
    lake.sql(f"DELETE FROM lake.db.t WHERE {window}.start = timestamp_seconds(1)")
    assert lake.rows("id") == [(2,), (3,), (4,)]


@pytest.mark.versions
def test_update_refuses_windows_which_may_show_a_row_several_times(lake):
    lake.table()
    for window in (
        "window(timestamp_seconds(id), '2 second', '1 second')",
        "session_window(timestamp_seconds(id), '1 second')",
    ):
        with pytest.raises(InvalidInput, match="windows of times") as raised:
            lake.sql(f"UPDATE lake.db.t SET v = 1 WHERE {window}.start <= timestamp_seconds(1)")
        assert raised.value.getCondition() == "UNSUPPORTED_FEATURE.TABLE_OPERATION"
        with pytest.raises(InvalidInput):
            lake.sql(f"UPDATE lake.db.t SET v = second({window}.start)")
    assert lake.rows() == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.versions
def test_merge_refuses_windows_of_times_by_name(lake):
    table = lake.table()
    source, late = "(SELECT 1L AS id, 9 AS v) s", "window(timestamp_seconds(t.v), '2 second').start"
    for statement in (
        f"ON t.id = s.id AND {late} > '1970-01-01' WHEN MATCHED THEN DELETE",
        f"ON t.id = s.id WHEN MATCHED AND {late} > '1970-01-01' THEN DELETE",
        f"ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = second({late})",
    ):
        with pytest.raises(InvalidInput, match="window"):
            lake.sql(f"MERGE INTO lake.db.t t USING {source} {statement}")
    with pytest.raises(InvalidInput, match="windows of times"):
        table.merge(
            lake.spark.sql(f"SELECT * FROM {source}"),
            "t.id = s.id AND window(timestamp_seconds(t.v), '2 second').start > '1970-01-01'",
            target_alias="t",
            source_alias="s",
        ).when_matched_delete().execute()
    assert lake.rows() == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.versions
@pytest.mark.parametrize("broadcast", ["10MB", "-1"])
def test_merge_takes_variants_of_its_source(lake, broadcast):
    lake.catalog.create_table("db.t", "id bigint, data variant", format_version=3)
    lake.sql(
        """INSERT INTO lake.db.t VALUES (1, parse_json('{"a":1}')), (2, parse_json('{"a":2}'))"""
    )
    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        lake.sql("""MERGE INTO lake.db.t t USING (
                    SELECT 1 AS id, parse_json('{"a":31}') AS data, parse_json('[1]') AS other
                    UNION ALL SELECT 3, parse_json('"x"'), NULL UNION ALL SELECT 4, NULL, NULL) s
                    ON t.id = s.id WHEN MATCHED THEN UPDATE SET data = s.data
                    WHEN NOT MATCHED THEN INSERT *""")
        lake.sql("""MERGE INTO lake.db.t t USING (SELECT 2 AS id, parse_json('{"b":5}') AS more) s
                    ON t.id = s.id AND variant_get(s.more, '$.b', 'int') = 5
                    WHEN MATCHED THEN UPDATE SET data = s.more""")
    finally:
        lake.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert lake.rows("id", "data") == [(1, '{"a":31}'), (2, '{"b":5}'), (3, '"x"'), (4, None)]


@pytest.mark.versions
@pytest.mark.parametrize("broadcast", ["10MB", "-1"])
def test_merge_takes_null_structs_whose_members_may_not_be_null(lake, broadcast):
    lake.sql(
        "CREATE TABLE lake.db.t (id int, st struct<a: int>, l array<struct<a: int>>, m map<string, struct<a: int>>)"
    )
    lake.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    maybe = "if(id = 1, struct(70 AS a), NULL)"
    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        lake.sql(f"""MERGE INTO lake.db.t t USING (
                     SELECT id, {maybe} AS st, array({maybe}) AS l, map('k', {maybe}) AS m FROM VALUES (1), (3) AS v (id)) s
                     ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    finally:
        lake.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert lake.rows("id", "st", "l", "m") == [
        (1, {"a": 70}, [{"a": 70}], [("k", {"a": 70})]),
        (3, None, [None], [("k", None)]),
    ]


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


def test_writes_go_to_the_branch_that_the_name_or_the_session_selects(lake):
    t = lake.table(properties={"write.wap.enabled": "true"})
    lake.sql("ALTER TABLE lake.db.t CREATE BRANCH audit")
    lake.sql("UPDATE lake.db.t.branch_audit SET v = 0")
    lake.sql(
        "MERGE INTO lake.db.t.branch_audit b USING (SELECT 1L AS id) n ON b.id = n.id WHEN MATCHED THEN DELETE"
    )
    assert lake.rows(branch="audit") == [(2, 0), (3, 0), (4, 0)]
    lake.spark.conf.set("spark.wap.branch", "wap")
    try:
        lake.sql("DELETE FROM lake.db.t WHERE id < 4")
    finally:
        lake.spark.conf.unset("spark.wap.branch")
    assert lake.rows(branch="wap") == [(4, 40)]
    assert len(lake.rows()) == 4 and set(t.refresh().refs()) == {"main", "audit", "wap"}


def test_analyze_computes_the_statistics_of_columns(lake):
    t = lake.table()
    lake.sql("ANALYZE TABLE lake.db.t COMPUTE STATISTICS FOR COLUMNS id, S")
    (statistics,) = t.refresh().metadata.statistics
    assert {field for blob in statistics["blob-metadata"] for field in blob["fields"]} == {1, 3}
    lake.sql("ANALYZE TABLE lake.db.t COMPUTE STATISTICS")


@pytest.mark.versions
def test_explain_runs_nothing_and_names_the_statement(lake):
    lake.table()
    shown = lake.sql("EXPLAIN DELETE FROM lake.db.t WHERE id = 1").first()[0]
    assert "DeleteFromTable" in shown and lake.snapshots() == 1


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


def test_members_of_structs_in_lists_and_maps_are_not_set(lake):
    lake.sql(
        "CREATE TABLE lake.db.nested (id int, a array<struct<c1: int>>, m map<string, struct<c1: int>>)"
    )
    lake.sql("INSERT INTO lake.db.nested VALUES (1, array(named_struct('c1', 2)), map())")
    for member in ("a.c1", "nested.a.c1", "m.c1", "m.value.c1"):
        with pytest.raises(Exception, match="DATATYPE_MISMATCH|only supported for StructType"):
            lake.sql(f"UPDATE lake.db.nested SET {member} = 1")
    assert lake.sql("SELECT a[0].c1 FROM lake.db.nested").collect() == [(2,)]
