"""Text to nodes and back."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInput, ParseError
from frazil.expr import nodes as n
from frazil.expr.bind import bind
from frazil.expr.parse import parse
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from tests.expr.support import SCHEMA, predicates

A, B, C = n.Reference("a"), n.Reference("b"), n.Reference("c")
ONE = n.Literal(1, IntegerType())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", n.EqualTo(A, ONE)),
        ("a == 1", n.EqualTo(A, ONE)),
        ("a != 1", n.NotEqualTo(A, ONE)),
        ("a <=> b", n.NullSafeEqualTo(A, B)),
        ("a = 1 OR b = 1 AND c", n.Or(n.EqualTo(A, ONE), n.And(n.EqualTo(B, ONE), C))),
        ("NOT a = 1 AND b", n.And(n.Not(n.EqualTo(A, ONE)), B)),
        ("NOT NOT a", n.Not(n.Not(A))),
        ("! a", n.Not(A)),
        ("a AND (b OR c)", n.And(A, n.Or(B, C))),
        ("a IS NOT NULL", n.NotNull(A)),
        ("a is nan", n.IsNaN(A)),
        ("a IS TRUE", n.NullSafeEqualTo(A, n.AlwaysTrue())),
        ("a IS DISTINCT FROM b", n.Not(n.NullSafeEqualTo(A, B))),
        ("a NOT IN (1, NULL)", n.NotIn(A, [ONE, n.Literal(None)])),
        (
            "a BETWEEN 1 AND b AND c",
            n.And(n.GreaterThanOrEqual(A, ONE), n.LessThanOrEqual(A, B), C),
        ),
        ("a NOT BETWEEN 1 AND 1", n.Not(n.Between(A, ONE, ONE))),
        ("a LIKE 'x%'", n.Like(A, "x%")),
        ("a NOT ILIKE 'x!%' ESCAPE '!'", n.NotLike(A, "x!%", "!", True)),
        ("a + b * c = 1", n.EqualTo(n.Call("+", (A, n.Call("*", (B, C)))), ONE)),
        ("a - b - c = 1", n.EqualTo(n.Call("-", (n.Call("-", (A, B)), C)), ONE)),
        ("-a = 1", n.EqualTo(n.Call("negative", (A,)), ONE)),
        ("a || b = c", n.EqualTo(n.Call("||", (A, B)), C)),
        ("a.b.c = 1", n.EqualTo(n.Reference("a.b.c"), ONE)),
        ("`a.b`.`c``d` = 1", n.EqualTo(n.Reference("a.b.c`d", ("a.b", "c`d")), ONE)),
        ("cast(a AS decimal(10, 2)) = b", n.EqualTo(n.Cast(A, DecimalType(10, 2)), B)),
        ("a::bigint = b", n.EqualTo(n.Cast(A, LongType()), B)),
        ("try_cast(a as timestamp_ntz) = b", n.EqualTo(n.Cast(A, TimestampType(), True), B)),
        ("double('NaN') = a", n.EqualTo(n.Cast(n.Literal("NaN", StringType()), DoubleType()), A)),
        ("isnan(a)", n.IsNaN(A)),
        ("CASE WHEN a THEN b ELSE c END", n.Call("case", (A, B, C))),
        ("if(a, b, c)", n.Call("case", (A, B, C))),
        ("TRUE", n.AlwaysTrue()),
        ("a /* no */ = -- yes\n 1", n.EqualTo(A, ONE)),
        ("date = 1", n.EqualTo(n.Reference("date"), ONE)),
        ("year(a) = 1", n.EqualTo(n.Call("year", (A,)), ONE)),
    ],
)
def test_text_means_these_nodes(text: str, expected: n.Expression) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("1", 1, IntegerType()),
        ("-2147483648", -(2**31), IntegerType()),
        ("2147483648", 2**31, LongType()),
        ("-9223372036854775808", -(2**63), LongType()),
        ("1L", 1, LongType()),
        ("9223372036854775808", Decimal(2**63), DecimalType(19, 0)),
        ("-2.50", Decimal("-2.50"), DecimalType(3, 2)),
        (".5", Decimal(".5"), DecimalType(1, 1)),
        ("2.5BD", Decimal("2.5"), DecimalType(2, 1)),
        ("1e10", 1e10, DoubleType()),
        ("1.5D", 1.5, DoubleType()),
        ("'it''s'", "it's", StringType()),
        (r"'a\'b\n\\\u0041\%\_'", "a'b\n\\A\\%\\_", StringType()),
        ('"double"', "double", StringType()),
        ("r'a\\n'", "a\\n", StringType()),
        ("'a' 'b'", "ab", StringType()),
        ("X'00fF'", b"\x00\xff", BinaryType()),
        ("X''", b"", BinaryType()),
        ("DATE'1969-12-31'", -1, DateType()),
        ("date '2020-2'", 18293, DateType()),
        ("TIMESTAMP'1970-01-01 00:00:00Z'", 0, TimestamptzType()),
        ("TIMESTAMP'1970-01-01T01:00:00.5+01:00'", 500_000, TimestamptzType()),
        ("TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'", -1, TimestampType()),
        ("TIME'22:31:08'", 81_068_000_000, TimeType()),
    ],
)
def test_constants_have_the_type_that_spark_gives_them(
    text: str, value: object, type_: object
) -> None:
    found = parse(f"a = {text}")
    assert isinstance(found, n.EqualTo)
    assert found.literal == n.Literal(value, type_)  # type: ignore[arg-type]
    assert parse(str(found)) == found


def test_a_float_literal_is_a_cast() -> None:
    assert parse("a = 1.5F") == n.EqualTo(A, n.Cast(n.Literal(1.5, DoubleType()), FloatType()))


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("id >", 5, "expected a column or a value"),
        ("id = = 3", 6, "expected a column"),
        ("(a", 3, r"expected \)"),
        ("a b", 3, "expected an operator"),
        ("a LIKE 3", 8, "pattern of LIKE"),
        ("a IN ()", 7, "list of values"),
        ("s = 'abc", 5, "cannot read"),
        ("a ~ 1", 3, "cannot read"),
        ("a = DATE'2020-02-30'", 9, "is not a date"),
        ("a = X'0g'", 5, "hexadecimal"),
        ("a > INTERVAL '1' DAY", 5, "intervals"),
        ("cast(a AS foo) = 1", 11, "is not a type"),
        ("cast(a AS array<int>) IS NULL", 11, "is not a type"),
        ("a[0] = 1", 2, "elements of lists"),
        ("map('a', 1)['a'] = 1", 12, "elements of lists"),
        ("a IN (SELECT b FROM t)", 7, "sub-queries"),
        ("exists (with x as (select 1) select * from x)", 9, "sub-queries"),
        ("a = (select max(a) from t)", 6, "sub-queries"),
        ("(a, b) = (1, 2)", 3, "tuples"),
        ("a IN ((1, 2))", 9, "tuples"),
        ("a = 1; drop table b", 6, "cannot read"),
        ("a = 99999999999999999999999999999999999999999", 5, "38 digits"),
        ("a = 128Y", 5, "range"),
        ("CASE END", 6, "column or a value"),
        ("", None, "empty"),
        ("a AND", 6, "column"),
        ("a IS 3", 6, "expected NULL"),
    ],
)
def test_what_is_no_predicate_is_refused_with_its_place(
    text: str, position: int | None, says: str
) -> None:
    with pytest.raises(ParseError, match=says) as caught:
        parse(text)
    if position is not None:
        assert caught.value.facts["position"] == position - 1
        assert f"position {position}:" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a IN (SELECT b FROM t)", "sub-queries"),
        ("exists(select 1)", "sub-queries"),
        ("(a, b) = (1, 2)", "tuples"),
        ("c2 = array(1, 2)", "array"),
        ("array_contains(array(1, 2), c2)", "array"),
        ("map('a', 1) IS NULL", "map"),
        ("struct(1, 2) IS NULL", "struct"),
        ("a[0] = 1", "elements"),
        ("a > INTERVAL '1' DAY", "intervals"),
    ],
)
def test_what_spark_can_is_refused_by_name_and_says_so(text: str, names: str) -> None:
    with pytest.raises(InvalidInput, match=names) as caught:
        bind(parse(text), SCHEMA)
    assert "without Spark" in str(caught.value) and "Spark can" in str(caught.value)


@given(predicates(depth=3))
@settings(max_examples=120, deadline=None)
def test_what_is_printed_is_read_back_with_the_same_meaning(predicate: n.Expression) -> None:
    again = parse(str(predicate))
    assert parse(str(again)) == again
    assert str(bind(again, SCHEMA)) == str(bind(predicate, SCHEMA))  # as text: NaN is not itself


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_predicate_or_a_parse_error(text: str) -> None:
    try:
        found = parse(text)
    except ParseError:
        return
    assert isinstance(found, n.Expression) and parse(str(found)) == found


_WORDS = [
    "a",
    "b",
    "=",
    "<",
    "(",
    ")",
    "AND",
    "or",
    "not",
    "in",
    "1",
    "-",
    "'x'",
    "is",
    "null",
    "between",
    "like",
    "case",
    "when",
    "end",
    ",",
    ".",
]


@given(st.lists(st.sampled_from(_WORDS), max_size=12))
@settings(max_examples=300, deadline=None)
def test_any_words_are_a_predicate_or_a_parse_error(words: list[str]) -> None:
    try:
        found = parse(" ".join(words))
    except ParseError:
        return
    assert parse(str(found)) == found


DEEP = {
    "(" * 5000 + "a" + ")" * 5000: "nesting",
    "NOT " * 5000 + "a": "more than 50 NOTs",
    "a = " + "- " * 5000 + "b": "more than 50 signs",
    "CASE WHEN " * 5000: "nesting",
}


def test_deep_nesting_is_refused_and_long_chains_are_not() -> None:
    for text, message in DEEP.items():
        with pytest.raises(ParseError, match=message):
            parse(text)
    with pytest.raises(ValueError, match="deeply"):
        bind(parse("c2" + " + 1" * 20_000 + " = 1"), SCHEMA)
    long = parse(" OR ".join(f"a = {i}" for i in range(5000)))
    assert isinstance(long, n.Or)
    assert len(long.parts) == 5000


def test_nodes_are_combined_by_operators_and_never_by_truth() -> None:
    both = n.EqualTo("a", 1) & n.IsNull("b") | ~n.StartsWith("c", "x")
    assert str(both) == "(((a = 1) AND (b IS NULL)) OR (NOT startswith(c, 'x')))"
    with pytest.raises(ValueError, match="truth"):
        bool(n.EqualTo("a", 1))
    assert n.And(n.And(A, B), C) == n.And(A, B, C)
    assert n.And(A, B, C).right == n.And(B, C)
    assert n.names(parse("a.x = b AND isnan(c) OR d IN (1)")) == {"a.x", "b", "c", "d"}


def test_parsing_needs_neither_pyarrow_nor_numpy() -> None:
    code = "import sys, frazil.expr.parse; assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
    )
