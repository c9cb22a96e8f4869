"""(snapshot, number) names one data file at every planning: whatever is pruned, whatever is wanted,
in whatever process.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import DeleteFiles
from frazil.errors import CorruptData, InvalidInput
from frazil.expr.parse import parse
from frazil.scan.incremental import plan_added
from frazil.scan.listing.numbering import number_files
from frazil.scan.manifests import clear_caches, is_data, manifests_of
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, plan
from frazil.spec.manifest import ManifestFile
from tests.builders.data_files import data_file
from tests.commit.support import append, backend_of, do, make_table


def named(found: Plan) -> dict[int, str]:
    numbers = [t.number for t in found.tasks()]
    assert None not in numbers and len(set(numbers)) == len(numbers)
    return {int(t.number): t.file.file_path for t in found.tasks() if t.number is not None}


def planned(
    table: LoadedTable,
    files: range | None = None,
    where: str | None = None,
    snapshot_id: int | None = None,
    **options: Any,
) -> Plan:
    md = table.metadata
    at = md.current_snapshot() if snapshot_id is None else md.snapshot_by_id(snapshot_id)
    assert at is not None
    files = range(number_files(md, at, table.storage).total) if files is None else files
    return plan(
        md,
        table.storage,
        snapshot=at,
        schema=md.schema(),
        files=files,
        row_filter=parse(where) if where else None,
        options=ScanOptions(**options),
    )


@pytest.fixture
def backend(tmp_path: Path) -> CatalogBackend:
    return backend_of("sqlite", tmp_path)


@pytest.fixture
def table(backend: CatalogBackend) -> LoadedTable:
    """Four commits of several files (ids of file n: 10n to 10n + 9), one of them deleted again,
    manifests merged on the way.
    """
    make_table(backend, properties={"commit.manifest.min-count-to-merge": "3"})
    for start in (0, 5, 10, 15):
        do(backend, append(*range(start, start + 5)))
    return do(backend, DeleteFiles(paths=[data_file(7).file_path])).table


def test_files_are_numbered_from_0_without_gaps(table: LoadedTable) -> None:
    found = named(planned(table))
    assert sorted(found) == list(range(19)) and len(set(found.values())) == 19


def test_numbers_are_those_of_the_file_whatever_is_pruned_and_however_it_is_read(
    table: LoadedTable,
) -> None:
    every = named(planned(table))
    clear_caches()
    assert named(planned(table, workers=1)) == every
    assert named(planned(table, with_stats=True)) == every
    for where in ("id >= 30 and id < 60", "id = 5", "p is null or id > 100", "id < 0"):
        kept = named(planned(table, where=where, workers=4))
        assert kept.items() <= every.items(), where


def test_ranges_of_numbers_are_disjoint_and_make_up_the_whole(table: LoadedTable) -> None:
    every = named(planned(table))
    for step in (1, 2, 3, 7, 19, 50):
        parts = [named(planned(table, range(at, at + step))) for at in range(0, 19, step)]
        assert all(set(p) <= set(range(n * step, n * step + step)) for n, p in enumerate(parts))
        assert {number: path for p in parts for number, path in p.items()} == every
    assert named(planned(table, range(19, 40))) == {} == named(planned(table, range(0)))


def test_only_manifests_whose_files_are_wanted_are_opened(table: LoadedTable) -> None:
    at = table.metadata.current_snapshot()
    assert at is not None
    numbers = number_files(table.metadata, at, table.storage)
    assert len(numbers.manifests) > 1 and sum(numbers.counts) == numbers.total == 19
    for manifest, first in zip(numbers.manifests, numbers.firsts, strict=True):
        assert replace(numbers, files=range(first, first + 1)).wanted() == [manifest]


def test_files_that_a_snapshot_added_have_numbers_of_their_own(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    md = table.metadata
    for snapshot, start in zip(list(md.snapshots)[:4], (0, 5, 10, 15), strict=True):
        found = named(plan_added(md, table.storage, snapshot))
        assert sorted(found) == list(range(5))
        assert {p.rpartition("/")[2] for p in found.values()} == {
            f"f{n:05d}.parquet" for n in range(start, start + 5)
        }
        some = named(
            plan_added(md, table.storage, snapshot, files=range(2, 4), row_filter=parse("id >= 0"))
        )
        assert some == {n: found[n] for n in (2, 3)}
    last = md.current_snapshot()
    assert last is not None and named(plan_added(md, table.storage, last)) == {}


def test_later_commits_change_no_number_of_an_older_snapshot(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    before = named(planned(table))
    head = table.metadata.current_snapshot_id
    do(backend, append(30, 31))
    later = do(backend, append(32)).table
    clear_caches()
    assert named(planned(later, snapshot_id=head)) == before


def test_another_process_gives_the_same_numbers(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    script = """
import json, sys
from frazil.catalog import load_backend
from tests.scan.test_numbering import named, planned
table = load_backend("s", **json.loads(sys.argv[1])).load(("db", "t"))
print(json.dumps([[str(n), p] for n, p in named(planned(table, where="id >= 20", workers=1)).items()]))
"""
    env = os.environ | {"PYTHONHASHSEED": "7"}
    told = subprocess.run(
        [sys.executable, "-c", script, json.dumps(backend.properties)],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert {int(n): p for n, p in json.loads(told.stdout)} == named(
        planned(table, where="id >= 20")
    )


def test_a_task_keeps_its_number_when_it_travels(table: LoadedTable) -> None:
    tasks = list(planned(table).tasks())
    assert (
        [pickle.loads(pickle.dumps(t)).number for t in tasks]
        == [t.number for t in tasks]
        == [t.part(0, 10).number for t in tasks]
    )
    md = table.metadata
    plain = plan(md, table.storage, snapshot=md.current_snapshot(), schema=md.schema())
    assert {t.number for t in plain.tasks()} == {None}, "nobody pays for what was not asked for"


def test_counts_that_an_old_writer_left_out_are_counted(
    table: LoadedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = named(planned(table))
    with_counts = manifests_of

    def without(*arguments: Any, **named: Any) -> tuple[ManifestFile, ...]:
        found = with_counts(*arguments, **named)
        return tuple(
            replace(m, added_files_count=None, existing_files_count=None) if n % 2 else m
            for n, m in enumerate(found)
        )

    for module in ("frazil.scan.listing.numbering", "frazil.scan.plan"):
        monkeypatch.setattr(f"{module}.manifests_of", without)
    at = table.metadata.current_snapshot()
    assert at is not None and any(
        m.added_files_count is None
        for m in without(table.metadata, at, table.storage)
        if is_data(m)
    )
    assert named(planned(table)) == every


def test_counts_that_are_wrong_are_told_and_never_shift_numbers(
    table: LoadedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = manifests_of

    def wrong(*arguments: Any, **named: Any) -> tuple[ManifestFile, ...]:
        first, *rest = right(*arguments, **named)
        return (replace(first, added_files_count=(first.added_files_count or 0) + 1), *rest)

    monkeypatch.setattr("frazil.scan.listing.numbering.manifests_of", wrong)
    with pytest.raises(CorruptData, match="the manifest list says"):
        planned(table, range(100))


@pytest.mark.parametrize("files", [range(-1, 3), range(0, 9, 2)])
def test_a_range_that_is_none_is_refused(table: LoadedTable, files: range) -> None:
    with pytest.raises(InvalidInput, match="range"):
        planned(table, files)
