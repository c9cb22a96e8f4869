"""Requests that a catalog's server signs, at a store that verifies each signature: VersityGW."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from frazil.catalog import Catalog
from frazil.errors import NoSuchFileError, StorageError
from frazil.storage import Storage, storage_for
from frazil.storage.objects.signed import SignedAccessError, SignedStorage
from tests.builders.one_table import one_table
from tests.builders.s3_signer import S3Signer
from tests.builders.store_work import write_and_read
from tests.catalog.rest.conftest import Server

pytestmark = [pytest.mark.soak, pytest.mark.service]
VERSITYGW = Path(__file__).resolve().parents[2] / "services/versitygw.sh"
SIGNING = {"config": {"s3.remote-signing-enabled": "true"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, environment = (
        tmp_path_factory.mktemp("versitygw"),
        os.environ | {"PYTHON": sys.executable},
    )
    started = subprocess.run(
        [VERSITYGW, "start", folder], capture_output=True, text=True, env=environment
    )
    if started.returncode == 77:
        pytest.skip(started.stderr.strip().splitlines()[-1])
    assert started.returncode == 0, started.stderr
    endpoint = started.stdout.strip()
    pyarrow.fs.S3FileSystem(
        endpoint_override=endpoint,
        access_key="testuser",
        secret_key="testtest",
        region="us-east-1",
        allow_bucket_creation=True,
    ).create_dir("frazil-test")
    yield endpoint
    subprocess.run([VERSITYGW, "stop", folder], check=True, env=environment)


@pytest.fixture
def signer() -> S3Signer:
    return S3Signer("testuser", "testtest")


@pytest.fixture
def catalog(server: Server, store: str, signer: S3Signer) -> Iterator[Catalog]:
    properties = {"write.delete.mode": "merge-on-read", "write.target-file-size-bytes": "1000000"}
    with one_table(
        server, store, f"s3://frazil-test/{uuid.uuid4().hex}/t", lambda: SIGNING, properties
    ) as catalog:
        server.on("POST /v1/aws/s3/sign", signer)
        yield catalog


def storage_of(catalog: Catalog) -> tuple[Storage, str]:
    table = catalog.load_table("db.t")
    storage = table._loaded.storage
    assert isinstance(storage.of(table.location()), SignedStorage)
    return storage, f"{table.location()}/data"


def test_a_table_is_written_changed_read_and_cleaned_without_keys(
    catalog: Catalog, signer: S3Signer
) -> None:
    table = catalog.load_table("db.t")
    table.append(pa.table({"id": pa.array(range(100_000), pa.int64())}))
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    table.delete("id < 10")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(10, 100_000))
    assert table.scan(row_filter="id = 77").count() == 1
    storage, data = storage_of(catalog)
    storage.write(f"{data}/nobody-knows.parquet", b"x")
    time.sleep(1.1)  # the store's times are of whole seconds
    found = table.maintenance.remove_orphan_files(
        older_than=int(time.time() * 1000), allow_short_interval=True
    )
    assert (
        found.orphan_file_location.to_pylist() == [f"{data}/nobody-knows.parquet"]
        and found.files_not_deleted == 0
    )
    assert not storage.exists(f"{data}/nobody-knows.parquet") and table.scan().count() == 99_990
    assert {method for method, _ in signer.signed} >= {"GET", "PUT", "HEAD", "DELETE"}


def test_every_kind_of_request_passes_the_stores_verification(
    catalog: Catalog, signer: S3Signer
) -> None:
    storage, data = storage_of(catalog)
    odd = f"{data}/a b+c=ä&d%20'(x)*!~$.bin"
    write_and_read(storage, odd, data)
    storage.write(f"{data}/p=1/x", b"1")
    assert sorted(info.location for info in storage.list(data)) == sorted(
        [odd, f"{data}/large", f"{data}/p=1/x"]
    )
    assert storage.directories(data) == ["p=1"] and sorted(storage.names(data, after="b")) == [
        "large",
        "p=1",
    ]
    storage.delete(odd)
    with pytest.raises(NoSuchFileError):
        storage.read(odd)
    assert (
        storage.delete_many([f"{data}/large", f"{data}/p=1/x"]) == []
        and list(storage.list(data)) == []
    )
    kinds = {
        (method, "uploadId" in query, "uploads" in query, "list-type" in query)
        for method, _, query in (
            (method, *address.partition("?")[::2]) for method, address in signer.signed
        )
    }
    plain, begun, of_upload, listed = (
        (False, False, False),
        (False, True, False),
        (True, False, False),
        (False, False, True),
    )
    assert kinds == {
        ("GET", *plain),
        ("HEAD", *plain),
        ("PUT", *plain),
        ("DELETE", *plain),
        ("POST", *begun),
        ("PUT", *of_upload),
        ("POST", *of_upload),
        ("DELETE", *of_upload),
        ("GET", *listed),
    }


def test_a_listing_of_several_pages_is_signed_page_by_page(
    catalog: Catalog, signer: S3Signer
) -> None:
    storage, data = storage_of(catalog)
    for n in range(1003):
        storage.write(f"{data}/{n:04d} +", b"")
    before = len(signer.signed)
    assert [info.location.rpartition("/")[2] for info in storage.list(data)] == [
        f"{n:04d} +" for n in range(1003)
    ]
    assert len(signer.signed) - before == 2 and "continuation-token" in signer.signed[-1][1]


@pytest.mark.parametrize("wrong", ["secret", "key", "signature"])
def test_what_is_not_signed_by_the_stores_own_keys_is_refused(
    server: Server, catalog: Catalog, signer: S3Signer, wrong: str
) -> None:
    storage, data = storage_of(catalog)
    storage.write(f"{data}/x", b"x")

    def altered(asked: Any) -> tuple[int, Any]:
        status, answer = signer(asked)
        (told,) = answer["headers"]["Authorization"]
        answer["headers"]["Authorization"] = [told[:-1] + ("0" if told[-1] != "0" else "1")]
        return status, answer

    changed = {
        "secret": S3Signer("testuser", "testtesx"),
        "key": S3Signer("nobody", "testtest"),
        "signature": altered,
    }
    server.on("POST /v1/aws/s3/sign", changed[wrong])
    for ask in (
        lambda: storage.read(f"{data}/x"),
        lambda: storage.write(f"{data}/y", b"y", overwrite=True),
        lambda: list(storage.list(data)),
    ):
        with pytest.raises(SignedAccessError):
            ask()
    server.on("POST /v1/aws/s3/sign", signer)
    assert storage.read(f"{data}/x") == b"x" and not storage.exists(f"{data}/y")


@pytest.mark.spark
def test_tasks_of_spark_have_their_requests_signed(
    catalog: Catalog, signer: S3Signer, spark: Any
) -> None:
    table = catalog.load_table("db.t")
    table.append(spark.range(0, 800, 1, 8))
    merge = (
        table.merge(spark.range(700, 900), on="target.id = source.id")
        .when_matched_delete()
        .when_not_matched_insert_all()
    )
    merge.execute()
    assert sorted(r.id for r in table.scan().to_spark(spark).collect()) == [
        *range(700),
        *range(800, 900),
    ]
    assert {method for method, _ in signer.signed} >= {"GET", "PUT"}


def test_a_key_that_the_store_does_not_know_is_no_missing_file(store: str) -> None:
    own = {"s3.endpoint": store, "s3.secret-access-key": "testtest", "s3.path-style-access": "true"}
    place = f"s3://frazil-test/{uuid.uuid4().hex}"
    storage_for(place, {**own, "s3.access-key-id": "testuser"}).write(f"{place}/x", b"x")
    unknown = storage_for(place, {**own, "s3.access-key-id": "nobody"})
    for ask in (
        lambda: unknown.read(f"{place}/x"),
        lambda: unknown.write(f"{place}/y", b"y"),
        lambda: unknown.delete(f"{place}/x"),
    ):
        with pytest.raises(StorageError, match="XAdminUserNotFound|InvalidAccessKeyId") as told:
            ask()
        assert "Check the credentials of the catalog" in str(told.value)
    assert [location for location, _ in unknown.delete_many([f"{place}/x", f"{place}/y"])] == [
        f"{place}/x",
        f"{place}/y",
    ]
