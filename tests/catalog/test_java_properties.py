"""Properties that Java's catalogs and stores take: each type of catalog honours one, or refuses it
by name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import load_backend
from frazil.errors import InvalidInput, Unsupported

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    "rest": {"uri": "http://localhost:1"}, "hive": {"uri": "thrift://localhost:1", "warehouse": "s3://b/w"},
    "sql": {"uri": "sqlite://", "warehouse": "s3://b/w"}, "path": {"warehouse": "s3://b/w"},
}  # fmt: skip
CLASSES = (
    "CatalogProperties", "rest.RESTCatalogProperties", "rest.auth.AuthProperties", "rest.auth.OAuth2Properties", "rest.HTTPClient",
    "hive.HiveCatalog", "hive.HiveTableOperations", "hive.MetastoreLock", "hive.HiveOperationsBase", "jdbc.JdbcUtil", "hadoop.HadoopCatalog",
    "aws.s3.S3FileIOProperties", "aws.AwsProperties", "aws.AwsClientProperties", "aws.HttpClientProperties", "azure.AzureProperties",
    "gcp.GCPProperties",
)  # fmt: skip
# Constants of these classes that look like properties and are none: values, names of tags,
# parameters of requests and of databases.
NO_PROPERTIES = {"dsse-kms", "execute-api", "iceberg-view", "iceberg.table", "iceberg.namespace", "referenced-by", *(f"hive.metastore.{n}" for n in (
    "table.owner", "database.owner", "database.owner-type"))}  # fmt: skip
CONSTANTS = """
import json, sys
from py4j.java_gateway import get_field
asm, loader = spark._jvm.org.apache.xbean.asm9, spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
texts = []
for name in sys.argv[-1].split(","):  # read, not loaded: some want the classes of a cloud
    node = asm.tree.ClassNode()
    asm.ClassReader(loader.getResourceAsStream("org/apache/iceberg/" + name.replace(".", "/") + ".class")).accept(node, 0)
    texts += [get_field(field, "value") for field in get_field(node, "fields")]
print("ANSWER" + json.dumps(sorted({t for t in texts if isinstance(t, str)})))
"""


def outcome(kind: str, key: str, value: str = "1") -> InvalidInput | None:
    """What a catalog of that type says of a property; None: it takes it."""
    try:
        load_backend("c", **{"type": kind, **TYPES[kind], key: value}).close()
    except InvalidInput as error:
        return error
    return None


@pytest.mark.java
def test_every_property_of_java_is_documented_or_refused_by_name(java_check: Any) -> None:
    texts = json.loads(
        java_check.run(CONSTANTS, "none", ",".join(CLASSES)).rpartition("ANSWER")[2].splitlines()[0]
    )
    names = {t for t in texts if re.fullmatch(r"[a-z0-9]+([.-][a-z0-9-]+)+\.?", t)} - NO_PROPERTIES
    assert (
        len(names) >= 180
        and {
            "s3.sse.type",
            "rest.client.max-retries",
            "iceberg.hive.lock-timeout-ms",
            "http-client.type",
        }
        <= names
    )
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("catalogs.md", "stores.md"))
    documented = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", pages, flags=re.DOTALL)))
    stems = {d.rstrip("…").partition("<")[0] for d in documented if d.endswith((".…", ">"))} - {""}
    silent, unknown = [], []
    for name in sorted(names):
        key = f"{name}x" if name.endswith(".") else name
        for kind in TYPES.keys() - {"path"} if name == "uri" else TYPES:
            error = outcome(kind, key)
            if (
                error is None
                and name not in documented
                and not any(name.startswith(stem) for stem in stems)
            ):
                silent.append((kind, name))
            if error is not None and (key not in str(error) or "Unknown" in str(error)):
                unknown.append((kind, name, str(error)))
    assert not silent, ", ".join(f"{n} ({k})" for k, n in silent)
    assert not unknown, unknown


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "key",
    [
        "http-client.proxy-endpoint",
        "s3.dualstack-enabled",
        "s3.acceleration-enabled",
        "s3.write.table-tag-enabled",
        "s3.cross-region-access-enabled",
        "s3.access-grants.enabled",
        "client.factory",
        "iceberg.hive.lock-creation-min-wait-ms",
        "iceberg.hive.metadata-refresh-max-retries",
        "metastore.catalog.default",
        "client-pool-cache-keys",
        "glue.id",
        "lakeformation.db-name",
        "kms.endpoint",
        "azure.keyvault.url",
        "gcs.encryption-key",
        "adls.token",
        "rest.client.user-agent",
        "rest-table-cache.max-entries",
        "signer.uri",
        "app-id",
        "lock.table",
    ],
)
def test_what_is_not_served_is_refused_as_javas(kind: str, key: str) -> None:
    error = outcome(kind, key)
    assert isinstance(error, Unsupported) and key in str(error)


def test_a_misspelt_property_of_java_is_told_what_was_meant() -> None:
    assert "Did you mean hive.lock-timeout-ms?" in str(outcome("hive", "hive.lock-timeot-ms"))
    assert "Did you mean iceberg.hive.lock-timeout-ms?" in str(
        outcome("hive", "iceberg.hive.lock-timeot-ms")
    )
    assert "Did you mean" not in str(outcome("rest", "rest.client.user-agent"))
    assert "Did you mean token?" in str(outcome("rest", "tokn"))
