"""Races between processes, and writers that are killed: every acknowledged commit is in the table's
history exactly once.

Short form 4 processes x 10 commits; FRAZIL_SOAK=1 runs 16 x 50.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import Committed, Conflict, load_backend
from frazil.catalog.backend import CatalogBackend
from tests.catalog.conftest import HIVE, KINDS, REMOTE, SERVED, TABLE, changed, made, new_metadata
from tests.catalog.racer import main, opens
from tests.forked import Child, started
from tests.storage.conftest import azurite_place, gcs_place, hdfs_place, s3_place

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
PROCESSES, ROUNDS = (16, 50) if SOAK else (4, 10)
pytestmark = [pytest.mark.disk, *([pytest.mark.soak] if SOAK else [])]
# rest: tests/catalog/rest/test_server.py
SHARED = [k for k in KINDS if k not in ("memory", "items", "server", *SERVED)]


def settings_for(kind: str, folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    match kind:
        case "path":
            return {"type": "path", "warehouse": f"{folder}/w"}
        case "sqlite":
            return {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{folder}/w"}
        case "s3":
            place, properties = s3_place()
            return {"type": "path", "warehouse": place, **properties}
        case "gcs" | "azurite":
            place, properties = gcs_place() if kind == "gcs" else azurite_place()
            return {"type": "path", "warehouse": place, **properties}
        case "hdfs":
            return {"type": "path", "warehouse": hdfs_place()}
        case "hive2" | "hive3" | "hive4":
            return {"type": "hive", "uri": os.environ[HIVE[kind]], "warehouse": f"{folder}/w"}
        case _:
            return {"type": "sql", "uri": os.environ[REMOTE[kind]], "warehouse": f"{folder}/w"}


def race(
    folder: Path, settings: dict[str, str], processes: int, rounds: int, kill: int = 0
) -> list[Child]:
    running = [
        started(main, folder, i, rounds, settings, kill, place=folder) for i in range(processes)
    ]
    (folder / "start").touch()
    return running


def all_end_well(running: list[Child], timeout: float) -> None:
    codes = [child.wait(timeout) for child in running]
    assert set(codes) == {0}, (codes, [child.problems() for child in running])


def acknowledged(folder: Path) -> set[str]:
    return {line for file in folder.glob("ack*") for line in file.read_text().split("\n") if line}


def properties(backend: CatalogBackend) -> set[str]:
    return {k for k in backend.load(TABLE).metadata.properties if k.startswith("p.")}


def fresh(kind: str, folder: Path) -> tuple[CatalogBackend, dict[str, str]]:
    settings: dict[str, Any] = settings_for(kind, folder)
    backend = load_backend("race", **settings)
    if backend.namespace_exists(("db",)) and backend.table_exists(TABLE):
        backend.drop_table(TABLE)
    made(backend, write__metadata__previous_versions_max="100000")
    return backend, settings


@pytest.mark.parametrize("kind", SHARED)
def test_no_acknowledged_commit_is_lost_between_processes(kind: str, tmp_path: Path) -> None:
    backend, settings = fresh(kind, tmp_path)
    # they wait for the lock, one after the other
    rounds = ROUNDS if SOAK or kind not in HIVE else ROUNDS // 2
    all_end_well(race(tmp_path, settings, PROCESSES, rounds), 600)
    done = acknowledged(tmp_path)
    assert done == properties(backend) and len(done) == PROCESSES * rounds
    log = backend.load(TABLE).metadata.metadata_log
    assert len(log) == PROCESSES * rounds == len({e.metadata_file for e in log}), (
        "one line of versions, none twice"
    )
    backend.close()


def test_no_acknowledged_commit_is_lost_while_old_versions_are_removed(tmp_path: Path) -> None:
    """Names of versions become free again then; a slow writer must not take one of them for the
    next.
    """
    backend, settings = fresh("path", tmp_path)
    base = backend.load(TABLE)
    limits = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    assert isinstance(backend.swap(base, changed(base, **limits)), Committed)
    all_end_well(race(tmp_path, settings, PROCESSES, ROUNDS), 600)
    assert (
        acknowledged(tmp_path) == properties(backend)
        and len(properties(backend)) == PROCESSES * ROUNDS
    )


@pytest.mark.parametrize("kind", ["path", "memory", "sqlite"])
def test_no_acknowledged_commit_is_lost_between_threads(kind: str, tmp_path: Path) -> None:
    backend = load_backend(
        "threads", **({"type": "memory"} if kind == "memory" else settings_for(kind, tmp_path))
    )  # type: ignore[arg-type]
    made(backend)

    def writer(number: int) -> None:
        for i in range(10):
            while True:
                base = backend.load(TABLE)
                if isinstance(
                    backend.swap(base, changed(base, **{f"p.{number}.{i}": "1"})), Committed
                ):
                    break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(writer, range(4)))
    assert len(properties(backend)) == 40
    backend.close()


@pytest.mark.parametrize("kind", ["path", "sqlite"])
def test_a_writer_killed_at_any_file_call_leaves_a_table_that_loads_and_goes_on(
    kind: str, tmp_path: Path
) -> None:
    """Swept from the first call on until a writer gets through; old and new state are whole, and
    the next commit works.
    """
    backend, settings = fresh(kind, tmp_path)
    killed = 0
    for k in range(1, 60):
        before = properties(backend)
        (child,) = race(tmp_path, settings, 1, 1, kill=k)
        code = child.wait(60)
        now = properties(backend)
        assert before <= now and acknowledged(tmp_path) <= now
        if code == 0:
            break
        assert code == -9, f"the fault fired; {child.problems()}"
        killed += 1
        base = backend.load(TABLE)
        assert isinstance(backend.swap(base, changed(base, **{f"after.{k}": "1"})), Committed)
    assert killed >= 3
    assert {f"after.{i}" for i in range(1, killed + 1)} <= set(
        backend.load(TABLE).metadata.properties
    )
    backend.close()


def test_processes_that_make_one_database_at_once_all_start(tmp_path: Path) -> None:
    all_end_well(
        [started(opens, f"sqlite:///{tmp_path}/c.db", place=tmp_path) for _ in range(4)], 60
    )


def test_a_create_raced_by_threads_has_one_winner(tmp_path: Path) -> None:
    for kind in ("path", "sqlite"):
        backend = load_backend("race", **settings_for(kind, tmp_path))  # type: ignore[arg-type]
        backend.create_namespace(("db",)) if not backend.namespace_exists(("db",)) else None
        one = [new_metadata(f"{tmp_path}/w/db/{kind}") for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda m: backend.create(("db", kind), m), one))  # noqa: B023
        assert (
            sum(isinstance(o, Committed) for o in outcomes) == 1
            and sum(isinstance(o, Conflict) for o in outcomes) == 7
        )
        winner = next(o.table for o in outcomes if isinstance(o, Committed))
        assert backend.load(("db", kind)).metadata.table_uuid == winner.metadata.table_uuid
        backend.close()
