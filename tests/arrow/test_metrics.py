"""Metrics equal those of a full scan of the rows, whichever way they were gathered."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.arrow.files.read_parquet import ChunkStatistics, chunk_statistics
from frazil.arrow.write.metrics import (
    COUNTS,
    FULL,
    NONE,
    TRUNCATE_16,
    MetricsMode,
    lower_bound,
    metrics_config,
    next_bytes,
    next_text,
    parse_mode,
    upper_bound,
)
from frazil.codec.single_value import from_bytes, to_bytes
from frazil.spec.schema import Schema
from frazil.spec.sorting import build_sort_order
from frazil.spec.types import (
    BinaryType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from tests.arrow.support import LEAVES, MOMENTS, arrow_table, tables, written

SLOW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def leaves(fields: Any, rows: list[Any]) -> Iterator[tuple[NestedField, list[Any]]]:
    """Every leaf outside lists and maps with its value in each row."""
    for f in fields:
        values = [None if r is None else r[f.field_id] for r in rows]
        if isinstance(f.field_type, StructType):
            yield from leaves(f.field_type.fields, values)
        elif f.field_type.is_primitive:
            yield f, values


def order_key(type_: IcebergType, value: Any) -> Any:
    if isinstance(value, float):
        return (value, math.copysign(1, value))
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("mode", ["full", "truncate(4)", "counts", "none"])
@settings(SLOW, max_examples=12)
@given(data=st.data())
def test_metrics_are_those_of_a_full_scan(format_, mode, data):
    schema, rows = data.draw(
        tables(leaves=[t for t in LEAVES if format_ != "orc" or t not in MOMENTS])
    )
    with tempfile.TemporaryDirectory() as where:
        files = written(
            arrow_table(schema, rows),
            schema,
            where,
            format=format_,
            properties={"write.metadata.metrics.default": mode},
        )
    if not rows:
        assert files == []
        return
    (file,) = files
    for f, values in leaves(schema.fields, rows):
        check_column(file, f, values, parse_mode(mode))
    assert not set(file.lower_bounds or {}) - {f.field_id for f, _ in leaves(schema.fields, rows)}


def check_column(file, f, values, mode):
    i = f.field_id
    if mode == NONE:
        assert all(
            i not in (m or {})
            for m in (
                file.value_counts,
                file.null_value_counts,
                file.lower_bounds,
                file.upper_bounds,
            )
        )
        return
    assert file.value_counts[i] == len(values)
    assert file.null_value_counts[i] == values.count(None)
    nan = [v for v in values if isinstance(v, float) and v != v]
    if isinstance(f.field_type, FloatType | DoubleType):
        assert file.nan_value_counts[i] == len(nan)
    real = [v for v in values if v is not None and v == v]
    lower, upper = (file.lower_bounds or {}).get(i), (file.upper_bounds or {}).get(i)
    if not real or not mode.has_bounds:
        assert lower is None
        assert upper is None
        return
    least, most = (pick(real, key=lambda v: order_key(f.field_type, v)) for pick in (min, max))
    if isinstance(f.field_type, FloatType | DoubleType):
        least, most = (-0.0 if least == 0 else least), (0.0 if most == 0 else most)
    assert lower == lower_bound(f.field_type, least, mode)
    assert upper == upper_bound(f.field_type, most, mode)


@pytest.mark.parametrize("rows", [[0.0], [-0.0], [0.0, -0.0, math.nan], [-0.0, 1.0]])
def test_zero_bounds_take_in_both_zeros_and_leave_nan_out(tmp_path, rows):
    schema = Schema(NestedField(1, "d", DoubleType()))
    (file,) = written(arrow_table(schema, [{1: v} for v in rows]), schema, tmp_path)
    assert file.lower_bounds[1] == to_bytes(DoubleType(), -0.0)
    assert from_bytes(DoubleType(), file.upper_bounds[1]) == max(v for v in rows if v == v)
    assert math.copysign(1, from_bytes(DoubleType(), file.upper_bounds[1])) == 1


@given(st.text(), st.integers(1, 20))
def test_truncated_text_bounds_enclose_the_text(text, length):
    mode = MetricsMode("truncate", length)
    lower, upper = lower_bound(StringType(), text, mode), upper_bound(StringType(), text, mode)
    data = text.encode()
    assert lower <= data
    assert upper is None or upper >= data
    assert len(lower.decode()) <= length
    assert upper is None or len(upper.decode()) <= length
    if len(text) <= length:
        assert lower == upper == data


@given(st.binary(), st.integers(1, 20))
def test_truncated_binary_bounds_enclose_the_bytes(data, length):
    mode = MetricsMode("truncate", length)
    upper = upper_bound(BinaryType(), data, mode)
    assert lower_bound(BinaryType(), data, mode) <= data
    assert upper is None or upper >= data


def test_upper_bounds_skip_surrogates_and_end_where_nothing_can_be_raised():
    assert next_text("a\ud7ff") == "a\ue000"
    assert next_text("a\U0010ffff") == "b"
    assert next_text("\U0010ffff" * 3) is None
    assert next_bytes(b"a\xff\xff") == b"b"
    assert next_bytes(b"\xff\xff") is None


def test_long_values_whose_bounds_the_footer_leaves_out_get_them_all_the_same(tmp_path):
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "t", StringType()))))
    rows = [{1: {2: "x" * 10_000}}, {1: None}, {1: {2: "y" * 9_000}}]
    (file,) = written(arrow_table(schema, rows), schema, tmp_path)
    assert (file.lower_bounds[2], file.upper_bounds[2]) == (b"x" * 16, b"y" * 15 + b"z")


def test_columns_beyond_the_limit_have_no_metrics_and_a_struct_counts_its_own_first():
    inner = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))
    schema = Schema(
        NestedField(1, "a", LongType()),
        NestedField(2, "st", inner),
        NestedField(5, "l", ListType(6, LongType())),
        NestedField(7, "z", LongType()),
    )
    limited = metrics_config({"write.metadata.metrics.max-inferred-column-defaults": "3"}, schema)
    assert [limited.mode(i) for i in (1, 7, 3, 4, 6)] == [
        TRUNCATE_16,
        TRUNCATE_16,
        TRUNCATE_16,
        NONE,
        NONE,
    ]
    assert metrics_config({}, schema).mode(6) == TRUNCATE_16
    given_default = metrics_config(
        {
            "write.metadata.metrics.max-inferred-column-defaults": "3",
            "write.metadata.metrics.default": "full",
        },
        schema,
    )
    assert given_default.mode(4) == FULL


def test_sort_columns_keep_bounds_and_a_column_of_its_own_wins():
    schema = Schema(
        NestedField(1, "a", LongType()),
        NestedField(2, "b", StringType()),
        NestedField(3, "c", IntegerType()),
    )
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.b": "full",
        "write.metadata.metrics.column.gone": "full",
    }
    config = metrics_config(properties, schema, build_sort_order(schema, ["a", "bucket(4, c)"]))
    assert [config.mode(i) for i in (1, 2, 3)] == [TRUNCATE_16, FULL, COUNTS]
    assert parse_mode("TRUNCATE(7)") == MetricsMode("truncate", 7)
    assert parse_mode("nonsense") == TRUNCATE_16


def test_split_offsets_are_where_row_groups_begin(tmp_path):
    import pyarrow.parquet as pq

    schema = Schema(NestedField(1, "a", LongType()))
    (file,) = written(
        arrow_table(schema, [{1: i} for i in range(1000)]),
        schema,
        tmp_path,
        properties={"write.parquet.row-group-size-bytes": "2048"},
    )
    footer = pq.ParquetFile(file.file_path).metadata
    assert footer.num_row_groups > 1
    assert len(file.split_offsets) == footer.num_row_groups
    assert file.split_offsets[0] == 4


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_columns_without_counts_or_bounds_leave_empty_maps_as_javas_do(tmp_path, format_):
    schema = Schema(NestedField(1, "a", LongType()))
    properties = {"write.format.default": format_}
    (file,) = written(arrow_table(schema, [{1: 7}]), schema, tmp_path, properties=properties)
    assert (file.value_counts, file.nan_value_counts) == ({1: 1}, {})
    properties["write.metadata.metrics.default"] = "none"
    (file,) = written(arrow_table(schema, [{1: 7}]), schema, tmp_path, properties=properties)
    assert file.value_counts == file.null_value_counts == file.nan_value_counts == {}
    assert file.lower_bounds == file.upper_bounds == {}


def test_a_row_group_whose_least_value_is_above_its_greatest_has_no_bounds():
    def chunk(low: Any, high: Any) -> Any:
        told = SimpleNamespace(
            has_null_count=True, null_count=1, has_min_max=True, min_raw=low, max_raw=high
        )
        return SimpleNamespace(is_stats_set=True, statistics=told, num_values=4)

    for have, want, low, high in (
        (pa.int64(), LongType(), 1, 9),
        (pa.string(), StringType(), b"a", b"b"),
        (pa.float64(), DoubleType(), 1.0, 9.0),
    ):
        found = chunk_statistics(chunk(low, high), have, want)
        assert found is not None and found.lower is not None and found.lower < found.upper
        assert chunk_statistics(chunk(high, low), have, want) == ChunkStatistics(4, 1)
