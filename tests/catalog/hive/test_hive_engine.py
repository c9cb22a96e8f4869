"""Hive's own query engine opens, reads and writes tables of ours, by the storage handler that the
table's object names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

import frazil
from frazil.catalog import Catalog
from tests.catalog.hive.conftest import METASTORES

SCRIPT = Path(__file__).resolve().parents[2] / "services" / "hive_engine.sh"
ENABLED = {"engine.hive.enabled": "true"}
MERGE_ON_READ = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
}
# Calls of Hive 2.3's client are gone from metastores 4.0.
PAIRS = [
    p
    for p in (("2.3", "hive2"), ("2.3", "hive3"), ("3.1", "hive3"), ("3.1", "hive4"))
    if p[1] in METASTORES
]
# Hive 3.1 makes jobs with fields of Java 8's own lists: on newer Java it reads only.
WITH_JOBS = [p for p in PAIRS if p[0] == "2.3"]
by_all = pytest.mark.parametrize("engine, metastore", PAIRS, indirect=True, scope="module")
by_jobs = pytest.mark.parametrize("engine, metastore", WITH_JOBS, indirect=True, scope="module")
pytestmark = [pytest.mark.soak, pytest.mark.service]


@dataclass(frozen=True)
class Hive:
    """A session of Hive's driver over one metastore."""

    java: Any
    conf: Any

    def run(self, sql: str) -> list[list[str]]:
        """Run a statement and return its rows as Hive prints them: texts, and NULL for none."""
        driver = self.java.org.apache.hadoop.hive.ql.Driver(self.conf)
        answer = driver.run(sql)
        assert answer.getResponseCode() == 0, f"{sql}: {answer.getErrorMessage()}"
        rows: list[list[str]] = []
        while driver.getResults(batch := self.java.java.util.ArrayList()):
            rows += [str(row).split("\t") for row in batch]
        driver.close()
        return rows

    def columns(self, table: str) -> dict[str, str]:
        return {name.strip(): kind.strip() for name, kind, _ in self.run(f"DESCRIBE {table}")}


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A JVM that finds the classes of the Hive that the test asks for."""
    folder = tmp_path_factory.mktemp("hive_engine")
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "HIVE_31": "1" if request.param == "3.1" else "",
    }
    run = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True, env=environment)
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stderr
    port = int(run.stdout.strip().rpartition(":")[2])
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(
            address="127.0.0.1", port=port, enable_memory_management=False
        )
    )
    java, paths = gateway.jvm, (folder / "classpath").read_text().strip().split(":")
    urls = gateway.new_array(java.java.net.URL, len(paths))
    for n, path in enumerate(paths):
        urls[n] = java.java.net.URL(f"file:{path}")
    # Hive 3.1 casts the loader of its classes to a URLClassLoader, which the one of Java's class
    # path is no more.
    java.java.lang.Thread.currentThread().setContextClassLoader(java.java.net.URLClassLoader(urls))
    java.py4j.reflection.ReflectionUtil.setClassLoadingStrategy(
        java.py4j.reflection.CurrentThreadClassLoadingStrategy()
    )
    yield java
    gateway.close()
    subprocess.run([SCRIPT, "stop", folder], check=True)


@pytest.fixture
def metastore(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hive(engine: Any, address: str) -> Hive:
    conf = engine.org.apache.hadoop.hive.conf.HiveConf()
    conf.set("hive.metastore.uris", address)
    engine.org.apache.hadoop.hive.ql.session.SessionState.start(conf)
    return Hive(engine, conf)


@pytest.fixture
def catalog(opened: Callable[..., Catalog]) -> Catalog:
    return opened(**ENABLED)


@by_all
def test_hive_reads_values_of_all_types(hive: Hive, catalog: Catalog, db: str) -> None:
    kinds = {
        "b": "boolean",
        "i": "int",
        "l": "bigint",
        "f": "float",
        "d": "double",
        "n": "decimal(9,2)",
        "day": "date",
        "at": "timestamp_ntz",
        "zoned": "timestamp",
        "s": "string",
        "raw": "binary",
        "many": "array<int>",
        "named": "map<string,bigint>",
        "pair": "struct<x:int,y:string>",
    }
    row = {
        "b": True,
        "i": -1,
        "l": 2**40,
        "f": 0.5,
        "d": -0.25,
        "n": Decimal("12.30"),
        "day": date(2026, 2, 28),
        "at": datetime(2026, 2, 28, 1, 2, 3, 456000),
        "zoned": datetime(2026, 2, 28, 1, 2, 3, tzinfo=UTC),
        "s": "größer",
        "raw": b"bytes",
        "many": [1, 2],
        "named": {"k": 7},
        "pair": {"x": 1, "y": "z"},
    }
    table = catalog.create_table(
        f"{db}.t", ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    )
    table.append([row, dict.fromkeys(row)])
    shown = hive.columns(f"{db}.t")
    # of Hive 2 and 3
    zoned = {
        "timestamp": "2026-02-28 01:02:03",
        "timestamp with local time zone": "2026-02-28 01:02:03.0 Z",
    }[shown["zoned"]]
    assert shown == kinds | {"at": "timestamp", "zoned": shown["zoned"]}
    want = [
        "true",
        "-1",
        str(2**40),
        "0.5",
        "-0.25",
        "12.30",
        "2026-02-28",
        "2026-02-28 01:02:03.456",
        zoned,
        "größer",
        "bytes",
        "[1,2]",
        '{"k":7}',
        '{"x":1,"y":"z"}',
    ]
    assert sorted(hive.run(f"SELECT * FROM {db}.t")) == sorted([want, ["NULL"] * len(row)])


@by_all
def test_hive_reads_partitions_and_takes_filters(hive: Hive, catalog: Catalog, db: str) -> None:
    table = catalog.create_table(
        f"{db}.t", "id bigint, day date, s string", partition_by=["day", "bucket(4, id)"]
    )
    rows = [{"id": n, "day": date(2026, 1, 1 + n % 3), "s": f"s{n}"} for n in range(30)]
    table.append(rows[:20])
    table.append(rows[20:])
    want = [[str(r["id"]), str(r["day"]), r["s"]] for r in rows]
    assert sorted(hive.run(f"SELECT id, day, s FROM {db}.t")) == sorted(want)
    assert sorted(
        hive.run(f"SELECT id, s FROM {db}.t WHERE day = '2026-01-02' AND id > 9")
    ) == sorted([i, s] for i, d, s in want if d == "2026-01-02" and int(i) > 9)


@by_all
def test_hive_follows_the_schema(hive: Hive, catalog: Catalog, db: str) -> None:
    table = catalog.create_table(f"{db}.t", "id int, s string, gone string")
    table.append([{"id": 1, "s": "old", "gone": "x"}])
    with table.update_schema() as update:
        update.add_column("added", frazil.DoubleType())
        update.rename_column("s", "renamed")
        update.delete_column("gone")
        update.update_column("id", frazil.LongType())
    table.append([{"id": 2**40, "renamed": "new", "added": 0.5}])
    assert hive.columns(f"{db}.t") == {"id": "bigint", "renamed": "string", "added": "double"}
    assert sorted(hive.run(f"SELECT id, renamed, added FROM {db}.t")) == [
        ["1", "old", "NULL"],
        [str(2**40), "new", "0.5"],
    ]


@by_all
def test_hive_leaves_out_deleted_rows(hive: Hive, catalog: Catalog, db: str) -> None:
    table = catalog.create_table(f"{db}.t", "id bigint, s string", properties=MERGE_ON_READ)
    table.append([{"id": n, "s": f"s{n}"} for n in range(10)])
    table.delete("id % 3 = 0")
    table.update({"s": "'changed'"}, where="id = 4")
    assert (now := table.metadata.current_snapshot()) and now.summary[
        "total-position-deletes"
    ] == "5"
    want = sorted([str(r["id"]), r["s"]] for r in table.scan().to_arrow().to_pylist())
    assert len(want) == 6
    assert sorted(hive.run(f"SELECT id, s FROM {db}.t")) == want


@by_jobs
def test_jobs_of_hive_read_partitions_and_deletes(hive: Hive, catalog: Catalog, db: str) -> None:
    table = catalog.create_table(
        f"{db}.t", "id bigint, day date", partition_by="day", properties=MERGE_ON_READ
    )
    table.append([{"id": n, "day": date(2026, 1, 1 + n % 3)} for n in range(31)])
    table.delete("id = 30")
    assert (now := table.metadata.current_snapshot()) and now.summary[
        "total-position-deletes"
    ] == "1"
    assert sorted(hive.run(f"SELECT day, count(*), sum(id) FROM {db}.t GROUP BY day")) == [
        [f"2026-01-0{1 + k}", "10", str(sum(range(k, 30, 3)))] for k in range(3)
    ]


@by_jobs
def test_hive_writes_rows_that_we_read(hive: Hive, catalog: Catalog, db: str) -> None:
    table = catalog.create_table(
        f"{db}.t", "id bigint, s string", partition_by="bucket(2, id)", properties={"ours": "1"}
    )
    table.append([{"id": 1, "s": "us"}])
    hive.run(f"INSERT INTO {db}.t SELECT id + 1, 'hive' FROM {db}.t")
    table = catalog.load_table(f"{db}.t")
    table.append([{"id": 3, "s": "us again"}])
    want = [["1", "us"], ["2", "hive"], ["3", "us again"]]
    assert sorted([str(r["id"]), r["s"]] for r in table.scan().to_arrow().to_pylist()) == want
    assert sorted(hive.run(f"SELECT id, s FROM {db}.t")) == want
    assert len(table.metadata.snapshots) == 3 and table.properties["ours"] == "1"


@by_all
def test_the_tables_property_decides_whether_hive_reads_it(
    hive: Hive, opened: Callable[..., Catalog], db: str
) -> None:
    table = opened().create_table(f"{db}.t", "id bigint")
    table.append([{"id": 1}])
    with pytest.raises((Py4JJavaError, AssertionError), match="FileInputFormat"):
        hive.run(f"SELECT id FROM {db}.t")
    with table.transaction() as tx:
        tx.set_properties(ENABLED)
    assert hive.run(f"SELECT id FROM {db}.t") == [["1"]]
