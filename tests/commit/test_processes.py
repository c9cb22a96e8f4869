"""Writers in processes of their own: every acknowledged commit is there, exactly once.
FRAZIL_SOAK=1: 16 processes, 50 commits each.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from frazil.spec.metadata import TableMetadata
from tests.commit.support import backend_of, live, make_table, name_in, needed, nothing_left_over
from tests.commit.writer import main
from tests.forked import started

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
PROCESSES, COMMITS = (16, 50) if SOAK else (4, 10)


def run_writers(kind: str, place: Path) -> list[str]:
    """Start them all, let them go at once; the numbers they were told are committed."""
    running = [
        started(main, kind, place, who, COMMITS, place=place) for who in range(1, PROCESSES + 1)
    ]
    try:
        deadline = time.monotonic() + 120
        while len(list(place.glob("ready-*"))) < PROCESSES:
            assert time.monotonic() < deadline and all(p.wait(0) is None for p in running), (
                "a writer did not start"
            )
            time.sleep(0.02)
        (place / "go").touch()
        codes = [p.wait(1200 if SOAK else 240) for p in running]
        assert codes == [0] * PROCESSES, [p.problems() for p in running]
    finally:
        for p in running:
            p.process.kill()
    return [
        n for who in range(1, PROCESSES + 1) for n in (place / f"ack-{who}").read_text().split()
    ]


def check_line(md: TableMetadata) -> None:
    """One line of snapshots, each on the one before."""
    ancestors = list(md.ancestors(md.current_snapshot()))
    assert len(ancestors) == len(md.snapshots) and ancestors[-1].parent_snapshot_id is None
    assert [s.sequence_number for s in reversed(ancestors)] == list(range(1, len(ancestors) + 1))


@pytest.mark.parametrize("kind", ["path", "sqlite"])
def test_every_acknowledged_commit_of_many_processes_is_there_exactly_once(
    kind: str, tmp_path: Path
) -> None:
    backend = backend_of(kind, tmp_path)
    properties = {
        "commit.retry.num-retries": "1000",
        "commit.retry.min-wait-ms": "10",
        "commit.retry.max-wait-ms": "500",
        "commit.manifest.min-count-to-merge": "7",
    }
    make_table(backend, 3, properties=properties)
    acknowledged = run_writers(kind, tmp_path)
    table = backend.load(name_in(backend))
    assert sorted(acknowledged) == live(table) and len(acknowledged) == PROCESSES * COMMITS
    check_line(table.metadata)
    assert table.metadata.next_row_id is not None and table.metadata.next_row_id >= 10 * len(
        acknowledged
    )
    assert table.metadata.current_snapshot().summary["total-data-files"] == str(len(acknowledged))  # type: ignore[union-attr]
    assert nothing_left_over(table) or SOAK, "retries leave nothing behind"
    assert needed(table.metadata, table) <= {
        f.location for f in table.storage.list(f"{table.metadata.location}/metadata")
    }


@pytest.mark.parametrize("kind", ["sqlite", "path"] if SOAK else ["path"])
def test_with_few_retries_a_commit_is_acknowledged_or_fails_cleanly(
    kind: str, tmp_path: Path
) -> None:
    backend = backend_of(kind, tmp_path)
    make_table(
        backend, properties={"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1"}
    )
    acknowledged = run_writers(kind, tmp_path)
    table = backend.load(name_in(backend))
    assert sorted(acknowledged) == live(table) and acknowledged
    check_line(table.metadata)
    assert nothing_left_over(table)
