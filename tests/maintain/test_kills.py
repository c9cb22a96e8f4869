"""A process that dies at any file operation of a procedure leaves the table right, and the next run cleans up what it left."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.scan.manifests import clear_caches
from frazil.storage import local
from tests.builders.frames import frame_of
from tests.maintain.support import LATER, add, age, files_of, named_files, root_of, states, table_in

PROCEDURES: dict[str, dict[str, Any]] = {
    "expire_snapshots": {"older_than": LATER, "max_concurrent_deletes": 1}, "rewrite_manifests": {}, "remove_orphan_files": {"max_concurrent_deletes": 1},
}  # fmt: skip


class Killed(BaseException):
    """The end of a process: what it had not done by then is never done."""


class Life:
    """Counts writes, publications and deletions below `root`; from the k-th on all of them fail."""

    def __init__(self, root: Path, k: int, monkeypatch: pytest.MonkeyPatch):
        self.root, self.k, self.seen = str(root), k, 0
        for module, name in ((local, "_write_new"), (local, "_link"), (os, "unlink")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))

    def counted(self, real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if any(isinstance(a, str) and a.startswith(self.root) for a in arguments):
                self.seen += 1
                if self.seen >= self.k:
                    raise Killed
            return real(*arguments, **more)

        return call


def laid_out(place: Path) -> Any:
    t = table_in(place, "path", properties={"commit.manifest-merge.enabled": "false"})
    for i in range(3):
        add(t, i, i + 10)
    t.delete("id = 11", mode="merge-on-read")
    t.overwrite(frame_of([(5, "a", 1)]), overwrite_filter="id = 0")
    for name in ("data/left.parquet", "metadata/left-m0.avro"):
        (root_of(t) / name).write_text("x")
    age(root_of(t))
    return t


@pytest.mark.parametrize("verb", PROCEDURES)
def test_a_kill_at_any_file_operation_leaves_the_table_right(tmp_path: Path, verb: str) -> None:
    t = laid_out(tmp_path)
    before, location, pristine = states(t), t.location(), tmp_path / "pristine"
    shutil.copytree(root_of(t), pristine)
    k = 0
    while True:
        k += 1
        shutil.rmtree(root_of(t))
        shutil.copytree(pristine, root_of(t))
        clear_caches()
        with pytest.MonkeyPatch.context() as patched:
            life = Life(root_of(t), k, patched)
            with contextlib.suppress(Killed):
                getattr(frazil.load_table(location).maintenance, verb)(**PROCEDURES[verb])
        clear_caches()
        found = frazil.load_table(location)
        kept = states(found)
        assert {i: rows for i, rows in kept.items() if i in before} == {i: before[i] for i in kept if i in before}, k
        assert kept[found.current_snapshot().snapshot_id] == before[t.current_snapshot().snapshot_id] and named_files(found) <= files_of(found), k
        if life.seen < k:
            break
    assert k > 2
    found.maintenance.expire_snapshots(older_than=LATER)
    age(root_of(found))
    found.maintenance.remove_orphan_files()
    assert files_of(found) == named_files(found)
    assert states(found) == {found.current_snapshot().snapshot_id: before[t.current_snapshot().snapshot_id]}


@pytest.mark.parametrize("k", range(1, 12))
def test_the_next_run_cleans_up_after_a_kill(tmp_path: Path, k: int) -> None:
    t = laid_out(tmp_path)
    rows = states(t)[t.current_snapshot().snapshot_id]
    with pytest.MonkeyPatch.context() as patched:
        life = Life(root_of(t), k, patched)
        with pytest.raises(Killed):
            t.maintenance.expire_snapshots(older_than=LATER, max_concurrent_deletes=1)
    assert life.seen >= k
    found = frazil.load_table(t.location())
    found.maintenance.expire_snapshots(older_than=LATER)
    age(root_of(found))
    found.maintenance.remove_orphan_files()
    assert files_of(found) == named_files(found) and list(states(found).values()) == [rows]
