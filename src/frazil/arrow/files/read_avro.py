"""Read Avro data files: decode records one by one within bounds (`codec.avro`), and build columns
batch by batch.
"""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from frazil.arrow.files.project import ColumnsPlan, FileField, FileSchema, mapped_schema
from frazil.arrow.files.source import Piece, RawBatch
from frazil.arrow.values.arrays import flattened
from frazil.arrow.values.arrow_schema import PARQUET_FIELD_ID
from frazil.codec.avro import record_reader, stream_container
from frazil.codec.avro_schema import AvroNode
from frazil.errors import CorruptData, Unsupported
from frazil.expr.bound import Bound
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping, mapping_of
from frazil.spec.schema import Schema
from frazil.storage.base import Storage

_PLAIN = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}


@dataclass(frozen=True)
class AvroSource:
    """Read an Avro data file, which is one piece: its blocks have no statistics to prune by."""

    data: bytes
    name: str
    schema: AvroNode
    arrow: pa.Schema

    @classmethod
    def open(cls, file: DataFile, storage: Storage) -> AvroSource:
        data = storage.read(file.file_path)
        schema, _ = stream_container(data, file.file_path)
        if schema.kind != "record":
            raise CorruptData(f"The schema of the Avro file is of type {schema.kind}, not record.")
        fields = [_field(name, field_id, node) for name, field_id, node in schema.fields]
        return cls(data, file.file_path, schema, pa.schema(fields))

    @property
    def prunes_leaves(self) -> bool:
        return False

    def file_schema(self, mapping: NameMapping | None, columns: Schema) -> FileSchema:
        return mapped_schema(self.arrow, mapping or mapping_of(columns))

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        return [Piece(0, 0, -1)] if start == 0 else []

    def prune(
        self,
        pieces: Sequence[Piece],
        fields: Sequence[FileField],
        bound: Bound,
        schema: Schema,
        constants: Mapping[int, Any],
    ) -> list[Piece]:
        return list(pieces)

    def read(
        self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool
    ) -> Iterator[RawBatch]:
        names = [self.schema.fields[i][0] for i in plan.fields]
        nodes = [self.schema.fields[i][2] for i in plan.fields]
        types = [self.arrow.field(i).type for i in plan.fields]
        done = 0
        for rows in self._batches(set(names), batch_size):
            columns = list(zip(*rows, strict=True)) if names else []
            yield (
                [_array(n, t, c) for n, t, c in zip(nodes, types, columns, strict=True)],
                len(rows),
                done,
            )
            done += len(rows)

    def _batches(self, names: set[str], batch_size: int) -> Iterator[list[Any]]:
        _, blocks = stream_container(self.data, self.name)
        read = record_reader(self.schema, names)

        def rows() -> Iterator[Any]:
            for count, block in blocks:
                if count > len(block) and self.schema.fields:
                    raise CorruptData(f"A block claims {count} rows in {len(block)} bytes.")
                offset = 0
                for _ in range(count):
                    row, offset = read(block, offset)
                    yield row
                if offset != len(block):
                    raise CorruptData(
                        f"A block holds {len(block) - offset} bytes more than its rows take."
                    )

        records = rows()
        while batch := list(itertools.islice(records, batch_size)):
            yield batch

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        return 0


def _field(name: str, field_id: object, node: AvroNode) -> pa.Field:
    metadata = {PARQUET_FIELD_ID: str(field_id)} if isinstance(field_id, int) else None
    return pa.field(name, _type(node), nullable=node.kind in ("union", "null"), metadata=metadata)


def _type(node: AvroNode) -> pa.DataType:
    """Convert an Avro type to an Arrow type; logical types are kept, and field ids go to the field
    metadata, as in Parquet files.
    """
    match node.kind:
        case "union":
            inner = node.not_null
            if inner is node:
                raise Unsupported(
                    "The Avro file has a union of several types; Iceberg knows only the union of null and one type."
                )
            return _type(inner)
        case "record":
            return pa.struct([_field(n, i, t) for n, i, t in node.fields])
        case "array":
            item = node.inside[0]
            if _is_map(node):
                (_, key_id, key), (_, value_id, value) = item.fields
                return pa.map_(_field("key", key_id, key), _field("value", value_id, value))
            return pa.list_(_field("element", node.properties.get("element-id"), item))
        case "map":
            key_id, value_id = node.properties.get("key-id"), node.properties.get("value-id")
            return pa.map_(
                _field("key", key_id, AvroNode("string")), _field("value", value_id, node.inside[0])
            )
    return _leaf(node)


def _is_map(node: AvroNode) -> bool:
    return (
        node.logical == "map"
        and node.inside[0].kind == "record"
        and len(node.inside[0].fields) == 2
    )


def _leaf(node: AvroNode) -> pa.DataType:
    logical = node.logical or ""
    if logical == "decimal" and node.kind in ("fixed", "bytes"):
        return pa.decimal128(_number(node, "precision"), _number(node, "scale"))
    if node.kind == "fixed":
        return pa.binary(node.size)
    if logical == "date" and node.kind == "int":
        return pa.date32()
    annotation, _, unit = logical.rpartition("-")
    if unit in _UNITS and node.kind in ("int", "long"):
        if annotation in ("timestamp", "local-timestamp"):
            return pa.timestamp(
                _UNITS[unit],
                "UTC"
                if annotation == "timestamp" and node.properties.get("adjust-to-utc", True)
                else None,
            )
        if annotation == "time":
            return pa.time32("ms") if unit == "millis" else pa.time64(_UNITS[unit])
    return _PLAIN[node.kind]


def _number(node: AvroNode, key: str) -> int:
    number = node.properties.get(key, 0)
    if not isinstance(number, int):
        raise CorruptData(f"A decimal of the Avro file has {key} {str(number)[:40]}.")
    return number


def _array(node: AvroNode, type_: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Build a column from decoded values: records are tuples, maps lists of pairs, logical types
    their stored value.
    """
    inner = node.not_null
    match inner.kind:
        case "record":
            count = len(inner.fields)
            nothing = (None,) * count
            flat = (
                list(zip(*(nothing if v is None else v for v in values), strict=True))
                if values and count
                else [()] * count
            )
            children = [
                _array(n, type_.field(i).type, flat[i]) for i, (_, _, n) in enumerate(inner.fields)
            ]
            mask = pa.array([v is None for v in values], pa.bool_())
            return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
        case "array" | "map":
            offsets, members = flattened(values)
            if pa.types.is_map(type_):
                pair = (
                    inner.inside[0].fields
                    if inner.kind == "array"
                    else (("key", None, AvroNode("string")), ("value", None, inner.inside[0]))
                )
                keys = _array(pair[0][2], type_.key_type, [m[0] for m in members])
                return pa.MapArray.from_arrays(
                    offsets,
                    keys,
                    _array(pair[1][2], type_.item_type, [m[1] for m in members]),
                    type=type_,
                )
            return pa.ListArray.from_arrays(
                offsets, _array(inner.inside[0], type_.value_type, members), type=type_
            )
    if pa.types.is_decimal(type_):
        return pa.array([None if v is None else _decimal(v, type_.scale) for v in values], type_)
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.array(values, pa.int64()).view(type_)
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return pa.array(values, pa.int32()).view(type_)
    return pa.array(values, type_)


def _decimal(data: bytes, scale: int) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(data, "big", signed=True)).scaleb(
        -scale, decimal.Context(prec=60)
    )
