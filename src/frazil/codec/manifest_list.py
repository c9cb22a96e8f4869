"""Decode and encode manifest lists (spec, "Manifest Lists"): the manifests of a snapshot, with
counts and partition summaries.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from frazil.codec.avro import Reader, read_bytes, read_container, read_records, record_reader
from frazil.codec.avro_schema import AvroNode
from frazil.codec.avro_write import container, to_text, write_bytes, write_long, write_text
from frazil.codec.guard import reading
from frazil.errors import CorruptData, ValidationError
from frazil.spec.manifest import FieldSummary, ManifestFile

# (field id, name, Avro type, format version from which the field is required, first format version,
# doc); 9: never required
_FIELDS: tuple[tuple[int, str, str, int, int, str], ...] = (
    (500, "manifest_path", "string", 1, 1, "Location URI with FS scheme"),
    (501, "manifest_length", "long", 1, 1, "Total file size in bytes"),
    (502, "partition_spec_id", "int", 1, 1, "Spec ID used to write"),
    (517, "content", "int", 2, 2, "Contents of the manifest: 0=data, 1=deletes"),
    (515, "sequence_number", "long", 2, 2, "Sequence number when the manifest was added"),
    (516, "min_sequence_number", "long", 2, 2, "Lowest sequence number in the manifest"),
    (503, "added_snapshot_id", "long", 1, 1, "Snapshot ID that added the manifest"),
    (504, "added_files_count", "int", 2, 1, "Added entry count"),
    (505, "existing_files_count", "int", 2, 1, "Existing entry count"),
    (506, "deleted_files_count", "int", 2, 1, "Deleted entry count"),
    (512, "added_rows_count", "long", 2, 1, "Added rows count"),
    (513, "existing_rows_count", "long", 2, 1, "Existing rows count"),
    (514, "deleted_rows_count", "long", 2, 1, "Deleted rows count"),
    (507, "partitions", "summaries", 9, 1, "Summary for each partition"),
    (519, "key_metadata", "bytes", 9, 1, "Encryption key metadata blob"),
    (
        520,
        "first_row_id",
        "long",
        9,
        3,
        "Starting row ID to assign to new rows in ADDED data files",
    ),
)
_NAMES = {field_id: name for field_id, name, *_ in _FIELDS}
_SUMMARY = {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"}
_KINDS: dict[str, tuple[str, ...]] = {
    name: {"string": ("string",), "bytes": ("bytes",), "summaries": ("array",)}.get(
        kind, ("int", "long")
    )
    for _, name, kind, *_ in _FIELDS
}
_NEEDED = ("manifest_path", "manifest_length", "added_snapshot_id")
_MOST_ENTRIES = 8192  # that are remembered, of some hundred bytes each
_FieldWriter = tuple[str, Callable[[Any], bytes], bool]
_DEFAULTS = {"content": 0, "sequence_number": 0, "min_sequence_number": 0}


def decode_manifest_list(data: bytes, file: str = "") -> tuple[ManifestFile, ...]:
    """Decode the manifests of a list, in its order. Raises CorruptData.

    Fields are matched by id, since old writers used other names; counters that version 1 lacks are
    0.
    """
    listing = read_container(data, file)
    with reading("manifest list", file):
        return tuple(read_records(listing, _plan(listing.schema), file))


@functools.lru_cache(maxsize=64)
def _plan(schema: AvroNode) -> Reader:
    """Plan to read lists of one Avro schema, and check its types once: return the reader of an
    entry as a ManifestFile.
    """
    fields = schema.not_null.fields
    if schema.not_null.kind != "record":
        raise CorruptData(f"A manifest list must hold records, not values of type {schema.kind}.")
    names = tuple(
        _NAMES.get(field_id) if field_id is not None else name if name in _KINDS else None
        for name, field_id, _ in fields
    )
    summary: tuple[str | None, ...] = ()
    for name, (_, _, node) in zip(names, fields, strict=True):
        if name is not None and node.not_null.kind not in _KINDS[name]:
            raise CorruptData(
                f"Field {name} of a manifest list has the wrong type {node.not_null.kind}."
            )
        if name == "partitions":
            inner = node.not_null.inside[0].not_null
            if inner.kind != "record":
                raise CorruptData(
                    f"Partition summaries of a manifest list are of type {inner.kind}, not records."
                )
            summary = tuple(
                _SUMMARY.get(i) if i is not None else n if n in _SUMMARY.values() else None
                for n, i, _ in inner.fields
            )
            for part, (_, _, n) in zip(summary, inner.fields, strict=True):
                if part is not None and n.not_null.kind != (
                    "boolean" if part.startswith("contains") else "bytes"
                ):
                    raise CorruptData(
                        f"Field {part} of a partition summary has the wrong type {n.not_null.kind}."
                    )
    if missing := [n for n in _NEEDED if n not in names]:
        raise CorruptData(f"The manifest list has no field {missing[0]}.")
    read = record_reader(schema)

    def manifest(data: bytes, offset: int) -> tuple[ManifestFile, int]:
        row, end = read(data, offset)
        if row is None:
            raise CorruptData("An entry of the manifest list is null.")
        return _manifest(names, row, summary), end

    begins_with_path = names[0] == "manifest_path" and fields[0][2].kind == "string"
    return _remembering(manifest) if schema.kind == "record" and begins_with_path else manifest


def _remembering(read: Reader) -> Reader:
    """Return a reader that recognises entries that it has read, by their path and their bytes: each
    list of a table's history repeats most entries of the one before it.
    """
    entries: dict[bytes, tuple[bytes, ManifestFile]] = {}

    def manifest(data: bytes, offset: int) -> tuple[ManifestFile, int]:
        path, _ = read_bytes(data, offset)
        encoded, value = entries.get(path, (b"", None))
        if value is not None and data.startswith(encoded, offset):
            return value, offset + len(encoded)
        value, end = read(data, offset)
        if len(entries) >= _MOST_ENTRIES:
            entries.clear()
        entries[path] = data[offset:end], value
        return value, end

    return manifest


def _manifest(
    names: tuple[str | None, ...], row: tuple[Any, ...], summary: tuple[str | None, ...]
) -> ManifestFile:
    values: dict[Any, Any] = _DEFAULTS.copy()
    for name, value in zip(names, row, strict=True):
        if value is not None:
            values[name] = value
    values.pop(None, None)
    if "partitions" in values:
        values["partitions"] = tuple([_summary(summary, s) for s in values["partitions"]])
    manifest = ManifestFile(**values)  # raises TypeError without what a manifest needs
    if (
        manifest.manifest_length < 0
        or not manifest.manifest_path
        or manifest.content not in (0, 1)
        or manifest.added_snapshot_id is None
    ):
        raise CorruptData(f"Manifest {manifest.manifest_path[:200]!r} has impossible values.")
    return manifest


def _summary(names: tuple[str | None, ...], row: tuple[Any, ...] | None) -> FieldSummary:
    if row is None:
        return FieldSummary(None)
    values = dict(zip(names, row, strict=True))
    return FieldSummary(
        values.get("contains_null"),
        values.get("contains_nan"),
        values.get("lower_bound"),
        values.get("upper_bound"),
    )


# Writing


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int | None,
    first_row_id: int | None = None,
    format_version: int = 2,
    codec: str = "gzip",
    level: int | None = None,
) -> bytes:
    """Encode a manifest list; sequence numbers of the manifests must be assigned already.

    Raises ValidationError for a manifest that lacks a field which the format version requires.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number or 0)
    if format_version >= 3:
        metadata["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    metadata["format-version"] = str(format_version)
    entries = map(functools.partial(_entry, *_plan_of_entries(format_version)), manifests)
    return container(
        _schema(format_version), {k: v.encode() for k, v in metadata.items()}, entries, codec, level
    )


@functools.lru_cache(maxsize=8)
def _plan_of_entries(
    format_version: int,
) -> tuple[Callable[[ManifestFile], tuple[Any, ...]], tuple[_FieldWriter, ...]]:
    """Plan to write the entries of lists of one version: what returns the values of a manifest, and
    the name of each value, its writer, and whether it is required.
    """
    fields = tuple(
        (name, _WRITERS[kind], required <= format_version)
        for _, name, kind, required, since, _ in _FIELDS
        if since <= format_version
    )
    return operator.attrgetter(*(name for name, _, _ in fields)), fields


def _entry(
    values_of: Callable[[ManifestFile], tuple[Any, ...]],
    fields: tuple[_FieldWriter, ...],
    manifest: ManifestFile,
) -> bytes:
    parts = []
    for value, (name, write, required) in zip(values_of(manifest), fields, strict=True):
        if value is not None:
            parts.append(write(value) if required else b"\x02" + write(value))
        elif required:
            text = f"Manifest {manifest.manifest_path} has no {name}, which its manifest list requires."
            raise ValidationError(text, file=manifest.manifest_path)
        else:
            parts.append(b"\x00")
    return b"".join(parts)


@functools.lru_cache(maxsize=8)
def _schema(format_version: int) -> bytes:
    summary = [
        {
            "name": "contains_null",
            "type": "boolean",
            "field-id": 509,
            "doc": "True if any file has a null partition value",
        },
        {
            "name": "contains_nan",
            "type": ["null", "boolean"],
            "default": None,
            "field-id": 518,
            "doc": "True if any file has a nan partition value",
        },
        {
            "name": "lower_bound",
            "type": ["null", "bytes"],
            "default": None,
            "field-id": 510,
            "doc": "Partition lower bound for all files",
        },
        {
            "name": "upper_bound",
            "type": ["null", "bytes"],
            "default": None,
            "field-id": 511,
            "doc": "Partition upper bound for all files",
        },
    ]
    summaries = {
        "type": "array",
        "items": {"type": "record", "name": "r508", "fields": summary},
        "element-id": 508,
    }
    fields: list[dict[str, Any]] = []
    for field_id, name, kind, required, since, doc in _FIELDS:
        type_: Any = summaries if kind == "summaries" else kind
        if since <= format_version:
            form = (
                {"type": type_}
                if required <= format_version
                else {"type": ["null", type_], "default": None}
            )
            fields.append({"name": name, **form, "field-id": field_id, "doc": doc})
    return to_text({"type": "record", "name": "manifest_file", "fields": fields})


def _summaries(summaries: tuple[FieldSummary, ...]) -> bytes:
    if not summaries:
        return b"\x00"
    parts = [write_long(len(summaries))]
    for s in summaries:
        # not known: there may be nulls
        parts.append(b"\x00" if s.contains_null is False else b"\x01")
        parts.append(
            b"\x00" if s.contains_nan is None else b"\x02\x01" if s.contains_nan else b"\x02\x00"
        )
        parts += [
            b"\x00" if bound is None else b"\x02" + write_bytes(bound)
            for bound in (s.lower_bound, s.upper_bound)
        ]
    return b"".join(parts) + b"\x00"


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "string": write_text, "bytes": write_bytes, "summaries": _summaries, "int": write_long, "long": write_long,
}  # fmt: skip
