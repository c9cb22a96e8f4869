"""What hive-site.xml and a Spark session's Hadoop settings tell of a metastore, after everything
that the catalog itself tells.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

import frazil
from frazil.catalog import load_backend
from frazil.catalog.configuration import configuration
from frazil.catalog.hive.settings import KerberosIdentity, PlainIdentity, Tls
from frazil.catalog.hive.store import HiveStore
from frazil.errors import InvalidInput, Unsupported
from tests.catalog.conftest import HIVE

SERVERS = [os.environ[HIVE["hive2"]]] if os.environ.get(HIVE["hive2"]) else []
SITE = {
    "hive.metastore.uris": "thrift://a:9083,\n thrift://b:9084",
    "hive.metastore.warehouse.dir": "s3a://bucket/hive",
    "hive.metastore.client.socket.timeout": "10 min",
    "iceberg.hive.lock-timeout-ms": "7000",
    "iceberg.engine.hive.lock-enabled": "false",
    "javax.jdo.option.ConnectionPassword": "hunter2",
}


def site(folder: Path, values: Mapping[str, str], name: str = "hive-site.xml") -> dict[str, str]:
    """Write a file of Hadoop's configuration; an environment that names its folder and no other
    place.
    """
    folder.mkdir(exist_ok=True)
    entries = "".join(
        f"<property><name>{k}</name><value>{escape(v)}</value></property>"
        for k, v in values.items()
    )
    (folder / name).write_text(f"<?xml version='1.0'?><configuration>{entries}</configuration>")
    return {
        "HIVE_CONF_DIR": str(folder),
        "FRAZIL_HOME": str(folder),
        "PYICEBERG_HOME": str(folder),
        "HOME": str(folder),
    }


def found(
    env: Mapping[str, str], spark_conf: Mapping[str, str] | None = None, **given: Any
) -> dict[str, str]:
    return configuration(
        "h", {"type": "hive", **given}, spark_conf=spark_conf, environ=env
    ).properties


def test_the_file_tells_what_the_catalog_does_not(tmp_path: Path) -> None:
    env = site(tmp_path, SITE)
    backend = load_backend(
        "h",
        type="hive",
        environ=env,
        **{"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"},
    )
    assert isinstance(backend.store, HiveStore)
    settings = backend.store.settings
    assert (
        settings.addresses == (("a", 9083), ("b", 9084))
        and backend.namespaces.warehouse == "s3a://bucket/hive"
    )
    assert (settings.read_timeout, settings.lock_timeout, settings.lock_enabled) == (600, 7, False)
    assert "hunter2" not in str(backend.properties)
    config = configuration("h", {"type": "hive"}, environ=env)
    assert config.sources["uri"] == str(tmp_path / "hive-site.xml") == config.looked_in[-1]
    for of_hive in (
        {"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"},
        {"uri": "thrift://c:1"},
    ):
        assert (
            configuration("h", of_hive, environ=env).properties["warehouse"] == "s3a://bucket/hive"
        )
    assert configuration(
        "h", {"type": "sql", "uri": "thrift://c:1"}, environ=env
    ).properties.keys() == {"type", "uri"}


def test_the_session_comes_first_and_the_catalogs_own_properties_before_both(
    tmp_path: Path,
) -> None:
    env = site(tmp_path, SITE)
    session = {
        "spark.sql.catalog.h.type": "hive",
        "spark.hadoop.hive.metastore.uris": "thrift://s:1",
        "spark.hadoop.iceberg.hive.lock-timeout-ms": "9",
        "spark.hadoop.hive.metastore.client.socket.timeout": "5",
        "spark.hadoop.other": "x",
    }
    told = found(env, session)
    assert (
        told["uri"],
        told["iceberg.hive.lock-timeout-ms"],
        told["iceberg.hive.client.socket-timeout-ms"],
    ) == ("thrift://s:1", "9", "5000")
    assert told["warehouse"] == "s3a://bucket/hive" and "other" not in told
    given = {
        "uri": "thrift://g:1",
        "warehouse": "/w",
        "hive.lock-timeout-ms": "1",
        "hive.client.socket-timeout-ms": "2",
    }
    backend: Any = load_backend("h", spark_conf=session, environ=env, **given)
    assert backend.store.settings.addresses == (
        ("g", 1),
    ) and backend.namespaces.warehouse.endswith("/w")
    assert (backend.store.settings.lock_timeout, backend.store.settings.read_timeout) == (
        0.001,
        0.002,
    )


def test_folders_are_looked_through_in_order_and_a_changed_file_is_read_again(
    tmp_path: Path,
) -> None:
    env = site(tmp_path / "spark", {"hive.metastore.uris": "thrift://spark:1"})
    env["SPARK_CONF_DIR"] = env.pop("HIVE_CONF_DIR")
    assert found(env)["uri"] == "thrift://spark:1"
    env["HADOOP_CONF_DIR"] = site(
        tmp_path / "hadoop", {"hive.metastore.uris": "thrift://hadoop:1"}
    )["HIVE_CONF_DIR"]
    assert found(env)["uri"] == "thrift://hadoop:1"
    site(tmp_path / "hadoop", {"hive.metastore.uris": "thrift://changed:1"})
    assert found(env)["uri"] == "thrift://changed:1"
    (tmp_path / "none").mkdir()
    env["HIVE_CONF_DIR"] = str(tmp_path / "none")
    assert found(env)["uri"] == "thrift://changed:1", "a folder without the file is passed over"


def test_who_asks_and_whether_by_tls_is_told_by_the_file_but_no_password(tmp_path: Path) -> None:
    secure = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM",
    }
    backend = load_backend(
        "h", type="hive", environ=site(tmp_path, {**SITE, **secure}), warehouse="/w"
    )
    assert isinstance(backend.store, HiveStore)
    assert backend.store.settings.identity == KerberosIdentity(
        "hms", None, "EXAMPLE.COM"
    ) and backend.store.settings.tls == Tls(None, None, None)
    plain = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "me",
        "hive.metastore.client.plain.password": "no",
    }
    password = {"hive.metastore.client.plain.password": "s3cr3t"}
    backend = load_backend(
        "h", type="hive", environ=site(tmp_path, {**SITE, **plain}), warehouse="/w", **password
    )
    assert isinstance(
        backend.store, HiveStore
    ) and backend.store.settings.identity == PlainIdentity("me", "s3cr3t")
    assert "s3cr3t" not in repr(backend) + repr(backend.store.settings)


def test_what_hadoop_says_of_the_protection_of_calls_counts_where_kerberos_does(
    tmp_path: Path,
) -> None:
    env = {**site(tmp_path, SITE), "HADOOP_CONF_DIR": str(tmp_path)}
    site(tmp_path, {"hadoop.rpc.protection": "privacy"}, "core-site.xml")
    session = {"spark.hadoop.hadoop.rpc.protection": "integrity"}
    assert "hadoop.rpc.protection" not in found(env, session)
    asked = {"hive.kerberos-authentication": "true"}
    assert found(env, **asked)["hadoop.rpc.protection"] == "privacy"
    assert found(env, session, **asked)["hadoop.rpc.protection"] == "integrity"
    site(
        tmp_path,
        {**SITE, "hive.metastore.sasl.enabled": "true", "hadoop.rpc.protection": "authentication"},
    )
    assert found(env)["hadoop.rpc.protection"] == "authentication"


def test_a_warehouse_without_a_scheme_lies_in_the_default_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = site(tmp_path, {"hive.metastore.warehouse.dir": "/user/hive/warehouse"})
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
    assert found(env)["warehouse"] == "/user/hive/warehouse"
    site(tmp_path, {"fs.defaultFS": "hdfs://nn:8020/"}, "core-site.xml")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert found(env)["warehouse"] == "hdfs://nn:8020/user/hive/warehouse"
    assert (
        found(env, **{"hadoop.fs.defaultFS": "hdfs://other"})["warehouse"]
        == "hdfs://other/user/hive/warehouse"
    )
    assert found(env, **{"hadoop.fs.defaultFS": "file:///"})["warehouse"] == "/user/hive/warehouse"


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        (
            {"hive.metastore.uris": "${hive.host}"},
            Unsupported,
            "hive.metastore.uris of .*hive-site.xml refers to a variable.*property uri",
        ),
        (
            {"hive.metastore.client.socket.timeout": "²s"},
            InvalidInput,
            "socket.timeout of .*hive-site.xml must be a time",
        ),
        (
            {"hive.metastore.client.socket.timeout": "2 moons"},
            InvalidInput,
            "must be a time such as 600s",
        ),
    ],
)
def test_values_that_cannot_be_taken_are_named_with_their_file(
    tmp_path: Path, values: dict[str, str], kind: type[Exception], told: str
) -> None:
    env = site(tmp_path, values)
    with pytest.raises(kind, match=told):
        found(env)
    given = {
        "uri": "thrift://given",
        "hive.client.socket-timeout-ms": "1",
        "iceberg.hive.client.socket-timeout-ms": "1",
    }
    assert found(env, **given)["uri"] == "thrift://given", "what is not needed is not looked at"


def test_a_file_that_cannot_be_read_and_a_missing_one_are_told(tmp_path: Path) -> None:
    env = site(tmp_path, {})
    with pytest.raises(InvalidInput, match="lacks the key uri.*Looked in .*hive-site.xml"):
        load_backend("h", type="hive", environ=env)
    (tmp_path / "hive-site.xml").unlink()
    with pytest.raises(InvalidInput, match=r"lacks the key uri.*hive-site.xml \(none found\)"):
        load_backend("h", type="hive", environ=env)
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(InvalidInput, match="hive-site.xml cannot be read"):
        load_backend("h", type="hive", environ=env)


@pytest.mark.parametrize("text", ["²", "1_000", "+5", "1e3", "0", "99999999999"])
def test_numbers_are_digits(text: str) -> None:
    with pytest.raises(InvalidInput, match="hive.lock-timeout-ms must be a number from 1 to"):
        load_backend("h", type="hive", uri="thrift://a", **{"hive.lock-timeout-ms": text})


@pytest.mark.parametrize("uri", SERVERS)
def test_a_catalog_is_opened_by_its_type_alone(
    uri: str, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "hive.metastore.uris": uri,
        "hive.metastore.warehouse.dir": f"{tmp_path}/warehouse",
        "iceberg.engine.hive.lock-enabled": "false",
    }
    monkeypatch.setenv("HIVE_CONF_DIR", site(tmp_path, values)["HIVE_CONF_DIR"])
    with frazil.load_catalog("of_site", type="hive") as catalog:
        catalog.create_namespace(db)
        table = catalog.create_table(f"{db}.t", "id bigint")
        table.append([{"id": 1}])
        assert (
            table.location().endswith(f"{tmp_path}/warehouse/{db}.db/t")
            and table.scan().count() == 1
        )
