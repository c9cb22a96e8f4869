"""The stores that the contract is run over: local disk, memory, and S3, HDFS, Google and Azure
where FRAZIL_TEST_S3, _HDFS, _GCS, _AZURITE name a server.
"""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest
import urllib3

from frazil.storage import Storage, storage_for

KINDS = [
    "local",
    "memory",
    *(
        kind
        for kind in ("s3", "hdfs", "gcs", "azurite")
        if os.environ.get(f"FRAZIL_TEST_{kind.upper()}")
    ),
]


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.soak) if kind == "gcs" else kind for kind in KINDS]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """(storage, an empty directory in it)"""
    match request.param:
        case "local":
            yield storage_for(str(tmp_path)), str(tmp_path / "root")
        case "memory":
            location = f"memory://{uuid.uuid4().hex}/root"
            yield storage_for(location), location
        case "hdfs":
            location = hdfs_place()
            yield storage_for(location), location
        case "gcs":
            location, properties = gcs_place()
            yield storage_for(location, properties), location
        case "azurite":
            location, properties = azurite_place()
            yield storage_for(location, properties), location
        case _:
            location, properties = s3_place()
            yield storage_for(location, properties), location


def hdfs_place() -> str:
    """An unused directory in the cluster that FRAZIL_TEST_HDFS names, as in hdfs://127.0.0.1:9000."""
    return f"{os.environ['FRAZIL_TEST_HDFS']}/{uuid.uuid4().hex}"


def s3_place() -> tuple[str, dict[str, str]]:
    """FRAZIL_TEST_S3 is an endpoint; the bucket frazil-test is made when it is missing."""
    properties = {
        "s3.endpoint": os.environ["FRAZIL_TEST_S3"],
        "s3.access-key-id": os.environ.get("FRAZIL_TEST_S3_ACCESS_KEY", "testuser"),
        "s3.secret-access-key": os.environ.get("FRAZIL_TEST_S3_SECRET_KEY", "testtest"),
        "s3.path-style-access": "true",
    }
    _make_bucket(
        properties["s3.endpoint"],
        properties["s3.access-key-id"],
        properties["s3.secret-access-key"],
    )
    return f"s3://frazil-test/{uuid.uuid4().hex}", properties


def gcs_place() -> tuple[str, dict[str, str]]:
    """FRAZIL_TEST_GCS is an endpoint of fake-gcs-server (services/gcs.sh); the bucket frazil-test
    is made when it is missing.
    """
    endpoint = os.environ["FRAZIL_TEST_GCS"]
    asked = urllib3.request("POST", f"{endpoint}/storage/v1/b", json={"name": "frazil-test"})
    assert asked.status in (200, 409), asked.data
    return f"gs://frazil-test/{uuid.uuid4().hex}", {
        "gcs.service.host": endpoint,
        "gcs.oauth2.token": "any",
    }


AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # published, the same everywhere


def azurite_place() -> tuple[str, dict[str, str]]:
    """FRAZIL_TEST_AZURITE is an endpoint of Azurite; the container frazil-test is made when it is
    missing.
    """
    endpoint = os.environ["FRAZIL_TEST_AZURITE"]
    account = "devstoreaccount1"
    text = f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={AZURITE_KEY};BlobEndpoint={endpoint}/{account};"
    _make_container(endpoint.removeprefix("http://"), account)
    return f"abfss://frazil-test@{account}.dfs.core.windows.net/{uuid.uuid4().hex}", {
        "adls.connection-string": text
    }


# Azurite cuts some of its answers when the container is there already, which costs pyarrow half a
# minute
@functools.cache
def _make_container(host: str, account: str) -> None:
    pyarrow.fs.AzureFileSystem(
        account,
        account_key=AZURITE_KEY,
        blob_storage_authority=host,
        blob_storage_scheme="http",
        dfs_storage_authority=host,
        dfs_storage_scheme="http",
    ).create_dir("frazil-test")


@functools.cache
def _make_bucket(endpoint: str, access_key: str, secret_key: str) -> None:
    pyarrow.fs.S3FileSystem(
        endpoint_override=endpoint,
        access_key=access_key,
        secret_key=secret_key,
        region="us-east-1",
        allow_bucket_creation=True,
    ).create_dir("frazil-test")
