"""Names to ids, literals to the column's type, constants folded, wrong types refused by name."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from frazil.errors import EvaluationError, InvalidInput, Unsupported, ValidationError
from frazil.expr import nodes as n
from frazil.expr.bind import bind
from frazil.expr.bound import (
    FALSE,
    NULL,
    TRUE,
    BoundLiteral,
    BoundReference,
    Comparison,
    Membership,
    NullOr,
    PrefixTest,
    conjuncts,
    references,
)
from frazil.expr.literals import typed_literal
from frazil.expr.parse import parse
from frazil.spec.ddl import parse_schema
from frazil.spec.schema import Schema
from frazil.spec.types import (
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

SCHEMA = parse_schema(
    "i int, l bigint, f float, d double, dec decimal(9,2), s string, b boolean, dt date, ts timestamp, tn timestamp_ntz, u uuid, bin binary,"
    " st struct<a: int, x: struct<y: string>>, li array<struct<a: int>>, Name string, name string"
)


def _bound(text: str, **how: object) -> object:
    return bind(parse(text), SCHEMA, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("i < 2.5", "(i < 3)"),
        ("i >= 2.5", "(i >= 3)"),
        ("2.5 > i", "(i < 3)"),
        ("i = '5'", "(i = 5)"),
        ("dec > 1.505", "(dec > Decimal('1.50'))"),
        ("dec = 3", "(dec = Decimal('3.00'))"),
        ("d = 1", "(d = 1.0)"),
        ("f = 1.5", "(f = 1.5)"),
        ("f = 0.1", "(cast(f as double) = 0.1)"),
        ("l < 1e18", "(cast(l as double) < 1e+18)"),
        ("l < 1e10", "(l < 10000000000)"),
        ("dt = '1970-01-02'", "(dt = 1)"),
        ("dt > TIMESTAMP'1970-01-02 12:00:00Z'", "(dt > 1)"),
        ("ts = DATE'1970-01-02'", "(ts = 86400000000)"),
        ("tn = TIMESTAMP'1970-01-01 01:00:00+01:00'", "(tn = 0)"),
        ("i NOT IN (1, 2.5, 3)", "(not (i in (1, 3)))"),
        ("b", "(b = True)"),
        ("s LIKE 'abc'", "(s = 'abc')"),
        ("s LIKE 'a\\_c%'", "startswith(s, 'a_c')"),
        ("i = 1 OR i = 2 OR i = 1", "(i in (1, 2))"),
        ("u = '80000000-0000-0000-0000-000000000000'", "(u = b'\\x80" + "\\x00" * 15 + "')"),
        ("u = '8000'", "(cast(u as string) = '8000')"),
        ("i + 1 = 2", "(+(i, 1) = 2)"),
        ("st.x.y = 'q'", "(st.x.y = 'q')"),
    ],
)
def test_literals_take_the_type_of_the_column(text: str, shown: str) -> None:
    assert str(_bound(text)) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 = 1", TRUE),
        ("1 > 2", FALSE),
        ("i = NULL", NULL),
        ("i = 1 AND 1 = 2", FALSE),
        ("i = 1 OR 1 = 1", TRUE),
        ("NOT (i = NULL)", NULL),
        ("2 + 3 * 4 = 14", TRUE),
        ("isnan(i)", FALSE),
        ("double('NaN') = double('nan')", TRUE),
        ("NULL <=> NULL", TRUE),
        ("i <=> 2.5", FALSE),
        ("NULL LIKE 'a'", NULL),
    ],
)
def test_what_holds_no_column_is_folded(text: str, expected: object) -> None:
    assert _bound(text) == expected


def test_literals_beyond_the_column_leave_only_its_nulls() -> None:
    found = _bound("i < 3000000000")
    assert isinstance(found, NullOr)
    assert found.value is True
    assert str(_bound("dec > 99999999999")) == "(dec is null ? null : False)"
    assert str(_bound("i = 2.5")) == "(i is null ? null : False)"


def test_columns_are_found_by_path_and_case() -> None:
    column = references(bind(n.IsNull("st.x.y"), SCHEMA))
    ((field_id, reference),) = column.items()
    assert reference.path == ("st", "x", "y")
    assert reference.field_id == field_id == SCHEMA.find_field("st.x.y").field_id
    assert len(reference.ids) == 3
    with pytest.raises(ValidationError, match="I"):
        _bound("I = 1")
    assert str(_bound("I = 1", case_sensitive=False)) == "(i = 1)"
    with pytest.raises(ValidationError, match="ambiguous"):
        _bound("NAME = 'x'", case_sensitive=False)
    with pytest.raises(ValidationError, match="columns are: i, l"):
        _bound("nope = 1")


def test_a_dot_inside_a_name_is_told_from_a_step_into_a_struct() -> None:
    schema = Schema(
        NestedField(1, "a.b", StringType()),
        NestedField(2, "a", StructType(NestedField(3, "b", StringType()))),
    )
    assert list(references(bind(parse("`a.b` = 'x'"), schema))) == [1]
    assert list(references(bind(parse("a.b = 'x'"), schema))) == [3]
    only = Schema(NestedField(1, "a.b", StringType()))
    assert list(references(bind(n.EqualTo("a.b", "x"), only))) == [1]


def test_python_values_are_literals_of_their_own_type() -> None:
    utc = dt.UTC
    for term, value, shown in [
        ("i", 5, "(i = 5)"),
        ("d", float("nan"), "(d = nan)"),
        ("dec", Decimal("1.5"), "(dec = Decimal('1.50'))"),
        ("dt", dt.date(1970, 1, 2), "(dt = 1)"),
        ("ts", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc), "(ts = 1000000)"),
        ("tn", dt.datetime(1970, 1, 1, 0, 0, 1), "(tn = 1000000)"),
        ("u", uuid.UUID(int=1), f"(u = {uuid.UUID(int=1).bytes!r})"),
        ("bin", b"\x01", "(bin = b'\\x01')"),
        ("b", True, "(b = True)"),
        ("ts", "1970-01-01T00:00:01", "(ts = 1000000)"),
    ]:
        assert str(bind(n.EqualTo(term, value), SCHEMA)) == shown
    with pytest.raises(InvalidInput, match="object"):
        bind(n.EqualTo("i", object()), SCHEMA)
    assert bind(n.In("i", []), SCHEMA) == FALSE
    assert bind(n.NotIn("i", []), SCHEMA) == TRUE


def test_literals_without_zone_are_in_the_zone_that_is_given() -> None:
    assert str(_bound("ts = TIMESTAMP'1970-01-01 00:00:00'")) == "(ts = 0)"
    assert (
        str(_bound("ts = TIMESTAMP'1970-01-01 00:00:00'", zone="Europe/Berlin"))
        == "(ts = -3600000000)"
    )
    assert str(_bound("ts = '1970-01-01 00:00:00'", zone="+02:00")) == "(ts = -7200000000)"
    with pytest.raises(InvalidInput, match="Mars"):
        _bound("i = 1", zone="Mars/Olympus")


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("b = 5", InvalidInput, "b of type boolean with 5 of type int"),
        ("i", InvalidInput, "i is of type int, not boolean"),
        ("st = 1", InvalidInput, "cannot be compared"),
        ("dt > 5", InvalidInput, "date"),
        ("isnan(s)", InvalidInput, "isnan"),
        ("size(i) = 1", InvalidInput, "list or map"),
        ("frobnicate(i) = 1", Unsupported, "frobnicate"),
        ("current_timestamp() > ts", Unsupported, "current_timestamp"),
        ("li.a = 1", Unsupported, "inside the list or map 'li'"),
        ("i = 'x'", EvaluationError, "'x'"),
        ("dt = '2020-02-30'", EvaluationError, "2020-02-30"),
        ("dt = make_date(5881580, 7, 12)", EvaluationError, "5881580, 7, 12"),
        ("cast(bin as int) = 1", InvalidInput, "binary to int"),
        ("s LIKE 'a\\\\b'", InvalidInput, "escape"),
        ("bin LIKE 'a'", InvalidInput, "LIKE takes text"),
        ("1 / 0 = 1", EvaluationError, "Division by zero"),
        ("case when b then 1 else dt end = 1", InvalidInput, "values of one type"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    text: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        _bound(text)


def test_the_shapes_that_pruning_knows() -> None:
    assert isinstance(_bound("startswith(s, 'a')"), PrefixTest)
    assert isinstance(_bound("i IN (1, 2)"), Membership)
    found = _bound("1 < i")
    assert found == Comparison(
        "gt",
        BoundReference(1, SCHEMA.find_type("i"), ("i",), (1,)),
        BoundLiteral(1, SCHEMA.find_type("i")),
    )
    assert len(conjuncts(_bound("i = 1 AND (l = 2 AND d > 3)"))) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["pandas", "numpy", "arrow"])
@pytest.mark.filterwarnings("error")
def test_nanoseconds_of_a_moment_are_kept_without_a_warning(given: str) -> None:
    text = "2026-01-01T00:00:00.000000"
    for end, count in (("001", 1), ("000", 0)):
        scalar = pa.scalar(1_767_225_600_000_000_000 + count, pa.timestamp("ns"))
        value = {
            "pandas": pd.Timestamp(text + end),
            "numpy": np.datetime64(text + end, "ns"),
            "arrow": scalar,
        }[given]
        found = typed_literal(value)
        want = TimestampNanoType() if count else TimestampType()
        assert (found.type, found.value) == (
            want,
            1_767_225_600_000_000_001 if count else 1_767_225_600_000_000,
        )
    zoned = typed_literal(pd.Timestamp(text + "001", tz="Europe/Berlin"))
    assert (zoned.type, zoned.value) == (
        TimestamptzNanoType(),
        1_767_225_600_000_000_001 - 3_600_000_000_000,
    )
    assert typed_literal(np.datetime64("NaT", "ns")).value is None
