"""Runs of many streams that die with each stream at a point of its own: in the source, the sink,
partition commit, maintenance and plain folders. Every row is there once, and no file that is read
was lost."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyspark
import pytest

from frazil.spec.properties import TXN_MARK
from frazil.table.catalog import Catalog
from tests.builders.stream_batches import put_batches
from tests.spark.streams.runs import (
    Run,
    batches_known_to_spark,
    killed_at_random,
    last_batch,
    put_kind,
)
from tests.stream.sink.streams import data_files, held, known_files
from tests.stream.sink.test_many_tables import catalog_at
from tests.stream.sink.test_soak import KINDS, Compactor, compacted, rolled_back, tables_of
from tests.stream.sink.test_soak import expected as expected_of_kind

pytestmark = [pytest.mark.spark, pytest.mark.disk]
COLUMNS = "id bigint, p string, v bigint"
BATCHES, AT_RANDOM = 5, 40
PAGED = 12
LIMITED = not pyspark.__version__.startswith("4.1")
Rows = list[list[tuple[Any, ...]]]
FIRST = ("first_told", "first_planned", "first_before", "first_after")
POINTS: dict[str, tuple[str, ...]] = {
    "append": ("before 1", "after 2", "before 3", "after 3"),
    "lookup": ("after 1", "before 2", "after 3", "before 4"),
    "equality-deletes": ("before 2", "after 2", "before 3", "after 4"),
    "cdc": ("after 1", "before 2", "after 2", "before 4"),
    "many": ("after 1", "after 4"),
    "each": ("between 1", "before 2", "after 2", "between 4"),
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
"""Where each stream dies in the first run, the second, and so on. Batches 1 and 4 of `many` have
rows of all its tables.
"""
TABLES = {"many": tables_of("many"), "each": ("db.each", "db.each_too")}
"""Where a stream writes another table than that of its name."""
SHORT = ("lookup", "partitions")
"""Of a run of `make test`."""


def rows_of_batches(batches: int) -> Rows:
    """Make the rows of each batch: two in a partition of its own, and one that each batch writes
    again.
    """
    return [[(n, f"p{n}", n), (1000 + n, f"p{n}", n), (2000, "x", n)] for n in range(batches)]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    ids, ps, vs = zip(*rows, strict=True)
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "p": pa.array(ps), "v": pa.array(vs, pa.int64())}
    )


def put_tables(
    place: Path, streams: tuple[str, ...], rows: Rows, files: int, changes: int = 1
) -> Catalog:
    """Make the files and tables that streams read, and the tables that they write. What is read as
    changes holds rows that were deleted, updated and written again, `changes` times. `files`: so
    many has the table of the initial scan, which is read by two."""
    put_batches(place / "in", *rows)
    catalog = catalog_at(place)
    for namespace in ("source", "db"):
        catalog.create_namespace(namespace)
    for name in streams:
        if name in ("scan", "changes", *FIRST):
            source = catalog.create_table(f"source.{name}", COLUMNS, format_version=3)
            for first in range(0, 4 * changes if name == "changes" else 4, 4):
                for n in range(first // 2, files if name == "scan" else first // 2 + 2):
                    source.append(table_of([(2 * n, "a", n), (2 * n + 1, "a", n)]))
                if name == "changes":
                    source.delete(f"id = {first + 1}", mode="copy-on-write")
                    source.update({"v": "7"}, f"id = {first + 2}", mode="merge-on-read")
                    source.append(table_of([(first + 1, "b", 9)]))
        if name in KINDS:
            put_kind(place, catalog, name, len(rows))
            continue
        for table in () if name == "files" else tables_of_stream(name):
            parts = {"partition_by": ["p"]} if name == "partitions" else {}
            catalog.create_table(
                table, COLUMNS, format_version=3 if name == "upkeep" else 2, **parts
            )
    return catalog


def streams_here(names: Iterable[str]) -> tuple[str, ...]:
    """Leave out streams that read tables on PySpark 4.1, which asks a source for no limits: there
    is no second batch to die in.
    """
    return tuple(name for name in names if LIMITED or name not in ("scan", "changes", *FIRST))


def tables_of_stream(name: str) -> tuple[str, ...]:
    return TABLES.get(name, (f"db.{name}",))


def expected(catalog: Catalog, name: str, batches: Rows) -> list[tuple[Any, ...]]:
    """Return the rows of each table that a stream writes."""
    if name == "upkeep" or name == "bare_upsert":
        return sorted({row[0]: row for rows in batches for row in rows}.values())
    if name in ("scan", "changes", *FIRST):
        rows = held(catalog.load_table(f"source.{name}"))
        # others start at the second snapshot
        return [r for r in rows if name in ("scan", "changes", "first_told") or r[0] >= 2]
    return sorted(row for rows in batches for row in rows)


def killed_at(place: Path, wanted: dict[str, str], streams: tuple[str, ...]) -> None:
    """Run the streams until each has come to its point, and kill the whole run; without points it
    runs to its end.
    """
    with Run(place, wanted, streams) as run:
        run.until(lambda: bool(wanted) and run.reached == wanted.keys())
        found, code = run.reached, run.kill()
    assert found == wanted.keys(), f"not reached: {wanted.keys() - found}; {run.problems}"
    assert code == (-signal.SIGKILL if wanted else 0), run.problems


def committed(catalog: Catalog, name: str) -> Counter[int]:
    """Count the commits of each batch to a table, whoever has made them."""
    numbers = [
        s.summary.get(f"{TXN_MARK.prefix}number") for s in catalog.load_table(name).snapshots()
    ]
    return Counter(int(number) for number in numbers if number is not None)


def check_state_of_death(place: Path, catalog: Catalog, name: str, point: str) -> None:
    """Prove by what is on disk that the stream died where it should."""
    pending = batches_known_to_spark(place, name, "offsets") - batches_known_to_spark(
        place, name, "commits"
    )
    assert len(pending) == (0 if point.startswith("told") else 1), (name, point, pending)
    words = point.split()
    if (
        words[0] in ("before", "after", "committed")
        and words[-1].isdigit()
        and words[1:-1] in ([], ["commit"])
    ):
        counts = {committed(catalog, table)[int(words[-1])] for table in tables_of_stream(name)}
        assert pending == {int(words[-1])} and counts == {words[0] != "before"}, (name, point)
    if words[0] == "between":
        assert [committed(catalog, table)[int(words[-1])] for table in tables_of_stream(name)] == [
            1,
            0,
        ], point
    if point.startswith("planned scan"):
        offset = json.loads(
            (place / "checkpoints" / name / "offsets" / str(*pending)).read_text().splitlines()[-1]
        )
        assert (offset["phase"], offset["file"]) == ("scan", int(words[-1]))
    if name == "partitions":
        table = catalog.load_table("db.partitions")
        announced = [
            (Path(table.location()) / "data" / "p=p0" / "_SUCCESS").exists(),
            "done/p=p0" in table.refs(),
        ]
        assert announced[0] and announced[1] == (point != "policy p0"), point
    if name == "files":
        batches = list((place / "files" / "_frazil" / "batches").glob("*.json"))
        assert bool(batches) == (words[1] in ("rename", "record")) and len(
            list((place / "files").glob("p=*/*.parquet"))
        ) % 2 == (words[1] == "rename"), point
    if point.endswith("replace"):
        table = catalog.load_table("db.upkeep")
        replaced = "replace" in {str(s.operation) for s in table.snapshots()}
        assert replaced or data_files(table) - known_files(table), (
            "the files of the compaction are written"
        )


def check_end(
    place: Path, catalog: Catalog, name: str, rows: Rows, wrote_before_its_end: bool | None
) -> None:
    """Check rows, commits, files and announced partitions. `wrote_before_its_end`: whether a killed
    try has left files that no snapshot knows; None: it is not known."""
    if name == "files":
        found = (
            ds.dataset(place / "files", partitioning="hive", exclude_invalid_files=False)
            .to_table()
            .select(["id", "p", "v"])
        )
        assert sorted(tuple(r.values()) for r in found.to_pylist()) == expected(catalog, name, rows)
        inside = place / "files" / "_frazil"
        assert not list((inside / "batches").glob("*.json")) and not list(
            (inside / "staging").glob("*")
        )
        assert all((folder / "_SUCCESS").exists() for folder in (place / "files").glob("p=*"))
        return
    rows_by_table = expected_of_kind(name, len(rows)) if name in KINDS else {}
    for full_name in tables_of_stream(name):
        table = catalog.load_table(full_name)
        assert held(table) == (
            rows_by_table[full_name] if rows_by_table else expected(catalog, name, rows)
        ), full_name
        assert set(committed(catalog, full_name).values()) == {1}, full_name
        assert known_files(table) <= data_files(table), full_name
        unknown = {f for f in data_files(table) - known_files(table) if not f.endswith("_SUCCESS")}
        assert wrote_before_its_end in (None, bool(unknown)), (full_name, unknown)
    if name == "partitions":
        partitions = {f"p={p}" for batch in rows for _, p, _ in batch}
        done = table.inspect.partition_commits().to_pylist()
        assert {r["partition"] for r in done if r["committed_at"] is not None} == partitions
        assert {f"done/{p}" for p in partitions} <= set(table.refs())
        assert all((Path(table.location()) / "data" / p / "_SUCCESS").exists() for p in partitions)


@pytest.mark.parametrize(
    ("streams", "runs"),
    [
        pytest.param(SHORT, 1, id="one run"),
        pytest.param(tuple(POINTS), 4, id="all points", marks=pytest.mark.soak),
    ],
)
def test_streams_that_die_at_points_of_their_own_end_with_every_row_once(
    streams: tuple[str, ...], runs: int, tmp_path: Path
) -> None:
    streams, rows = streams_here(streams), rows_of_batches(BATCHES)
    catalog = put_tables(tmp_path, streams, rows, PAGED)
    for run in range(runs):
        wanted = {name: POINTS[name][run] for name in streams if len(POINTS[name]) > run}
        killed_at(tmp_path, wanted, streams)
        for name, point in wanted.items():
            check_state_of_death(tmp_path, catalog, name, point)
        if run == 0:
            for name in set(FIRST) & set(streams):
                # a start that moves with the table would pass over rows
                catalog.load_table(f"source.{name}").append(
                    table_of([(8, "late", 8), (9, "late", 9)])
                )
    killed_at(tmp_path, {}, streams)
    for name in streams:
        check_end(
            tmp_path,
            catalog,
            name,
            rows,
            name != "each"
            and any(p.startswith("before") and "mark" not in p for p in POINTS[name][:runs]),
        )


@pytest.mark.soak
def test_streams_that_die_at_random_while_others_compact_and_roll_back_end_with_every_row_once(
    tmp_path: Path,
) -> None:
    """The streams of the sink's own modes die so in test_stream_kills.py, over more batches."""
    rows = rows_of_batches(AT_RANDOM)
    streams = streams_here(name for name in POINTS if name not in (*FIRST, *KINDS, "each"))
    catalog, rollbacks, rewritten = (
        put_tables(tmp_path, streams, rows, 2 * AT_RANDOM, AT_RANDOM // 5),
        Counter[str](),
        Counter[str](),
    )
    read = ["source.changes", "db.scan"] if "scan" in streams else []
    compactor = Compactor(catalog_at(tmp_path), [*read, "db.bare_append", "db.bare_upsert"], rest=1)

    def others(name: str) -> None:
        if name == "scan" and last_batch(tmp_path, name) >= 0:
            # before, the scan would find one file only
            rewritten[name] += compacted(catalog.load_table("source.scan"))
        if name != "files":
            with compactor.pause:
                # a compaction between the two commits would be rolled back as well, or keep the row
                rollbacks[name] += rolled_back(catalog.load_table(f"db.{name}"))

    with compactor:
        died_inside = killed_at_random(tmp_path, streams, 6, others)
    assert all(compactor.done.values()) and (rewritten["scan"] or "scan" not in streams), (
        "others have compacted"
    )
    assert min(died_inside[name] for name in streams) >= 1 and died_inside.total() >= 2 * len(
        streams
    ), "streams died inside of batches"
    assert min(rollbacks[name] for name in streams if name != "files") >= 2
    for name in streams:
        check_end(tmp_path, catalog, name, rows, None)
