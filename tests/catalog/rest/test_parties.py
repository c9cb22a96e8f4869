"""The catalog's own secrets do not go to a host that only its server has named, whatever part of
its answers names it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from frazil.catalog.rest.catalog import RestBackend
from frazil.catalog.rest.vended import StorageCredential
from frazil.errors import FrazilError, InvalidInput, StorageError
from frazil.spark.scan import hadoop_s3
from frazil.storage import Storage
from frazil.storage.credentials.vended import Credentials
from frazil.storage.objects.object_clients import arrow_system, client, s3_credential
from frazil.storage.objects.object_options import options
from tests.catalog.conftest import TABLE
from tests.catalog.rest.conftest import Server, table_json
from tests.storage.recorder import Recorder, recorder

ROUTE = "GET /v1/namespaces/db/tables/t"
SECRET = "hunter2-secret"
OWN = {
    "s3.access-key-id": "own-key-id",
    "s3.secret-access-key": SECRET,
    "s3.session-token": "hunter2-session",
    "s3.path-style-access": "true",
}
KEYS = {"s3.access-key-id": "vended", "s3.secret-access-key": "v"}
VARIABLES = [
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    client.cache_clear()
    arrow_system.cache_clear()
    return monkeypatch


@pytest.fixture
def elsewhere() -> Iterator[Recorder]:
    with recorder() as store:
        yield store


def loaded(
    server: Server,
    location: str,
    *,
    config: Any = None,
    credentials: Any = (),
    defaults: Any = None,
    overrides: Any = None,
    **own: str,
) -> Storage:
    answer = table_json(
        config=config or {},
        **{"storage-credentials": [{"prefix": p, "config": c} for p, c in credentials]},
    )
    answer["metadata"]["location"] = location
    server.on("GET /v1/config", (200, {"defaults": defaults or {}, "overrides": overrides or {}}))
    server.on(ROUTE, (200, answer))
    catalog = RestBackend("r", {**dict(server.catalog().properties), **own})
    return pickle.loads(pickle.dumps(catalog.load(TABLE).storage))


def asks(location: str) -> dict[str, Callable[[Storage], object]]:
    """Each way by which a file is reached."""

    def written(storage: Storage) -> None:
        with storage.open_output(location) as sink:
            sink.write(b"x")

    return {
        "read": lambda s: s.read(location),
        "open": lambda s: s.open_input(location).read(),
        "write": lambda s: s.write(location, b"x"),
        "upload": written,
        "list": lambda s: list(s.list(location)),
        "publish": lambda s: s.publish(location, b"x"),
        "delete": lambda s: s.delete(location),
        "arrow": lambda s: s.arrow(location)[0].get_file_info(s.arrow(location)[1]),
    }


def refused(storage: Storage, location: str) -> None:
    """Nothing is asked of the store, and the error tells what to do."""
    for name, ask in asks(location).items():
        with pytest.raises(InvalidInput, match="gives no credentials for it") as told:
            ask(storage)
        assert (
            "rest.trusted-hosts" in str(told.value.hint)
            and SECRET not in f"{told.value!r}{told.value.facts}"
        ), name


def asked_with(storage: Storage, location: str, store: Recorder, text: str) -> None:
    """The store is asked, by what holds this text."""
    for ask in asks(location).values():
        with pytest.raises((FrazilError, OSError)):  # the recorder refuses all
            ask(storage)
    assert len(store.asked) >= 5 and all(
        text in str((path, headers)) for _, path, headers in store.asked
    )


PLACES = {
    "table": lambda told: {"config": told}, "prefix": lambda told: {"credentials": [("s3://b/", told)]},
    "defaults": lambda told: {"defaults": told}, "overrides": lambda told: {"overrides": told},
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "own",
    [
        OWN,
        {**OWN, "s3.endpoint": "https://store.example"},
        {k.replace("s3.", "client.", 1): v for k, v in OWN.items() if "path" not in k},
        {"s3.endpoint": "https://store.example"},
        {},
    ],
    ids=["keys", "keys and endpoint", "client", "endpoint", "keys of the environment"],
)
def test_keys_of_s3_do_not_go_to_an_endpoint_that_the_server_names(
    server: Server,
    elsewhere: Recorder,
    place: str,
    own: dict[str, str],
    environment: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        environment.setenv(name, SECRET)
    storage = loaded(
        server,
        "s3://b/t",
        **PLACES[place]({"s3.endpoint": elsewhere.endpoint, "s3.region": "x"}),
        **own,
    )
    if place == "defaults" and "s3.endpoint" in own:
        assert (
            options("s3", dict(storage.of("s3://b/t").properties)).config["endpoint"]
            == own["s3.endpoint"]
        )  # type: ignore[attr-defined]
    else:
        refused(storage, "s3://b/t/f")
    assert not elsewhere.asked


@pytest.mark.parametrize(
    "told",
    [{"s3.access-key-id": "own-key-id"}, {"gcs.oauth2.token": "x"}, {"s3.session-token": ""}],
)
def test_half_of_credentials_or_those_of_another_store_are_none_for_an_endpoint(
    server: Server, elsewhere: Recorder, told: dict[str, str]
) -> None:
    refused(
        loaded(server, "s3://b/t", config={"s3.endpoint": elsewhere.endpoint, **told}, **OWN),
        "s3://b/t/f",
    )
    assert not elsewhere.asked


@pytest.mark.parametrize("place", PLACES)
def test_an_endpoint_with_the_credentials_for_it_is_taken(
    server: Server, elsewhere: Recorder, place: str
) -> None:
    own = {} if place == "defaults" else OWN
    storage = loaded(
        server,
        "s3://b/t",
        **PLACES[place](
            {"s3.endpoint": elsewhere.endpoint, "s3.path-style-access": "true", **KEYS}
        ),
        **own,
    )
    asked_with(storage, "s3://b/t/f", elsewhere, "Credential=vended/")
    assert (
        SECRET not in str(elsewhere.asked)
        and "own-key-id" not in str(elsewhere.asked)
        and "hunter2" not in str(elsewhere.asked)
    )


@pytest.mark.parametrize("spelling", ["{}", "{}/"])
def test_an_endpoint_that_the_catalog_names_as_well_or_trusts_gets_its_keys(
    server: Server, elsewhere: Recorder, spelling: str
) -> None:
    told = {"s3.endpoint": spelling.format(elsewhere.endpoint), "s3.region": "eu-west-1"}
    host = elsewhere.endpoint.removeprefix("http://")
    for trust in (
        {"s3.endpoint": elsewhere.endpoint},
        {"rest.trusted-hosts": f"a.example, {host}"},
        {"rest.trusted-hosts": "127.0.0.1"},
    ):
        elsewhere.asked.clear()
        asked_with(
            loaded(server, "s3://b/t", config=told, **OWN, **trust),
            "s3://b/t/f",
            elsewhere,
            "Credential=own-key-id/",
        )
        assert "/eu-west-1/s3/" in str(elsewhere.asked)
    elsewhere.asked.clear()
    refused(
        loaded(
            server, "s3://b/t", config=told, **OWN, **{"rest.trusted-hosts": "127.0.0.1:1, 127.0.0"}
        ),
        "s3://b/t/f",
    )
    refused(
        loaded(
            server,
            "s3://b/t",
            config=told,
            **OWN,
            **{"s3.endpoint": elsewhere.endpoint.replace("http", "https")},
        ),
        "s3://b/t/f",
    )
    refused(
        loaded(server, "s3://b/t", config=told, overrides={"rest.trusted-hosts": host}, **OWN),
        "s3://b/t/f",
    )
    assert not elsewhere.asked, (
        "another port, another scheme, and what the server itself trusts do not count"
    )


def test_a_server_may_name_a_region_and_amazons_own_hosts(server: Server) -> None:
    for told in (
        {"s3.region": "eu-west-1"},
        {"s3.endpoint": "https://s3.eu-west-1.amazonaws.com"},
        {"s3.endpoint": "https://s3.amazonaws.com/"},
    ):
        storage: Any = loaded(server, "s3://b/t", config=told, **OWN).of("s3://b/t")  # type: ignore[attr-defined]
        assert options("s3", dict(storage.properties)).config["access_key_id"] == "own-key-id"
    for evil in (
        "http://s3.amazonaws.com",
        "https://s3.amazonaws.com.evil.example",
        "https://s3.evil.example/s3.amazonaws.com",
        "https://s3.amazonaws.com@evil.example",
        "https://evil.amazonaws.com",
    ):
        refused(loaded(server, "s3://b/t", config={"s3.endpoint": evil}, **OWN), "s3://b/t/f")


@pytest.mark.parametrize("region", ["{host}/", "x.{host}/", "a@{host}/x?", "{host}#"])
def test_no_region_ends_the_name_of_amazons_host(
    server: Server, elsewhere: Recorder, region: str
) -> None:
    told = region.format(host=elsewhere.endpoint.removeprefix("http://"))
    storage = loaded(server, "s3://b/t", config={"s3.region": told}, **OWN)
    for ask in asks("s3://b/t/f").values():
        with pytest.raises(InvalidInput, match="is no region of S3"):
            ask(storage)
    assert not elsewhere.asked


def test_a_store_that_is_asked_without_secrets_may_be_anywhere(
    server: Server, elsewhere: Recorder
) -> None:
    told = {
        "s3.endpoint": elsewhere.endpoint,
        "s3.anonymous": "true",
        "s3.path-style-access": "true",
    }
    storage = loaded(server, "s3://b/t", config=told, **OWN)
    for ask in (asks("s3://b/t/f")[name] for name in ("read", "open", "list")):
        with pytest.raises(FrazilError):
            ask(storage)
    assert elsewhere.asked and not any(
        "authorization" in headers for _, _, headers in elsewhere.asked
    )


def test_a_bearer_of_google_does_not_go_to_a_host_that_the_server_names(
    server: Server, elsewhere: Recorder
) -> None:
    told = {"gcs.service.host": elsewhere.endpoint}
    refused(loaded(server, "gs://b/t", config=told, **{"gcs.oauth2.token": SECRET}), "gs://b/t/f")
    refused(loaded(server, "gs://b/t", defaults=told), "gs://b/t/f")
    assert not elsewhere.asked
    storage = loaded(
        server,
        "gs://b/t",
        config={**told, "gcs.oauth2.token": "vended"},
        **{"gcs.oauth2.token": SECRET},
    )
    with pytest.raises(StorageError):
        storage.read("gs://b/t/f")
    assert elsewhere.asked and SECRET not in str(elsewhere.asked)


HOST = "mine.dfs.core.windows.net"


@pytest.mark.parametrize(
    "key",
    ["adls.connection-string.mine", f"adls.connection-string.{HOST}", "adls.connection-string"],
)
@pytest.mark.parametrize(
    "own",
    ["adls.sas-token.mine", f"adls.sas-token.{HOST}", "adls.sas-token", "adls.account-key", ""],
)
@pytest.mark.parametrize(
    "address", ["{}/mine", "http://mine.blob.core.windows.net", "https://mine.evil.example"]
)
def test_a_secret_of_azure_does_not_go_to_a_host_that_the_server_names(
    server: Server, elsewhere: Recorder, key: str, own: str, address: str
) -> None:
    secret = {own: f"sv=2024&sig={SECRET}" if "sas" in own else "b3du"} if own else {}
    host = "mine.evil.example" if "evil" in address else HOST
    location = f"abfss://box@{host}/t"
    storage = loaded(server, location, config={key: address.format(elsewhere.endpoint)}, **secret)
    for ask in asks(f"{location}/f").values():
        with pytest.raises(InvalidInput):
            ask(storage)
    assert not elsewhere.asked


def test_a_signature_of_azure_that_comes_with_the_address_is_taken(
    server: Server, elsewhere: Recorder
) -> None:
    location, address = (
        f"abfss://box@{HOST}/t",
        {f"adls.connection-string.{HOST}": f"{elsewhere.endpoint}/mine"},
    )
    storage = loaded(
        server,
        location,
        config={**address, "adls.sas-token.mine": "sig=vended"},
        **{"adls.sas-token.mine": f"sig={SECRET}"},
    )
    with pytest.raises(StorageError):
        storage.read(f"{location}/f")
    assert (
        elsewhere.asked
        and SECRET not in str(elsewhere.asked)
        and "sig=vended" in str(elsewhere.asked)
    )
    elsewhere.asked.clear()
    own = {**address, "adls.sas-token.mine": "sig=own"}
    with pytest.raises(StorageError):
        loaded(server, location, config=address, **own).read(f"{location}/f")
    assert "sig=own" in str(elsewhere.asked), "the catalog names the address, too"


def test_credentials_that_are_renewed_name_no_host_for_the_catalogs_own(
    server: Server, elsewhere: Recorder
) -> None:
    server.on(
        ROUTE,
        (200, table_json(config={"s3.endpoint": elsewhere.endpoint, "gcs.oauth2.token": "x"})),
    )
    renewed = RestBackend("r", {**dict(server.catalog().properties), **OWN}).credentials(
        TABLE, "s3://b/t"
    )
    with pytest.raises(InvalidInput, match="gives no credentials"):
        options("s3", {**OWN, **renewed.properties})
    ended = Credentials({"gcs.oauth2.token": "x"})
    with pytest.raises(StorageError, match="another endpoint"):  # a client keeps its endpoint
        s3_credential(
            tuple({**OWN, "s3.endpoint": "https://own.example"}.items()),
            lambda: ended,
            "https://first.example",
        )


def test_sparks_own_scan_is_told_no_such_endpoint(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop_s3, "jvm_of", lambda spark: object())
    monkeypatch.setattr(hadoop_s3, "has_file_system", lambda spark, scheme: True)
    monkeypatch.setattr(hadoop_s3, "hadoop_settings", lambda spark, keys: {})
    keys = {k: v for k, v in OWN.items() if "session" not in k}
    with pytest.raises(InvalidInput, match="gives no credentials"):
        hadoop_s3.s3_options(
            None,
            loaded(server, "s3://b/t", config={"s3.endpoint": "https://evil.example"}, **keys),
            "s3://b/t/f",
        )
    sent = hadoop_s3.s3_options(
        None,
        loaded(server, "s3://b/t", config={"s3.endpoint": "https://told.example", **KEYS}, **keys),
        "s3://b/t/f",
    )
    assert sent is not None and sent["fs.s3a.access.key"] == "vended" and SECRET not in str(sent)


def test_a_credential_meant_for_an_identity_provider_does_not_go_to_the_catalogs_server(
    server: Server, elsewhere: Recorder
) -> None:
    server.on(
        "GET /v1/config",
        (200, {"defaults": {}, "overrides": {"oauth2-server-uri": f"{server.uri}/grab"}}),
    )
    server.on("POST /grab", (200, {"access_token": "t"}))
    own = {
        "token": "first",
        "credential": f"me:{SECRET}",
        "oauth2-server-uri": f"{elsewhere.endpoint}/token",
    }
    with pytest.raises(InvalidInput, match="another server, by oauth2-server-uri"):
        RestBackend("r", {**dict(server.catalog().properties), **own}).load(TABLE)
    assert SECRET not in str(server.asked)
    server.on(ROUTE, (200, table_json()))
    RestBackend(
        "r", {**dict(server.catalog().properties), "token": "first", "credential": f"me:{SECRET}"}
    ).load(TABLE)


def test_only_ones_own_properties_tell_how_hdfs_is_reached(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    told = {
        "hdfs.host": "evil.example",
        "hadoop.dfs.namenode.rpc-address.ns.nn1": "evil.example:8020",
    }
    storage = loaded(server, "memory://w/t", overrides=told, **{"hdfs.kerberos-principal": "me"})
    assert "evil" not in str(storage.properties) and "hdfs.host" in caplog.text  # type: ignore[attr-defined]


def test_a_plan_of_the_server_names_no_host_for_the_catalogs_own_keys(
    server: Server, elsewhere: Recorder
) -> None:
    answer = table_json()
    answer["metadata"]["location"] = "s3://b/t"
    server.on(ROUTE, (200, answer))
    catalog = RestBackend("r", {**dict(server.catalog().properties), **OWN})
    told = [StorageCredential("s3://b/", {"s3.endpoint": elsewhere.endpoint})]
    refused(catalog.storage_of_plan(catalog.load(TABLE), told, "p"), "s3://b/t/f")
    assert not elsewhere.asked
