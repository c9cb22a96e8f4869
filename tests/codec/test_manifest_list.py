from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.codec import manifest_list
from frazil.codec.avro import read_container
from frazil.codec.manifest_list import decode_manifest_list, encode_manifest_list
from frazil.errors import CorruptData, ValidationError
from frazil.spec.manifest import FieldSummary, ManifestFile
from tests.codec.made import INT, LONG, TEXT, current_metadata, local
from tests.golden import Golden, names

COUNT, ROWS = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
SUMMARY = st.builds(
    FieldSummary,
    st.booleans(),
    st.none() | st.booleans(),
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=9),
)
MANIFEST = st.builds(
    ManifestFile,
    manifest_path=TEXT.filter(bool),
    manifest_length=ROWS,
    partition_spec_id=INT,
    content=st.sampled_from([0, 1]),
    sequence_number=ROWS,
    min_sequence_number=ROWS,
    added_snapshot_id=LONG,
    added_files_count=COUNT,
    existing_files_count=COUNT,
    deleted_files_count=COUNT,
    added_rows_count=ROWS,
    existing_rows_count=ROWS,
    deleted_rows_count=ROWS,
    partitions=st.none() | st.lists(SUMMARY, max_size=3).map(tuple),
    key_metadata=st.none() | st.binary(max_size=4),
    first_row_id=st.none() | ROWS,
)
ONE = ManifestFile(
    manifest_path="s3://b/m0.avro",
    manifest_length=5000,
    sequence_number=3,
    min_sequence_number=2,
    added_snapshot_id=9,
    added_files_count=1,
    existing_files_count=0,
    deleted_files_count=0,
    added_rows_count=10,
    existing_rows_count=0,
    deleted_rows_count=0,
    partitions=(FieldSummary(False, None, b"a", b"b"),),
)


def encoded(manifests: list[ManifestFile], version: int = 2, **more: Any) -> bytes:
    numbers: dict[str, Any] = {
        "snapshot_id": 9,
        "parent_snapshot_id": 8,
        "sequence_number": 3,
        "first_row_id": 40,
        **more,
    }
    return encode_manifest_list(manifests, format_version=version, **numbers)


@given(
    st.lists(MANIFEST, max_size=4),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["gzip", "zstd", "uncompressed"]),
)
@settings(max_examples=100, deadline=None)
def test_manifests_survive_a_list_of_their_version(
    manifests: list[ManifestFile], version: int, codec: str
) -> None:
    import dataclasses

    found = decode_manifest_list(encoded(manifests, version, codec=codec))
    lost: dict[str, Any] = (
        {"content": 0, "sequence_number": 0, "min_sequence_number": 0} if version == 1 else {}
    )
    lost |= {"first_row_id": None} if version < 3 else {}
    assert list(found) == [dataclasses.replace(m, **lost) for m in manifests]


def test_the_header_has_the_keys_java_writes() -> None:
    assert read_container(encoded([ONE], 3, parent_snapshot_id=None)).metadata == {
        "snapshot-id": b"9",
        "parent-snapshot-id": b"null",
        "sequence-number": b"3",
        "first-row-id": b"40",
        "format-version": b"3",
    }
    assert set(read_container(encoded([ONE], 1)).metadata) == {
        "snapshot-id",
        "parent-snapshot-id",
        "format-version",
    }


@pytest.mark.parametrize("name", names(deletes=None))
def test_golden_lists_are_read_and_written_back(golden: Golden, name: str) -> None:
    metadata = current_metadata(golden, name)
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is None:
            continue
        file = local(snapshot.manifest_list)
        found = decode_manifest_list(file.read_bytes(), str(file))
        by_other = list(fastavro.reader(io.BytesIO(file.read_bytes())))
        assert [m.manifest_path for m in found] == [r["manifest_path"] for r in by_other]
        assert [m.first_row_id for m in found] == [r.get("first_row_id") for r in by_other]
        assert [m.added_rows_count for m in found] == [r.get("added_rows_count") for r in by_other]
        for m in found:
            assert m.sequence_number is not None
            assert m.sequence_number <= snapshot.sequence_number
        version = int(read_container(file.read_bytes()).metadata["format-version"])
        numbers = {
            "snapshot_id": snapshot.snapshot_id,
            "parent_snapshot_id": snapshot.parent_snapshot_id,
            "sequence_number": snapshot.sequence_number,
        }
        assert (
            decode_manifest_list(encode_manifest_list(found, format_version=version, **numbers))
            == found
        )


def test_old_names_of_counts_are_understood_by_their_ids() -> None:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "long", "field-id": 501},
            {"name": "partition_spec_id", "type": "int", "field-id": 502},
            {"name": "added_snapshot_id", "type": "long", "field-id": 503},
            {"name": "added_data_files_count", "type": ["null", "int"], "field-id": 504},
            {"name": "existing_data_files_count", "type": ["null", "int"], "field-id": 505},
            {"name": "deleted_data_files_count", "type": ["null", "int"], "field-id": 506},
            {"name": "of_tomorrow", "type": {"type": "map", "values": "string"}, "field-id": 599},
        ],
    }
    out = io.BytesIO()
    row = {
        "manifest_path": "m",
        "manifest_length": 5,
        "partition_spec_id": 2,
        "added_snapshot_id": 7,
        "added_data_files_count": 1,
        "existing_data_files_count": None,
        "deleted_data_files_count": 3,
        "of_tomorrow": {"a": "b"},
    }
    fastavro.writer(out, schema, [row])
    (found,) = decode_manifest_list(out.getvalue())
    assert (found.added_files_count, found.existing_files_count, found.deleted_files_count) == (
        1,
        None,
        3,
    )
    assert (found.content, found.sequence_number, found.min_sequence_number) == (0, 0, 0)
    assert found.has_live_files


def test_a_manifest_without_its_numbers_is_refused() -> None:
    with pytest.raises(ValidationError, match="sequence_number"):
        encoded([ManifestFile(manifest_path="m", manifest_length=1, added_snapshot_id=1)])
    # version 1 needs fewer
    fewer = encoded([ManifestFile(manifest_path="m", manifest_length=1, added_snapshot_id=1)], 1)
    assert [m.manifest_path for m in decode_manifest_list(fewer)] == ["m"]


def test_truncation_anywhere_is_corrupt_data() -> None:
    data = encoded([ONE])
    whole = read_container(data).start + 16  # a header alone is a list without manifests
    for size in range(len(data)):
        if size != whole:
            with pytest.raises(CorruptData) as torn:
                decode_manifest_list(data[:size], "snap-9.avro")
            assert torn.value.facts["file"] == "snap-9.avro"


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_flipped_bits_never_cause_a_raw_error(data: st.DataObject) -> None:
    damaged = bytearray(encoded([ONE, ONE], codec="uncompressed"))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    from frazil.errors import Unsupported

    try:
        found = decode_manifest_list(bytes(damaged))
    except (CorruptData, Unsupported):
        return
    assert all(isinstance(m, ManifestFile) and isinstance(m.manifest_path, str) for m in found)


def test_a_file_that_is_no_list_is_refused(golden: Golden) -> None:
    metadata = current_metadata(golden, "plain_v2")
    snapshot = metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    manifest = decode_manifest_list(Path(snapshot.manifest_list).read_bytes())[0]
    with pytest.raises(CorruptData):
        decode_manifest_list(local(manifest.manifest_path).read_bytes())


def test_entries_that_the_lists_of_a_history_repeat_are_decoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    decode = manifest_list._manifest
    monkeypatch.setattr(
        manifest_list,
        "_manifest",
        lambda names, row, summary: (decoded.append(row[0]), decode(names, row, summary))[1],
    )
    history = [replace(ONE, manifest_path=f"memory://history/{n}.avro") for n in range(20)]
    for length in range(1, 21):
        assert encoded_and_decoded(history[:length]) == history[:length]
    assert decoded == [m.manifest_path for m in history]
    # the same path with other numbers is another entry
    history[3] = replace(history[3], sequence_number=7, partitions=None)
    assert encoded_and_decoded(history[::-1]) == history[::-1]
    assert decoded[20:] == [history[3].manifest_path]


def test_no_more_entries_are_remembered_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_list, "_MOST_ENTRIES", 7)
    manifests = [replace(ONE, manifest_path=f"memory://bound/{n}.avro") for n in range(20)]
    for _ in range(3):
        assert encoded_and_decoded(manifests) == manifests


def encoded_and_decoded(manifests: list[ManifestFile]) -> list[ManifestFile]:
    data = encode_manifest_list(
        manifests, snapshot_id=1, parent_snapshot_id=None, sequence_number=9
    )
    return list(decode_manifest_list(data))
