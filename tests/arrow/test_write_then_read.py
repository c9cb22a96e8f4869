"""What is written is read back, whatever the schema, the values and the format."""

import json
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    VariantType,
)
from tests.arrow.support import (
    LEAVES,
    MOMENTS,
    arrow_table,
    comparable,
    orc_values,
    rows_of,
    tables,
    values_of,
    written,
)
from tests.builders.files_on_disk import files_below

SLOW = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
@SLOW
@given(data=st.data())
def test_rows_come_back_as_they_were_written(format_, data):
    schema, rows = data.draw(
        tables(leaves=[t for t in LEAVES if format_ != "orc" or t not in MOMENTS])
    )
    frame = arrow_table(schema, rows)
    with tempfile.TemporaryDirectory() as where:
        files = written(frame, schema, where, format=format_)
        found = rows_of(files, schema)
        found.validate(full=True)
        assert found.schema.equals(frame.schema)
        assert comparable(found) == comparable(frame)
        assert sum(f.record_count for f in files) == len(rows)


@SLOW
@given(data=st.data())
def test_reading_some_columns_gives_those_columns_of_all(data):
    schema, rows = data.draw(tables())
    chosen = data.draw(st.sets(st.sampled_from(sorted(schema.by_id)), min_size=1))
    leaves = {i for i in chosen if schema.by_id[i].field_type.is_primitive}
    narrow = schema.project(leaves) if leaves else schema
    with tempfile.TemporaryDirectory() as where:
        files = written(arrow_table(schema, rows), schema, where)
        whole, part = rows_of(files, schema), rows_of(files, narrow)
        part.validate(full=True)
        for f in narrow.fields:
            if f == schema.by_id[f.field_id]:
                assert comparable(part.select([f.name])) == comparable(whole.select([f.name]))
        again = written(part, narrow, where + "/narrow") if rows else []
        assert comparable(rows_of(again, narrow)) == comparable(part)


@pytest.mark.parametrize("format_", ["parquet", "avro"])
@settings(max_examples=15, deadline=None)
@given(texts=st.lists(values_of(VariantType(), False), max_size=5))
def test_variants_come_back_as_the_same_json(format_, texts):
    schema = Schema(
        NestedField(1, "v", VariantType()),
        NestedField(2, "s", StructType(NestedField(3, "v", VariantType()))),
    )
    frame = arrow_table(schema, [{1: t, 2: {3: t}} for t in texts])
    with tempfile.TemporaryDirectory() as where:
        found = rows_of(written(frame, schema, where, format=format_), schema)
    for column in (found["v"].to_pylist(), [r["v"] for r in found["s"].to_pylist()]):
        assert [None if v is None else json.loads(v) for v in column] == [
            None if t is None else json.loads(t) for t in texts
        ]


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({i + 1: st.none() | orc_values(t) for i, t in enumerate(MOMENTS)}),
        max_size=10,
    )
)
def test_orc_keeps_whole_seconds_before_1970_and_any_fraction_after(rows):
    schema = Schema(*(NestedField(i + 1, f"c{i}", t) for i, t in enumerate(MOMENTS)))
    with tempfile.TemporaryDirectory() as where:
        frame = arrow_table(schema, rows)
        assert comparable(
            rows_of(written(frame, schema, where, format="orc"), schema)
        ) == comparable(frame)


@pytest.mark.parametrize(("value", "why"), [(10**16, "timestamptz"), (-500_000, "before 1970")])
def test_orc_refuses_times_that_would_be_read_wrong(tmp_path, value, why):
    schema = Schema(NestedField(1, "t", TimestamptzType()), NestedField(2, "u", TimeType()))
    with pytest.raises(InvalidInput, match=why):
        written(arrow_table(schema, [{1: value, 2: 0}]), schema, tmp_path, format="orc")
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
def test_what_lies_hidden_under_nulls_is_never_written(tmp_path, format_):
    """Arrow may keep values under a null struct, list or map; they are no rows' values."""
    bits = pa.py_buffer(b"\x05")  # the second of three is null
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    struct = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3])], names=["x"], mask=pa.array([False, True, False])
    )
    lists = pa.Array.from_buffers(
        pa.list_(pa.field("element", pa.int64())),
        3,
        [bits, offsets],
        1,
        0,
        [pa.array([1, 2, 3, 4])],
    )
    entries = pa.StructArray.from_arrays(
        [pa.array(list("abcd")), pa.array([1, 2, 3, 4])],
        fields=list(pa.map_(pa.string(), pa.int64()).field(0).type),
    )
    maps = pa.Array.from_buffers(
        pa.map_(pa.string(), pa.int64()), 3, [bits, offsets], 1, 0, [entries]
    )
    frame = pa.table({"s": struct, "l": lists, "m": maps})
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(2, "x", LongType(), True))),
        NestedField(3, "l", ListType(4, LongType(), False)),
        NestedField(5, "m", MapType(6, StringType(), 7, LongType(), False)),
    )
    for part in (frame, frame.slice(1), frame.slice(2)):
        found = rows_of(written(part, schema, tmp_path, format=format_), schema)
        assert found.to_pylist() == part.to_pylist()


def test_variants_in_orc_are_refused(tmp_path):
    with pytest.raises(Unsupported, match="variant"):
        written(
            pa.table({"v": ["1"]}),
            Schema(NestedField(1, "v", VariantType())),
            tmp_path,
            format="orc",
        )
