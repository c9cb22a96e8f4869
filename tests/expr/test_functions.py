"""Each function and operator of the grammar, by each of its names, gives on one row what Spark gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from frazil.arrow.values.evaluate import compute_over
from frazil.expr.bind import bind_term
from frazil.expr.functions.by_name import FUNCTIONS, function_names
from frazil.expr.parse import parse
from frazil.spec.ddl import parse_schema

SCHEMA = parse_schema(
    "i int, d double, dec decimal(5,2), s string, no string, dt date, ts timestamp, items array<int>, sizes map<string,int>"
)
ROW = pa.record_batch(
    {
        "i": pa.array([-7], pa.int32()),
        "d": pa.array([2.25]),
        "dec": pa.array([Decimal("-2.55")], pa.decimal128(5, 2)),
        "s": pa.array([" Iceberg "]),
        "no": pa.array([None], pa.string()),
        "dt": pa.array([dt.date(2024, 2, 29)]),
        "ts": pa.array([dt.datetime(2024, 2, 29, 13, 45, 59, 500_000)], pa.timestamp("us", "UTC")),
        "items": pa.array([[1, 2, 3]]),
        "sizes": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
    }
)
_LEAP_DAY = (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days
_HOUR_MICROS = 3_600_000_000
CALLS: tuple[tuple[str, Any], ...] = (
    ("i + 2", -5), ("i - 2", -9), ("i * 2", -14), ("i / 2", -3.5), ("i % 4", -3), ("i div 2", -3), ("s || '!'", " Iceberg !"),
    ("abs(i)", 7), ("ceil(dec)", Decimal(-2)), ("ceiling(d)", 3), ("floor(dec)", Decimal(-3)), ("negative(i)", 7), ("positive(i)", -7),
    ("mod(i, 4)", -3), ("pmod(i, 4)", 1), ("sign(i)", -1.0), ("signum(d)", 1.0), ("sqrt(d)", 1.5),
    ("lower(s)", " iceberg "), ("lcase(s)", " iceberg "), ("upper(s)", " ICEBERG "), ("ucase(s)", " ICEBERG "),
    ("length(s)", 9), ("len(s)", 9), ("char_length('ß')", 1), ("character_length('ß')", 1), ("octet_length('ß')", 2),
    ("trim(s)", "Iceberg"), ("ltrim(s)", "Iceberg "), ("rtrim(s)", " Iceberg"), ("substring(s, 2, 3)", "Ice"), ("substr(s, -5)", "berg "),
    ("left(s, 4)", " Ice"), ("right(s, 5)", "berg "), ("concat(s, i)", " Iceberg -7"), ("startswith(s, ' I')", True),
    ("endswith(s, 'g')", False), ("contains(s, 'berg')", True), ("replace(s, 'berg', 'box')", " Icebox "), ("reverse(s)", " grebecI "),
    ("year(dt)", 2024), ("quarter(dt)", 1), ("month(dt)", 2), ("day(dt)", 29), ("dayofmonth(dt)", 29), ("dayofweek(dt)", 5), ("weekday(dt)", 3),
    ("dayofyear(dt)", 60), ("weekofyear(dt)", 9), ("hour(ts)", 13), ("minute(ts)", 45), ("second(ts)", 59),
    ("date_add(dt, 1)", _LEAP_DAY + 1), ("dateadd(dt, 1)", _LEAP_DAY + 1), ("date_sub(dt, 29)", _LEAP_DAY - 29),
    ("datediff(dt, DATE'2024-02-01')", 28), ("date_diff(dt, DATE'2024-03-01')", -1), ("last_day(DATE'2023-02-01')", _LEAP_DAY - 366),
    ("make_date(2024, 2, 29)", _LEAP_DAY), ("make_date(5881580, 7, 11)", 2**31 - 1), ("date_trunc('hour', ts)", 24 * _LEAP_DAY * _HOUR_MICROS + 13 * _HOUR_MICROS),
    ("coalesce(no, s)", " Iceberg "), ("ifnull(no, 'x')", "x"), ("nvl(no, 'x')", "x"), ("case when i > 0 then 1 when i < 0 then 2 end", 2),
    ("size(items)", 3), ("cardinality(sizes)", 1),
    ("try_cast('１２' AS int)", None), ("try_cast('２024-01-01' AS date)", None), ("cast('１２' AS decimal(4,0))", Decimal(12)),
    ("cast('1d' AS double)", 1.0), ("cast('0x1p3' AS double)", 8.0), ("try_cast('2024-01-01T' AS timestamp)", None),
    ("hour(cast('2024-01-01 12:00:00 PST' AS timestamp))", 20), ("try_cast(double('NaN') AS decimal(3,0))", None),
    ("'µ' ILIKE 'μ'", False), ("'ſ' ILIKE 's'", False), ("'K' ILIKE 'K'", True), ("ceil(1e19D)", 2**63 - 1),
    ("cast(sign(-0.0D) AS string)", "-0.0"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CALLS)
def test_a_function_gives_what_spark_gives(text: str, expected: Any) -> None:
    (value,) = _internal(text)
    assert value == expected
    assert type(value) is type(expected)


def _internal(text: str) -> list[Any]:
    values = compute_over(bind_term(parse(text), SCHEMA), ROW)
    if pa.types.is_date(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return list(values.to_pylist())


def test_every_name_has_a_line_here() -> None:
    written = " ".join(text for text, _ in CALLS)
    names = {n for n in (*FUNCTIONS, *function_names()) if not n.startswith("system.")}
    assert {n for n in names if f"{n}(" not in written and f" {n} " not in f" {written}"} == set()


@pytest.mark.parametrize(
    "text",
    [text.replace(" s", " no").replace("(s", "(no") for text, _ in CALLS if "(s)" in text],
)
def test_a_function_of_null_is_null(text: str) -> None:
    assert _internal(text) == [None]
