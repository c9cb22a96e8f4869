"""Runs of a driver with many streams (faults/all_streams.py), which are killed at points or at
random.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from frazil.table.catalog import Catalog
from tests.builders.stream_batches import put_batches
from tests.stream.sink.test_soak import batch

ROOT = Path(__file__).parents[3]
FAULTS = ROOT / "tests" / "spark" / "faults"


class Run:
    """A run of streams, each of which waits at its point in `wanted`, or goes to its end. Ends with
    the block.
    """

    def __init__(self, place: Path, wanted: Mapping[str, str], streams: Sequence[str]):
        self.place, self._problems = place, place / "problems"
        (place / "wanted.json").write_text(json.dumps(wanted))
        for marks in ("reached", "ended"):
            (place / marks).mkdir(exist_ok=True)
            for mark in (place / marks).glob("*"):
                mark.unlink()
        path = os.pathsep.join(
            [str(FAULTS / "points"), os.environ.get("PYTHONPATH", ""), str(ROOT)]
        )
        with self._problems.open("w") as problems:
            command = [sys.executable, str(FAULTS / "all_streams.py"), str(place), *streams]
            environment = os.environ | {"PYTHONPATH": path, "FRAZIL_TEST_POINTS": str(place)}
            self.driver = subprocess.Popen(
                command, stdout=problems, stderr=problems, env=environment, start_new_session=True
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def reached(self) -> set[str]:
        """The streams that wait at their points."""
        return {mark.name for mark in (self.place / "reached").glob("*") if mark.suffix != ".new"}

    @property
    def ended(self) -> set[str]:
        """The streams that have come to their end."""
        return {mark.name for mark in (self.place / "ended").glob("*")}

    @property
    def problems(self) -> str:
        text = self._problems.read_text()
        # what Spark says of its own end comes after it
        begin = text.rfind("Traceback (most recent call last)")
        return text[begin:][:6000] if begin >= 0 else text[-6000:]

    def until(self, over: Callable[[], bool], seconds: float = 500) -> bool:
        """Wait until the run or something else is over; False where neither is in time."""
        end = time.monotonic() + seconds
        while self.driver.poll() is None and not over():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def kill(self, driver_alone: bool = False) -> int:
        """Kill the driver, its JVM and all processes of both, unless the run is over; return the
        driver's exit code once none is left. `driver_alone`: the JVM finds out by itself, and
        writes its logs and lets its processes work for some moments more."""
        processes = [] if driver_alone else self._processes()
        for process in (self.driver.pid, *processes) if self.driver.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        code, end = self.driver.wait(60), time.monotonic() + 60
        while self._processes():
            assert time.monotonic() < end, "processes of a killed driver live on"
            time.sleep(0.05)
        return code

    def _processes(self) -> list[int]:
        rows = subprocess.run(
            ["ps", "-eo", "pid=,stat="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        alive = (int(pid) for pid, state in map(str.split, rows) if not state.startswith("Z"))
        return [pid for pid in alive if _session(pid) == self.driver.pid]


def _session(process: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(process)
    return None


def batches_known_to_spark(place: Path, name: str, log: str) -> set[int]:
    return {
        int(f.name) for f in (place / "checkpoints" / name / log).glob("[0-9]*") if f.name.isdigit()
    }


def last_batch(place: Path, name: str, log: str = "commits") -> int:
    return max(batches_known_to_spark(place, name, log), default=-1)


def put_kind(place: Path, catalog: Catalog, kind: str, batches: int) -> None:
    """Make what a stream of a kind reads, and the table that it writes, unless it makes its tables
    itself.
    """
    put_batches(
        place / f"in-{kind}",
        *([(i, what, v) for what, i, v in batch(kind, n)] for n in range(batches)),
    )
    if kind != "many":
        catalog.create_table(
            f"db.{kind}", "id bigint, v bigint", format_version=3 if kind == "lookup" else 2
        )


def killed_at_random(
    place: Path, streams: Sequence[str], every: int, others: Callable[[str], None]
) -> Counter[str]:
    """Run streams in one driver, again and again, until each has come to its end; kill every run at
    a random moment, which finds each of its streams somewhere else. Return how often each stream
    died between Spark's two records of a batch. `every`: on average a run lives for so many batches
    of each. `others`: called with each stream while no driver lives."""
    rand, left, died_inside = random.Random("kills"), list(streams), Counter[str]()
    done = lambda: sum(last_batch(place, name) for name in streams)
    while left:
        wanted = done() + rand.randint(1, 2 * every * len(left))
        with Run(place, {}, rand.sample(left, len(left))) as run:
            in_time = run.until(lambda wanted=wanted: done() >= wanted, 900)
            time.sleep(rand.random())
            code = run.kill(driver_alone=rand.random() < 0.5)
        assert in_time and code in (0, -signal.SIGKILL), run.problems
        for name in left:
            died_inside[name] += last_batch(place, name, "offsets") > last_batch(place, name)
            others(name)
        left = [name for name in left if name not in run.ended]
    with Run(place, {}, streams) as run:
        assert run.driver.wait(500) == 0, run.problems
    return died_inside
