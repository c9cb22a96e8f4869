"""Transforms of single values against the vectors of the spec."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest

from frazil.errors import Unsupported, ValidationError
from frazil.spec.transform_values import (
    apply,
    bucket,
    bucket_hash,
    minimal_bytes,
    murmur3,
    year_and_month,
)
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
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

NOVEMBER = 1_510_871_468_000_000  # 2017-11-16T22:31:08


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (IntegerType(), 34, 2017239379),
        (LongType(), 34, 2017239379),
        (DecimalType(9, 2), Decimal("14.20"), -500754589),
        (DateType(), 17486, -653330422),
        (TimeType(), 81_068_000_000, -662762989),
        (TimestampType(), NOVEMBER, -2047944441),
        (TimestamptzType(), NOVEMBER + 1, -1207196810),
        (TimestampNanoType(), NOVEMBER * 1000 + 999, -2047944441),
        (TimestamptzNanoType(), (NOVEMBER + 1) * 1000, -1207196810),
        (StringType(), "iceberg", 1210000089),
        (StringType(), "34", -427558391),
        (UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        (FixedType(4), b"\x00\x01\x02\x03", -188683207),
        (BinaryType(), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_hashes_are_those_of_the_spec(type_: IcebergType, value: Any, expected: int) -> None:
    assert bucket_hash(type_, value) == expected


def test_buckets_are_those_of_the_spec() -> None:
    assert bucket(LongType(), 34, 16) == 3
    assert bucket(StringType(), "iceberg", 16) == 9
    assert bucket(DateType(), 17486, 16) == 10


def test_murmur_of_nothing_is_zero() -> None:
    assert murmur3(b"") == 0


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "00"),
        (-1, "ff"),
        (127, "7f"),
        (128, "0080"),
        (-128, "80"),
        (-129, "ff7f"),
        (1420, "058c"),
    ],
)
def test_unscaled_numbers_are_as_short_as_can_be(number: int, expected: str) -> None:
    assert minimal_bytes(number).hex() == expected


def test_time_ordinals_count_from_1970_and_floor() -> None:
    parts = (YearTransform(), MonthTransform(), DayTransform(), HourTransform())
    assert [apply(t, TimestampType(), NOVEMBER) for t in parts] == [47, 574, 17486, 419686]
    assert [apply(t, TimestampType(), -1) for t in parts] == [-1, -1, -1, -1]
    assert [apply(t, TimestampNanoType(), -1) for t in parts] == [-1, -1, -1, -1]
    assert [apply(t, DateType(), -1) for t in parts[:3]] == [-1, -1, -1]
    assert apply(YearTransform(), DateType(), -366) == -2


def test_years_beyond_those_of_datetime_are_known() -> None:
    assert year_and_month(-719_529) == (-1, 12)
    assert year_and_month(2_932_897) == (10_000, 1)


@pytest.mark.parametrize(
    ("type_", "width", "value", "expected"),
    [
        (IntegerType(), 10, 1, 0),
        (IntegerType(), 10, -1, -10),
        (LongType(), 10, -10, -10),
        (IntegerType(), 10, -(2**31), 2**31 - 2),  # below the least int it wraps around, as in Java
        (DecimalType(9, 2), 50, Decimal("10.65"), Decimal("10.50")),
        (DecimalType(9, 2), 50, Decimal("-0.05"), Decimal("-0.50")),
        (StringType(), 3, "iceberg", "ice"),
        (StringType(), 2, "𝄞é冰", "𝄞é"),
        (BinaryType(), 3, b"\x01\x02\x03\x04", b"\x01\x02\x03"),
    ],
)
def test_truncation_goes_down(type_: IcebergType, width: int, value: Any, expected: Any) -> None:
    assert apply(TruncateTransform(width), type_, value) == expected


def test_null_gives_null_and_void_gives_nothing_else() -> None:
    for transform in (
        IdentityTransform(),
        BucketTransform(4),
        TruncateTransform(4),
        VoidTransform(),
    ):
        assert apply(transform, LongType(), None) is None
    assert apply(VoidTransform(), LongType(), 7) is None


UNTRANSFORMED = [
    (UnknownTransform("zorder(3)"), LongType(), 7, Unsupported, "zorder"),
    (BucketTransform(4), DoubleType(), 1.0, ValidationError, "double"),
    (HourTransform(), DateType(), 1, ValidationError, "hour"),
]


def test_what_cannot_be_transformed_is_refused_by_name() -> None:
    for transform, type_, value, error, message in UNTRANSFORMED:
        with pytest.raises(error, match=message):
            apply(transform, type_, value)
