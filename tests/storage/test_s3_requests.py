"""How many requests and connections reads and writes in S3 take, counted by a proxy before the
server.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.table import Table
from tests.builders.behind_proxies import Behind, behind_proxies
from tests.fault_proxy import FaultProxy
from tests.storage.fake_s3 import fake_s3

COLUMNS, GROUPS = 20, 3
# threads that read manifests through obstore, connections that pyarrow has at most
MOST_OF_ONE_SCAN = 16 + 25


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    found = behind_proxies("sqlite-s3", tmp_path)
    yield found
    found.close()


def table_of(behind: Behind, columns: int) -> Table:
    """An empty table of numbers behind the proxy."""
    catalog = behind.catalog(f"c{uuid.uuid4().hex[:10]}")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", ", ".join(f"c{n} bigint" for n in range(columns)))


def numbers(columns: int, rows: int, seed: int = 1) -> pa.Table:
    """Random numbers: a column of a file takes eight bytes a row."""
    draw = np.random.default_rng(seed)
    return pa.table({f"c{n}": draw.integers(0, 1 << 62, rows) for n in range(columns)})


def reads(behind: Behind) -> int:
    return sum(
        line.startswith("GET ") and ".parquet" in line for line in behind.proxies["s3"].requests
    )


@pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
@pytest.mark.parametrize(
    ("rows", "selected", "of_each_group"),
    [
        (4000, ("*",), 1),
        (4000, ("c3", "c4", "c5"), 1),
        (4000, ("c0", "c19"), 2),  # what lies between is not read
        (400, ("c0", "c2"), 1),  # a gap of 3 kB is read along
    ],
    ids=["all", "side by side", "far apart", "a small gap"],
)
def test_columns_that_lie_side_by_side_come_in_one_request_for_each_row_group(
    behind: Behind, tmp_path: Path, rows: int, selected: tuple[str, ...], of_each_group: int
) -> None:
    table = table_of(behind, COLUMNS)
    location, whole = (
        f"{table.location()}/data/{uuid.uuid4().hex}.parquet",
        numbers(COLUMNS, GROUPS * rows),
    )
    pq.write_table(
        whole, tmp_path / "f.parquet", row_group_size=rows, compression="none", use_dictionary=False
    )
    storage: Any = table._loaded.storage
    storage.write(location, (tmp_path / "f.parquet").read_bytes())
    table.add_files([location])
    behind.proxies["s3"].requests.clear()
    found = table.scan(selected_fields=selected).to_arrow()
    assert found.equals(whole.select(found.column_names)) and len(found) == GROUPS * rows
    assert reads(behind) == 1 + GROUPS * of_each_group, "the footer, and the row groups"
    behind.proxies["s3"].requests.clear()
    with pq.ParquetFile(storage.open_input(location), pre_buffer=False) as file:
        assert file.read(found.column_names).equals(found)
    assert reads(behind) > GROUPS * len(found.column_names), (
        "a reader that does not put ranges together asks for each column by itself"
    )


def test_connections_are_few_and_kept_however_much_is_read(tmp_path: Path) -> None:
    with fake_s3(latency=0.002) as s3:
        proxy = FaultProxy(s3.endpoint)
        places = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "s3://b/w"}
        with frazil.load_catalog(
            "c", type="sql", **places, **s3.properties | {"s3.endpoint": proxy.uri}
        ) as catalog:
            catalog.create_namespace("db")
            table = catalog.create_table("db.t", "c0 bigint, c1 bigint")
            for number in range(40):
                table.append(numbers(2, 100, number))
            assert len(proxy.requests) >= 160 and proxy.connections <= 8, (
                "connections are kept from one commit to the next"
            )
            _scan_at_once(table, 1)
            assert proxy.most_open <= MOST_OF_ONE_SCAN
            _scan_at_once(table, 16)
            assert (
                len(proxy.requests) >= 2000 and proxy.connections <= 128 and proxy.most_open <= 64
            ), "scans beside each other share them"
        proxy.close()


def _scan_at_once(table: Table, scans: int) -> None:
    with ThreadPoolExecutor(scans) as pool:
        assert {len(found) for found in pool.map(lambda _: table.scan().to_arrow(), range(16))} == {
            4000
        }
