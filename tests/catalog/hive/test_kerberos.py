"""Real Kerberos: tickets of the KDC whose folder is FRAZIL_TEST_KDC, for the metastores
FRAZIL_TEST_HMS2_KERBEROS and _HMS4_KERBEROS.

tests/services/with.sh kdc,hms2_kerberos,hms4_kerberos python -m pytest
tests/catalog/hive/test_kerberos.py
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import Catalog
from frazil.catalog.hive.locks import locks_on, table_lock
from frazil.catalog.hive.sasl import PROTECTIONS
from frazil.errors import StorageError
from tests.catalog.hive.scripted_metastore import scripted_metastore
from tests.conftest import CACHE
from tests.peers import checks

KDC = os.environ.get("FRAZIL_TEST_KDC", "")
HMS2, HMS4 = (
    [os.environ[v]] if os.environ.get(v) else []
    for v in ("FRAZIL_TEST_HMS2_KERBEROS", "FRAZIL_TEST_HMS4_KERBEROS")
)
KERBEROS, PRINCIPAL, PROTECTION = (
    "hive.kerberos-authentication",
    "hive.metastore.kerberos.principal",
    "hadoop.rpc.protection",
)
SERVER = Path(__file__).parents[2] / "services/hms2_kerberos.sh"
Opened = Callable[..., Catalog]

JAVA = """
import json, sys
uri, db, warehouse = sys.argv[-3:]
for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hive"), (".uri", uri), (".warehouse", warehouse), (".cache-enabled", "false")):
    spark.conf.set("spark.sql.catalog.h" + key, value)
tables = sorted(r.tableName for r in spark.sql(f"SHOW TABLES IN h.{db}").collect())
spark.sql(f"INSERT INTO h.{db}.t VALUES (2, 'java')")
spark.sql(f"CREATE TABLE h.{db}.of_java (id bigint) USING iceberg")
spark.sql(f"INSERT INTO h.{db}.of_java VALUES (1)")
print("ANSWER" + json.dumps([tables, sorted([r.id, r.s] for r in spark.table(f"h.{db}.t").collect())]))
"""


@pytest.fixture(autouse=True)
def ticket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keytab of alice, which gets her tickets, and no ticket of other tests."""
    monkeypatch.syspath_prepend(f"{KDC}/python")
    monkeypatch.setattr("frazil.catalog.hive.client._PAUSE", 0)
    for variable in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "HADOOP_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in {
        "KRB5_CONFIG": "krb5.conf",
        "KRB5_CLIENT_KTNAME": "alice.keytab",
    }.items():
        monkeypatch.setenv(variable, f"{KDC}/{value}")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")


@pytest.fixture(params=HMS2 + HMS4)
def uri(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(uri: str, tmp_path: Path) -> Iterator[Opened]:
    """`opened(**{property: value})`: a catalog of the metastore, by a ticket."""
    with contextlib.ExitStack() as stack:

        def catalog(**properties: str) -> Catalog:
            whole = {
                "uri": uri,
                "warehouse": f"{tmp_path}/warehouse",
                KERBEROS: "true",
                **properties,
            }
            return stack.enter_context(frazil.load_catalog("h", type="hive", **whole))

        yield catalog


def mechanism(catalog: Any) -> Any:
    """The mechanism of a connection that is kept."""
    return catalog._backend.store.client._idle[-1]._protocol.trans._mechanism


def with_lifetime(seconds: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tickets are asked for so long."""
    text = (
        Path(KDC, "krb5.conf")
        .read_text()
        .replace("[libdefaults]", f"[libdefaults]\n    ticket_lifetime = {seconds}s")
    )
    (folder / "krb5.conf").write_text(text.replace("    renew_lifetime = 7d\n", ""))
    monkeypatch.setenv("KRB5_CONFIG", f"{folder}/krb5.conf")


def seconds_left() -> int:
    import gssapi

    try:
        return int(gssapi.Credentials(usage="initiate").lifetime)
    except gssapi.exceptions.GSSError:
        return 0


@pytest.mark.parametrize("lock", ["true", "false"])
@pytest.mark.parametrize("protection", [*PROTECTIONS, None])
def test_tables_are_made_changed_merged_renamed_and_dropped_by_a_ticket(
    opened: Opened, db: str, protection: str | None, lock: str
) -> None:
    wanted = {PROTECTION: protection} if protection else {}
    catalog = opened(
        **{"engine.hive.lock-enabled": lock, PRINCIPAL: "hive/_HOST@FRAZIL.TEST", **wanted}
    )
    catalog.create_namespace(db)
    table = catalog.create_table(f"{db}.t", "id bigint, s string")
    assert mechanism(catalog).protection == (protection or "privacy")
    table.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    table.merge(
        [{"id": 2, "s": "c"}, {"id": 3, "s": "d"}], on="target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    table.delete("id = 1")
    catalog.rename_table(f"{db}.t", f"{db}.u")
    again = opened().load_table(f"{db}.u")
    assert sorted(again.scan().to_arrow()["s"].to_pylist()) == ["c", "d"]
    catalog.drop_table(f"{db}.u")
    assert catalog.list_tables(db) == [] and not opened().table_exists(f"{db}.u")
    catalog.drop_namespace(db)


def test_what_is_made_belongs_to_the_user_of_the_ticket_or_of_ugi(
    opened: Opened, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Java, whose client asks Hadoop for the ticket's user: not to that of the process."""
    monkeypatch.setenv("LOGNAME", "somebody")
    catalog: Any = opened()
    catalog.create_namespace(db)
    catalog.create_table(f"{db}.t", "id bigint")
    opened(ugi="carol").create_table(f"{db}.of_carol", "id bigint")
    assert [catalog._backend.store.stored((db, name)).owner for name in ("t", "of_carol")] == [
        "alice",
        "carol",
    ]
    assert catalog.load_namespace_properties(db)["hive.metastore.database.owner"] == "alice"
    with table_lock(catalog._backend.store.client, db, "t"):
        assert [lock.user for lock in locks_on(catalog._backend.store.client, db, "t")] == ["alice"]


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_calls_larger_than_the_buffers_that_both_sides_name_come_through(
    opened: Opened, db: str, protection: str
) -> None:
    catalog = opened(**{PROTECTION: protection})
    catalog.create_namespace(db)
    columns = ", ".join(
        f"a_column_with_a_name_that_is_rather_long_{number} bigint" for number in range(3000)
    )
    catalog.create_table(f"{db}.wide", columns)
    assert mechanism(catalog).protection == protection
    found: Any = opened(**{PROTECTION: protection})
    stored = found._backend.store.stored((db, "wide"))
    assert len(stored.sd.cols) == 3000 and sum(len(c.name) for c in stored.sd.cols) > 2 * 65536


def test_connections_outlive_their_ticket_and_new_ones_need_a_new_one(
    opened: Opened, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_lifetime(3, tmp_path, monkeypatch)
    catalog: Any = opened()
    catalog.create_namespace(db)
    table = catalog.create_table(f"{db}.t", "id bigint")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{tmp_path}/none")
    while seconds_left():
        time.sleep(0.2)
    table.append([{"id": 1}])
    catalog._backend.store.client.close()
    with pytest.raises(
        StorageError, match=r"there is none: .*expired.*kinit.*KRB5_CLIENT_KTNAME"
    ) as refused:
        table.append([{"id": 2}])
    assert type(refused.value) is StorageError, "nothing was committed, and that is known"
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{KDC}/alice.keytab")
    table.append([{"id": 3}])
    assert sorted(opened().load_table(f"{db}.t").scan().to_arrow()["id"].to_pylist()) == [1, 3]


def lifetime_of(context: Any) -> int:
    """How long a context lasts; none where it ended after the last request."""
    try:
        return int(context.lifetime)
    except Exception as error:
        assert type(error).__name__ == "ExpiredContextError"
        return 0


def test_a_keytab_renews_tickets_that_end_in_the_middle_of_a_job(
    opened: Opened, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_lifetime(3, tmp_path, monkeypatch)
    catalog: Any = opened()
    catalog.create_namespace(db)
    table, until, left = (
        catalog.create_table(f"{db}.t", "id bigint"),
        time.monotonic() + 60,
        list[int](),
    )
    while sum(later > earlier for earlier, later in itertools.pairwise(left)) < 2:
        assert time.monotonic() < until, "no two tickets were renewed"
        # so that each commit asks for a connection, which wants a ticket
        catalog._backend.store.client.close()
        table.append([{"id": len(left)}])
        left.append(lifetime_of(mechanism(catalog)._context))
    assert table.scan().count() == len(left)


def test_without_a_ticket_is_told_what_to_do(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{tmp_path}/none")
    with pytest.raises(
        StorageError, match=r"asks for a Kerberos ticket, and there is none: .*kinit.*keytab"
    ):
        opened().list_namespaces()


def test_a_kdc_that_is_away_is_named(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        f"    kdc = 127.0.0.1:{_closed_port()}" if "kdc =" in line else line
        for line in Path(KDC, "krb5.conf").read_text().splitlines()
    ]
    (tmp_path / "krb5.conf").write_text("\n".join(lines))
    monkeypatch.setenv("KRB5_CONFIG", f"{tmp_path}/krb5.conf")
    with pytest.raises(
        StorageError, match=r"Cannot get a Kerberos ticket for hive/localhost: .*KDC.*krb5.conf"
    ):
        opened().list_namespaces()


@pytest.mark.parametrize(
    ("principal", "reason"),
    [
        (
            "nobody/_HOST@FRAZIL.TEST",
            "Server nobody/localhost@FRAZIL.TEST not found in Kerberos database",
        ),
        ("hive/elsewhere@FRAZIL.TEST", "Server hive/elsewhere@FRAZIL.TEST not found"),
        ("hive/_HOST@OTHER.TEST", "OTHER.TEST"),
        ("other/_HOST@FRAZIL.TEST", "the server refuses GSSAPI: GSS initiate failed"),
    ],
)
def test_another_principal_than_the_metastores_is_refused_by_name(
    opened: Opened, principal: str, reason: str
) -> None:
    with pytest.raises(StorageError, match=f"{reason}.*hive.metastore.kerberos.principal"):
        opened(**{PRINCIPAL: principal}).list_namespaces()


def test_of_several_servers_the_next_one_is_asked_under_its_own_name(
    opened: Opened, uri: str
) -> None:
    port = uri.rpartition(":")[2]
    catalog = opened(
        **{
            "uri": f"thrift://127.0.0.1:{_closed_port()},thrift://127.0.0.1:{port},{uri}",
            PRINCIPAL: "hive/_HOST@FRAZIL.TEST",
        }
    )
    assert ("default",) in catalog.list_namespaces(), (
        "hive/127.0.0.1 is no principal, hive/localhost is"
    )
    catalog = opened(uri=f"thrift://127.0.0.1:{port}", **{PRINCIPAL: "hive/localhost@FRAZIL.TEST"})
    assert ("default",) in catalog.list_namespaces()


def test_clients_and_servers_of_different_minds_are_told_so(opened: Opened) -> None:
    with pytest.raises(StorageError, match=r"compare hive\.kerberos-authentication"):
        opened(**{KERBEROS: "false"}).list_namespaces()
    plain = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "a",
        "hive.metastore.client.plain.password": "b",
    }
    with pytest.raises(StorageError, match="refuses PLAIN: Unsupported mechanism type PLAIN"):
        opened(**{KERBEROS: "false", **plain}).list_namespaces()
    with (
        scripted_metastore() as server,
        pytest.raises(StorageError, match=r"compare hive\.kerberos-authentication"),
    ):
        opened(uri=server.uri, **{PRINCIPAL: "hive/localhost"}).list_namespaces()
    assert server.asked == []


@pytest.fixture
def offering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """`offering(layer)`: the address of a metastore of its own that offers this layer alone."""
    with contextlib.ExitStack() as stack:

        def started(layer: str) -> str:
            folder = tmp_path_factory.mktemp(layer)
            env = {**os.environ, "HMS_KDC": KDC, "HMS_QOP": layer, "PYTHON": sys.executable}
            stack.callback(subprocess.run, [SERVER, "stop", folder], check=True, env=env)
            return subprocess.run(
                [SERVER, "start", folder], check=True, env=env, stdout=subprocess.PIPE, text=True
            ).stdout.strip()

        yield started


@pytest.mark.soak
@pytest.mark.parametrize("uri", HMS2)
@pytest.mark.parametrize("layer", PROTECTIONS)
def test_a_layer_is_used_where_both_sides_have_it_and_refused_by_name_elsewhere(
    opened: Opened, layer: str, offering: Callable[[str], str]
) -> None:
    address = offering(layer)
    for protections in (None, layer, f"{','.join(PROTECTIONS)}"):
        catalog = opened(uri=address, **({PROTECTION: protections} if protections else {}))
        assert ("default",) in catalog.list_namespaces() and mechanism(catalog).protection == layer
    for other in PROTECTIONS.keys() - {layer}:
        with pytest.raises(
            StorageError,
            match=f"the server offers {layer}, but hadoop.rpc.protection is {other} here",
        ):
            opened(uri=address, **{PROTECTION: other}).list_namespaces()


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.parametrize("uri", HMS2)
def test_java_and_we_take_turns_by_the_same_ticket(
    opened: Opened, uri: str, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog: Any = opened()
    catalog.create_namespace(db)
    catalog.create_table(f"{db}.t", "id bigint, s string").append([{"id": 1, "s": "us"}])
    _site(
        tmp_path,
        "core-site.xml",
        {"hadoop.security.authentication": "kerberos", PROTECTION: "privacy"},
    )
    _site(
        tmp_path,
        "hive-site.xml",
        {"hive.metastore.sasl.enabled": "true", PRINCIPAL: "hive/_HOST@FRAZIL.TEST"},
    )
    java_environment = {
        "HADOOP_CONF_DIR": str(tmp_path),
        "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={KDC}/krb5.conf",
    }
    with (
        monkeypatch.context() as context,
        contextlib.closing(checks.JavaCheck(checks.environment("java", CACHE / "peers"))) as java,
    ):
        for variable, value in {**java_environment, "KRB5CCNAME": f"{tmp_path}/tickets"}.items():
            context.setenv(variable, value)
        told = java.run(JAVA, uri, db, tmp_path / "warehouse")
    assert json.loads(told.rpartition("ANSWER")[2].splitlines()[0]) == [
        ["t"],
        [[1, "us"], [2, "java"]],
    ]
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    ours: Any = frazil.load_catalog("of_site", type="hive", uri=uri)
    ours.load_table(f"{db}.t").append([{"id": 3, "s": "us"}])
    assert mechanism(ours).protection == "privacy"
    ours.load_table(f"{db}.of_java").append([{"id": 2}])
    assert sorted(catalog.load_table(f"{db}.t").scan().to_arrow()["s"].to_pylist()) == [
        "java",
        "us",
        "us",
    ]
    assert ours.load_table(f"{db}.of_java").scan().count() == 2
    assert [ours._backend.store.stored((db, name)).owner for name in ("t", "of_java")] == [
        "alice",
        "alice",
    ]
    ours.close()


def _site(folder: Path, name: str, values: dict[str, str]) -> None:
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in values.items()
    )
    (folder / name).write_text(f"<configuration>{properties}</configuration>")


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
