"""Tables whose files are read and written by requests that Project Nessie signs: the client has no
keys (FRAZIL_TEST_NESSIE, FRAZIL_TEST_S3).
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

import frazil
from frazil.catalog.rest import signer as signing
from frazil.errors import NoSuchFileError
from frazil.storage import lasting_properties
from frazil.storage.objects.signed import SignedAccessError, SignedStorage
from frazil.storage.routing import routed
from frazil.table.catalog import Catalog
from tests.builders.s3_signer import signature
from tests.builders.store_work import write_and_read
from tests.catalog.rest.conftest import Server, table_json
from tests.storage.conftest import s3_place

SERVERS = [os.environ["FRAZIL_TEST_NESSIE"]] if os.environ.get("FRAZIL_TEST_NESSIE") else []
ROWS = pa.table(
    {"id": pa.array(range(50_000), pa.int64()), "s": [f"value {i % 97}" for i in range(50_000)]}
)


@pytest.fixture(params=SERVERS)
def catalog(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    for name in [k for k in os.environ if k.startswith("AWS_")]:
        monkeypatch.delenv(name)
    keys = s3_place()[1]
    pyarrow.fs.S3FileSystem(
        endpoint_override=keys["s3.endpoint"],
        access_key=keys["s3.access-key-id"],
        secret_key=keys["s3.secret-access-key"],
        allow_bucket_creation=True,
    ).create_dir("frazil-signed")
    catalog = frazil.load_catalog("signed", type="rest", uri=request.param, warehouse="signed")
    assert not any("key" in k for k in catalog.properties)
    yield catalog
    catalog.close()


def test_a_table_is_written_changed_and_read_without_keys(catalog: Catalog) -> None:
    catalog.create_namespace(space := f"s{uuid.uuid4().hex[:8]}")
    table = catalog.create_table(f"{space}.t", "id bigint, s string")
    assert table.location().startswith("s3://frazil-signed/warehouse/")
    table.append(ROWS)
    table.delete("id < 10")
    table.append(ROWS.slice(0, 3))
    found = catalog.load_table(f"{space}.t").scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, *range(10, 50_000)]
    assert catalog.load_table(f"{space}.t").scan(
        row_filter="id = 77", selected_fields=("s",)
    ).to_arrow()["s"].to_pylist() == ["value 77"]
    storage = pickle.loads(pickle.dumps(table._loaded.storage))
    assert lasting_properties(storage, table.location()) is None, (
        "the JVM's file systems cannot ask for signatures"
    )
    assert storage == table._loaded.storage and isinstance(
        storage.of(table.location()), SignedStorage
    )


def test_each_operation_of_a_store_is_signed_or_refused_by_name(catalog: Catalog) -> None:
    catalog.create_namespace(space := f"s{uuid.uuid4().hex[:8]}")
    table = catalog.create_table(f"{space}.t", "id bigint")
    other = catalog.create_table(f"{space}.other", "id bigint")
    storage, place = table._loaded.storage, f"{table.location()}/data"
    odd = f"{place}/a b+c=ä&d%20.bin"
    write_and_read(storage, odd, place)
    storage.delete(odd)
    with pytest.raises(NoSuchFileError):
        storage.read(odd)
    with pytest.raises(SignedAccessError, match=r"does not sign PUT .*NotAuthorizedException"):
        storage.write(f"{other.location()}/data/x", b"", overwrite=True)
    with pytest.raises(SignedAccessError, match="does not sign GET"):
        list(storage.list(place))  # Nessie signs no listing


def test_the_signature_is_the_stores(catalog: Catalog) -> None:
    catalog.create_namespace(space := f"s{uuid.uuid4().hex[:8]}")
    table = catalog.create_table(f"{space}.t", "id bigint")
    store = table._loaded.storage.of(table.location())
    url = f"{os.environ['FRAZIL_TEST_S3']}/{table.location().removeprefix('s3://')}/data/x%20y?partNumber=1&uploadId=a%2Fb"
    signed = store.signer(
        "PUT", url, "us-east-1", {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, None
    )
    headers = {k.lower(): v for k, v in signed.headers.items()}
    assert (
        f"Signature={signature('PUT', signed.url, headers, 'testtest')}" in headers["authorization"]
    )


REMOTE = {"s3.remote-signing-enabled": "true", "s3.endpoint": "http://127.0.0.1:1"}


@pytest.mark.parametrize("elsewhere", ["https://evil.example/sign", "//evil.example/x"])
def test_no_token_goes_to_a_signer_elsewhere(server: Server, elsewhere: str) -> None:
    for config in ({"s3.signer.uri": "https://evil.example"}, {"s3.signer.endpoint": elsewhere}):
        server.on("GET /v1/namespaces/db/tables/t", (200, table_json(config={**REMOTE, **config})))
        try:
            storage = server.catalog(token="hunter2").load(("db", "t")).storage
        except frazil.errors.InvalidInput as error:
            assert "another server" in str(error) and "hunter2" not in str(error)
        else:  # a path below the catalog's address, whatever it looks like
            assert storage.signer.first.startswith(f"{server.uri}/")


@pytest.mark.parametrize(
    "answer, told",
    [
        ((200, {"uri": "http://127.0.0.1:1/evil/x", "headers": {}}), "signs another request"),
        ((200, {"uri": 7, "headers": {}}), "signature"),
        ((200, {"uri": "http://127.0.0.1:1/w/db/t/x", "headers": {"a": "b"}}), "signature"),
        (
            (403, {"error": {"message": "no hunter2", "type": "ForbiddenException", "code": 403}}),
            "does not sign GET",
        ),
    ],
)
def test_answers_of_a_signer_that_are_none_are_told(server: Server, answer: Any, told: str) -> None:
    server.on("GET /v1/namespaces/db/tables/t", (200, table_json(config=REMOTE)))
    server.on("POST /v1/aws/s3/sign", answer)
    table = server.catalog(
        token="hunter2", token_exchange_enabled="false", s3__connect_timeout="0.2"
    ).load(("db", "t"))
    store = routed(dict(table.storage.properties), signer=table.storage.signer)
    with pytest.raises(frazil.errors.FrazilError, match=told) as caught:
        store.read("s3://w/db/t/x")
    assert "hunter2" not in f"{caught.value} {caught.value.facts} {store!r} {table!r}"


def test_an_address_that_has_expired_is_asked_for_again(server: Server) -> None:
    server.on(
        "GET /v1/namespaces/db/tables/t",
        *((200, table_json(config={**REMOTE, "s3.signer.endpoint": f"sign/{n}"})) for n in (1, 2)),
    )
    server.on(
        "POST /sign/1",
        (400, {"error": {"message": "expired", "type": "IllegalArgumentException", "code": 400}}),
    )
    server.on(
        "POST /sign/2",
        (
            200,
            {"uri": "http://127.0.0.1:1/w/x", "headers": {"Authorization": ["A"]}},
            {"Cache-Control": "private"},
        ),
    )
    signer = server.catalog().load(("db", "t")).storage.signer
    for _ in range(2):
        assert signer("GET", "http://127.0.0.1:1/w/x", "us-east-1", {}, None).headers == {
            "Authorization": "A"
        }
    assert server.routes().count("POST /sign/2") == 1, "what the server lets be kept is used again"
    assert signing._ENDPOINTS[signer] == (f"{server.uri}/sign/2", None)


def test_a_token_that_the_server_gives_for_a_table_goes_with_what_is_signed_for_it(
    server: Server,
) -> None:
    server.on(
        "GET /v1/namespaces/db/tables/t",
        (200, table_json(config={**REMOTE, "token": "hunter2-of-the-table"})),
    )
    server.on("POST /v1/aws/s3/sign", (200, {"uri": "http://127.0.0.1:1/w/x", "headers": {}}))
    table = server.catalog(token="the-catalogs").load(("db", "t"))
    table.storage.signer("GET", "http://127.0.0.1:1/w/x", "us-east-1", {}, None)
    assert server.asked[-1].headers["Authorization"] == "Bearer hunter2-of-the-table"
    assert "hunter2" not in f"{table.storage!r} {table.storage.signer!r}"
