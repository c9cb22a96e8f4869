"""Which columns of a Parquet file have a dictionary."""

from __future__ import annotations

import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.arrow.write.metrics import MetricsConfig
from frazil.arrow.write.write_parquet import (
    ParquetFileWriter,
    ParquetSettings,
    parquet_layout,
    without_dictionary,
)
from frazil.catalog import Catalog
from frazil.spec.schema import Schema
from frazil.spec.types import DecimalType, LongType, NestedField, UUIDType

MANY = 5000
DIFFERENT = {
    "id": pa.array(range(MANY), pa.int64()),
    "d": pa.array([n / 7 for n in range(MANY)], pa.float64()),
    "s": pa.array([f"name-{n}" for n in range(MANY)]),
    "u": pa.array([uuid.UUID(int=n).bytes for n in range(MANY)], pa.uuid()),
    "b": pa.array([n.to_bytes(3) for n in range(MANY)], pa.binary(3)),
    "price": pa.array([decimal.Decimal(n) / 100 for n in range(MANY)], pa.decimal128(9, 2)),
    "day": pa.array(range(MANY), pa.date32()),
    "at": pa.array(range(MANY), pa.timestamp("us", "UTC")),
    "bytes": pa.array([n.to_bytes(4) for n in range(MANY)], pa.binary()),
    "gaps": pa.array([n if n % 3 else None for n in range(MANY)], pa.int32()),
}
ALIKE = {
    "k": pa.array([n % 40 for n in range(MANY)], pa.int64()),
    "word": pa.array([("low", "high")[n % 2] for n in range(MANY)]),
    "sorted": pa.array([n // 100 for n in range(MANY)], pa.int32()),
    "flag": pa.array([n % 2 == 0 for n in range(MANY)]),
    "void": pa.array([None] * MANY, pa.int32()),
    "nested": pa.array([[n] for n in range(MANY)]),
}


def test_columns_of_different_values_have_none_and_those_of_few_values_keep_it() -> None:
    assert without_dictionary(pa.table(DIFFERENT | ALIKE)) == set(DIFFERENT)


def test_the_first_rows_decide() -> None:
    first = [n % 10 for n in range(20_000)]
    assert without_dictionary(pa.table({"n": first + list(range(100, 60_000))})) == set()
    assert without_dictionary(pa.table({"n": list(range(20_000)) + [0] * 60_000})) == {"n"}


@pytest.mark.parametrize(
    ("distinct", "limit", "larger"),
    [
        (100_000, 1 << 20, False),
        (200_000, 1 << 20, True),  # the dictionary would fill its page, and the rest be plain
        (200_000, 2 << 20, False),
        (400_000, 2 << 20, True),
    ],
)
def test_values_that_recur_later_than_in_the_first_page_have_a_dictionary_that_fits(
    distinct: int, limit: int, larger: bool
) -> None:
    prices = np.random.default_rng(5).integers(0, distinct, 400_000) / 100
    assert without_dictionary(pa.table({"p": prices}), limit) == ({"p"} if larger else set())


def test_values_that_recur_at_once_and_never_again_have_none() -> None:
    rising = pa.array(np.arange(400_000) * 9 // 10)
    assert without_dictionary(pa.table({"n": rising}), 2 << 20) == {"n"}


def test_a_table_without_rows_keeps_all() -> None:
    assert without_dictionary(pa.table(DIFFERENT).slice(0, 0)) == set()


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 300)), min_size=1, max_size=400),
    st.sampled_from([pa.int32(), pa.int64(), pa.string()]),
)
def test_a_dictionary_is_left_out_only_where_it_is_larger_than_the_values(
    values: list[int | None], kind: pa.DataType
) -> None:
    column = pa.array(
        [None if v is None else f"{v:06}" if pa.types.is_string(kind) else v for v in values], kind
    )
    present = column.drop_null()
    width = 10 if pa.types.is_string(kind) else kind.bit_width / 8
    numbers = len(present) * max(0, len(set(present.to_pylist())) - 1).bit_length() / 8
    larger = (
        len(present) > 0 and len(set(present.to_pylist())) * width + numbers >= len(present) * width
    )
    assert without_dictionary(pa.table({"c": column})) == ({"c"} if larger else set())


@pytest.mark.parametrize("rows", [MANY, 3])
def test_a_file_has_the_dictionaries_that_its_rows_ask_for_and_those_that_a_property_leaves(
    home: Catalog, rows: int
) -> None:
    data = pa.table(DIFFERENT | {k: v for k, v in ALIKE.items() if k != "void"}).slice(0, rows)
    table = home.create_table(
        "db.t", data.schema, properties={"write.parquet.dict-encoding-enabled.column.word": "false"}
    )
    table.append(data)
    footer = pq.read_metadata(table.inspect.files()["file_path"][0].as_py())
    chunks = [footer.row_group(0).column(i) for i in range(footer.num_columns)]
    with_one = {c.path_in_schema.split(".")[0] for c in chunks if c.has_dictionary_page}
    assert with_one == ({"k", "sorted", "nested"} if rows == MANY else {"sorted", "nested"})
    read = table.scan(selected_fields=("id", "s", "gaps", "nested")).to_arrow()
    assert read.to_pylist() == data.select(read.column_names).to_pylist()


def test_a_file_without_rows_is_written_whatever_its_columns() -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "d", DecimalType(9, 2)),
    )
    sink = pa.BufferOutputStream()
    writer = ParquetFileWriter(
        sink, schema, parquet_layout(schema), ParquetSettings({}, schema), MetricsConfig({})
    )
    writer.close()
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    assert (footer.num_rows, footer.num_columns) == (0, 3)
