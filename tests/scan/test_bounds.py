"""Bounds columns of manifests to typed arrays."""

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.codec import single_value
from frazil.scan.bounds import MapColumn, decode_bounds, trusted
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

COLUMN = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))


def decoded(type_, *values):
    return decode_bounds(pa.array(values, type=pa.binary()), type_).to_pylist()


ROWS = st.lists(
    st.one_of(st.none(), st.dictionaries(st.integers(1, 6), st.binary(max_size=9), max_size=5)),
    max_size=30,
)


@given(ROWS, st.integers(0, 5))
def test_a_map_column_gives_the_value_of_an_id_on_every_row(rows, skip):
    pairs = [None if r is None else [{"key": k, "value": v} for k, v in r.items()] for r in rows]
    array = pa.array(pairs, type=COLUMN).slice(min(skip, len(rows)))
    column = MapColumn(array)
    for field_id in range(1, 8):
        assert column.at(field_id).to_pylist() == [
            None if r is None else r.get(field_id) for r in rows[min(skip, len(rows)) :]
        ]


def test_a_map_column_of_several_chunks_is_one():
    chunks = pa.chunked_array(
        [
            pa.array([[{"key": 1, "value": b"a"}]], COLUMN),
            pa.array([None, [{"key": 1, "value": b"b"}]], COLUMN),
        ]
    )
    assert MapColumn(chunks).at(1).to_pylist() == [b"a", None, b"b"]
    assert MapColumn(pa.chunked_array([], COLUMN)).at(1).to_pylist() == []


VALUES = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    DateType(): st.integers(-(2**31), 2**31 - 1),
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): st.integers(-(2**63), 2**63 - 1),
    TimestamptzType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    StringType(): st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    BinaryType(): st.binary(max_size=9),
    FixedType(5): st.binary(min_size=5, max_size=5),
    UUIDType(): st.binary(min_size=16, max_size=16),
    DecimalType(38, 4): st.decimals(-(10**33), 10**33, places=4),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(st.data())
def test_every_value_is_read_back_from_its_bytes(type_, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[type_]), max_size=12))
    assert (
        decoded(type_, *(None if v is None else single_value.to_bytes(type_, v) for v in values))
        == values
    )


def test_bounds_keep_the_width_they_were_written_with():
    four, eight = struct.pack("<i", -7), struct.pack("<q", -8)
    assert decoded(LongType(), four, eight, None) == [-7, -8, None]
    assert decoded(DoubleType(), struct.pack("<f", 0.5), struct.pack("<d", 0.1)) == [0.5, 0.1]
    assert decoded(TimestampType(), struct.pack("<i", -1), struct.pack("<q", 5)) == [
        -86_400_000_000,
        5,
    ]
    assert decoded(TimestampNanoType(), struct.pack("<i", 1)) == [86_400_000_000_000]
    assert decoded(DecimalType(20, 2), b"\x05\x8c", b"\xff" * 9, b"\x00\x80") == [
        Decimal("14.20"),
        Decimal("-0.01"),
        Decimal("1.28"),
    ]


def test_a_date_that_does_not_fit_nanoseconds_is_unknown():
    assert decoded(
        TimestampNanoType(), struct.pack("<i", 2**31 - 1), struct.pack("<i", -(2**31))
    ) == [None, None]


def test_bytes_that_cannot_be_of_the_type_are_unknown():
    assert decoded(IntegerType(), b"abc", struct.pack("<q", 2**40), struct.pack("<q", 9)) == [
        None,
        None,
        9,
    ]
    assert decoded(LongType(), b"", b"123456789") == [None, None]
    assert decoded(TimestamptzType(), struct.pack("<i", 1)) == [None]
    assert decoded(UUIDType(), b"short", b"x" * 16) == [None, b"x" * 16]
    assert decoded(DecimalType(9, 2), b"", b"1" * 17) == [None, None]
    assert decoded(StringType(), b"ok", b"cut \xc3", None) == ["ok", None, None]


def test_nan_is_no_bound():
    assert decoded(DoubleType(), struct.pack("<d", float("nan")), struct.pack("<d", 1.0)) == [
        None,
        1.0,
    ]
    assert decoded(FloatType(), struct.pack("<f", float("nan"))) == [None]


def test_sliced_bounds_are_read_from_where_the_slice_begins():
    values = pa.array([struct.pack("<q", i) for i in range(10)], type=pa.binary()).slice(3, 4)
    assert decode_bounds(values, LongType()).to_pylist() == [3, 4, 5, 6]


def test_bounds_of_timestamps_count_only_where_their_unit_is_sure():
    """Java's `add_files` takes the bounds of a column of milliseconds as microseconds; its files
    have no split offsets.
    """
    may_2021 = 1_620_183_840_000  # milliseconds
    low = pa.array([may_2021, may_2021 * 1000, may_2021, may_2021 * 10**6, None], pa.int64())
    files = pa.table(
        {"split_offsets": pa.array([None, None, [4], None, None], pa.list_(pa.int64()))}
    )
    for type_ in (TimestampType(), TimestamptzType()):
        for lower, upper in ((low, low), (low, pa.array([may_2021 * 1000] * 5, pa.int64()))):
            found = trusted(lower, upper, type_, files)
            assert found[0].to_pylist() == [None, may_2021 * 1000, may_2021, None, None]
            assert [found[1][i].as_py() for i in (0, 3)] == [None, None] and found[1][
                1
            ].as_py() == may_2021 * 1000
        assert trusted(low, low, type_, pa.table({"x": low}))[0].to_pylist() == [
            None,
            may_2021 * 1000,
            None,
            None,
            None,
        ]
    assert trusted(low, low, LongType(), files)[0].equals(low)
