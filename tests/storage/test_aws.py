"""Credentials of AWS as its own tools find them: profiles, roles to assume, and an answer at once
where the library is missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from frazil.catalog import load_backend
from frazil.catalog.rest.sigv4 import signed_headers, signing_of
from frazil.catalog.rest.vended import vended
from frazil.errors import InvalidInput, NotInstalledError, StorageError, Unsupported
from frazil.spark.scan import hadoop_s3
from frazil.storage import storage_for
from frazil.storage import tuning as tuning_module
from frazil.storage.credentials.precedence import overriding
from frazil.storage.routing import routed
from tests.storage.fake_s3 import FakeS3, fake_s3

pytest.importorskip("obstore")
CONFIG = """
[profile work]
aws_access_key_id = work-key
aws_secret_access_key = work-secret
region = eu-west-3

[profile runs]
credential_process = {process}

[profile roles]
role_arn = arn:aws:iam::1:role/of-profile
source_profile = work
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in [k for k in os.environ if k.startswith("AWS_")]:
        monkeypatch.delenv(name)
    process = tmp_path / "process.sh"
    ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    keys = {
        "Version": 1,
        "AccessKeyId": "process-key",
        "SecretAccessKey": "s",
        "SessionToken": "hunter2-token",
        "Expiration": ends,
    }
    process.write_text(f"#!/bin/sh\necho '{json.dumps(keys)}'\n")
    process.chmod(0o755)
    (tmp_path / "config").write_text(CONFIG.format(process=process))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.fixture
def sts(environment: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A server that gives out roles for two seconds, and the requests that it was sent."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            asked.append(
                {k: v[0] for k, v in form.items()}
                | {
                    "by": self.headers["Authorization"]
                    .partition("Credential=")[2]
                    .partition("/")[0]
                }
            )
            ends = (datetime.now(UTC) + timedelta(seconds=asked[0].get("life", 3600))).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            )
            body = (
                f"<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult><Credentials><AccessKeyId>role-key{len(asked)}</AccessKeyId>"
                f"<SecretAccessKey>x</SecretAccessKey><SessionToken>hunter2-role</SessionToken><Expiration>{ends}</Expiration></Credentials>"
                "<AssumedRoleUser><Arn>a</Arn><AssumedRoleId>b</AssumedRoleId></AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    environment.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    server.server_close()


def used(store: FakeS3) -> set[str]:
    """The keys by which a store was asked."""
    return {
        sent["authorization"].partition("Credential=")[2].partition("/")[0] for sent in store.sent
    }


def asked_by(properties: dict[str, str]) -> tuple[set[str], FakeS3]:
    with fake_s3() as store:
        storage = pickle.loads(pickle.dumps(routed({"s3.endpoint": store.endpoint, **properties})))
        storage.write("s3://b/k", b"x")
        with storage.open_output("s3://b/l") as sink:
            sink.write(b"y")
        assert (
            storage.open_input("s3://b/k").read() == b"x" and len(list(storage.list("s3://b"))) == 2
        )
        return used(store), store


@pytest.mark.parametrize("key", ["client.profile", "client.profile-name", "s3.profile-name"])
def test_a_profile_that_is_named_gives_its_keys_and_region(
    key: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "s")
    keys, store = asked_by({key: "work"})
    assert keys == {"work-key"} and all(
        "/eu-west-3/s3/" in sent["authorization"] for sent in store.sent
    )
    keys, store = asked_by({key: "work", "s3.region": "us-west-1"})
    assert keys == {"work-key"} and all(
        "/us-west-1/s3/" in sent["authorization"] for sent in store.sent
    )


def test_the_profile_and_the_keys_of_the_environment_are_found(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("AWS_PROFILE", "work")
    assert asked_by({})[0] == {"work-key"}
    environment.setenv("AWS_PROFILE", "runs")
    keys, store = asked_by({})
    assert keys == {"process-key"} and all(
        sent["x-amz-security-token"] == "hunter2-token" for sent in store.sent
    )
    environment.delenv("AWS_PROFILE")
    for name, value in (("AWS_ACCESS_KEY_ID", "of-environment"), ("AWS_SECRET_ACCESS_KEY", "s")):
        environment.setenv(name, value)
    assert asked_by({})[0] == {"of-environment"}
    assert asked_by({"s3.access-key-id": "own", "s3.secret-access-key": "s"})[0] == {"own"}


def test_a_role_is_assumed_by_what_is_at_hand_and_as_the_properties_say(
    sts: list[dict[str, Any]], environment: pytest.MonkeyPatch
) -> None:
    role = {
        "client.assume-role.arn": "arn:aws:iam::1:role/writer",
        "client.assume-role.region": "eu-west-1",
        "client.assume-role.external-id": "ext",
        "client.assume-role.session-name": "nightly",
        "client.assume-role.timeout-sec": "900",
        "client.assume-role.tags.team": "x",
    }
    assert asked_by({**role, "client.profile": "work"})[0] == {"role-key1"}
    wanted = {
        "RoleArn": "arn:aws:iam::1:role/writer",
        "ExternalId": "ext",
        "RoleSessionName": "nightly",
        "DurationSeconds": "900",
        "by": "work-key",
    }
    assert (
        wanted.items() <= sts[0].items() and sts[0]["Tags.member.1.Key"] == "team" and len(sts) == 1
    )
    own = {
        "s3.access-key-id": "own",
        "s3.secret-access-key": "s",
        "client.role-arn": "arn:aws:iam::1:role/other",
    }
    assert asked_by(own)[0] == {"role-key2"} and sts[1]["by"] == "own"
    environment.setenv("AWS_PROFILE", "roles")
    assert (
        asked_by({})[0] == {"role-key3"}
        and sts[2]["RoleArn"].endswith("of-profile")
        and sts[2]["by"] == "work-key"
    )
    with pytest.raises(InvalidInput, match="timeout-sec"):
        asked_by({**role, "client.assume-role.timeout-sec": "5"})


def test_credentials_are_asked_for_again_before_they_end(
    sts: list[dict[str, Any]], environment: pytest.MonkeyPatch
) -> None:
    with fake_s3() as store:
        storage = storage_for(
            "s3://b/k",
            {
                "s3.endpoint": store.endpoint,
                "client.profile": "work",
                "client.assume-role.arn": "arn:aws:iam::1:role/short",
            },
        )
        sts.append({"life": 2})
        for _ in range(8):
            storage.write("s3://b/k", b"x", overwrite=True)
            time.sleep(0.4)
        assert len(used(store)) >= 2 and len(sts) - 1 >= len(used(store))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("ProfileCredentialsProvider", "work-key"),
        ("EnvironmentVariableCredentialsProvider", "of-environment"),
        ("DefaultCredentialsProvider", "of-environment"),
    ],
)
def test_a_provider_of_java_is_known_by_its_name(
    name: str, key: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "s")
    profile = {"client.profile": "work"} if key == "work-key" else {}
    assert asked_by(
        {
            "client.credentials-provider": f"software.amazon.awssdk.auth.credentials.{name}",
            **profile,
        }
    )[0] == {key}
    with pytest.raises(Unsupported, match="com.acme.Keys"):
        asked_by({"client.credentials-provider": "com.acme.Keys"})


def test_signed_requests_to_catalogs_take_them_too(
    sts: list[dict[str, Any]], environment: pytest.MonkeyPatch
) -> None:
    def by(**properties: str) -> str:
        signing = signing_of(
            {
                "rest.sigv4-enabled": "true",
                **{k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()},
            }
        )
        assert signing is not None and "secret" not in repr(signing)
        return (
            signed_headers(signing, "GET", "https://h/v1/config", {}, None)["Authorization"]
            .partition("Credential=")[2]
            .partition(",")[0]
        )

    assert by(client__profile="work").startswith("work-key/") and "/eu-west-3/execute-api/" in by(
        client__profile="work"
    )
    assert by(client__profile="work", client__assume_role__arn="arn:aws:iam::1:role/x").startswith(
        "role-key1/"
    )
    assert by(
        rest__access_key_id="own",
        rest__secret_access_key="s",
        client__profile="work",
        client__region="r",
    ).startswith("own/")
    environment.setenv("AWS_PROFILE", "work")
    assert by().startswith("work-key/")


def test_without_the_library_a_profile_is_refused_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(importlib.util, "find_spec", lambda name, *_: None)
    environment.setenv("AWS_PROFILE", "work")
    began = time.monotonic()
    for properties in ({}, {"client.profile": "other"}, {"client.assume-role.arn": "arn"}):
        with pytest.raises(NotInstalledError, match="needs botocore") as told:
            storage_for("s3://b/k", properties).read("s3://b/k")
        assert 'pip install "frazil[aws]"' in str(told.value.hint)
    with pytest.raises(NotInstalledError, match="AWS_PROFILE"):
        signing_of({"rest.sigv4-enabled": "true", "client.region": "r"})
    assert time.monotonic() - began < 5
    with fake_s3() as store:
        storage_for("s3://b/k", store.properties).write("s3://b/k", b"x")


def test_a_profile_that_does_not_exist_and_no_credentials_at_all_are_told_at_once(
    environment: pytest.MonkeyPatch,
) -> None:
    began = time.monotonic()
    with pytest.raises(StorageError, match="nowhere"):
        storage_for("s3://b/k", {"client.profile": "nowhere"}).read("s3://b/k")
    with pytest.raises(StorageError, match="No credentials of AWS were found"):
        storage_for("s3://b/k").read("s3://b/k")
    assert time.monotonic() - began < 10


def test_whose_identity_is_used_no_server_says_and_keys_that_it_vends_count_first() -> None:
    told = {
        "client.profile": "work",
        "client.assume-role.arn": "arn",
        "client.credentials-provider": "x",
        "client.assume-role.tags.a": "b",
        "s3.region": "r",
    }
    assert vended("s3://b/t", told, []).properties == {"s3.region": "r"}
    own = {"client.profile": "work", "client.assume-role.arn": "arn"}
    merged = overriding(own, {"s3.access-key-id": "vended", "s3.secret-access-key": "s"})
    assert asked_by(merged)[0] == {"vended"}


def test_sparks_own_scan_leaves_profiles_and_roles_to_arrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hadoop_s3, "jvm_of", lambda spark: object())
    monkeypatch.setattr(hadoop_s3, "has_file_system", lambda spark, scheme: True)
    monkeypatch.setattr(hadoop_s3, "hadoop_settings", lambda spark, keys: {})
    assert hadoop_s3.s3_options(None, routed({"client.profile": "work"}), "s3://profiles/f") is None
    assert hadoop_s3.s3_options(None, routed({"s3.region": "r"}), "s3://profiles/f") is not None


def test_properties_that_only_tune_are_hints_with_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    tuning_module._TOLD.clear()
    tuning = {
        "s3.multipart.part-size-bytes": "1",
        "s3.retry.num-retries": "3",
        "http-client.apache.max-connections": "9",
    }
    load_backend("c", type="memory", **tuning, **{"cache-enabled": "false"})
    with fake_s3() as store:
        for _ in range(2):
            storage_for(
                "s3://b/k",
                {**store.properties, **{k: v for k, v in tuning.items() if k.startswith("s3.")}},
            ).write("s3://b/k", b"x", True)
    for key in (*tuning, "cache-enabled"):
        assert sum(f"{key} only tunes" in r.getMessage() for r in caplog.records) == 1
