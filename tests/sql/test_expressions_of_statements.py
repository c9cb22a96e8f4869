"""Conditions and values of statements mean what SELECT shows on the same table, in each mode and under
each setting.
"""

import pytest
from pyspark.sql import functions as F

from tests.sql.statements_on_spark import lake_of

pytestmark = pytest.mark.spark
ROWS = """SELECT * FROM VALUES
(1, 9223372036854775807, 5, 2.5D, 99999999999999999999.5, timestamp'2024-10-27T00:30:00Z', '7', X'6162', array(1, 2)),
(2, 1, 0, double('Infinity'), 1.5, timestamp'2024-10-27T01:30:00Z', 'A ', X'', NULL),
(3, NULL, NULL, -0.0D, NULL, NULL, NULL, NULL, array()),
(4, -9223372036854775808, -2147483648, double('NaN'), -2, timestamp'2024-03-31T01:30:00Z', 'a', X'62', array(NULL))
AS v(id, big, n, x, p, ts, s, bin, l)"""
ZONE = {"spark.sql.session.timeZone": "Europe/Berlin"}
LOSS = {"spark.sql.decimalOperations.allowPrecisionLoss": "false"}
CASES = [
    ({}, "try_add(big, 1) IS NULL"),
    ({}, "NOT try_divide(10, n) > 1"),
    ({}, "try_element_at(l, 2) = 2 OR try_to_number(s, '9') = 7"),
    (ZONE, "ts >= timestamp'2024-10-27T01:30:00Z'"),
    (ZONE, "date_trunc('hour', ts) = timestamp'2024-10-27T01:00:00Z'"),
    ({}, "cast(ts AS bigint) = 1729992600 OR cast(n AS timestamp) > timestamp'1970-01-01T00:00:04Z'"),
    ({}, "l <=> NULL OR reverse(l) = array(2, 1)"),
    ({}, "contains(bin, X'62') AND substring(bin, 2, 1) = X'62'"),
    ({}, "s COLLATE UTF8_LCASE_RTRIM = 'a'"),
    (LOSS, "try_multiply(p, 1.00000000000000000000) IS NULL"),
    ({"spark.sql.ansi.enabled": "false"}, "n - 1 > 0 OR cast(s AS int) = 3"),
    ({"spark.sql.parser.escapedStringLiterals": "true"}, r"s RLIKE '^\w$'"),
    ({"spark.sql.legacy.timeParserPolicy": "LEGACY"}, "date_format(ts, 'u') = '7'"),
]  # fmt: skip


@pytest.fixture
def lake(spark, tmp_path):
    with lake_of(spark, tmp_path) as lake:
        yield lake


@pytest.mark.versions
@pytest.mark.parametrize(
    ("settings", "condition"), CASES, ids=[f"{c} {''.join(s)[10:40]}" for s, c in CASES]
)
def test_rows_that_select_finds_are_those_that_are_changed(spark, lake, settings, condition):
    name = f"{lake.name}.db.e"
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        found = {r.id for r in spark.sql(f"SELECT id FROM ({ROWS}) WHERE {condition}").collect()}
        assert 0 < len(found) < 4
        others, source = {1, 2, 3, 4} - found, spark.range(1, 5).withColumnRenamed("id", "k")

        def by_sql(statement):
            return lambda: spark.sql(statement.format(name))

        on = F.expr(f"e.id = k AND coalesce({condition}, false)")
        doors = {
            "delete": (by_sql(f"DELETE FROM {{0}} WHERE {condition}"), others),
            "update": (by_sql(f"UPDATE {{0}} SET id = -id WHERE {condition}"), {i if i in others else -i for i in range(1, 5)}),
            "value": (by_sql(f"UPDATE {{0}} SET id = if({condition}, -id, id)"), {i if i in others else -i for i in range(1, 5)}),
            "merge": (by_sql(f"MERGE INTO {{0}} e USING (SELECT id AS k FROM range(1, 5)) q ON e.id = k WHEN MATCHED AND ({condition}) THEN DELETE"), others),
            "mergeInto": (lambda: source.mergeInto(name, on).whenMatched().delete().merge(), others),
            "overwrite": (lambda: spark.table(name).limit(0).writeTo(name).overwrite(F.expr(condition)), others),
        }  # fmt: skip
        left = {}
        for door, (change, _) in doors.items():
            spark.sql(f"CREATE TABLE {name} USING iceberg AS {ROWS}")
            change()
            left[door] = {r.id for r in spark.table(name).select("id").collect()}
            spark.sql(f"DROP TABLE {name}")
        assert left == {door: ids for door, (_, ids) in doors.items()}
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_a_text_of_pythons_means_what_the_sessions_settings_say(spark, lake):
    spark.conf.set(*next(iter(LOSS.items())))
    try:
        t = lake.table("db.t")
        t.update({"s": "CAST(CAST(1.1 AS decimal(38, 18)) / 3 AS string)"}, spark=spark)
        want = spark.sql("SELECT CAST(CAST(1.1 AS decimal(38, 18)) / 3 AS string)").first()[0]
        assert set(t.scan().to_arrow()["s"].to_pylist()) == {want}
    finally:
        spark.conf.unset(*LOSS)
