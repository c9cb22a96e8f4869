"""An HDFS with two name nodes: the active one stops while rows are appended, the other takes over,
and every acknowledged row is there.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway

import frazil
from frazil.errors import FrazilError
from frazil.storage import storage_for

SCRIPT = Path(__file__).resolve().parents[1] / "services" / "hdfs_ha.sh"
pytestmark = [pytest.mark.service, pytest.mark.disk]


@dataclass(frozen=True)
class TwoNameNodes:
    """A cluster of Hadoop's own for tests; `properties` tell a catalog of its name service `pair`."""

    mini: Any
    properties: dict[str, str]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoNameNodes]:
    run = subprocess.run([SCRIPT, "start", tmp_path / "ha"], capture_output=True, text=True)
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stderr
    try:
        port = int(run.stdout.strip().rpartition(":")[2])
        java = JavaGateway(
            gateway_parameters=GatewayParameters(
                address="127.0.0.1", port=port, enable_memory_management=False
            )
        ).jvm
        conf = java.org.apache.hadoop.hdfs.HdfsConfiguration()
        settings = {
            "hdfs.minidfs.basedir": str(tmp_path / "dfs"),
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
        }
        for key, value in {**settings, "dfs.ha.tail-edits.period": "1"}.items():
            conf.set(key, value)
        builder = getattr(java, "org.apache.hadoop.hdfs.MiniDFSCluster$Builder")(conf)
        mini = (
            builder.nnTopology(java.org.apache.hadoop.hdfs.MiniDFSNNTopology.simpleHATopology())
            .numDataNodes(1)
            .build()
        )
        mini.waitActive()
        mini.transitionToActive(0)
        addresses = {
            f"hadoop.dfs.namenode.rpc-address.pair.nn{n}": f"127.0.0.1:{mini.getNameNodePort(n)}"
            for n in (0, 1)
        }
        yield TwoNameNodes(
            mini,
            {
                "hadoop.dfs.nameservices": "pair",
                "hadoop.dfs.ha.namenodes.pair": "nn0,nn1",
                **addresses,
            },
        )
    finally:
        subprocess.run([SCRIPT, "stop", tmp_path / "ha"], check=True)


def test_rows_are_appended_through_a_failover_and_none_is_lost(two: TwoNameNodes) -> None:
    catalog = frazil.load_catalog("pair", type="path", warehouse="hdfs://pair/w", **two.properties)
    table = catalog.create_table(("db", "t"), pa.table({"id": pa.array([], pa.int64())}).schema)
    acknowledged: list[int] = []
    failed: list[BaseException] = []
    taken_over = threading.Event()

    def append() -> None:
        number = 0
        while not taken_over.is_set() or len(acknowledged) < after + 5:
            try:
                table.append(pa.table({"id": pa.array([number], pa.int64())}))
                acknowledged.append(number)
            except FrazilError as error:
                failed.append(error)
                table.refresh()
            number += 1

    after = 10**9
    writer = threading.Thread(target=append)
    writer.start()
    while len(acknowledged) < 5:
        time.sleep(0.01)
    two.mini.shutdownNameNode(0)
    time.sleep(1.5)
    two.mini.transitionToActive(1)
    after = len(acknowledged)
    taken_over.set()
    writer.join(120)
    assert not writer.is_alive() and len(acknowledged) >= after + 5
    found = sorted(catalog.load_table(("db", "t")).scan().to_arrow()["id"].to_pylist())
    assert len(set(found)) == len(found) and set(acknowledged) <= set(found)
    assert not failed, "the client waits until the other name node is active"
    names = storage_for("hdfs://pair/w", two.properties).names("hdfs://pair/w/db/t/metadata")
    assert not [n for n in names if n.endswith(".tmp")]
