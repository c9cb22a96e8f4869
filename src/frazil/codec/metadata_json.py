"""Decode and encode table metadata as JSON (spec, "Table Metadata Fields"), plain or gzip.

Snapshots stay JSON text until one is used, and are written back as they were read: a table may have
thousands of them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from frazil.codec import json_nouns as nouns
from frazil.codec.guard import HELD, inflate, reading
from frazil.errors import CorruptData, Unsupported, ValidationError
from frazil.spec.metadata import SUPPORTED_FORMAT_VERSION, TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import (
    MAIN_BRANCH,
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    Snapshots,
)
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder

_KNOWN = frozenset(
    ("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id", "schema", "current-schema-id",
     "schemas", "partition-spec", "default-spec-id", "partition-specs", "last-partition-id", "default-sort-order-id", "sort-orders",
     "properties", "current-snapshot-id", "next-row-id", "encryption-keys", "refs", "snapshots", "statistics", "partition-statistics",
     "snapshot-log", "metadata-log")
)  # fmt: skip
E = TypeVar("E")
_INT = 2**31
_LOG_ITEM = b'{"timestamp-ms": %d, "snapshot-id": %d%s}'
_MOST_LOGS = 8
# by the location of the table, those written last at the end
_written_logs: dict[str, tuple[tuple[SnapshotLogEntry, ...], bytes]] = {}
# gzip shrinks metadata 10 to 25 times, thousands of versions of one small schema 115 times
MAX_UNZIPPED, MAX_RATIO = (
    1 << 30,
    150,
)


class _Head(msgspec.Struct, rename="kebab", gc=False):
    """Hold the fields of a snapshot that are needed of all snapshots at once."""

    snapshot_id: int
    sequence_number: int | None = None


class _SnapshotLogItem(msgspec.Struct, rename="kebab", gc=False, forbid_unknown_fields=True):
    timestamp_ms: int
    snapshot_id: int


class _MetadataLogItem(msgspec.Struct, rename="kebab", gc=False, forbid_unknown_fields=True):
    timestamp_ms: int
    metadata_file: str


_NOTHING = msgspec.Raw()
_USUAL = msgspec.json.Decoder(
    msgspec.defstruct(
        "_Usual",
        [
            ("snapshots", list[msgspec.Raw]),
            *((k.replace("-", "_"), msgspec.Raw, _NOTHING) for k in sorted(_KNOWN - {"snapshots"})),
        ],
        rename="kebab",
        forbid_unknown_fields=True,
        kw_only=True,
    )
)
_TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_HEAD = msgspec.json.Decoder(_Head)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_SNAPSHOT_LOG = msgspec.json.Decoder(list[_SnapshotLogItem])
_METADATA_LOG = msgspec.json.Decoder(list[_MetadataLogItem])
_ANY = msgspec.json.Decoder()
_Top = dict[str, msgspec.Raw]


def decode_metadata(data: bytes, file: str = "") -> TableMetadata:
    """Decode metadata of format version 1, 2 or 3. Raises CorruptData when it is not valid
    metadata, Unsupported for a newer version.
    """
    with reading("table metadata", file):
        return _decode(*_opened(unzipped(data)))


def unzipped(data: bytes) -> bytes:
    """Decompress a metadata file where it is gzip. Raises CorruptData when it grows to more than
    150 times its size.

    64 MB are always allowed, more than 1 GB never. A file that is too large is refused before more
    than 64 MB are held.
    """
    if data[:2] != b"\x1f\x8b":
        return data
    return inflate(data, 31, min(MAX_UNZIPPED, max(HELD, MAX_RATIO * len(data))))


def _opened(data: bytes) -> tuple[_Top, list[msgspec.Raw]]:
    """Split the file into the JSON text of its fields and of each snapshot. Where all fields are
    known one pass is enough, since a file may have megabytes."""
    try:
        usual: Any = _USUAL.decode(data)
    except msgspec.ValidationError:
        top = _TOP.decode(data)
        return top, _RAWS.decode(_list_in(top, "snapshots"))
    fields = (
        (name, getattr(usual, name.replace("-", "_"))) for name in _KNOWN if name != "snapshots"
    )
    return {name: raw for name, raw in fields if raw is not _NOTHING}, usual.snapshots


def _decode(top: _Top, raw_snapshots: list[msgspec.Raw]) -> TableMetadata:
    plain = {
        k: _ANY.decode(v)
        for k, v in top.items()
        if k not in ("schemas", "schema", "snapshots", "snapshot-log", "metadata-log")
    }
    version = nouns.integer(plain, "format-version", _INT)
    if not 1 <= version <= SUPPORTED_FORMAT_VERSION:
        raise Unsupported(
            f"Cannot read format version {version}: it is not supported.",
            hint=f"Frazil reads format versions 1 to {SUPPORTED_FORMAT_VERSION}.",
        )
    uuid = nouns.text_or_none(plain, "table-uuid")
    if uuid is None and version > 1:
        raise CorruptData(f"UUID is required in format v{version}.")
    schemas, schema_id = _schemas(top, plain, version)
    specs, spec_id, last_partition_id = _specs(plain, version)
    orders, order_id = _orders(plain, version)
    last_sequence_number = nouns.integer(plain, "last-sequence-number") if version > 1 else 0
    snapshots = _snapshots(raw_snapshots, last_sequence_number if version > 1 else None)
    current = nouns.integer_or_none(plain, "current-snapshot-id")
    metadata = TableMetadata(
        format_version=version,
        table_uuid=uuid,
        location=_stripped(nouns.text(plain, "location")),
        last_updated_ms=nouns.integer(plain, "last-updated-ms"),
        last_column_id=nouns.integer(plain, "last-column-id", _INT),
        schemas=schemas,
        current_schema_id=schema_id,
        partition_specs=specs,
        default_spec_id=spec_id,
        last_partition_id=last_partition_id,
        sort_orders=orders,
        default_sort_order_id=order_id,
        properties=nouns.texts(plain.get("properties"), "properties"),
        last_sequence_number=last_sequence_number,
        current_snapshot_id=None if current == -1 else current,
        next_row_id=nouns.integer(plain, "next-row-id") if version > 2 else None,
        encryption_keys=_objects(plain, "encryption-keys"),
        refs=_refs(plain),
        snapshots=snapshots,
        statistics=_objects(plain, "statistics"),
        partition_statistics=_objects(plain, "partition-statistics"),
        snapshot_log=_log(
            top,
            "snapshot-log",
            _SNAPSHOT_LOG,
            SnapshotLogEntry,
            "snapshot-id",
            nouns.integer,
        ),
        metadata_log=_log(
            top,
            "metadata-log",
            _METADATA_LOG,
            MetadataLogEntry,
            "metadata-file",
            nouns.text,
        ),
        extra={k: v for k, v in plain.items() if k not in _KNOWN},
    )
    _check_refs(metadata)
    return metadata


def _stripped(location: str) -> str:
    """Strip trailing slashes, except those of the root of a store (`s3://`, `/`)."""
    while location.endswith("/") and not location.endswith("://") and len(location) > 1:
        location = location[:-1]
    return location


def _list_in(top: _Top, key: str) -> bytes | msgspec.Raw:
    items = top.get(key)
    return b"[]" if items is None or bytes(items) == b"null" else items


def _objects(plain: dict[str, Any], key: str) -> tuple[dict[str, Any], ...]:
    items = plain.get(key)
    return (
        ()
        if items is None
        else tuple(nouns.fields_of(item, key) for item in nouns.items_of(items, key))
    )


@functools.lru_cache(maxsize=512)
def _schema_of(raw: bytes) -> Schema:
    """Decode a schema, cached by its text: schemas never change, and every metadata file of a table
    repeats them.
    """
    return nouns.schema_from_json(_ANY.decode(raw))


def _schemas(top: _Top, plain: dict[str, Any], version: int) -> tuple[tuple[Schema, ...], int]:
    if bytes(top.get("schemas") or b"null") == b"null":
        if version > 1:
            raise CorruptData(f"schemas must exist in format v{version}")
        if "schema" not in top:
            raise CorruptData("Cannot parse missing field: schema")
        only = _schema_of(bytes(top["schema"]))
        return (only,), only.schema_id
    schemas = tuple(_schema_of(bytes(raw)) for raw in _RAWS.decode(top["schemas"]))
    nouns.refuse_repeated("schema id", [s.schema_id for s in schemas])
    current = nouns.integer(plain, "current-schema-id", _INT)
    if current not in {s.schema_id for s in schemas}:
        raise CorruptData(f"Cannot find schema with current-schema-id={current} from schemas")
    return schemas, current


def _specs(plain: dict[str, Any], version: int) -> tuple[tuple[PartitionSpec, ...], int, int]:
    if plain.get("partition-specs") is not None:
        specs = tuple(
            nouns.spec_from_json(s)
            for s in nouns.items_of(plain["partition-specs"], "partition-specs")
        )
        default = nouns.integer(plain, "default-spec-id", _INT)
        nouns.refuse_repeated("partition spec id", [s.spec_id for s in specs])
    elif version > 1:
        raise CorruptData(f"partition-specs must exist in format v{version}")
    else:
        specs, default = (
            (PartitionSpec(*nouns.partition_fields_from_json(plain.get("partition-spec"))),),
            0,
        )
    if default not in {s.spec_id for s in specs}:
        raise CorruptData(
            f"Cannot find partition spec with default-spec-id={default} from partition-specs"
        )
    last = nouns.integer_or_none(plain, "last-partition-id", _INT)
    if last is None and version > 1:
        raise CorruptData(f"last-partition-id must exist in format v{version}")
    return specs, default, max(s.last_assigned_field_id for s in specs) if last is None else last


def _orders(plain: dict[str, Any], version: int) -> tuple[tuple[SortOrder, ...], int]:
    if plain.get("sort-orders") is None:
        if version > 1:
            raise CorruptData(f"sort-orders must exist in format v{version}")
        return (UNSORTED_SORT_ORDER,), 0
    orders = tuple(
        nouns.sort_order_from_json(o) for o in nouns.items_of(plain["sort-orders"], "sort-orders")
    )
    default = nouns.integer(plain, "default-sort-order-id", _INT)
    nouns.refuse_repeated("sort order id", [o.order_id for o in orders])
    if default != 0 and default not in {o.order_id for o in orders}:
        raise CorruptData(
            f"Cannot find sort order with default-sort-order-id={default} from sort-orders"
        )
    return orders, default


def _snapshot_of(raw: bytes) -> Snapshot:
    with reading("a snapshot of table metadata"):
        return nouns.snapshot_from_json(_ANY.decode(raw))


def _snapshots(raw_snapshots: list[msgspec.Raw], last_sequence_number: int | None) -> Snapshots:
    heads = [_HEAD.decode(raw) for raw in raw_snapshots]
    newest = max((h.sequence_number or 0 for h in heads), default=0)
    if last_sequence_number is not None and newest > last_sequence_number:
        raise CorruptData(
            f"Invalid snapshot with sequence number {newest} greater than last sequence number {last_sequence_number}"
        )
    ids = tuple(h.snapshot_id for h in heads)
    if len(set(ids)) != len(ids):
        raise CorruptData("A snapshot id occurs twice in the metadata.")
    return Snapshots.read(ids, raw_snapshots, _snapshot_of)  # a Raw is the bytes without a copy


def _log(
    top: _Top,
    name: str,
    decoder: msgspec.json.Decoder[Any],
    entry: Callable[..., E],
    member: str,
    read: Callable[[dict[str, Any], str], object],
) -> tuple[E, ...]:
    """Decode a log, whose entries hold a time and the member that `read` takes."""
    data = _list_in(top, name)
    try:
        return tuple([entry(*msgspec.structs.astuple(e)) for e in decoder.decode(data)])
    except msgspec.ValidationError:  # unknown keys, or invalid values, which are then named
        items = nouns.items_of(_ANY.decode(data), name)
    log_keys = frozenset(("timestamp-ms", member))
    return tuple(
        entry(
            nouns.integer(item, "timestamp-ms"),
            read(item, member),
            nouns.unknown_keys(item, log_keys),
        )
        for item in (nouns.fields_of(item, name) for item in items)
    )


def _refs(plain: dict[str, Any]) -> dict[str, SnapshotRef]:
    current = nouns.integer_or_none(plain, "current-snapshot-id")
    if plain.get("refs") is not None:
        return {
            name: nouns.ref_from_json(ref)
            for name, ref in nouns.fields_of(plain["refs"], "refs").items()
        }
    return {} if current is None or current == -1 else {MAIN_BRANCH: SnapshotRef(current)}


def _check_refs(metadata: TableMetadata) -> None:
    """Refuse metadata whose refs and current snapshot do not agree, as Java does."""
    snapshot_ids, current, main = (
        set(metadata.snapshots.ids),
        metadata.current_snapshot_id,
        metadata.refs.get(MAIN_BRANCH),
    )
    if main is not None and current is None:
        raise CorruptData(
            f"Current snapshot is not set, but main branch exists: {main.snapshot_id}"
        )
    if main is not None and main.snapshot_id != current:
        raise CorruptData(
            f"Current snapshot ID does not match main branch ({current} != {main.snapshot_id})"
        )
    if current is not None and current not in snapshot_ids:
        raise CorruptData(
            f"Current snapshot {current} does not exist in the existing snapshots list"
        )
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in snapshot_ids:
            raise CorruptData(
                f"Snapshot for reference {name} ({ref.snapshot_id}) does not exist in the existing snapshots list"
            )
    if main is not None and not main.is_branch:
        raise CorruptData("main is a tag, not a branch")


def encode_metadata(metadata: TableMetadata) -> bytes:
    """Encode metadata as readable JSON in Java's key order, not compressed; each new snapshot takes
    one line, since with thousands of them the blanks of an indented form are a quarter of the file.
    Raises ValidationError for values that have no JSON form."""
    try:
        return b"".join(_pieces(metadata))
    except (
        TypeError,
        OverflowError,
        UnicodeEncodeError,
        RecursionError,
        msgspec.MsgspecError,
    ) as e:
        raise ValidationError(
            f"The metadata of {metadata.location} cannot be written as JSON: {e}",
            table=metadata.location,
        ) from e


def _pieces(metadata: TableMetadata) -> list[bytes]:
    """List the pieces of the file to be joined once: with many snapshots, each copy of the text
    costs more than all the rest.
    """
    pieces, between = list[bytes](), b"{\n  "
    for part in _parts(metadata):
        pieces.append(between)
        pieces.extend(part)
        between = b",\n  "
    return [*pieces, b"\n}\n"]


def _parts(metadata: TableMetadata) -> Iterator[tuple[bytes, ...]]:
    for key, value in _before_snapshots(metadata):
        yield _part(key, value)
    yield _list_part(
        "snapshots",
        metadata.snapshots.texts(lambda s: msgspec.json.encode(nouns.snapshot_to_json(s))),
    )
    yield _part("statistics", metadata.statistics)
    yield _part("partition-statistics", metadata.partition_statistics)
    yield _list_part("snapshot-log", _snapshot_log_texts(metadata.location, metadata.snapshot_log))
    files = [
        (e.timestamp_ms, msgspec.json.encode(e.metadata_file), _more(e.extra) if e.extra else b"")
        for e in metadata.metadata_log
    ]
    yield _list_part(
        "metadata-log", [b'{"timestamp-ms": %d, "metadata-file": %s%s}' % file for file in files]
    )
    for key, value in metadata.extra.items():
        yield _part(key, value)


def _snapshot_log_texts(location: str, log: tuple[SnapshotLogEntry, ...]) -> list[bytes]:
    """Return the text of the snapshot log, one piece or none: of the entries that were written
    before, with those that are new.
    """
    written, text = _written_logs.pop(location, ((), b""))
    if not log or len(written) > len(log) or not all(map(operator.is_, written, log)):
        written, text = (), b""
    items = [
        _LOG_ITEM % (e.timestamp_ms, e.snapshot_id, _more(e.extra) if e.extra else b"")
        for e in log[len(written) :]
    ]
    text = b",\n    ".join([text, *items] if written else items)
    if log:
        _written_logs[location] = log, text
        for oldest in list(_written_logs)[:-_MOST_LOGS]:
            _written_logs.pop(oldest, None)
    return [text] if log else []


def _more(extra: dict[str, Any]) -> bytes:
    """Encode further members of a JSON object."""
    return b", " + msgspec.json.encode(extra)[1:-1]


def _part(key: str, value: object) -> tuple[bytes, ...]:
    indented = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return msgspec.json.encode(key), b": ", indented.replace(b"\n", b"\n  ")


def _list_part(key: str, items: list[Any]) -> tuple[bytes, ...]:
    pieces = [b",\n    "] * (2 * len(items))
    pieces[1::2] = items
    inside = (b"\n    ", *pieces[1:], b"\n  ") if items else ()
    return msgspec.json.encode(key), b": [", *inside, b"]"


def _before_snapshots(metadata: TableMetadata) -> Iterator[tuple[str, Any]]:
    v1 = metadata.format_version == 1
    yield "format-version", metadata.format_version
    if metadata.table_uuid is not None:
        yield "table-uuid", metadata.table_uuid
    yield "location", metadata.location
    if not v1:
        yield "last-sequence-number", metadata.last_sequence_number
    yield "last-updated-ms", metadata.last_updated_ms
    yield "last-column-id", metadata.last_column_id
    if v1:  # old readers know only this field
        yield "schema", nouns.schema_to_json(metadata.schema())
    yield "current-schema-id", metadata.current_schema_id
    yield "schemas", [nouns.schema_to_json(s) for s in metadata.schemas]
    if v1:
        yield "partition-spec", nouns.partition_fields_to_json(metadata.spec())
    yield "default-spec-id", metadata.default_spec_id
    yield "partition-specs", [nouns.spec_to_json(s) for s in metadata.partition_specs]
    yield "last-partition-id", metadata.last_partition_id
    yield "default-sort-order-id", metadata.default_sort_order_id
    yield "sort-orders", [nouns.sort_order_to_json(s) for s in metadata.sort_orders]
    yield "properties", metadata.properties
    current = metadata.current_snapshot_id
    yield "current-snapshot-id", -1 if current is None and metadata.format_version < 3 else current
    if metadata.format_version >= 3:
        yield "next-row-id", metadata.next_row_id or 0
    if metadata.encryption_keys:
        yield "encryption-keys", metadata.encryption_keys
    yield "refs", {name: nouns.ref_to_json(ref) for name, ref in metadata.refs.items()}
