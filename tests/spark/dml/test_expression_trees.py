"""Which expressions of Spark's cross to Frazil's nodes, and that none does whose meaning Frazil's
evaluation has not.
"""

import pytest

from frazil.expr.bind import bind_term
from frazil.spark.host import jvm_plans
from frazil.spark.host.jvm_trees import bindings, translated
from frazil.spark.types.spark_types import from_spark

pytestmark = [pytest.mark.spark, pytest.mark.versions]
COLUMNS = """CAST(id AS INT) AS n, id AS big, CAST(id AS SMALLINT) AS small, CAST(id AS DOUBLE) AS x, CAST(id AS FLOAT) AS f,
CAST(id AS DECIMAL(10, 2)) AS d, CAST(id AS DECIMAL(38, 18)) AS p, CAST(id AS STRING) AS s, TIMESTAMP_SECONDS(id) AS ts,
CAST(TIMESTAMP_SECONDS(id) AS TIMESTAMP_NTZ) AS tn, DATE'2024-01-01' + CAST(id AS INT) AS dt, id > 1 AS b,
CAST(CAST(id AS STRING) AS BINARY) AS bin, IF(id > 1, NAMED_STRUCT('a', id), NULL) AS st, ARRAY(id) AS l"""
CROSS = {
    "n + 1": "(n + 1)",
    "big + 1": "(big + 1L)",
    "small > 1": "(CAST(small AS int) > 1)",
    "n / 2": "(CAST(n AS double) / 2.0D)",
    "d * 2": "(d * 2BD)",
    "d / 3": "(d / 3BD)",
    "ts = TIMESTAMP'2024-10-27 02:30:00+01:00'": "(ts = TIMESTAMP'2024-10-27 01:30:00Z')",
    "ts = to_timestamp('2024-10-27T01:30:00Z')": "(ts = TIMESTAMP'2024-10-27 01:30:00Z')",
    "tn < ts": "(CAST(tn AS timestamp) < ts)",
    "dt = '2024-02-03'": "(dt = DATE'2024-02-03')",
    "year(ts) = 1970": "(year(CAST(ts AS date)) = 1970)",
    "date_trunc('month', ts) < ts": "(date_trunc('month', ts) < ts)",
    "n BETWEEN 1 AND 2 OR n = 5 OR b": "(((n >= 1) AND (n <= 2)) OR (n = 5) OR b)",
    "NOT s IN ('a', NULL)": "(NOT (s IN ('a', CAST(NULL AS string))))",
    "s ILIKE 'A%'": "(lower(s) LIKE 'a%')",
    "x = double('-Infinity') OR isnan(f)": "((`x` = double('-Infinity')) OR isnan(f))",
    "bin = X'6162' AND length(bin) > 1": "((bin = X'6162') AND (length(bin) > 1))",
    "nullif(n, 1) <=> n": "(CASE WHEN (n = 1) THEN CAST(NULL AS int) ELSE n END <=> n)",
    "st.a = 1 OR st IS NULL": "((st.a = 1L) OR (st IS NULL))",
    "size(l) = 1": "(size(l) = 1)",
    "1 < 2": "TRUE",
}
STAY = (
    "try_add(big, 1)", "try_divide(10, n)", "try_cast(n AS BIGINT)", "try_cast(s AS INT)", "CAST(s AS INT)", "s = 1", "CAST(ts AS BIGINT)",
    "CAST(n AS TIMESTAMP)", "CAST(l AS STRING)", "CAST(st AS STRING)", "CAST(x AS STRING)", "CAST(x AS DECIMAL(10, 2))", "CAST(n AS TINYINT)",
    "p * p", "d / p", "ceil(x)", "floor(f)", "ceil(x, 1)", "date_trunc('hour', ts)", "substring(bin, 2, 1)", "contains(bin, X'62')",
    "reverse(l)", "l[0]", "st <=> NULL", "st = NAMED_STRUCT('a', 1L)", "coalesce(st, NAMED_STRUCT('a', 1L)).a", "s COLLATE UTF8_LCASE = 'A'",
    "s RLIKE 'a'", "s LIKE 'a\\\\x'", "uuid()", "rand() > 0.5", "current_date() > dt", "n = 1 / 0", "n IN (SELECT 1)", "small + small",
    "exists(l, e -> e > 1)", "date_format(ts, 'yyyy')", "to_date(s, 'yyyy')", "ts + INTERVAL 1 HOUR", "lower(s COLLATE UNICODE_CI)",
)  # fmt: skip


@pytest.fixture
def nodes(plain_spark):
    """Return what an expression over the columns is in Frazil's nodes."""

    def of(text):
        frame = plain_spark.sql(f"SELECT {COLUMNS} FROM range(3)")
        (expression,) = jvm_plans.selected_expressions(frame.selectExpr(f"({text}) AS e"))
        columns = bindings(plain_spark, jvm_plans.analysed_plan(frame))
        node = translated(plain_spark, expression, columns)
        if node is not None:  # which Frazil can evaluate then
            zone = plain_spark.conf.get("spark.sql.session.timeZone")
            bind_term(node, from_spark(frame.schema), zone=zone)
        return None if node is None else str(node)

    plain_spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield of
    plain_spark.conf.unset("spark.sql.session.timeZone")


def test_expressions_cross_as_trees_or_stay_with_spark(nodes):
    assert {text: nodes(text) for text in CROSS} == CROSS
    assert {text: nodes(text) for text in STAY} == dict.fromkeys(STAY)


@pytest.mark.parametrize(
    "setting, value, text",
    [
        ("spark.sql.ansi.enabled", "false", "n + 1"),
        ("spark.sql.ansi.enabled", "false", "CAST(big AS INT)"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "p + p"),
    ],
)
def test_a_node_with_another_mode_or_type_stays_with_spark(
    nodes, plain_spark, setting, value, text
):
    assert nodes("n > 1") == "(n > 1)"
    plain_spark.conf.set(setting, value)
    try:
        assert nodes(text) is None
    finally:
        plain_spark.conf.unset(setting)
