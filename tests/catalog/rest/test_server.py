"""Java's reference server and Project Nessie's: many writers lose nothing (FRAZIL_TEST_REST and
FRAZIL_TEST_NESSIE name the servers).
"""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.commit import table_commit as commit
from frazil.commit.actions import Append
from tests.builders.data_files import data_file
from tests.catalog.conftest import emptied, made, open_backend

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
ROUNDS = {"rest": 25, "nessie": 25} if SOAK else {"rest": 10, "nessie": 4}
pytestmark = [pytest.mark.soak] if SOAK else []
SERVERS = [
    k
    for k, v in (("rest", "FRAZIL_TEST_REST"), ("nessie", "FRAZIL_TEST_NESSIE"))
    if os.environ.get(v)
]


@pytest.mark.parametrize("kind", SERVERS)
def test_eight_writers_lose_no_commit(kind: str, tmp_path: Path) -> None:
    name = (f"w{uuid.uuid4().hex[:8]}", "t")
    keeper = open_backend(kind, tmp_path)
    table = made(keeper, name, commit__retry__num_retries="100")
    place = f"{table.metadata.location}/data"
    # Nessie does not guard the first one (KNOWN_GAPS.md)
    commit.commit(keeper, table, [Append([data_file(1000, location=place)])])

    def writer(number: int) -> None:
        backend = open_backend(kind, tmp_path)
        for i in range(ROUNDS[kind]):
            commit.commit(
                backend, backend.load(name), [Append([data_file(100 * number + i, location=place)])]
            )
        backend.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer, range(8)))
    table = keeper.load(name)
    # it shows the newest one alone
    assert len(table.metadata.snapshots) == (1 if kind == "nessie" else 8 * ROUNDS[kind] + 1)
    assert table.metadata.current_snapshot().summary["total-data-files"] == str(
        8 * ROUNDS[kind] + 1
    )
    emptied(keeper, name[:1])
    keeper.close()
