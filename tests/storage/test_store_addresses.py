"""Which address, region and credentials a client of S3 uses: those of the catalog, with the bucket
named once, whatever the environment says.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from frazil.errors import InvalidInput, StorageError
from frazil.storage import storage_for
from frazil.storage.objects.object_clients import arrow_system, client
from frazil.storage.objects.object_options import options
from tests.storage.fake_s3 import fake_s3
from tests.storage.recorder import recorder

obstore = pytest.importorskip("obstore")
KEYS = {"s3.access-key-id": "key", "s3.secret-access-key": "secret"}
VARIABLES = [
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
]  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    client.cache_clear()
    arrow_system.cache_clear()
    yield monkeypatch
    client.cache_clear()
    arrow_system.cache_clear()


def signed(properties: dict[str, str], bucket: str = "bkt") -> Any:
    """The parts of the address that obstore signs for the key db/t/k."""
    return urlsplit(
        obstore.sign(
            client("s3", bucket, tuple(sorted(properties.items()))),
            "GET",
            "db/t/k",
            timedelta(minutes=1),
        )
    )


@pytest.mark.parametrize(
    ("endpoint", "path_style", "virtual"),
    [
        case
        for case in product(
            [None, "https://s3.eu-west-1.amazonaws.com", "http://localhost:9000/"],
            [None, "true", "false"],
            [None, "true", "false"],
        )
        if case[1:] != ("true", "true")
    ],
)
def test_an_address_names_the_bucket_once(
    endpoint: str | None, path_style: str | None, virtual: str | None
) -> None:
    given = {
        "s3.endpoint": endpoint,
        "s3.path-style-access": path_style,
        "s3.force-virtual-addressing": virtual,
    }
    properties = KEYS | {k: v for k, v in given.items() if v is not None}
    address = signed(properties)
    in_host = virtual == "true" or (virtual is None and path_style == "false")
    server = urlsplit(endpoint or "https://s3.us-east-1.amazonaws.com").netloc
    assert (address.netloc, address.path) == (
        (f"bkt.{server}", "/db/t/k") if in_host else (server, "/bkt/db/t/k")
    )
    arrow = options("s3", properties).arrow
    if in_host:
        assert arrow["force_virtual_addressing"] is True and arrow.get("endpoint_override") == (
            endpoint.rstrip("/") if endpoint else None
        )
    elif endpoint or path_style or virtual:
        # pyarrow alone, at Amazon's own servers, prefers the host's name
        assert urlsplit(arrow["endpoint_override"]).netloc == server and not arrow.get(
            "force_virtual_addressing"
        )


def test_static_keys_are_not_mixed_with_the_sessions_token_of_the_environment(
    environment: pytest.MonkeyPatch,
) -> None:
    for name, value in (
        ("AWS_SESSION_TOKEN", "other"),
        ("AWS_ACCESS_KEY_ID", "other"),
        ("AWS_SKIP_SIGNATURE", "true"),
    ):
        environment.setenv(name, value)
    query = parse_qs(signed(KEYS).query)
    assert "X-Amz-Security-Token" not in query and query["X-Amz-Credential"][0].startswith("key/")
    assert parse_qs(signed(KEYS | {"s3.session-token": "own"}).query)["X-Amz-Security-Token"] == [
        "own"
    ]
    with recorder() as store:
        storage = storage_for("s3://b/k", KEYS | {"s3.endpoint": store.endpoint})
        for read in (storage.read, storage.open_input):
            with pytest.raises(StorageError):
                read("s3://b/k")
    assert len(store.asked) >= 2
    for _, _, headers in store.asked:
        assert (
            "Credential=key/" in headers["authorization"] and "x-amz-security-token" not in headers
        )


@pytest.mark.parametrize(
    ("properties", "variables", "region"),
    [
        ({"s3.region": "eu-west-1"}, {"AWS_REGION": "eu-west-2"}, "eu-west-1"),
        ({"client.region": "eu-west-1"}, {"AWS_REGION": "eu-west-2"}, "eu-west-1"),
        ({}, {"AWS_REGION": "eu-west-2", "AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-2"),
        ({}, {"AWS_DEFAULT_REGION": "eu-west-3"}, "eu-west-3"),
        ({}, {}, "us-east-1"),
    ],
)
def test_the_region_is_the_catalogs_then_the_environments_and_the_same_for_both_libraries(
    properties: dict[str, str],
    variables: dict[str, str],
    region: str,
    environment: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    address = signed(KEYS | properties)
    assert (
        address.netloc == f"s3.{region}.amazonaws.com"
        and f"/{region}/s3/" in parse_qs(address.query)["X-Amz-Credential"][0]
    )
    assert arrow_system("s3", tuple((KEYS | properties).items()), "").region == region


def test_the_endpoint_of_the_environment_counts_only_where_the_catalog_gives_none(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("AWS_ENDPOINT_URL_S3", "https://environment.example")
    assert signed(KEYS | {"s3.endpoint": "https://catalog.example"}).netloc == "catalog.example"
    assert signed(KEYS).netloc == "environment.example"
    assert signed(KEYS | {"s3.path-style-access": "false"}).netloc == "bkt.environment.example"
    assert options("s3", KEYS).arrow["endpoint_override"] == "https://environment.example"


@pytest.mark.parametrize("properties", [{"s3.session-token": "t"}, KEYS | {"s3.anonymous": "true"}])
def test_half_credentials_and_two_kinds_of_them_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="s3.access-key-id"):
        options("s3", properties)


@pytest.mark.parametrize("read", ["read", "open_input"])
def test_a_redirect_is_told_as_one_of_the_region(read: str) -> None:
    redirected = []
    with (
        fake_s3(disturb=lambda *asked: redirected.append(asked) or 301) as fake,
        pytest.raises(StorageError) as told,
    ):
        getattr(storage_for("s3://b/k", fake.properties), read)("s3://b/k")
    assert redirected and "s3.region" in str(told.value.hint)


@pytest.mark.parametrize("end", ["#", "?", "\\", "%2f", "\t", ".x@evil"])
def test_no_location_ends_the_host_to_which_keys_are_sent(end: str) -> None:
    azure = f"abfss://c@127.0.0.1{end}.dfs.core.windows.net/k"
    with pytest.raises(InvalidInput, match="does not name a bucket") as told:
        storage_for(azure, {"adls.sas-token": "sig=x"}).read(azure)
    assert "none of # ? % and" in str(told.value.hint)
    bucket = f"s3://a@127.0.0.1{end}/k" if "@" in end else f"s3://127.0.0.1{end}/k"
    storage = storage_for(
        bucket,
        {
            "s3.access-key-id": "a",
            "s3.secret-access-key": "b",
            "s3.force-virtual-addressing": "true",
        },
    )
    for ask in (storage.read, storage.open_input, storage.delete):
        with pytest.raises(InvalidInput, match="does not name a bucket"):
            ask(bucket)
