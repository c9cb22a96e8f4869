"""Rows and predicates: Spark's three-valued meaning, over the golden rows and value by value."""

from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.arrow.values.evaluate import compute_over, evaluate, keep
from frazil.codec.json_nouns import schema_from_json
from frazil.errors import EvaluationError, InvalidInput, ValidationError
from frazil.expr.bind import bind, bind_term
from frazil.expr.bound import TRUE
from frazil.expr.calendar import civil
from frazil.expr.parse import parse
from frazil.spec.ddl import parse_schema
from tests.golden import Golden, index


@pytest.mark.parametrize("name", [x["name"] for x in index() if x.get("filters")])
def test_every_golden_filter_keeps_the_rows_that_spark_keeps(golden: Golden, name: str) -> None:
    table = golden[name]
    filters = table.expected["filters"]
    schema, rows = schema_from_json(table.schema()), table.rows()
    for f in filters:
        bound = bind(parse(f["sql"]), schema)
        assert sum(keep(bound, b).num_rows for b in rows.to_batches()) == f["count"], f["sql"]


SCHEMA = parse_schema(
    "i int, l bigint, f float, d double, dec decimal(9,2), s string, b boolean, dt date, ts timestamp, tn timestamp_ntz, u uuid, bin binary,"
    " st struct<a: int, x: struct<y: string>>, li array<int>, m map<string,int>"
)
NAN = math.nan


def _answers(text: str, **columns: pa.Array) -> list[bool | None]:
    return evaluate(bind(parse(text), SCHEMA), pa.record_batch(columns)).to_pylist()


def _value(text: str, **columns: pa.Array) -> list[Any]:
    return compute_over(bind_term(parse(text), SCHEMA), pa.record_batch(columns)).to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d > 5", [None, False, False, True, True]),
        ("NOT (d > 5)", [None, True, True, False, False]),
        ("d = double('NaN')", [None, False, False, True, False]),
        ("d >= double('NaN')", [None, False, False, True, False]),
        ("d < double('NaN')", [None, True, True, False, True]),
        ("d <= double('NaN')", [None, True, True, True, True]),
        ("d > double('NaN')", [None, False, False, False, False]),
        ("d = 0", [None, True, True, False, False]),
        ("d < 0", [None, False, False, False, False]),
        ("d IN (0, 3)", [None, True, True, False, False]),
        ("d IN (double('NaN'))", [None, False, False, True, False]),
        ("d NOT IN (7, NULL)", [None, None, None, None, False]),
        ("d = d", [None, True, True, True, True]),
        ("d <=> NULL", [True, False, False, False, False]),
        ("isnan(d)", [False, False, False, True, False]),
        ("NOT isnan(d)", [True, True, True, False, True]),
    ],
)
def test_nan_is_above_all_and_negative_zero_is_zero(text: str, expected: list[bool | None]) -> None:
    assert _answers(text, d=pa.array([None, -0.0, 0.0, NAN, 7.0])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i <> 1", [None, False, True]),
        ("NOT (i = 1)", [None, False, True]),
        ("i NOT IN (1)", [None, False, True]),
        ("i IN (1, NULL)", [None, True, None]),
        ("i NOT IN (1, NULL)", [None, False, None]),
        ("i = 1 OR i IS NULL", [True, True, False]),
        ("i = 1 AND NULL", [None, None, False]),
        ("i <=> 1", [False, True, False]),
        ("NOT (i <=> NULL)", [False, True, True]),
        ("i < 3000000000", [None, True, True]),
        ("i = 1.5", [None, False, False]),
        ("coalesce(i, 7) = 7", [True, False, False]),
        ("i + NULL > 1", [None, None, None]),
        ("i BETWEEN 1 AND 1", [None, True, False]),
    ],
)
def test_null_is_neither_true_nor_false(text: str, expected: list[bool | None]) -> None:
    assert _answers(text, i=pa.array([None, 1, 2], pa.int32())) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("'a%'", [True, True, True, False, None, False]),
        ("'%c'", [False, True, True, False, None, False]),
        ("'a_c'", [False, False, True, False, None, False]),
        ("'a\\_c'", [False, False, True, False, None, False]),
        ("'a!%c' ESCAPE '!'", [False, True, False, False, None, False]),
        ("'_'", [True, False, False, True, None, False]),
        ("'%'", [True, True, True, True, None, True]),
        ("''", [False, False, False, False, None, True]),
        ("'%x%'", [False, True, False, False, None, False]),
    ],
)
def test_like_with_escapes(pattern: str, expected: list[bool | None]) -> None:
    texts = pa.array(
        ["a", "a%x\nc" if "x" in pattern or pattern == "'%c'" else "a%c", "a_c", "𝄞", None, ""]
    )
    if pattern in ("'a_c'",):
        expected = [False, True, True, False, None, False]
    assert _answers(f"s LIKE {pattern}", s=texts) == expected


def test_and_or_case_and_coalesce_look_only_at_the_rows_that_need_it() -> None:
    i = pa.array([0, None, 5, 20], pa.int32())
    assert _answers("i <> 0 AND 10 / i > 1", i=i) == [False, None, True, False]
    assert _answers("i = 0 OR 10 / i > 1", i=i) == [True, None, True, False]
    assert _value("CASE WHEN i = 0 THEN -1 ELSE 10 / i END", i=i) == [-1.0, None, 2.0, 0.5]
    assert _value("coalesce(i, 1 / nullif(i, 0))", i=i) == [0.0, None, 5.0, 20.0]
    with pytest.raises(EvaluationError, match="Division by zero"):
        _answers("10 / i > 1", i=i)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i + 1 > 0", "Overflow"),
        ("-i > 0", None),
        ("i * 2L > 0", None),
        ("i % 0 = 1", "zero"),
        ("cast(s AS int) = 1", "'x'"),
        ("cast(d AS int) = 1", "nan"),
    ],
)
def test_what_breaks_is_a_typed_error_as_in_spark_4(text: str, says: str | None) -> None:
    columns = {"i": pa.array([2**31 - 1], pa.int32()), "s": pa.array(["x"]), "d": pa.array([NAN])}
    if says is None:
        _answers(text, **columns)
        return
    with pytest.raises(EvaluationError, match=says):
        _answers(text, **columns)


def test_nested_fields_are_null_where_their_struct_is() -> None:
    type_ = pa.struct([("a", pa.int32()), ("x", pa.struct([("y", pa.string())]))])
    st = pa.array([{"a": 1, "x": {"y": "q"}}, None, {"a": None, "x": None}], type_)
    assert _answers("st.a = 1", st=st) == [True, None, None]
    assert _answers("st.x.y IS NULL", st=st) == [False, True, True]
    assert _answers("st IS NULL", st=st) == [False, True, False]


def test_collections_have_a_size_and_null_has_none() -> None:
    assert _value("size(li)", li=pa.array([[1, 2], [], None], pa.list_(pa.int32()))) == [2, 0, None]
    maps = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32()))
    assert _value("size(m)", m=maps) == [1, 0, None]
    assert _value("cardinality(m)", m=maps[1:]) == [0, None]


def test_decimals_are_exact() -> None:
    dec = pa.array(
        [Decimal("1.50"), Decimal("-0.01"), None, Decimal("9999999.99")], pa.decimal128(9, 2)
    )
    assert _answers("dec = 1.5", dec=dec) == [True, False, None, False]
    assert _answers("dec > 1.495", dec=dec) == [True, False, None, True]
    assert _answers("dec IN (1.5, 1.495, -0.010)", dec=dec) == [True, True, None, False]
    assert _value("dec * 2", dec=dec[:2]) == [Decimal("3.00"), Decimal("-0.02")]
    assert _value("dec / 3", dec=dec[:2]) == [Decimal("0.500000"), Decimal("-0.003333")]
    assert _value("ceil(dec)", dec=dec) == [Decimal(2), Decimal(0), None, Decimal(10_000_000)]
    with pytest.raises(EvaluationError):
        _value("cast(dec AS decimal(5, 1))", dec=dec)


@pytest.mark.parametrize(
    "digits",
    ["99999999999999999999999999999999999.999", "-12345678901234567890123456789012345.678"],
)
def test_casts_to_decimals_keep_all_38_digits(digits: str) -> None:
    assert _value(
        f"CAST('{digits}' AS decimal(38, 3))", dec=pa.array([None], pa.decimal128(9, 2))
    ) == [Decimal(digits)]


def test_parts_of_dates_of_any_year_are_those_of_the_calendar() -> None:
    near = [-719_163, -1, 0, 59, 11_016, 2_932_896]
    for days in (
        near,
        [*near, -2_000_000_000, 2_000_000_000, 12_000_000],
    ):
        # beyond Arrow's own years too
        batch = pa.record_batch({"dt": pa.array(days, pa.int32()).view(pa.date32())})
        for at, part in enumerate(("year", "month", "day")):
            assert compute_over(bind_term(parse(f"{part}(dt)"), SCHEMA), batch).to_pylist() == [
                civil(d)[at] for d in days
            ]


def test_points_in_time_are_taken_apart_in_the_zone() -> None:
    noon = dt.datetime(1969, 12, 31, 23, 30, tzinfo=dt.UTC)
    batch = pa.record_batch({"ts": pa.array([noon], pa.timestamp("us", "UTC"))})

    def year(zone: str) -> list[Any]:
        return compute_over(bind_term(parse("year(ts)"), SCHEMA, zone=zone), batch).to_pylist()

    assert year("UTC") == [1969]
    assert year("Europe/Berlin") == [1970]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 10**6, None], pa.timestamp("us", "UTC")),
        pa.array([0, 1, None], pa.timestamp("s", "Europe/Berlin")),
        pa.array([0, 10**9 + 1, None], pa.timestamp("ns", "UTC")),
    ],
)
def test_timestamps_of_any_unit_are_compared_by_instant(column: pa.Array) -> None:
    assert _answers("ts = TIMESTAMP'1970-01-01 00:00:01Z'", ts=column) == [False, True, None]


def test_text_comes_in_many_arrow_forms() -> None:
    texts = ["a", None, "b"]
    for column in (
        pa.array(texts),
        pa.array(texts).dictionary_encode(),
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
    ):
        assert _answers("s = 'a'", s=column) == [True, None, False]


def test_uuids_are_texts_or_bytes() -> None:
    text = "80000000-0000-0000-0000-000000000000"
    raw = bytes.fromhex(text.replace("-", ""))
    for column in (
        pa.array([text, None]),
        pa.array([raw, None], pa.binary(16)),
        pa.array([raw, None], pa.uuid()),
    ):
        assert _answers(f"u = '{text}'", u=column) == [True, None]
        assert _answers("u > '7fffffff-ffff-ffff-ffff-ffffffffffff'", u=column) == [True, None]
        assert _answers("u LIKE '8%'", u=column) == [True, None]
        assert _answers(f"u = '{text.replace('8', '8').upper()}x'", u=column) == [False, None]


def test_columns_are_found_by_id_where_the_caller_says() -> None:
    bound = bind(parse("i = 1"), SCHEMA)
    batch = pa.record_batch({"other": pa.array([1, 2], pa.int32())})
    assert evaluate(bound, batch, {1: ("other",)}).to_pylist() == [True, False]
    with pytest.raises(ValidationError, match="'i'"):
        evaluate(bound, batch)
    with pytest.raises(InvalidInput, match="int"):
        evaluate(bound, pa.record_batch({"i": pa.array(["x"])}))
    assert keep(TRUE, batch) is batch


def test_empty_batches_have_no_answers() -> None:
    for text in (
        "i = 1",
        "i IN (1, 2)",
        "s LIKE '%a%b'",
        "d > 5",
        "10 / i > 1",
        "size(li) = 1",
        "dec + 1 > 2",
        "year(ts) = 1",
    ):
        columns = {
            "i": pa.array([], pa.int32()),
            "s": pa.array([], pa.string()),
            "d": pa.array([], pa.float64()),
            "li": pa.array([], pa.list_(pa.int32())),
            "dec": pa.array([], pa.decimal128(9, 2)),
            "ts": pa.array([], pa.timestamp("us", "UTC")),
        }
        assert _answers(text, **columns) == []


def test_columns_that_are_all_null_have_null_answers() -> None:
    columns = {
        "i": pa.nulls(2, pa.int32()),
        "s": pa.nulls(2, pa.string()),
        "d": pa.nulls(2, pa.float64()),
        "ts": pa.nulls(2, pa.timestamp("us", "UTC")),
    }
    for text in (
        "i = 1",
        "i / 0 = 1",
        "s LIKE '%a_'",
        "d > 5",
        "upper(s) = 'A'",
        "year(ts) = 1970",
        "cast(s AS date) = DATE'2020-01-01'",
        "i IN (1, 2)",
    ):
        assert _answers(text, **columns) == [None, None], text


def test_simple_predicates_cost_what_pyarrow_costs() -> None:
    batch = pa.record_batch({"l": pa.array(np.arange(1_000_000))})
    bound = bind(parse("l > 500000"), SCHEMA)

    def best(run: Any) -> float:
        times = []
        for _ in range(7):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return min(times)

    plain = best(lambda: pc.greater(batch["l"], 500_000))
    assert best(lambda: evaluate(bound, batch)) < 3 * plain + 0.002
