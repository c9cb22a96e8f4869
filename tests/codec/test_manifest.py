from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.codec import avro_arrow
from frazil.codec.avro import read_container
from frazil.codec.avro_write import container, write_bytes
from frazil.codec.manifest import (
    arrow_value_type,
    decode_manifest,
    decode_manifests,
    encode_manifest,
    entries_from_table,
    manifest_header,
)
from frazil.codec.manifest_list import decode_manifest_list
from frazil.codec.manifest_write import COLUMNS
from frazil.errors import CorruptData, InvalidInput, Unsupported, ValidationError
from frazil.spec.manifest import DataFile, ManifestEntry, ManifestFile
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from frazil.spec.types import (
    DecimalType,
    FixedType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)
from tests.builders.examples import examples
from tests.codec.made import current_metadata, data_files, entry, local, manifest, primitives
from tests.golden import Golden, names

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
PLAIN = PartitionSpec()
FIXED_4 = b'["null",{"type":"fixed","name":"fixed_4","size":4}]'


@pytest.fixture(params=["native", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read a manifest, whatever its size."""
    monkeypatch.setattr(
        avro_arrow, "NATIVE_FROM_BYTES", 0 if request.param == "native" else 1 << 60
    )
    return str(request.param)


def encoded(
    entries: list[ManifestEntry],
    spec: PartitionSpec = PLAIN,
    schema: Schema = SCHEMA,
    version: int = 2,
    **more: Any,
) -> bytes:
    return encode_manifest(
        entries, spec=spec, schema=schema, format_version=version, **{"snapshot_id": 77, **more}
    )


def decoded(data: bytes, spec: PartitionSpec = PLAIN, **more: Any) -> list[ManifestEntry]:
    return entries_from_table(decode_manifest(data, manifest(**more)), spec)


def lists_of(golden: Golden, name: str) -> Iterator[tuple[Any, ManifestFile]]:
    """(metadata, manifest) of all snapshots of a golden table."""
    metadata, seen = current_metadata(golden, name), set()
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is not None and local(snapshot.manifest_list).exists():
            for m in decode_manifest_list(
                local(snapshot.manifest_list).read_bytes(), snapshot.manifest_list
            ):
                if m.manifest_path not in seen and local(m.manifest_path).exists():
                    seen.add(m.manifest_path)
                    yield metadata, m


def comparable(table: pa.Table) -> list[dict[str, Any]]:
    return [
        {k: repr(v) if isinstance(v, float) or k == "partition" else v for k, v in row.items()}
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("name", names(deletes=None))
def test_golden_manifests_are_read_alike_by_both_engines_and_written_back(
    golden: Golden, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for metadata, m in lists_of(golden, name):
        data, found = local(m.manifest_path).read_bytes(), []
        for threshold in (0, 1 << 60):
            monkeypatch.setattr(avro_arrow, "NATIVE_FROM_BYTES", threshold)
            found.append(decode_manifest(data, m))
        assert found[0].schema == found[1].schema
        assert comparable(found[0]) == comparable(found[1])
        spec = metadata.spec_by_id(m.partition_spec_id)
        schema = next(
            s
            for s in (metadata.schema(), *metadata.schemas)
            if all(f.source_id in s.by_id for f in spec.fields)
        )
        again = encode_manifest(
            entries_from_table(found[0], spec),
            spec=spec,
            schema=schema,
            format_version=metadata.format_version,
            content=m.content,
            snapshot_id=m.added_snapshot_id,
        )
        assert comparable(
            decode_manifest(again, replace(m, manifest_length=len(again)))
        ) == comparable(found[0])


@pytest.mark.parametrize("name", names(deletes=None))
def test_live_files_and_their_numbers_are_those_java_lists(golden: Golden, name: str) -> None:
    table, metadata = golden[name], current_metadata(golden, name)
    snapshot, root = metadata.current_snapshot(), str(table.root) + "/"
    if snapshot is None or snapshot.manifest_list is None:
        return
    live: dict[tuple[str, int | None], ManifestEntry] = {}
    manifests = decode_manifest_list(local(snapshot.manifest_list).read_bytes())
    listed = {str(local(e["path"])): e for e in table.expected.get("manifests") or ()}
    assert len(listed) in (0, len(manifests))
    for m in manifests:
        if expected := listed.get(str(local(m.manifest_path)).removeprefix(root)):
            facts = (m.manifest_length, m.partition_spec_id, m.added_snapshot_id, m.content)
            assert facts == tuple(
                expected[k] for k in ("length", "partition_spec_id", "added_snapshot_id", "content")
            )
            kind = "data" if m.content == 0 else "delete"
            counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
            assert counts == tuple(
                expected[f"{k}_{kind}_files_count"] for k in ("added", "existing", "deleted")
            )
        else:
            assert not listed
        for e in entries_from_table(
            decode_manifest(local(m.manifest_path).read_bytes(), m),
            metadata.spec_by_id(m.partition_spec_id),
        ):
            if e.status != 2:
                live[e.data_file.file_path, e.data_file.content_offset] = e
    expected_files = {(f["file_path"], f.get("content_offset")): f for f in table.expected["files"]}
    assert {(str(local(p)).removeprefix(root), o) for p, o in live} == {
        (str(local(p)), o) for p, o in expected_files
    }
    for (path, offset), e in live.items():
        f = expected_files[str(local(path)).removeprefix(root), offset]
        assert (e.data_file.content, e.data_file.record_count, e.data_file.file_size_in_bytes) == (
            f["content"],
            f["record_count"],
            f["file_size_in_bytes"],
        )
        assert e.data_file.file_format == f["file_format"].lower()
        for key in ("first_row_id", "sort_order_id", "content_size_in_bytes"):
            if key in f:
                assert getattr(e.data_file, key) == f[key], key
        for key in ("value_counts", "null_value_counts", "nan_value_counts"):
            if f.get(key) is not None:
                assert getattr(e.data_file, key) == {int(k): v for k, v in f[key].items()}, key
        if "sequence_number" in f:
            assert e.sequence_number == f["sequence_number"]
        assert e.sequence_number is not None
        assert e.sequence_number <= snapshot.sequence_number


PARTITIONED = st.lists(primitives(), max_size=3)


@given(
    PARTITIONED,
    st.data(),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["gzip", "zstd", "snappy", "uncompressed"]),
)
@settings(max_examples=examples(120), deadline=None)
def test_entries_survive_writing_and_both_ways_of_reading(
    typed: list[tuple[IcebergType, Any]], data: st.DataObject, version: int, codec: str
) -> None:
    schema = Schema(*(NestedField(i + 1, f"c {i}", t) for i, (t, _) in enumerate(typed)))
    spec = PartitionSpec(
        *(
            PartitionField(i + 1, 1000 + i, IdentityTransform(), f"c {i}")
            for i in range(len(typed))
        ),
        spec_id=3,
    )
    partition = st.tuples(*(st.none() | st.just(v) for _, v in typed))
    files = data.draw(st.lists(data_files(partition, 3), max_size=4))
    if version == 1:
        files = [replace(f, equality_ids=None, referenced_data_file=None) for f in files]
    entries = [ManifestEntry(n % 3, f, n, 4, 5) for n, f in enumerate(files)]
    numbers = [
        replace(e, sequence_number=0, file_sequence_number=0) if version == 1 else e
        for e in entries
    ]
    written = encoded(entries, spec, schema, version, codec=codec)
    for threshold in (0, 1 << 60):
        before, avro_arrow.NATIVE_FROM_BYTES = avro_arrow.NATIVE_FROM_BYTES, threshold
        try:
            assert decoded(written, spec, sequence_number=0 if version == 1 else 9) == numbers
        finally:
            avro_arrow.NATIVE_FROM_BYTES = before


def test_new_entries_inherit_what_they_leave_out(engine: str) -> None:
    entries = [
        entry("a"),
        entry("b", numbers=(None, 3, None)),
        entry("c", status=0, numbers=(70, 1, 1)),
        entry("d", status=2, numbers=(77, 1, 1)),
        entry("e", status=0),
    ]
    found = decoded(encoded(entries))
    assert [(e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in found] == [
        (77, 5, 5),
        (77, 3, 5),
        (70, 1, 1),
        (77, 1, 1),
        (77, None, None),
    ]


def test_version_1_entries_have_sequence_number_zero(engine: str) -> None:
    found = decoded(encoded([entry("a"), entry("b", status=0)], version=1), sequence_number=0)
    assert [
        (e.snapshot_id, e.sequence_number, e.file_sequence_number, e.data_file.content)
        for e in found
    ] == [(77, 0, 0, 0)] * 2


def test_row_ids_are_counted_over_files_that_have_none(engine: str) -> None:
    entries = [
        entry("a", status=0, numbers=(1, 1, 1), first_row_id=800, rows=25),
        entry("b", rows=50),
        entry("gone", status=2, numbers=(1, 1, 1), rows=9),
        entry("c", rows=50),
        entry("kept gone", status=2, numbers=(1, 1, 1), rows=9, first_row_id=3),
        entry("d", status=0, numbers=(1, 1, 1), rows=5),
    ]
    data = encoded(entries, version=3)
    assert [e.data_file.first_row_id for e in decoded(data, first_row_id=1000)] == [
        800,
        1000,
        None,
        1050,
        3,
        1100,
    ]
    assert [e.data_file.first_row_id for e in decoded(data, first_row_id=None)] == [None] * 6
    # not yet in a list
    assert [e.data_file.first_row_id for e in decoded(data, sequence_number=None)] == [
        800,
        None,
        None,
        None,
        3,
        None,
    ]
    table = decode_manifest(data, manifest(first_row_id=1000), columns=("first_row_id",))
    assert (table.column_names, table["first_row_id"].to_pylist()) == (
        ["first_row_id"],
        [800, 1000, None, 1050, 3, 1100],
    )


def test_only_the_columns_asked_for_come(engine: str) -> None:
    data = encoded([entry("a", value_counts={1: 2})])
    assert decode_manifest(
        data, manifest(), columns=("value_counts", "file_path", "partition")
    ).column_names == [
        "file_path",
        "partition",
        "value_counts",
    ]
    assert decode_manifest(data, manifest(), columns=()).num_rows in (0, 1)
    with pytest.raises(InvalidInput, match="colour"):
        decode_manifest(data, manifest(), columns=("colour",))


def test_an_empty_manifest_has_all_columns(engine: str) -> None:
    table = decode_manifest(encoded([]), manifest())
    assert table.num_rows == 0
    assert table.column_names == [c.name for c in COLUMNS]


def test_partition_children_hold_internal_values_under_their_ids(engine: str) -> None:
    schema = Schema(
        NestedField(1, "ts", TimestampType()),
        NestedField(2, "u", UUIDType()),
        NestedField(3, "d", DecimalType(9, 2)),
        NestedField(4, "s", StringType()),
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, DayTransform(), "ts_day"),
        PartitionField(2, 1001, IdentityTransform(), "u"),
        PartitionField(3, 1002, TruncateTransform(50), "d"),
        PartitionField(4, 1003, BucketTransform(4), "b"),
        PartitionField(4, 1004, VoidTransform(), "v"),
    )
    values = (17486, bytes(range(16)), Decimal("10.50"), 3, None)
    table = decode_manifest(encoded([entry("a", partition=values)], spec, schema), manifest())
    assert [(f.name, f.type) for f in table.schema.field("partition").type] == [
        ("1000", pa.int32()),
        ("1001", pa.binary()),
        ("1002", pa.decimal128(9, 2)),
        ("1003", pa.int32()),
        ("1004", pa.string()),
    ]
    assert entries_from_table(table, spec)[0].data_file.partition == values
    assert [arrow_value_type(f.field_type) for f in spec.partition_type(schema)] == [
        f.type for f in table.schema.field("partition").type
    ]


def test_a_truncated_decimal_may_have_a_digit_more_than_its_type(engine: str) -> None:
    schema, spec = (
        Schema(NestedField(1, "d", DecimalType(9, 2))),
        PartitionSpec(PartitionField(1, 1000, TruncateTransform(50), "d")),
    )
    value = Decimal("-10000000.00")
    assert decoded(encoded([entry("a", partition=(value,))], spec, schema), spec)[
        0
    ].data_file.partition == (value,)


def test_nan_partitions_survive(engine: str) -> None:
    from frazil.spec.types import DoubleType

    schema, spec = (
        Schema(NestedField(1, "d", DoubleType())),
        PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d")),
    )
    found = decoded(
        encoded([entry("a", partition=(math.nan,)), entry("b", partition=(-0.0,))], spec, schema),
        spec,
    )
    assert math.isnan(found[0].data_file.partition[0])
    assert math.copysign(1, found[1].data_file.partition[0]) == -1


def test_a_manifest_may_have_thousands_of_entries_in_blocks_small_or_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[bool] = []
    whole = avro_arrow._native

    def spy(*arguments: Any) -> Any:
        found = whole(*arguments)
        calls.append(found is not None)
        return found

    monkeypatch.setattr(avro_arrow, "_native", spy)
    entries = [
        entry(
            f"s3://b/t/data/{n}.parquet",
            rows=n,
            value_counts={1: n, 2: 5},
            lower_bounds={1: bytes([n % 256])},
        )
        for n in range(3000)
    ]
    monkeypatch.setattr("frazil.codec.avro_write.BLOCK_BYTES", 1)
    small = decode_manifest(encoded(entries), manifest())
    monkeypatch.setattr("frazil.codec.avro_write.BLOCK_BYTES", 64_000)
    large = decode_manifest(encoded(entries), manifest())
    assert calls == [True, True]
    assert small.equals(large)
    assert entries_from_table(small.slice(1500, 2), PLAIN) == [
        replace(e, snapshot_id=77, sequence_number=5, file_sequence_number=5)
        for e in entries[1500:1502]
    ]


def test_threads_may_decode_at_once() -> None:
    data = encoded([entry(f"f{n}") for n in range(2000)])
    found: list[pa.Table] = []
    threads = [
        threading.Thread(target=lambda: found.append(decode_manifest(data, manifest())))
        for _ in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6
    assert all(t.equals(found[0]) for t in found)


def test_a_manifest_shorter_than_its_list_says_is_torn() -> None:
    data = encoded([entry("a")])
    with pytest.raises(CorruptData, match="manifest list says"):
        decode_manifest(data, manifest(manifest_length=len(data) + 1))


def test_a_shorter_manifest_that_has_all_entries_of_its_list_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Java's rewrite_table_path leaves them, which does not correct the lengths in the lists of
    a copy.
    """
    monkeypatch.setattr("frazil.codec.avro_write.BLOCK_BYTES", 1)
    data = encoded([entry(name) for name in "abcd"])
    ends = [end for _, _, end in read_container(data).spans]
    longer = manifest(
        manifest_length=len(data) + 9,
        added_files_count=4,
        existing_files_count=0,
        deleted_files_count=0,
    )
    for read in (
        decode_manifest(data, longer),
        *decode_manifests([(data, longer), (data, longer)]),
    ):
        assert read["file_path"].to_pylist() == ["a", "b", "c", "d"]
    assert len(ends) > 1 and ends[-1] == len(data)
    for cut in (data[: ends[0]], data[: ends[-2]]):
        with pytest.raises(CorruptData, match="manifest list says"):
            decode_manifest(cut, longer)
        with pytest.raises(CorruptData, match="manifest list says"):
            decode_manifests([(cut, longer), (cut, longer)])


def test_the_header_has_the_keys_java_writes() -> None:
    header = manifest_header(
        encoded(
            [],
            PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"), spec_id=2),
            content=1,
        )
    )
    assert (
        header["partition-spec"]
        == '[{"name":"b","transform":"bucket[4]","source-id":1,"field-id":1000}]'
    )
    assert (
        header["partition-spec-id"],
        header["format-version"],
        header["content"],
        header["schema-id"],
    ) == ("2", "2", "deletes", "0")


BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
ZIG = PartitionSpec(PartitionField(1, 1000, UnknownTransform("zig[3]"), "z"))
UNWRITABLE: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([[entry("a")], BY_ID], {}, InvalidInput, "partition values"),
    ([[entry("a", partition=("x",))], BY_ID], {}, InvalidInput, "is not a valid long"),
    ([[], ZIG], {}, Unsupported, "zig"),
    ([[]], {"codec": "lzo"}, Unsupported, "lzo"),
    ([[]], {"version": 1, "content": 1}, ValidationError, "version 1"),
]


def test_what_cannot_be_written_is_refused() -> None:
    for arguments, named, error, message in UNWRITABLE:
        with pytest.raises(error, match=message):
            encoded(*arguments, **named)


@pytest.mark.parametrize("bad", [{"status": 3}, {"status": -1}, {"rows": -1}, {"content": 7}])
def test_numbers_that_cannot_be_are_refused(bad: dict[str, Any], engine: str) -> None:
    with pytest.raises(CorruptData, match=r"m0\.avro"):
        decoded(encoded([entry("a", **bad)]))


def test_truncation_anywhere_is_corrupt_data(engine: str) -> None:
    data = encoded([entry("a", value_counts={1: 2}, lower_bounds={1: b"x"})], codec="uncompressed")
    for size in range(0, len(data), 3 if engine == "native" else 1):
        with pytest.raises(CorruptData):
            decode_manifest(data[:size], manifest(manifest_length=len(data)))


@given(st.data(), st.sampled_from(["uncompressed", "gzip"]), st.sampled_from([0, 1 << 60]))
@settings(max_examples=150, deadline=None)
def test_flipped_bits_never_cause_a_raw_error(
    data: st.DataObject, codec: str, threshold: int
) -> None:
    entries = [
        entry(f"f{n}", value_counts={1: 2, 2: n}, upper_bounds={1: b"xyz"}, split_offsets=(4, 9))
        for n in range(3)
    ]
    damaged = bytearray(encoded(entries, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    before, avro_arrow.NATIVE_FROM_BYTES = avro_arrow.NATIVE_FROM_BYTES, threshold
    try:
        found = entries_from_table(decode_manifest(bytes(damaged), manifest()), PLAIN)
    except (CorruptData, Unsupported):
        return
    finally:
        avro_arrow.NATIVE_FROM_BYTES = before
    assert all(
        isinstance(e, ManifestEntry) and isinstance(e.data_file.file_path, str) for e in found
    )


def test_a_forked_process_does_not_wait_for_threads_it_does_not_have() -> None:
    import multiprocessing

    data = encoded([entry(f"f{n}") for n in range(2000)])
    decode_manifest(data, manifest())
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(rows_in, (data,)).get(timeout=60) == 2000


def rows_in(data: bytes) -> int:
    return decode_manifest(data, manifest()).num_rows


def test_an_unpartitioned_data_file_needs_no_partition() -> None:
    assert (
        decoded(
            encoded(
                [
                    ManifestEntry(
                        1,
                        DataFile(
                            file_path="a", file_format="ORC", record_count=0, file_size_in_bytes=0
                        ),
                    )
                ]
            )
        )[0].data_file.file_format
        == "orc"
    )


@pytest.mark.parametrize(
    "as_java", [True, False], ids=["a length before it, as Java", "without, as the schema says"]
)
@given(
    values=st.lists(st.none() | st.binary(min_size=4, max_size=4), min_size=1, max_size=9),
    rows=st.sampled_from([1, 300]),
)
@settings(max_examples=60, deadline=None)
def test_a_fixed_partition_value_is_read_with_its_length_before_it_and_without(
    as_java: bool, values: list[bytes | None], rows: int
) -> None:
    spec, schema = (
        PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "f")),
        Schema(NestedField(1, "f", FixedType(4))),
    )
    blocks, data = [], b""
    for value in values:
        data = encoded([entry(rows=rows, partition=(value,))], spec, schema, codec="null")
        block = b"".join(b for _, b in read_container(data).blocks)
        blocks.append(
            block if value is None or as_java else block.replace(write_bytes(value), value)
        )
    text = data[data.index(b'{"type":"record"') : data.index(b"\x14avro.codec")]
    data = container(
        text.replace(
            b'["null","bytes"],"default":null,"field-id":1000',
            FIXED_4 + b',"default":null,"field-id":1000',
        ),
        {},
        blocks,
    )
    for threshold in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(avro_arrow, "NATIVE_FROM_BYTES", threshold)
            assert [e.data_file.partition for e in decoded(data, spec)] == [(v,) for v in values]
