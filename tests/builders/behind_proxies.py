"""Catalogs over real servers and stores, with a fault proxy before each: what `FRAZIL_TEST_…` names
decides which there are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import frazil
from frazil.catalog import Catalog
from frazil.errors import CommitStateUnknownException
from frazil.table import Table
from tests.commit.support import avro_files, needed
from tests.fault_proxy import FaultProxy
from tests.storage.conftest import AZURITE_KEY, azurite_place, hdfs_place, s3_place

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {
    "path": "", "sqlite": "", "local": "", "postgres": "FRAZIL_TEST_POSTGRES", "mariadb": "FRAZIL_TEST_MARIADB", "rest": "FRAZIL_TEST_REST",
    "hive2": "FRAZIL_TEST_HMS2", "hive3": "FRAZIL_TEST_HMS31", "hive4": "FRAZIL_TEST_HMS4", "s3": "FRAZIL_TEST_S3", "hdfs": "FRAZIL_TEST_HDFS",
    "azurite": "FRAZIL_TEST_AZURITE",
}  # fmt: skip
OF_SQL = {
    "commit": "(?<!AUTO)COMMIT",
    "update": "UPDATE iceberg_tables",
    "load": "SELECT metadata_location",
}
OF_OBJECTS = {
    "commit": r"^PUT \S+/v\d+\.metadata\.json", "manifest": r"^(PUT|POST) \S+\.avro", "rows": r"^(PUT|POST) \S+\.parquet",
    "read": r"^GET \S+\.parquet", "load": r"^GET \S+\.metadata\.json",
}  # fmt: skip
OF_HIVE = {"commit": "alter_table_with_environment_context", "load": "get_table_req"}
REQUESTS: dict[str, dict[str, str]] = {
    "postgres": OF_SQL,
    "mariadb": OF_SQL,
    "rest": {"commit": "^POST /v1/namespaces/[^/]+/tables/t ", "load": "^GET /v1/namespaces/[^/]+/tables/t"},
    "hive2": OF_HIVE,
    "hive4": OF_HIVE,
    "s3": OF_OBJECTS,
    "azurite": OF_OBJECTS,
    "hdfs": {"commit": "rename2", "manifest": "addBlock", "rows": "create", "read": "getBlockLocations", "load": "getBlockLocations"},
}  # fmt: skip
"""Requests of a server by what they do, as regular expressions for `FaultProxy.once`."""


def there(kind: str) -> bool:
    """Whether the servers of `catalog-store` run. A metastore is told of S3 in the long form alone
    (`services/with.sh`).
    """
    if kind.startswith("hive") and kind.endswith("-s3") and not os.environ.get("FRAZIL_SOAK"):
        return False
    return all(
        not variable or bool(os.environ.get(variable))
        for variable in map(SERVERS.__getitem__, kind.split("-"))
    )


@contextlib.contextmanager
def rest_server_over(store: str, folder: Path) -> Iterator[str]:
    """Run Java's reference server with its warehouse in the S3 server, in HDFS or in Azurite (`s3`,
    `hdfs`, `azurite`); yield its address.
    """
    script = ROOT / "tests/services/iceberg_rest.sh"
    environment = os.environ | {"PYTHON": sys.executable, **_rest_server_settings(store)}
    started = subprocess.run(
        [script, "start", folder], capture_output=True, text=True, env=environment
    )
    assert started.returncode == 0, started.stderr
    try:
        yield started.stdout.strip()
    finally:
        subprocess.run([script, "stop", folder], check=True, env=environment)


def _rest_server_settings(store: str) -> dict[str, str]:
    match store:
        case "s3":
            place, properties = s3_place()
            keys = {
                "AWS_ACCESS_KEY_ID": properties["s3.access-key-id"],
                "AWS_SECRET_ACCESS_KEY": properties["s3.secret-access-key"],
            }
            return {"WAREHOUSE": place, "S3_ENDPOINT": properties["s3.endpoint"], **keys}
        case "azurite":
            return {
                "WAREHOUSE": azurite_place()[0],
                "AZURITE_ENDPOINT": os.environ["FRAZIL_TEST_AZURITE"],
                "AZURITE_KEY": AZURITE_KEY,
            }
        case _:
            return {"WAREHOUSE": hdfs_place()}


@dataclass
class Behind:
    """One catalog over one store, and the proxies before them, by name (`hive2`, `s3`, …).
    `properties` are those of the catalog.
    """

    kind: str
    properties: dict[str, str]
    proxies: dict[str, FaultProxy] = field(default_factory=dict)

    def catalog(self, name: str = "behind") -> Catalog:
        return frazil.load_catalog(name, **self.properties)  # type: ignore[arg-type]

    def fired(self) -> dict[str, int]:
        return {name: len(proxy.fired) for name, proxy in self.proxies.items()}

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()


def behind_proxies(kind: str, folder: Path, **servers: str) -> Behind:
    """A catalog of `catalog-store`, as in `hive2-hdfs`; `servers` holds addresses other than those
    of the environment, by name.
    """
    catalog, store = kind.split("-")
    addresses = {
        name: servers.get(name) or os.environ[SERVERS[name]]
        for name in (catalog, store)
        if SERVERS[name]
    }
    proxies = {name: FaultProxy(address) for name, address in addresses.items()}
    properties: dict[str, str] = {}
    match store:
        case "s3":
            place, properties = s3_place()
            properties |= {"s3.endpoint": proxies["s3"].uri, "s3.request-timeout": "5"}
        case "azurite":
            place, properties = azurite_place()
            text = properties["adls.connection-string"].replace(
                addresses["azurite"], proxies["azurite"].uri
            )
            properties |= {"adls.connection-string": text}
        case "hdfs":
            place = hdfs_place().replace(addresses["hdfs"], proxies["hdfs"].uri)
        case _:
            place = f"{folder}/{uuid.uuid4().hex}"
    match catalog:
        case "path":
            properties |= {"type": "path", "warehouse": place}
        case "sqlite":
            properties |= {
                "type": "sql",
                "uri": f"sqlite:///{folder}/{uuid.uuid4().hex}.db",
                "warehouse": place,
            }
        case "rest":
            quick = {"rest.client.socket-timeout-ms": "5000"}
            properties |= {"type": "rest", "uri": proxies["rest"].uri, **quick}
        case "hive2" | "hive3" | "hive4":
            quick = {"hive.lock-timeout-ms": "5000", "hive.client.socket-timeout-ms": "5000"}
            properties |= {"type": "hive", "uri": proxies[catalog].uri, "warehouse": place, **quick}
        case "mariadb":  # in plain text, so that the proxy can read it
            properties |= {
                "type": "sql",
                "uri": f"{proxies[catalog].uri}?ssl_disabled=true",
                "warehouse": place,
            }
        case _:
            properties |= {"type": "sql", "uri": proxies[catalog].uri, "warehouse": place}
    return Behind(kind, properties, proxies)


def one_state(table: Table, unknown: list[Exception]) -> None:
    """Assert that each snapshot is there once with all its files, and that no file is left over
    unless an outcome was not known.
    """
    loaded: Any = table._loaded
    store, root = loaded.storage, loaded.metadata.location
    stored = {f.location for f in store.list(root)}
    rows = {str(p) for p in table.inspect.all_files()["file_path"].to_pylist()}
    named = rows | needed(loaded.metadata, loaded)
    if loaded.metadata_location and not root.startswith("memory:"):
        named.add(loaded.metadata_location)
    plain = {p.removeprefix("file://").removeprefix("file:") for p in named}
    have = {p.removeprefix("file://").removeprefix("file:") for p in stored}
    assert plain <= have, f"missing: {sorted(plain - have)}"
    if not any(isinstance(e, CommitStateUnknownException) for e in unknown):
        extra = {f for f in have if f.endswith((".parquet", ".puffin"))} | avro_files(have)
        assert extra <= plain, f"left over: {sorted(extra - plain)}"
