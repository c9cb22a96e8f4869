"""Frames of every kind become Arrow: levels of a pandas index that have names are columns, Python
values are read as the table's type.
"""

import datetime as dt
import math
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write.conform import conform
from frazil.errors import InvalidInput, SchemaMismatch
from frazil.spec.ddl import parse_schema

NAIVE, ZONED = dt.datetime(2024, 5, 6, 7, 8, 9, 10), dt.datetime(2024, 5, 6, 7, 8, 9, 10, dt.UTC)
BERLIN = ZONED.astimezone(dt.timezone(dt.timedelta(hours=2)))


def taken(frame, ddl, **more):
    schema = parse_schema(ddl)
    return pa.Table.from_batches(list(conform(frame, schema, **more)), to_arrow_schema(schema))


def values(value, ddl):
    """The value, alone and beside a null, as what a column of this type holds."""
    found = taken([{"x": value}, {"x": None}], f"x {ddl}")["x"].to_pylist()
    assert found[1] is None and taken({"x": [value, None]}, f"x {ddl}")["x"].to_pylist() == found
    return found[0]


# pandas' index
# --------------------------------------------------------------------------------------------------------------------------

FRAME = pd.DataFrame({"k": ["b", "a", "b"], "j": [1, 2, 3], "v": [1.5, 2.5, 3.5]})


@pytest.mark.parametrize(
    ("frame", "columns"),
    [
        (FRAME, ["k", "j", "v"]),
        (FRAME.groupby("k").sum(), ["j", "v", "k"]),
        (FRAME.groupby(["k", "j"]).sum(), ["v", "k", "j"]),
        (FRAME.set_index("k", drop=False), ["k", "j", "v"]),
        (FRAME.set_index("k").rename_axis(None), ["j", "v"]),
        (FRAME[FRAME.j > 1], ["k", "j", "v"]),
        (FRAME.set_index(["k", "j"]).rename_axis([None, "j"]), ["v", "j"]),
        (FRAME.rename_axis("row"), ["k", "j", "v", "row"]),
        (FRAME.set_index("k")[[]], ["k"]),
        (
            FRAME.assign(k=FRAME.k.astype("category")).groupby("k", observed=True).sum(),
            ["j", "v", "k"],
        ),
    ],
    ids=range(10),
)
def test_levels_of_an_index_are_columns_where_they_have_a_name(frame, columns):
    found = as_arrow(frame)
    assert found.column_names == columns and found.num_rows == len(frame)
    expected = frame.reset_index(
        level=[n for n in frame.index.names if n is not None and n not in frame.columns]
    )
    for name in columns:
        assert found[name].to_pylist() == expected[name].tolist()


def test_subclasses_of_pandas_frames_are_pandas_frames():
    class Mine(pd.DataFrame):
        pass

    assert as_arrow(Mine({"v": [1]}, index=pd.Index([7]))).column_names == ["v"]
    assert as_arrow(Mine({"v": [1]}, index=pd.Index([7], name="k"))).to_pylist() == [
        {"v": 1, "k": 7}
    ]


def test_a_level_that_is_another_than_the_column_of_its_name_is_refused():
    with pytest.raises(
        InvalidInput,
        match=r"column and an index level named 'k' with different values.*reset_index",
    ):
        as_arrow(pd.DataFrame({"k": [1, 2]}, index=pd.Index([2, 1], name="k")))


# pandas' values
# -------------------------------------------------------------------------------------------------------------------------


def test_whole_numbers_that_pandas_made_doubles_are_whole_again_and_nan_is_null():
    frame = pd.DataFrame(
        {
            "i": [1.0, math.nan],
            "l": [2.0**53, None],
            "d": [1.0, math.nan],
            "f": pd.array([1.5, math.nan], "float32"),
        }
    )
    assert taken(frame, "i int, l bigint, d double, f float").to_pylist() == [
        {"i": 1, "l": 2**53, "d": 1.0, "f": 1.5},
        {"i": None, "l": None, "d": None, "f": None},
    ]
    assert taken(pd.DataFrame({"i": [math.nan]}), "i int")["i"].to_pylist() == [None]
    assert taken({"i": pd.Series([1.0, math.nan])}, "i int")["i"].to_pylist() == [1, None]


@pytest.mark.parametrize("values", [[1.5, 2.0], [2.0**53 + 2, 1.0], [math.inf, 1.0]])
def test_doubles_of_pandas_that_may_not_be_whole_numbers_are_refused(values):
    """Beyond 2^53 pandas may have rounded what was whole before."""
    with pytest.raises(SchemaMismatch, match="Int64"):
        taken(pd.DataFrame({"i": values}), "i bigint")


def test_nan_is_null_in_pandas_frames_alone():
    for frame in (
        pa.table({"i": [1.0, math.nan]}),
        {"i": np.array([1.0, math.nan])},
        [{"i": 1.0}, {"i": math.nan}],
    ):
        with pytest.raises(SchemaMismatch, match="NaN is taken for null in pandas frames only"):
            taken(frame, "i int")
        assert math.isnan(taken(frame, "i double")["i"].to_pylist()[1])


def test_objects_in_pandas_frames_are_read_as_the_table_has_them():
    frame = pd.DataFrame(
        {
            "m": [{"a": 1}, None],
            "t": [NAIVE, pd.NaT],
            "s": ["x", None],
            "d": [Decimal("1.5"), math.nan],
            "n": [None, None],
        }
    )
    want = {"m": [("a", 1)], "t": NAIVE, "s": "x", "d": Decimal("1.50"), "n": None}
    frame = frame.astype({"t": object})
    found = taken(
        frame, "m map<string,bigint>, t timestamp_ntz, s string, d decimal(10,2), n int"
    ).to_pylist()
    assert found == [want, dict.fromkeys(want)]


# Python values
# --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ddl", "value", "held"),
    [
        ("double", 1, 1.0),
        ("double", 2**60, 2.0**60),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", 2**24, 2.0**24),
        ("double", np.int8(3), 3.0),
        ("int", np.int64(3), 3),
        ("decimal(10,2)", 3, Decimal("3.00")),
        ("decimal(10,2)", Decimal("1.50000"), Decimal("1.50")),
        ("decimal(38,0)", 2**100, Decimal(2**100)),
        ("timestamp", BERLIN, ZONED),
        ("timestamp_ntz", NAIVE, NAIVE),
        ("timestamp_ntz", NAIVE.date(), dt.datetime(2024, 5, 6)),
        ("timestamp", pd.Timestamp(ZONED), ZONED),
        ("date", NAIVE.date(), NAIVE.date()),
        ("time", dt.time(1, 2), dt.time(1, 2)),
        ("uuid", uuid.UUID(int=5), str(uuid.UUID(int=5))),
        ("uuid", uuid.UUID(int=5).bytes, str(uuid.UUID(int=5))),
        ("binary", bytearray(b"x"), b"x"),
        ("map<string,double>", {"a": 1}, [("a", 1.0)]),
        ("map<string,double>", [("a", 1)], [("a", 1.0)]),
        ("map<string,map<string,int>>", {"a": {"b": 1}}, [("a", [("b", 1)])]),
        ("array<double>", (1, 2.5), [1.0, 2.5]),
        ("array<double>", np.array([1, 2]), [1.0, 2.0]),
        (
            "struct<a:double,b:array<timestamp>>",
            {"a": 1, "b": [ZONED, None]},
            {"a": 1.0, "b": [ZONED, None]},
        ),
        ("struct<a:int,b:string>", {"b": "x"}, {"a": None, "b": "x"}),
        ("array<struct<x:double>>", [{"x": 1}, None, {}], [{"x": 1.0}, None, {"x": None}]),
        ("array<int>", [], []),
        ("map<string,int>", {}, []),
    ],
    ids=str,
)
def test_python_values_are_read_as_the_column_s_type(ddl, value, held):
    assert values(value, ddl) == held


REFUSED = [
    ("timestamp", NAIVE, "give them one"), ("timestamp", NAIVE.date(), "give them one"), ("timestamp_ntz", ZONED, "choose one"),
    ("date", NAIVE, ""), ("int", True, ""), ("double", True, ""), ("int", 1.0, "Int64"), ("int", 2**31, ""), ("double", 2**53 + 1, r"up to 2\^53"),
    ("float", 1e300, "too large"), ("decimal(4,2)", Decimal("1.001"), ""), ("decimal(4,2)", 100, ""), ("double", Decimal("1.5"), ""), ("string", 1, ""),
    ("string", b"x", ""), ("int", "1", ""), ("boolean", 1, ""), ("struct<a:int>", {"b": 1}, "merge_schema=True"), ("array<int>", [1.5], ""),
    ("map<string,int>", {1: 1}, ""), ("map<string,int>", {"a": 1.5}, ""), ("time", dt.time(1, tzinfo=dt.UTC), "zone"), ("binary", "x", ""),
    ("array<timestamp>", [NAIVE], "give them one"),
]  # fmt: skip


@pytest.mark.parametrize(("ddl", "value", "advice"), REFUSED, ids=str)
def test_python_values_that_would_be_others_are_refused_and_told_what_to_do(ddl, value, advice):
    with pytest.raises(SchemaMismatch, match=advice or "[Cc]olumn"):
        values(value, ddl)


@pytest.mark.parametrize("ddl", ["timestamp", "timestamp_ntz", "date", "string"])
@pytest.mark.parametrize("mixture", [(NAIVE, ZONED), (ZONED, NAIVE), (NAIVE.date(), ZONED)])
def test_mixtures_of_times_are_refused_whatever_the_column_is(ddl, mixture):
    """Arrow alone reads naive times in UTC beside those with a zone, and drops the time of day
    beside a date.
    """
    for frame in (
        [{"x": v} for v in mixture],
        {"x": list(mixture)},
        pd.DataFrame({"x": pd.Series(mixture, dtype=object)}),
    ):
        with pytest.raises(SchemaMismatch, match="column x|Column x"):
            taken(frame, f"x {ddl}")
        with pytest.raises(SchemaMismatch, match="mixed"):
            as_arrow(frame)


def test_nanoseconds_of_pandas_are_kept_or_refused():
    stamp = pd.Timestamp("2024-05-06 07:08:09.000000001")
    with pytest.raises(SchemaMismatch, match="microseconds"):
        values(stamp, "timestamp_ntz")
    for frame in (
        [{"x": stamp}, {"x": NAIVE}],
        pd.DataFrame({"x": pd.Series([stamp, NAIVE], dtype=object)}),
    ):
        assert taken(frame, "x timestamp_ns")["x"].cast(pa.int64()).to_pylist() == [
            stamp.value,
            pd.Timestamp(NAIVE).value,
        ]
    assert as_arrow([{"x": stamp}])["x"].type == pa.timestamp("ns")


def test_names_are_matched_without_their_case_where_the_frame_is():
    assert taken([{"X": {"a": 1}}], "x map<string,double>", case_sensitive=False).to_pylist() == [
        {"x": [("a", 1.0)]}
    ]
    with pytest.raises(SchemaMismatch, match=r"(?s)which has 'x'.*case_sensitive=False"):
        taken([{"X": 1}], "x double")
