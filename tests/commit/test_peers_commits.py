"""Tables that our commits made, opened, checked and written on by Java Iceberg, read by PyIceberg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.path import LocationBackend
from frazil.commit.actions import (
    Append,
    DeleteFiles,
    MetadataChange,
    OverwriteFiles,
    ReplacePartitions,
    ReplaceTable,
    RewriteFiles,
)
from frazil.commit.cherry_pick import CherryPick
from frazil.expr.nodes import EqualTo, LessThan, Reference
from frazil.spec import updates as u
from frazil.spec.partitioning import build_spec
from frazil.spec.snapshot import SnapshotRef
from tests.commit.parquet_files import written
from tests.commit.support import SCHEMA, do, live, make_table

pytestmark = pytest.mark.java


def history(place: Path, version: int) -> str:
    """A table with every kind of commit."""
    backend = LocationBackend(str(place / f"all_v{version}"), {})
    at = backend.location
    props = {
        "commit.manifest.min-count-to-merge": "3",
        "write.wap.enabled": "true",
        "write.summary.partition-limit": "10",
    }
    make_table(backend, version, ["p"], props)
    one = [
        written(at, n, range(n * 10, n * 10 + 10), p) for n, p in enumerate(["a", "b", "c", None])
    ]
    do(backend, Append(one[:2]), environment={"engine-name": "frazil"})
    do(backend, Append(one[2:]))
    do(backend, Append([written(at, 10, range(100, 110), "a")]))
    do(backend, Append([written(at, 11, range(110, 120), "a")], branch="dev"))
    do(
        backend,
        MetadataChange(
            lambda md: [u.SetSnapshotRef("v1", SnapshotRef(md.current_snapshot_id or 0, "tag"))]
        ),
    )
    do(backend, DeleteFiles(row_filter=EqualTo(Reference("p"), "b")))
    head = backend.load(()).metadata.current_snapshot_id
    do(
        backend,
        OverwriteFiles(
            added=[written(at, 12, range(20, 29), "c")],
            removed=[one[2]],
            isolation="serializable",
            starting_snapshot_id=head,
        ),
    )
    do(
        backend,
        ReplacePartitions(
            [written(at, 13, range(200, 205), "d"), written(at, 14, range(30, 33), None)]
        ),
    )
    do(
        backend,
        RewriteFiles(
            removed=[one[0], written(at, 10, range(100, 110), "a")],
            added=[written(at, 15, range(20), "a")],
            sequence_number=1 if version > 1 else None,
        ),
    )
    staged = do(backend, Append([written(at, 16, range(300, 303), "e")], wap_id="w")).snapshot
    do(backend, Append([written(at, 17, range(310, 313), "e")]))
    do(backend, CherryPick(staged.snapshot_id if staged else 0))
    do(
        backend,
        Append([written(at, 18, range(400, 403), "x")]),
        DeleteFiles(row_filter=LessThan(Reference("id"), -5)),
        Append([]),
        MetadataChange(lambda md: [u.SetProperties({"k": "v"})]),
    )
    return at


def evolved(place: Path, version: int) -> str:
    """Upgraded, re-partitioned, replaced."""
    backend = LocationBackend(str(place / f"evolved_v{version}"), {})
    at = backend.location
    make_table(backend, 1, ["p"])
    do(backend, Append([written(at, 1, range(10), "a"), written(at, 2, range(10, 20), "b")]))
    if version > 1:
        do(backend, MetadataChange(lambda md: [u.UpgradeFormatVersion(version)]))
    terms = ["p", "bucket(2, id)"] if version == 1 else []
    do(
        backend,
        MetadataChange(
            lambda md: [u.AddPartitionSpec(build_spec(md.schema(), terms)), u.SetDefaultSpec()]
        ),
    )
    if version > 1:
        do(backend, Append([written(at, 3, range(20, 25), "z", spec_id=1, partitioned=False)]))
    do(backend, DeleteFiles(paths=[f"{at}/data/f00001.parquet"]))
    do(backend, ReplaceTable(schema=SCHEMA, properties={"now": "new"}))
    spec = backend.load(()).metadata.spec()
    rows = written(at, 4, range(50, 60), "q", spec_id=spec.spec_id, partitioned=False)
    do(backend, Append([replace(rows, partition=(None,) * len(spec.fields))]))
    return at


def test_java_and_pyiceberg_read_and_java_writes_on_what_we_committed(
    tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    places = [f(tmp_path, v) for v in (1, 2, 3) for f in (history, evolved)]
    rows = dict.fromkeys(places, 0)
    for p in places:
        table = LocationBackend(p, {}).load(())
        summary = table.metadata.current_snapshot().summary  # type: ignore[union-attr]
        assert int(summary["total-data-files"]) == len(live(table))
        rows[p] = int(summary["total-records"])
    for p, found in pyiceberg_check(places).items():
        assert found["ok"], (p, found)
    for p, found in java_check(places, write=True).items():
        assert found["ok"] and not found["problems"], (p, found)
        assert found["rows"] == rows[p], (p, found["rows"], rows[p])
    for p in places:
        after = LocationBackend(p, {}).load(())
        again = do(LocationBackend(p, {}), Append([]), base=after)
        assert again.snapshot is not None
