"""Procedures begin with the newest state of the table, whatever state the table object that is
asked has loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import ValidationError
from frazil.table import Table
from tests.maintain.compacting import Meanwhile
from tests.maintain.support import LATER, add, states, table_in


@pytest.fixture
def handles(tmp_path: Path) -> tuple[Table, Table]:
    """A table of six small files in one partition, opened twice; the second table object knows only
    the first of them.
    """
    first = table_in(tmp_path, properties={"format-version": "2"})
    add(first, 0)
    second = frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/wh"
    ).load_table("db.t")
    for n in range(1, 6):
        add(first, n)
    return first, second


def ids(t: Table) -> list[int]:
    return sorted(t.refresh().scan().to_arrow()["id"].to_pylist())


def test_a_compaction_takes_the_files_that_others_added(handles: tuple[Table, Table]) -> None:
    first, second = handles
    assert len(second.snapshots()) == 1
    assert second.maintenance.rewrite_data_files(dry_run=True).rewritten_data_files_count == 6
    done = second.maintenance.rewrite_data_files()
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (6, 1)
    assert ids(first) == list(range(6)) and len(second.snapshots()) == 7


def test_an_expiry_takes_the_snapshots_that_others_made(handles: tuple[Table, Table]) -> None:
    first, second = handles
    assert len(second.maintenance.expire_snapshots(older_than=LATER).snapshot_ids) == 5
    assert len(first.refresh().snapshots()) == 1 and ids(first) == list(range(6))


def test_auto_cures_what_others_did(handles: tuple[Table, Table]) -> None:
    first, second = handles
    assert second.maintenance.recommend().kinds == ("small_files",)
    assert [s.outcome for s in second.maintenance.auto().steps] == ["done"]
    assert first.refresh().inspect.files().num_rows == 1 and ids(first) == list(range(6))


def test_statistics_are_those_of_the_newest_snapshot(handles: tuple[Table, Table]) -> None:
    first, second = handles
    newest = first.metadata.current_snapshot_id
    assert (
        stats := second.maintenance.compute_table_stats(columns=["id"])
    ).snapshot_id == newest and stats.ndv == {"id": 6}
    add(first, 6, p="b")
    assert (counts := second.maintenance.compute_partition_stats()).partitions == 2
    assert counts.snapshot_id == first.metadata.current_snapshot_id


def test_a_copy_of_a_table_is_one_of_its_newest_version(handles: tuple[Table, Table]) -> None:
    first, second = handles
    moved = second.maintenance.rewrite_table_path(second.location(), "/elsewhere", dry_run=True)
    assert (
        moved.latest_version == first.metadata_location.rpartition("/")[2]
        and moved.rewritten_manifest_file_paths_count == 6
    )


@pytest.mark.parametrize(
    "by_other",
    [lambda t: t.overwrite(t.to_arrow()), lambda t: t.delete("id < 3", mode="copy-on-write")],
)
def test_after_a_conflict_the_newest_state_is_compacted_without_refresh(
    handles: tuple[Table, Table], by_other: Callable[[Table], Any]
) -> None:
    first, second = handles
    runner = Meanwhile(lambda: by_other(first))
    second.maintenance.rewrite_data_files(options={"rewrite-all": True}, runner=runner)
    before = ids(first)
    assert (
        runner.runs == 2 and ids(first.refresh()) == before and first.inspect.files().num_rows == 1
    )


def test_a_table_opened_from_a_file_is_read_in_that_state_and_not_changed(
    handles: tuple[Table, Table],
) -> None:
    first, _ = handles
    opened = frazil.load_table(first.metadata_location)
    before = states(first)
    assert opened.maintenance.recommend().kinds == ("small_files",)
    assert opened.maintenance.compute_table_stats(dry_run=True).files_read == 6
    with pytest.raises(ValidationError):
        opened.maintenance.rewrite_data_files()
    assert states(first.refresh()) == before


@pytest.mark.parametrize(
    "verb",
    [
        "rewrite_data_files",
        "rewrite_position_delete_files",
        "convert_equality_deletes",
        "rewrite_manifests",
        "remove_orphan_files",
        "compute_table_stats",
        "compute_partition_stats",
        "recommend",
    ],
)
def test_a_table_of_the_same_name_that_was_created_since_is_left_alone(
    tmp_path: Path, verb: str
) -> None:
    t = table_in(tmp_path)
    add(t, 1)
    catalog = frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/wh"
    )
    catalog.drop_table("db.t")
    other = catalog.create_table(
        "db.t",
        "id bigint, p string, v bigint",
        partition_by=["p"],
        location=str(tmp_path / "other"),
    )
    add(other, 2)
    with pytest.raises(ValidationError, match="was dropped and created again"):
        getattr(t.maintenance, verb)()
    assert other.metadata_location == other.refresh().metadata_location
