"""Cherry-picks and published WAP snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.catalog import CatalogBackend
from frazil.commit.actions import (
    Append,
    DeleteFiles,
    MetadataChange,
    OverwriteFiles,
    ReplacePartitions,
)
from frazil.commit.cherry_pick import CherryPick
from frazil.errors import ValidationException
from frazil.spec import updates as u
from frazil.spec.snapshot import SnapshotRef
from frazil.testing import FlakyBackend
from tests.builders.data_files import data_file
from tests.commit.support import append, backend_of, do, live, make_table, nothing_left_over


@pytest.fixture
def backend(tmp_path: Path) -> CatalogBackend:
    found = backend_of("memory", tmp_path)
    make_table(found, partition_by=["p"], properties={"write.wap.enabled": "true"})
    do(found, append(1, p="a"))
    return found


def staged(backend: CatalogBackend, *files: int, wap_id: str = "w", p: str = "a") -> int:
    snapshot = do(backend, Append([data_file(n, p=p) for n in files], wap_id=wap_id)).snapshot
    assert snapshot is not None
    return snapshot.snapshot_id


def test_a_staged_append_on_the_current_head_is_fast_forwarded(backend: CatalogBackend) -> None:
    picked = staged(backend, 2)
    done = do(backend, CherryPick(picked))
    assert done.table.metadata.current_snapshot_id == picked and live(done.table) == ["1", "2"]
    assert do(backend, append(3, p="a")).snapshot.summary["total-data-files"] == "3"  # type: ignore[union-attr]


def test_a_fast_forward_publishes_no_wap_id_twice(backend: CatalogBackend) -> None:
    do(backend, CherryPick(staged(backend, 2)))
    with pytest.raises(ValidationException, match="wap id that was published already: w"):
        do(backend, CherryPick(staged(backend, 3)))


def test_a_staged_append_is_made_again_on_top_of_what_came_between(backend: CatalogBackend) -> None:
    picked = staged(backend, 2)
    do(backend, append(3, p="b"))
    done = do(backend, CherryPick(picked))
    assert (
        live(done.table) == ["1", "2", "3"]
        and done.snapshot is not None
        and nothing_left_over(done.table)
    )
    assert (
        done.snapshot.summary.items()
        >= {
            "source-snapshot-id": str(picked),
            "published-wap-id": "w",
            "operation": "append",
        }.items()
    )


def test_nothing_is_picked_twice(backend: CatalogBackend) -> None:
    picked, again = staged(backend, 2), staged(backend, 4)
    do(backend, append(3, p="b"))
    done = do(backend, CherryPick(picked))
    with pytest.raises(ValidationException, match="already picked to create ancestor"):
        do(backend, CherryPick(picked))
    with pytest.raises(ValidationException, match="wap id that was published already: w"):
        do(backend, CherryPick(again))
    with pytest.raises(ValidationException, match="already an ancestor"):
        do(backend, CherryPick(done.table.metadata.snapshots[0].snapshot_id))
    with pytest.raises(ValidationException, match="unknown snapshot ID: 5"):
        do(backend, CherryPick(5))


def test_a_pick_that_loses_a_race_checks_again(backend: CatalogBackend) -> None:
    picked = staged(backend, 2)
    other = FlakyBackend(
        backend,
        before_swap=lambda turn: do(backend, append(10 + turn, p="c")) if turn == 1 else None,
    )
    done = do(other, CherryPick(picked))
    assert done.attempts == 2 and live(done.table) == ["1", "11", "2"] and done.snapshot is not None
    assert done.snapshot.snapshot_id != picked and done.snapshot.summary[
        "source-snapshot-id"
    ] == str(picked)


def test_a_dynamic_overwrite_is_picked_when_its_partitions_did_not_change(
    backend: CatalogBackend,
) -> None:
    made = do(backend, ReplacePartitions([data_file(2, p="a")], stage_only=True)).snapshot
    assert made is not None
    do(backend, append(3, p="b"))
    assert live(do(backend, CherryPick(made.snapshot_id)).table) == ["2", "3"]


def test_a_dynamic_overwrite_of_a_changed_partition_is_refused(backend: CatalogBackend) -> None:
    made = do(backend, ReplacePartitions([data_file(2, p="a")], stage_only=True)).snapshot
    assert made is not None
    do(backend, append(3, p="a"))
    with pytest.raises(ValidationException, match="replace partitions with changed partition"):
        do(backend, CherryPick(made.snapshot_id))


def test_other_changes_are_only_fast_forwarded(backend: CatalogBackend) -> None:
    made = do(
        backend,
        OverwriteFiles(removed=[data_file(1, p="a")], added=[data_file(2, p="a")], stage_only=True),
    ).snapshot
    assert made is not None
    do(backend, append(3, p="b"))
    with pytest.raises(ValidationException, match="not append, dynamic overwrite, or fast-forward"):
        do(backend, CherryPick(made.snapshot_id))


def test_a_pick_of_removed_files_is_refused_when_they_are_gone(backend: CatalogBackend) -> None:
    made = do(backend, ReplacePartitions([data_file(2, p="a")], stage_only=True)).snapshot
    assert made is not None
    do(backend, DeleteFiles(paths=[data_file(1).file_path]))
    with pytest.raises(ValidationException, match="Missing required files"):
        do(backend, CherryPick(made.snapshot_id))


def test_a_rollback_moves_main_and_the_next_append_goes_on_from_there(
    backend: CatalogBackend,
) -> None:
    first = do(backend, append(2, p="a")).table.metadata.current_snapshot_id or 0
    do(backend, append(3, p="a"))
    do(backend, MetadataChange(lambda md: [u.SetSnapshotRef("main", SnapshotRef(first))]))
    done = do(backend, append(4, p="a"))
    assert live(done.table) == ["1", "2", "4"] and done.snapshot is not None
    assert done.snapshot.parent_snapshot_id == first and done.snapshot.sequence_number == 4
