"""Tables for tests of maintenance procedures, and checks that any table must pass afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.files_on_disk import files_below
from tests.builders.frames import frame_of

LATER = "2099-01-01"
DAY = 86_400


def table_in(place: Path, kind: str = "sql", **more: Any) -> Table:
    """An empty table (id, p, v) partitioned by p."""
    return catalog_of(kind, place).create_table(
        "db.t", "id bigint, p string, v bigint", **{"partition_by": ["p"], **more}
    )


def add(t: Table, *ids: int, p: str = "a", **more: Any) -> int:
    """Append rows, in one commit; returns the id of the snapshot."""
    made = t.append(frame_of([(i, p, 0) for i in ids]), **more).snapshot_id
    assert made is not None
    return made


def states(t: Table) -> dict[int, list[Any]]:
    """The rows of every snapshot that the table keeps."""
    return {s.snapshot_id: rows_at(t, s.snapshot_id) for s in t.snapshots()}


def rows_at(t: Table, snapshot_id: int) -> list[Any]:
    found = t.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted((tuple(row.items()) for row in found), key=repr)


def root_of(t: Table) -> Path:
    return Path(t.location().removeprefix("file://"))


def files_of(t: Table) -> set[str]:
    """The files below the table's location but metadata files and hints, relative to it."""
    root = root_of(t)
    found = (os.path.relpath(f, root) for f in files_below(root))
    return {f for f in found if not f.endswith((".metadata.json", ".text", ".crc"))}


def named_files(t: Table) -> set[str]:
    """The files that some snapshot of the table reaches, relative to its location, but metadata
    files.
    """
    root = str(root_of(t))
    inspect = t.inspect
    paths = set(inspect.all_files()["file_path"].to_pylist()) | set(
        inspect.all_manifests()["path"].to_pylist()
    )
    paths |= {s.manifest_list for s in t.snapshots() if s.manifest_list}
    paths |= {
        str(s["statistics-path"])
        for s in (*t.metadata.statistics, *t.metadata.partition_statistics)
    }
    return {os.path.relpath(p.removeprefix("file://"), root) for p in paths}


def age(place: Path, days: float = 5) -> None:
    """Make all files below a folder older."""
    then = time.time() - days * DAY
    for path in place.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def numbers(result: Any) -> dict[str, Any]:
    """What a dry run and the real run must agree on."""
    found = {
        k: v.to_pylist() if isinstance(v, pa.Array) else v for k, v in result.to_dict().items()
    }
    return {
        k: sorted(v) if isinstance(v, list) else v
        for k, v in found.items()
        if k not in ("seconds", "dry_run")
    }
