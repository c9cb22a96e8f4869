"""Row groups encoded at the same time make the same file as one after another would."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.footers.parquet_footer import parse
from frazil.arrow.write.metrics import metrics_config
from frazil.arrow.write.write_parquet import ParquetFileWriter, ParquetSettings, parquet_layout
from frazil.arrow.write.write_row_groups import RowGroupsWriter, joined_footer
from frazil.errors import InvalidInput
from frazil.spec import types as i
from frazil.spec.schema import Schema

F = i.NestedField
SCHEMA = Schema(
    F(1, "id", i.LongType(), required=True),
    F(2, "x", i.DoubleType()),
    F(3, "s", i.StringType()),
    F(4, "l", i.ListType(5, i.IntegerType(), False)),
    F(6, "g", i.GeometryType("OGC:CRS84")),
)
OPTIONS = {
    "write.parquet.dict-encoding-enabled.column.id": "false",
    "write.parquet.page-row-limit": "7",
}  # fmt: skip


def batch(ids):
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array(
                [None if n % 3 == 0 else float("nan") if n % 3 == 1 else n / 2 for n in ids],
                pa.float64(),
            ),
            "s": pa.array([f"s{n % 5}" for n in ids]),
            "l": pa.array(
                [None if n % 4 == 0 else list(range(n % 4)) for n in ids], pa.list_(pa.int32())
            ),
            "g": pa.array([b"\1" + bytes(20)] * len(ids), pa.binary()),
        }
    )


def written(groups, pool=None, schema=SCHEMA, properties=OPTIONS, memory=1 << 30):
    sink = io.BytesIO()

    def make(to):
        laid = parquet_layout(schema)
        return ParquetFileWriter(
            to,
            schema,
            laid,
            ParquetSettings(properties, schema),
            metrics_config({}, schema),
            {"note": "kept"},
        )

    writer = make(sink) if pool is None else RowGroupsWriter(sink, make, pool, 3, memory)
    for g in groups:
        writer.write([batch(g).select([f.name for f in schema.fields])])
    return sink, writer.close()


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(3) as made:
        yield made


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 10_000), max_size=40), max_size=20),
    st.sampled_from([0, 3000, 1 << 30]),
)
def test_a_joined_file_is_the_one_that_is_written_at_once(pool, groups, memory):
    alone, metrics = written(groups)
    joined, found = written(groups, pool, memory=memory)
    assert found == metrics
    assert joined.getvalue() == alone.getvalue()


def test_bloom_filters_are_found_where_they_have_moved(pool, tmp_path):
    groups = [range(n * 100, n * 100 + 100) for n in range(5)]
    sink, _ = written(
        groups, pool, properties={**OPTIONS, "write.parquet.bloom-filter-enabled.column.s": "true"}
    )
    path = tmp_path / "joined.parquet"
    path.write_bytes(sink.getvalue())
    assert pq.read_table(path, arrow_extensions_enabled=False).column("id").to_pylist() == list(
        range(500)
    )
    for value, excluded in (("s3", [False] * 5), ("none", [True] * 5)):
        found = duckdb.sql(
            f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 's', '{value}')"
        ).fetchall()
        assert [r[0] for r in found] == excluded


def parse_of(sink):
    data = sink.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return parse(data[-8 - length : -8])


def test_footers_of_other_files_are_refused():
    with pytest.raises(ValueError, match="in place of num_rows and row_groups"):
        joined_footer(
            [
                (
                    parse_of(written([[1]])[0]).before
                    + parse_of(written([[1]])[0]).schema
                    + b"\x15\x02\x00",
                    0,
                )
            ]
        )


def test_row_groups_are_encoded_at_the_same_time_and_the_size_is_told_exactly(pool):
    meeting = threading.Barrier(2, timeout=20)
    sizes = []

    def make(to):
        laid = parquet_layout(SCHEMA)
        writer = ParquetFileWriter(
            to, SCHEMA, laid, ParquetSettings({}, SCHEMA), metrics_config({}, SCHEMA), {}
        )
        before = writer.write

        def write(batches):
            meeting.wait()  # passes only when two are here
            before(batches)

        writer.write = write
        return writer

    sink = io.BytesIO()
    writer = RowGroupsWriter(sink, make, pool, 2, 1 << 30)
    assert not writer.has(1)
    for n in range(2):
        writer.write([batch(range(n, n + 50))])
    assert not writer.has(1 << 30) and sink.tell() == 0  # too far away to be waited for
    assert writer.has(10)
    sizes.append(sink.tell())
    writer.close()
    assert 10 <= sizes[0] < sink.tell()


def test_what_fails_while_a_row_group_is_encoded_fails_the_write(pool):
    schema = Schema(F(1, "id", i.LongType(), required=True))
    sink = io.BytesIO()

    def make(to):
        return ParquetFileWriter(
            to,
            schema,
            parquet_layout(schema),
            ParquetSettings({}, schema),
            metrics_config({}, schema),
            {},
        )

    writer = RowGroupsWriter(sink, make, pool, 2, 1 << 30)
    writer.write([pa.RecordBatch.from_pydict({"id": pa.array(["text"])})])
    with pytest.raises(InvalidInput, match="cannot be written"):
        writer.close()
    writer.abort()
    assert sink.tell() == 0
