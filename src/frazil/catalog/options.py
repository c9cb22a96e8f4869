"""Define the properties of catalogs, and check those that are given: each is served, ignored as a
hint, or refused by name, so that none is silently misspelt.

Each type of catalog has a table of its own: `sql.options`, `hive.options`, `rest.options`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.options import BOOLEAN, TEXT, Option, OptionTable
from frazil.storage.hdfs.hdfs_options import PREFIXES, check_hdfs_property
from frazil.storage.objects.object_options import check_property
from frazil.storage.tuning import is_tuning, tell_of_tuning

T = TypeVar("T")
D = TypeVar("D")
NOUN = "catalog property"
_STORES = ("s3.", "client.", "gcs.", "adls.", *PREFIXES)
_OF_TABLES = ("table-default.", "table-override.")
_IMPLIED = "what `uri` implies"
TYPE = Option(
    "type", TEXT, None, otherwise=_IMPLIED,
    text="`sql` (alias `jdbc`), `path` (alias `hadoop`; namespaces are folders and need not be created first), `memory`, `hive` (needs "
    "`frazil[hive]`, with Kerberos `frazil[hive-kerberos]`) or `rest` (needs `frazil[rest]`).",
)  # fmt: skip
WAREHOUSE = Option(
    "warehouse", TEXT, None,
    text="The folder or bucket of the tables; a relative path is taken from the current directory when the catalog is loaded. A local "
    "folder, given without other properties, also moves the default catalog's SQLite database. A REST server receives it unchanged.",
)  # fmt: skip
CATALOG_IMPL = Option(
    "catalog-impl", TEXT, None, otherwise=_IMPLIED, text="The name of Java's class, in place of `type`."
)  # fmt: skip
UNIQUE_LOCATION = Option(
    "unique-table-location", BOOLEAN, False,
    text="`true`: the folder of every new table gets a unique name.",
)  # fmt: skip
DEFAULT_NAMESPACE = Option(
    "default-namespace", TEXT, None,
    text="The namespace that is current in Spark's SQL after `USE <catalog>`; otherwise none is.",
)  # fmt: skip
USE_NULLABLE_QUERY_SCHEMA = Option(
    "use-nullable-query-schema", BOOLEAN, True,
    text="`false`: in a table made of a query or a Spark DataFrame, columns that cannot be null there are required.",
)  # fmt: skip
OPTIONS = OptionTable(
    NOUN,
    (
        TYPE,
        CATALOG_IMPL,
        WAREHOUSE,
        DEFAULT_NAMESPACE,
        USE_NULLABLE_QUERY_SCHEMA,
        Option(
            "io-impl", TEXT, None, otherwise="the scheme of a location decides",
            text="The name of one of Java's classes that the scheme of locations stands for; others are refused.",
        ),
        Option(
            "metrics-reporter-impl", TEXT, None,
            text="A Python function that takes [metrics reports](tour.md#metrics-reports), as `package.module:function`, or `otel`: "
            "[OpenTelemetry](operations.md#metrics-and-traces); a Java class is refused. A REST server cannot set it.",
        ),
    ),
    families=(
        Option(
            "table-default.<property>", TEXT, None,
            text="Properties of new tables that the call does not give.",
        ),
        Option(
            "table-override.<property>", TEXT, None,
            text="Properties of new tables that count before those of the call.",
        ),
    ),
)  # fmt: skip
"""The properties of all types."""
# PyIceberg's names for classes of its own: refused with what to set instead.
_OF_PYICEBERG = ("py-catalog-impl", "py-io-impl")
# What Java's catalogs and stores take, by the beginnings of names and by whole names: a type that
# does not support one of them refuses it by name.
_JAVA = (
    "lock-impl", "lock.", "view-default.", "view-override.",
    "encryption.", "rest-", "rest.", "scan-planning-mode", "snapshot-loading-mode", "auth.", "oauth2-", "token", "credential", "header.",
    "hive.", "fs.", "glue.", "dynamodb.", "unique-table-location", "jdbc.", "http-client.", "iceberg.", "signer.", "lakeformation.", "kms.",
    "azure.", "view-endpoints-", "client-pool-", "engine.hive.",
)  # fmt: skip
_INSTEAD = {  # what to set in place of a property that is not served
    "auth.oauth2.": "Set credential=<client id>:<client secret>, oauth2-server-uri and scope.",
    "auth.impl": "Set token, credential, or an auth.type that docs/catalogs.md lists.",
    "auth.custom.": "Set token, credential, or an auth.type that docs/catalogs.md lists.",
}  # fmt: skip
_JAVA_NAMES = {
    "app-id", "app-name", "audience", "list-all-tables", "metastore.catalog.default", "namespace-separator", "prefix", "resource", "scope",
    "suppress-permission-error", "user",
}  # fmt: skip


def canonical(key: str) -> str:
    """Spell a property with dashes, `s3.access_key_id` as `s3.access-key-id`. Table properties
    (after table-default. and table-override.) and Hadoop's keys (after hadoop.) stay as they are.
    """
    return key if key.startswith((*_OF_TABLES, "hadoop.")) else key.replace("_", "-")


def spelling(properties: Mapping[str, str], option: Option[Any, Any]) -> str:
    """Return the name or alias of a property under which it is set; its name where it is not."""
    spellings = (s for n in option.names for s in (n, n.replace("-", "_")))
    return next((s for s in spellings if s in properties), option.name)


def value(properties: Mapping[str, str], option: Option[T, D]) -> T | D:
    """Return the value of a catalog's property, else its default. Raises InvalidInput for a value
    that is not of its kind.
    """
    name = spelling(properties, option)
    if (text := properties.get(name)) is None:
        return option.default
    return option.kind.parse(f"Catalog property {name}", text)


def check_properties(
    name: str,
    kind: str,
    properties: Iterable[str],
    sources: Mapping[str, str],
    of_type: OptionTable,
) -> None:
    """Check the property names of the catalog `name` of type `kind`, which serves `of_type` beside
    those of all types.

    `sources`: where each property was found, for the messages. Raises Unsupported for properties of
    Java's catalogs that this type does not serve, InvalidInput for unknown ones.
    """
    supported = {
        *(n for table in (OPTIONS, of_type) for o in table.options for n in o.names),
        *_OF_PYICEBERG,
    }
    prefixes = tuple(f.name.partition("<")[0] for t in (OPTIONS, of_type) for f in t.families)
    for key in properties:
        if key in supported or key.startswith(prefixes):
            continue
        if is_tuning(key):
            tell_of_tuning(key)
            continue
        if key.startswith(_STORES):
            _check_of_store(key)
            continue
        shown = f"{key} (from {sources[key]})" if key in sources else key
        if key.startswith(_JAVA) or key in _JAVA_NAMES:
            text = f"Catalog property {shown} is not served by catalogs of type {kind} (catalog {name!r})."
            hint = next(
                (
                    call
                    for start, call in _INSTEAD.items()
                    if kind == "rest" and key.startswith(start)
                ),
                "Leave it out.",
            )
            raise Unsupported(text + _suggestion(key, supported, 0.9), hint=hint)
        raise _unknown(f"{shown} of catalog {name!r}", key, (*supported, *_OF_TABLES, *_STORES))


def check_of_location(location: str, properties: Iterable[str]) -> None:
    """Check the properties of a table that is opened by its location. Raises InvalidInput for any
    but those of its store.
    """
    for key in properties:
        if key.startswith(_STORES):
            _check_of_store(key)
        else:
            hint = "A table at a location takes only the properties of its store: s3.…, gcs.…, adls.…, hdfs.…, hadoop.…"
            raise InvalidInput(
                f"Property {key} has no effect on a table at a location ({location}).",
                hint=hint,
                table=location,
            )


def _check_of_store(key: str) -> None:
    check_hdfs_property(key) if key.startswith(PREFIXES) else check_property(key)


def _unknown(shown: str, key: str, supported: Iterable[str]) -> InvalidInput:
    names = ", ".join(k + "<…>" if k.endswith(".") else k for k in sorted(supported))
    return InvalidInput(
        f"Unknown catalog property {shown}.{_suggestion(key, supported, 0.7)}",
        hint=f"Known: {names}.",
    )


def _suggestion(key: str, supported: Iterable[str], least: float) -> str:
    """Name the property that was meant, if one is alike by at least this ratio."""
    similar = difflib.get_close_matches(key, sorted(supported), 1, least)
    return f" Did you mean {similar[0]}?" if similar else ""
