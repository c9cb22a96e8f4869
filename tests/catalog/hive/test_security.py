"""Metastores that want to know who asks (SASL: user and password, Kerberos), and those over TLS."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from thrift.transport.TTransport import TBufferedTransport, TFileObjectTransport, TFramedTransport

import frazil
from frazil.catalog.hive.settings import KerberosIdentity, settings
from frazil.catalog.hive.transport import AnswerLimits, _limited_socket
from frazil.errors import FrazilError, InvalidInput, NotInstalledError, StorageError, Unsupported
from tests.catalog.hive.scripted_metastore import answer, scripted_metastore

PROTECTION = "hadoop.rpc.protection"
MODE = "hive.metastore.client.auth.mode"
PLAIN = {
    MODE: "PLAIN",
    "hive.metastore.client.plain.username": "me",
    "hive.metastore.client.plain.password": "hunter2",
}
DATABASES = answer("get_all_databases", success=["default", "db"])


def stream_of(client: socket.socket) -> Any:
    return client.makefile("rwb", buffering=0)


def told(stream: Any) -> tuple[int, bytes]:
    status, size = struct.unpack("!BI", stream.read(5))
    return status, stream.read(size) if size else b""


def tell(stream: Any, status: int, body: bytes = b"") -> None:
    stream.write(struct.pack("!BI", status, len(body)) + body)


def plain_guard(client: socket.socket) -> Any:
    """The server's side of PLAIN; what follows is framed."""
    stream = stream_of(client)
    assert told(stream) == (1, b"PLAIN")
    status, words = told(stream)
    if (status, words) != (2, b"\0me\0hunter2"):
        tell(stream, 3, b"Error validating the login")
        return None
    tell(stream, 5)
    return TFramedTransport(TFileObjectTransport(stream))


def namespaces(uri: str, **properties: str) -> list[tuple[str, ...]]:
    catalog = frazil.load_catalog("h", type="hive", uri=uri, warehouse="/nowhere", **properties)
    try:
        assert "hunter2" not in repr(catalog)
        return sorted(catalog.list_namespaces())
    finally:
        catalog.close()


def test_a_user_and_password_are_told_before_the_first_call() -> None:
    with scripted_metastore(plain_guard) as server:
        server.answers["get_all_databases"] = DATABASES
        assert namespaces(server.uri, **PLAIN) == [("db",), ("default",)]
        assert server.asked == ["get_all_databases"], "the user is known"


@pytest.mark.parametrize(
    "uri",
    [os.environ["FRAZIL_TEST_HMS4_PLAIN"]] if os.environ.get("FRAZIL_TEST_HMS4_PLAIN") else [],
)
def test_a_real_metastore_that_asks_for_a_user_and_password_serves_who_tells_them(
    uri: str, db: str, tmp_path: Path
) -> None:
    with frazil.load_catalog(
        "h", type="hive", uri=uri, warehouse=str(tmp_path), **PLAIN
    ) as catalog:
        catalog.create_namespace(db)
        table = catalog.create_table(f"{db}.t", "id bigint")
        table.append([{"id": 1}])
        table.append([{"id": 2}])
        assert catalog.load_table(f"{db}.t").scan().count() == 2
        catalog.drop_table(f"{db}.t")
    with pytest.raises(
        StorageError, match="refuses PLAIN: Error validating the login.*Check the user and password"
    ):
        namespaces(uri, **{**PLAIN, "hive.metastore.client.plain.password": "hunter2x"})
    with pytest.raises(
        StorageError, match="compare hive.kerberos-authentication, hive.metastore.client.auth.mode"
    ):
        namespaces(uri)


@pytest.mark.parametrize("fault", ["password", "no SASL", "a huge challenge", "an early end"])
def test_a_login_that_fails_is_told_without_the_password(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guard(client: socket.socket) -> Any:
        stream = stream_of(client)
        if fault == "password":
            return plain_guard(client)
        told(stream)
        if fault == "no SASL":
            return None
        stream.write(
            struct.pack("!BI", 2, 1 << 30)
            if fault == "a huge challenge"
            else struct.pack("!BI", 5, 0)
        )
        return TFramedTransport(TFileObjectTransport(stream)) if fault == "an early end" else None

    monkeypatch.setattr("frazil.catalog.hive.client._PAUSE", 0)
    with scripted_metastore(guard) as server:
        reasons = {
            "password": "Error validating the login",
            "a huge challenge": "announces 1073741824 bytes",
            "no SASL": "No Hive Metastore answers",
        }
        reason = reasons.get(fault, "did not answer get_all_databases|No Hive Metastore answers")
        with pytest.raises(FrazilError, match=reason) as refused:
            namespaces(
                server.uri,
                **{
                    **PLAIN,
                    **(
                        {"hive.metastore.client.plain.password": "hunter2x"}
                        if fault == "password"
                        else {}
                    ),
                },
            )
        assert "hunter2" not in str(refused.value) and "get_all_databases" not in server.asked


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("server", "other"):
        words = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        ]
        more = [
            "-subj",
            "/CN=localhost",
            "-days",
            "2",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ]
        subprocess.run(["openssl", *words, *more], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("login", [False, True])
def test_metastores_over_tls_are_called_and_their_certificates_checked(
    keys: Path, login: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{keys}/other.pem")
    context.load_cert_chain(f"{keys}/server.pem", f"{keys}/server.key")
    context.verify_mode = ssl.CERT_REQUIRED

    def guard(client: socket.socket) -> Any:
        secured = context.wrap_socket(client, server_side=True)
        return (
            plain_guard(secured)
            if login
            else TBufferedTransport(TFileObjectTransport(stream_of(secured)))
        )

    monkeypatch.setattr("frazil.catalog.hive.client._PAUSE", 0)
    own = {"ssl.client.cert": f"{keys}/other.pem", "ssl.client.key": f"{keys}/other.key"}
    given = {"hive.metastore.use.SSL": "true", **own, **(PLAIN if login else {})}
    with scripted_metastore(guard) as server:
        server.answers["get_all_databases"] = DATABASES
        catalog: Any = frazil.load_catalog(
            "h",
            type="hive",
            uri=server.uri,
            warehouse="/w",
            **given,
            **{"ssl.cabundle": f"{keys}/server.pem"},
        )
        for _ in range(3):
            assert len(catalog.list_namespaces()) == 2
        assert server.asked.count("set_ugi") == (0 if login else 1), "one connection is kept"
        catalog.close()
        server.asked.clear()
        with pytest.raises(
            StorageError, match="CERTIFICATE_VERIFY_FAILED|certificate verify failed"
        ):
            namespaces(server.uri, **given, **{"ssl.cabundle": f"{keys}/other.pem"})
        assert server.asked == []


class Ticket:
    """What python-gssapi calls a context: two steps, then messages that are marked with the layer."""

    complete = False
    made: list[Any] = []

    def __init__(self, **given: Any):
        self.steps = 0
        Ticket.made.append(given)

    def step(self, token: bytes | None) -> bytes | None:
        self.steps += 1
        assert token == (None if self.steps == 1 else b"server's token")
        self.complete = self.steps == 2
        return b"client's token" if self.steps == 1 else None

    def wrap(self, data: bytes, encrypt: bool) -> Any:
        return SimpleNamespace(message=(b"E" if encrypt else b"I") + data)

    def unwrap(self, data: bytes) -> Any:
        return SimpleNamespace(message=data[1:])


class Refusal(Exception):
    """What python-gssapi raises."""

    def __init__(self, major: int, minor: int, text: str):
        self.maj_code, self.min_code, self.text = major, minor, text

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        assert code == (self.maj_code if is_major else self.min_code)
        return [self.text]


def scripted_library(monkeypatch: pytest.MonkeyPatch) -> Any:
    library: Any = ModuleType("gssapi")
    library.Name, library.SecurityContext = lambda *words: words, Ticket
    library.exceptions = SimpleNamespace(GSSError=Refusal)
    library.NameType = SimpleNamespace(hostbased_service="host", kerberos_principal="principal")
    library.RequirementFlag = SimpleNamespace(
        mutual_authentication=1, integrity=2, confidentiality=3, out_of_sequence_detection=4
    )
    library.Credentials = lambda usage: SimpleNamespace(name="alice/admin@EXAMPLE.COM")
    monkeypatch.setitem(sys.modules, "gssapi", library)
    monkeypatch.setattr(Ticket, "made", [])
    return library


class Sealed:
    """The server's frames, of which each begins with the mark of its layer."""

    def __init__(self, stream: Any, mark: bytes):
        self.stream, self.mark, self.out, self.got = stream, mark, BytesIO(), BytesIO()

    def read(self, size: int) -> bytes:
        data = self.got.read(size)
        if not data:
            frame = self.stream.read(struct.unpack("!I", self.stream.read(4))[0])
            assert frame[:1] == self.mark or not self.mark
            self.got = BytesIO(frame[len(self.mark) :])
            data = self.got.read(size)
        return data

    readAll = read

    def write(self, data: bytes) -> None:
        self.out.write(self.mark + data)

    def flush(self) -> None:
        data, self.out = self.out.getvalue(), BytesIO()
        self.stream.write(struct.pack("!I", len(data)) + data)


@pytest.mark.parametrize(
    ("layers", "wanted", "chosen", "mark"),
    [
        (1, "", 1, b""),
        (3, "", 2, b"I"),
        (7, "", 4, b"E"),
        (7, "authentication", 1, b""),
        (5, "integrity,authentication,privacy", 1, b""),
    ],
)
def test_kerberos_speaks_rfc_4752_with_a_metastore(
    layers: int, wanted: str, chosen: int, mark: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a scripted server, and a scripted library in place of tickets."""
    scripted_library(monkeypatch)

    def guard(client: socket.socket) -> Any:
        stream = stream_of(client)
        assert told(stream) == (1, b"GSSAPI") and told(stream) == (2, b"client's token")
        tell(stream, 2, b"server's token")
        assert told(stream) == (2, b"")
        tell(stream, 2, b"I" + bytes((layers,)) + b"\xff\xff\xff")
        longest = b"\0\0\0" if chosen == 1 else b"\xff\xff\xff"
        assert told(stream) == (2, b"I" + bytes((chosen,)) + longest)
        tell(stream, 5)
        return Sealed(stream, mark)

    with scripted_metastore(guard) as server:
        server.answers["get_all_databases"] = DATABASES
        protection = {PROTECTION: wanted} if wanted else {}
        assert namespaces(server.uri, **{"hive.kerberos-authentication": "true"}, **protection) == [
            ("db",),
            ("default",),
        ]
        principal = {MODE: "kerberos", "hive.metastore.kerberos.principal": "hms/_HOST@EXAMPLE.COM"}
        assert len(namespaces(server.uri, **principal, **protection)) == 2
    assert [given["name"] for given in Ticket.made] == [
        ("hive@127.0.0.1", "host"),
        ("hms/127.0.0.1@EXAMPLE.COM", "principal"),
    ]


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (
            Refusal(7 << 16, 2529639053, "No Kerberos credentials available"),
            "asks for a Kerberos ticket, and there is none: No Kerb.*kinit",
        ),
        (
            Refusal(13 << 16, 2529638944, "Ticket expired"),
            "there is none: Ticket expired.*KRB5_CLIENT_KTNAME",
        ),
        (
            Refusal(11 << 16, 0, "The referenced credential has expired"),
            "there is none: The referenced credential has expired",
        ),
        (
            Refusal(7 << 16, 2529639068, "Cannot contact any KDC"),
            "Cannot get a Kerberos ticket for hive/127.0.0.1: Cannot.*krb5.conf",
        ),
        (
            Refusal(13 << 16, 2529638919, "Server hive/x not found"),
            "No Hive Metastore answers.*hive/x not found.*kerberos.principal",
        ),
    ],
)
def test_what_kerberos_refuses_is_told_with_what_to_do(
    refusal: Refusal, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes as MIT's library gave them beside a real KDC (test_kerberos.py)."""
    scripted_library(monkeypatch)
    monkeypatch.setattr("frazil.catalog.hive.client._PAUSE", 0)
    raised = []

    def step(ticket: Ticket, token: bytes | None) -> bytes:
        raised.append(refusal)
        raise refusal

    monkeypatch.setattr(Ticket, "step", step)
    with scripted_metastore(lambda client: None) as server, pytest.raises(StorageError, match=told):
        namespaces(server.uri, **{"hive.kerberos-authentication": "true"})
    assert raised and server.asked == []


def test_the_user_of_the_ticket_owns_what_is_made_unless_ugi_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = scripted_library(monkeypatch)
    monkeypatch.setenv("LOGNAME", "process")
    kerberos = {"uri": "thrift://a", MODE: "KERBEROS"}
    assert (
        settings(kerberos).user == "alice"
        and settings({**kerberos, "ugi": "bob:staff"}).user == "bob"
    )
    assert (
        settings({"uri": "thrift://a"}).user
        == settings({"uri": "thrift://a", **PLAIN}).user
        == "process"
    )

    def none(usage: str) -> Any:
        raise Refusal(7 << 16, 0, "none")

    library.Credentials = none
    assert settings(kerberos).user == "process"


def test_kerberos_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with (
        scripted_metastore() as server,
        pytest.raises(NotInstalledError, match=r"frazil\[hive-kerberos\]"),
    ):
        namespaces(server.uri, **{"hive.kerberos-authentication": "true"})


def test_settings_that_do_not_fit_are_refused_by_name() -> None:
    def found(**given: str) -> Any:
        return settings({"uri": "thrift://a", **given})

    for given, kind, text in (
        ({MODE: "JWT"}, Unsupported, "auth.mode is JWT"),
        ({MODE: "PLAIN"}, InvalidInput, "plain.username and"),
        (
            {**PLAIN, "hive.kerberos-authentication": "true"},
            InvalidInput,
            "auth.mode is PLAIN, but",
        ),
        (
            {MODE: "KERBEROS", "hive.metastore.kerberos.principal": "a b"},
            InvalidInput,
            "hive/_HOST@REALM",
        ),
        (
            {
                MODE: "KERBEROS",
                "hive.metastore.kerberos.principal": "x/_HOST",
                "hive.kerberos-service-name": "y",
            },
            InvalidInput,
            "service-name",
        ),
        ({"ssl.cabundle": "/x"}, InvalidInput, "use.SSL is not true"),
        (
            {MODE: "KERBEROS", PROTECTION: "privacy,none"},
            InvalidInput,
            "hadoop.rpc.protection is privacy,none",
        ),
        (
            {**PLAIN, PROTECTION: "privacy"},
            InvalidInput,
            "no effect without hive.kerberos-authentication",
        ),
        ({"ugi": ":group"}, InvalidInput, "ugi must be a user"),
    ):
        with pytest.raises(kind, match=text):
            found(**given)
    assert found(
        **{MODE: "KERBEROS", "hive.metastore.kerberos.principal": "h/n.x@R"}
    ).identity == KerberosIdentity("h", "n.x", "R")
    layers = found(**{MODE: "kerberos", PROTECTION: "Integrity, privacy"}).identity
    assert layers == KerberosIdentity("hive", protections=("integrity", "privacy"))


def test_a_connection_over_tls_is_looked_at_whatever_the_number_of_its_descriptor() -> None:
    """select() takes no descriptors above 1023, which a process with many files open soon has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2100:
        pytest.skip("the process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2100), before[1]))
    ours, theirs = socket.socketpair()
    try:
        high = socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, 2000))
        connection = _limited_socket()(AnswerLimits(), read_timeout=1)
        connection.handle = ssl.create_default_context().wrap_socket(
            high, server_hostname="x", do_handshake_on_connect=False
        )
        assert connection.handle.fileno() >= 2000 and connection.isOpen()
        ours.close()
        theirs.close()
        assert not connection.isOpen()
        connection.handle.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
