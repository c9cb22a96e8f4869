"""Which catalog properties there are: each is served or refused by name, so that a misspelt one is never passed over."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from frazil.errors import InvalidInput, Unsupported
from frazil.storage.object_options import check_property

_STORES = ("s3.", "client.", "gcs.", "adls.")
_OF_TABLES = ("table-default.", "table-override.")
_COMMON = ("type", "warehouse", "catalog-impl", "py-catalog-impl", "io-impl", "py-io-impl")
_OF_KIND = {
    "sql": ("uri", "echo", "pool-pre-ping", "schema-version", "init-catalog-tables", "unique-table-location"),
    "path": ("uri",), "memory": ("uri",),  # which say themselves why they have no use for it
}  # fmt: skip
_PREFIXES = {"sql": ("jdbc.",)}
HINTS = ("cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms", "clients", "io.manifest.cache-enabled")
_HINT_PREFIXES = ("io.manifest.cache.",)  # how Java keeps metadata and connections, never which tables there are
_JAVA = (
    "default-namespace", "lock-impl", "lock.", "metrics-reporter-impl", "use-nullable-query-schema", "view-default.", "view-override.",
    "encryption.", "rest-", "rest.", "scan-planning-mode", "snapshot-loading-mode", "auth.", "oauth2-", "token", "credential", "header.",
    "hive.", "hadoop.", "fs.", "glue.", "dynamodb.", "unique-table-location", "jdbc.",
)  # fmt: skip


def canonical(key: str) -> str:
    """`s3.access_key_id` as `s3.access-key-id`; what is behind table-default. is a table property and stays as it is."""
    return key if key.startswith(_OF_TABLES) else key.replace("_", "-")


def check_served(name: str, kind: str, properties: Iterable[str], sources: Mapping[str, str]) -> None:
    """`kind`: path, sql or memory. Raises Unsupported for properties of Java's that are not served here, InvalidInput for unknown ones."""
    known = {*_COMMON, *_OF_KIND[kind], *HINTS}
    for key in properties:
        if key in known or key.startswith((*_OF_TABLES, *_HINT_PREFIXES, *_PREFIXES.get(kind, ()))):
            continue
        if key.startswith(_STORES):
            check_property(key)
            continue
        told = f"{key} (from {sources[key]})" if key in sources else key
        if key.startswith(_JAVA):
            raise Unsupported(f"Catalog property {told} is not served by catalogs of type {kind} (catalog {name!r}).", hint="Leave it out.")
        raise _unknown(f"{told} of catalog {name!r}", key, (*known, *_OF_TABLES, *_STORES))


def check_of_location(location: str, properties: Iterable[str]) -> None:
    """A table at a bare location has no catalog: only what its store needs counts. Raises InvalidInput."""
    for key in properties:
        if key.startswith(_STORES):
            check_property(key)
        else:
            hint = "At a location only the properties of its store count: s3.…, gcs.…, adls.…"
            raise InvalidInput(f"Property {key} means nothing for a table at a location ({location}).", hint=hint, table=location)


def _unknown(told: str, key: str, known: Iterable[str]) -> InvalidInput:
    near = difflib.get_close_matches(key, sorted(known), 1, 0.7)
    meant = f" Did you mean {near[0]}?" if near else ""
    shown = ", ".join(k + "<…>" if k.endswith(".") else k for k in sorted(known) if k not in HINTS)
    return InvalidInput(f"Unknown catalog property {told}.{meant}", hint=f"Known: {shown}.")
