"""Decode and encode view metadata as JSON (view spec), plain or gzip; unknown fields and
representations are kept as they were read.
"""

from __future__ import annotations

import gzip
from typing import Any

import msgspec

from frazil.codec import json_nouns as nouns
from frazil.codec.guard import reading
from frazil.codec.metadata_json import unzipped
from frazil.errors import CorruptData, Unsupported, ValidationError
from frazil.spec.view import (
    VIEW_FORMAT_VERSION,
    OtherRepresentation,
    SQLViewRepresentation,
    ViewHistoryEntry,
    ViewMetadata,
    ViewVersion,
)

_INT = 2**31
_VIEW_KEYS = frozenset(
    ("view-uuid", "format-version", "location", "schemas", "current-version-id", "versions", "version-log", "properties")
)  # fmt: skip
_VERSION_KEYS = frozenset(
    ("version-id", "schema-id", "timestamp-ms", "summary", "representations", "default-catalog", "default-namespace")
)  # fmt: skip
_SQL_KEYS = frozenset(("type", "sql", "dialect"))


def decode_view(data: bytes, file: str = "") -> ViewMetadata:
    """Decode view metadata. Raises CorruptData when it is none, Unsupported for a newer format
    version.
    """
    with reading("view metadata", file):
        return _view_from_json(msgspec.json.decode(unzipped(data)))


def encode_view(view: ViewMetadata, gzipped: bool = False) -> bytes:
    """Encode view metadata; the same metadata always gives the same bytes. Raises ValidationError
    for values that have no JSON form.
    """
    try:
        data = msgspec.json.format(msgspec.json.encode(view_to_json(view)), indent=2)
    except (
        TypeError,
        OverflowError,
        UnicodeEncodeError,
        RecursionError,
        msgspec.MsgspecError,
    ) as e:
        raise ValidationError(
            f"The metadata of view {view.location} cannot be written as JSON: {e}"
        ) from e
    return gzip.compress(data, 6, mtime=0) if gzipped else data


def view_to_json(view: ViewMetadata) -> dict[str, Any]:
    return {
        "view-uuid": view.view_uuid,
        "format-version": VIEW_FORMAT_VERSION,
        "location": view.location,
        "properties": view.properties,
        "schemas": [nouns.schema_to_json(s) for s in view.schemas],
        "current-version-id": view.current_version_id,
        "versions": [version_to_json(v) for v in view.versions],
        "version-log": [
            {"timestamp-ms": e.timestamp_ms, "version-id": e.version_id} for e in view.version_log
        ],
        **view.extra,
    }


def version_to_json(version: ViewVersion) -> dict[str, Any]:
    return {
        "version-id": version.version_id,
        "timestamp-ms": version.timestamp_ms,
        "schema-id": version.schema_id,
        "summary": version.summary,
        **(
            {"default-catalog": version.default_catalog}
            if version.default_catalog is not None
            else {}
        ),
        "default-namespace": list(version.default_namespace),
        "representations": [
            {"type": "sql", "sql": r.sql, "dialect": r.dialect, **r.extra}
            if isinstance(r, SQLViewRepresentation)
            else r.json
            for r in version.representations
        ],
        **version.extra,
    }


def _view_from_json(obj: object) -> ViewMetadata:
    obj = nouns.fields_of(obj, "view metadata")
    if "table-uuid" in obj and "view-uuid" not in obj:
        raise CorruptData("This is the metadata of a table, not of a view.")
    format_version = nouns.integer(obj, "format-version", _INT)
    if format_version != VIEW_FORMAT_VERSION:
        raise Unsupported(
            f"Cannot read views of format version {format_version}.",
            hint=f"Frazil reads {VIEW_FORMAT_VERSION}.",
        )
    schemas = tuple(
        nouns.schema_from_json(s) for s in nouns.items_of(obj.get("schemas"), "schemas")
    )
    versions = tuple(_version_from_json(v) for v in nouns.items_of(obj.get("versions"), "versions"))
    nouns.refuse_repeated("schema id", [s.schema_id for s in schemas])
    nouns.refuse_repeated("version id", [v.version_id for v in versions])
    current = nouns.integer(obj, "current-version-id", _INT)
    version = next((v for v in versions if v.version_id == current), None)
    if version is None:
        raise CorruptData(
            f"Cannot find current version {current} in view versions: {[v.version_id for v in versions]}"
        )
    if version.schema_id not in {s.schema_id for s in schemas}:
        raise CorruptData(
            f"Cannot find current schema with id {version.schema_id} in schemas: {[s.schema_id for s in schemas]}"
        )
    return ViewMetadata(
        view_uuid=nouns.text(obj, "view-uuid"),
        location=nouns.text(obj, "location"),
        schemas=schemas,
        current_version_id=current,
        versions=versions,
        version_log=tuple(
            _entry_from_json(e) for e in nouns.items_of(obj.get("version-log"), "version-log")
        ),
        properties=nouns.texts(obj.get("properties"), "properties"),
        extra=nouns.unknown_keys(obj, _VIEW_KEYS),
    )


def _version_from_json(obj: object) -> ViewVersion:
    obj = nouns.fields_of(obj, "view version")
    namespace = nouns.items_of(obj.get("default-namespace"), "default-namespace")
    return ViewVersion(
        version_id=nouns.integer(obj, "version-id", _INT),
        schema_id=nouns.integer(obj, "schema-id", _INT),
        timestamp_ms=nouns.integer(obj, "timestamp-ms"),
        representations=tuple(
            _representation(r)
            for r in nouns.items_of(obj.get("representations"), "representations")
        ),
        default_namespace=tuple(
            nouns.text({"default-namespace": level}, "default-namespace") for level in namespace
        ),
        default_catalog=nouns.text_or_none(obj, "default-catalog"),
        summary=nouns.texts(obj.get("summary"), "summary"),
        extra=nouns.unknown_keys(obj, _VERSION_KEYS),
    )


def _representation(obj: object) -> SQLViewRepresentation | OtherRepresentation:
    obj = nouns.fields_of(obj, "view representation")
    if nouns.text(obj, "type").lower() != "sql":
        return OtherRepresentation(obj)
    return SQLViewRepresentation(
        nouns.text(obj, "sql"), nouns.text(obj, "dialect"), extra=nouns.unknown_keys(obj, _SQL_KEYS)
    )


def _entry_from_json(obj: object) -> ViewHistoryEntry:
    obj = nouns.fields_of(obj, "version log entry")
    return ViewHistoryEntry(
        nouns.integer(obj, "timestamp-ms"), nouns.integer(obj, "version-id", _INT)
    )
