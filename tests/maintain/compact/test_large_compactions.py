"""A compaction of many files plans in seconds and in little memory, and joins the pieces of its
groups in one pass.

The files are entries of manifests only. Each measurement runs in a process of its own.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.commit.actions import Append
from frazil.maintain.compact.procedure import _joined
from frazil.maintain.compact.rewrite import RewritePiece, Rewritten
from frazil.spec.manifest import DataFile
from tests.builders.catalogs import catalog_of
from tests.forked import printed_by

OF_A_COMMIT = 10_000
MOST_BYTES = 600 << 20


def build(place: str, files: int, partitions: int) -> None:
    """Append small files, in commits of ten thousand; neighbours are in different partitions."""
    t = catalog_of("sql", Path(place)).create_table("db.t", "id bigint, p int", partition_by=["p"])
    for begin in range(0, files, OF_A_COMMIT):
        entries = [
            entry(t.location(), n, n % partitions)
            for n in range(begin, min(files, begin + OF_A_COMMIT))
        ]
        with t.maintenance._table("in-process").begin(t.refresh()._loaded) as operation:
            operation.stage(Append(tuple(entries)))


def entry(location: str, n: int, part: int) -> DataFile:
    path = f"{location}/data/p={part}/{n:05d}-4f2a1d3c-9f1e-4c57-a1a5-5d0c2ab9d1f7.parquet"
    return DataFile(
        file_path=path,
        file_format="parquet",
        record_count=9,
        file_size_in_bytes=99,
        partition=(part,),
    )


def plan(place: str) -> None:
    """Print the groups and files of a plan, the seconds that it takes, and the most memory that its
    process has held.
    """
    t = frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"{place}/wh"
    ).load_table("db.t")
    started = time.monotonic()
    planned = t.maintenance.rewrite_data_files(
        options={"partial-progress.enabled": "true"}, dry_run=True
    )
    seconds = time.monotonic() - started
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(
        planned.groups,
        planned.rewritten_data_files_count,
        seconds,
        int(status["VmHWM"].split()[0]) << 10,
    )


@pytest.mark.soak
@pytest.mark.parametrize("partitions", [1, 10_000])
def test_a_compaction_of_a_hundred_thousand_files_plans_in_seconds(
    tmp_path: Path, partitions: int, record_property: Any
) -> None:
    printed_by(build, str(tmp_path), 100_000, partitions, place=tmp_path, timeout=900)
    (line,) = printed_by(plan, str(tmp_path), place=tmp_path, timeout=900)
    groups, files, seconds, peak = line.split()
    record_property(
        f"plan of 100,000 files in {partitions:,} partitions",
        f"{float(seconds):.1f} s, {int(peak) >> 20} MB",
    )
    print(
        f"plan of 100,000 files in {partitions:,} partitions: {float(seconds):.1f} s, {int(peak) >> 20} MB"
    )
    assert (int(groups), int(files)) == (partitions, 100_000)
    assert float(seconds) < 15 and int(peak) < MOST_BYTES


@pytest.mark.parametrize("partitions", [1, 200])
def test_a_compaction_of_many_files_plans_at_once(tmp_path: Path, partitions: int) -> None:
    build(str(tmp_path), 2000, partitions)
    t = frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/wh"
    ).load_table("db.t")
    started = time.process_time()
    planned = t.maintenance.rewrite_data_files(dry_run=True)
    assert time.process_time() - started < 5
    assert (planned.groups, planned.rewritten_data_files_count, planned.added_data_files_count) == (
        partitions,
        2000,
        partitions,
    )


def test_pieces_are_joined_to_their_groups_in_one_pass() -> None:
    """Ten thousand groups of two pieces; looking through all pieces for each group would take ten
    seconds of the processor.
    """
    task: Any = object()
    pieces = [RewritePiece(n // 2, (task,), False) for n in range(20_000)]
    done = [Rewritten(n // 2, (entry("/t", n, 0),), (n,)) for n in range(20_000)]
    started = time.process_time()
    found = list(_joined(pieces, done).values())
    assert time.process_time() - started < 2
    assert [g.counts for g in found] == [(2 * n, 2 * n + 1) for n in range(10_000)]
    assert all(len(g.tasks) == 2 and len(g.added) == 2 for g in found)
