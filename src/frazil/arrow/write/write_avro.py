"""Write Avro data files with Iceberg's field ids: encode column by column, vectorised, then join
the parts of each row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.uuids import uuid_from_text
from frazil.arrow.values.variant import json_to_variant
from frazil.arrow.write.metrics import BatchMetrics, Metrics, MetricsConfig
from frazil.arrow.write.write_options import check_level
from frazil.codec.avro_write import (
    BLOCK_BYTES,
    avro_name,
    block,
    codec_name,
    decimal_size,
    header,
    primitive_schema,
    to_text,
)
from frazil.codec.json_nouns import schema_to_json
from frazil.codec.single_value import unscaled
from frazil.spec.properties import AVRO_CODEC, AVRO_LEVEL
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
)

_LEVELS = {"deflate": "gzip", "zstandard": "zstd"}  # codecs that have levels
_NULL, _VALUE = b"\x00", b"\x02"  # the branch of the union ["null", type] that follows
_END = b"\x00"  # ends the blocks of an array or map
# the numbers from which on a varint takes one byte more
_STEPS = np.array([1 << (7 * n) for n in range(1, 10)], np.uint64)


def avro_settings(
    properties: Mapping[str, str], *, codec: str | None = None, level: str | None = None
) -> dict[str, Any]:
    """Read `write.avro.*`: the codec by Avro's name, and the level where one is given."""
    name = (codec or AVRO_CODEC.of(properties)).lower()
    settings: dict[str, Any] = {"codec": codec_name(name)}
    level = level or AVRO_LEVEL.of(properties)
    if level is not None and settings["codec"] in _LEVELS:
        settings["compression_level"] = check_level(
            _LEVELS[settings["codec"]], level, AVRO_LEVEL.name
        )
    return settings


class AvroFileWriter:
    """Write one Avro data file, block by block."""

    def __init__(
        self,
        sink: Any,
        schema: Schema,
        settings: Mapping[str, Any],
        config: MetricsConfig,
        notes: Mapping[str, str] | None = None,
    ):
        self._sink, self._fields = sink, schema.fields
        self._codec, self._level, self._sync = (
            settings["codec"],
            settings.get("compression_level"),
            os.urandom(16),
        )
        metadata = {
            "iceberg.schema": msgspec.json.encode(schema_to_json(schema)),
            **{k: v.encode() for k, v in (notes or {}).items()},
        }
        sink.write(header(to_text(avro_schema(schema)), metadata, self._codec, self._sync))
        self._metrics = BatchMetrics(schema, config)
        self._rows: list[bytes] = []
        self._size = 0

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._metrics.add(batch)
            for row in records(self._fields, batch.columns, batch.num_rows):
                self._rows.append(row)
                self._size += len(row)
                if self._size >= BLOCK_BYTES:
                    self._flush()

    def _flush(self) -> None:
        self._sink.write(block(self._rows, self._codec, self._level, self._sync))
        self._rows, self._size = [], 0

    def has(self, size: int) -> bool:
        """Tell whether the file has at least `size` bytes."""
        return int(self._sink.tell()) >= size

    def abort(self) -> None:
        """Do nothing: what is buffered is dropped with the writer."""

    def close(self) -> Metrics:
        if self._rows:
            self._flush()
        return self._metrics.finish()


def records(fields: Sequence[NestedField], columns: Sequence[pa.Array], count: int) -> list[bytes]:
    """Encode rows in Avro's binary encoding of a record of these fields."""
    parts = [
        encoded(f, c)
        for f, c in zip(fields, columns, strict=True)
        if not isinstance(f.field_type, UnknownType)
    ]
    return list(map(b"".join, zip(*parts, strict=True))) if parts else [b""] * count


def encoded(field: NestedField, array: pa.Array) -> list[bytes]:
    """Encode the values of a column, optional ones behind the number of their union's branch."""
    if isinstance(field.field_type, UnknownType):
        return [b""] * len(array)
    values = _values(field.field_type, array)
    if field.required:
        return values
    if not array.null_count:
        return [_VALUE + v for v in values]
    return [
        _VALUE + v if is_valid else _NULL
        for v, is_valid in zip(values, array.is_valid().to_pylist(), strict=True)
    ]


def _values(type_: IcebergType, array: pa.Array) -> list[bytes]:
    """Encode the values of a column; those of nulls are arbitrary."""
    match type_:
        case StructType():
            return records(
                type_.fields, [array.field(i) for i in range(len(type_.fields))], len(array)
            )
        case ListType():
            return _blocks(array, encoded(type_.element_field, array.values))
        # the bytes are the same whether the schema says map or array of key and value
        case MapType():
            pairs = records(
                (type_.key_field, type_.value_field), [array.keys, array.items], len(array.keys)
            )
            return _blocks(array, pairs)
        case BooleanType():
            return [b"\x01" if v else b"\x00" for v in array.to_pylist()]
        case FloatType() | DoubleType():
            kind = np.dtype("<f4") if isinstance(type_, FloatType) else np.dtype("<f8")
            data = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(kind).tobytes()
            return [data[n : n + kind.itemsize] for n in range(0, len(data), kind.itemsize)]
        case UUIDType():
            return [v or b"" for v in uuid_from_text(array).to_pylist()]
        case FixedType():
            return [v or b"" for v in array.to_pylist()]
        case DecimalType(precision=p, scale=s):
            size = decimal_size(p)
            return [
                b"" if v is None else unscaled(v, s).to_bytes(size, "big", signed=True)
                for v in array.to_pylist()
            ]
        case VariantType():
            pairs_of_bytes = [p or (b"", b"") for p in json_to_variant(array.to_pylist())]
            metadata, value = (_with_lengths([p[n] for p in pairs_of_bytes]) for n in (0, 1))
            return [m + v for m, v in zip(metadata, value, strict=True)]
        case IntegerType() | DateType():
            return varints(_numbers(array, pa.int32()))
    if pa.types.is_integer(array.type) or pa.types.is_temporal(array.type):
        return varints(_numbers(array, pa.int64()))
    binary = pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()
    return _with_lengths([v or b"" for v in array.cast(binary).to_pylist()])


def _numbers(array: pa.Array, kind: pa.DataType) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = (
        pc.fill_null(array.view(kind), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return numbers


def _with_lengths(values: Sequence[bytes]) -> list[bytes]:
    lengths = varints(np.fromiter(map(len, values), np.int64, len(values)))
    return [n + v for n, v in zip(lengths, values, strict=True)]


def _blocks(array: pa.Array, flat: list[bytes]) -> list[bytes]:
    """Encode lists and maps: one block of all members, then the end; only the end where there are
    no members.
    """
    offsets = array.offsets.to_numpy()
    counts = varints(np.diff(offsets).astype(np.int64))
    bounds = pairwise(offsets.tolist())
    return [
        n + b"".join(flat[a:b]) + _END if b > a else _END
        for n, (a, b) in zip(counts, bounds, strict=True)
    ]


def varints(numbers: npt.NDArray[np.int64]) -> list[bytes]:
    """Encode integers as Avro's zigzag varints, vectorised."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = np.searchsorted(_STEPS, zigzag, side="right") + 1
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(int(sizes.max()) if len(sizes) else 0):
        has = sizes > place
        seven = (zigzag[has] >> np.uint64(7 * place)).astype(np.uint8) & 127
        data[starts[has] + place] = seven | ((sizes[has] > place + 1).astype(np.uint8) << 7)
    whole = data.tobytes()
    return [whole[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


# Convert Iceberg schemas to the Avro schemas of data files (spec, "Avro"): field ids, logical
# types, names that Avro allows.


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
