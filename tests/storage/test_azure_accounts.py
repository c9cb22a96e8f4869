"""Azure: the account is that of the location, secrets count for their own account only, and no
error shows a signature.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.storage import storage_for
from frazil.storage.base import translated_errors
from frazil.storage.objects.object_clients import arrow_system, client
from frazil.storage.objects.object_options import options
from tests.storage.recorder import recorder

obstore = pytest.importorskip("obstore")
HOST = "archive.dfs.core.windows.net"
SAS = "sv=2024-01-01&sr=c&sig=SIGNED%2Bsecret%3D"
LOCATION = f"abfss://c@{HOST}/k"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Credentials of others in the environment."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b3RoZXI=")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "https://other.example")
    client.cache_clear()
    arrow_system.cache_clear()
    yield monkeypatch
    client.cache_clear()
    arrow_system.cache_clear()


@pytest.mark.parametrize(
    "properties",
    [
        {"adls.account-name": "main", "adls.account-key": "a2V5"},
        {"adls.auth.shared-key.account.name": "main", "adls.auth.shared-key.account.key": "a2V5"},
        {"adls.account-name": "main", "adls.sas-token": SAS},
        {"adls.connection-string": "AccountName=main;AccountKey=a2V5"},
        {"adls.connection-string": f"https://main.blob.core.windows.net/?{SAS}"},
    ],
)
def test_secrets_of_another_account_are_refused_before_anything_is_asked(
    properties: dict[str, str],
) -> None:
    storage = storage_for(LOCATION, properties)
    for ask in (storage.read, storage.open_input, storage.delete):
        with pytest.raises(
            InvalidInput, match="account main, but the location is in the account archive"
        ) as told:
            ask(LOCATION)
        assert "adls.sas-token.archive" in str(told.value.hint) and "a2V5" not in str(told.value)
    with pytest.raises(InvalidInput, match="archive"):
        storage.write(LOCATION, b"x")


@pytest.mark.parametrize("name", ["archive", HOST, "archive.blob.core.windows.net"])
def test_what_is_given_for_the_account_by_name_counts_first(name: str) -> None:
    others = {
        "adls.account-name": "main",
        "adls.account-key": "a2V5",
        "adls.sas-token.main": "sig=main",
    }
    signature = options("abfss", others | {f"adls.sas-token.{name}": SAS}, HOST)
    assert signature.config == {
        "account_name": "archive",
        "sas_key": SAS,
        "endpoint": "https://archive.blob.core.windows.net",
    }
    assert (
        signature.arrow["account_name"] == "archive" and signature.arrow["sas_token"] == "?" + SAS
    )
    text = options(
        "abfss",
        others | {f"adls.connection-string.{name}": "AccountName=archive;AccountKey=b3du"},
        HOST,
    )
    assert (text.config["account_name"], text.config["account_key"], text.arrow["account_key"]) == (
        "archive",
        "b3du",
        "b3du",
    )
    main = options("abfss", others | {f"adls.sas-token.{name}": SAS}, "main.dfs.core.windows.net")
    assert main.config["sas_key"] == "sig=main" and "account_key" not in main.config


def test_a_connection_string_for_an_account_that_is_another_ones_is_refused() -> None:
    with pytest.raises(InvalidInput, match="account main, but"):
        options(
            "abfss", {"adls.connection-string.archive": "AccountName=main;AccountKey=a2V5"}, HOST
        )


@pytest.mark.parametrize(
    ("host", "blob"),
    [
        (HOST, "https://archive.blob.core.windows.net"),
        ("archive.dfs.core.chinacloudapi.cn", "https://archive.blob.core.chinacloudapi.cn"),
        ("archive.blob.core.usgovcloudapi.net", "https://archive.blob.core.usgovcloudapi.net"),
        ("archive.z01.dfs.storage.azure.net", "https://archive.z01.blob.storage.azure.net"),
        ("archive", "https://archive.blob.core.windows.net"),
    ],
)
def test_the_servers_are_those_of_the_locations_cloud(host: str, blob: str) -> None:
    found = options("abfss", {"adls.account-key": "a2V5"}, host)
    assert found.config["account_name"] == "archive" == found.arrow["account_name"]
    assert found.arrow["blob_storage_authority"] == urlsplit(blob).netloc.removeprefix("archive")
    assert found.arrow["dfs_storage_authority"] == urlsplit(blob).netloc.removeprefix(
        "archive"
    ).replace(".blob.", ".dfs.")
    address = urlsplit(
        obstore.sign(
            client("abfss", f"c@{host}", (("adls.account-key", "a2V5"),)),
            "GET",
            "k",
            timedelta(minutes=1),
        )
    )
    assert f"{address.scheme}://{address.netloc}" == blob and address.path == "/c/k"


DOMAIN = "files.example.com"
KEY_OF_MAIN = "AccountName=main;AccountKey=a2V5"
SAS_OF_MAIN = f"AccountName=main;SharedAccessSignature={SAS}"


@pytest.mark.parametrize(
    "properties",
    [
        {"adls.connection-string": f"{SAS_OF_MAIN};BlobEndpoint=https://{DOMAIN}/"},
        {f"adls.connection-string.{DOMAIN}": SAS_OF_MAIN},
        {f"adls.connection-string.{DOMAIN}": f"https://{DOMAIN}?{SAS}"},
        {f"adls.sas-token.{DOMAIN}": SAS, "adls.connection-string": KEY_OF_MAIN},
        {
            f"adls.connection-string.{DOMAIN}": f"https://{DOMAIN}",
            "adls.account-name": "main",
            "adls.sas-token": SAS,
        },
    ],
    ids=[
        "its address",
        "named for it",
        "as Java's",
        "a token",
        "Java's address, a token beside it",
    ],
)
def test_a_domain_of_ones_own_is_served_where_the_account_is_known(
    properties: dict[str, str],
) -> None:
    chosen = options("abfss", properties, DOMAIN)
    assert (chosen.config["endpoint"], chosen.config["sas_key"]) == (f"https://{DOMAIN}", SAS)
    assert chosen.arrow["account_name"] + chosen.arrow["blob_storage_authority"] == DOMAIN
    assert chosen.arrow["account_name"] + chosen.arrow["dfs_storage_authority"] == DOMAIN


@pytest.mark.parametrize(
    "properties",
    [
        {"adls.connection-string": KEY_OF_MAIN},
        {"adls.connection-string": f"{SAS_OF_MAIN};BlobEndpoint=https://other.example.com"},
        {"adls.connection-string": "AccountName=files;AccountKey=a2V5"},
        {"adls.connection-string.files": "AccountName=files;AccountKey=a2V5"},
        {"adls.account-name": "main", "adls.account-key": "a2V5"},
        {"adls.account-name": "files", "adls.account-key": "a2V5"},
        {"adls.sas-token": SAS},
        {"adls.sas-token.files": SAS},
        {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("host", [DOMAIN, "files.dfs.example.com"])
def test_no_secret_is_sent_to_a_host_that_is_not_azures_unless_a_property_names_it(
    properties: dict[str, str], host: str
) -> None:
    with pytest.raises(
        InvalidInput, match=f"Which Azure account serves the location's host {host} is not known"
    ) as told:
        options("abfss", properties, host)
    assert f"adls.connection-string.{host}: one with AccountName" in str(told.value.hint)


def test_a_connection_string_names_hosts_by_its_suffix_and_decides_alone_where_it_has_an_address() -> (
    None
):
    stack = options(
        "abfss",
        {"adls.connection-string": "AccountName=files;AccountKey=a2V5;EndpointSuffix=example.com"},
        "files.dfs.example.com",
    )
    assert stack.config["endpoint"] == "https://files.blob.example.com"
    text = "AccountName=files;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/files"
    assert (
        options("abfss", {"adls.connection-string": text}, DOMAIN).config["endpoint"]
        == "http://127.0.0.1:10000/files"
    )


def test_both_libraries_ask_a_domain_without_the_accounts_name() -> None:
    with recorder() as store:
        host = store.endpoint.partition("://")[2]
        storage = storage_for(
            f"abfss://c@{host}/k",
            {"adls.connection-string": f"{SAS_OF_MAIN};BlobEndpoint={store.endpoint}"},
        )
        for read in (storage.read, storage.open_input):
            with pytest.raises(FrazilError, match="the store answered"):
                read(f"abfss://c@{host}/k")
    assert {(method, urlsplit(path).path) for method, path, _ in store.asked} == {
        ("GET", "/c/k"),
        ("HEAD", "/c/k"),
    }
    assert all(
        parse_qs(urlsplit(path).query)["sig"] == ["SIGNED+secret="] for _, path, _ in store.asked
    )


def test_a_clients_secret_is_used_though_the_environment_says_to_sign_nothing(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("AZURE_SKIP_SIGNATURE", "true")
    secret = {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"}
    with recorder() as store, recorder() as authority:
        environment.setenv("AZURE_AUTHORITY_HOST", authority.endpoint)
        storage = storage_for(
            LOCATION, {f"adls.connection-string.{HOST}": f"{store.endpoint}/archive"} | secret
        )
        with pytest.raises(FrazilError, match="the store answered"):
            storage.read(LOCATION)
    assert ([path for _, path, _ in authority.asked], store.asked) == (["/t/oauth2/v2.0/token"], [])


def test_a_key_is_refused_at_a_domain_where_pyarrow_would_sign_for_another_account() -> None:
    with pytest.raises(Unsupported, match="signs for another account") as told:
        options("abfss", {f"adls.connection-string.{DOMAIN}": KEY_OF_MAIN}, DOMAIN)
    assert "a signature needs no such name" in str(told.value.hint)
    own = options(
        "abfss", {"adls.connection-string.main.example.com": KEY_OF_MAIN}, "main.example.com"
    )
    assert (
        own.arrow["account_name"],
        own.arrow["blob_storage_authority"],
        own.arrow["account_key"],
    ) == ("main", ".example.com", "a2V5")


def test_each_account_is_sent_its_own_signature_and_no_other() -> None:
    with recorder() as main, recorder() as archive:
        own = {
            f"adls.connection-string.{name}": f"{store.endpoint}/{name}"
            for name, store in (("main", main), ("archive", archive))
        }
        storage = storage_for(
            LOCATION,
            own | {"adls.sas-token.MAIN": "sig=main", f"adls.sas-token.{HOST}": "sig=archive"},
        )
        for location in (LOCATION, "abfss://c@main.dfs.core.windows.net/k"):
            for read in (storage.read, storage.open_input):
                with pytest.raises(FrazilError, match="the store answered"):
                    read(location)
    for name, store in (("main", main), ("archive", archive)):
        asked = [
            (urlsplit(path).path, parse_qs(urlsplit(path).query)["sig"])
            for _, path, _ in store.asked
        ]
        assert len(asked) == 2 and asked == [(f"/{name}/c/k", [name])] * 2


def test_a_location_may_name_the_port() -> None:
    address = obstore.sign(
        client("abfss", f"c@{HOST}:443", (("adls.account-key", "a2V5"),)),
        "GET",
        "k",
        timedelta(minutes=1),
    )
    assert urlsplit(address).hostname == "archive.blob.core.windows.net"


def test_a_connection_string_of_another_cloud_is_refused() -> None:
    text = "AccountName=archive;AccountKey=a2V5;EndpointSuffix=core.windows.net"
    with pytest.raises(
        InvalidInput,
        match=r"cloud core\.windows\.net, but the location is in the cloud core\.chinacloudapi\.cn",
    ):
        options("abfss", {"adls.connection-string": text}, "archive.dfs.core.chinacloudapi.cn")


def test_properties_of_two_names_must_not_contradict_each_other() -> None:
    with pytest.raises(InvalidInput, match=r"adls\.auth\.shared-key\.account\.name"):
        options("abfss", {"adls.account-name": "a", "adls.auth.shared-key.account.name": "b"})


@pytest.mark.parametrize("mark", ["", "?"])
def test_both_libraries_send_the_signature_and_no_key_of_the_environment(mark: str) -> None:
    with recorder() as store:
        text = f"AccountName=archive;SharedAccessSignature={mark}{SAS};BlobEndpoint={store.endpoint}/archive"
        storage = storage_for(LOCATION, {"adls.connection-string": text})
        for read in (storage.read, storage.open_input):
            with pytest.raises(FrazilError):
                read(LOCATION)
    assert {method for method, _, _ in store.asked} == {"GET", "HEAD"}, (
        "obstore got the object, pyarrow asked for its size"
    )
    for _, path, headers in store.asked:
        assert urlsplit(path).path == "/archive/c/k" and parse_qs(urlsplit(path).query)["sig"] == [
            "SIGNED+secret="
        ]
        assert "authorization" not in headers


def refused_opening() -> None:
    with recorder() as store:
        text = (
            f"AccountName=archive;SharedAccessSignature={SAS};BlobEndpoint={store.endpoint}/archive"
        )
        storage_for(LOCATION, {"adls.connection-string": text}).open_input(LOCATION)


def refused_reading() -> None:
    """A read after the opening, as pyarrow's own error tells of it."""
    with translated_errors(LOCATION, "read"):
        raise OSError(
            f"DownloadTo from 'https://{HOST}/c/k?{SAS}' at position 0 for 10 bytes failed."
        )


def refused_decoding() -> None:
    with translated_errors(LOCATION, "read"):
        try:
            raise pa.ArrowInvalid(f"Could not open 'https://{HOST}/c/k?{SAS}'")
        except pa.ArrowInvalid as error:
            raise OSError(5, f"for 'https://{HOST}/c/k?{SAS}'") from error


@pytest.mark.parametrize("fail", [refused_opening, refused_reading, refused_decoding])
def test_no_signature_is_shown_by_an_error_nor_by_its_causes(fail: Any) -> None:
    with pytest.raises(FrazilError) as told:
        fail()
    shown = "".join(traceback.format_exception(told.value))
    assert "SIGNED" not in shown and LOCATION in shown
    assert "***" in shown, "the library's text, which names the address, is there"


@pytest.mark.parametrize("account", ["archive", "main"])
def test_a_connection_string_goes_with_the_name_of_an_account_and_a_signature_for_it(
    account: str,
) -> None:
    own = {"adls.connection-string": "AccountName=archive;AccountKey=a2V5"}
    chosen = options(
        "abfss",
        own | {"adls.account-name": account, f"adls.sas-token.{account}": SAS},
        f"{account}.dfs.core.windows.net",
    )
    assert chosen.config == {
        "account_name": account,
        "sas_key": SAS,
        "endpoint": f"https://{account}.blob.core.windows.net",
    }
    assert (
        options("abfss", own | {"adls.account-name": "archive"}, HOST).config["account_key"]
        == "a2V5"
    )
    with pytest.raises(InvalidInput, match=r"comes with adls\.account-name"):
        options("abfss", own | {"adls.account-name": "main"}, HOST)
