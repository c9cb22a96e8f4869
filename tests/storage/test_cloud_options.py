"""Properties of Google's and Azure's stores become the options of both libraries, or are refused
without showing a secret.
"""

from __future__ import annotations

import pytest

from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.storage import storage_for
from frazil.storage.objects.object_clients import client
from frazil.storage.objects.object_options import options
from tests.storage.recorder import recorder

KEY = "AccountName=acc;AccountKey=c2VjcmV0"


def test_a_connection_string_gives_account_key_and_addresses() -> None:
    plain = options(
        "abfss",
        {
            "adls.connection-string": f"DefaultEndpointsProtocol=https;{KEY};EndpointSuffix=core.windows.net"
        },
    )
    assert plain.config == {
        "account_name": "acc",
        "account_key": "c2VjcmV0",
        "endpoint": "https://acc.blob.core.windows.net",
    }
    assert (
        plain.arrow["blob_storage_authority"] == ".blob.core.windows.net"
        and plain.arrow["dfs_storage_authority"] == ".dfs.core.windows.net"
    )
    local = options(
        "abfss", {"adls.connection-string": f"{KEY};BlobEndpoint=http://127.0.0.1:10000/acc;"}
    )
    assert local.config["endpoint"] == "http://127.0.0.1:10000/acc" and local.client == {
        "allow_http": True
    }
    assert (
        local.arrow["blob_storage_authority"] == "127.0.0.1:10000"
        and local.arrow["blob_storage_scheme"] == "http"
    )


@pytest.mark.parametrize(
    "text",
    ["AccountName=acc", f"{KEY};Sesame=c2VjcmV0", "c2VjcmV0", f"{KEY};BlobEndpoint=c2VjcmV0"],
)
def test_a_wrong_connection_string_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="adls.connection-string") as told:
        options("abfss", {"adls.connection-string": text})
    assert "c2VjcmV0" not in str(told.value)


CONTRADICTIONS = [
    ("abfss", {"adls.connection-string": KEY, "adls.account-name": "other"}, InvalidInput, "adls.account-name"),
    ("gs", {"gcs.oauth2.token": "t", "gcs.no-auth": "true"}, InvalidInput, "gcs.no-auth"),
    ("abfss", {"adls.dfs-storage-authority": "x"}, Unsupported, "adls.dfs-storage-authority"),
]  # fmt: skip


def test_properties_that_contradict_each_other_are_refused() -> None:
    for scheme, properties, error, message in CONTRADICTIONS:
        with pytest.raises(error, match=message):
            options(scheme, properties)


def test_a_token_of_google_is_given_to_both_libraries_with_its_expiry() -> None:
    found = options("gs", {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "1700000000000"})
    assert found.config["bearer_token"] == "t" == found.arrow["access_token"]
    assert found.arrow["credential_token_expiration"].timestamp() == 1700000000
    with pytest.raises(InvalidInput, match="token-expires-at"):
        options("gs", {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "soon"})


def test_a_token_of_google_is_sent_though_the_environment_says_to_sign_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    client.cache_clear()
    with recorder() as store:
        for own, sent in (
            ({"gcs.oauth2.token": "mine"}, "Bearer mine"),
            ({"gcs.no-auth": "true"}, None),
        ):
            storage = storage_for("gs://b/k", {"gcs.service.host": store.endpoint} | own)
            for read in (storage.read, storage.open_input):
                with pytest.raises(FrazilError, match="the store answered"):
                    read("gs://b/k")
            assert [headers.get("authorization") for _, _, headers in store.asked[-2:]] == [
                sent,
                sent,
            ]
    client.cache_clear()


@pytest.mark.parametrize("key", ["not-base64", "YQ", "YQ==!"])
@pytest.mark.parametrize("form", ["key", "connection"])
def test_a_key_of_azure_that_is_none_is_refused_and_does_not_end_the_process(
    key: str, form: str
) -> None:
    connection = {"adls.connection-string": f"AccountName=acc;AccountKey={key}"}
    given = connection if form == "connection" else {"adls.account-key": key}
    with pytest.raises(InvalidInput, match="Base64") as told:
        options("abfss", given, "acc.dfs.core.windows.net")
    assert key not in str(told.value)
