"""Tokens of clouds for REST catalogs: had from the clouds' own libraries, renewed before their end,
never given because a server asks.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.catalog.rest.catalog import RestBackend
from frazil.errors import InvalidInput, NotInstalledError, StorageError
from tests.catalog.rest.conftest import Server, error


def bearers(server: Server) -> list[str]:
    return [
        asked.headers.get("Authorization", "").removeprefix("Bearer ") for asked in server.asked
    ]


@pytest.fixture
def entra(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Azure's credentials, which give tokens that live for `life[0]` seconds; what they were asked
    for.
    """
    identity = pytest.importorskip("azure.identity")
    asked: list[Any] = []

    class Credential:
        life = 3600.0

        def get_token(self, *scopes: str) -> Any:
            asked.append(scopes)
            return SimpleNamespace(token=f"entra-{len(asked)}", expires_on=time.time() + self.life)

    monkeypatch.setattr(identity, "DefaultAzureCredential", Credential)
    return [asked, Credential]


@pytest.mark.parametrize("kind", ["entra", "azure"])
def test_a_token_of_azure_is_had_kept_and_renewed(
    server: Server, entra: list[Any], kind: str
) -> None:
    server.on("GET /v1/namespaces", (200, {"namespaces": []}))
    catalog = server.catalog(**{"rest.auth.type": kind, "auth.entra.scopes": "api://x/.default"})
    catalog.list_namespaces()
    catalog.list_namespaces()
    assert set(bearers(server)) == {"entra-1"} and entra[0] == [("api://x/.default",)]
    server.on("GET /v1/namespaces", error(401, "NotAuthorizedException"), (200, {"namespaces": []}))
    catalog.list_namespaces()
    assert bearers(server)[-2:] == ["entra-1", "entra-2"], "one that the server refuses is renewed"
    entra[1].life = 0.4
    brief = RestBackend("b", {**dict(catalog.properties)})
    brief.list_namespaces()
    time.sleep(0.5)
    brief.list_namespaces()
    assert bearers(server)[-1] != bearers(server)[-2]


def test_a_token_of_google_is_that_of_the_default_credentials_or_of_a_file(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    google = pytest.importorskip("google.auth")
    asked: list[Any] = []

    class Credential:
        token, expiry = "", None

        def refresh(self, request: Any) -> None:
            self.token, self.expiry = (
                "google-token",
                datetime.now(UTC).replace(tzinfo=None).replace(year=2999),
            )

    monkeypatch.setattr(
        google, "default", lambda scopes: asked.append(("default", scopes)) or (Credential(), "p")
    )
    monkeypatch.setattr(
        google,
        "load_credentials_from_file",
        lambda path, scopes: asked.append((path, scopes)) or (Credential(), "p"),
    )
    server.on("GET /v1/namespaces", (200, {"namespaces": []}))
    server.catalog(**{"auth.type": "google"}).list_namespaces()
    more = {
        "rest.auth.type": "org.apache.iceberg.gcp.auth.GoogleAuthManager",
        "gcp.auth.credentials-path": "/k.json",
        "gcp.auth.scopes": "a,b",
    }
    server.catalog(**more).list_namespaces()
    assert asked == [
        ("default", ["https://www.googleapis.com/auth/cloud-platform"]),
        ("/k.json", ["a", "b"]),
    ]
    assert set(bearers(server)) == {"google-token"}


def test_credentials_of_google_that_are_none_are_told(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "k.json").write_text(
        json.dumps({"type": "service_account", "private_key": "hunter2"})
    )
    with pytest.raises(InvalidInput, match="No credentials of Google") as told:
        server.catalog(
            **{"auth.type": "google", "gcp.auth.credentials-path": str(tmp_path / "k.json")}
        ).list_namespaces()
    assert "hunter2" not in f"{told.value!r}" and not server.asked


@pytest.mark.parametrize(
    ("kind", "library", "extra"),
    [("google", "google.auth", "google-auth"), ("entra", "azure.identity", "azure-identity")],
)
def test_without_the_library_its_extra_is_named(
    server: Server, kind: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NotInstalledError) as told:
        server.catalog(**{"auth.type": kind}).list_namespaces()
    assert f"frazil[{extra}]" in str(told.value.hint) and not server.asked


@pytest.mark.parametrize("key", ["auth.type", "rest.auth.type"])
@pytest.mark.parametrize(
    "kind", ["google", "entra", "azure", "org.apache.iceberg.gcp.auth.GoogleAuthManager"]
)
def test_no_server_asks_for_a_token_of_a_cloud(
    server: Server, key: str, kind: str, entra: list[Any]
) -> None:
    server.on(
        "GET /v1/config",
        (
            200,
            {
                "defaults": {},
                "overrides": {key: kind, "auth.entra.scopes": "https://evil.example/.default"},
            },
        ),
    )
    server.on("GET /v1/namespaces", (200, {"namespaces": []}))
    server.catalog().list_namespaces()
    assert entra[0] == [] and set(bearers(server)) == {""}


def test_a_cloud_that_gives_no_token_is_told(server: Server, entra: list[Any]) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    def refused(self: Any, *scopes: str) -> Any:
        raise ClientAuthenticationError("hunter2")

    entra[1].get_token = refused
    with pytest.raises(StorageError, match="Azure gives no token") as told:
        server.catalog(**{"auth.type": "entra"}).list_namespaces()
    assert "az login" in str(told.value.hint) and "hunter2" not in f"{told.value!r}"
