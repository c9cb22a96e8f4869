"""Convert schemas, specs, sort orders, snapshots and refs to JSON objects and back (spec, "Appendix
C"), in Java's key order.

The `*_from_json` functions take what a JSON parser returns and raise CorruptData, ValidationError
or InvalidInput. Unknown keys are kept in `extra`, so that a table written by a newer version loses
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from frazil.codec import single_value
from frazil.errors import CorruptData
from frazil.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef, Summary
from frazil.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from frazil.spec.transforms import parse_transform
from frazil.spec.types import (
    MAX_DEPTH,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    parse_primitive,
)

_FIELD_KEYS = frozenset(
    ("id", "name", "required", "type", "doc", "initial-default", "write-default")
)
_STRUCT_KEYS = frozenset(("type", "fields"))
_LIST_KEYS = frozenset(("type", "element-id", "element", "element-required"))
_MAP_KEYS = frozenset(("type", "key-id", "key", "value-id", "value", "value-required"))
_SCHEMA_KEYS = frozenset(("type", "schema-id", "identifier-field-ids", "fields"))
_PARTITION_FIELD_KEYS = frozenset(("name", "transform", "source-id", "source-ids", "field-id"))
_SORT_FIELD_KEYS = frozenset(("transform", "source-id", "source-ids", "direction", "null-order"))
_SNAPSHOT_KEYS = frozenset(
    ("sequence-number", "snapshot-id", "parent-snapshot-id", "timestamp-ms", "summary", "manifest-list", "manifests", "schema-id",
     "first-row-id", "added-rows", "key-id")
)  # fmt: skip
_REF_KEYS = frozenset(
    ("snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
)
_INT, _LONG = 2**31, 2**63


def fields_of(obj: object, noun: str) -> dict[str, Any]:
    """Return `obj` when it is a JSON object. Raises CorruptData."""
    if isinstance(obj, dict):
        return obj
    raise CorruptData(f"Cannot parse {noun} from a non-object: {str(obj)[:100]}")


def items_of(obj: object, noun: str) -> list[Any]:
    """Return `obj` when it is a JSON array. Raises CorruptData."""
    if isinstance(obj, list):
        return obj
    raise CorruptData(f"Cannot parse {noun} from a non-array: {str(obj)[:100]}")


def integer(obj: Mapping[str, Any], key: str, bound: int = _LONG) -> int:
    """Read the integer under `key`, within the range of int (bound 2^31) or long. Raises
    CorruptData.
    """
    value = obj.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not -bound <= value < bound:
        kind = "int" if bound == _INT else "long"
        raise CorruptData(
            f"Cannot parse missing {kind}: {key}"
            if value is None
            else f"Cannot parse to an integer value: {key}: {str(value)[:100]}"
        )
    return value


def integer_or_none(obj: Mapping[str, Any], key: str, bound: int = _LONG) -> int | None:
    return None if obj.get(key) is None else integer(obj, key, bound)


def text(obj: Mapping[str, Any], key: str) -> str:
    """Read the string under `key`. Raises CorruptData."""
    value = obj.get(key)
    if not isinstance(value, str):
        raise CorruptData(
            f"Cannot parse missing string: {key}"
            if value is None
            else f"Cannot parse to a string value: {key}: {str(value)[:100]}"
        )
    return value


def text_or_none(obj: Mapping[str, Any], key: str) -> str | None:
    return None if obj.get(key) is None else text(obj, key)


def truth(obj: Mapping[str, Any], key: str) -> bool:
    """Read the boolean under `key`. Raises CorruptData."""
    value = obj.get(key)
    if not isinstance(value, bool):
        raise CorruptData(
            f"Cannot parse missing boolean: {key}"
            if value is None
            else f"Cannot parse to a boolean value: {key}: {str(value)[:100]}"
        )
    return value


def texts(obj: object, noun: str) -> dict[str, str]:
    """Read a map of strings, empty for null; numbers and booleans become their text, as in Java.
    Raises CorruptData.
    """
    members = {} if obj is None else fields_of(obj, noun)
    if all(isinstance(value, str) for value in members.values()):
        return members
    return {
        k: v if isinstance(v, str) else _java_text(v, f"{noun}.{k}") for k, v in members.items()
    }


def _java_text(value: object, noun: str) -> str:
    if isinstance(value, dict | list | None):
        raise CorruptData(f"Cannot parse to a string value: {noun}: {str(value)[:100]}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def integers(obj: object, noun: str, bound: int = _LONG) -> tuple[int, ...]:
    """Read a list of integers. Raises CorruptData."""
    items = items_of(obj, noun)
    for value in items:
        if isinstance(value, bool) or not isinstance(value, int) or not -bound <= value < bound:
            raise CorruptData(f"Cannot parse to an integer value in {noun}: {str(value)[:100]}")
    return tuple(items)


def refuse_repeated(noun: str, values: Sequence[Hashable]) -> None:
    """Refuse values that occur twice, of which nobody could tell which is meant, as Java does.
    Raises CorruptData.
    """
    if len(set(values)) != len(values):
        raise CorruptData(f"A {noun} occurs twice: {repeated(values)[0]!s:.100}.")


def repeated(values: Iterable[Any]) -> list[Any]:
    """List the values that occur more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def unknown_keys(obj: dict[str, Any], known_keys: frozenset[str]) -> dict[str, Any]:
    """Pick the members of an object whose keys are not known."""
    return (
        {k: v for k, v in obj.items() if k not in known_keys}
        if not obj.keys() <= known_keys
        else {}
    )


# Types and schemas


def type_to_json(type_: IcebergType) -> Any:
    """Convert a type to text for a primitive, to an object for a struct, list or map."""
    match type_:
        case StructType():
            return {
                "type": "struct",
                "fields": [field_to_json(f) for f in type_.fields],
                **type_.extra,
            }
        case ListType():
            return {
                "type": "list",
                "element-id": type_.element_id,
                "element": type_to_json(type_.element_type),
                "element-required": type_.element_required,
                **type_.extra,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": type_.key_id,
                "key": type_to_json(type_.key_type),
                "value-id": type_.value_id,
                "value": type_to_json(type_.value_type),
                "value-required": type_.value_required,
                **type_.extra,
            }
    return str(type_)


def type_from_json(obj: object, depth: int = 0) -> IcebergType:
    if isinstance(obj, str):
        return parse_primitive(obj)
    if depth > MAX_DEPTH:
        raise CorruptData(f"Types are nested more than {MAX_DEPTH} deep.")
    match (obj := fields_of(obj, "type")).get("type"):
        case "struct":
            fields = (
                _field_from_json(f, depth + 1) for f in items_of(obj.get("fields"), "struct fields")
            )
            return StructType(*fields, extra=unknown_keys(obj, _STRUCT_KEYS))
        case "list":
            return ListType(
                integer(obj, "element-id", _INT),
                type_from_json(obj.get("element"), depth + 1),
                truth(obj, "element-required"),
                unknown_keys(obj, _LIST_KEYS),
            )
        case "map":
            return MapType(
                integer(obj, "key-id", _INT),
                type_from_json(obj.get("key"), depth + 1),
                integer(obj, "value-id", _INT),
                type_from_json(obj.get("value"), depth + 1),
                truth(obj, "value-required"),
                unknown_keys(obj, _MAP_KEYS),
            )
    raise CorruptData(f"Cannot parse type from json: {str(obj)[:100]}")


def field_to_json(field: NestedField) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_to_json(field.field_type),
    }
    if field.doc is not None:
        obj["doc"] = field.doc
    if field.initial_default is not None:
        obj["initial-default"] = single_value.to_json(field.field_type, field.initial_default)
    if field.write_default is not None:
        obj["write-default"] = single_value.to_json(field.field_type, field.write_default)
    return {**obj, **field.extra}


def _field_from_json(obj: object, depth: int) -> NestedField:
    obj = fields_of(obj, "struct field")
    type_ = type_from_json(obj.get("type"), depth)
    return NestedField(
        integer(obj, "id", _INT),
        text(obj, "name"),
        type_,
        truth(obj, "required"),
        text_or_none(obj, "doc"),
        single_value.from_json(type_, obj.get("initial-default")),
        single_value.from_json(type_, obj.get("write-default")),
        unknown_keys(obj, _FIELD_KEYS),
    )


def schema_to_json(schema: Schema) -> dict[str, Any]:
    obj: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        obj["identifier-field-ids"] = list(schema.identifier_field_ids)
    obj["fields"] = [field_to_json(f) for f in schema.fields]
    return {**obj, **schema.extra}


def schema_from_json(obj: object) -> Schema:
    """Read a schema; a missing schema-id is 0. Raises also when an id or a column's full name
    occurs twice.
    """
    obj = fields_of(obj, "schema")
    if obj.get("type") != "struct":
        raise CorruptData(f"Cannot create schema, not a struct type: {str(obj)[:100]}")
    schema = Schema(
        *(_field_from_json(f, 0) for f in items_of(obj.get("fields"), "struct fields")),
        schema_id=integer_or_none(obj, "schema-id", _INT) or 0,
        identifier_field_ids=()
        if obj.get("identifier-field-ids") is None
        else integers(obj["identifier-field-ids"], "identifier-field-ids", _INT),
        extra=unknown_keys(obj, _SCHEMA_KEYS),
    )
    by_id = schema.by_id  # computing it raises for an id that occurs twice
    if len(schema.column_names) != len(by_id):
        twice = repeated(schema.find_column_name(i) for i in by_id)
        raise CorruptData(
            f"Invalid schema {schema.schema_id}: multiple fields for name {', '.join(map(str, twice))}."[
                :1000
            ]
        )
    if unknown := [i for i in schema.identifier_field_ids if i not in by_id]:
        raise CorruptData(f"Identifier field {unknown[0]} is not in schema {schema.schema_id}.")
    return schema


# Partition specs and sort orders


def _sources(obj: dict[str, Any]) -> tuple[int, tuple[int, ...]]:
    """Read source-id, or source-ids of a transform with several arguments (v3)."""
    several = (
        integers(obj["source-ids"], "source-ids", _INT) if obj.get("source-ids") is not None else ()
    )
    if several and obj.get("source-id") is None:
        return several[0], several if len(several) > 1 else ()
    return integer(obj, "source-id", _INT), several if len(several) > 1 else ()


def _sources_to_json(field: PartitionField | SortField) -> dict[str, Any]:
    return (
        {"source-ids": list(field.source_ids)}
        if field.source_ids
        else {"source-id": field.source_id}
    )


def partition_fields_to_json(spec: PartitionSpec) -> list[dict[str, Any]]:
    """Convert the fields of a spec to a list, without the spec's id, as in v1 metadata and the
    headers of manifests.
    """
    return [
        {
            "name": f.name,
            "transform": str(f.transform),
            **_sources_to_json(f),
            "field-id": f.field_id,
            **f.extra,
        }
        for f in spec.fields
    ]


def partition_fields_from_json(obj: object) -> tuple[PartitionField, ...]:
    """Read a list of partition fields; fields without ids (v1) are numbered from 1000 in order."""
    partition_fields = []
    for number, item in enumerate(items_of(obj, "partition fields")):
        item = fields_of(item, "partition field")
        field_id = integer_or_none(item, "field-id", _INT)
        source, sources = _sources(item)
        partition_fields.append(
            PartitionField(
                source,
                FIRST_PARTITION_FIELD_ID + number if field_id is None else field_id,
                parse_transform(text(item, "transform")),
                text(item, "name"),
                sources,
                unknown_keys(item, _PARTITION_FIELD_KEYS),
            )
        )
    return tuple(partition_fields)


def spec_to_json(spec: PartitionSpec) -> dict[str, Any]:
    return {"spec-id": spec.spec_id, "fields": partition_fields_to_json(spec), **spec.extra}


def spec_from_json(obj: object) -> PartitionSpec:
    obj = fields_of(obj, "partition spec")
    fields = partition_fields_from_json(obj.get("fields"))
    refuse_repeated("partition field's name", [f.name for f in fields])
    refuse_repeated("partition field's id", [f.field_id for f in fields])
    return PartitionSpec(
        *fields,
        spec_id=integer_or_none(obj, "spec-id", _INT) or 0,
        extra=unknown_keys(obj, frozenset(("spec-id", "fields"))),
    )


def sort_order_to_json(order: SortOrder) -> dict[str, Any]:
    fields = [
        {
            "transform": str(f.transform),
            **_sources_to_json(f),
            "direction": str(f.direction),
            "null-order": str(f.null_order),
            **f.extra,
        }
        for f in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields, **order.extra}


def sort_order_from_json(obj: object) -> SortOrder:
    obj = fields_of(obj, "sort order")
    return SortOrder(
        *(_sort_field_from_json(item) for item in items_of(obj.get("fields"), "sort fields")),
        order_id=integer(obj, "order-id", _INT),
        extra=unknown_keys(obj, frozenset(("order-id", "fields"))),
    )


def _sort_field_from_json(obj: object) -> SortField:
    obj = fields_of(obj, "sort field")
    source, sources = _sources(obj)
    return SortField(
        source,
        parse_transform(text(obj, "transform")),
        SortDirection(text(obj, "direction").lower()),
        NullOrder(text(obj, "null-order").lower()),
        sources,
        unknown_keys(obj, _SORT_FIELD_KEYS),
    )


# Snapshots and refs


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    if snapshot.sequence_number > 0:
        obj["sequence-number"] = snapshot.sequence_number
    obj["snapshot-id"] = snapshot.snapshot_id
    if snapshot.parent_snapshot_id is not None:
        obj["parent-snapshot-id"] = snapshot.parent_snapshot_id
    obj["timestamp-ms"] = snapshot.timestamp_ms
    if snapshot.summary:
        operation = snapshot.summary.get("operation")
        obj["summary"] = (
            {"operation": operation, **snapshot.summary}
            if operation is not None
            else dict(snapshot.summary)
        )
    if snapshot.manifest_list is not None:
        obj["manifest-list"] = snapshot.manifest_list
    elif snapshot.manifests is not None:
        obj["manifests"] = list(snapshot.manifests)
    rest = (
        ("schema-id", snapshot.schema_id),
        ("first-row-id", snapshot.first_row_id),
        ("added-rows", snapshot.added_rows),
        ("key-id", snapshot.key_id),
    )
    obj.update((key, value) for key, value in rest if value is not None)
    return {**obj, **snapshot.extra}


def snapshot_from_json(obj: object) -> Snapshot:
    obj = fields_of(obj, "snapshot")
    manifests = obj.get("manifests")
    if manifests is not None and not all(
        isinstance(m, str) for m in items_of(manifests, "manifests")
    ):
        raise CorruptData("Cannot parse manifests: not a list of paths.")
    return Snapshot(
        snapshot_id=integer(obj, "snapshot-id"),
        timestamp_ms=integer(obj, "timestamp-ms"),
        manifest_list=text_or_none(obj, "manifest-list"),
        parent_snapshot_id=integer_or_none(obj, "parent-snapshot-id"),
        sequence_number=integer_or_none(obj, "sequence-number") or 0,
        summary=Summary(texts(obj.get("summary"), "summary")),
        schema_id=integer_or_none(obj, "schema-id", _INT),
        manifests=None if manifests is None else tuple(manifests),
        first_row_id=integer_or_none(obj, "first-row-id"),
        added_rows=integer_or_none(obj, "added-rows"),
        key_id=text_or_none(obj, "key-id"),
        extra=unknown_keys(obj, _SNAPSHOT_KEYS),
    )


def ref_to_json(ref: SnapshotRef) -> dict[str, Any]:
    obj: dict[str, Any] = {"snapshot-id": ref.snapshot_id, "type": ref.type}
    rest = (
        ("min-snapshots-to-keep", ref.min_snapshots_to_keep),
        ("max-snapshot-age-ms", ref.max_snapshot_age_ms),
        ("max-ref-age-ms", ref.max_ref_age_ms),
    )
    obj.update((key, value) for key, value in rest if value is not None)
    return {**obj, **ref.extra}


def ref_from_json(obj: object) -> SnapshotRef:
    obj = fields_of(obj, "snapshot reference")
    kind = text(obj, "type").lower()
    if kind not in ("branch", "tag"):
        raise CorruptData(f"Invalid snapshot ref type: {kind}")
    return SnapshotRef(
        integer(obj, "snapshot-id"),
        kind,
        integer_or_none(obj, "min-snapshots-to-keep", _INT),
        integer_or_none(obj, "max-snapshot-age-ms"),
        integer_or_none(obj, "max-ref-age-ms"),
        unknown_keys(obj, _REF_KEYS),
    )
