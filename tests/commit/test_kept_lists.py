"""The manifest list that a commit wrote is in the cache as a reader would find it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.codec.manifest_list import decode_manifest_list
from frazil.scan import manifests

COLUMNS = "id bigint, day date, x double"


def rows(first: int, count: int = 4) -> pa.Table:
    ids = list(range(first, first + count))
    days = pa.array([None if i % 3 == 0 else i for i in ids], pa.int32()).cast(pa.date32())
    return pa.table({"id": ids, "day": days, "x": [float("nan") if i % 5 else 0.5 for i in ids]})


def kept(table: Any) -> Any:
    """What the cache holds for the list of the current snapshot, after it was compared with the
    file."""
    location = table.current_snapshot().manifest_list
    found = manifests.manifest_cache.get(("list", location))
    data = table.io.new_input(location).open().read()
    assert found == decode_manifest_list(data, location)
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitions", [[], ["day"], ["x", "day"]])
def test_what_a_commit_keeps_equals_what_is_in_the_file(
    version: int, partitions: list[str]
) -> None:
    catalog = frazil.load_catalog("kept", type="memory")
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t",
        COLUMNS,
        format_version=version,
        partition_by=partitions,
        properties={
            "commit.manifest.min-count-to-merge": "3",
            "write.delete.mode": "merge-on-read" if version > 1 else "copy-on-write",
        },
    )
    for first in range(0, 20, 4):
        t.append(rows(first))
        assert kept(t)
    t.delete("id in (1, 2, 9)")
    assert {m.content for m in kept(t)} == ({0, 1} if version > 1 and not partitions else {0})
    t.overwrite(rows(40))
    kept(t)
    t.upgrade(3)
    t.append(rows(60))
    assert kept(t) and t.count() == 8


def test_commits_of_one_process_read_no_list_and_keep_one(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = frazil.load_catalog("kept", type="memory")
    catalog.create_namespace("db")
    t = catalog.create_table("db.t", COLUMNS)
    t.append(rows(0))
    read: list[str] = []
    decode = manifests.decode_manifest_list
    monkeypatch.setattr(
        manifests,
        "decode_manifest_list",
        lambda data, file: read.append(file) or decode(data, file),
    )
    for first in (4, 8, 12):
        t.append(rows(first))
    lists = [("list", s.manifest_list) for s in t.metadata.snapshots]
    assert [manifests.manifest_cache.get(key) is not None for key in lists] == [False] * 3 + [True]
    assert not read
    frazil.clear_caches()
    t.append(rows(16))
    assert read == [lists[-1][1]] and t.count() == 20
