"""The golden tables themselves: packed whole, placed soundly, and as their index says."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests import golden as tables
from tests.golden import HERE, PLACES, Golden, index, names, read_metadata
from tests.peers.checks import JavaCheck, PyIcebergCheck
from tests.peers.rowsum import rowsum


def test_every_table_of_the_index_is_in_the_archives() -> None:
    for origin in PLACES:
        with tarfile.open(HERE / f"{origin}.tar.xz") as packed:
            inside = set(packed.getnames())
        for line in (x for x in index() if x["origin"] == origin):
            assert f"warehouse/{line['metadata_file']}" in inside
            assert line["expected"] in inside


def test_the_readme_lists_every_table() -> None:
    text = (HERE / "README.md").read_text()
    assert [n for n in names(deletes=None) if f"- `{n}` v" not in text] == []


@pytest.mark.parametrize("name", names(deletes=None))
def test_the_expected_rows_have_the_expected_checksum(golden: Golden, name: str) -> None:
    e = golden[name].expected
    got = rowsum(golden[name].rows(), e["schema"])
    assert (got["rows"], got["sum"]) == (e["rows"], e["checksum"])


def test_a_changed_warehouse_is_replaced(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tables.PLACES, "flink", tmp_path / "open")
    source = golden["append_v2"].unpacked
    root = tables.place("flink", source)
    hint = root / golden["append_v2"].index["location"] / "metadata" / "version-hint.text"
    hint.write_text("1")
    next((root / "db" / "append_v2" / "data").glob("*.parquet")).unlink()
    assert tables.place("flink", source) == root
    assert hint.read_text() != "1"
    assert len(list((root / "db" / "append_v2" / "data").glob("*.parquet"))) == 16


def test_a_writable_copy_goes_on_in_its_own_directory(
    golden: Golden, writable_copy: object
) -> None:
    location = Path(writable_copy("plain_v2"))  # type: ignore[operator]
    copied = json.loads((location / "metadata" / "v1.metadata.json").read_text())
    assert copied["location"] == str(location)
    assert copied["snapshots"] == read_metadata(golden["plain_v2"].metadata_file)["snapshots"]


@pytest.mark.java
def test_the_judges_tell_sound_tables_from_damaged_ones(
    golden: Golden, writable_copy: object, java_check: JavaCheck, pyiceberg_check: PyIcebergCheck
) -> None:
    sound, damaged = (
        golden["plain_v2"].metadata_file,
        Path(writable_copy("plain_v3")) / "metadata" / "v1.metadata.json",
    )  # type: ignore[operator]
    metadata = json.loads(damaged.read_text())
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] == metadata["current-snapshot-id"]:
            snapshot["summary"]["total-records"] = "51"
    damaged.write_text(json.dumps(metadata))
    for results in (java_check([sound, damaged]), pyiceberg_check([sound, damaged])):
        assert (results[sound]["rows"], results[sound]["problems"]) == (50, [])
        assert any("total-records" in p for p in results[str(damaged)]["problems"])
