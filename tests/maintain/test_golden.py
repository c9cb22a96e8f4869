"""Tables that Java, PyIceberg and Flink wrote return their rows after each procedure, and no file
that they need is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frazil
from frazil.errors import FrazilError, Unsupported
from frazil.maintain.snapshots import expire_snapshots as procedure
from tests.builders.examples import sampled
from tests.golden import names
from tests.maintain.support import LATER, numbers


def rows(t: Any) -> list[str]:
    return sorted(map(repr, t.scan().to_arrow().to_pylist()))


def needed(t: Any) -> set[str]:
    """What the snapshots of a table reach, without scheme."""
    found = set(t.inspect.all_files()["file_path"].to_pylist()) | set(
        t.inspect.all_manifests()["path"].to_pylist()
    )
    return {
        p.removeprefix("file://").removeprefix("file:")
        for p in found | {s.manifest_list for s in t.snapshots() if s.manifest_list}
    }


@pytest.mark.parametrize("name", sampled(names(deletes=None), 4))
def test_golden_tables_keep_their_rows(
    name: str, writable_copy: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed: list[str] = []

    def delete(
        storage: Any, paths: Any, *_: Any
    ) -> list[str]:  # the files are shared with other tests
        doomed.extend(str(p).removeprefix("file://").removeprefix("file:") for p in paths)
        return []

    monkeypatch.setattr(procedure, "delete_files", delete)
    t = frazil.load_table(writable_copy(name))
    with t.update_properties() as update:
        update.set("gc.enabled", True)
    before = rows(t)
    for spec_id in t.specs():
        try:
            planned = t.maintenance.rewrite_manifests(spec_id=spec_id, dry_run=True)
            assert numbers(t.maintenance.rewrite_manifests(spec_id=spec_id)) == numbers(planned)
        except Unsupported as e:
            assert "unknown transform" in str(e) or "encrypted" in str(e)
    assert rows(t) == before
    try:
        planned = t.maintenance.expire_snapshots(older_than=LATER, dry_run=True)
    except FrazilError as e:  # some golden tables refer to files that are not there
        assert "no file" in str(e).lower() or "Cannot" in str(e), e
        return
    result = t.maintenance.expire_snapshots(older_than=LATER)
    assert numbers(result) == numbers(planned) and rows(t) == before
    assert not {str(p) for p in doomed} & needed(t)
    assert result.deleted_manifest_lists_count <= len(result.snapshot_ids)
    assert t.maintenance.remove_orphan_files(dry_run=True).dry_run


@pytest.mark.parametrize("name", sampled(names(deletes=None), 12))
def test_golden_tables_keep_their_rows_under_statistics_and_upkeep(
    name: str, writable_copy: Callable[[str], str]
) -> None:
    # gc.enabled is false: files are shared with other tests
    t = frazil.load_table(writable_copy(name))
    before, here = rows(t), needed(t)
    t.maintenance.compute_table_stats(runner="in-process")
    assert rows(t) == before
    if any(spec.fields for spec in t.specs().values()):
        t.maintenance.compute_partition_stats()
    done = t.maintenance.auto()
    assert not done.failed and rows(t.refresh()) == before and here <= needed(t)
