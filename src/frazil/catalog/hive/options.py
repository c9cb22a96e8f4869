"""Define the properties of catalogs in a Hive Metastore, under Java's and PyIceberg's names."""

from __future__ import annotations

from typing import Any

from frazil.catalog.hive.sasl import PROTECTIONS
from frazil.catalog.options import NOUN, UNIQUE_LOCATION
from frazil.spec.options import BOOLEAN, TEXT, Option, OptionTable, ValueKind, whole
from frazil.spec.properties import HIVE_ENGINE_ENABLED, HIVE_LOCK_ENABLED

_OF_TABLES = "The table property of that name comes first."


def _as_hadoop_spells(
    name: str, kind: ValueKind[Any], default: object, text: str
) -> Option[Any, Any]:
    """Define a property that Hadoop's configuration spells with `iceberg.` before it."""
    return Option(
        name, kind, default, aliases=(f"iceberg.{name}",), text=text, otherwise="" if kind is BOOLEAN else str(default)
    )  # fmt: skip


def _time(name: str, default: int, text: str) -> Option[int, int]:
    return _as_hadoop_spells(name, whole(1, 86_400_000), default, text)


URI = Option(
    "uri", TEXT, None, otherwise="`hive.metastore.uris` of Hadoop's configuration",
    text="`thrift://host:9083`; several, with commas between them, if the others are to be tried when one fails.",
)  # fmt: skip
UGI = Option(
    "ugi", TEXT, None, otherwise="the user of the process", text="The user, or `user:group`, of calls to the metastore."
)  # fmt: skip
LOCK_ENABLED = _as_hadoop_spells(
    HIVE_LOCK_ENABLED.name, BOOLEAN, True,
    "`false`: commits take no lock, and the metastore itself compares the pointer (2.3.10, 4.0). Frazil tries this before the first "
    "commit, "
    f"and refuses commits without lock to a metastore that does not. {_OF_TABLES}",
)  # fmt: skip
ENGINE_ENABLED = _as_hadoop_spells(
    HIVE_ENGINE_ENABLED.name, BOOLEAN, False,
    f"`true`: tables name the storage handler with which Hive reads them. {_OF_TABLES}",
)  # fmt: skip
HIVE2_TYPES = _as_hadoop_spells(
    "hive.hive2-compatible", BOOLEAN, True,
    "`true`: times with a zone are shown as `timestamp`; `false`: as `timestamp with local time zone`.",
)  # fmt: skip
PROPERTY_SIZE = _as_hadoop_spells(
    "hive.table-property-max-size", whole(0, 86_400_000), 32_672,
    "The longest schema, spec and summary that is stored in parameters; `0`: none.",
)  # fmt: skip
TIMES = (
    _time("hive.lock-timeout-ms", 180_000, "Waiting for the lock. The error after it names the owner of the lock."),
    _time("hive.lock-check-min-wait-ms", 50, "The first pause before the lock is asked for again."),
    _time("hive.lock-check-max-wait-ms", 5_000, "The longest pause before the lock is asked for again."),
    _time("hive.lock-creation-timeout-ms", 180_000, "Trying to create the lock."),
    _time("hive.lock-heartbeat-interval-ms", 240_000, "How often the lock is kept alive."),
    _time("hive.client.connection-timeout-ms", 10_000, "Time to connect."),
    _time("hive.client.socket-timeout-ms", 120_000, "Time without an answer."),
)  # fmt: skip
AUTH_MODE = Option(
    "hive.metastore.client.auth.mode", TEXT, "NOSASL",
    text="`PLAIN`: a user and password by SASL (for `metastore.authentication` `LDAP`, `CUSTOM`, `CONFIG`, …); use it over TLS. "
    "`KERBEROS`: "
    "as `hive.kerberos-authentication`.",
)  # fmt: skip
PLAIN_USER = Option("hive.metastore.client.plain.username", TEXT, None, text="The user of `PLAIN`.")
PLAIN_PASSWORD = Option(
    "hive.metastore.client.plain.password", TEXT, None, secret=True, text="The password of `PLAIN`."
)  # fmt: skip
KERBEROS = Option(
    "hive.kerberos-authentication", BOOLEAN, False,
    text="`true`: authentication by a Kerberos ticket of `kinit`, or of a keytab named by `KRB5_CLIENT_KTNAME`, which also renews "
    "tickets that "
    "expire during a job. New tables belong to the ticket's user, unless `ugi` names another. Needs `frazil[hive-kerberos]`, whose library "
    "gssapi is built against the system's Kerberos (Debian: `libkrb5-dev`, `gcc`).",
)  # fmt: skip
PRINCIPAL = Option(
    "hive.metastore.kerberos.principal", TEXT, None,
    text="With Kerberos: the metastore's principal, as in `hive/_HOST@REALM`; `_HOST` stands for the host of `uri`.",
)  # fmt: skip
SERVICE = Option(
    "hive.kerberos-service-name", TEXT, None, otherwise="`hive`",
    text="With Kerberos: the first part of the principal, in place of it.",
)  # fmt: skip
RPC_PROTECTION = Option(
    "hadoop.rpc.protection", TEXT, None, otherwise="the strongest one that the metastore offers",
    text=f"With Kerberos: {', '.join(f'`{name}`' for name in PROTECTIONS)}, or several with commas between them: the layers to "
    "choose from, in "
    "this order; the metastore must offer one of them.",
)  # fmt: skip
USE_TLS = Option("hive.metastore.use.SSL", BOOLEAN, False, text="`true`: TLS.")
CA_BUNDLE = Option(
    "ssl.cabundle", TEXT, None, otherwise="the system's",
    text="With TLS: a file in PEM format of the authorities to trust.",
)  # fmt: skip
CLIENT_CERT = Option("ssl.client.cert", TEXT, None, text="With TLS: a file of a certificate.")
CLIENT_KEY = Option("ssl.client.key", TEXT, None, text="With TLS: the file of its key.")
LIST_ALL = Option(
    "list-all-tables", BOOLEAN, False,
    text="`true`: `list_tables` names all tables and views, those of other formats too; these are never changed.",
)  # fmt: skip
OF_ACCESS = (
    UGI, KERBEROS, SERVICE, PRINCIPAL, RPC_PROTECTION, AUTH_MODE, PLAIN_USER, PLAIN_PASSWORD, USE_TLS, CA_BUNDLE, CLIENT_CERT, CLIENT_KEY,
)  # fmt: skip
"""Who asks, and what protects the calls."""
AS_HADOOP_SPELLS = (LOCK_ENABLED, *TIMES, ENGINE_ENABLED, HIVE2_TYPES, PROPERTY_SIZE)
OPTIONS = OptionTable(NOUN, (URI, *OF_ACCESS, *AS_HADOOP_SPELLS, LIST_ALL, UNIQUE_LOCATION))
