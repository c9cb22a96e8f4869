"""Commits on tables that Java, PyIceberg and Flink wrote: no file or property of theirs is lost,
and totals and row ids are continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from frazil.catalog import LoadedTable
from frazil.catalog.path import LocationBackend
from frazil.commit.actions import Append, DeleteFiles, MetadataChange
from frazil.errors import Unsupported
from frazil.spec import updates as u
from frazil.spec.manifest import DataFile
from frazil.spec.schema import DELETE_FILE_PATH_ID
from tests.commit.support import do, entries
from tests.golden import names


def new_file(table: LoadedTable, n: int) -> DataFile:
    spec = table.metadata.spec()
    return DataFile(
        file_path=f"/new/{n}.parquet",
        file_format="parquet",
        partition=(None,) * len(spec.fields),
        spec_id=spec.spec_id,
        record_count=3,
        file_size_in_bytes=7,
    )


def alive(table: LoadedTable) -> Counter[tuple[object, ...]]:
    keys = (
        "content",
        "file_path",
        "sequence_number",
        "file_sequence_number",
        "content_offset",
        "record_count",
    )
    return Counter(tuple(e[k] for k in keys) for e in entries(table) if e["status"] != 2)


def path_of(entry: dict[str, Any]) -> str | None:
    """The one data file that a position delete file is about, by its bounds."""
    low, high = (
        next((b["value"] for b in entry[n] or () if b["key"] == DELETE_FILE_PATH_ID), None)
        for n in ("lower_bounds", "upper_bounds")
    )
    return low.decode() if low is not None and low == high else None


@pytest.mark.parametrize("name", names(deletes=None))
def test_an_append_to_a_golden_table_keeps_all_that_is_there(
    name: str, writable_copy: Callable[[str], str]
) -> None:
    backend = LocationBackend(writable_copy(name), {})
    base = backend.load(())
    old, summary = (
        alive(base),
        (
            s.summary
            if (s := base.metadata.current_snapshot())
            else {"total-data-files": "0", "total-records": "0"}
        ),
    )
    try:
        done = do(backend, Append([new_file(base, 1)]))
    except Unsupported as e:
        pytest.skip(str(e))
    now = alive(done.table)
    assert sorted(map(str, (now - old).elements())) == [
        str(k) for k in now if "/new/1" in str(k[1])
    ]
    ages = [int(str(k[2])) for k in old if k[0] == 0]
    # only delete files older than all data
    assert all(k[0] != 0 and int(str(k[2])) < min(ages) for k in old - now)
    assert done.snapshot is not None and done.snapshot.sequence_number == (
        base.metadata.last_sequence_number + 1 if base.metadata.format_version > 1 else 0
    )
    if "total-data-files" in summary:
        assert (
            int(done.snapshot.summary["total-data-files"]) == int(summary["total-data-files"]) + 1
        )
    if base.metadata.format_version == 3:
        firsts = [
            (e["first_row_id"], e["record_count"])
            for e in entries(done.table)
            if e["status"] != 2 and e["content"] == 0
        ]
        assert all(
            f is not None and f + n <= (done.table.metadata.next_row_id or 0) for f, n in firsts
        )


@pytest.mark.parametrize(
    "name",
    ["plain_v1", "plain_v2", "plain_v3", "rewritten_manifests", "v1_no_manifest_list", "branch_v2"],
)
def test_several_actions_on_a_golden_table_are_one_version(
    name: str, writable_copy: Callable[[str], str]
) -> None:
    backend = LocationBackend(writable_copy(name), {})
    base = backend.load(())
    first = next(e["file_path"] for e in entries(base) if e["status"] != 2 and e["content"] == 0)
    actions = [
        Append([new_file(base, 1)]),
        MetadataChange(lambda md: [u.SetProperties({"commit.manifest.min-count-to-merge": "2"})]),
        DeleteFiles(paths=[first], must_exist=True),
        Append([new_file(base, 2)]),
    ]
    done = do(backend, *actions)
    md, now = done.table.metadata, {str(k[1]) for k in alive(done.table)}
    assert (
        {"/new/1.parquet", "/new/2.parquet"} <= now
        and first not in now
        and len(md.snapshots) == len(base.metadata.snapshots) + 3
    )
    assert (
        len(md.metadata_log) == len(base.metadata.metadata_log) + 1
        and len(md.snapshot_log) == len(base.metadata.snapshot_log) + 1
    )
    assert {k for k in alive(base) if k[0] == 0 and k[1] != first} <= set(alive(done.table))


def test_a_removal_drops_delete_files_that_are_older_than_all_data(
    writable_copy: Callable[[str], str],
) -> None:
    backend = LocationBackend(writable_copy("compacted_v2"), {})
    base = backend.load(())
    data = {
        e["file_path"]: e["sequence_number"]
        for e in entries(base)
        if e["content"] == 0 and e["status"] != 2
    }
    newest = max(data, key=lambda p: data[p])
    its_own = [
        e
        for e in entries(base)
        if e["content"] == 1
        and e["status"] != 2
        and path_of(e) == newest
        and e["sequence_number"] >= min(data.values())
    ]
    done = do(backend, DeleteFiles(paths=[newest], must_exist=True))
    left = [
        e["sequence_number"] for e in entries(done.table) if e["content"] != 0 and e["status"] != 2
    ]
    assert (
        left
        and min(left) >= min(data.values())
        and done.snapshot is not None
        and int(done.snapshot.summary["removed-delete-files"]) == 8 + len(its_own) == 9
    )
