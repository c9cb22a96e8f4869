"""Frames are matched by name; what is cast is cast safely, what does not fit is refused in one
message.
"""

import datetime as dt
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.conform import as_arrow, conform, frame_schema
from frazil.errors import InvalidInput, SchemaMismatch, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

N = NestedField
SCHEMA = Schema(
    N(1, "id", LongType(), True),
    N(2, "name", StringType()),
    N(3, "n", IntegerType(), write_default=7),
)


def taken(frame, schema=SCHEMA, **more):
    return pa.Table.from_batches(list(conform(frame, schema, **more)), to_arrow_schema(schema))


def test_columns_are_matched_by_name_and_missing_ones_take_their_write_default():
    found = taken(pa.table({"name": ["a", None], "id": pa.array([1, 2], pa.int32())}))
    assert found.to_pylist() == [{"id": 1, "name": "a", "n": 7}, {"id": 2, "name": None, "n": 7}]


def test_case_matters_unless_said_otherwise():
    frame = pa.table({"ID": [1], "Name": ["a"]})
    with pytest.raises(SchemaMismatch, match="id"):
        conform(frame, SCHEMA)
    assert taken(frame, case_sensitive=False).to_pylist() == [{"id": 1, "name": "a", "n": 7}]


def test_all_mismatches_come_in_one_table():
    with pytest.raises(SchemaMismatch) as caught:
        conform(pa.table({"name": [1], "n": ["x"], "extra": [1]}), SCHEMA)
    text = str(caught.value)
    for part in (
        "name",
        "int64",
        "cannot be cast safely",
        "extra",
        "is no column of the table",
        "id",
        "is required, but not in the frame",
    ):
        assert part in text


def test_values_that_do_not_fit_are_refused_while_rows_are_taken():
    with pytest.raises(SchemaMismatch, match=r"column n .*int"):
        taken(pa.table({"id": [1], "n": pa.array([2**31], pa.int64())}))
    with pytest.raises(SchemaMismatch, match="id is required"):
        taken(pa.table({"id": pa.array([1, None])}))


CASTS = [
    (pa.array([1], pa.uint8()), IntegerType(), [1]),
    (pa.array([1.5], pa.float32()), DoubleType(), [1.5]),
    (pa.array([3], pa.int32()), DecimalType(5, 2), [3]),
    (
        pa.array([2**53, None, -(2**60), -(2**63)]),
        DoubleType(),
        [2.0**53, None, -(2.0**60), -(2.0**63)],
    ),
    (pa.array([2**63], pa.uint64()), DoubleType(), [2.0**63]),
    (pa.array([2**24, 2**40]), FloatType(), [2.0**24, 2.0**40]),
    (pa.array(["a"], pa.large_string()), StringType(), ["a"]),
    (pa.array(["a", "a"]).dictionary_encode(), StringType(), ["a", "a"]),
    (pa.array([b"abc"]), FixedType(3), [b"abc"]),
    (pa.array([b"abc"], pa.binary(3)), BinaryType(), [b"abc"]),
    (
        pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns")),
        TimestampType(),
        [dt.datetime(2020, 1, 1)],
    ),
    (pa.array([None], pa.null()), DateType(), [None]),
    (pc.run_end_encode(pa.array([1, 1, None, 2], pa.int32())), LongType(), [1, 1, None, 2]),
    (pc.run_end_encode(pa.array(["a", "a", "b"])), StringType(), ["a", "a", "b"]),
    (pa.nulls(2), StructType(N(2, "x", LongType(), True)), [None, None]),
    (pa.nulls(2), ListType(2, LongType()), [None, None]),
    (pa.nulls(1), MapType(2, StringType(), 3, LongType()), [None]),
    (pa.array([dt.date(2020, 1, 2)]), TimestampType(), [dt.datetime(2020, 1, 2)]),
    (
        pa.array(["00000000-0000-0000-0000-00000000000A"]),
        UUIDType(),
        ["00000000-0000-0000-0000-00000000000a"],
    ),
    (
        pa.array(["{0000000000000000000000000000000A}"]),
        UUIDType(),
        ["00000000-0000-0000-0000-00000000000a"],
    ),
    (
        pa.array([uuid.UUID(int=10).bytes], pa.uuid()),
        UUIDType(),
        ["00000000-0000-0000-0000-00000000000a"],
    ),
]


@pytest.mark.parametrize(
    ("column", "type_", "want"), CASTS, ids=lambda v: str(getattr(v, "type", v))[:20]
)
def test_safe_casts_are_made(column, type_, want):
    found = taken(pa.table({"c": column}), Schema(N(1, "c", type_)))
    assert found["c"].to_pylist() == want


REFUSED = [
    (pa.array([1.5]), IntegerType()), (pa.array([1.5]), DecimalType(5, 2)), (pa.array([1.5]), FloatType()), (pa.array(["1"]), LongType()),
    (pa.array([1]), StringType()), (pa.array([dt.datetime(2020, 1, 1)]), TimestamptzType()), (pa.array([True]), IntegerType()),
    (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us", "UTC")), TimestampType()), (pa.array([[1]]), LongType()), (pa.array([{"a": 1}]), ListType(2, LongType())),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "type_"), REFUSED, ids=lambda v: str(getattr(v, "type", v))[:20]
)
def test_unsafe_casts_are_refused_by_type(column, type_):
    with pytest.raises(SchemaMismatch, match="cannot be cast safely"):
        conform(pa.table({"c": column}), Schema(N(1, "c", type_)))


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array([b"abcd"]), FixedType(3)),
        (pa.array([1], pa.timestamp("ns")), TimestampType()),
        (pa.array([None, 2**53 + 1]), DoubleType()),
        (pa.array([2**63 - 1]), DoubleType()),
        (pa.array([2**64 - 1], pa.uint64()), DoubleType()),
        (pa.array([2**24 + 1]), FloatType()),
        (pa.array([1000]), DecimalType(4, 2)),
        (pa.array(["zz"]), UUIDType()),
    ],
    ids=lambda v: str(getattr(v, "type", v))[:20],
)
def test_values_that_would_be_changed_are_refused(column, type_):
    with pytest.raises(SchemaMismatch, match="does not fit"):
        taken(pa.table({"c": column}), Schema(N(1, "c", type_)))


def test_nested_fields_are_matched_by_name_too_and_slices_stay_slices():
    schema = Schema(
        N(1, "s", StructType(N(2, "b", LongType()), N(3, "a", StringType()))),
        N(4, "l", ListType(5, StructType(N(6, "x", LongType(), True)), False)),
        N(7, "m", MapType(8, StringType(), 9, LongType(), False)),
    )
    rows = [
        {"s": {"a": "q", "b": 1}, "l": [{"x": 1}, None], "m": [("k", 1)]},
        {"s": None, "l": None, "m": None},
        {"s": {"a": None, "b": 2}, "l": [], "m": []},
        {"s": {"a": "r", "b": None}, "l": [{"x": 5}], "m": [("a", None), ("b", 2)]},
    ]
    types = pa.schema(
        [
            ("s", pa.struct([("a", pa.string()), ("b", pa.int32())])),
            ("l", pa.large_list(pa.struct([("x", pa.int16())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    frame = pa.Table.from_pylist(rows, schema=types)
    want = [{**r, "s": r["s"] and {"b": r["s"]["b"], "a": r["s"]["a"]}} for r in rows]
    assert taken(frame, schema).to_pylist() == want
    assert taken(frame.slice(1, 2), schema).to_pylist() == want[1:3]
    assert taken(frame.slice(3), schema).to_pylist() == want[3:]
    bad = pa.table({"l": pa.array([[{"x": None}]], pa.list_(pa.struct([("x", pa.int64())])))})
    with pytest.raises(SchemaMismatch, match=r"l\.element\.x"):
        taken(bad, schema)


def test_frames_of_every_kind_are_taken():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [{"id": 1, "name": "a", "n": 2}]
    table = pa.Table.from_pylist(rows)
    for frame in (
        table,
        table.to_reader(),
        table.to_batches()[0],
        rows,
        {"id": [1], "name": ["a"], "n": [2]},
        pandas.DataFrame(rows),
        polars.DataFrame(rows),
    ):
        assert taken(frame).to_pylist() == rows
    with pytest.raises(InvalidInput, match="is not a frame"):
        as_arrow(7)
    with pytest.raises(InvalidInput, match="two columns"):
        conform(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), SCHEMA)


def test_a_frames_schema_takes_its_field_ids_or_fresh_ones():
    plain = frame_schema(
        pa.schema(
            [
                ("a", pa.int64()),
                ("s", pa.struct([("x", pa.string())])),
                ("b", pa.timestamp("us", "Europe/Rome")),
            ]
        )
    )
    assert [(f.field_id, f.name) for f in plain.fields] == [(1, "a"), (2, "s"), (3, "b")]
    assert isinstance(plain.find_type("b"), TimestamptzType)
    assert frame_schema(to_arrow_schema(SCHEMA, field_ids=True)).same_fields(
        Schema(*(N(f.field_id, f.name, f.field_type, f.required) for f in SCHEMA.fields))
    )
    with pytest.raises(Unsupported, match=r"Column d: .*duration"):
        frame_schema(pa.schema([("d", pa.duration("s"))]))


def test_what_lies_under_null_structs_and_lists_is_not_cast():
    schema = Schema(
        N(1, "s", StructType(N(2, "u", UUIDType()))), N(3, "l", ListType(4, UUIDType(), False))
    )
    text = "00000000-0000-0000-0000-00000000000a"
    struct = pa.StructArray.from_arrays(
        [pa.array([text, ""])], names=["u"], mask=pa.array([False, True])
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([text, ""]), mask=pa.array([False, True])
    )
    assert taken(pa.table({"s": struct, "l": lists}), schema).to_pylist() == [
        {"s": {"u": text}, "l": [text]},
        {"s": None, "l": None},
    ]


def test_rows_as_dicts_may_lack_columns_that_others_have():
    found = as_arrow(
        [{"id": 1}, {"id": 2, "name": "b"}, {"n": 3, "s": {"x": 1}}, {"s": {"y": "z"}}]
    )
    assert found.column_names == ["id", "name", "n", "s"] and found["id"].to_pylist() == [
        1,
        2,
        None,
        None,
    ]
    assert found["s"].to_pylist() == [None, None, {"x": 1, "y": None}, {"x": None, "y": "z"}]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([{"id": 1}, {"id": "x"}], "Column id cannot be read as one type"),
        ([{"id": 2**70}], "Column id cannot be read as one type"),
        ({"id": 5}, "Column id cannot be read as one type"),
        ({"id": [1], "name": ["a", "b"]}, "differ in length: id: 1, name: 2"),
        ([{1: "a"}], "The name of a column must be text, not 1"),
        ([{}], "is not a frame"),
    ],
)
def test_python_values_that_make_no_column_are_told_by_name(frame, message):
    with pytest.raises(InvalidInput, match=message):
        as_arrow(frame)


def test_pandas_columns_of_mixed_values_are_told_by_name():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(SchemaMismatch, match="column id"):
        as_arrow(pandas.DataFrame({"id": [1, "x"]}))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_texts_that_are_not_utf8_are_refused_by_column_wherever_they_are(place):
    """Bounds alone would tell of the first and the last only."""
    values = [b"a", b"m", b"z"]
    values[place] += b"\xff\xfe"
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    text = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )
    inside = pa.StructArray.from_arrays([text], names=["t"])
    for column, type_, name in (
        (text, StringType(), "c"),
        (inside, StructType(N(2, "t", StringType())), "c.t"),
    ):
        with pytest.raises(SchemaMismatch, match=f"column {name} .*UTF8"):
            taken(pa.table({"c": column}), Schema(N(1, "c", type_)))


def test_run_ends_that_arrow_cannot_decode_are_refused_by_name():
    encoded = pc.run_end_encode(pa.array([1, 1, 2]))
    inside = pa.StructArray.from_arrays([encoded], names=["x"])
    with pytest.raises(SchemaMismatch, match="run-end encoded"):
        conform(pa.table({"c": inside}), Schema(N(1, "c", StructType(N(2, "x", LongType())))))
