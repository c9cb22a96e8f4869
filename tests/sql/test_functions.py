"""Iceberg's functions in SQL: values and types as Java Iceberg gives them, in the tasks of a query
as for constants.
"""

import pytest

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


def test_functions_are_listed(run, lake):
    shown = {row[0].rpartition(".")[2] for row in run("SHOW USER FUNCTIONS IN lake.system")}
    assert {"bucket", "truncate", "years", "months", "days", "hours", "iceberg_version"} <= shown
