"""Drivers of streams that are killed (tests/spark/faults/stream.py), and what must hold afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import frazil
from tests.stream.sink.streams import held, known_files

TESTS = Path(__file__).resolve().parents[1]
NAMES = ("append", "lookup", "equality-deletes", "cdc", "foreach")


def drivers_killed(place: Path, kills: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run streams in drivers of their own, each of which goes on with all of them until it is killed at one point; the last one ends.

    Every row is in every table once then, each batch is one snapshot, and a batch that was committed before its driver died is skipped.
    """
    files = [[(n, "a", n), (10 + n, "a", n)] for n in range(3)]
    source = place / "in"
    source.mkdir()
    for number, rows in enumerate(files):
        columns = zip(*rows, strict=True)
        file = source / f"{number}.parquet"
        pq.write_table(pa.table(dict(zip(("id", "p", "v"), map(list, columns), strict=True))), file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    preloaded = str(TESTS / "builders" / "preloaded")
    path = os.pathsep.join([preloaded, str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    codes, lines = [], []
    for kill in (*kills, "never"):
        command = [sys.executable, str(TESTS / "spark" / "faults" / "stream.py"), str(place), str(source), kill]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, env={**os.environ, "PYTHONPATH": path, **environment})
        codes.append(done.returncode)
        lines += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert codes == [*(-9 for _ in kills), 0], ("every fault fired", done.stderr[-2000:])
    catalog = frazil.load_catalog("c", type="path", warehouse=str(place / "wh"))
    for name in NAMES:
        table = catalog.load_table(("db", name))
        assert held(table) == sorted(r for f in files for r in f) and len(table.snapshots()) == 3, name
        # What a killed try wrote is an orphan, and nothing else is. A foreachBatch that dies before its append has written nothing.
        killed_before = any(kill.startswith(f"{name} before") for kill in kills) and name != "foreach"
        unknown = {str(f) for f in Path(table.location(), "data").rglob("*") if f.is_file() and not f.name.startswith(".")} - known_files(table)
        assert bool(unknown) == killed_before, name
    after = sorted((k.split()[0], int(k.split()[2])) for k in kills if " after " in k)
    assert sorted((name, batch) for name, batch, skipped in lines if skipped) == after, "those batches alone were there already"
