"""Odd values of every type, and random predicates over them."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from frazil.expr import nodes as n
from frazil.expr.bound import Bound
from frazil.expr.compute import compute
from frazil.expr.values import array
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

DAY = 86_400_000_000
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 2.5, 3.0, math.inf, -math.inf, math.nan, 1e300, 7.0]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "abcdefghijklmnopqrs",
    "b",
    "é",
    "\ud7ff",
    "\ue000",
    "𝄞",
    "𝄞x",
    "\U0010ffff",
    "a\U0010ffff",
    "a%",
    "5",
    "Z",
]
MOMENTS = [
    0,
    -1,
    1,
    DAY,
    -DAY,
    -DAY - 1,
    DAY - 1,
    951_782_400_000_000,
    -62_135_596_800_000_000,
    10 * DAY + 5,
    -3_600_000_000,
    253_402_300_799_999_999,
    2**63 - 1,
    -(2**63),
    2**31 * 3_600_000_000,  # its hours are no 32-bit number, those of the one before are
    2**31 * 3_600_000_000 - 1,
    -(2**31) * 3_600_000_000,
    -(2**31) * 3_600_000_000 - 1,
]
POOLS: dict[IcebergType, list[Any]] = {
    BooleanType(): [True, False],
    IntegerType(): [0, 1, -1, 5, 9, 10, -10, -11, 2**31 - 1, -(2**31), 3],
    LongType(): [0, 1, -1, 5, 10, -10, 2**53 + 1, 2**53, 2**63 - 1, -(2**63), 34],
    FloatType(): [
        0.0,
        -0.0,
        1.0,
        -1.5,
        2.5,
        3.0,
        math.inf,
        -math.inf,
        math.nan,
        0.10000000149011612,
    ],
    DoubleType(): FLOATS,
    DecimalType(9, 2): [
        Decimal(x).quantize(Decimal("0.01"))
        for x in ("0", "1.5", "-1.5", "9999999.99", "-9999999.99", "10.65", "14.20", "-0.01", "2.5")
    ],
    DateType(): [0, -1, 1, 365, -365, -366, 11016, -719162, 2932896, 31, 59, 2**31 - 1, -(2**31)],
    TimeType(): [0, 1, 81_068_000_000, DAY - 1],
    TimestampType(): MOMENTS,
    TimestamptzType(): MOMENTS,
    TimestampNanoType(): [
        0,
        -1,
        1,
        -1000,
        999,
        1_510_871_468_000_000_001,
        -86_400_000_000_001,
        2**63 - 1,
        -(2**63),
    ],
    StringType(): TEXTS,
    UUIDType(): [
        uuid.UUID(x).bytes
        for x in (
            "80000000-0000-0000-0000-000000000000",
            "7fffffff-ffff-ffff-ffff-ffffffffffff",
            "00000000-0000-0000-0000-000000000001",
        )
    ],
    FixedType(2): [b"\x00\x00", b"\xff\xff", b"\x80\x00", b"ab"],
    BinaryType(): [b"", b"\x00", b"\xff", b"\xff\xff", b"\x80", b"ab", b"abc", b"abcd", b"ab\xff"],
}
TYPES = list(POOLS)
SCHEMA = Schema(*(NestedField(i + 1, f"c{i + 1}", t) for i, t in enumerate(TYPES)))
ID_OF = {t: i + 1 for i, t in enumerate(TYPES)}


def cells(type_: IcebergType) -> st.SearchStrategy[Any]:
    """A value of the type's pool, or null."""
    return st.one_of(st.none(), st.sampled_from(POOLS[type_]), st.sampled_from(POOLS[type_]))


def literal(value: Any, type_: IcebergType) -> n.Literal:
    return n.Literal(value, type_)


_COMPARISONS = (
    n.EqualTo, n.NotEqualTo, n.LessThan, n.LessThanOrEqual, n.GreaterThan, n.GreaterThanOrEqual, n.NullSafeEqualTo,
)  # fmt: skip
_BESIDE: dict[type, list[IcebergType]] = {
    IntegerType: [LongType(), DoubleType(), DecimalType(9, 2), FloatType()],
    LongType: [IntegerType(), DoubleType(), DecimalType(9, 2)],
    FloatType: [DoubleType(), IntegerType(), DecimalType(9, 2)],
    DoubleType: [FloatType(), LongType(), DecimalType(9, 2)],
    DecimalType: [IntegerType(), LongType(), DoubleType()],
    DateType: [TimestampType(), TimestamptzType(), TimestampNanoType()],
    TimestampType: [DateType(), TimestamptzType(), TimestampNanoType()],
    TimestamptzType: [DateType(), TimestampType()],
    TimestampNanoType: [DateType(), TimestampType(), TimestamptzType()],
}


@st.composite
def tests_of(draw: st.DrawFn, type_: IcebergType) -> n.Expression:
    """One test of a column of this type."""
    column = n.Reference(f"c{ID_OF[type_]}")
    beside = [type_] * 3 + _BESIDE.get(type(type_), [])
    kind = draw(
        st.sampled_from(["compare", "compare", "compare", "in", "null", "special", "column"])
    )
    if kind == "null":
        return draw(st.sampled_from([n.IsNull(column), n.NotNull(column)]))
    if kind == "in":
        values = draw(st.lists(st.sampled_from(POOLS[type_]), min_size=1, max_size=16))
        nulls = draw(st.sampled_from([[], [], [n.Literal(None)]]))
        return draw(st.sampled_from([n.In, n.NotIn]))(
            column, [*(literal(v, type_) for v in values), *nulls]
        )
    if kind == "special" and isinstance(type_, FloatType | DoubleType):
        return n.IsNaN(column)
    if kind == "special" and isinstance(type_, StringType):
        prefix = draw(st.sampled_from(TEXTS))
        pattern = draw(st.sampled_from(["a%", "%b", "a_c%", "ab%", "%", "_", "abc", "é%", "𝄞%"]))
        return draw(
            st.sampled_from(
                [
                    n.StartsWith(column, prefix),
                    n.Like(column, pattern),
                    n.NotLike(column, pattern),
                    n.NotStartsWith(column, prefix),
                ]
            )
        )
    if kind == "special" and isinstance(type_, DateType | TimestampType | TimestamptzType):
        op = draw(st.sampled_from(_COMPARISONS))
        if draw(st.booleans()):
            return op(n.Call("year", (column,)), draw(st.sampled_from([1969, 1970, 2000, 1, 9999])))
        return op(
            n.Cast(column, DateType()),
            literal(draw(st.sampled_from(POOLS[DateType()])), DateType()),
        )
    op = draw(st.sampled_from(_COMPARISONS))
    other = draw(st.sampled_from(beside))
    if kind == "column":
        return op(column, n.Reference(f"c{ID_OF[other]}"))
    return op(column, literal(draw(st.sampled_from(POOLS[other])), other))


@st.composite
def predicates(draw: st.DrawFn, types: list[IcebergType] = TYPES, depth: int = 2) -> n.Expression:
    """A predicate of AND, OR and NOT over tests of columns of these types."""
    kind = draw(st.sampled_from(["test", "and", "or", "not"])) if depth else "test"
    match kind:
        case "and" | "or":
            parts = draw(st.lists(predicates(types, depth - 1), min_size=2, max_size=3))
            return n.And(*parts) if kind == "and" else n.Or(*parts)
        case "not":
            return n.Not(draw(predicates(types, depth - 1)))
    return draw(tests_of(draw(st.sampled_from(types))))


Rows = list[dict[int, Any]]


def truth(bound: Bound, rows: Rows) -> list[bool | None]:
    """The row oracle: TRUE, FALSE or None for each row of values by field id."""
    columns = {ID_OF[t]: array([r.get(ID_OF[t]) for r in rows], t) for t in TYPES}
    found: pa.Array = compute(bound, lambda r: columns[r.field_id], len(rows))
    return found.to_pylist()
