"""Results as Arrow have the same types whether a value is there or not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from frazil.maintain.compact.procedure import RewriteDataFilesResult
from frazil.maintain.migration.register import RegisterTableResult
from frazil.maintain.rewrite_table_path.table_path import RewriteTablePathResult
from frazil.maintain.snapshots.move_snapshots import (
    FastForwardResult,
    MovedSnapshotResult,
    PickedSnapshotResult,
)
from tests.maintain.support import add, table_in

KINDS = (
    RewriteDataFilesResult,
    RegisterTableResult,
    FastForwardResult,
    MovedSnapshotResult,
    PickedSnapshotResult,
    RewriteTablePathResult,
)


def test_no_column_is_of_type_null() -> None:
    for kind in KINDS:
        table = kind().to_arrow()
        assert table.num_rows == 1 and not any(pa.types.is_null(f.type) for f in table.schema), kind


def test_a_branch_that_is_created_has_a_null_of_the_type_of_snapshot_ids(tmp_path: Path) -> None:
    t = table_in(tmp_path)
    add(t, 1)
    created, moved = (t.maintenance.fast_forward("b", "main").to_arrow() for _ in range(2))
    assert created["previous_ref"].to_pylist() == [None] and created.schema == moved.schema
    assert (
        created.schema.field("previous_ref").type == pa.int64()
        and created.schema.field("branch_updated").type == pa.string()
    )


def test_ids_of_snapshots_are_shown_as_they_are_typed(tmp_path: Path) -> None:
    t = table_in(tmp_path)
    first, last = add(t, 1), add(t, 2)
    shown = repr(t.maintenance.rollback_to_snapshot(first))
    assert f"previous_snapshot_id={last}" in shown and f"current_snapshot_id={first}" in shown
    assert f"snapshot_id={first}," in repr(t.maintenance.compute_partition_stats())
    assert "bytes_rewritten=1,234" in repr(RewriteDataFilesResult(bytes_rewritten=1234))
