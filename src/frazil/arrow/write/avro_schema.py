"""Convert Iceberg schemas to the Avro schemas of data files (spec, "Avro"): field ids, logical
types, names that Avro allows.
"""

from __future__ import annotations

from typing import Any

from frazil.codec.avro_write import avro_name, primitive_schema
from frazil.spec.schema import Schema
from frazil.spec.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    VariantType,
)


def avro_schema(schema: Schema) -> dict[str, Any]:
    """Convert a table's schema to the record schema of an Avro data file."""
    return _record("table", schema.fields, set())


def _record(name: str, fields: tuple[NestedField, ...], named: set[str]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(f, named) for f in fields]}


def _field(field: NestedField, named: set[str]) -> dict[str, Any]:
    name = avro_name(field.name)
    type_ = _type(field.field_type, field.field_id, named)
    obj: dict[str, Any] = {
        "name": name,
        "type": type_ if field.required or type_ == "null" else ["null", type_],
    }
    if field.optional:
        obj["default"] = None
    obj["field-id"] = field.field_id
    if name != field.name:
        obj["iceberg-field-name"] = field.name
    return obj


def _member(field: NestedField, named: set[str]) -> Any:
    type_ = _type(field.field_type, field.field_id, named)
    return type_ if field.required or type_ == "null" else ["null", type_]


def _type(type_: IcebergType, field_id: int, named: set[str]) -> Any:
    match type_:
        case StructType():
            return _record(f"r{field_id}", type_.fields, named)
        case ListType():
            return {
                "type": "array",
                "items": _member(type_.element_field, named),
                "element-id": type_.element_id,
            }
        case MapType(key_type=StringType()):
            return {
                "type": "map",
                "values": _member(type_.value_field, named),
                "key-id": type_.key_id,
                "value-id": type_.value_id,
            }
        case MapType():
            pair = _record(
                f"k{type_.key_id}_v{type_.value_id}", (type_.key_field, type_.value_field), named
            )
            return {"type": "array", "logicalType": "map", "items": pair}
        case VariantType():
            parts = [{"name": n, "type": "bytes"} for n in ("metadata", "value")]
            return {
                "type": "record",
                "name": f"r{field_id}",
                "logicalType": "variant",
                "fields": parts,
            }
        case UnknownType():
            return "null"
    return primitive_schema(type_, named)
