"""Look-ups in a table's metadata: heads of branches and ancestors of snapshots."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import NoSuchSnapshotError


def test_a_branch_that_is_not_there_starts_at_the_head_of_main(tmp_path: Path) -> None:
    table = frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint"
    )
    assert table.metadata.branch_head("main") is None and table.metadata.branch_head("new") is None
    rows = pa.table({"id": [1]})
    first = table.append(rows).snapshot_id
    side = table.append(rows, branch="side").snapshot_id
    main = table.append(rows).snapshot_id
    metadata = table.metadata
    heads = [metadata.branch_head(name) for name in ("main", "side", "new")]
    assert [head.snapshot_id if head else None for head in heads] == [main, side, main]
    assert metadata.is_ancestor(first, metadata.branch_head("main")) and metadata.is_ancestor(
        first, metadata.branch_head("side")
    )
    assert metadata.is_ancestor(main, metadata.branch_head("main")) and not metadata.is_ancestor(
        side, metadata.branch_head("main")
    )
    assert not metadata.is_ancestor(first, None)
    with pytest.raises(NoSuchSnapshotError):
        metadata.snapshot_by_id(1)
