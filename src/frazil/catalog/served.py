"""Check that catalog properties are known: each is served, ignored as a hint, or refused by name,
so that none is silently misspelt.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from frazil.errors import InvalidInput, Unsupported
from frazil.storage.hdfs_options import PREFIXES, check_hdfs_property
from frazil.storage.object_options import check_property
from frazil.storage.tuning import is_tuning, tell_of_tuning

_STORES = ("s3.", "client.", "gcs.", "adls.", *PREFIXES)
_OF_TABLES = ("table-default.", "table-override.")
_COMMON = (
    "type",
    "warehouse",
    "catalog-impl",
    "py-catalog-impl",
    "io-impl",
    "py-io-impl",
    "metrics-reporter-impl",
)
# What Java's catalogs and stores take, by the beginnings of names and by whole names: where a type
# does not serve it, that is told.
_JAVA = (
    "default-namespace", "lock-impl", "lock.", "use-nullable-query-schema", "view-default.", "view-override.",
    "encryption.", "rest-", "rest.", "scan-planning-mode", "snapshot-loading-mode", "auth.", "oauth2-", "token", "credential", "header.",
    "hive.", "fs.", "glue.", "dynamodb.", "unique-table-location", "jdbc.", "http-client.", "iceberg.", "signer.", "lakeformation.", "kms.",
    "azure.", "view-endpoints-", "client-pool-", "engine.hive.",
)  # fmt: skip
_INSTEAD = {  # what to set in place of a property that is not served
    "auth.oauth2.": "Set credential=<client id>:<client secret>, oauth2-server-uri and scope.",
    "auth.impl": "Set token, credential, or an auth.type that is served.",
    "auth.custom.": "Set token, credential, or an auth.type that is served.",
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


def check_served(
    name: str,
    kind: str,
    properties: Iterable[str],
    sources: Mapping[str, str],
    served: Iterable[str],
    prefixes: tuple[str, ...] = (),
) -> None:
    """Check the property names of the catalog `name` of type `kind`, which serves `served` and all
    names that start with `prefixes`.

    `sources`: where each property was found, for the messages. Raises Unsupported for properties of
    Java's catalogs that this type does not serve, InvalidInput for unknown ones.
    """
    supported = {*_COMMON, *served}
    for key in properties:
        if key in supported or key.startswith((*_OF_TABLES, *prefixes)):
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
