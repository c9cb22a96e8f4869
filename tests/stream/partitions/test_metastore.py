"""The policy `metastore`: complete partitions of a plain folder are added to a real Hive Metastore
(FRAZIL_TEST_HMS2, FRAZIL_TEST_HMS4).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog.hive import calls
from frazil.catalog.hive.partitions import partitioned_table
from frazil.catalog.hive.structs import (
    EnvironmentContext,
    FieldSchema,
    GetTableResult,
    HivePartition,
    HiveTable,
    SerDeInfo,
    ServerException,
    SkewedInfo,
    SortColumn,
    StorageDescriptor,
)
from frazil.errors import InvalidInput, NoSuchTableError, StorageError, Unsupported
from tests.catalog.hive.scripted_metastore import answer, scripted_metastore
from tests.catalog.hive.test_security import plain_guard
from tests.fault_proxy import FaultProxy, Fired
from tests.stream.partitions.support import KIND
from tests.stream.partitions.test_directories import FileStream, rows

KERBERISED, ASKING = (
    [os.environ[v] for v in variables if os.environ.get(v)]
    for variables in (
        ("FRAZIL_TEST_HMS2_KERBEROS", "FRAZIL_TEST_HMS4_KERBEROS"),
        ("FRAZIL_TEST_HMS4_PLAIN",),
    )
)
METASTORES = [os.environ[v] for v in ("FRAZIL_TEST_HMS2", "FRAZIL_TEST_HMS4") if os.environ.get(v)]
PREFIX = "sink.partition-commit.metastore."
URI, TABLE = f"{PREFIX}uri", f"{PREFIX}table"
PLAIN = {
    "hive.metastore.client.auth.mode": "PLAIN", "hive.metastore.client.plain.username": "me", "hive.metastore.client.plain.password": "hunter2",
}  # fmt: skip


def stored_table(db: str, folder: Path) -> HiveTable:
    """A table of Hive's own, partitioned by `dt`, over a folder."""
    serde = SerDeInfo(
        serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        parameters={},
    )
    formats = StorageDescriptor(
        [FieldSchema("id", "bigint")],
        f"file:{folder}",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        False,
        0,
        serde,
        [],
        {},
    )
    keys = [FieldSchema("dt", "string")]
    return HiveTable(
        "events", db, "us", 1, 1, 0, formats, keys, {"EXTERNAL": "TRUE"}, tableType="EXTERNAL_TABLE"
    )


class HiveFolder:
    """Such a table in a metastore. `access`: the properties that tell who asks there."""

    def __init__(self, uri: str, folder: Path, access: dict[str, str] | None = None):
        self.uri, self.db, self.access = uri, f"p{uuid.uuid4().hex[:10]}", access or {}
        catalog: Any = frazil.load_catalog(
            "h", type="hive", uri=uri, warehouse=f"{folder.parent}/warehouse", **self.access
        )
        catalog.create_namespace(self.db)
        catalog.create_table(f"{self.db}.iceberg", "id bigint")
        self.client = catalog._backend.store.client
        self.client.ask(calls.CREATE_TABLE, stored_table(self.db, folder), EnvironmentContext({}))

    def options(self, table: str = "events") -> dict[str, Any]:
        access = {PREFIX + key: value for key, value in self.access.items()}
        return {
            KIND: "metastore,success-file",
            URI: self.uri,
            TABLE: f"{self.db}.{table}",
            **access,
        }

    def partition(self, value: str) -> HivePartition:
        found: HivePartition = self.client.ask(calls.GET_PARTITION, self.db, "events", [value])
        return found


@pytest.fixture(params=METASTORES)
def hive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HiveFolder]:
    made = HiveFolder(request.param, tmp_path / "events")
    yield made
    made.client.close()


def test_complete_partitions_are_added_and_updated_when_they_are_committed_again(
    hive: HiveFolder, tmp_path: Path
) -> None:
    stream = FileStream(tmp_path / "events", hive.options())
    assert stream.batch(0, rows([1, 2, 3], ["a", "b/c", None])) == ()
    found = {value: hive.partition(value) for value in ("a", "b/c", "__HIVE_DEFAULT_PARTITION__")}
    for partition in found.values():
        assert partition.sd is not None and partition.sd.location is not None
        place = Path(partition.sd.location.removeprefix("file:"))
        assert place.parent == tmp_path / "events" and list(place.glob("*.parquet"))
        assert (
            partition.sd.inputFormat
            == "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
        )
    first = found["a"]
    assert first.sd is not None
    first.sd.bucketCols, first.sd.numBuckets, first.sd.sortCols = ["id"], 4, [SortColumn("id", 0)]
    first.sd.skewedInfo = SkewedInfo(["id"], [["7"]], {("7",): f"{first.sd.location}/id=7"})
    hive.client.ask(
        calls.ALTER_PARTITION,
        hive.db,
        "events",
        HivePartition(**{**vars(first), "parameters": {"kept": "1", "transient_lastDdlTime": "1"}}),
    )
    assert stream.batch(1, rows([4], "a")) == ()
    again = hive.partition("a")
    assert (again.parameters or {})["kept"] == "1" and int(
        (again.parameters or {})["transient_lastDdlTime"]
    ) > 1
    assert (
        stream.times("a") == 2 and again.sd is not None and again.sd.location == first.sd.location
    )
    kept = again.sd.bucketCols, again.sd.numBuckets, again.sd.sortCols, again.sd.skewedInfo
    assert kept == (["id"], 4, [SortColumn("id", 0)], first.sd.skewedInfo), (
        "what others have set of how it is stored stays"
    )


def test_a_metastore_that_is_away_leaves_the_partition_pending_until_it_is_back(
    hive: HiveFolder, tmp_path: Path
) -> None:
    stream = FileStream(tmp_path / "events", hive.options())
    object.__setattr__(stream.chosen, "metastore_uri", "thrift://127.0.0.1:1")
    failures = stream.batch(0, rows([1], "a"))
    assert [(f.partition, f.policy) for f in failures] == [
        ("dt=a", "metastore")
    ] and stream.pending == {"a"}
    object.__setattr__(stream.chosen, "metastore_uri", hive.uri)
    assert stream.batch(1, rows([2], "b")) == () and stream.pending == set()
    assert hive.partition("a").values == ["a"] and hive.partition("b").values == ["b"]


@pytest.mark.parametrize("fault", ["answer", "call", "truncated", "slow close"])
@pytest.mark.parametrize("call", ["get_partition", "add_partition", "alter_partition"])
def test_whatever_happens_to_a_call_the_partition_is_there_when_the_next_batch_has_come(
    hive: HiveFolder, tmp_path: Path, call: str, fault: str
) -> None:
    proxy = FaultProxy(hive.uri)
    stream = FileStream(tmp_path / "events", {**hive.options(), URI: proxy.uri})
    before = 1 if call == "alter_partition" else 0
    if before:
        assert stream.batch(0, rows([0], "a")) == ()
        (tmp_path / "events/dt=a/_SUCCESS").unlink()
    proxy.once(call, fault)
    failures = stream.batch(1, rows([1], "a"))
    assert proxy.fired == [Fired(call, fault)]
    done = (tmp_path / "events/dt=a/_SUCCESS").exists()
    if failures:
        assert call != "get_partition" or fault == "slow close", (
            "what only reads is asked again; a slow close swallows the next call"
        )
        assert (
            [f.policy for f in failures] == ["metastore"] and stream.pending == {"a"} and not done
        ), "the next policy waits for this one"
    else:
        assert done and stream.pending == set()
    assert stream.batch(2, rows([2], "b")) == () and stream.pending == set()
    assert (tmp_path / "events/dt=a/_SUCCESS").exists() and stream.times("a") == before + 1
    for value in ("a", "b"):
        partition = hive.partition(value)
        assert partition.sd is not None and str(partition.sd.location).endswith(f"/dt={value}")
    proxy.close()


def test_queries_that_add_one_partition_at_the_same_time_all_succeed(
    hive: HiveFolder, tmp_path: Path
) -> None:
    place = f"file:{tmp_path}/events/dt=a"

    def announce(_: int) -> None:
        with partitioned_table(hive.uri, f"{hive.db}.events") as table:
            table.announce(["a"], place)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(announce, range(24)))
    partition = hive.partition("a")
    assert partition.sd is not None and partition.sd.location == place


def test_what_cannot_work_is_told_before_the_query_starts(hive: HiveFolder, tmp_path: Path) -> None:
    with pytest.raises(NoSuchTableError, match="nowhere"):
        FileStream(tmp_path / "events", hive.options("nowhere"))
    with pytest.raises(InvalidInput, match="no table of Hive's own"):
        FileStream(tmp_path / "events", hive.options("iceberg"))
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1"):
        FileStream(tmp_path / "events", {**hive.options(), URI: "thrift://127.0.0.1:1"})


def test_a_metastore_that_asks_for_a_user_and_password_is_told_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.catalog.hive.client._PAUSE", 0)
    access = {PREFIX + key: value for key, value in PLAIN.items()}
    with scripted_metastore(plain_guard) as server:
        server.answers = {
            "get_table_req": answer(
                "get_table_req", success=GetTableResult(stored_table("db", tmp_path / "events"))
            ),
            "get_partition": answer("get_partition", NoSuchObjectException=ServerException("none")),
            "add_partition": answer("add_partition", success=HivePartition(["a"], "db", "events")),
        }
        options = {KIND: "metastore", URI: server.uri, TABLE: "db.events"}
        with pytest.raises(StorageError, match="compare .*auth.mode"):
            FileStream(tmp_path / "events", options)
        assert server.asked == []
        stream = FileStream(tmp_path / "events", {**options, **access})
        assert stream.batch(0, rows([1], "a")) == () and server.asked[-2:] == [
            "get_partition",
            "add_partition",
        ]
        assert "hunter2" not in repr(stream.chosen)
        with pytest.raises(StorageError, match="Error validating the login"):
            FileStream(
                tmp_path / "events",
                {**options, **access, f"{PREFIX}hive.metastore.client.plain.password": "wrong"},
            )


@pytest.mark.parametrize("uri", ASKING)
def test_a_real_metastore_that_asks_for_a_user_and_password_is_told_them(
    uri: str, tmp_path: Path
) -> None:
    hive = HiveFolder(uri, tmp_path / "events", PLAIN)
    stream = FileStream(tmp_path / "events", hive.options())
    assert stream.batch(0, rows([1, 2], ["a", "b"])) == () and hive.partition("b").values == ["b"]
    hive.client.close()
    with pytest.raises(StorageError, match="Error validating the login"):
        FileStream(
            tmp_path / "events",
            {**hive.options(), f"{PREFIX}hive.metastore.client.plain.password": "wrong"},
        )


@pytest.mark.parametrize("uri", KERBERISED)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_metastore_that_asks_for_a_ticket_gets_one(
    uri: str, by_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdc = os.environ["FRAZIL_TEST_KDC"]
    monkeypatch.syspath_prepend(f"{kdc}/python")
    for variable, value in {
        "KRB5_CONFIG": f"{kdc}/krb5.conf",
        "KRB5_CLIENT_KTNAME": f"{kdc}/alice.keytab",
        "KRB5CCNAME": f"{tmp_path}/t",
    }.items():
        monkeypatch.setenv(variable, value)
    hive = HiveFolder(uri, tmp_path / "events", {"hive.kerberos-authentication": "true"})
    if by_file:
        monkeypatch.setenv("HIVE_CONF_DIR", kdc)
        hive.access = {}
    stream = FileStream(tmp_path / "events", hive.options())
    assert stream.batch(0, rows([1, 2], ["a", "b"])) == () and hive.partition("b").values == ["b"]
    assert stream.batch(1, rows([3], "a")) == () and stream.times("a") == 2
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{tmp_path}/none")
    monkeypatch.setenv("KRB5CCNAME", f"{tmp_path}/empty")
    (failure,) = stream.batch(2, rows([4], "c"))
    assert failure.policy == "metastore" and stream.pending == {"c"}
    monkeypatch.setenv("KRB5CCNAME", f"{tmp_path}/t")
    assert (
        stream.batch(3, rows([5], "d")) == ()
        and stream.pending == set()
        and hive.partition("c").values == ["c"]
    )
    hive.client.close()


def test_iceberg_tables_refuse_it_by_name() -> None:
    from frazil.stream.partitions.commit_hook import partition_commit_of

    with pytest.raises(Unsupported, match="policy metastore is for plain folders"):
        partition_commit_of({KIND: "metastore", URI: "thrift://a:9083", TABLE: "db.t"})
