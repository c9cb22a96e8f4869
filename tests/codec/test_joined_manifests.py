"""Manifests that are decoded together hold what each of them does by itself, damaged ones among
them too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.codec import avro_arrow
from frazil.codec import manifest as manifest_codec
from frazil.codec.avro_schema import parse_schema
from frazil.codec.manifest import decode_manifest, decode_manifests
from frazil.errors import CorruptData
from frazil.spec.manifest import ManifestFile
from tests.builders.examples import examples
from tests.codec.made import entry, local, manifest
from tests.codec.test_manifest import comparable, encoded, lists_of
from tests.golden import Golden, names


@pytest.fixture(params=["native", "python"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(
        avro_arrow, "NATIVE_FROM_BYTES", 0 if request.param == "native" else 1 << 60
    )
    return str(request.param)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that were decoded by themselves."""
    seen: list[str] = []

    def decode(data: bytes | None, m: ManifestFile, **more: Any) -> pa.Table:
        seen.append(m.manifest_path)
        return decode_manifest(data, m, **more)

    monkeypatch.setattr(manifest_codec, "decode_manifest", decode)
    return seen


def made(number: int, files: int, **more: Any) -> tuple[bytes, ManifestFile]:
    entries = [
        entry(f"{number}-{n}", status=n % 3, value_counts={1: n}, lower_bounds={2: b"x" * n})
        for n in range(files)
    ]
    facts = {
        "sequence_number": number,
        "added_snapshot_id": 100 + number,
        "first_row_id": 1000 * number,
    }
    return encoded(entries, **more), manifest(manifest_path=f"m{number}.avro", **facts)


@pytest.mark.parametrize("name", names(deletes=None))
def test_golden_manifests_are_the_same_together_and_alone(golden: Golden, name: str) -> None:
    found = [(local(m.manifest_path).read_bytes(), m) for _, m in lists_of(golden, name)]
    for columns in (None, ("file_path", "partition", "sequence_number")):
        together = decode_manifests(found, columns=columns)
        assert len(together) == len(found)
        for table, (data, m) in zip(together, found, strict=True):
            by_itself = decode_manifest(data, m, columns=columns)
            assert table.schema == by_itself.schema and comparable(table) == comparable(by_itself)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["gzip", "uncompressed"])),
        min_size=2,
        max_size=6,
    )
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_manifests_keep_their_entries_and_inherit_from_their_own_list(
    shapes: list[tuple[int, str]],
) -> None:
    found = [made(n, files, codec=codec) for n, (files, codec) in enumerate(shapes)]
    for table, (data, m) in zip(decode_manifests(found), found, strict=True):
        assert comparable(table) == comparable(decode_manifest(data, m))


def test_manifests_of_one_schema_are_decoded_at_once(alone: list[str]) -> None:
    assert [t.num_rows for t in decode_manifests([made(n, n) for n in range(4)])] == [0, 1, 2, 3]
    assert alone == []


def test_a_damaged_manifest_is_named_and_those_beside_it_are_not(alone: list[str]) -> None:
    found = [made(n, 2, codec="uncompressed") for n in range(3)]
    data, m = found[1]
    for broken in (data[:-20], data[: len(data) // 2]):
        with pytest.raises(CorruptData, match=r"m1\.avro"):
            decode_manifests([found[0], (broken, m), found[2]])
    assert set(alone) == {"m0.avro", "m1.avro"}


def test_a_manifest_with_another_number_of_entries_than_its_list_says_is_decoded_by_itself(
    alone: list[str],
) -> None:
    found = [made(n, 2) for n in range(2)]
    counts = {"added_files_count": 1, "existing_files_count": 0, "deleted_files_count": 0}
    data, m = found[1]
    decode_manifests([found[0], (data, replace(m, **counts))])
    assert alone == ["m0.avro", "m1.avro"]


def test_schemas_that_differ_in_the_scale_of_a_decimal_are_two() -> None:
    def schema(scale: int) -> bytes:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}
        return json.dumps(
            {"type": "record", "name": "r", "fields": [{"name": "d", "type": decimal}]}
        ).encode()

    assert parse_schema(schema(2)) != parse_schema(schema(4))
    assert parse_schema(schema(2)) == parse_schema(schema(2) + b" ")
