"""Convert each class of the format to its JSON form and back: `JsonModel` offers this on the
classes themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from frazil.codec import json_nouns as nouns
from frazil.codec.metadata_json import decode_metadata, encode_metadata
from frazil.errors import InvalidInput, ParseError, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef
from frazil.spec.sorting import SortField, SortOrder
from frazil.spec.types import IcebergType, NestedField, StructType

T = TypeVar("T")


def to_object(model: object) -> Any:  # one arm per class
    """Convert an object to its JSON form, as the spec has it."""
    match model:
        case Schema():
            return nouns.schema_to_json(model)
        case IcebergType():
            return nouns.type_to_json(model)
        case NestedField():
            return nouns.field_to_json(model)
        case PartitionSpec():
            return nouns.spec_to_json(model)
        case PartitionField():
            return nouns.partition_fields_to_json(PartitionSpec(model))[0]
        case SortOrder():
            return nouns.sort_order_to_json(model)
        case SortField():
            return nouns.sort_order_to_json(SortOrder(model))["fields"][0]
        case Snapshot():
            return nouns.snapshot_to_json(model)
        case SnapshotRef():
            return nouns.ref_to_json(model)
        case TableMetadata():
            return msgspec.json.decode(encode_metadata(model))
    raise InvalidInput(f"{type(model).__name__} has no JSON form.")


def to_text(model: object, indent: int | None = None) -> str:
    """Format the JSON form as text; `indent`: blanks per level, None: all on one line."""
    data = (
        encode_metadata(model)
        if isinstance(model, TableMetadata)
        else msgspec.json.encode(to_object(model))
    )
    return msgspec.json.format(data, indent=-1 if indent is None else indent).decode()


def from_text(kind: type[T], text: str | bytes) -> T:
    """Parse JSON text into an object of the class `kind`. Raises ParseError for text that is not
    JSON, CorruptData, ValidationError.
    """
    if kind is TableMetadata:
        return cast(T, decode_metadata(text.encode() if isinstance(text, str) else text))
    try:
        obj = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as e:
        raise ParseError(f"This is no JSON of a {kind.__name__}: {e}") from e
    return from_object(kind, obj)


def from_object(kind: type[T], obj: object) -> T:
    """Make an object of the class `kind` from its JSON form. Raises CorruptData, ValidationError."""
    model = _from_object(kind, obj)
    if not isinstance(model, kind):
        raise ValidationError(
            f"This is the JSON of a {type(model).__name__}, not of a {kind.__name__}: {str(obj)[:100]}"
        )
    return model


def _from_object(kind: type[Any], obj: object) -> Any:
    if issubclass(kind, IcebergType):
        return nouns.type_from_json(obj)
    if kind not in _READERS:
        raise InvalidInput(f"{kind.__name__} has no JSON form.")
    return _READERS[kind](obj)


def _struct(obj: object) -> StructType:
    return cast(StructType, nouns.type_from_json({"type": "struct", "fields": [obj]}))


_READERS: dict[type[Any], Callable[[Any], Any]] = {
    Schema: nouns.schema_from_json,
    NestedField: lambda obj: _struct(obj).fields[0],
    PartitionSpec: nouns.spec_from_json,
    PartitionField: lambda obj: nouns.partition_fields_from_json([obj])[0],
    SortOrder: nouns.sort_order_from_json,
    SortField: lambda obj: nouns.sort_order_from_json({"order-id": 1, "fields": [obj]}).fields[0],
    Snapshot: nouns.snapshot_from_json,
    SnapshotRef: nouns.ref_from_json,
    TableMetadata: lambda obj: decode_metadata(msgspec.json.encode(obj)),
}
