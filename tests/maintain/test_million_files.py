"""Expiry and orphan removal of tables of a million files: memory stays small, and time grows no
faster than the table (`make soak`).

The table's files are entries of manifests, and for the orphan removal empty files on disk. Each
measurement runs in a process of its own; seconds are those of the processor, since others may use
the machine meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.commit.actions import Append
from frazil.spec.manifest import DataFile
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.forked import printed_by

pytestmark = pytest.mark.soak
FEW, MANY = 100_000, 1_000_000
MOST_BYTES = 500 << 20
OF_A_COMMIT = 10_000
LATER = "2099-01-01"
PARTS = ("gone", "kept")


def build(place: str, files: int) -> None:
    """Append `files` entries, half of them in each partition, in commits of ten thousand."""
    t = catalog_of("sql", Path(place)).create_table(
        "db.t", "id bigint, p string", partition_by=["p"]
    )
    for number in range(files // OF_A_COMMIT):
        part = PARTS[number % 2]
        paths = [path_of(t.location(), number, n) for n in range(OF_A_COMMIT)]
        entries = [
            DataFile(
                file_path=f,
                file_format="parquet",
                record_count=9,
                file_size_in_bytes=99,
                partition=(part,),
            )
            for f in paths
        ]
        with t.maintenance._table("in-process").begin(t.refresh()._loaded) as operation:
            operation.stage(Append(tuple(entries)))


def path_of(location: str, commit: int, n: int) -> str:
    return f"{location}/data/p={PARTS[commit % 2]}/{commit:04d}/{commit:05d}-{n:05d}-4f2a1d3c-9f1e-4c57-a1a5-5d0c2ab9d1f7.parquet"


def build_and_delete(place: str, files: int) -> None:
    """Half of the files are removed by a commit, so that only older snapshots reach them."""
    build(place, files)
    opened(place).delete("p = 'gone'")


def build_on_disk(place: str, files: int) -> None:
    """Make half of the files known, and the other half orphans."""
    build(place, files // 2)
    root = opened(place).location().removeprefix("file://")
    for number in range(files // OF_A_COMMIT):
        Path(path_of(root, number, 0)).parent.mkdir(parents=True)
        for n in range(OF_A_COMMIT):
            Path(path_of(root, number, n)).touch()


def opened(place: str) -> Table:
    return frazil.load_catalog(
        "test", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"{place}/wh"
    ).load_table("db.t")


def expire(place: str) -> int:
    return (
        opened(place)
        .maintenance.expire_snapshots(older_than=LATER, retain_last=1)
        .deleted_data_files_count
    )


def remove_orphans(place: str) -> int:
    return len(
        opened(place).maintenance.remove_orphan_files(older_than=LATER, allow_short_interval=True)
    )


def measured(place: str, work: Callable[[str], int]) -> None:
    """Print what the work returns, the processor seconds that it takes, and the most memory that
    its process has held.
    """
    started = time.process_time()
    found = work(place)
    seconds = time.process_time() - started
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(found, seconds, int(status["VmHWM"].split()[0]) << 10)


WORK: dict[str, tuple[Callable[[str, int], None], Callable[[str], int]]] = {
    "expire_snapshots": (build_and_delete, expire), "remove_orphan_files": (build_on_disk, remove_orphans),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WORK))
def test_a_million_files_take_little_memory_and_ten_times_the_time_of_a_tenth(
    name: str, tmp_path: Path, record_property: Any
) -> None:
    made, work = WORK[name]
    seconds: dict[int, float] = {}
    for files in (FEW, MANY):
        place = tmp_path / str(files)
        place.mkdir()
        printed_by(made, str(place), files, place=tmp_path, timeout=3000)
        (line,) = printed_by(measured, str(place), work, place=tmp_path, timeout=3000)
        found, took, peak = line.split()
        seconds[files] = float(took)
        record_property(f"{name} of {files:,} files", f"{float(took):.1f} s, {int(peak) >> 20} MB")
        print(f"{name} of {files:,} files: {float(took):.1f} s, {int(peak) >> 20} MB")
        assert int(found) == files // 2
        assert int(peak) < MOST_BYTES, f"{int(peak) >> 20} MB for {files:,} files"
    assert seconds[MANY] < 15 * seconds[FEW] + 5, (
        f"{seconds[FEW]:.1f} s for {FEW:,} files, {seconds[MANY]:.1f} s for {MANY:,}"
    )
