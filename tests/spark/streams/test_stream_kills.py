"""Drivers of streams that die on the way: every batch is there once, whatever the way of writing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import frazil
from tests.builders.stream_batches import put_batches
from tests.stream.sink.streams import data_files, held, known_files
from tests.stream.sink.test_many_tables import catalog_at
from tests.stream.sink.test_soak import BATCHES, KINDS, Compactor, batch, expected, last_done, rolled_back, tables_of

pytestmark = [pytest.mark.spark, pytest.mark.disk]
ROOT = Path(__file__).parents[3]
WAYS = ("append", "lookup", "equality-deletes")
ROWS = [[(n, "a", n), (10 + n, "a", n)] for n in range(3)]
TABLES = {name: [name] for name in (*WAYS, "cdc")} | {"each": ["each", "each-too"]}
EXPECTED = {name: sorted(r for rows in ROWS for r in rows) for name in (*WAYS, "each", "each-too")} | {"cdc": sorted(ROWS[-1])}


@pytest.mark.parametrize(
    ("names", "kills", "seen_twice"),
    [
        (WAYS, ("lookup after 1",), [["lookup", 1]]),
        (("cdc", "each"), ("cdc after 1", "each between 1"), [["cdc", 1], ["each", 1]]),
        pytest.param(
            (*WAYS, "cdc", "each"),
            ("append before 1", "lookup after 1", "equality-deletes before 2", "cdc before 1", "cdc after 2", "each before 0", "each after 2"),
            [["lookup", 1], ["cdc", 2], ["each", 2], ["each-too", 2]],
            marks=pytest.mark.soak,
        ),
    ],
    ids=["upsert", "cdc and foreachBatch", "all"],
)
def test_drivers_killed_before_and_after_a_commit_leave_every_row_once(names, kills, seen_twice, tmp_path):
    """Each run goes on with all streams until it is killed in one of them: before a batch's commit, or after it and before Spark's own."""
    where = put_batches(tmp_path / "in", *ROWS)
    child = Path(__file__).parents[1] / "faults" / "stream.py"
    path = os.pathsep.join([str(Path(__file__).parents[2] / "builders" / "preloaded"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    codes, lines, problems = [], [], ""
    for kill in (*kills, "never"):
        command = [sys.executable, str(child), str(tmp_path), where, kill, *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": path})
        codes.append(done.returncode)
        lines += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        problems += done.stderr[-2000:] if done.returncode not in (0, -9) else ""
    assert codes == [*(-9 for _ in kills), 0], problems or "every fault fired"
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path / "wh"))
    for stream in names:
        for name in TABLES[stream]:
            table = catalog.load_table(("db", name))
            assert held(table) == EXPECTED[name] and len(table.snapshots()) == len(ROWS), name
            wrote_before_its_end = stream != "each" and any(kill.startswith(f"{stream} before") for kill in kills)
            assert bool(data_files(table) - known_files(table)) == wrote_before_its_end, "what a killed try wrote is an orphan, nothing else is"
    assert [[name, batch] for name, batch, skipped in lines if skipped] == seen_twice, "those batches alone were there already"


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_lost_or_doubled_while_drivers_die_at_random_and_others_compact_and_roll_back(kind, tmp_path):
    """Batches are done at any time of Spark's: the driver dies while it plans, writes, commits, and writes its own logs."""
    rand, catalog = random.Random(kind), catalog_at(tmp_path)
    put_batches(tmp_path / "in", *([(i, what, v) for what, i, v in batch(kind, n)] for n in range(BATCHES)))
    catalog.create_namespace("db")
    if kind != "many":
        catalog.create_table("db.t", "id bigint, v bigint", format_version=3 if kind == "lookup" else 2)
    child = Path(__file__).parents[1] / "faults" / "random_stream.py"
    path = os.pathsep.join([str(Path(__file__).parents[2] / "builders" / "preloaded"), os.environ.get("PYTHONPATH", ""), str(ROOT)])
    compactor, killed, rollbacks = Compactor(catalog_at(tmp_path), tables_of(kind)), 0, 0
    compactor.start()
    try:
        while last_done(tmp_path) < BATCHES - 1:
            with (tmp_path / "problems").open("w") as problems:
                command = [sys.executable, str(child), str(tmp_path), kind]
                driver = subprocess.Popen(command, stdout=problems, stderr=problems, env=os.environ | {"PYTHONPATH": path})
            wanted, end = last_done(tmp_path) + rand.randint(1, BATCHES // 5), time.monotonic() + 300
            while last_done(tmp_path) < min(wanted, BATCHES - 1) and driver.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(rand.random() * 0.5)
            driver.kill()
            code = driver.wait(60)
            assert code in (0, -signal.SIGKILL) and time.monotonic() < end, (tmp_path / "problems").read_text()[-3000:]
            killed += code == -signal.SIGKILL
            for name in tables_of(kind):
                if catalog.table_exists(name):
                    with compactor.pause:  # a compaction between the two commits would be rolled back as well, or keep the row
                        rolled_back(catalog.load_table(name))
                        rollbacks += 1
    finally:
        compactor.over.set()
        compactor.join(60)
    assert killed >= 4 and rollbacks >= killed and (compactor.done > 0 or kind == "many"), "the faults fired"
    for name, rows in expected(kind).items():
        table = catalog.load_table(name)
        assert held(table) == rows, name
        assert all(Path(f).exists() for f in known_files(table))
