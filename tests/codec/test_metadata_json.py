from __future__ import annotations

import gzip
import json
import pickle
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.codec import guard, metadata_json
from frazil.codec.guard import inflate
from frazil.codec.json_nouns import schema_from_json, schema_to_json
from frazil.codec.metadata_json import decode_metadata, encode_metadata
from frazil.errors import CorruptData, FrazilError, Unsupported, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import (
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    Snapshots,
    Summary,
)
from tests.codec.made import schemas
from tests.golden import Golden, names

SAMPLE: dict[str, Any] = {
    "format-version": 3, "table-uuid": "0f9ad401-4813-4de0-888a-bd2b1eeca198", "location": "s3://b/t", "last-sequence-number": 2, "last-updated-ms": 1000,
    "last-column-id": 8, "current-schema-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0, "x-schema": 1, "identifier-field-ids": [1], "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "x-field": {"deep": [1, 2]}},
        {"id": 2, "name": "d", "required": False, "type": "date", "doc": "day", "initial-default": "2017-11-16", "write-default": "2017-11-17"},
        {"id": 3, "name": "s", "required": False, "type": {"type": "struct", "fields": [
            {"id": 4, "name": "l", "required": False, "type": {"type": "list", "element-id": 5, "element": {"type": "map", "key-id": 6, "key": "int",
             "value-id": 7, "value": {"type": "struct", "fields": [{"id": 8, "name": "x", "required": False, "type": "int", "x-inner": 1}], "x-in": 2},
             "value-required": False, "x-map": {"a": None}}, "element-required": False, "x-list": [3]}}], "x-struct": "kept"}}]}],
    "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "x-spec": True, "fields": [
        {"name": "id_b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000, "x-pf": 1},
        {"name": "zig", "transform": "zorder[2]", "source-ids": [1, 2], "field-id": 1001}]}],
    "last-partition-id": 1001, "default-sort-order-id": 1, "sort-orders": [{"order-id": 1, "x-order": 1, "fields": [
        {"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last", "x-sf": "y"}]}],
    "properties": {"a": "b"}, "current-snapshot-id": 11, "next-row-id": 30, "encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "AA=="}],
    "refs": {"main": {"snapshot-id": 11, "type": "branch", "x-ref": 1}, "old": {"snapshot-id": 10, "type": "tag", "max-ref-age-ms": 5}},
    "snapshots": [
        {"sequence-number": 1, "snapshot-id": 10, "timestamp-ms": 900, "summary": {"operation": "append", "n": "1"}, "manifest-list": "s3://b/t/1.avro", "schema-id": 0},
        {"sequence-number": 2, "snapshot-id": 11, "parent-snapshot-id": 10, "timestamp-ms": 1000, "summary": {"operation": "append"}, "manifest-list": "s3://b/t/2.avro",
         "first-row-id": 0, "added-rows": 30, "x-snapshot": {"kept": None}}],
    "statistics": [{"snapshot-id": 11, "statistics-path": "s", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": [], "x": 1}],
    "partition-statistics": [], "snapshot-log": [{"timestamp-ms": 900, "snapshot-id": 10}, {"timestamp-ms": 1000, "snapshot-id": 11}],
    "metadata-log": [{"timestamp-ms": 900, "metadata-file": "s3://b/t/1.json"}], "x-top": {"of": ["the", "world"]},
}  # fmt: skip


def with_(**changes: Any) -> bytes:
    """The sample with keys changed (`_` is `-`); None takes the key away."""
    return json.dumps(
        {**dict(SAMPLE.items()), **{k.replace("_", "-"): v for k, v in changes.items()}}
    ).encode()


@pytest.fixture
def metadata() -> Any:
    return decode_metadata(json.dumps(SAMPLE).encode())


def test_unknown_keys_are_kept_at_every_level() -> None:
    data = encode_metadata(decode_metadata(json.dumps(SAMPLE).encode()))
    assert json.loads(data) == SAMPLE
    assert list(json.loads(data)) == list(SAMPLE)  # Java's order


def test_unknown_keys_of_the_logs_are_kept() -> None:
    logs = {
        "snapshot-log": [
            {"timestamp-ms": 1, "snapshot-id": 11},
            {"timestamp-ms": 2, "snapshot-id": 11, "x-why": {"a": [1, "b"]}},
        ],
        "metadata-log": [
            {"timestamp-ms": 1, "metadata-file": "/a", "x-by": "me"},
            {"timestamp-ms": 2, "metadata-file": "/b"},
        ],
    }
    metadata = decode_metadata(with_(**logs))
    again = json.loads(
        encode_metadata(
            replace(metadata, snapshot_log=(*metadata.snapshot_log, SnapshotLogEntry(3, 11)))
        )
    )
    assert again["snapshot-log"] == [*logs["snapshot-log"], {"timestamp-ms": 3, "snapshot-id": 11}]
    assert again["metadata-log"] == logs["metadata-log"]
    for name, item in (
        ("snapshot-log", {"timestamp-ms": "x", "snapshot-id": 1}),
        ("metadata-log", {"timestamp-ms": 1}),
        ("snapshot-log", 5),
    ):
        with pytest.raises(CorruptData):
            decode_metadata(with_(**{name: [item]}))


def test_a_snapshot_made_new_is_written_with_its_extra_keys(metadata: Any) -> None:
    anew = replace(metadata, snapshots=Snapshots.of(metadata.snapshots))  # written from objects
    assert json.loads(encode_metadata(anew)) == SAMPLE


def test_each_snapshot_is_written_out_once_however_many_commits_follow() -> None:
    made: list[int] = []

    def encode(snapshot: Snapshot) -> bytes:
        made.append(snapshot.snapshot_id)
        return b"%d" % snapshot.snapshot_id

    snapshots = Snapshots.of(Snapshot(i, 0) for i in range(3))
    assert snapshots.texts(encode) == [b"0", b"1", b"2"]
    later = snapshots.adding(Snapshot(7, 0)).without([1]).adding(Snapshot(8, 0))
    assert later.texts(encode) == [b"0", b"2", b"7", b"8"] and made == [0, 1, 2, 7, 8]
    assert later.ids == (0, 2, 7, 8) and [s.snapshot_id for s in later] == [0, 2, 7, 8]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "expire", "roll back", "other writer", "key"]),
            st.integers(0, 3),
        ),
        max_size=12,
    )
)
def test_what_is_written_after_any_commits_is_what_is_written_without_knowledge_of_them(
    steps: list[tuple[str, int]],
) -> None:
    """The texts of what was written before are used again, and give the bytes of an encoding from
    scratch.
    """
    metadata = decode_metadata(json.dumps(SAMPLE).encode())
    for number, (step, count) in enumerate(steps, 100):
        log = metadata.snapshot_log
        if step == "commit":
            metadata = replace(
                metadata,
                snapshots=metadata.snapshots.adding(
                    Snapshot(number, number, summary=Summary(operation="append"))
                ),
            )
            log = (*log, SnapshotLogEntry(number, number))
        elif step == "expire":
            metadata = replace(metadata, snapshots=metadata.snapshots.without([100 + count]))
            log = log[count:]
        elif step == "roll back":
            log = (*log[: len(log) - count], SnapshotLogEntry(number, 10))
        elif step == "other writer":
            metadata = decode_metadata(encode_metadata(metadata))
            log = (*metadata.snapshot_log, SnapshotLogEntry(number, 11))
        else:
            log = (*log, SnapshotLogEntry(number, 11, {"x-why": count}))
        metadata = replace(metadata, snapshot_log=log)
        again = encode_metadata(metadata)
        # nothing is known of this location
        fresh = replace(
            metadata, location="s3://b/other", snapshots=Snapshots.of(metadata.snapshots)
        )
        metadata_json._written_logs.pop("s3://b/other", None)
        assert json.loads(encode_metadata(fresh)) == json.loads(again) | {
            "location": "s3://b/other"
        }
        assert decode_metadata(again) == metadata


def test_the_logs_of_a_few_tables_are_known_and_two_tables_at_one_location_do_not_mix(
    metadata: Any,
) -> None:
    for number in range(20):
        encode_metadata(replace(metadata, location=f"s3://b/{number}"))
    assert (
        list(metadata_json._written_logs)[-1] == "s3://b/19"
        and len(metadata_json._written_logs) == 8
    )
    other = replace(
        metadata,
        snapshot_log=(SnapshotLogEntry(5, 10), SnapshotLogEntry(6, 11), SnapshotLogEntry(7, 11)),
    )
    for table in (metadata, other, metadata):
        assert decode_metadata(encode_metadata(table)).snapshot_log == table.snapshot_log


def test_snapshots_are_decoded_when_asked_for_only() -> None:
    metadata = decode_metadata(
        with_(snapshots=[{"snapshot-id": 11, "timestamp-ms": "broken"}], refs=None)
    )
    with pytest.raises(CorruptData, match="timestamp-ms"):
        metadata.current_snapshot()


def test_metadata_survives_pickling(metadata: Any) -> None:
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_gzip_is_found_by_its_first_bytes() -> None:
    assert decode_metadata(gzip.compress(json.dumps(SAMPLE).encode())) == decode_metadata(
        json.dumps(SAMPLE).encode()
    )


def test_a_gzip_bomb_is_refused() -> None:
    with pytest.raises(CorruptData, match="larger"):
        decode_metadata(gzip.compress(b" " * (80 << 20)))


def test_gzip_of_a_gigabyte_is_refused_within_bounded_memory(tmp_path: Path) -> None:
    """3 MB that inflate to 1.2 GB: refused before more than a part of it is held."""
    file = tmp_path / "v3.gz.metadata.json"
    file.write_bytes(60 * gzip.compress(random.Random(1).randbytes(32_000) + b" " * 20_000_000, 6))
    assert 3_000_000 < file.stat().st_size < 4_000_000
    told = subprocess.run(
        [sys.executable, "-c", _READING, file], capture_output=True, text=True, check=True
    ).stdout.split()
    assert told[:2] == [str(file), "True"]
    assert int(told[2]) < 200, "MB"


_READING = """
import resource, sys
from pathlib import Path
from frazil.codec.metadata_json import decode_metadata
from frazil.errors import CorruptData
data, before = Path(sys.argv[1]).read_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode_metadata(data, sys.argv[1])
except CorruptData as e:
    print(e.facts["file"], "larger" in str(e), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_gzip_in_several_members_and_beyond_what_is_held_is_read_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = json.dumps(SAMPLE).encode()
    half = len(text) // 2
    members = gzip.compress(text[:half]) + gzip.compress(b"") + gzip.compress(text[half:])
    for held in (1 << 26, 100, len(text), len(text) - 1):
        monkeypatch.setattr(guard, "HELD", held)
        assert inflate(members, 31, 1 << 27) == text
        assert inflate(members + b"\0" * 9, 31, len(text)) == text, "padding, as tapes leave it"
        with pytest.raises(CorruptData, match="larger"):
            inflate(members, 31, len(text) - 1)
        with pytest.raises(CorruptData, match="early"):
            inflate(members[:-20], 31, 1 << 27)


@pytest.mark.parametrize("name", names(deletes=None))
def test_every_version_of_a_golden_table_is_read_and_written_back(
    golden: Golden, name: str
) -> None:
    files = [
        f for f in Path(golden[name].metadata_file).parent.iterdir() if ".metadata.json" in f.name
    ]
    assert files
    for file in files:
        metadata = decode_metadata(file.read_bytes(), str(file))
        again = decode_metadata(encode_metadata(metadata))
        assert again == metadata
        assert again.extra == metadata.extra


@pytest.mark.parametrize("name", names(deletes=None))
def test_golden_metadata_says_what_java_says(golden: Golden, name: str) -> None:
    table = golden[name]
    metadata, expected = decode_metadata(Path(table.metadata_file).read_bytes()), table.expected
    assert metadata.format_version == expected["format_version"]
    assert metadata.table_uuid == expected["table_uuid"]
    assert metadata.last_sequence_number == expected["last_sequence_number"]
    assert metadata.next_row_id == expected.get("next_row_id")
    assert schema_to_json(metadata.schema())["fields"] == expected["schema"]["fields"]
    assert {s.snapshot_id for s in metadata.snapshots} == {
        s["snapshot_id"] for s in expected["snapshots"]
    }
    for s in expected["snapshots"]:
        found = metadata.snapshot_by_id(s["snapshot_id"])
        assert (found.parent_snapshot_id, found.sequence_number, found.operation) == (
            s["parent_id"],
            s["sequence_number"],
            s["operation"],
        )
        assert found.schema_id == s["schema_id"]


def test_variants_of_metadata_are_read_or_refused_as_java_does(golden: Golden) -> None:
    table = golden["metadata_variants"]
    answers = table.expected["variants"]
    assert len(answers) == 16
    for name, answer in answers.items():
        file = Path(table.location) / answer["file"]
        if answer["java"] == "reads" or name == "manifest_list_missing":  # its metadata is sound
            assert decode_metadata(file.read_bytes(), str(file)).location.endswith(
                "metadata_variants"
            ), name
        else:
            with pytest.raises(FrazilError) as refused:
                decode_metadata(file.read_bytes(), str(file))
            assert refused.value.facts["file"] == str(file)
            assert isinstance(refused.value, Unsupported if name == "version_99" else CorruptData)


def test_current_snapshot_minus_one_is_no_snapshot() -> None:
    metadata = decode_metadata(with_(current_snapshot_id=-1, refs={}))
    assert metadata.current_snapshot_id is None
    assert json.loads(encode_metadata(metadata))["current-snapshot-id"] is None
    assert (
        json.loads(encode_metadata(replace(metadata, format_version=2)))["current-snapshot-id"]
        == -1
    )


def test_missing_refs_mean_main_at_the_current_snapshot() -> None:
    metadata = decode_metadata(with_(refs=None))
    assert metadata.refs == {"main": SnapshotRef(11)}


def test_version_1_without_lists_is_read() -> None:
    v1 = {
        "format-version": 1,
        "location": "s3://b/t/",
        "last-updated-ms": 5,
        "last-column-id": 1,
        "schema": {
            "type": "struct",
            "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}],
        },
        "partition-spec": [{"name": "a", "transform": "identity", "source-id": 1}],
        "current-snapshot-id": 9,
        "snapshots": [{"snapshot-id": 9, "timestamp-ms": 5, "manifests": ["m1.avro", "m2.avro"]}],
    }
    metadata = decode_metadata(json.dumps(v1).encode())
    assert (
        metadata.location,
        metadata.table_uuid,
        metadata.current_schema_id,
        metadata.last_partition_id,
    ) == ("s3://b/t", None, 0, 1000)
    assert metadata.spec().fields[0].field_id == 1000
    snapshot = metadata.current_snapshot()
    assert snapshot is not None
    assert (snapshot.manifests, snapshot.summary, snapshot.sequence_number) == (
        ("m1.avro", "m2.avro"),
        {},
        0,
    )
    written = json.loads(encode_metadata(metadata))
    assert (written["schema"]["fields"], written["partition-spec"][0]["field-id"]) == (
        v1["schema"]["fields"],
        1000,
    )
    assert decode_metadata(encode_metadata(metadata)) == metadata


BAD = {
    "no version": {"format_version": None}, "text version": {"format_version": "3"}, "no location": {"location": None}, "no columns": {"last_column_id": None},
    "float": {"last_updated_ms": 1.5}, "huge": {"last_updated_ms": 2**70}, "schemas object": {"schemas": {}}, "no schema": {"schemas": []},
    "no fields": {"schemas": [{"type": "struct", "schema-id": 0}]}, "no spec": {"partition_specs": None}, "spec unknown": {"default_spec_id": 4},
    "order unknown": {"default_sort_order_id": 4}, "bad direction": {"sort_orders": [{"order-id": 1, "fields": [{"transform": "identity", "source-id": 1, "direction": "up", "null-order": "nulls-last"}]}]},
    "snapshot twice": {"snapshots": [SAMPLE["snapshots"][1]] * 2}, "snapshots object": {"snapshots": {}}, "snapshot number": {"snapshots": [5]},
    "sequence ahead": {"last_sequence_number": 1}, "ref type": {"refs": {"main": {"snapshot-id": 11, "type": "twig"}}}, "main a tag": {"refs": {"main": {"snapshot-id": 11, "type": "tag"}}},
    "properties list": {"properties": []}, "property object": {"properties": {"a": {}}}, "no row id": {"next_row_id": None}, "log": {"snapshot_log": [{}]},
    "id twice": {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": n, "required": True, "type": "int"} for n in "ab"]}]},
    "identifier unknown": {"schemas": [{"type": "struct", "schema-id": 0, "identifier-field-ids": [9], "fields": []}]},
    "decimal": {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": True, "type": "decimal(99, 2)"}]}]},
    "default": {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": True, "type": "int", "initial-default": "x"}]}]},
    "schema id twice": {"schemas": [SAMPLE["schemas"][0]] * 2}, "spec id twice": {"partition_specs": [SAMPLE["partition-specs"][0]] * 2},
    "order id twice": {"sort_orders": [{"order-id": 0, "fields": []}] * 2},
    "column twice": {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": i, "name": "a", "required": True, "type": "int"} for i in (1, 2)]}]},
    "member twice": {"schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 3, "name": "s", "required": True, "type": {"type": "struct", "fields": [
        {"id": i, "name": "a", "required": True, "type": "int"} for i in (1, 2)]}}]}]},
    "partition name twice": {"partition_specs": [{"spec-id": 0, "fields": [{"name": "a", "transform": f"bucket[{i}]", "source-id": 1, "field-id": i} for i in (1000, 1001)]}]},
    "partition id twice": {"partition_specs": [{"spec-id": 0, "fields": [{"name": n, "transform": "identity", "source-id": 1, "field-id": 1000} for n in "ab"]}]},
    "bucket": {"partition_specs": [{"spec-id": 0, "fields": [{"name": "a", "transform": "bucket[0]", "source-id": 1, "field-id": 1000}]}]},
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_unsound_metadata_is_refused_with_its_file(what: str) -> None:
    with pytest.raises(CorruptData) as refused:
        decode_metadata(with_(**BAD[what]), "v3.metadata.json")
    assert refused.value.facts["file"] == "v3.metadata.json"
    assert "v3.metadata.json" in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b"\xff\xfe",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\x00" + b"\x00" * 20,
        b"{}",
        b'{"format-version":2}',
    ],
)
def test_what_is_no_metadata_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_metadata(data)


@pytest.mark.parametrize("depth", [150, 2_000, 200_000])
def test_deep_nesting_is_refused_in_good_time(depth: int) -> None:
    nested = (
        '{"type":"list","element-id":1,"element-required":true,"element":' * depth
        + '"int"'
        + "}" * depth
    )
    schema = (
        '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":true,"type":'
        + nested
        + "}]}"
    )
    with pytest.raises(CorruptData):
        decode_metadata(with_(schemas="@").replace(b'"@"', f"[{schema}]".encode()))
    with pytest.raises(CorruptData):
        decode_metadata(with_(x_deep="@").replace(b'"@"', b"[" * 200_000))


@given(schemas())
@settings(max_examples=150, deadline=None)
def test_schemas_survive_their_json(schema: Schema) -> None:
    obj = json.loads(json.dumps(schema_to_json(schema)))
    again = schema_from_json(obj)
    assert again == schema
    assert schema_to_json(again) == obj


def test_a_value_without_json_form_is_refused(metadata: Any) -> None:
    with pytest.raises(ValidationError, match="JSON"):
        encode_metadata(replace(metadata, properties={"a": object()}))  # type: ignore[dict-item]


def test_new_snapshots_and_logs_are_written_readably() -> None:
    base = decode_metadata(json.dumps(SAMPLE).encode())
    snapshot = Snapshot(
        12,
        1100,
        "l.avro",
        11,
        3,
        {"added-files": "1", "operation": "append"},
        0,
        first_row_id=30,
        added_rows=1,
    )
    changed: TableMetadata = replace(
        base,
        snapshots=base.snapshots.adding(snapshot),
        last_sequence_number=3,
        current_snapshot_id=12,
        refs={"main": SnapshotRef(12)},
        snapshot_log=(*base.snapshot_log, SnapshotLogEntry(1100, 12)),
        metadata_log=(MetadataLogEntry(1000, 'quote " and ü'),),
    )
    data = encode_metadata(changed)
    assert decode_metadata(data) == changed
    assert data.count(b"\n") > 80
    assert list(json.loads(data)["snapshots"][2]["summary"]) == ["operation", "added-files"]
