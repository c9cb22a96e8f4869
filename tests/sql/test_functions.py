"""Iceberg's functions in SQL: values and types as Java Iceberg gives them, in the tasks of a query
as for constants.
"""

import pytest
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.spark

VALUES = {  # as Java Iceberg 1.12 answers
    "bucket(16, 5)": 7, "bucket(16, 'abc')": 10, "bucket(16, date'2026-01-01')": 12, "bucket(16, timestamp'2026-01-01 00:00:00')": 12,
    "bucket(16, cast(3.5 as decimal(5,2)))": 15, "bucket(16, cast(null as bigint))": None, "bucket(16, X'0102')": 14,
    "bucket(16, cast(5 as tinyint))": 7, "truncate(10, 25)": 20, "truncate(3, 'abcdef')": "abc", "truncate(10, cast(-5 as smallint))": -10,
    "hex(lake.system.truncate(2, X'010203'))": "0102", "cast(lake.system.truncate(10, 12.345BD) as string)": "12.340",
    "years(date'2026-05-01')": 56, "months(date'2026-05-01')": 676, "cast(lake.system.days(date'2026-05-01') as string)": "2026-05-01",
    "hours(timestamp'2026-05-01 01:00:00')": 493777, "years(timestamp_ntz'2026-05-01 01:00:00')": 56,
    "typeof(lake.system.truncate(10, cast(25 as tinyint)))": "tinyint", "typeof(lake.system.truncate(10, 12.345BD))": "decimal(5,3)",
    "typeof(lake.system.bucket(4, 5L))": "int", "typeof(lake.system.days(timestamp'1969-12-31 23:59:59'))": "date",
    "months(date'1969-12-31')": -1, "hours(timestamp'1969-12-31 23:59:59')": -1, "bucket(16, '')": 0,
}  # fmt: skip


@pytest.mark.versions
def test_values_and_types_are_javas(run):
    calls = [text if "lake." in text else f"lake.system.{text}" for text in VALUES]
    assert run(f"SELECT {', '.join(f'{call} AS c{n}' for n, call in enumerate(calls))}") == [
        tuple(VALUES.values())
    ]


@pytest.mark.versions
def test_functions_run_in_tasks_over_a_tables_rows_and_filters_groups_and_joins(
    spark, run, table_of
):
    run("CREATE TABLE lake.db.t (id bigint, s string) USING iceberg PARTITIONED BY (bucket(4, id))")
    run("INSERT INTO lake.db.t SELECT id, concat('row ', id) FROM range(200)")
    by_bucket = dict(run("SELECT lake.system.bucket(4, id) b, count(*) FROM lake.db.t GROUP BY 1"))
    counts = {
        row["partition"]["id_bucket"]: row["record_count"]
        for row in table_of("db.t").inspect.partitions().to_pylist()
    }
    assert by_bucket == counts and len(counts) == 4
    assert run("SELECT count(*) FROM lake.db.t WHERE lake.system.truncate(5, s) = 'row 1'") == [
        (111,)
    ]
    assert run("""SELECT count(*) FROM lake.db.t a JOIN lake.db.t b ON lake.system.bucket(8, a.s) = lake.system.bucket(8, b.s)
                  AND a.id = b.id""") == [(200,)]
    assert run("SELECT lake.bucket(4, 5), lake.SYSTEM.Bucket(4, 5)") == [(3, 3)]


@pytest.fixture(params=["CODEGEN_ONLY", "NO_CODEGEN"])
def codegen(request, spark):
    """Let Spark compile its expressions, or not."""
    settings = {
        "spark.sql.codegen.factoryMode": request.param,
        "spark.sql.codegen.wholeStage": request.param == "CODEGEN_ONLY",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


@pytest.mark.versions
@pytest.mark.usefixtures("codegen")
def test_nulls_of_every_type_are_null_as_constants_and_in_rows(run):
    of = {
        "bucket": ("int", "bigint", "date", "timestamp", "timestamp_ntz", "decimal(9, 2)", "string", "binary"),
        "truncate": ("tinyint", "smallint", "int", "bigint", "decimal(9, 2)", "string", "binary"),
        "years": ("date", "timestamp"), "months": ("date", "timestamp"),
        "days": ("date", "timestamp"), "hours": ("timestamp", "timestamp_ntz"),
    }  # fmt: skip
    width = {"bucket": "16, ", "truncate": "16, "}
    for value in ("NULL", "IF(id = 1, '1', NULL)"):
        calls = [
            f"lake.system.{name}({width.get(name, '')}CAST({value} AS {kind})) IS NULL"
            for name, kinds in of.items()
            for kind in kinds
            if value == "NULL" or kind in ("string", "decimal(9, 2)", "binary", "int", "bigint")
        ]
        columns = ", ".join(f"{call} AS c{n}" for n, call in enumerate(calls))
        nulls = (True,) * len(calls)
        others = nulls if value == "NULL" else (False,) * len(calls)
        assert run(f"SELECT {columns} FROM range(1, 3) ORDER BY id") == [others, nulls]


def test_wrong_inputs_are_refused_with_what_is_expected(run):
    for call, words in {
        "bucket(16, 1.5D)": "Expected column to be date",
        "bucket(16)": "Wrong number of inputs",
        "bucket('a', 5)": "number of buckets",
        "truncate(10, 2.5D)": "Expected truncation col",
        "hours(date'2026-05-01')": "Expected value to be timestamp",
        "years('2026')": "Expected value to be date or timestamp",
        "nope(1)": "UNRESOLVED_ROUTINE",
        "iceberg_version(1)": "Wrong number",
    }.items():
        with pytest.raises(Exception, match=words):
            run(f"SELECT lake.system.{call}")
    with pytest.raises(
        AnalysisException, match=r"'bucket' cannot process input: \(int, boolean\): Expected column"
    ):
        run("SELECT lake.system.bucket(16, true)")


def test_functions_are_listed(run, lake):
    shown = {row[0].rpartition(".")[2] for row in run("SHOW USER FUNCTIONS IN lake.system")}
    assert {"bucket", "truncate", "years", "months", "days", "hours", "iceberg_version"} <= shown
