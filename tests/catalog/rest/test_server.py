"""Java's reference server, in turns with its own client's rules: many writers lose nothing (FRAZIL_TEST_REST names the server)."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.catalog import load_backend
from frazil.commit import transaction as commit
from frazil.commit.actions import Append
from tests.builders.data_files import data_file
from tests.catalog.conftest import emptied, made

SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []


@pytest.mark.parametrize("uri", SERVERS)
def test_eight_writers_of_ten_commits_lose_none(uri: str) -> None:
    name = (f"w{uuid.uuid4().hex[:8]}", "t")
    keeper = load_backend("r", type="rest", uri=uri)
    place = f"{made(keeper, name, commit__retry__num_retries='100').metadata.location}/data"

    def writer(number: int) -> None:
        backend = load_backend("r", type="rest", uri=uri)
        for i in range(10):
            commit.commit(backend, backend.load(name), [Append([data_file(100 * number + i, location=place)])])
        backend.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer, range(8)))
    table = keeper.load(name)
    assert len(table.metadata.snapshots) == 80 and table.metadata.current_snapshot().summary["total-data-files"] == "80"
    emptied(keeper, name[:1])
    keeper.close()
