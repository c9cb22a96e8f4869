from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.codec import single_value
from frazil.codec.single_value import (
    from_bytes,
    from_json,
    human_string,
    java_float,
    to_bytes,
    to_json,
)
from frazil.errors import CorruptData, InvalidInput
from frazil.spec import types as t
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from tests.codec.made import DAYS, LONG, primitives

IDENTITY = IdentityTransform()
VECTORS: list[tuple[t.IcebergType, Any, str]] = [  # spec, "Appendix D"
    (t.IntegerType(), 34, "22000000"), (t.LongType(), 34, "2200000000000000"), (t.FloatType(), 1.0, "0000803f"),
    (t.DoubleType(), 1.0, "000000000000f03f"), (t.DateType(), 17486, "4e440000"), (t.TimeType(), 81068000000, "008307e012000000"),
    (t.TimestampType(), 1510871468000000, "00c3262d215e0500"), (t.TimestamptzType(), 1510871468000000, "00c3262d215e0500"),
    (t.TimestampNanoType(), 1510871468000000000, "00b8695f98b1f714"), (t.DecimalType(9, 2), Decimal("14.20"), "058c"),
    (t.DecimalType(9, 0), Decimal(0), "00"), (t.DecimalType(9, 0), Decimal(-1), "ff"), (t.DecimalType(9, 0), Decimal(128), "0080"),
    (t.DecimalType(9, 0), Decimal(-128), "80"), (t.DecimalType(9, 0), Decimal(-129), "ff7f"), (t.StringType(), "iceberg", "69636562657267"),
    (t.UUIDType(), bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), "f79c3e09677c4bbda4793f349cb785e7"), (t.BooleanType(), True, "01"),
    (t.BooleanType(), False, "00"), (t.BinaryType(), b"\x00\xff", "00ff"), (t.FixedType(2), b"\x00\xff", "00ff"),
]  # fmt: skip


@pytest.mark.parametrize("type_,value,expected", VECTORS, ids=lambda v: str(v)[:20])
def test_single_values_have_the_bytes_of_the_specification(
    type_: t.IcebergType, value: Any, expected: str
) -> None:
    assert to_bytes(type_, value).hex() == expected
    assert from_bytes(type_, bytes.fromhex(expected)) == value


@given(primitives())
def test_a_value_survives_its_bytes(typed: tuple[t.IcebergType, Any]) -> None:
    type_, value = typed
    assert from_bytes(type_, to_bytes(type_, value)) == value


@given(primitives())
def test_a_value_survives_its_json(typed: tuple[t.IcebergType, Any]) -> None:
    type_, value = typed
    assert from_json(type_, to_json(type_, value)) == value


def test_bounds_written_before_a_column_was_widened_are_understood() -> None:
    assert from_bytes(t.LongType(), struct.pack("<i", -5)) == -5
    assert from_bytes(t.DoubleType(), struct.pack("<f", 1.5)) == 1.5
    assert from_bytes(t.TimestampType(), struct.pack("<i", -1)) == -86_400_000_000
    assert from_bytes(t.TimestampNanoType(), struct.pack("<i", 2)) == 2 * 86_400 * 10**9
    assert from_bytes(t.DecimalType(20, 2), b"\x05\x8c") == Decimal("14.20")


@pytest.mark.parametrize(
    "type_",
    [
        t.IntegerType(),
        t.LongType(),
        t.BooleanType(),
        t.UUIDType(),
        t.FixedType(4),
        t.DecimalType(9, 2),
        t.TimestamptzType(),
        t.DoubleType(),
    ],
)
@pytest.mark.parametrize("size", [0, 3, 5, 17, 1000])
def test_bytes_of_the_wrong_length_are_refused(type_: t.IcebergType, size: int) -> None:
    if isinstance(type_, t.DecimalType) and 0 < size <= 17:
        return
    with pytest.raises(CorruptData):
        from_bytes(type_, b"\x01" * size)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(CorruptData, match="UTF-8"):
        from_bytes(t.StringType(), b"\xff\xfe")


@pytest.mark.parametrize(
    "type_,value",
    [
        (t.IntegerType(), 2**31),
        (t.IntegerType(), "x"),
        (t.DecimalType(9, 2), Decimal("1.234")),
        (t.StructType(), {}),
    ],
)
def test_a_value_that_is_none_of_the_type_is_refused(type_: t.IcebergType, value: Any) -> None:
    with pytest.raises(InvalidInput):
        to_bytes(type_, value)


def test_nested_defaults_go_by_field_id() -> None:
    struct_type = t.StructType(
        t.NestedField(4, "a", t.LongType()), t.NestedField(5, "b", t.StringType())
    )
    map_type = t.MapType(6, t.StringType(), 7, struct_type, False)
    value = [("k", {4: 1, 5: "x"}), ("l", {4: 2})]
    obj = to_json(map_type, value)
    assert obj == {"keys": ["k", "l"], "values": [{"4": 1, "5": "x"}, {"4": 2}]}
    assert from_json(map_type, obj) == value
    assert from_json(t.ListType(1, t.DateType()), ["2017-11-16", None]) == [17486, None]


JSON = [
    (t.DateType(), 17486, "2017-11-16"), (t.TimeType(), 81068123456, "22:31:08.123456"), (t.TimestampType(), 1510871468123456, "2017-11-16T22:31:08.123456"),
    (t.TimestamptzType(), 1510871468123456, "2017-11-16T22:31:08.123456+00:00"), (t.TimestampNanoType(), 1510871468123456789, "2017-11-16T22:31:08.123456789"),
    (t.TimestamptzNanoType(), 1510871468123456789, "2017-11-16T22:31:08.123456789+00:00"), (t.DecimalType(4, 2), Decimal("14.20"), "14.20"),
    (t.DecimalType(9, -20), Decimal("2E+20"), "2E+20"), (t.FixedType(4), b"\x00\x01\x02\xff", "000102FF"), (t.BinaryType(), b"", ""),
    (t.UUIDType(), bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"), (t.BooleanType(), True, True),
    (t.DecimalType(10, 8), Decimal("0.00000001"), "0.00000001"),
]  # fmt: skip


@pytest.mark.parametrize("type_,value,expected", JSON, ids=lambda v: str(v)[:24])
def test_json_values_are_those_of_the_specification(
    type_: t.IcebergType, value: Any, expected: Any
) -> None:
    assert to_json(type_, value) == expected
    assert from_json(type_, expected) == value


@pytest.mark.parametrize(
    "type_,obj",
    [
        (t.IntegerType(), 2**31),
        (t.IntegerType(), True),
        (t.IntegerType(), 1.5),
        (t.LongType(), "1"),
        (t.DateType(), "2017-02-30"),
        (t.DateType(), 5),
        (t.TimestamptzType(), "2017-11-16T22:31:08"),
        (t.TimestamptzType(), "2017-11-16T22:31:08+01:00"),
        (t.TimestampType(), "2017-11-16"),
        (t.TimestampType(), "2017-11-16T22:31:08.1234567"),
        (t.TimeType(), "24:00:00"),
        (t.DecimalType(4, 2), "100.00"),
        (t.DecimalType(4, 2), "1E+999999999"),
        (t.DecimalType(4, 2), "NaN"),
        (t.FixedType(2), "00"),
        (t.BinaryType(), "0g"),
        (t.UUIDType(), "f79c"),
        (t.StringType(), 5),
        (t.BooleanType(), "true"),
        (t.ListType(1, t.IntegerType()), {}),
        (t.MapType(1, t.StringType(), 2, t.StringType()), {"keys": ["a"], "values": []}),
        (t.VariantType(), "{}"),
    ],
)
def test_json_that_is_no_value_of_the_type_is_refused(type_: t.IcebergType, obj: Any) -> None:
    with pytest.raises(InvalidInput):
        from_json(type_, obj)


HUMAN = [
    (YearTransform(), t.DateType(), 47, "2017"), (YearTransform(), t.DateType(), -1971, "-001"), (MonthTransform(), t.DateType(), 574, "2017-11"),
    (MonthTransform(), t.DateType(), -1, "1969-12"), (DayTransform(), t.TimestampType(), 17486, "2017-11-16"), (DayTransform(), t.TimestampType(), -1, "1969-12-31"),
    (HourTransform(), t.TimestampType(), 419686, "2017-11-16-22"), (HourTransform(), t.TimestampType(), -1, "1969-12-31-23"),
    (BucketTransform(16), t.StringType(), 3, "3"), (TruncateTransform(3), t.StringType(), "ice", "ice"), (VoidTransform(), t.StringType(), None, "null"),
    (IDENTITY, t.BooleanType(), True, "true"), (IDENTITY, t.LongType(), -5, "-5"), (IDENTITY, t.DateType(), 17486, "2017-11-16"),
    (IDENTITY, t.TimeType(), 81068000000, "22:31:08"), (IDENTITY, t.TimeType(), 36_000_000_000, "10:00"), (IDENTITY, t.TimeType(), 36_000_120_000, "10:00:00.120"),
    (IDENTITY, t.TimestampType(), 1510871468000000, "2017-11-16T22:31:08"), (IDENTITY, t.TimestamptzType(), 1510871468120000, "2017-11-16T22:31:08.12+00:00"),
    (IDENTITY, t.TimestampNanoType(), 1510871468000000001, "2017-11-16T22:31:08.000000001"), (IDENTITY, t.DecimalType(9, 2), Decimal("-1.50"), "-1.50"),
    (IDENTITY, t.DecimalType(9, 8), Decimal("0.00000001"), "1E-8"), (IDENTITY, t.BinaryType(), b"\x00\xff", "AP8="), (IDENTITY, t.StringType(), "a/b", "a/b"),
    (IDENTITY, t.UUIDType(), bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
]  # fmt: skip


@pytest.mark.parametrize("transform,type_,value,expected", HUMAN, ids=lambda v: str(v)[:24])
def test_partition_values_read_as_java_prints_them(
    transform: Any, type_: t.IcebergType, value: Any, expected: str
) -> None:
    assert human_string(transform, type_, value) == expected


@pytest.mark.parametrize(
    "value,single,expected",
    [
        (1.0, False, "1.0"),
        (0.001, False, "0.001"),
        (0.0001, False, "1.0E-4"),
        (1e7, False, "1.0E7"),
        (9999999.5, False, "9999999.5"),
        (-0.0, False, "-0.0"),
        (1.2345678901234567e300, False, "1.2345678901234567E300"),
        (math.nan, False, "NaN"),
        (math.inf, False, "Infinity"),
        (-math.inf, True, "-Infinity"),
        (struct.unpack("<f", struct.pack("<f", 0.1))[0], True, "0.1"),
        (3.4028234663852886e38, True, "3.4028235E38"),
        (123.0, True, "123.0"),
        (5e-324, False, "5.0E-324"),
        (100.0, False, "100.0"),
        (1234567.0, True, "1234567.0"),
    ],
)
def test_floats_read_as_java_prints_them(value: float, single: bool, expected: str) -> None:
    found = java_float(value, single)
    assert found == expected


@given(st.dates())
def test_dates_agree_with_the_calendar_of_python(day: dt.date) -> None:
    days = (day - dt.date(1970, 1, 1)).days
    assert single_value.civil(days) == (day.year, day.month, day.day)
    assert single_value.date_text(days) == day.isoformat()
    assert single_value.parse_date(day.isoformat()) == days


@given(DAYS)
def test_dates_of_the_whole_range_survive_their_text(days: int) -> None:
    assert single_value.parse_date(single_value.date_text(days)) == days


@given(LONG, st.sampled_from([6, 9]), st.booleans())
def test_timestamps_of_the_whole_range_survive_their_text(
    units: int, digits: int, zone: bool
) -> None:
    assert (
        single_value.parse_timestamp(single_value.timestamp_text(units, digits, zone), digits, zone)
        == units
    )
