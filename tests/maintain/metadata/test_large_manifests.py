"""Manifests that are read in parts, as those of more than 50,000 entries are: every entry once, and
the same files found.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.commit.actions import Append
from frazil.maintain.orphans.path_keys import PathKeys
from frazil.scan import manifests
from frazil.scan.listing.reachable import FileKind, reachable
from frazil.scan.manifests import manifests_of, read_in_parts, read_manifest
from tests.builders.data_files import data_file
from tests.builders.files_on_disk import leftovers
from tests.maintain.support import LATER, add, age, table_in

MANY = 3_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "ENTRIES", 2)


def test_the_parts_hold_every_entry_once(tmp_path: Path) -> None:
    t = table_in(tmp_path, partition_by=[])
    with t.maintenance._table("in-process").begin(t.refresh()._loaded) as operation:
        operation.stage(Append(tuple(data_file(n) for n in range(MANY))))
    storage = t.refresh()._loaded.storage
    (listed,) = manifests_of(t.metadata, t.current_snapshot(), storage)  # type: ignore[arg-type]
    whole = read_manifest(storage, listed, ("status", "file_path", "sequence_number"), keep=False)
    for workers in (1, 3):
        parts = list(
            read_in_parts(storage, listed, ("status", "file_path", "sequence_number"), workers)
        )
        assert len(parts) > 1 and [r for p in parts for r in p.to_pylist()] == whole.to_pylist()
    found = [
        p
        for b in reachable(t.metadata, storage)
        if b.kind is FileKind.DATA
        for p in b.paths.to_pylist()
    ]
    assert found == whole["file_path"].to_pylist()


def test_expiry_and_orphan_removal_leave_what_is_needed(tmp_path: Path) -> None:
    t = table_in(tmp_path)
    for n in range(6):
        add(t, *range(n * 10, n * 10 + 4), p="ab"[n % 2])
    t.delete("p = 'a'")
    t.maintenance.rewrite_manifests()
    assert t.maintenance.expire_snapshots(older_than=LATER).deleted_data_files_count == 3
    stray = Path(t.location().removeprefix("file://")) / "data" / "stray.parquet"
    stray.touch()
    age(tmp_path)
    assert [
        Path(p).name for p in t.maintenance.remove_orphan_files().orphan_file_location.to_pylist()
    ] == ["stray.parquet"]
    assert t.refresh().to_arrow().num_rows == 12 and leftovers(t) == []


@given(st.lists(st.lists(st.integers(-9, 9), max_size=12), max_size=12))
def test_keys_are_new_once(batches: list[list[int]]) -> None:
    keys, seen = PathKeys(), set[int]()
    for batch in batches:
        new = []
        for key in batch:
            new.append(key not in seen)
            seen.add(key)
        assert keys.add(np.array(batch, np.int64)).tolist() == new
        assert len(keys) == len(seen) and keys.has(np.arange(-9, 10)).tolist() == [
            k in seen for k in range(-9, 10)
        ]
