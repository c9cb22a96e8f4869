"""Delete files and vectors that we wrote: read and written on by Java Iceberg, read by PyIceberg
where it can.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.write.write_rows import write
from frazil.catalog.path import LocationBackend
from frazil.commit.actions import Append, MetadataChange, OverwriteFiles, RowDelta
from frazil.spec import updates as u
from tests.commit.row_changes import (
    context_of,
    data_files,
    deletes_of,
    frame,
    key_deletes,
    rows_by_file,
    visible,
)
from tests.commit.support import do, make_table

pytestmark = pytest.mark.java
ROWS = [(i, "ab"[i % 2]) for i in range(40)]


def begun(
    place: Path, name: str, version: int, partition_by: tuple[str, ...] = (), **properties: str
) -> LocationBackend:
    backend = LocationBackend(str(place / "db" / name), {})
    base = make_table(backend, version, partition_by, properties)
    for part in (ROWS[:20], ROWS[20:]):
        do(backend, Append(data_files(base, part)))
    return backend


def delete(
    backend: LocationBackend,
    ids: Any,
    granularity: str = "file",
    insert: list[tuple[int, str]] | None = None,
) -> None:
    base = backend.load(())
    made, replaced, referenced = deletes_of(base, ids, granularity)
    added = data_files(base, insert) if insert else []
    do(
        backend,
        RowDelta(
            added=added,
            added_deletes=made,
            removed_deletes=replaced,
            referenced=referenced,
            isolation="serializable",
            starting_snapshot_id=base.metadata.current_snapshot_id,
        ),
    )


def positions(place: Path, format_: str, granularity: str) -> tuple[str, set[int]]:
    backend = begun(
        place, f"pos_{format_}_{granularity}", 2, ("p",), **{"write.delete.format.default": format_}
    )
    delete(backend, [1, 2, 21, 39], granularity)
    delete(backend, [3, 38], granularity, insert=[(100, "a")])
    return backend.location, {*range(40), 100} - {1, 2, 21, 39, 3, 38}


def vectors(place: Path) -> tuple[str, set[int]]:
    backend = begun(place, "vectors", 3, ("p",))
    delete(backend, [1, 2, 21, 39])
    delete(backend, [3, 38], insert=[(100, "a")])
    return backend.location, {*range(40), 100} - {1, 2, 21, 39, 3, 38}


def equality(place: Path, version: int) -> tuple[str, set[int]]:
    backend = begun(place, f"equality_v{version}", version, ("p",))
    base = backend.load(())
    do(backend, RowDelta(added_deletes=key_deletes(base, [(4, "a"), (5, "b"), (30, "a")])))
    delete(backend, [6, 7])
    base = backend.load(())
    do(
        backend,
        RowDelta(
            added=data_files(base, [(8, "a")]),
            added_deletes=key_deletes(base, [(8, "a"), (31, "b")], (1, 2)),
        ),
    )
    return backend.location, set(range(40)) - {4, 5, 30, 6, 7, 31}


def upgraded(place: Path) -> tuple[str, set[int]]:
    """Position deletes of v2, the table upgraded, then vectors that take them over."""
    backend = begun(place, "upgraded", 2)
    delete(backend, [1, 2], "partition")
    delete(backend, [22, 23], "file")
    do(backend, MetadataChange(lambda md: [u.UpgradeFormatVersion(3)]))
    delete(backend, [3, 4])
    do(backend, Append(data_files(backend.load(()), [(100, "a")])))
    return backend.location, {*range(40), 100} - {1, 2, 22, 23, 3, 4}


def rewritten(place: Path) -> tuple[str, set[int]]:
    """Copy-on-write in v3 with row ids kept, beside a vector that goes with its file."""
    backend = begun(place, "rewritten", 3)
    delete(backend, [1])
    base = backend.load(())
    file, ids, _ = rows_by_file(base)[0]
    kept = [n for n, i in enumerate(ids) if i not in (1, 5)]
    rows = frame([(ids[n] + (1000 if ids[n] == 7 else 0), "ab"[ids[n] % 2]) for n in kept])
    rows = rows.append_column(
        "_row_id", pa.array([n + (file.first_row_id or 0) for n in kept], pa.int64())
    )
    rows = rows.append_column(
        "_last_updated_sequence_number",
        pa.array([None if ids[n] == 7 else 1 for n in kept], pa.int64()),
    )
    made = write(rows.to_batches(), context_of(base).keeping_lineage())
    do(
        backend,
        OverwriteFiles(
            added=made,
            removed=[file],
            isolation="serializable",
            starting_snapshot_id=base.metadata.current_snapshot_id,
        ),
    )
    return backend.location, {*range(40), 1007} - {1, 5, 7}


CASES: dict[str, Callable[[Path], tuple[str, set[int]]]] = {
    **{f"pos_{f}_{g}": (lambda place, f=f, g=g: positions(place, f, g)) for f, g in (("parquet", "file"), ("parquet", "partition"), ("orc", "file"), ("avro", "partition"))},
    "vectors": vectors, "equality_v2": lambda place: equality(place, 2), "equality_v3": lambda place: equality(place, 3), "upgraded": upgraded,
    "rewritten": rewritten,
}  # fmt: skip


def test_java_reads_and_goes_on_and_pyiceberg_reads_what_we_deleted(
    tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    expected: dict[str, set[int]] = {}
    for make in CASES.values():
        place, ids = make(tmp_path)
        expected[place] = ids
        assert {i for i, _ in visible(LocationBackend(place, {}), place)} == ids, place
    for place, found in pyiceberg_check(list(expected)).items():
        assert found.get("cannot") or found["ok"], (place, found)
        assert found.get("cannot") or found["rows"] == len(expected[place]), (place, found)
    for place, found in java_check(list(expected), write=True).items():
        assert found["ok"] and not found["problems"], (place, found)
        assert found["rows"] == len(expected[place]), (place, found["rows"])


READ = """
import json, sys
for name in sys.argv[3:]:
    rows = spark.sql(f"SELECT id, _row_id, _last_updated_sequence_number AS n FROM j.db.{name} ORDER BY id").collect()
    print(json.dumps([name, [[r.id, r._row_id, r.n] for r in rows]]))
"""


def test_java_sees_the_row_ids_that_we_kept(tmp_path: Path, java_check: Any) -> None:
    import json

    for make in (vectors, upgraded, rewritten):
        make(tmp_path)
    said = dict(
        json.loads(line)
        for line in java_check.run(READ, tmp_path, "vectors", "upgraded", "rewritten").splitlines()
        if line.startswith("[")
    )
    for name, theirs in said.items():
        scan = frazil.load_table(str(tmp_path / "db" / name)).scan(
            selected_fields=("id", "_row_id", "_last_updated_sequence_number")
        )
        ours = sorted(
            map(list, zip(*(c.to_pylist() for c in scan.to_arrow().columns), strict=True))
        )
        assert ours == theirs, name
    by_id = {row[0]: row[1:] for row in said["rewritten"]}
    assert by_id[0] == [0, 1] and by_id[1007] == [7, 4] and by_id[20] == [20, 2]
