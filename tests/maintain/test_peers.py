"""Tables after the procedures: Java Iceberg and PyIceberg read them, and Java Iceberg commits to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.table import Table
from tests.builders.frames import frame_of
from tests.maintain.support import LATER, add, age, files_of, named_files, root_of, table_in

pytestmark = pytest.mark.java


def kept_up(place: Path, version: int) -> Table:
    """A table on which every procedure on metadata has done something."""
    place.mkdir()
    t = table_in(place, "path", format_version=version, properties={"commit.manifest-merge.enabled": "false"}, partition_by=["p", "bucket(4, id)"])
    made = [add(t, i, i + 10, i + 20, p="abcde"[i % 5]) for i in range(6)]
    if version > 1:
        t.delete("id = 11", mode="merge-on-read")
        t.delete("id = 12", mode="merge-on-read")
    t.append(frame_of([(99, None, 1)]))
    with t.manage_snapshots() as ms:
        ms.create_tag(made[2], "kept").create_branch(made[4], "dev")
    assert t.maintenance.rewrite_manifests().rewritten_manifests_count > 5
    assert t.maintenance.expire_snapshots(older_than=LATER, retain_last=2).deleted_manifest_lists_count > 2
    age(root_of(t))
    t.maintenance.remove_orphan_files()
    assert files_of(t) == named_files(t)
    return t


def test_java_and_pyiceberg_read_what_is_left_and_java_goes_on(tmp_path: Path, java_check: Any, pyiceberg_check: Any) -> None:
    tables = {str(root_of(t)): t for t in (kept_up(tmp_path / f"v{v}", v) for v in (1, 2, 3))}
    for place, found in java_check(list(tables), write=True).items():
        assert found["ok"] and not found["problems"], (place, found)
        assert found["rows"] == tables[place].scan().count()
    for place, found in pyiceberg_check(list(tables)[:2]).items():
        assert found["ok"], (place, found)
