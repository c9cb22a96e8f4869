"""Which files a write makes: partitions, order, sizes, names, properties; and none when it fails."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_orc import orc_columns
from frazil.arrow.write.write_parquet import ParquetSettings
from frazil.arrow.write.write_rows import WriteContext, write
from frazil.errors import CorruptData, InvalidInput, SchemaMismatch, Unsupported
from frazil.spec.partitioning import PartitionSpec, build_spec
from frazil.spec.schema import Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER, build_sort_order
from frazil.spec.transform_values import apply
from frazil.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
    VariantType,
)
from tests.arrow.support import (
    STORAGE,
    arrow_table,
    comparable,
    rows_of,
    somewhere,
    values_of,
    written,
)
from tests.builders.files_on_disk import files_below

N = NestedField
SCHEMA = Schema(
    N(1, "id", LongType()),
    N(2, "s", StringType()),
    N(3, "d", DoubleType()),
    N(4, "ts", TimestampType()),
    N(5, "dt", DateType()),
    N(6, "dec", DecimalType(9, 2)),
    N(7, "u", UUIDType()),
    N(8, "st", StructType(N(9, "k", LongType()))),
)
TERMS = ["id", "s", "d", "bucket(3, id)", "bucket(2, s)", "truncate(2, s)", "days(ts)", "hours(ts)", "months(dt)", "years(dt)", "truncate(10, dec)", "bucket(4, u)",
         "st.k", "void(id)", "u", "dec"]  # fmt: skip
ROW = st.fixed_dictionaries({f.field_id: values_of(f.field_type, False) for f in SCHEMA.fields})


def bits(value):
    return "nan" if isinstance(value, float) and value != value else repr(value)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(ROW, max_size=15),
    terms=st.lists(
        st.sampled_from(TERMS), min_size=1, max_size=2, unique_by=lambda t: re.sub(r"\W", "", t)
    ),
)
def test_every_row_lies_in_the_file_of_its_partition(rows, terms):
    spec = build_spec(SCHEMA, [f"{t} as p{i}" for i, t in enumerate(terms)])
    frame = arrow_table(SCHEMA, rows)
    files = written(frame, SCHEMA, somewhere(), spec=spec)
    assert sorted(map(str, comparable(rows_of(files, SCHEMA, spec=spec)))) == sorted(
        map(str, comparable(frame))
    )

    def value(row, f):
        source = SCHEMA.find_field(f.source_id)
        around = SCHEMA.parents[f.source_id]
        held = (row[around[0]] or {}).get(f.source_id) if around else row[f.source_id]
        return apply(f.transform, source.field_type, held)

    want = Counter(tuple(bits(value(r, f)) for f in spec.fields) for r in rows)
    assert {tuple(map(bits, f.partition)): f.record_count for f in files} == want
    assert all(f.spec_id == spec.spec_id for f in files)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROW, max_size=20), descending=st.booleans(), last=st.booleans())
def test_files_are_sorted_nulls_where_asked_and_nan_above_all(rows, descending, last):
    words = f"{'desc' if descending else 'asc'} nulls {'last' if last else 'first'}"
    order = build_sort_order(SCHEMA, [f"d {words}", f"s {words}"])
    files = written(arrow_table(SCHEMA, rows), SCHEMA, somewhere(), order=order)
    if not rows:
        return
    assert [f.sort_order_id for f in files] == [order.order_id]
    found = rows_of(files, SCHEMA).select(["d", "s"]).to_pylist()

    def key(value, null_first):
        if value is None:
            return (0 if null_first else 2,)
        if isinstance(value, float):
            import struct

            number = (
                struct.unpack(">q", struct.pack(">d", value))[0] if value == value else 2**63 - 1
            )
            return (1, number if number >= 0 else (-(2**63)) - number - 1)
        return (1, value)

    def full(row):
        return tuple(key(row[c], last if descending else not last) for c in ("d", "s"))

    keys = [full(r) for r in found]
    assert keys == sorted(keys, reverse=descending)


def test_names_are_javas_and_paths_tell_partitions(tmp_path):
    spec = build_spec(SCHEMA, ["s", "bucket(4, id)"])
    rows = [{**dict.fromkeys(SCHEMA.by_id), 1: 1, 2: "a b/é"}, dict.fromkeys(SCHEMA.by_id)]
    files = written(
        arrow_table(SCHEMA, rows),
        SCHEMA,
        tmp_path,
        spec=spec,
        operation_id="11111111-2222",
        partition_id=3,
        task_id=9,
    )
    names = sorted(f.file_path.removeprefix(f"{tmp_path}/data/") for f in files)
    assert [n.rsplit("/", 1)[0] for n in names] == [
        "s=a+b%2F%C3%A9/id_bucket=0",
        "s=null/id_bucket=null",
    ]
    assert {n.rsplit("/", 1)[1] for n in names} == {
        "00003-9-11111111-2222-00001.parquet",
        "00003-9-11111111-2222-00002.parquet",
    }


def test_files_roll_at_the_target_size(tmp_path):
    frame = pa.table({"id": np.random.default_rng(1).integers(0, 2**60, 200_000)})
    schema = Schema(N(1, "id", LongType()))
    files = written(frame, schema, tmp_path, target_size=200_000)
    assert len(files) >= 3
    assert all(150_000 < f.file_size_in_bytes < 700_000 for f in files[:-1])
    assert rows_of(files, schema)["id"].to_pylist() == frame["id"].to_pylist()


def test_a_large_frame_is_written_by_several_threads_in_runs_of_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("frazil.arrow.write.write_rows.SPLIT_BYTES", 1000)
    schema = Schema(N(1, "id", LongType()))
    files = written(pa.table({"id": pa.array(range(1001))}), schema, tmp_path, workers=3)
    assert len(files) == 3
    assert rows_of(files, schema)["id"].to_pylist() == list(range(1001))


def test_little_memory_makes_more_row_groups_not_wrong_rows(tmp_path):
    schema = Schema(N(1, "id", LongType()), N(2, "p", LongType()))
    frame = pa.table(
        {"id": pa.array(range(3000)), "p": pa.array([i % 7 for i in range(3000)])}
    ).to_reader(100)
    spec = build_spec(schema, ["p"])
    files = written(frame, schema, tmp_path, spec=spec, memory=4000)
    assert sorted(f.partition for f in files) == [(i,) for i in range(7)]
    assert sorted(rows_of(files, schema, spec=spec)["id"].to_pylist()) == list(range(3000))


def test_a_frame_without_rows_makes_no_file(tmp_path):
    assert (
        written(
            pa.table({"id": pa.array([], pa.int64())}), Schema(N(1, "id", LongType())), tmp_path
        )
        == []
    )


@pytest.mark.parametrize("spec", [PartitionSpec(), build_spec(SCHEMA, ["bucket(3, id)"])])
def test_a_failed_write_leaves_no_file(tmp_path, spec):
    def batches():
        yield from arrow_table(
            SCHEMA, [{**dict.fromkeys(SCHEMA.by_id), 1: i} for i in range(100)]
        ).to_batches()
        raise KeyboardInterrupt

    context = WriteContext(
        SCHEMA, spec, UNSORTED_SORT_ORDER, STORAGE, str(tmp_path), {}, memory=10, target_size=100
    )
    with pytest.raises(KeyboardInterrupt):
        write(batches(), context)
    assert files_below(tmp_path) == set()


def test_one_bad_row_among_many_threads_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("frazil.arrow.write.write_rows.SPLIT_BYTES", 1000)
    schema = Schema(N(1, "id", LongType(), True))
    frame = pa.table({"id": pa.array([*range(1000), None])})
    with pytest.raises(SchemaMismatch, match="id is required"):
        write(
            conform(frame, schema),
            WriteContext(
                schema, PartitionSpec(), UNSORTED_SORT_ORDER, STORAGE, str(tmp_path), {}, workers=3
            ),
        )
    assert files_below(tmp_path) == set()


def test_parquet_properties_reach_the_file(tmp_path):
    schema = Schema(
        N(1, "a", LongType()), N(2, "b", StringType()), N(3, "l", ListType(4, StringType(), False))
    )
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.compression-level": "4",
        "write.parquet.page-version": "v2",
        "write.parquet.dict-encoding-enabled.column.b": "false",
        "write.parquet.stats-enabled.column.l.element": "false",
        "write.parquet.bloom-filter-enabled.column.a": "true",
        "write.parquet.bloom-filter-fpp.column.a": "0.02",
    }
    (file,) = written(
        arrow_table(schema, [{1: 1, 2: "x", 3: ["y"]}] * 10),
        schema,
        tmp_path,
        properties=properties,
    )
    group = pq.ParquetFile(file.file_path).metadata.row_group(0)
    a, b, element = (group.column(i) for i in range(3))
    assert a.compression == "GZIP"
    assert a.has_dictionary_page
    assert not b.has_dictionary_page
    assert not element.is_stats_set
    assert (
        pq.ParquetFile(file.file_path)
        .metadata.metadata[b"iceberg.schema"]
        .startswith(b'{"type":"struct"')
    )
    assert 2 in file.value_counts


@pytest.mark.parametrize(
    ("properties", "error", "why"),
    [
        ({"write.parquet.compression-codec": "lzo"}, Unsupported, "lzo"),
        ({"write.parquet.page-size-bytes": "much"}, InvalidInput, "page-size-bytes"),
        ({"write.parquet.page-version": "v3"}, InvalidInput, "page-version"),
        (
            {
                "write.parquet.bloom-filter-enabled.column.id": "true",
                "write.parquet.bloom-filter-fpp.column.id": "2",
            },
            InvalidInput,
            "fpp",
        ),
        (
            {"write.parquet.page-size-bytes": "8"},
            InvalidInput,
            "page-size-bytes must be at least 64",
        ),
        (
            {"write.parquet.bloom-filter-enabled.column.b": "true"},
            InvalidInput,
            "column.b cannot be set",
        ),
        ({"write.object-storage.enabled": "maybe"}, InvalidInput, "object-storage"),
        ({"write.location-provider.impl": "x.Y"}, Unsupported, "location-provider"),
        ({"write.py-location-provider.impl": "x.Y"}, Unsupported, r"write\.data\.path"),
    ],
)
def test_properties_that_cannot_be_honoured_are_refused_by_name(tmp_path, properties, error, why):
    with pytest.raises(error, match=why):
        written(
            pa.table({"id": [1]}),
            Schema(N(1, "id", LongType()), N(2, "b", BooleanType())),
            tmp_path,
            properties=properties,
        )


@pytest.mark.parametrize(
    ("given", "ndv"),
    [({}, 866_000), ({"max-bytes": "4096"}, 3_384), ({"ndv.column.id": "100"}, 100)],
)
def test_bloom_filters_take_no_more_memory_than_they_may(given, ndv):
    """Each one of an open file lies in memory whole; without a number of values pyarrow would take
    64 MB for it.
    """
    properties = {
        "write.parquet.bloom-filter-enabled.column.id": "true",
        **{f"write.parquet.bloom-filter-{k}": v for k, v in given.items()},
    }
    (options,) = (
        ParquetSettings(properties, Schema(N(1, "id", LongType())))
        .arguments["bloom_filter_options"]
        .values()
    )
    assert options["fpp"] == 0.01 and 0.99 * ndv <= options["ndv"] <= 1.01 * ndv


def test_flipped_bits_in_pages_are_told(tmp_path):
    schema = Schema(N(1, "id", LongType()))
    (file,) = written(pa.table({"id": list(range(5000))}), schema, tmp_path)
    held = Path(file.file_path).read_bytes()
    pages = len(held) - 8 - int.from_bytes(held[-8:-4], "little")
    for place in range(200, pages, pages // 20):
        Path(file.file_path).write_bytes(
            held[:place] + bytes([held[place] ^ 4]) + held[place + 1 :]
        )
        with pytest.raises(CorruptData, match=Path(file.file_path).name):
            rows_of([file], schema)


def test_shredded_variants_are_refused(tmp_path):
    schema = Schema(N(1, "v", VariantType()))
    with pytest.raises(Unsupported, match="shred-variants"):
        written(
            pa.table({"v": ["1"]}),
            schema,
            tmp_path,
            properties={"write.parquet.shred-variants": "true"},
        )
    with pytest.raises(InvalidInput, match="not valid JSON"):
        written(pa.table({"v": ["{"]}), schema, tmp_path)


def test_orc_counts_columns_with_what_is_inside_them():
    schema = Schema(
        N(1, "a", LongType()),
        N(2, "s", StructType(N(3, "x", LongType()), N(4, "l", ListType(5, StringType(), False)))),
        N(6, "b", LongType()),
    )
    assert orc_columns(to_arrow_schema(schema)) == {
        "a": 1,
        "s": 2,
        "s.x": 3,
        "s.l": 4,
        "s.l.element": 5,
        "b": 6,
    }


def test_a_bloom_filter_of_orc_for_a_column_that_is_not_there_is_refused_by_name(tmp_path):
    schema, frame = Schema(N(1, "id", LongType())), pa.table({"id": [1]})
    with pytest.raises(InvalidInput, match="nosuch"):
        written(
            frame,
            schema,
            tmp_path,
            format="orc",
            properties={"write.orc.bloom.filter.columns": "id, nosuch"},
        )
    with_bloom = written(
        frame,
        schema,
        tmp_path / "a",
        format="orc",
        properties={"write.orc.bloom.filter.columns": "id"},
    )
    without = written(frame, schema, tmp_path / "b", format="orc")
    assert with_bloom[0].file_size_in_bytes > without[0].file_size_in_bytes
