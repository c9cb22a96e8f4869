"""Commits that die or fail at any file operation: the table is as before or as after, readable, and
the next commit works.

The short form takes every 5th file operation, another first one for each operation; FRAZIL_SOAK=1
takes all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commit.faults import main
from tests.forked import printed_by

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
STEP = 1 if SOAK else 5
BEFORE = (["1", "2"], None)
AFTER: dict[str, tuple[list[str], str | None]] = {
    "append": (["1", "2", "8"], None),
    "delete": (["2"], None),
    "overwrite": (["2", "8"], None),
    "properties": (["1", "2"], "1"),
    "transaction": (["2", "8"], "1"),
}
OPERATIONS = list(AFTER) if SOAK else ["append", "transaction"]


def swept(kind: str, operation: str, fault: str, place: Path) -> list[dict[str, Any]]:
    first = 1 if SOAK else 1 + (list(AFTER).index(operation) + len(fault)) % STEP
    lines = printed_by(
        main, kind, operation, fault, first, STEP, place, place=place, timeout=1800 if SOAK else 120
    )
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["path", "sqlite"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_writer_killed_at_any_file_operation_leaves_all_or_nothing(
    kind: str, operation: str, tmp_path: Path
) -> None:
    found = swept(kind, operation, "kill", tmp_path)
    killed = [f for f in found if f.get("killed")]
    assert len(killed) >= (2 if STEP > 1 else 10) and found[-1]["told"] == "committed", (
        "the fault fired"
    )
    for f in found:
        state = (f["live"], f["new"])
        assert state in (BEFORE, AFTER[operation]) and f["missing"] == [] and f["next"], f
        assert f["snapshots"] == 1 or state == AFTER[operation], f
    assert {tuple(f["live"]) for f in killed} >= {("1", "2")} and (
        found[-1]["live"],
        found[-1]["new"],
    ) == AFTER[operation]


@pytest.mark.parametrize("kind", ["path", "sqlite"])
@pytest.mark.parametrize(
    ("operation", "fault"),
    [(o, f) for o in OPERATIONS for f in ("ENOSPC", "EIO")]
    if SOAK
    else [("append", "ENOSPC"), ("transaction", "EIO")],
)
def test_an_error_of_any_file_operation_is_told_and_undone(
    kind: str, operation: str, fault: str, tmp_path: Path
) -> None:
    found = swept(kind, operation, fault, tmp_path)
    fired = [f for f in found if f["fired"]]
    assert len(fired) >= 2 and found[-1]["told"] == "committed", "the fault fired"
    for f in found:
        state = (f["live"], f["new"])
        assert f["missing"] == [] and f["next"], f
        match f["told"]:
            case "failed":
                assert f["fired"] and state == BEFORE and f["same_files"] and f["orphans"] == [], f
            case "committed":
                assert state == AFTER[operation] and f["orphans"] == [], f
            case _:
                assert f["told"] == "unknown" and state in (BEFORE, AFTER[operation]), f
    assert any(f["told"] == "failed" for f in fired)
