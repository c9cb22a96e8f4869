"""Spark Connect: the client has no JVM to ask, so files are opened, and deletes found, in other
ways than in a classic session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.service]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `connect/job.py` saw."""
    folder = tmp_path_factory.mktemp("connect")
    path = os.pathsep.join([str(ROOT / "tests/builders/preloaded"), str(ROOT / "src"), str(ROOT)])
    env = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": path,
    }
    command = [sys.executable, str(ROOT / "tests/contract/connect/job.py"), str(folder / "lake")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env, cwd=folder)
    line = next((x for x in done.stdout.splitlines() if x.startswith("STEPS ")), None)
    assert line is not None, done.stderr[-3000:]
    return json.loads(line.removeprefix("STEPS "))


def appended() -> dict[int, list[Any]]:
    rows = {
        n * 10 + i: [n * 10 + i, float(i), f"s{i}", f"p{i % 2}"]
        for n in range(3)
        for i in range(10)
    }
    return rows | {n: [n, -0.0, "new", "p0"] for n in range(30, 34)}


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_right_after_every_change(steps: dict[str, Any], version: int) -> None:
    rows = appended()
    expect(steps, f"{version} appended", rows)
    rows = {n: r for n, r in rows.items() if n % 7 != 3}
    expect(steps, f"{version} positions", rows)
    if version == 2:
        rows = {n: r for n, r in rows.items() if r[2] != "s5"}
        expect(steps, "2 keys", rows)
    expect(steps, f"{version} renamed", rows)
    of_spark, of_arrow = steps[f"{version} where"]
    assert of_spark == of_arrow and [len(of_spark), len({r[1] for r in of_spark})] == [len(rows), 7]
    found = [
        [r[1] == 0 for r in rows.values()],
        [r[2] == "s1" for r in rows.values()],
        [n in (13, 14) for n in rows],
        [r[3] == "p1" for r in rows.values()],
    ]
    assert steps[f"{version} filters"] == list(map(sum, found))
    for mode, gone in (("merge-on-read", 8), ("copy-on-write", 9)):
        rows = {n: [n, r[1] + 100, *r[2:]] if n < 5 else r for n, r in rows.items() if n != gone}
        expect(steps, f"{version} {mode}", rows)
    rows = rows | {0: [0, rows[0][1], "zero", "p0"], 100: [100, None, "hundred", "p0"]}
    expect(steps, f"{version} merged", rows)
    assert steps[f"{version} changes"] == [
        ["DELETE", 0, "s0"],
        ["INSERT", 0, "zero"],
        ["INSERT", 100, "hundred"],
    ]


def expect(steps: dict[str, Any], name: str, rows: dict[int, list[Any]]) -> None:
    of_spark, of_arrow = steps[name]
    assert of_spark == of_arrow == json.loads(json.dumps(sorted(rows.values(), key=repr))), name


def test_tables_are_loaded_made_and_appended_to_by_the_words_of_spark(
    steps: dict[str, Any],
) -> None:
    assert steps["load"] == 1
    assert steps["table"] == [[0, "b"], [1, "b"], [2, "b"], [3, "c"], [4, "c"]]


def test_changes_are_checked_in_the_words_of_a_classic_session(steps: dict[str, Any]) -> None:
    refused = steps["refused"]
    assert (
        "ParseError" in refused["alias"]
        and "Column x: Cannot read the filter at position 3" in refused["alias"]
    )
    assert "Column x: aggregate functions are not allowed" in refused["aggregate"]
    assert (
        "the condition of WHEN MATCHED: non-deterministic functions are not allowed"
        in refused["random"]
    )
    assert "MERGE: ON: non-deterministic functions are not allowed" in refused["random on"]
    assert (
        "Cannot find column 'hello'" in refused["unknown"] and "__frazil" not in refused["unknown"]
    )


def test_streams_read_tables_and_go_on_from_their_checkpoints(steps: dict[str, Any]) -> None:
    assert steps["stream format"] == [[0, 1, 2], [0, 1, 2, 3]]
    assert steps["stream method"] == [[1, 2, 3, 4], [1, 2, 3, 4, 5]]
    changed = [0, 1, 1, 2, 3, 4, 5, 6]
    assert steps["stream changes"] == [changed, [*changed, 6]]
    assert (
        "Unsupported" in steps["refused"]["sink"] and "classic session" in steps["refused"]["sink"]
    )
