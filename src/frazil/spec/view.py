"""Describe views: their metadata, their versions and the SQL of each by dialect (view spec), and
build the metadata of the next state.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.errors import ValidationError
from frazil.spec.properties import METADATA_CODEC
from frazil.spec.schema import Schema

VIEW_FORMAT_VERSION = 1
VERSIONS_KEPT, DROP_DIALECT, COMPRESSION = (
    "version.history.num-entries",
    "replace.drop-dialect.allowed",
    METADATA_CODEC.name,
)
_INT = 2**31


@dataclass(frozen=True)
class SQLViewRepresentation:
    """Hold the query `sql` of a view in one dialect of SQL (`spark`, `trino`, …). `type` is "sql".
    `extra` holds unknown JSON keys."""

    sql: str
    dialect: str
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    type: str = field(default="sql", repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.type != "sql":
            raise ValidationError(
                f"The type of a view's representation must be sql, not {self.type!r}."
            )


@dataclass(frozen=True)
class OtherRepresentation:
    """Hold a representation of a type that Frazil does not know, as it was read."""

    json: dict[str, Any]


@dataclass(frozen=True)
class ViewVersion:
    """Describe a version of a view. `representations`: its query in each dialect. `schema_id`: the
    columns that it returns. `default_namespace`, `default_catalog`: where the query's names that do
    not name these are looked up; `default_catalog` None: in the catalog in which the view is kept.
    `summary`: as in `engine-name`. `timestamp_ms`: by default the present; the catalog assigns the
    ids (`version_id` too). `extra` holds unknown JSON keys."""

    version_id: int = 1
    schema_id: int = 0
    timestamp_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    representations: Sequence[SQLViewRepresentation | OtherRepresentation] = ()
    default_namespace: Sequence[str] = ()
    default_catalog: str | None = None
    summary: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.default_namespace, str):
            levels = tuple(self.default_namespace.split("."))
            raise ValidationError(
                f"default_namespace is a tuple, not {self.default_namespace!r}.",
                hint=f"Write {levels!r}.",
            )
        object.__setattr__(self, "representations", tuple(self.representations))
        object.__setattr__(self, "default_namespace", tuple(self.default_namespace))

    @property
    def queries(self) -> dict[str, SQLViewRepresentation]:
        """Return the queries by dialect, in small letters."""
        return {
            r.dialect.lower(): r
            for r in self.representations
            if isinstance(r, SQLViewRepresentation)
        }

    def means_the_same(self, other: ViewVersion) -> bool:
        """Tell whether two versions differ in nothing but id and time."""
        return replace(self, version_id=0, timestamp_ms=0) == replace(
            other, version_id=0, timestamp_ms=0
        )


@dataclass(frozen=True)
class ViewHistoryEntry:
    """Tell when the version `version_id` became the current one: `timestamp_ms`, milliseconds since
    1970."""

    timestamp_ms: int
    version_id: int


@dataclass(frozen=True)
class ViewMetadata:
    """Hold the state of a view: its `view_uuid`, the `location` of its metadata, `properties`
    (texts by name), its versions and their schemas, of which `current_version_id` is the current
    one. `version_log`: which version was current when, oldest first. `extra` holds unknown JSON
    keys."""

    view_uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[ViewHistoryEntry, ...]
    properties: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def current_version(self) -> ViewVersion:
        """Return the current version."""
        return next(v for v in self.versions if v.version_id == self.current_version_id)

    def schema(self) -> Schema:
        """Return the schema of the current version."""
        wanted = self.current_version().schema_id
        return next(s for s in self.schemas if s.schema_id == wanted)


def new_view(
    location: str, schema: Schema, version: ViewVersion, properties: Mapping[str, str]
) -> ViewMetadata:
    """Build the metadata of a new view. The ids of `schema` and `version` are assigned here. Raises
    ValidationError.
    """
    _check_properties(properties)
    first = replace(version, version_id=1, schema_id=0)
    _check_version(first)
    entry = ViewHistoryEntry(first.timestamp_ms, 1)
    schemas = (_numbered(schema, 0),)
    return ViewMetadata(
        str(uuid.uuid4()), location, schemas, 1, (first,), (entry,), dict(properties)
    )


def with_version(
    base: ViewMetadata,
    schema: Schema,
    version: ViewVersion,
    properties: Mapping[str, str],
    now_ms: int,
) -> ViewMetadata:
    """Build the metadata in which `version` is the current one, as Java's `replace` does: an equal
    schema or version of the view is used again, and the oldest versions go beyond
    version.history.num-entries (default 10). `properties` are set in addition to those that are
    there.

    Raises ValidationError where a dialect of the current version would be lost, unless
    replace.drop-dialect.allowed is true.
    """
    merged = {**base.properties, **properties}
    num_entries = _check_properties(merged)
    _check_version(version)
    lost = base.current_version().queries.keys() - version.queries.keys()
    if lost and merged.get(DROP_DIALECT, "false").strip().lower() != "true":
        text = f"The view would lose its SQL for {', '.join(sorted(lost))}; the new version has {', '.join(sorted(version.queries))}."
        raise ValidationError(
            text,
            hint=f"Give the SQL of each dialect, or set the view's property {DROP_DIALECT} to true.",
        )
    same_schema = next((s for s in base.schemas if s.same_fields(schema)), None)
    schema_id = (
        max((s.schema_id for s in base.schemas), default=-1) + 1
        if same_schema is None
        else same_schema.schema_id
    )
    schemas = (
        base.schemas if same_schema is not None else (*base.schemas, _numbered(schema, schema_id))
    )
    wanted = replace(version, schema_id=schema_id)
    chosen = next((v for v in base.versions if v.means_the_same(wanted)), None)
    versions, current_since_ms = base.versions, now_ms
    if chosen is None:
        chosen = replace(wanted, version_id=max(v.version_id for v in base.versions) + 1)
        versions, current_since_ms = (*versions, chosen), chosen.timestamp_ms
    log = base.version_log
    if chosen.version_id != base.current_version_id:
        log = (*log, ViewHistoryEntry(current_since_ms, chosen.version_id))
    versions, log = _retained(versions, log, chosen.version_id, num_entries)
    return replace(
        base,
        schemas=schemas,
        versions=versions,
        version_log=log,
        current_version_id=chosen.version_id,
        properties=merged,
    )


def with_properties(base: ViewMetadata, properties: Mapping[str, str]) -> ViewMetadata:
    """Build the metadata in which a view has exactly these properties. Raises ValidationError."""
    _check_properties(properties)
    return replace(base, properties=dict(properties))


def _retained(
    versions: tuple[ViewVersion, ...],
    log: tuple[ViewHistoryEntry, ...],
    current: int,
    num_entries: int,
) -> tuple[tuple[ViewVersion, ...], tuple[ViewHistoryEntry, ...]]:
    """Keep the current version and the newest others. The log begins after its last entry of a
    version that is gone.
    """
    others = sorted((v.version_id for v in versions if v.version_id != current), reverse=True)
    ids = {current, *others[: num_entries - 1]}
    gone = [i for i, entry in enumerate(log) if entry.version_id not in ids]
    return tuple(v for v in versions if v.version_id in ids), log[gone[-1] + 1 :] if gone else log


def _numbered(schema: Schema, schema_id: int) -> Schema:
    return Schema(
        *schema.fields,
        schema_id=schema_id,
        identifier_field_ids=schema.identifier_field_ids,
        extra=schema.extra,
    )


def _check_version(version: ViewVersion) -> None:
    dialects = [
        r.dialect.lower() for r in version.representations if isinstance(r, SQLViewRepresentation)
    ]
    if not dialects:
        raise ValidationError(
            "A version of a view needs a query.",
            hint='Give sql="SELECT …", or sql={"spark": …, "trino": …}.',
        )
    if len(set(dialects)) < len(dialects):
        raise ValidationError(
            f"A version of a view has one query for each dialect, not several: {', '.join(dialects)}."
        )


def _check_properties(properties: Mapping[str, str]) -> int:
    """Check the properties that steer how a view is kept; return the number of versions to keep.
    Raises ValidationError.
    """
    num_entries, drop = properties.get(VERSIONS_KEPT, "10"), properties.get(DROP_DIALECT, "false")
    codec = properties.get(COMPRESSION, "gzip")
    if not num_entries.strip().isdecimal() or not 0 < int(num_entries) < _INT:
        raise ValidationError(
            f"View property {VERSIONS_KEPT} must be a positive number, not {num_entries!r}."
        )
    if drop.strip().lower() not in ("true", "false"):
        raise ValidationError(f"View property {DROP_DIALECT} must be true or false, not {drop!r}.")
    if codec.strip().lower() not in ("none", "gzip"):
        raise ValidationError(f"View property {COMPRESSION} must be none or gzip, not {codec!r}.")
    return int(num_entries)
