"""Avro data files as others read them: fastavro gives back what was written, whatever the types and
nulls.
"""

import io
from datetime import UTC

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.metrics import metrics_config
from frazil.arrow.write.write_avro import AvroFileWriter, avro_settings, varints
from frazil.codec.avro_write import write_long
from frazil.errors import Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
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
    TimestamptzType,
)

LONGS = st.integers(-(2**63), 2**63 - 1)


def written(schema, table, **settings):
    sink = io.BytesIO()
    writer = AvroFileWriter(
        sink, schema, {"codec": "deflate", **settings}, metrics_config({}, schema), {"note": "é"}
    )
    for batch in table.to_batches(max_chunksize=7):
        writer.write([batch])
    metrics = writer.close()
    return sink.getvalue(), metrics


@given(st.lists(LONGS))
def test_varints_of_a_column_are_those_of_its_numbers(numbers):
    assert varints(np.array(numbers, np.int64)) == [write_long(n) for n in numbers]


SIMPLE = [
    (LongType(), LONGS), (IntegerType(), st.integers(-(2**31), 2**31 - 1)), (BooleanType(), st.booleans()), (StringType(), st.text()),
    (DoubleType(), st.floats(allow_nan=False)), (FloatType(), st.floats(allow_nan=False, width=32)), (BinaryType(), st.binary()),
    (FixedType(3), st.binary(min_size=3, max_size=3)), (DateType(), st.dates()),
    (DecimalType(20, 3), st.decimals(-(10**16), 10**16, places=3)), (TimestamptzType(), st.datetimes(timezones=st.just(UTC))),
]  # fmt: skip


@st.composite
def tables(draw):
    """Rows of some columns, optional and required, plain and nested."""
    count = draw(st.integers(0, 20))
    fields, columns, names = [], [], []
    for n in range(draw(st.integers(1, 4))):
        type_, values = draw(st.sampled_from(SIMPLE))
        shape, first = draw(st.sampled_from(["plain", "list", "map", "struct"])), 10 * n + 1
        inner = st.none() | values
        if shape == "list":
            type_, values = (
                ListType(first + 1, type_, element_required=False),
                st.lists(inner, max_size=4),
            )
        elif shape == "map":
            type_, values = (
                MapType(first + 1, StringType(), first + 2, type_, value_required=False),
                st.dictionaries(st.text(max_size=3), inner, max_size=3),
            )
        elif shape == "struct":
            type_, values = (
                StructType(NestedField(first + 1, "a", type_, required=False)),
                st.fixed_dictionaries({"a": inner}),
            )
        required = draw(st.booleans())
        fields.append(NestedField(first, f"c{n}", type_, required=required))
        names.append(f"c{n}")
        columns.append(
            draw(
                st.lists(values if required else st.none() | values, min_size=count, max_size=count)
            )
        )
    schema = Schema(*fields)
    arrow = to_arrow_schema(schema)
    arrays = [
        pa.array(
            [list(v.items()) if isinstance(v, dict) and pa.types.is_map(f.type) else v for v in c],
            f.type,
        )
        for c, f in zip(columns, arrow, strict=True)
    ]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return schema, pa.Table.from_arrays(arrays, schema=arrow), rows


@given(tables())
def test_fastavro_reads_the_rows_that_were_written(made):
    schema, table, rows = made
    data, metrics = written(schema, table)
    found = fastavro.reader(io.BytesIO(data))
    assert [*found] == rows and found.metadata["note"] == "é"
    assert metrics.records == len(rows)


def test_blocks_end_at_about_64_kilobytes_and_a_level_is_taken():
    schema = Schema(NestedField(1, "t", StringType(), required=True))
    table = pa.table({"t": pa.array(["x" * 1000] * 500)}, schema=to_arrow_schema(schema))
    data, _ = written(schema, table, codec="null")
    blocks = [block.num_records for block in fastavro.block_reader(io.BytesIO(data))]
    assert sum(blocks) == 500 and max(blocks) == 64
    small, large = (len(written(schema, table, compression_level=level)[0]) for level in (9, 1))
    assert small < large < len(data)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_file_of_a_record_without_columns_has_its_rows(rows):
    nothing = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    data, _ = written(Schema(), pa.Table.from_batches([nothing]))
    assert [*fastavro.reader(io.BytesIO(data))] == [{}] * rows


@pytest.mark.parametrize(
    "codec, name",
    [("gzip", "deflate"), ("zstd", "zstandard"), ("snappy", "snappy"), ("uncompressed", "null")],
)
def test_every_codec_of_the_table_property_is_read_back(tmp_path, codec, name):
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t",
        "id bigint, v string",
        properties={"write.format.default": "avro", "write.avro.compression-codec": codec},
    )
    t.append(pa.table({"id": range(2000), "v": [f"row {n}" for n in range(2000)]}))
    (path,) = t.inspect.files().column("file_path").to_pylist()
    with open(path.removeprefix("file:"), "rb") as file:
        assert f"avro.codec{chr(2 * len(name))}{name}".encode() in file.read(4096)
    assert t.to_arrow().sort_by("id").column("v").to_pylist()[1999] == "row 1999"


def test_a_codec_that_avro_lacks_is_refused_by_name():
    with pytest.raises(Unsupported, match="'brotli'"):
        avro_settings({"write.avro.compression-codec": "brotli"})
    assert avro_settings({}, codec="zstd", level="5") == {
        "codec": "zstandard",
        "compression_level": 5,
    }
