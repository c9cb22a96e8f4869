"""Clocks that are wrong: what is reachable stays, and files of writers at work are not taken for
old ones.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import StorageError, ValidationException
from frazil.maintain.orphans import remove_orphan_files as orphans
from frazil.maintain.snapshots import expire_snapshots as expiry
from frazil.table import Table
from tests.maintain.support import DAY, add, files_of, named_files, root_of, states, table_in


def clock_off_by(days: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock that the procedures see."""
    for module in (expiry, orphans):
        monkeypatch.setattr(module, "now_millis", lambda: int((time.time() + days * DAY) * 1000))


def with_work_in_progress(place: Path, kind: str) -> Table:
    """A table beside whose files lies one that a writer has just written and not committed yet."""
    t = table_in(place, kind)
    add(t, 1)
    add(t, 2)
    t._loaded.storage.write(f"{t.location()}/data/at-work.parquet", b"work")
    return t


def names_below(t: Table) -> set[str]:
    return {f.location.rpartition("/")[2] for f in t._loaded.storage.list(t.location())}


@pytest.mark.parametrize("kind", ["sql", "path", "memory"])
def test_a_clock_that_is_ahead_of_the_stores_stops_the_removal_of_orphans(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = with_work_in_progress(tmp_path, kind)
    before = names_below(t)
    clock_off_by(5, monkeypatch)
    assert len(t.maintenance.remove_orphan_files(dry_run=True)) == 1
    with pytest.raises(
        ValidationException,
        match=r"the clock of this machine is 7,\d\d\d minutes ahead of that of the store",
    ):
        t.maintenance.remove_orphan_files()
    assert names_below(t) == before
    clock_off_by(0.03, monkeypatch)
    assert len(t.maintenance.remove_orphan_files()) == 0 and names_below(t) == before


def test_a_clock_that_is_behind_removes_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = with_work_in_progress(tmp_path, "sql")
    left = root_of(t) / "data" / "at-work.parquet"
    os.utime(left, (time.time() - 4 * DAY,) * 2)
    clock_off_by(-5, monkeypatch)
    assert len(t.maintenance.remove_orphan_files()) == 0 and left.exists()
    clock_off_by(0, monkeypatch)
    assert len(t.maintenance.remove_orphan_files()) == 1 and files_of(t) == named_files(t)


def test_a_store_that_takes_no_file_is_cleaned_up_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    t = with_work_in_progress(tmp_path, "sql")
    os.utime(root_of(t) / "data" / "at-work.parquet", (time.time() - 4 * DAY,) * 2)
    refused: list[str] = []

    def write(self: Any, location: str, *_: Any, **__: Any) -> None:
        refused.append(location)
        raise StorageError("the quota is used up", file=location)

    monkeypatch.setattr(type(t._loaded.storage), "write", write)
    assert len(t.maintenance.remove_orphan_files()) == 1 and len(refused) == 1
    assert "cannot be compared with ours: the quota is used up" in caplog.text and files_of(
        t
    ) == named_files(t)


@pytest.mark.parametrize("days", [-10, 10])
def test_an_expiry_by_a_wrong_clock_keeps_what_is_reachable(
    tmp_path: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = table_in(tmp_path)
    for n in range(5):
        add(t, n)
    t.overwrite(t.to_arrow())
    with t.manage_snapshots() as ms:
        ms.create_tag(t.snapshots()[1].snapshot_id, "kept")
    before = states(t)
    clock_off_by(days, monkeypatch)
    planned = t.maintenance.expire_snapshots(dry_run=True)
    done = t.maintenance.expire_snapshots(dry_run=False)
    assert len(done.snapshot_ids) == len(planned.snapshot_ids) == (4 if days > 0 else 0)
    after = states(t.refresh())
    assert {s: before[s] for s in after} == after and len(after) == len(before) - len(
        done.snapshot_ids
    )
    assert {r.snapshot_id for r in t.refs().values()} <= set(after) and named_files(t) <= files_of(
        t
    )
