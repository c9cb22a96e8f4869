"""One pipeline, unchanged over every catalog and store: create, append, merge, upsert stream,
compact, read, while the network fails between.

Then another engine goes on with the table: Java Iceberg, or PyIceberg where Java has no driver of
the store (in Azure neither). The short form is one row of the matrix; FRAZIL_SOAK=1 runs all.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.catalog import Catalog
from frazil.table import Table
from tests.builders.behind_proxies import (
    REQUESTS,
    Behind,
    behind_proxies,
    one_state,
    rest_server_over,
    there,
)
from tests.fault_proxy import Fired

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
PLACES = [
    p
    for p in (
        "path-s3",
        "sqlite-s3",
        "rest-s3",
        "path-hdfs",
        "hive2-hdfs",
        "hive2-s3",
        "hive4-hdfs",
        "mariadb-s3",
        "postgres-azurite",
    )
    if there(p)
]
pytestmark = [pytest.mark.spark, *([pytest.mark.soak] if SOAK else [])]
WANTED = {
    **dict.fromkeys(range(100), "appended"),
    **dict.fromkeys(range(90, 110), "merged"),
    **{n: f"batch {b}" for b, first in enumerate((0, 5, 105)) for n in range(first, first + 10)},
}

JAVA = """
import json, sys
settings, db = json.loads(sys.argv[-2]), sys.argv[-1]
for key, value in settings.items():
    spark.conf.set("spark.sql.catalog.o" + key, value)
rows = sorted(list(r) for r in spark.table(f"o.{db}.t").collect())
spark.sql(f"INSERT INTO o.{db}.t VALUES (1000, 'theirs')")
print("ANSWER" + json.dumps(rows))
"""
PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
properties, db, metadata = json.loads(sys.argv[-3]), sys.argv[-2], sys.argv[-1]
t = StaticTable.from_metadata(metadata, properties) if metadata else load_catalog(f"c{db}", **properties).load_table(f"{db}.t")
rows = sorted([r["id"], r["v"]] for r in t.scan().to_arrow().to_pylist())
if not metadata:
    t.append(pa.table({"id": pa.array([1000], pa.int64()), "v": ["theirs"]}))
print("ANSWER" + json.dumps(rows))
"""


@contextlib.contextmanager
def opened(place: str, folder: Path) -> Iterator[Behind]:
    """The catalog and its store behind proxies. Java's reference server has its warehouse in the
    store.
    """
    catalog, store = place.split("-")
    with (
        rest_server_over(store, folder / "rest")
        if catalog == "rest"
        else contextlib.nullcontext() as address
    ):
        behind = behind_proxies(place, folder, **({"rest": address} if address else {}))
        yield behind
        behind.close()


class Network:
    """Faults at the requests of a catalog and its store; each must have happened when its step has
    ended.
    """

    def __init__(self, behind: Behind):
        self.behind = behind
        catalog, self.store = behind.kind.split("-")
        self.decides = (
            catalog if catalog in behind.proxies else self.store if catalog == "path" else ""
        )
        self.wanted: dict[str, list[Fired]] = {name: [] for name in behind.proxies}

    def commit(self, kind: str) -> None:
        if self.decides:  # SQLite has no network
            self._once(self.decides, "commit", kind)

    def files(self, request: str, kind: str) -> None:
        self._once(self.store, request, kind)

    def _once(self, name: str, request: str, kind: str) -> None:
        self.wanted[name].append(Fired(REQUESTS[name][request], kind))
        self.behind.proxies[name].once(REQUESTS[name][request], kind)

    def all_fired(self) -> None:
        for name, proxy in self.behind.proxies.items():
            assert sorted(proxy.fired) == sorted(self.wanted[name]), name


def run(catalog: Catalog, db: str, spark: Any, folder: Path, network: Network) -> Table:
    """The pipeline."""
    catalog.create_namespace(db)
    properties = {"write.merge.mode": "merge-on-read", "write.parquet.compression-codec": "zstd"}
    table = catalog.create_table(
        f"{db}.t", "id bigint, v string", partition_by=["bucket(2, id)"], properties=properties
    )

    network.commit("answer")
    network.files("rows", "reset")
    table.append(spark.range(100).selectExpr("id", "'appended' v"))
    network.all_fired()

    network.commit("slow close")
    network.files("read", "truncated")
    source = spark.range(90, 110).selectExpr("id", "'merged' v")
    result = (
        table.merge(source, "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert (result.rows_updated, result.rows_inserted) == (10, 10)
    network.all_fired()

    arriving = folder / "arriving"
    arriving.mkdir()
    for batch, first in enumerate((0, 5, 105)):
        ids = pa.array(range(first, first + 10), pa.int64())
        pq.write_table(
            pa.table({"id": ids, "v": [f"batch {batch}"] * 10}), arriving / f"{batch}.parquet"
        )
        os.utime(arriving / f"{batch}.parquet", (batch, batch))
    network.commit("answer")
    network.files("rows", "answer")
    changes = (
        spark.readStream.schema("id long, v string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(arriving))
    )
    writer = table.write_stream(changes, mode="upsert", key_columns="id").option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    network.all_fired()

    network.commit("answer")
    network.files("read", "reset")
    table.refresh()
    assert (
        table.maintenance.rewrite_data_files(options={"rewrite-all": True}).added_data_files_count
        == 2
    )
    network.all_fired()
    return table


def rows_by_other(
    behind: Behind, db: str, table: Table, java: Any, pyiceberg_check: Any
) -> tuple[str, list[list[Any]]]:
    """Let another engine read the table, and append a row to it where it can."""
    kind, settings = behind.kind, behind.properties
    # PyIceberg knows no path catalogs, and here it has no drivers of databases: it is given the
    # metadata file, which it only reads.
    alone = table._loaded.metadata_location if kind in ("path-s3", "mariadb-s3") else ""
    if kind.endswith("hdfs"):
        own = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".cache-enabled": "false",
            ".warehouse": settings["warehouse"],
        }
        own |= (
            {".type": "hive", ".uri": settings["uri"]}
            if kind.startswith("hive")
            else {".type": "hadoop"}
        )
        told = java.run(JAVA, settings["warehouse"], json.dumps(own), db)
    else:
        told = pyiceberg_check.run(
            PYICEBERG, json.dumps(settings | {"s3.region": "us-east-1"}), db, alone
        )
    return ("" if alone else "theirs"), json.loads(told.rpartition("ANSWER")[2].splitlines()[0])


@pytest.mark.parametrize("place", PLACES if SOAK else PLACES[:1])
def test_one_pipeline_gives_the_same_rows_over_every_catalog_and_store(
    place: str, tmp_path: Path, spark: Any, request: pytest.FixtureRequest
) -> None:
    db = f"t{uuid.uuid4().hex[:10]}"
    with opened(place, tmp_path) as behind, behind.catalog(f"c{db}") as catalog:
        network = Network(behind)
        table = run(catalog, db, spark, tmp_path, network)
        network.files("read", "reset")
        assert {r.id: r.v for r in table.to_spark(spark).collect()} == WANTED
        network.all_fired()
        network.files("read", "truncated")
        rows = table.scan().to_arrow()
        assert dict(
            zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
        ) == WANTED and len(rows) == len(WANTED)
        network.all_fired()
        assert len(table.snapshots()) == 6, (
            "an append, a merge, three batches, a compaction: none twice"
        )
        one_state(table, [])
        if SOAK and not place.endswith("azurite"):  # of which neither has a driver here
            engines = [
                request.getfixturevalue(f)
                for f in (
                    "java_of_hive4" if place.startswith("hive4") else "java_check",
                    "pyiceberg_check",
                )
            ]
            theirs, seen = rows_by_other(behind, db, table, *engines)
            assert dict(seen) == WANTED and len(seen) == len(WANTED)  # type: ignore[arg-type]
            table.refresh().append([{"id": 1001, "v": "ours"}])
            after = dict(zip(*(table.to_arrow()[c].to_pylist() for c in ("id", "v")), strict=True))
            assert after == WANTED | {1001: "ours"} | ({1000: theirs} if theirs else {})
