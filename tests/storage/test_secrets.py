"""Secrets never show."""

from __future__ import annotations

import threading
import traceback
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.storage import redact, redact_text, secrets, storage_for
from frazil.storage.objects.object_options import options

SECRET = "hunter2-very-secret"
KEYS = [
    "s3.secret-access-key", "s3.access-key-id", "s3.session-token", "adls.account-key", "adls.sas-token", "adls.client-secret", "adls.connection-string",
    "gcs.oauth2.token", "token", "credential", "jdbc.password", "header.Authorization", "header.X-Key", "rest.signing-secret", "PASSWORD",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_values_of_secret_keys_are_masked(key: str) -> None:
    assert redact({key: SECRET, "warehouse": "/w"}) == {key: "***", "warehouse": "/w"}


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://app:{SECRET}@h/db",
        f"mysql+pymysql://app:{SECRET}@h:1/db?x=1",
        f"jdbc:postgresql://h/db?user=a&password={SECRET}",
    ],
)
def test_passwords_in_uris_are_masked(uri: str) -> None:
    assert (
        SECRET not in redact_text(uri)
        and SECRET not in str(redact({"uri": uri}))
        and "h" in redact_text(uri)
    )


def test_a_storage_shows_no_property() -> None:
    storage = storage_for(
        "s3://bucket/x", {"s3.secret-access-key": SECRET, "s3.access-key-id": SECRET}
    )
    assert SECRET not in repr(storage) and SECRET not in repr(storage.of("s3://bucket/x"))  # type: ignore[attr-defined]


def test_errors_of_options_show_keys_not_values() -> None:
    with pytest.raises(Unsupported, match=r"s3\.encryption-key") as told:
        options("s3", {"s3.encryption-key": SECRET})
    assert SECRET not in str(told.value)


def test_contradictory_and_mistyped_options_are_refused_by_name() -> None:
    with pytest.raises(
        InvalidInput, match=r"s3\.path-style-access and s3\.force-virtual-addressing"
    ):
        options("s3", {"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"})
    with pytest.raises(InvalidInput, match=r"s3\.endpoint"):
        options("s3", {"s3.endpoint": "localhost:9000"})
    with pytest.raises(InvalidInput, match=r"s3\.connect-timeout"):
        options("s3", {"s3.connect-timeout": "soon"})
    with pytest.raises(InvalidInput, match=r"s3\.anonymous"):
        options("s3", {"s3.anonymous": "yes"})


@pytest.mark.parametrize(
    "password", ["a@b/c", "a/b", "p:w@x", "p?w", "p#w@", "two words", "ü%40@é", "//@//"]
)
@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://app:{}@host:5/db",
        "mysql+pymysql://app:{}@host/db?ssl=1",
        "https://app:{}@host/x",
        "thrift://app:{}@host:1",
    ],
)
def test_a_password_is_masked_to_its_end_whatever_it_holds(uri: str, password: str) -> None:
    for shown in (redact_text(uri.format(password)), str(redact({"uri": uri.format(password)}))):
        assert "app:***@host" in shown and not any(
            part in shown for part in password.replace("@", "/").split("/") if len(part) > 1
        )


def test_texts_without_a_secret_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_KNOWN", OrderedDict())
    for text in (
        "thrift://h:9083",
        "s3://b/k@x",
        "abfss://c@a.dfs.core.windows.net/t",
        "mail a@b.c",
        "sv=2024-01-01&se=2",
        "Bearer of news",
    ):
        assert redact_text(text) == text


ECHOED = [
    "x-amz-security-token: {}",
    "X-Amz-Security-Token={}&x=1",
    '{{"Authorization": "Bearer {}"}}',
    "<Token>{}</Token>",
    "AccountKey={};",
    "?sv=1&sig={}",
]


@pytest.mark.parametrize("text", ECHOED)
def test_what_a_server_repeats_is_masked(text: str) -> None:
    secret = "Abc+/12/3=="
    options(
        "s3", {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": secret}
    )
    for spelled in (secret, quote(secret, safe="")):
        assert spelled not in redact_text(text.format(spelled))


class Echo(BaseHTTPRequestHandler):
    """Answers with the request: its line and headers."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = f"<Error><Code>Odd</Code><Message>{self.path}\n{self.headers}</Message></Error>".encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    def log_message(self, *_: Any) -> None: ...


PLACES = {
    "s3://b/k": lambda at: {"s3.endpoint": at, "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": SECRET},
    "gs://b/k": lambda at: {"gcs.service.host": at, "gcs.oauth2.token": SECRET},
    "abfss://c@mine.dfs.core.windows.net/k": lambda at: {"adls.connection-string.mine": f"{at}/mine", "adls.sas-token.mine": f"sv=1&sig={quote(SECRET)}%2B"},
}  # fmt: skip


@pytest.mark.parametrize("location", PLACES)
def test_a_traceback_shows_no_token_that_the_store_repeats(location: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    storage = storage_for(location, PLACES[location](f"http://127.0.0.1:{server.server_port}"))

    def upload() -> None:
        with storage.open_output(location) as sink:
            sink.write(b"x")

    shown = ""
    for ask in (
        lambda: storage.read(location),
        lambda: storage.open_input(location).read(),
        lambda: storage.write(location, b"x", True),
        upload,
        lambda: list(storage.list(location)),
        lambda: storage.publish(location, b"x"),
        lambda: storage.delete(location),
    ):
        with pytest.raises((FrazilError, OSError)) as told:
            ask()
        shown += "".join(traceback.format_exception(told.value))
    server.shutdown()
    assert "Odd" in shown and SECRET not in shown and quote(SECRET) not in shown
