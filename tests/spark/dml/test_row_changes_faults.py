"""Tasks that fail in the middle of a delete, an update, a merge: tried again, nothing is there
twice, nothing is lost, no file is left.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.one_driver import OneDriver

pytestmark = pytest.mark.spark

HERE = Path(__file__).parents[1]
SOURCE = HERE.parent.parent / "src"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    place = tmp_path_factory.mktemp("faults")
    (place / "marks").mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "SPARK_HOME"} | {
        "FRAZIL_TEST_FAULTS": str(place / "marks"),
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
        "PYTHONPATH": os.pathsep.join([str(HERE / "faults"), str(SOURCE)]),
    }
    with OneDriver(place, environment) as made:
        yield made


def run(driver, tmp_path, tries):
    marks = driver.folder.parent / "marks"
    before = set(marks.iterdir())
    done = driver.run(HERE / "faults" / "changes.py", str(tmp_path / "wh"), str(tries), timeout=900)
    line = next((x for x in done.stdout.splitlines() if x.startswith("FOUND ")), None)
    assert line is not None, done.stderr[-3000:]
    kinds = [m.name.partition("-")[0] for m in set(marks.iterdir()) - before]
    return json.loads(line.removeprefix("FOUND ")), {k: kinds.count(k) for k in set(kinds)}


def expected():
    """Rows after each step, by its name."""
    rows = {i: i for i in range(100) if i % 10 != 3}
    states = {"delete": dict(rows)}
    rows = {i: v + 1 if i % 10 == 4 else v for i, v in rows.items()}
    states["update"] = dict(rows)
    states["merge"] = {**rows, **{i: i * 10 for i in range(90, 110)}}
    return {k: sorted([i, v] for i, v in s.items()) for k, s in states.items()}


def test_attempts_that_fail_after_they_wrote_leave_nothing_twice_nothing_lost_and_no_file(
    driver, tmp_path
):
    found, fired = run(driver, tmp_path, tries=3)
    assert set(fired) == {"write", "take", "stage"} and fired["write"] >= 6 and fired["take"] >= 6
    told = {"delete": [0, 10, 0], "update": [10, 0, 0], "merge": [9, 0, 11]}
    for step, seen in found.items():
        kind = step.partition(" ")[0]
        assert seen["rows"] == expected()[kind], step
        assert seen["told"] == told[kind] and seen["orphans"] == [] and seen["missing"] == [], step
    assert [f["snapshots"] for f in found.values()] == [3, 4, 5] * 2


@pytest.mark.soak
def test_tasks_that_fail_for_good_change_nothing_and_leave_no_file(driver, tmp_path):
    found, fired = run(driver, tmp_path, tries=1)
    assert fired["write"] >= 1
    for step, seen in found.items():
        assert isinstance(seen["told"], str) and seen["told"].endswith("True"), (step, seen["told"])
        assert (
            seen["rows"] == [[i, i] for i in range(100)]
            and seen["orphans"] == []
            and seen["snapshots"] == 2
        ), step
