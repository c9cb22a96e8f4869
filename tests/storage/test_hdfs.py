"""HDFS: settings, spellings of one file, what a lost answer leads to, name services, races. Parts
need the cluster that FRAZIL_TEST_HDFS names.
"""

from __future__ import annotations

import logging
import os
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.catalog import load_backend
from frazil.catalog.configuration import configuration, store_properties
from frazil.errors import (
    InvalidInput,
    NoSuchFileError,
    NotInstalledError,
    StorageError,
    Unsupported,
)
from frazil.scan.delete_ranges import normalised
from frazil.storage import PublishUnclear, hdfs_settings_of, is_inside, normalise, storage_for
from frazil.storage.hdfs import hdfs_options
from frazil.storage.hdfs.hdfs_options import hdfs_settings
from tests.fault_proxy import FaultProxy
from tests.forked import started
from tests.peers.checks import JavaCheck
from tests.storage.conftest import hdfs_place

CLUSTER = os.environ.get("FRAZIL_TEST_HDFS", "")
needs_cluster = pytest.mark.skipif(not CLUSTER, reason="needs FRAZIL_TEST_HDFS")
SOAK = bool(os.environ.get("FRAZIL_SOAK"))
ROUNDS = 25 if SOAK else 2
TEMPORARY = ".tmp"


QUICK = {
    "hadoop.dfs.client.failover.max.attempts": "2",
    "hadoop.dfs.client.failover.sleep.base.millis": "20",
}


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    made = FaultProxy(CLUSTER)
    yield made
    made.close()


# --- spellings and settings


@pytest.fixture
def root() -> str:
    return hdfs_place()


@pytest.mark.parametrize(
    "spelled",
    [
        "hdfs://ns/a/b",
        "HDFS://ns/a/b",
        "hdfs://NS/a//b/",
        "hdfs://ns:8020/a/b",
        "hdfs://ns//a/./b",
        "hdfs://ns:8020//a/b/.",
    ],
)
def test_a_file_in_hdfs_has_one_normal_text(spelled: str) -> None:
    assert normalise(spelled) == "hdfs://ns/a/b"
    assert (
        is_inside(spelled, "hdfs://ns/a")
        and not is_inside(spelled, "hdfs://ns/a/bb")
        and not is_inside(spelled, "hdfs:///a")
    )


def test_locations_without_an_authority_are_one_and_not_those_of_a_named_cluster() -> None:
    assert (
        normalise("hdfs:/a/b")
        == normalise("hdfs:///a//b")
        == "hdfs:///a/b"
        != normalise("hdfs://ns/a/b")
    )


def test_columns_of_paths_are_normalised_alike() -> None:
    paths = [
        "hdfs://ns/a/b",
        "hdfs://ns:9000/a/b.parquet",
        "hdfs://NS/a/b",
        "hdfs://ns:8020/a/b",
        "hdfs:/a/b",
        "hdfs:///a/b",
        "hdfs://ns/a//b",
    ]
    paths += ["hdfs://ns/a/./b", "hdfs://ns/.a/..b", "hdfs://ns/a=%2F/ü", "/x", "file:/x"]
    assert normalised(pa.array(paths)).to_pylist() == [normalise(p) for p in paths]
    assert normalised(pa.array(paths[:2])).to_pylist() == paths[:2]


@pytest.mark.parametrize(
    ("properties", "error", "named"),
    [
        ({"hdfs.user": "me"}, Unsupported, "HADOOP_USER_NAME"),
        ({"hdfs.hosts": "x"}, Unsupported, "hdfs.host"),
        ({"hadoop.fs.s3a.endpoint": "x"}, Unsupported, "dfs.ha.namenodes"),
        ({"hdfs.port": "9000"}, InvalidInput, "hdfs.host"),
        ({"hdfs.host": "h", "hdfs.port": "many"}, InvalidInput, "hdfs.port"),
        ({"hdfs.host": "h/x"}, InvalidInput, "hdfs.host"),
        ({"hdfs.kerberos-ticket": "/tmp/krb5cc"}, InvalidInput, "hdfs.kerberos-principal"),
        ({"hadoop.dfs.replication": "some"}, InvalidInput, "dfs.replication"),
        ({"hadoop.dfs.blocksize": "big"}, InvalidInput, "dfs.blocksize"),
        ({"hadoop.fs.permissions.umask-mode": "u=rwx"}, Unsupported, "umask"),
    ],
)
def test_a_property_that_cannot_be_honoured_is_refused_by_name(
    properties: dict[str, str], error: type[Exception], named: str
) -> None:
    with pytest.raises(error) as told:
        hdfs_settings(properties)
    assert named in f"{told.value} {getattr(told.value, 'hint', '')}"


def test_a_catalog_refuses_a_property_of_hdfs_by_name() -> None:
    with pytest.raises(Unsupported, match="hdfs.user"):
        load_backend("c", type="path", warehouse="hdfs://h/w", **{"hdfs.user": "me"})
    kept = configuration(
        "c", {"type": "path", "hadoop.dfs.ha.namenodes.my_ns": "a_1,b_2"}, environ={}
    )
    assert kept.properties["hadoop.dfs.ha.namenodes.my_ns"] == "a_1,b_2", (
        "names of name services keep their underscores"
    )


def test_the_protection_of_a_metastores_calls_is_no_property_of_the_store() -> None:
    storage = storage_for(
        "hdfs://nn:1/t", {"hadoop.rpc.protection": "privacy", "hadoop.dfs.replication": "2"}
    )
    settings = hdfs_settings_of(storage, "hdfs://nn:1/t")
    assert settings is not None and settings.config["dfs.replication"] == "2"


def test_properties_become_settings() -> None:
    found = hdfs_settings(
        {
            "hdfs.host": "h",
            "hdfs.port": "9000",
            "hdfs.kerberos-principal": "p@R",
            "hdfs.kerberos-ticket": "/t",
            "s3.region": "x",
            "hadoop.dfs.replication": "2",
            "hadoop.dfs.blocksize": "64m",
            "hadoop.fs.permissions.umask-mode": "077",
            "hadoop.dfs.ha.namenodes.ns": "a,b",
        }
    )
    assert (found.authority, found.replication, found.block_size, found.umask) == (
        "h:9000",
        2,
        64 << 20,
        0o077,
    )
    assert found.kerberos == {
        "kerberos_principal": "p@R",
        "kerberos_cache": "/t",
    } and "p@R" not in repr(found)
    assert [found.address_of(a) for a in ("ns", "h", "h:9000")] == ["ns", "h:8020", "h:9000"]


def test_hadoops_files_travel_with_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def site(name: str, **values: str) -> None:
        rows = "".join(
            f"<property><name>{k.replace('__', '.')}</name><value>{v}</value></property>"
            for k, v in values.items()
        )
        (tmp_path / name).write_text(f'<?xml version="1.0"?><configuration>{rows}</configuration>')

    site("core-site.xml", fs__defaultFS="hdfs://ns", io__file__buffer__size="1")
    site(
        "hdfs-site.xml",
        dfs__nameservices="ns",
        dfs__ha__namenodes__ns="a,b",
        dfs__namenode__rpc_address__ns__a="h1:1",
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = hdfs_settings_of(storage_for("hdfs:/x", {"hadoop.dfs.nameservices": "mine"}), "hdfs:/x")
    assert found is not None and found.authority == "ns"
    assert (
        found.config["dfs.ha.namenodes.ns"] == "a,b" and found.config["dfs.nameservices"] == "mine"
    ), "properties come first"
    assert "io.file.buffer.size" not in found.config
    (tmp_path / "core-site.xml").write_text("<configuration")
    with pytest.raises(InvalidInput, match=r"core-site.xml"):
        hdfs_options.of_files()


def test_a_sessions_settings_are_those_of_catalogs_and_of_tables_at_locations() -> None:
    conf = {
        "spark.hadoop.dfs.ha.namenodes.ns": "a,b",
        "spark.hadoop.fs.s3a.endpoint": "x",
        "spark.sql.catalog.c.type": "path",
    }
    assert configuration("c", {}, spark_conf=conf, environ={}).properties == {
        "type": "path",
        "hadoop.dfs.ha.namenodes.ns": "a,b",
    }
    assert store_properties("hdfs://ns/t", {}, conf) == {"hadoop.dfs.ha.namenodes.ns": "a,b"}
    assert store_properties("/t", {}, conf) == {}


def test_a_location_without_a_name_node_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(InvalidInput, match="names no name node") as told:
        storage_for("hdfs:/x").read("hdfs:/x")
    assert "hdfs.host" in (told.value.hint or "")


def test_a_missing_library_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hdfs_native", None)
    with pytest.raises(NotInstalledError) as told:
        storage_for("hdfs://other/x").read("hdfs://other/x")
    assert told.value.hint == 'pip install "frazil[hdfs]"'


def test_a_name_node_that_is_not_there_is_told() -> None:
    with pytest.raises(StorageError) as told:
        storage_for("hdfs://127.0.0.1:1/x", QUICK).read("hdfs://127.0.0.1:1/x")
    assert "could not be reached" in (told.value.hint or "") and "\n" not in told.value.message


# --- with a cluster


@needs_cluster
def test_all_spellings_open_one_file(root: str) -> None:
    host, port = CLUSTER.removeprefix("hdfs://").split(":")
    path = root.removeprefix(CLUSTER)
    storage = storage_for(root, {"hdfs.host": host, "hdfs.port": port})
    storage.write(f"{root}/a/b", b"x")
    for spelled in (
        f"hdfs:{path}/a/b",
        f"hdfs://{path}/a/b",
        f"{CLUSTER}/{path}//a/./b",
        f"HDFS://{host}:{port}{path}/a/b",
    ):
        assert storage.read(spelled) == b"x" and storage.exists(spelled)
    assert [i.location for i in storage.list(f"hdfs:{path}")] == [f"hdfs:{path}/a/b"]


@needs_cluster
def test_a_name_service_with_a_dead_name_node_is_read_and_written() -> None:
    name = f"ns{uuid.uuid4().hex[:6]}"
    nodes = {"a": "127.0.0.1:1", "b": CLUSTER.removeprefix("hdfs://")}
    properties = {
        f"hadoop.dfs.namenode.rpc-address.{name}.{n}": address for n, address in nodes.items()
    }
    properties |= {
        "hadoop.dfs.nameservices": name,
        f"hadoop.dfs.ha.namenodes.{name}": "a,b",
        "hadoop.fs.defaultFS": f"hdfs://{name}",
    }
    path = f"/{uuid.uuid4().hex}/x"
    storage = storage_for(f"hdfs://{name}{path}", properties)
    assert storage.publish(f"hdfs://{name}{path}", b"1") and not storage.publish(
        f"hdfs:{path}", b"2"
    )
    assert storage.read(f"hdfs:{path}") == b"1" == storage_for(CLUSTER).read(f"{CLUSTER}{path}")


@needs_cluster
def test_a_half_written_file_is_never_seen_under_its_name(root: str) -> None:
    storage = storage_for(root)
    with storage.open_output(f"{root}/x") as sink:
        sink.write(os.urandom(3 << 20))
        assert not storage.exists(f"{root}/x") and [
            n.endswith(TEMPORARY) for n in storage.names(root)
        ] == [True]
    assert storage.size(f"{root}/x") == 3 << 20
    with pytest.raises(RuntimeError), storage.open_output(f"{root}/y") as sink:
        sink.write(os.urandom(3 << 20))
        raise RuntimeError
    assert storage.names(root) == ["x"]


@needs_cluster
def test_modes_and_replication_are_those_of_hadoops_configuration() -> None:
    import hdfs_native

    root = hdfs_place()
    storage = storage_for(
        root,
        {
            "hadoop.dfs.replication": "1",
            "hadoop.dfs.blocksize": "1m",
            "hadoop.fs.permissions.umask-mode": "077",
        },
    )
    storage.write(f"{root}/x", os.urandom(5 << 19))
    storage.make_directory(f"{root}/d")
    client = hdfs_native.Client(CLUSTER)
    status = client.get_file_info(root.removeprefix(CLUSTER) + "/x")
    assert (status.permission, status.replication, status.blocksize) == (0o600, 1, 1 << 20)
    assert client.get_file_info(root.removeprefix(CLUSTER) + "/d").permission == 0o700
    assert len(storage.read(f"{root}/x")) == 5 << 19, "a file of several blocks"


@needs_cluster
def test_small_files_do_not_wait_for_the_clients_half_second(root: str) -> None:
    storage = storage_for(root)
    seconds = []
    for i in range(20):
        began = time.monotonic()
        storage.write(f"{root}/{i}", b"x" * 2000)
        seconds.append(time.monotonic() - began)
    assert statistics.median(seconds) < 0.4, "the client alone takes half a second for most of them"
    assert all(storage.read(f"{root}/{i}") == b"x" * 2000 for i in range(20))


@needs_cluster
def test_parts_of_one_file_are_read_by_threads_at_once(root: str) -> None:
    storage = storage_for(root)
    table = pa.table({c: pa.array(range(100_000)) for c in "abcd"})
    with storage.open_output(f"{root}/t.parquet") as sink:
        pq.write_table(table, sink, row_group_size=10_000)
    whole, size = storage.read(f"{root}/t.parquet"), 10_000
    with storage.open_input(f"{root}/t.parquet") as file, ThreadPoolExecutor(8) as pool:
        parts = list(
            pool.map(lambda offset: file.read_at(size, offset), range(0, len(whole), size))
        )
        assert b"".join(parts) == whole
        assert pq.ParquetFile(file, pre_buffer=True).read(use_threads=True).equals(table)
    with storage.open_input(f"{root}/t.parquet") as file:
        file.seek(10**9)
        assert file.read(10) == b"", "reads beyond the end find nothing"


@needs_cluster
@pytest.mark.parametrize(
    "request_name",
    ["create", "addBlock", "complete", "rename2", "getFileInfo", "getBlockLocations"],
)
def test_a_lost_answer_is_made_good(proxy: FaultProxy, request_name: str) -> None:
    root = f"{proxy.uri}/{uuid.uuid4().hex}"
    storage = storage_for(root)
    storage.write(f"{root}/before", b"0")
    proxy.once(request_name, "answer")
    assert storage.publish(f"{root}/v1", b"mine")
    assert storage.exists(f"{root}/v1") and storage.read(f"{root}/v1") == b"mine"
    storage.write(f"{root}/hint", b"1", overwrite=True)
    assert proxy.fired == [(request_name, "answer")]
    assert storage.names(root) == ["before", "hint", "v1"], "nothing temporary is left"


@needs_cluster
def test_what_a_lost_request_left_is_removed_though_the_answer_to_that_is_lost_too(
    proxy: FaultProxy,
) -> None:
    root = f"{proxy.uri}/{uuid.uuid4().hex}"
    storage = storage_for(root)
    storage.write(f"{root}/before", b"0")
    proxy.once("create", "answer")
    proxy.once("delete", "answer")
    assert storage.publish(f"{root}/v1", b"mine")
    assert proxy.fired == [("create", "answer"), ("delete", "answer")] and storage.names(root) == [
        "before",
        "v1",
    ]


@needs_cluster
def test_a_lost_answer_to_a_replacement_is_made_good(proxy: FaultProxy) -> None:
    root = f"{proxy.uri}/{uuid.uuid4().hex}"
    storage = storage_for(root)
    storage.write(f"{root}/hint", b"1")
    proxy.once("rename2", "answer")
    storage.write(f"{root}/hint", b"2", overwrite=True)
    assert (
        proxy.fired == [("rename2", "answer")]
        and storage.read(f"{root}/hint") == b"2"
        and storage.names(root) == ["hint"]
    )


@needs_cluster
def test_a_name_that_is_taken_is_lost_even_when_the_answer_gets_lost(proxy: FaultProxy) -> None:
    root = f"{proxy.uri}/{uuid.uuid4().hex}"
    storage = storage_for(root)
    storage.write(f"{root}/v1", b"theirs")
    proxy.once("rename2", "answer")
    assert not storage.publish(f"{root}/v1", b"mine")
    assert (
        proxy.fired == [("rename2", "answer")]
        and storage.read(f"{root}/v1") == b"theirs"
        and storage.names(root) == ["v1"]
    )


@needs_cluster
def test_an_outcome_that_cannot_be_known_is_told_and_keeps_the_file(
    proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/{uuid.uuid4().hex}/v1"
    storage = storage_for(proxy.uri, QUICK)
    storage.make_directory(f"{proxy.uri}{path.rpartition('/')[0]}")
    proxy.once("rename2", "answer", then_down=True)
    with caplog.at_level(logging.WARNING), pytest.raises(PublishUnclear):
        storage.publish(f"{proxy.uri}{path}", b"mine")
    assert (
        proxy.fired == [("rename2", "answer")]
        and storage_for(CLUSTER).read(f"{CLUSTER}{path}") == b"mine"
    )


@needs_cluster
def test_a_commit_whose_outcome_is_unknown_keeps_its_files(proxy: FaultProxy) -> None:
    warehouse = f"/{uuid.uuid4().hex}"
    catalog = frazil.load_catalog(
        "unknown", type="path", warehouse=f"{proxy.uri}{warehouse}", **QUICK
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.table({"id": pa.array([0], pa.int64())}).schema)
    table.append(pa.table({"id": pa.array([1], pa.int64())}))

    def lose_the_second_rename() -> None:  # the manifest and its list are renamed first
        while (
            len(
                [
                    n
                    for n in storage_for(CLUSTER).names(f"{CLUSTER}{warehouse}/db/t/metadata")
                    if n.startswith("snap-")
                ]
            )
            < 2
        ):
            time.sleep(0.001)
        proxy.once("rename2", "answer", then_down=True)

    watching = threading.Thread(target=lose_the_second_rename)
    watching.start()
    with pytest.raises(Exception) as told:
        table.append(pa.table({"id": pa.array([2], pa.int64())}))
    watching.join()
    assert proxy.fired == [("rename2", "answer")], told.value
    names = storage_for(CLUSTER).names(f"{CLUSTER}{warehouse}/db/t/metadata")
    assert "v3.metadata.json" in names and len([n for n in names if n.startswith("snap-")]) == 2
    assert (
        len([n for n in names if n.endswith("-m0.avro")])
        == 2
        == len(storage_for(CLUSTER).names(f"{CLUSTER}{warehouse}/db/t/data"))
    )


@needs_cluster
@pytest.mark.disk
@(pytest.mark.soak if SOAK else pytest.mark.service)
def test_sixteen_writers_of_a_path_table_lose_nothing(tmp_path: Path) -> None:
    place = f"{hdfs_place()}/t"
    frame = pa.table({"id": pa.array([], pa.int64())})
    catalog = frazil.load_catalog("race", type="path", warehouse=place.rpartition("/")[0])
    patience = {
        "num-retries": "1000",
        "total-timeout-ms": "300000",
        "min-wait-ms": "10",
        "max-wait-ms": "200",
    }
    catalog.create_table(
        ("db", "t"),
        frame.schema,
        properties={f"commit.retry.{key}": value for key, value in patience.items()},
    )
    writers = [
        started(
            append_some, place.rpartition("/")[0], n, ROUNDS, tmp_path / f"ack{n}", place=tmp_path
        )
        for n in range(16)
    ]
    codes = [writer.wait(300) for writer in writers]
    assert codes == [0] * 16, [writer.problems() for writer in writers]
    acknowledged = sorted(
        int(line) for n in range(16) for line in (tmp_path / f"ack{n}").read_text().split()
    )
    table = catalog.load_table(("db", "t"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == acknowledged and len(
        acknowledged
    ) == 16 * ROUNDS == len(table.metadata.snapshots)
    assert not [n for n in table.io.names(f"{table.location()}/metadata") if n.endswith(TEMPORARY)]


def append_some(warehouse: str, number: int, times: int, acknowledged: Path) -> None:
    table = frazil.load_catalog("race", type="path", warehouse=warehouse).load_table(("db", "t"))
    for i in range(times):
        table.append(pa.table({"id": pa.array([number * 1000 + i], pa.int64())}))
        with acknowledged.open("a") as file:
            file.write(f"{number * 1000 + i}\n")


@needs_cluster
def test_orphans_are_found_by_their_times_and_nothing_else_goes(root: str) -> None:
    catalog = frazil.load_catalog("orphans", type="path", warehouse=root)
    table = catalog.create_table(("db", "t"), pa.table({"id": pa.array([], pa.int64())}).schema)
    for i in range(3):
        table.append(pa.table({"id": pa.array([i], pa.int64())}))
    storage = storage_for(root)
    for name in ("data/orphan.parquet", f"metadata/.v9.metadata.json.{uuid.uuid4().hex}.tmp"):
        storage.write(f"{table.location()}/{name}", b"x")
    young = table.maintenance.remove_orphan_files(dry_run=True)
    assert len(young) == 0, "they are younger than three days"
    found = table.maintenance.remove_orphan_files(
        older_than=datetime.now(UTC) + timedelta(seconds=5), allow_short_interval=True
    )
    assert sorted(o.rpartition("/")[2][:6] for o in found.orphan_file_location.to_pylist()) == [
        ".v9.me",
        "orphan",
    ]
    table = catalog.load_table(("db", "t"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


@needs_cluster
def test_missing_files_and_colons_are_told(root: str) -> None:
    storage = storage_for(root)
    with pytest.raises(StorageError) as told:
        storage.write(f"{root}/a:b", b"x")
    assert "colon" in (told.value.hint or "") and "FSNamesystem" not in told.value.message
    storage.write(f"{root}/file", b"x")
    with pytest.raises(NoSuchFileError):
        storage.read(f"{root}/file/below")
    assert storage.names(f"{root}/file") == [] == list(storage.list(f"{root}/file"))


@needs_cluster
@pytest.mark.java
def test_java_iceberg_reads_and_continues_a_table_in_hdfs(java_check: JavaCheck, root: str) -> None:
    catalog = frazil.load_catalog("java", type="path", warehouse=root)
    table = catalog.create_table(
        ("db", "t"),
        pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())}).schema,
    )
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]}))
    table.delete("id = 2")
    code = """
import sys
j = spark._jvm
place = sys.argv[3]
print("READ", sorted((r[0], r[1]) for r in spark.read.format("iceberg").load(place).collect()))
spark.createDataFrame([(4, "d")], "id bigint, v string").write.format("iceberg").mode("append").save(place)
"""
    assert "READ [(1, 'a'), (3, 'c')]" in java_check.run(code, "/tmp", table.location())
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 3, 4]
