"""The snapshots that the range of CHANGES covers, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.spark.catalog.changes import _range
from frazil.spark.host.jvm_relations import AskedChanges


@pytest.mark.parametrize(
    ("bounds", "with_start", "with_end", "count"),
    [
        ((0, 0), True, True, 1),
        ((0, 0), True, False, 0),
        ((1, 1), True, False, 0),
        ((0, 2), True, False, 2),
        ((0, 2), False, True, 2),
    ],
)
def test_bounds(
    tmp_path: Path, bounds: tuple[int, int], with_start: bool, with_end: bool, count: int
) -> None:
    catalog = frazil.load_catalog("lake", type="path", warehouse=str(tmp_path))
    rows = pa.table({"id": [1]})
    t = catalog.create_table("db.t", rows.schema)
    ids = [str(t.append(rows).snapshot_id) for _ in range(3)]
    versions = ids[bounds[0]], ids[bounds[1]]
    asked = AskedChanges(versions, None, with_start, with_end, net=False, updates=False)
    metadata = t.refresh().metadata
    assert len(_range(metadata, asked, None).snapshots(metadata)) == count
