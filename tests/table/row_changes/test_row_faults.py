"""Deletes, updates and merges that die or fail at any file operation: the table is as before or as
after, and nothing of them is lost.

The short form takes every 13th file operation of some; FRAZIL_SOAK=1 takes all.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.forked import printed_by
from tests.table.row_faults import expected, main

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
STEP = 1 if SOAK else 13
COW, MOR = "copy-on-write", "merge-on-read"
ALL = [
    (k, v, m, n)
    for k, v, m, n in itertools.product(
        ("path", "sqlite"), ("delete", "update", "merge"), (COW, MOR), (2, 3)
    )
]
SHORT = [
    ("path", "delete", MOR, 3),
    ("sqlite", "update", COW, 2),
    ("sqlite", "merge", MOR, 2),
    ("path", "merge", COW, 3),
]
CASES = pytest.mark.parametrize(("kind", "verb", "mode", "version"), ALL if SOAK else SHORT)


def swept(
    kind: str, verb: str, mode: str, version: int, fault: str, place: Path
) -> list[dict[str, Any]]:
    first = 1 if SOAK else 1 + (len(verb) + version + len(fault)) % STEP
    lines = printed_by(
        main,
        kind,
        verb,
        mode,
        version,
        fault,
        first,
        STEP,
        place,
        place=place,
        timeout=3600 if SOAK else 240,
    )
    return [json.loads(line) for line in lines]


@CASES
def test_a_change_killed_at_any_file_operation_leaves_all_or_nothing(
    kind: str, verb: str, mode: str, version: int, tmp_path: Path
) -> None:
    found = swept(kind, verb, mode, version, "kill", tmp_path)
    assert (
        sum(bool(f.get("killed")) for f in found) >= (2 if STEP > 1 else 20)
        and found[-1]["told"] == "committed"
    ), "the fault fired"
    for f in found:
        assert f["rows"] in (expected(None), expected(verb)) and f["missing"] == [] and f["next"], f
    assert (
        any(f["rows"] == expected(None) for f in found)
        and found[-1]["rows"] == expected(verb)
        and found[-1]["orphans"] == []
    )


@CASES
def test_an_error_of_any_file_operation_of_a_change_is_told_and_undone(
    kind: str, verb: str, mode: str, version: int, tmp_path: Path
) -> None:
    for fault in ("ENOSPC", "EIO") if SOAK else ("EIO" if kind == "path" else "ENOSPC",):
        place = tmp_path / fault
        place.mkdir()
        found = swept(kind, verb, mode, version, fault, place)
        assert sum(bool(f["fired"]) for f in found) >= 2 and found[-1]["told"] == "committed", (
            "the fault fired"
        )
        for f in found:
            assert f["missing"] == [] and f["next"], f
            match f["told"]:
                case "failed":
                    assert f["fired"] and f["rows"] == expected(None) and f["orphans"] == [], f
                case "committed":
                    assert f["rows"] == expected(verb) and f["orphans"] == [], f
                case _:
                    assert f["told"] == "unknown" and f["rows"] in (
                        expected(None),
                        expected(verb),
                    ), f
        assert any(f["told"] == "failed" for f in found)
