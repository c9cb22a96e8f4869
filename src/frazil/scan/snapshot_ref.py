"""Resolve the snapshot of a read (snapshot id, time, branch, tag, version, suffix of the table's
name) and the schema to read it with.

The schema follows Java's rule: a snapshot selected by id, by time or by tag is read with the schema
it was written with, a branch (and the table itself) with the table's current one. Suffixes are
Java's: `db.t.files`, `/path/to/t#files,branch_audit`, `db.t.changes`, `db.t.tag_v1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from frazil.errors import InvalidInput, NoSuchRefError, NoSuchSnapshotError
from frazil.scan.inspect import METADATA_TABLES, TIME_TRAVEL_TABLES
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot

TimeLike = int | str | datetime | date


@dataclass(frozen=True)
class SnapshotRead:
    """Hold a resolved snapshot and its schema. `snapshot` None: the table (or branch `main`) has no
    snapshot yet. `branch` is set when the read follows a branch."""

    snapshot: Snapshot | None
    schema: Schema
    branch: str | None = None


def resolve(
    metadata: TableMetadata, *, as_of_ms: int | None = None, **selectors: Any
) -> tuple[Snapshot | None, Schema]:
    """Resolve the snapshot and schema of a read; the selectors are those of `resolve_read`."""
    if as_of_ms is not None:
        selectors["as_of"] = as_of_ms
    read = resolve_read(metadata, **selectors)
    return read.snapshot, read.schema


def resolve_read(
    metadata: TableMetadata,
    *,
    snapshot_id: int | None = None,
    branch: str | None = None,
    tag: str | None = None,
    as_of: TimeLike | None = None,
    version: int | str | None = None,
    zone: str = "UTC",
) -> SnapshotRead:
    """Resolve at most one selector to a snapshot and schema; none selects the current snapshot.

    `as_of`: milliseconds, datetime or ISO text (in `zone` when it has no offset); `version`: a
    snapshot id, branch or tag. Raises InvalidInput for two selectors, NoSuchSnapshotError,
    NoSuchRefError.
    """
    named = {
        "snapshot_id": snapshot_id,
        "branch": branch,
        "tag": tag,
        "as_of": as_of,
        "version": version,
    }
    selectors = [name for name, value in named.items() if value is not None]
    if len(selectors) > 1:
        raise InvalidInput(
            f"Cannot use {' and '.join(selectors)} together: each selects a snapshot.",
            table=metadata.location,
        )
    if snapshot_id is not None:
        return _travel(metadata, metadata.snapshot_by_id(int(snapshot_id)))
    if as_of is not None:
        return _as_of(metadata, to_milliseconds(as_of, zone))
    if tag is not None:
        return _of_ref(metadata, tag, "tag")
    if version is not None:
        return _of_version(metadata, version)
    if branch is not None and branch != MAIN_BRANCH:
        return _of_ref(metadata, branch, "branch")
    return SnapshotRead(metadata.current_snapshot(), metadata.schema(), MAIN_BRANCH)


def _travel(metadata: TableMetadata, snapshot: Snapshot) -> SnapshotRead:
    return SnapshotRead(snapshot, schema_of(metadata, snapshot))


def schema_of(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    """Return the schema a snapshot was written with; the current one when it names none, or one
    that was removed.
    """
    if snapshot is not None and snapshot.schema_id is not None:
        for schema in metadata.schemas:
            if schema.schema_id == snapshot.schema_id:
                return schema
    return metadata.schema()


def _as_of(metadata: TableMetadata, timestamp_ms: int) -> SnapshotRead:
    snapshot = metadata.snapshot_as_of(timestamp_ms)
    if snapshot is None:
        when = (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat()
            if abs(timestamp_ms) < 2**47
            else timestamp_ms
        )
        raise NoSuchSnapshotError(
            f"Cannot find a snapshot older than {when} in table {metadata.location}.",
            table=metadata.location,
        )
    return _travel(metadata, snapshot)


def _of_ref(metadata: TableMetadata, name: str, kind: str) -> SnapshotRead:
    ref = metadata.ref(name)
    if ref.type != kind:
        raise InvalidInput(
            f"Cannot use {name!r} as a {kind}: it is a {ref.type} of table {metadata.location}.",
            table=metadata.location,
        )
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    return (
        SnapshotRead(snapshot, metadata.schema(), name)
        if ref.is_branch
        else _travel(metadata, snapshot)
    )


def tagged_snapshot_id(metadata: TableMetadata, tag: str, option: str) -> int:
    """Return the snapshot id of a tag that an option names. Raises NoSuchRefError, and InvalidInput
    for a branch.
    """
    ref = metadata.ref(tag)
    if ref.is_branch:
        raise InvalidInput(
            f"{option}={tag} is a branch of table {metadata.location}.",
            hint="Name a tag.",
            table=metadata.location,
        )
    return ref.snapshot_id


def _of_version(metadata: TableMetadata, version: int | str) -> SnapshotRead:
    """Resolve a version: a number is a snapshot id if there is such a snapshot, anything else is
    the name of a branch or tag.
    """
    text = str(version).strip()
    if (
        text.lstrip("+-").isdigit()
        and (snapshot := metadata.snapshots.by_id(int(text))) is not None
    ):
        return _travel(metadata, snapshot)
    if text == MAIN_BRANCH:
        return SnapshotRead(metadata.current_snapshot(), metadata.schema(), MAIN_BRANCH)
    if (ref := metadata.refs.get(text)) is None:
        kinds = "snapshot, branch or tag" if text.lstrip("+-").isdigit() else "branch or tag"
        ref_names = ", ".join(metadata.refs) or "none"
        raise NoSuchRefError(
            f"Cannot find {kinds} {text!r} in table {metadata.location}; refs: {ref_names}.",
            table=metadata.location,
        )
    return _of_ref(metadata, text, ref.type)


def to_milliseconds(moment: TimeLike, zone: str = "UTC") -> int:
    """Convert a number (milliseconds), datetime, date or ISO text to milliseconds since the epoch;
    times without offset are in `zone`.
    """
    if isinstance(moment, bool):
        raise InvalidInput(f"Cannot use {moment!r} as a time.")
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        text = moment.strip()
        if text.lstrip("+-").isdigit():
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInput(
                f"Cannot read {moment!r} as a time; give milliseconds or ISO text such as 2026-01-31T12:00:00."
            ) from None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_zone(zone))
    delta = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name.upper() in ("UTC", "Z") else ZoneInfo(name)
    except (KeyError, ValueError) as e:
        raise InvalidInput(f"Unknown time zone {name!r}.") from e


def selector_suffix(text: str) -> dict[str, int | str] | None:
    """Translate the last part of an identifier (branch_x, tag_x, snapshot_id_N, at_timestamp_MS)
    into keyword arguments of `resolve`; None: it selects no snapshot."""
    for prefix, name in (
        ("branch_", "branch"),
        ("tag_", "tag"),
        ("snapshot_id_", "snapshot_id"),
        ("at_timestamp_", "as_of"),
    ):
        rest = text[len(prefix) :]
        if text.startswith(prefix) and rest:
            if name in ("branch", "tag"):
                return {name: rest}
            return {name: int(rest)} if rest.isdigit() else None
    return None


CHANGES = "changes"


@dataclass(frozen=True)
class Suffixes:
    """Hold parsed suffixes. `view`: a metadata table's name, `CHANGES`, or None for the table's
    rows. `selectors`: keyword arguments of `snapshot_ref.resolve`."""

    view: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)


def is_suffix(text: str) -> bool:
    return text.lower() in (*METADATA_TABLES, CHANGES) or selector_suffix(text) is not None


def split_location(location: str) -> tuple[str, list[str]]:
    """Split `/path/to/t#files,branch_b` into the location and its suffixes; a `#` before the last
    `/` belongs to the location.
    """
    place, mark, suffix = location.rpartition("#")
    return (place, suffix.split(",")) if mark and "/" not in suffix else (location, [])


def read_suffixes(
    texts: Sequence[str], table: str, selectors: Mapping[str, Any] | None = None
) -> Suffixes:
    """Parse the suffixes of a table name and join them with selectors given as options. Raises
    InvalidInput for unknown and conflicting ones."""
    view, chosen = None, dict(selectors or {})
    for text in texts:
        if text.lower() in (*METADATA_TABLES, CHANGES):
            view = text.lower()
            continue
        selector = selector_suffix(text)
        if selector is None:
            hint = f"Metadata tables: {', '.join((*METADATA_TABLES, CHANGES))}."
            raise InvalidInput(
                f"{text!r} is neither a metadata table nor a snapshot selector.",
                table=table,
                hint=hint,
            )
        if chosen:
            raise InvalidInput(
                f"Cannot use {text} together with {', '.join(chosen)}: each selects a snapshot.",
                table=table,
            )
        chosen.update(selector)
    if view is not None and chosen and view not in TIME_TRAVEL_TABLES:
        raise InvalidInput(f"Cannot select snapshot in table: {view.upper()}", table=table)
    return Suffixes(view, chosen)
