"""Signature Version 4: AWS's own test suite (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4),
requests to Glue and S3 Tables as botocore 1.44.8 signs them (its SigV4Auth, at the time of that
suite), and what a server is sent."""

from __future__ import annotations

import calendar
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.rest.sigv4 import Signing, authorization, signed_headers, signing_of
from frazil.errors import InvalidInput
from tests.catalog.conftest import TABLE, set_to, swap
from tests.catalog.rest.conftest import Server, table_json

VECTORS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "sigv4_vectors.json").read_text()
)
ENDPOINTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "sigv4_endpoints.json").read_text()
)
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
OWN = {
    "rest.sigv4-enabled": "true",
    "rest.signing-region": "eu-west-1",
    "rest.access-key-id": "AKIDEXAMPLE",
    "rest.secret-access-key": SECRET,
}
ROUTE = "/v1/namespaces/db/tables/t"


@pytest.mark.parametrize("name", VECTORS)
def test_signatures_are_those_that_aws_publishes(name: str) -> None:
    v = VECTORS[name]
    signing = Signing("us-east-1", "service", "AKIDEXAMPLE", SECRET, v["token"])
    found = authorization(
        signing,
        v["method"],
        f"https://example.amazonaws.com{v['target']}",
        v["headers"],
        v["body"].encode(),
        "20150830T123600Z",
    )
    assert found == v["authorization"]


@pytest.mark.parametrize("name", ENDPOINTS)
def test_requests_to_glue_and_s3_tables_are_signed_as_aws_own_client_signs_them(name: str) -> None:
    v = ENDPOINTS[name]
    signing = Signing(v["region"], v["service"], "AKIDEXAMPLE", SECRET, v["token"])
    body, headers = (
        (v["body"].encode(), {"Content-Type": "application/json"}) if v["body"] else (None, {})
    )
    sent = signed_headers(signing, v["method"], v["url"], headers, body, now=1440938160)
    assert (
        sent["Authorization"] == v["authorization"]
        and sent.get("X-Amz-Security-Token") == v["token"]
    )
    assert f"/{name.partition('-')[0]}/aws4_request" in v["authorization"]


def test_a_path_is_encoded_once_more_than_it_is_sent_and_a_port_is_part_of_the_host() -> None:
    signing = Signing("us-east-1", "glue", "AKIDEXAMPLE", SECRET)
    url = "https://h:8443/iceberg/v1/namespaces/a%1Fb/tables/t%20x?snapshots=all"
    sent = signed_headers(
        signing, "GET", url, {"User-Agent": "x", "Authorization": "Bearer b"}, None, now=1440938160
    )
    assert (
        sent["Host"] == "h:8443"
        and sent["X-Amz-Date"] == "20150830T123600Z"
        and sent["Original-Authorization"] == "Bearer b"
    )
    # the same by AWS's rule, step by step
    names = "host;original-authorization;x-amz-content-sha256;x-amz-date"
    empty = hashlib.sha256(b"").hexdigest()
    lines = [
        "GET",
        "/iceberg/v1/namespaces/a%251Fb/tables/t%2520x",
        "snapshots=all",
        "host:h:8443",
        "original-authorization:Bearer b",
    ]
    canonical = "\n".join(
        [*lines, f"x-amz-content-sha256:{empty}", "x-amz-date:20150830T123600Z", "", names, empty]
    )
    scope = "20150830/us-east-1/glue/aws4_request"
    assert f"Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, " in sent["Authorization"]
    text = f"AWS4-HMAC-SHA256\n20150830T123600Z\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    assert sent["Authorization"].endswith(_signature(text, scope))


def _signature(text: str, scope: str) -> str:
    import hmac

    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def checked(server: Server, asked: Any, region: str, service: str) -> None:
    """As a server checks a request: by what it received."""
    value = asked.headers["Authorization"]
    names = value.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    received = {k.lower(): v for k, v in asked.headers.items()}
    assert received["x-amz-content-sha256"] == hashlib.sha256(asked.body).hexdigest() and {
        "host",
        "x-amz-date",
    } <= set(names)
    signing = Signing(region, service, "AKIDEXAMPLE", SECRET)
    again = authorization(
        signing,
        asked.method,
        server.uri + asked.path,
        {n: received[n] for n in names},
        asked.body,
        received["x-amz-date"],
    )
    assert value == again
    assert (
        abs(calendar.timegm(time.strptime(received["x-amz-date"], "%Y%m%dT%H%M%SZ")) - time.time())
        < 60
    )


def test_every_request_is_signed_as_the_server_receives_it(server: Server) -> None:
    server.on(f"GET {ROUTE}", None, (200, table_json()))
    server.on(f"POST {ROUTE}", (200, table_json()))
    server.on(
        "GET /v1/config",
        (
            200,
            {
                "defaults": {"rest.sigv4-enabled": "false", "rest.signing-name": "other"},
                "overrides": {},
            },
        ),
    )
    backend = server.catalog(warehouse="a b/c+d", **OWN, **{"rest.signing-name": "s3tables"})
    swap(backend, backend.load(TABLE), set_to(a="1"))
    assert len(server.asked) == 4, "one of them sent again, signed again"
    for asked in server.asked:
        checked(server, asked, "eu-west-1", "s3tables")
    assert server.asked[0].path == "/v1/config?warehouse=a%20b%2Fc%2Bd"
    assert SECRET not in repr(backend) and SECRET not in repr(backend.client.settings)


def test_a_token_travels_beside_the_signature(server: Server) -> None:
    server.on(f"GET {ROUTE}", (200, table_json()))
    server.catalog(token="tok", **OWN).load(TABLE)
    assert server.asked[-1].headers["Original-Authorization"] == "Bearer tok"
    checked(server, server.asked[-1], "eu-west-1", "execute-api")


@pytest.mark.parametrize("token", [None, "tok"])
def test_newer_releases_of_java_name_signing_as_a_type_of_authentication(
    server: Server, token: str | None
) -> None:
    server.on(
        "GET /v1/config",
        (200, {"defaults": {"rest.auth.type": "none"}, "overrides": {"rest.auth.type": "oauth2"}}),
    )
    server.on(f"GET {ROUTE}", (200, table_json()))
    own = {k: v for k, v in OWN.items() if k != "rest.sigv4-enabled"}
    server.catalog(
        **own, **{"rest.auth.type": "sigv4"}, **({"token": token} if token else {})
    ).load(TABLE)
    checked(server, server.asked[-1], "eu-west-1", "execute-api")
    assert server.asked[-1].headers.get("Original-Authorization") == (
        f"Bearer {token}" if token else None
    )
    basic = {
        "rest.auth.sigv4.delegate-auth-type": "basic",
        "rest.auth.basic.username": "u",
        "rest.auth.basic.password": "p",
    }
    server.catalog(**own, **{"rest.auth.type": "sigv4"}, **basic).load(TABLE)
    assert server.asked[-1].headers["Original-Authorization"] == "Basic dTpw"


@pytest.mark.parametrize(
    "asked_for",
    [{"rest.sigv4-enabled": "true"}, {"rest.auth.type": "sigv4"}, {"auth.type": "sigv4"}],
)
def test_a_server_cannot_ask_for_signatures(
    server: Server, asked_for: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "mine"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "x"),
    ):
        monkeypatch.setenv(name, value)
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": asked_for}))
    server.on(f"GET {ROUTE}", (200, table_json()))
    server.catalog().load(TABLE)
    assert not any("Authorization" in a.headers for a in server.asked)


def test_credentials_and_region_are_found_or_told() -> None:
    env = {
        "AWS_REGION": "r",
        "AWS_ACCESS_KEY_ID": "i",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
    }
    on = {"rest.sigv4-enabled": "true"}
    assert (
        signing_of(on, env) == Signing("r", "execute-api", "i", "s", "t")
        and signing_of({}, env) is None
    )
    given = {
        **on,
        "client.region": "c",
        "client.access-key-id": "ci",
        "client.secret-access-key": "cs",
        "rest.signing-name": "glue",
    }
    assert signing_of(given, env) == Signing("c", "glue", "ci", "cs", None)
    assert signing_of({**given, **OWN}, env) == Signing(
        "eu-west-1", "glue", "AKIDEXAMPLE", SECRET, None
    )
    with pytest.raises(InvalidInput, match=r"needs a region.*rest\.signing-region"):
        signing_of(on, {})
    with pytest.raises(InvalidInput, match="needs credentials.*AWS_SECRET_ACCESS_KEY"):
        signing_of(on, {"AWS_DEFAULT_REGION": "r", "AWS_ACCESS_KEY_ID": "i"})
    with pytest.raises(InvalidInput, match=r"rest\.secret-access-key"):
        signing_of({**on, "rest.access-key-id": "i"}, env)
    with pytest.raises(InvalidInput, match="true or false"):
        signing_of({"rest.sigv4-enabled": "yes"}, env)
