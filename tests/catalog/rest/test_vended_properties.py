"""What is taken of the properties that a server gives for the files of a table: in Azure, tokens
stay with their accounts.
"""

from __future__ import annotations

import time
from itertools import permutations
from typing import Any

import pytest

from frazil.catalog.rest.catalog import RestBackend
from frazil.catalog.rest.vended import (
    StorageCredential,
    TableCredentials,
    holds_secrets,
    holds_token,
    vended,
)
from frazil.errors import StorageError
from frazil.storage import Credentials
from frazil.storage.credentials.precedence import overriding
from frazil.storage.credentials.vended import current, merged
from frazil.storage.objects.object_clients import s3_credential
from frazil.storage.objects.object_options import options
from frazil.storage.routing import RoutedStorage
from tests.catalog.conftest import TABLE
from tests.catalog.rest.conftest import Server, table_json

HOST = "dfs.core.windows.net"
LATER = 4_102_444_800_000  # 2100: in the future, however long the run takes that imported this
TOKENS = {
    "adls.sas-token.mine": "mine",
    f"adls.sas-token.other.{HOST}": "other",
    "adls.sas-token": "plain",
}
ENDS = {
    "adls.sas-token-expires-at-ms.mine": str(LATER + 2_000_000),
    f"adls.sas-token-expires-at-ms.other.{HOST}": str(LATER + 1_000_000),
}


def sent(credentials: Credentials, location: str, own: dict[str, str] | None = None) -> str | None:
    """The signature that goes to the account of a location, if any does. `own`: the catalog's
    properties.
    """
    chosen = options(
        "abfss",
        overriding(own or {}, credentials.properties),
        location.partition("@")[2].partition("/")[0],
    )
    assert chosen.arrow.get("sas_token", "?").removeprefix("?") == chosen.config.get(
        "sas_key", ""
    ), "both libraries send the same"
    return chosen.config.get("sas_key")


@pytest.mark.parametrize(
    "order", list(permutations(TOKENS)), ids=lambda names: " ".join(TOKENS[n] for n in names)
)
@pytest.mark.parametrize(
    ("account", "token"),
    [("mine", "mine"), ("OTHER", "other"), ("third", "plain")],
    ids=["mine", "other", "third"],
)
def test_each_account_is_sent_its_own_sas_token(
    order: tuple[str, ...], account: str, token: str
) -> None:
    given = {**{name: TOKENS[name] for name in order}, **ENDS}
    location = f"abfss://box@{account}.{HOST}/t"
    for found in (
        vended(location, given, []),
        vended(location, {}, [StorageCredential(f"abfss://box@{account}.{HOST}/", given)]),
    ):
        assert sent(found, location) == token
        assert (
            sent(found, f"abfss://data@mine.{HOST}/d") == "mine"
            and sent(found, "abfss://data@other.blob.core.windows.net/d") == "other"
        )
        assert sent(found, f"abfss://data@fourth.{HOST}/d") is None, (
            "a token of the table's own account goes nowhere else"
        )
        assert found.expires_ms == LATER + 1_000_000 and holds_secrets(found)


def test_a_token_without_an_account_is_that_of_the_tables_own() -> None:
    found = vended(
        f"abfss://box@mine.{HOST}/t",
        {"adls.sas-token": "plain", "adls.sas-token-expires-at-ms": str(LATER + 5)},
        [],
    )
    assert found == Credentials({f"adls.sas-token.mine.{HOST}": "plain"}, LATER + 5)
    assert sent(found, f"abfss://box@other.{HOST}/d") is None
    found = vended(f"abfss://box@mine.{HOST}/t", {"adls.account-key": "a2V5"}, [])
    assert found.properties == {"adls.account-key": "a2V5", "adls.account-name": "mine"}


def test_a_location_without_an_account_is_in_the_one_for_which_there_is_a_token() -> None:
    for name in ("mine", f"mine.{HOST}"):
        found = vended("abfss://box/t", {f"adls.sas-token.{name}": "mine"}, [])
        chosen = options("abfss", found.properties).config
        assert chosen == {
            "account_name": "mine",
            "sas_key": "mine",
            "endpoint": "https://mine.blob.core.windows.net",
        }
    named = {
        "adls.account-name": "mine",
        f"adls.sas-token.other.{HOST}": "other",
        f"adls.sas-token.mine.{HOST}": "mine",
    }
    assert sent(vended("abfss://box/t", named, []), "abfss://box/t") == "mine"


def test_the_longest_prefix_counts_for_the_tables_account_and_each_other_account_has_its_own() -> (
    None
):
    def credential(place: str, config: dict[str, str]) -> StorageCredential:
        return StorageCredential(f"abfss://{place}", config)

    credentials = [
        credential(
            f"box@mine.{HOST}",
            {
                f"adls.sas-token.mine.{HOST}": "wide",
                f"adls.sas-token.other.{HOST}": "not for other",
            },
        ),
        credential(
            f"box@mine.{HOST}/t",
            {
                "adls.sas-token.mine": "narrow",
                "adls.sas-token-expires-at-ms.mine": str(LATER + 9_000_000),
            },
        ),
        credential(
            f"data@other.{HOST}/",
            {"adls.sas-token": "other", "adls.sas-token-expires-at-ms": str(LATER + 8_000_000)},
        ),
        credential(f"data@other.{HOST}/d/", {"adls.sas-token": "a folder of other"}),
        credential(
            f"data@third.{HOST}/",
            {
                f"adls.sas-token.third.{HOST}": "over",
                f"adls.sas-token-expires-at-ms.third.{HOST}": "1",
            },
        ),
        credential("box@min", {"adls.sas-token": "of an account whose name begins alike"}),
    ]
    config = {"adls.sas-token.mine": "config", "adls.sas-token-expires-at-ms.mine": str(LATER + 1)}
    for given in (credentials, credentials[::-1]):
        found = vended(f"abfss://box@mine.{HOST}/t", config, given)
        sent_to = {
            account: sent(found, f"abfss://data@{account}.{HOST}/x")
            for account in ("mine", "other", "third", "min")
        }
        assert sent_to == {
            "mine": "narrow",
            "other": "other",
            "third": None,
            "min": "of an account whose name begins alike",
        }
        assert found.expires_ms == LATER + 8_000_000, (
            "the end of the token in config is that of a token that is not used"
        )


@pytest.mark.parametrize("account", ["mine", f"mine.{HOST}", "mine.blob.core.windows.net"])
@pytest.mark.parametrize(
    "own",
    [
        {"adls.sas-token.mine": "own"},
        {f"adls.sas-token.mine.{HOST}": "own"},
        {"adls.sas-token": "own"},
        {"adls.account-name": "mine", "adls.account-key": "b3du"},
        {"adls.auth.shared-key.account.name": "mine", "adls.auth.shared-key.account.key": "b3du"},
        {"adls.connection-string": "AccountName=mine;AccountKey=b3du"},
        {"adls.connection-string.mine": "AccountName=mine;SharedAccessSignature=own"},
        {f"adls.connection-string.mine.{HOST}": f"https://mine.{HOST}?own"},
        {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
    ],
    ids=lambda own: min(own),
)
def test_a_vended_token_counts_before_each_secret_of_the_catalogs_own_for_its_account(
    own: dict[str, str], account: str
) -> None:
    location = f"abfss://box@mine.{HOST}/t"
    found = vended(location, {f"adls.sas-token.{account}": "vended"}, [])
    assert sent(found, location, own) == "vended"
    chosen = options("abfss", overriding(own, found.properties), f"mine.{HOST}")
    assert "b3du" not in str((chosen.config, chosen.arrow)) and "client_secret" not in chosen.config
    others = {"adls.sas-token.archive": "archive"}
    assert sent(found, f"abfss://box@archive.{HOST}/t", own | others) == "archive", (
        "secrets of other accounts stay"
    )


def test_a_vended_secret_that_is_no_token_counts_before_those_of_its_account() -> None:
    own = {
        "adls.sas-token.mine": "own",
        "adls.sas-token": "own",
        f"adls.sas-token.archive.{HOST}": "archive",
    }
    for given in (
        {"adls.auth.shared-key.account.name": "mine", "adls.auth.shared-key.account.key": "bmV3"},
        {"adls.connection-string": "AccountName=mine;AccountKey=bmV3"},
        {"adls.connection-string.mine": "AccountName=mine;AccountKey=bmV3"},
        {"adls.account-key": "bmV3"},
    ):
        found = vended(f"abfss://box@mine.{HOST}/t", given, [])
        chosen = options("abfss", overriding(own, found.properties), f"mine.{HOST}").config
        assert (chosen["account_name"], chosen["account_key"]) == (
            "mine",
            "bmV3",
        ) and "sas_key" not in chosen
        assert sent(found, f"abfss://box@archive.{HOST}/t", own) == "archive"


def test_a_vended_address_leaves_the_catalogs_own_token() -> None:
    given = {f"adls.connection-string.mine.{HOST}": "http://127.0.0.1:10000/mine"}
    chosen = options("abfss", overriding({"adls.sas-token.mine": "own"}, given), f"mine.{HOST}")
    assert chosen.config == {
        "account_name": "mine",
        "sas_key": "own",
        "endpoint": "http://127.0.0.1:10000/mine",
    }


def test_ends_belong_to_the_tokens_with_which_they_came() -> None:
    credential = StorageCredential(
        "s3://b/", {"s3.access-key-id": "new", "s3.secret-access-key": "new"}
    )
    config = {
        "s3.access-key-id": "old",
        "s3.secret-access-key": "old",
        "s3.session-token": "old",
        "s3.session-token-expires-at-ms": str(LATER + 1),
    }
    assert vended("s3://b/t", config, [credential]) == Credentials(credential.config, None)
    same = StorageCredential("s3://b/", {k: v for k, v in config.items() if not k.endswith("ms")})
    assert vended("s3://b/t", config, [same]) == Credentials(same.config, LATER + 1), (
        "the same keys: the end is still theirs"
    )


def test_a_table_of_a_catalog_with_secrets_of_its_own_uses_the_vended_ones_and_renews_those_of_every_account(
    server: Server,
) -> None:
    """`other` ends first, though the table is in `mine`; then both accounts have new tokens."""

    def vending(number: int, life_ms: int) -> dict[str, Any]:
        answer = table_json(
            config={
                f"adls.sas-token.{name}.{HOST}": f"{name}{number}" for name in ("mine", "other")
            }
        )
        answer["config"] |= {
            f"adls.sas-token-expires-at-ms.other.{HOST}": str(int(time.time() * 1000) + life_ms)
        }
        answer["metadata"]["location"] = f"abfss://box@mine.{HOST}/t"
        return answer

    server.on(
        "GET /v1/config",
        (200, {"defaults": {}, "overrides": {f"adls.sas-token.archive.{HOST}": "override"}}),
    )
    server.on(
        "GET /v1/namespaces/db/tables/t", (200, vending(1, 2_000)), (200, vending(2, 3_600_000))
    )
    own = {
        "adls.sas-token.mine": "own",
        "adls.sas-token.archive": "own",
        "adls.sas-token.third": "own",
    }
    backend = RestBackend("c", {**dict(server.catalog().properties), **own})
    storage = backend.load(TABLE).storage
    assert isinstance(storage, RoutedStorage) and storage.vended is not None
    names = ("mine", "other", "archive", "third")
    hosts = {name: f"{name}.{HOST}" for name in names}
    used = {
        name: options("abfss", dict(merged(storage.properties, storage.vended)), host).config[
            "sas_key"
        ]
        for name, host in hosts.items()
    }
    assert used == {"mine": "mine2", "other": "other2", "archive": "override", "third": "own"}


def test_a_signature_of_which_no_end_is_told_ends_when_it_says_itself() -> None:
    location, key = f"abfss://box@mine.{HOST}/t", f"adls.sas-token.mine.{HOST}"
    for text, ends in (
        ("2100-01-01T00%3A00%3A00Z", 4102444800000),
        ("2100-01-01", 4102444800000),
        ("2100-01-01T01:00Z", 4102448400000),
    ):
        found = vended(location, {key: f"?sv=2024-01-01&se={text}&sig=x"}, [])
        assert found == Credentials({key: f"?sv=2024-01-01&se={text}&sig=x"}, ends)
    assert (
        vended(
            location,
            {key: "se=2100-01-01&sig=x", f"adls.sas-token-expires-at-ms.mine.{HOST}": "7"},
            [],
        ).expires_ms
        == 7
    )
    assert vended(location, {key: "se=soon&sig=x"}, []).expires_ms is None


def test_a_token_of_an_account_counts_as_one_that_ends_unless_it_is_the_catalogs_own() -> None:
    found = vended(f"abfss://box@mine.{HOST}/t", {"adls.sas-token.mine": "vended"}, [])
    assert found.expires_ms is None and holds_token(
        found.properties, {"adls.sas-token.archive": "own"}
    )
    assert not holds_token(
        overriding({"adls.sas-token.archive": "own"}, {}), {"adls.sas-token.archive": "own"}
    )


def asked_for_nothing(*_: Any) -> Credentials:
    return Credentials({"s3.region": "x"}, None)


def test_a_server_that_gives_no_new_credentials_is_asked_again_and_then_told() -> None:
    def source(life_ms: int) -> TableCredentials:
        first = Credentials({"s3.access-key-id": "a"}, int(time.time() * 1000) + life_ms)
        return TableCredentials("c", (), TABLE, "s3://b/t", asked_for_nothing, first)

    assert source(3_600_000)().properties == {"s3.access-key-id": "a"}
    with pytest.raises(StorageError, match="for s3://b/t, and now gives none"):
        source(1_000)()
    with pytest.raises(StorageError, match="now gives none"):
        current(source(1_000))


@pytest.mark.parametrize(
    "text",
    [
        "AccountName=mine;SharedAccessSignature={};BlobEndpoint=https://mine.blob.x",
        f"https://mine.{HOST}?{{}}",
    ],
)
def test_a_connection_string_with_a_signature_ends_with_it(text: str) -> None:
    for sas, ends in (
        ("sv=1&sig=x&se=2100-01-01T00%3A00%3A00Z", 4102444800000),
        ("se=2100-01-01&sig=x", 4102444800000),
        ("sv=1&sig=x", None),
    ):
        found = vended(
            f"abfss://box@mine.{HOST}/t",
            {f"adls.connection-string.mine.{HOST}": text.format(sas)},
            [],
        )
        assert (found.expires_ms, holds_secrets(found), holds_token(found.properties, {})) == (
            ends,
            True,
            True,
        )
    address = {f"adls.connection-string.mine.{HOST}": "http://127.0.0.1:10000/mine"}
    assert not holds_token(address, {}) and not holds_token(
        {"adls.connection-string": "AccountName=mine;AccountKey=bmV3"}, {}
    )


def test_an_end_that_no_clock_knows_is_the_last_one() -> None:
    keys = {
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.session-token": "c",
        "s3.session-token-expires-at-ms": str(LATER * 1000),
    }
    found = vended("s3://b/t", keys, [])
    assert (
        found.expires_ms is not None and s3_credential((), lambda: found)["expires_at"].year == 9999
    )


def test_a_clients_secret_keeps_the_tenant_that_lies_below_it() -> None:
    below = {"adls.tenant-id": "t", "adls.client-id": "c"}
    assert overriding(below, {"adls.client-secret": "s"}) == {**below, "adls.client-secret": "s"}
    assert overriding({**below, "adls.client-secret": "old"}, {"adls.sas-token": "sig=x"}) == {
        "adls.sas-token": "sig=x"
    }


def test_a_token_keeps_its_cloud_where_the_location_names_no_host() -> None:
    named = "adls.sas-token.acct.dfs.core.chinacloudapi.cn"
    assert (
        vended("abfss://c/t", {"adls.account-name": "acct", named: "sig=x"}, []).properties[named]
        == "sig=x"
    )
