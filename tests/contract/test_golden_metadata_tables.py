"""Metadata tables of every golden table, with and without deletes, compared with those of Java
Iceberg.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any

import pytest

import frazil
from tests.builders.examples import sampled
from tests.golden import Golden, GoldenTable, names, read_metadata

ALL = names(deletes=None)


def plain(value: Any) -> Any:
    """A cell as the expected JSON writes it."""
    match value:
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {k: plain(v) for k, v in value.items()}
        case list():
            pairs = value and all(isinstance(v, tuple) for v in value)
            return {str(k): plain(v) for k, v in value} if pairs else [plain(v) for v in value]
    return value


def relative(table: GoldenTable, path: str | None) -> str | None:
    return (
        None
        if path is None
        else path.removeprefix("file://").removeprefix("file:").removeprefix(f"{table.root}/")
    )


def rows(table: GoldenTable, name: str) -> list[dict[str, Any]]:
    return plain(getattr(frazil.load_table(table.metadata_file).inspect, name)().to_pylist())


def expected(table: GoldenTable, name: str) -> list[dict[str, Any]]:
    return plain(table.expected[name])


def same(got: Mapping[str, Any], want: Mapping[str, Any], keys: list[str]) -> list[str]:
    """Keys whose values differ; an empty map and none are alike."""
    bare = lambda value: None if value in ({}, []) else value
    return [
        f"{k}: {got.get(k)!r} for {want[k]!r}" for k in keys if bare(got.get(k)) != bare(want[k])
    ]


@pytest.mark.parametrize("name", ALL)
def test_files_are_those_java_lists(golden: Golden, name: str) -> None:
    table = golden[name]
    key = lambda f: (relative(table, f["file_path"]), f.get("content_offset") or 0)
    got = {key(f): f for f in rows(table, "files")}
    want = {key(f): f for f in expected(table, "files")}
    assert got.keys() == want.keys()
    for path, f in want.items():
        mine = {
            **got[path],
            "referenced_data_file": relative(table, got[path]["referenced_data_file"]),
        }
        if "readable_metrics" in f:
            mine["readable_metrics"] = {
                k: v for k, v in mine["readable_metrics"].items() if k in f["readable_metrics"]
            }
        keys = [k for k in f if k not in ("file_path", "sequence_number", "partition")]
        assert same(mine, f, keys) == [], path
        if "partition" in f:
            assert mine["partition"] == f["partition"], path


@pytest.mark.parametrize("name", ALL)
def test_manifests_are_those_java_lists(golden: Golden, name: str) -> None:
    table = golden[name]
    if "manifests" not in table.expected:
        assert isinstance(rows(table, "manifests"), list)
        return
    got = {relative(table, m["path"]): m for m in rows(table, "manifests")}
    want = {m["path"]: m for m in expected(table, "manifests")}
    assert got.keys() == want.keys()
    for path, m in want.items():
        assert same(got[path], m, [k for k in m if k != "path"]) == [], path


@pytest.mark.parametrize("name", ALL)
def test_partitions_are_those_java_lists(golden: Golden, name: str) -> None:
    table = golden[name]
    if "partitions" not in table.expected:
        assert isinstance(rows(table, "partitions"), list)
        return
    order = lambda p: repr((p.get("spec_id"), sorted((p.get("partition") or {}).items(), key=repr)))
    got, want = (
        sorted(rows(table, "partitions"), key=order),
        sorted(expected(table, "partitions"), key=order),
    )
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert same(mine, theirs, list(theirs)) == [], theirs.get("partition")


@pytest.mark.parametrize("name", ALL)
def test_snapshots_refs_and_history_are_the_metadatas(golden: Golden, name: str) -> None:
    table, metadata = golden[name], read_metadata(golden[name].metadata_file)
    got = {s["snapshot_id"]: s for s in rows(table, "snapshots")}
    assert got.keys() == {s["snapshot_id"] for s in table.snapshots()}
    for s in table.snapshots():
        mine = got[s["snapshot_id"]]
        assert (mine["parent_id"], mine["operation"]) == (s["parent_id"], s["operation"])
        assert {k: v for k, v in mine["summary"].items() if k != "operation"} == {
            k: v for k, v in s["summary"].items() if k != "operation"
        }
    refs = {r["name"]: r for r in rows(table, "refs")}
    assert refs.keys() == table.expected["refs"].keys()
    for ref, e in table.expected["refs"].items():
        assert (refs[ref]["type"].lower(), refs[ref]["snapshot_id"]) == (
            e["type"],
            e["snapshot_id"],
        )
        assert refs[ref]["min_snapshots_to_keep"] == e.get("min_snapshots_to_keep")
        assert refs[ref]["max_snapshot_age_in_ms"] == e.get("max_snapshot_age_ms")
        assert refs[ref]["max_reference_age_in_ms"] == e.get("max_ref_age_ms")
    assert [h["snapshot_id"] for h in rows(table, "history")] == [
        e["snapshot-id"] for e in metadata.get("snapshot-log", ())
    ]


@pytest.mark.parametrize("name", ALL)
def test_every_metadata_table_of_every_table_opens(golden: Golden, name: str) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    sizes = {what: getattr(table.inspect, what)().num_rows for what in METADATA_TABLES}
    live = golden[name].expected["counts"]
    assert sizes["data_files"] == live["data_files"]
    assert (
        sizes["delete_files"]
        == live["position_delete_files"] + live["dvs"] + live["equality_delete_files"]
    )
    assert sizes["files"] == sizes["data_files"] + sizes["delete_files"]
    assert sizes["all_files"] == sizes["all_data_files"] + sizes["all_delete_files"]
    assert sizes["entries"] >= sizes["files"]


METADATA_TABLES = """history snapshots metadata_log_entries refs files data_files delete_files all_files all_data_files all_delete_files
entries all_entries manifests all_manifests partitions position_deletes""".split()
SOME = [
    "plain_v1",
    "part_multi",
    "spec_evolution_v2",
    "part_bucket_each",
    "dv_v3",
    "pos_deletes_part",
    "upsert_v2",
    "branches_tags",
]


@pytest.mark.spark
@pytest.mark.parametrize("session", ["prepared", "bare"])
@pytest.mark.parametrize("name", sampled(SOME, 3))
def test_metadata_tables_are_the_same_through_spark(
    spark: Any, plain_spark: Any, golden: Golden, session: str, name: str
) -> None:
    table, reader = (
        golden[name],
        (spark if session == "prepared" else plain_spark).read.format("iceberg"),
    )
    inspect = frazil.load_table(table.metadata_file).inspect
    for what in METADATA_TABLES:
        got = reader.load(f"{table.location}#{what}").toArrow()
        want = getattr(inspect, what)()
        assert got.column_names == want.column_names, what
        assert got.num_rows == want.num_rows, what
        simple = [
            c
            for c in want.column_names
            if c in ("file_path", "path", "snapshot_id", "record_count", "name", "file", "pos")
        ]
        text = lambda t, columns: sorted(map(repr, t.select(columns).to_pylist()))
        assert text(got, simple) == text(want, simple), what
