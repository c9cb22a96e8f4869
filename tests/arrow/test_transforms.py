"""Vectorised transforms give what the scalar ones give."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.values.transforms import apply_arrow
from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.expr.values import array
from frazil.spec.transform_values import apply
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_INT, _LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_MICROS = st.integers(-(10**17), 10**17)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10 ** (precision - 1)), 10 ** (precision - 1)).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


VALUES: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (IntegerType(), _INT), (LongType(), _LONG), (DateType(), st.integers(-4_000_000, 4_000_000)), (TimeType(), st.integers(0, 86_399_999_999)),
    (TimestampType(), _MICROS), (TimestamptzType(), _MICROS), (TimestampNanoType(), _LONG), (StringType(), st.text(max_size=12)),
    (BinaryType(), st.binary(max_size=12)), (FixedType(5), st.binary(min_size=5, max_size=5)), (UUIDType(), st.binary(min_size=16, max_size=16)),
    (DecimalType(9, 2), _decimals(9, 2)), (DecimalType(18, 5), _decimals(18, 5)), (DecimalType(38, 10), _decimals(37, 10)),
]  # fmt: skip
TRANSFORMS = (
    IdentityTransform(), BucketTransform(16), BucketTransform(2**31 - 1), TruncateTransform(1), TruncateTransform(3), TruncateTransform(1000),
    YearTransform(), MonthTransform(), DayTransform(), HourTransform(), VoidTransform(),
)  # fmt: skip


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_over_arrays_as_one_by_one(data: st.DataObject) -> None:
    type_, values = data.draw(st.sampled_from(VALUES))
    transform = data.draw(st.sampled_from([t for t in TRANSFORMS if t.can_transform(type_)]))
    rows = data.draw(st.lists(st.one_of(st.none(), values), max_size=10))
    times = data.draw(st.sampled_from([1, 1, 20]))  # short and long arrays take different ways
    column = array(rows * times, type_)
    found = apply_arrow(transform, type_, column)
    assert found.to_pylist() == [apply(transform, type_, v) for v in rows] * times


def test_slices_are_hashed_from_where_they_begin() -> None:
    texts = pa.array(["skip", None, "iceberg", "34", "𝄞"])
    assert apply_arrow(BucketTransform(16), StringType(), texts[2:]).to_pylist() == [
        apply(BucketTransform(16), StringType(), v) for v in ("iceberg", "34", "𝄞")
    ]


def test_repeated_long_texts_are_hashed_once_and_rightly() -> None:
    texts = [f"{'x' * 90}{i % 7}" for i in range(2000)]
    assert apply_arrow(BucketTransform(16), StringType(), pa.array(texts)).to_pylist() == [
        apply(BucketTransform(16), StringType(), t) for t in texts
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_points_in_time_of_any_unit_are_taken(unit: str) -> None:
    column = pa.array([-1, 0, None, 86_400], pa.timestamp("s")).cast(pa.timestamp(unit))
    assert apply_arrow(DayTransform(), TimestampType(), column).to_pylist() == [-1, 0, None, 1]


def test_forms_of_columns_that_readers_give_are_taken() -> None:
    text = ["a", None, "b"]
    wanted = [apply(BucketTransform(8), StringType(), v) for v in text]
    for column in (
        pa.array(text).dictionary_encode(),
        pa.array(text, pa.large_string()),
        pa.chunked_array([text[:1], text[1:]]),
        pa.array(text, pa.string_view()),
    ):
        assert apply_arrow(BucketTransform(8), StringType(), column).to_pylist() == wanted
    uuids = ["f79c3e09-677c-4bbd-a479-3f349cb785e7", None]
    assert apply_arrow(BucketTransform(16), UUIDType(), pa.array(uuids)).to_pylist() == [12, None]


def test_what_cannot_be_transformed_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="later"):
        apply_arrow(UnknownTransform("later"), LongType(), pa.array([1]))
    with pytest.raises(ValidationError, match="double"):
        apply_arrow(BucketTransform(4), DoubleType(), pa.array([1.0]))


def test_decimals_truncated_below_the_least_of_their_type_keep_one_digit_more() -> None:
    type_, transform = DecimalType(5, 2), TruncateTransform(10)
    found = apply_arrow(
        transform,
        type_,
        pa.array([Decimal("-999.99"), None, Decimal("999.99")], pa.decimal128(5, 2)),
    )
    assert found.to_pylist() == [Decimal("-1000.00"), None, Decimal("999.90")]
    with pytest.raises(InvalidInput, match="38 digits"):
        apply_arrow(
            transform, DecimalType(38, 0), pa.array([Decimal("-" + "9" * 38)], pa.decimal128(38, 0))
        )
