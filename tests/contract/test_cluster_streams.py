"""A stream between two tables on a standalone cluster, of which a worker dies, and then the driver:
each row arrives once (`make soak`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from tests.stream.sink.streams import held, known_files

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/services/spark_cluster.sh"
BATCHES = 30
pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.disk, pytest.mark.soak]


def keys_of(batch: int) -> range:
    """Return the keys of a batch: half of them come again in the next one."""
    return range(batch * 10, batch * 10 + 20)


class Driver:
    """Run the stream; `batches` are those that it has told of."""

    def __init__(self, master: str, place: Path, number: int):
        env = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "src"),
        }
        self._out, self._err = place / f"out{number}", place / f"err{number}"
        command = [
            sys.executable,
            str(Path(__file__).with_name("cluster_stream.py")),
            master,
            str(place),
        ]
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=env, cwd=place)

    @property
    def batches(self) -> list[list[object]]:
        return [
            json.loads(line)
            for line in self._out.read_text().splitlines()
            if line.startswith("[") and line.endswith("]")
        ]

    @property
    def problems(self) -> str:
        return self._err.read_text()

    def until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + 240
        while not reached():
            assert time.monotonic() < end and self.process.poll() is None, (
                self.batches,
                self.problems[-3000:],
            )
            time.sleep(0.05)


def test_rows_arrive_once_though_a_worker_and_then_the_driver_die_on_the_way(
    tmp_path: Path,
) -> None:
    catalog = frazil.load_catalog("lake", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    source, target = (
        catalog.create_table(f"db.{name}", "id bigint, v bigint") for name in ("source", "target")
    )
    for n in range(BATCHES):
        source.append(pa.table({"id": list(keys_of(n)), "v": [n] * len(keys_of(n))}))
    cluster, env = tmp_path / "cluster", {**os.environ, "PYTHON": sys.executable}
    run = subprocess.run([SCRIPT, "start", cluster], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    drivers = [Driver(run.stdout.strip(), tmp_path, 0)]
    try:
        drivers[0].until(lambda: len(drivers[0].batches) >= 5)
        group = (cluster / "worker1.pid").read_text().split()[0]
        executors = subprocess.run(
            ["pgrep", "-g", group, "-f", "CoarseGrainedExecutorBackend"],
            capture_output=True,
            text=True,
        ).stdout.split()
        assert executors, "the worker runs a part of the stream"
        # the worker and its executor, as when a machine is gone
        os.killpg(int(group), signal.SIGKILL)
        killed_at = len(drivers[0].batches)
        drivers[0].until(
            lambda: (
                len(drivers[0].batches) >= killed_at + 5 and "Lost executor" in drivers[0].problems
            )
        )
        drivers[0].process.kill()
        assert drivers[0].process.wait(60) == -signal.SIGKILL and len(drivers[0].batches) < BATCHES
        drivers.append(Driver(run.stdout.strip(), tmp_path, 1))
        assert drivers[1].process.wait(300) == 0, drivers[1].problems[-3000:]
    finally:
        for driver in drivers:
            driver.process.kill()
        subprocess.run([SCRIPT, "stop", cluster], check=False, env=env)
    assert held(target) == sorted({key: n for n in range(BATCHES) for key in keys_of(n)}.items())
    # the others compact what look-ups have left
    of_batches = [s for s in target.snapshots() if s.operation != "replace"]
    epochs = [int(str(s.summary["spark.sql.streaming.epochId"])) for s in of_batches]
    assert sorted(epochs) == list(range(BATCHES)), "one snapshot for each batch"
    assert all(Path(f).exists() for f in known_files(target))
