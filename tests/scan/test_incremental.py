"""Incremental append scans over the golden history."""

import pyarrow.parquet as pq
import pytest

from frazil.errors import InvalidInput, NoSuchSnapshotError
from frazil.expr.parse import parse
from frazil.scan.incremental import plan_appends, snapshots_between
from tests.builders.golden_metadata import opened


def ids_of(found):
    return sorted(
        i
        for path in found.paths()
        for i in pq.read_table(path.removeprefix("file:"), columns=["id"]).column("id").to_pylist()
    )


def test_only_appended_files_of_the_range_are_planned(golden):
    table, metadata, storage = opened(golden, "incremental")
    assert len(table.expected["incremental_appends"]) > 5
    for wanted in table.expected["incremental_appends"]:
        found = plan_appends(
            metadata,
            storage,
            from_snapshot_id_exclusive=wanted["start_exclusive"],
            to_snapshot_id_inclusive=wanted["end_inclusive"],
        )
        assert ids_of(found) == wanted["ids"]
        assert not found.has_deletes


def test_a_filter_prunes_appended_files_too(golden):
    _table, metadata, storage = opened(golden, "incremental")
    whole = plan_appends(metadata, storage)
    few = plan_appends(metadata, storage, row_filter=parse("id >= 40"))
    assert 0 < len(few) < len(whole) and ids_of(few) == [40, 41, 42]


def test_a_range_that_is_no_history_is_refused(golden):
    _, metadata, _ = opened(golden, "rolled_back")
    ancestors = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot())}
    (aside,) = [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in ancestors][:1]
    with pytest.raises(InvalidInput, match="not a parent ancestor"):
        snapshots_between(metadata, aside, None)
    with pytest.raises(NoSuchSnapshotError):
        snapshots_between(metadata, None, 12345)


def test_the_range_may_begin_at_a_snapshot_that_has_expired(golden):
    _, metadata, _ = opened(golden, "many_snapshots")
    oldest = list(metadata.ancestors(metadata.current_snapshot()))[-1]
    assert (
        oldest.parent_snapshot_id is not None
        and metadata.snapshots.by_id(oldest.parent_snapshot_id) is None
    )
    between = snapshots_between(metadata, oldest.parent_snapshot_id, None)
    assert between[0] == oldest and between[-1] == metadata.current_snapshot()
    assert snapshots_between(metadata, metadata.current_snapshot_id, None) == []


def test_a_table_without_snapshots_has_no_appends(golden):
    _, metadata, storage = opened(golden, "empty_no_snapshot")
    assert len(plan_appends(metadata, storage)) == 0
