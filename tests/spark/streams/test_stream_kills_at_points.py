"""Runs of many streams that die with each stream at a point of its own: in the source, the sink, partition commit, maintenance and plain
folders. Every row is there once, and no file that is read was lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from frazil.table.catalog import Catalog
from tests.builders.stream_batches import put_batches
from tests.stream.sink.streams import data_files, held, known_files
from tests.stream.sink.test_many_tables import catalog_at

pytestmark = [pytest.mark.spark, pytest.mark.disk]
ROOT = Path(__file__).parents[3]
FAULTS = ROOT / "tests" / "spark" / "faults"
COLUMNS = "id bigint, p string, v bigint"
BATCHES = 5
PAGED = 12
Rows = list[list[tuple[Any, ...]]]
FIRST = ("first_told", "first_planned", "first_before", "first_after")
POINTS: dict[str, tuple[str, ...]] = {
    "scan": ("planned scan 4", "told scan 6", "before 3", "after 4"),
    "changes": ("before 0", "after 1", "planned after 3", "told after 4"),
    "first_told": ("told first",),
    "first_planned": ("planned first",),
    "first_before": ("before 0",),
    "first_after": ("after 0",),
    "partitions": ("policy p0", "committed 1", "before mark 2", "after mark 2"),
    "files": ("after rename 1", "before list 1", "before record 2", "before clean"),
    "upkeep": ("before replace", "after replace", "before 3", "after 3"),
    "bare_append": ("before commit 0", "after commit 1", "before commit 2", "after commit 3"),
    "bare_upsert": ("after commit 0", "before commit 1", "after commit 2", "before commit 4"),
}
"""Where each stream dies in the first run, the second, and so on."""
SHORT = ("scan", "changes", "partitions", "files", "upkeep", "bare_append", "bare_upsert")


def rows_of_batches(batches: int) -> Rows:
    """Make the rows of each batch: two in a partition of its own, and one that each batch writes again."""
    return [[(n, f"p{n}", n), (1000 + n, f"p{n}", n), (2000, "x", n)] for n in range(batches)]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    ids, ps, vs = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(ps), "v": pa.array(vs, pa.int64())})


def put_tables(place: Path, streams: tuple[str, ...], rows: Rows, files: int) -> Catalog:
    """Make the files and tables that streams read, and the tables that they write. What is read as changes holds rows that were deleted,
    updated and written again. `files`: so many has the table of the initial scan, which is read by two."""
    put_batches(place / "in", *rows)
    (place / "reached").mkdir()
    catalog = catalog_at(place)
    for namespace in ("source", "db"):
        catalog.create_namespace(namespace)
    for name in streams:
        if name in ("scan", "changes", *FIRST):
            source = catalog.create_table(f"source.{name}", COLUMNS, format_version=3)
            for n in range(files if name == "scan" else 2):
                source.append(table_of([(2 * n, "a", n), (2 * n + 1, "a", n)]))
            if name == "changes":
                source.delete("id = 1", mode="copy-on-write")
                source.update({"v": "7"}, "id = 2", mode="merge-on-read")
                source.append(table_of([(1, "b", 9)]))
        if name != "files":
            parts = {"partition_by": ["p"]} if name == "partitions" else {}
            catalog.create_table(f"db.{name}", COLUMNS, format_version=3 if name == "upkeep" else 2, **parts)
    return catalog


def expected(catalog: Catalog, name: str, batches: Rows) -> list[tuple[Any, ...]]:
    if name == "upkeep" or name == "bare_upsert":
        return sorted({row[0]: row for rows in batches for row in rows}.values())
    if name in ("scan", "changes", *FIRST):
        rows = held(catalog.load_table(f"source.{name}"))
        return [r for r in rows if name in ("scan", "changes", "first_told") or r[0] >= 2]  # others start at the second snapshot
    return sorted(row for rows in batches for row in rows)


class Run:
    """A run of the streams, each of which waits where it is wanted to die; without points all run to their end."""

    def __init__(self, place: Path, wanted: dict[str, str], streams: tuple[str, ...]):
        self.place, self.wanted, self.problems = place, wanted, place / "problems"
        (place / "wanted.json").write_text(json.dumps(wanted))
        for mark in [*(place / "reached").glob("*"), *place.glob("jvm")]:
            mark.unlink()
        path = os.pathsep.join([str(FAULTS / "points"), os.environ.get("PYTHONPATH", ""), str(ROOT)])
        with self.problems.open("w") as problems:
            command = [sys.executable, str(FAULTS / "all_streams.py"), str(place), *streams]
            environment = os.environ | {"PYTHONPATH": path, "FRAZIL_TEST_POINTS": str(place)}
            self.driver = subprocess.Popen(command, stdout=problems, stderr=problems, env=environment)

    @property
    def reached(self) -> dict[str, int]:
        """The streams that wait at their points, and the process in which each does."""
        return {mark.name: int(mark.read_text()) for mark in (self.place / "reached").glob("*") if mark.suffix != ".new"}

    def until(self, over: Callable[[], bool]) -> None:
        end = time.monotonic() + 300
        while self.driver.poll() is None and time.monotonic() < end and not over():
            time.sleep(0.02)

    def killed(self) -> int:
        """Kill Spark's JVM, the driver and the processes that wait at a point, if the run is not over; return the driver's exit code."""
        if self.driver.poll() is None:
            processes = [int((self.place / "jvm").read_text()), self.driver.pid, *self.reached.values()]
            for process in dict.fromkeys(processes):
                with contextlib.suppress(ProcessLookupError):  # what waits in a process of Spark's may end with it
                    os.kill(process, signal.SIGKILL)
        return self.driver.wait(60)


def killed_at(place: Path, wanted: dict[str, str], streams: tuple[str, ...]) -> None:
    """Run the streams until each has come to its point, and kill the whole run; without points it runs to its end."""
    run = Run(place, wanted, streams)
    run.until(lambda: bool(wanted) and run.reached.keys() == wanted.keys())
    found = run.reached
    code, text = run.killed(), run.problems.read_text()[-6000:]
    assert found.keys() == wanted.keys(), f"not reached: {wanted.keys() - found.keys()}; {text}"
    assert code == (-signal.SIGKILL if wanted else 0), text


def committed(catalog: Catalog, name: str) -> Counter[int]:
    """Count the commits of each batch, whoever has made them."""
    summaries = [s.summary for s in catalog.load_table(f"db.{name}").snapshots()]
    return Counter(int(s["spark.sql.streaming.epochId"]) for s in summaries if "spark.sql.streaming.epochId" in s)


def batches_known_to_spark(place: Path, name: str, log: str) -> set[int]:
    return {int(f.name) for f in (place / "checkpoints" / name / log).glob("[0-9]*") if f.name.isdigit()}


def check_state_of_death(place: Path, catalog: Catalog, name: str, point: str) -> None:
    """Prove by what is on disk that the stream died where it should."""
    pending = batches_known_to_spark(place, name, "offsets") - batches_known_to_spark(place, name, "commits")
    assert len(pending) == (0 if point.startswith("told") else 1), (name, point, pending)
    words = point.split()
    if words[0] in ("before", "after", "committed") and words[-1].isdigit() and words[1:-1] in ([], ["commit"]):
        assert pending == {int(words[-1])} and committed(catalog, name)[int(words[-1])] == (words[0] != "before"), (name, point)
    if point.startswith("planned scan"):
        offset = json.loads((place / "checkpoints" / name / "offsets" / str(*pending)).read_text().splitlines()[-1])
        assert (offset["phase"], offset["file"]) == ("scan", int(words[-1]))
    if name == "partitions":
        table = catalog.load_table("db.partitions")
        announced = [(Path(table.location()) / "data" / "p=p0" / "_SUCCESS").exists(), "done/p=p0" in table.refs()]
        assert announced[0] and announced[1] == (point != "policy p0"), point
    if name == "files":
        batches = list((place / "files" / "_frazil" / "batches").glob("*.json"))
        assert bool(batches) == (words[1] in ("rename", "record")) and len(list((place / "files").glob("p=*/*.parquet"))) % 2 == (
            words[1] == "rename"
        ), point
    if point.endswith("replace"):
        table = catalog.load_table("db.upkeep")
        replaced = "replace" in {str(s.operation) for s in table.snapshots()}
        assert replaced or data_files(table) - known_files(table), "the files of the compaction are written"


def check_end(place: Path, catalog: Catalog, name: str, rows: Rows, wrote_before_its_end: bool) -> None:
    """Check rows, commits, files and announced partitions. `wrote_before_its_end`: whether a killed try has left files that no snapshot
    knows."""
    if name == "files":
        found = ds.dataset(place / "files", partitioning="hive", exclude_invalid_files=False).to_table().select(["id", "p", "v"])
        assert sorted(tuple(r.values()) for r in found.to_pylist()) == expected(catalog, name, rows)
        inside = place / "files" / "_frazil"
        assert not list((inside / "batches").glob("*.json")) and not list((inside / "staging").glob("*"))
        assert all((folder / "_SUCCESS").exists() for folder in (place / "files").glob("p=*"))
        return
    table = catalog.load_table(f"db.{name}")
    assert held(table) == expected(catalog, name, rows), name
    assert set(committed(catalog, name).values()) == {1}, name
    assert known_files(table) <= data_files(table), name
    unknown = {f for f in data_files(table) - known_files(table) if not f.endswith("_SUCCESS")}
    assert bool(unknown) == wrote_before_its_end, (name, unknown)
    if name == "partitions":
        partitions = {f"p={p}" for batch in rows for _, p, _ in batch}
        done = table.inspect.partition_commits().to_pylist()
        assert {r["partition"] for r in done if r["committed_at"] is not None} == partitions
        assert {f"done/{p}" for p in partitions} <= set(table.refs())
        assert all((Path(table.location()) / "data" / p / "_SUCCESS").exists() for p in partitions)


@pytest.mark.parametrize(
    ("streams", "runs"),
    [pytest.param(SHORT, 1, id="one run"), pytest.param(tuple(POINTS), 4, id="all points", marks=pytest.mark.soak)],
)
def test_streams_that_die_at_points_of_their_own_end_with_every_row_once(streams: tuple[str, ...], runs: int, tmp_path: Path) -> None:
    rows = rows_of_batches(BATCHES)
    catalog = put_tables(tmp_path, streams, rows, PAGED)
    for run in range(runs):
        wanted = {name: POINTS[name][run] for name in streams if len(POINTS[name]) > run}
        killed_at(tmp_path, wanted, streams)
        for name, point in wanted.items():
            check_state_of_death(tmp_path, catalog, name, point)
        if run == 0:
            for name in set(FIRST) & set(streams):  # a start that moves with the table would pass over rows
                catalog.load_table(f"source.{name}").append(table_of([(8, "late", 8), (9, "late", 9)]))
    killed_at(tmp_path, {}, streams)
    for name in streams:
        check_end(tmp_path, catalog, name, rows, any(p.startswith("before") and "mark" not in p for p in POINTS[name][:runs]))
