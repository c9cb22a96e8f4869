"""Avro data files, through fastavro, with Iceberg's ids in the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
from fastavro.write import Writer

from frazil.arrow.values.uuids import uuid_from_text
from frazil.arrow.values.variant import json_to_variant
from frazil.arrow.write.avro_schema import avro_schema
from frazil.arrow.write.metrics import BatchMetrics, Metrics
from frazil.arrow.write.metrics_config import MetricsConfig
from frazil.arrow.write.write_options import check_level
from frazil.codec.avro_write import avro_name, decimal_size
from frazil.codec.json_nouns import schema_to_json
from frazil.codec.single_value import unscaled
from frazil.errors import Unsupported
from frazil.spec.properties import AVRO_CODEC, AVRO_LEVEL
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DateType,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

_CODECS = {"uncompressed": "null", "none": "null", "null": "null", "gzip": "deflate", "zlib": "deflate", "deflate": "deflate"}
_LONGS = (TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_BLOCK = 64_000


def avro_settings(properties: Mapping[str, str], *, codec: str | None = None, level: str | None = None) -> dict[str, Any]:
    """What `write.avro.*` says, as arguments of fastavro's writer."""
    name = (codec or AVRO_CODEC.of(properties)).lower()
    if name not in _CODECS:
        raise Unsupported(f"Avro data files have no compression-codec {name!r} here.", hint="Known: gzip, uncompressed.")
    found: dict[str, Any] = {"codec": _CODECS[name]}
    level = level or AVRO_LEVEL.of(properties)
    if level is not None and found["codec"] == "deflate":
        found["compression_level"] = check_level("gzip", level, AVRO_LEVEL.name)
    return found


class AvroFileWriter:
    def __init__(
        self, sink: Any, schema: Schema, settings: Mapping[str, Any], config: MetricsConfig, notes: Mapping[str, str] | None = None
    ):
        self._sink, self._fields = sink, schema.fields
        parsed = fastavro.parse_schema(_plain(avro_schema(schema)))
        metadata = {"iceberg.schema": msgspec.json.encode(schema_to_json(schema)).decode(), **(notes or {})}
        self._writer = Writer(sink, parsed, sync_interval=_BLOCK, metadata=metadata, **settings)
        self._metrics = BatchMetrics(schema, config)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._metrics.add(batch)
            for row in rows(self._fields, batch.columns, batch.num_rows):
                self._writer.write(row)

    def has(self, size: int) -> bool:
        """Whether the file has so many bytes."""
        return int(self._sink.tell()) >= size

    def abort(self) -> None:
        """Nothing to do: what is buffered is dropped."""

    def close(self) -> Metrics:
        self._writer.flush()
        return self._metrics.finish()


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy: fastavro writes its own notes into what it is given."""
    copied: dict[str, Any] = json.loads(json.dumps(schema))
    return copied


def rows(fields: Sequence[NestedField], columns: Sequence[pa.Array], count: int) -> Iterator[dict[str, Any]]:
    """Rows as fastavro takes them: stored values by Avro names."""
    names = [avro_name(f.name) for f in fields]
    values = [stored_values(f.field_type, c) for f, c in zip(fields, columns, strict=True)]
    if not values:
        return iter([{} for _ in range(count)])
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def stored_values(type_: IcebergType, array: pa.Array) -> list[Any]:
    """A column as Avro stores it: numbers for times, bytes for decimals and uuids, dicts for records and string-keyed maps."""
    match type_:
        case StructType():
            inside = rows(type_.fields, [array.field(i) for i in range(len(type_.fields))], len(array))
            return [row if ok else None for row, ok in zip(inside, array.is_valid().to_pylist(), strict=True)]
        case ListType():
            return _cut(array, stored_values(type_.element_type, array.values), list)
        case MapType():
            keys, items = stored_values(type_.key_type, array.keys), stored_values(type_.value_type, array.items)
            if isinstance(type_.key_type, StringType):
                return _cut(array, list(zip(keys, items, strict=True)), dict)
            return _cut(array, [{"key": k, "value": v} for k, v in zip(keys, items, strict=True)], list)
        case UUIDType():
            return list(uuid_from_text(array).to_pylist())
        case DecimalType(precision=p, scale=s):
            size = decimal_size(p)
            return [None if v is None else unscaled(v, s).to_bytes(size, "big", signed=True) for v in array.to_pylist()]
        case DateType():
            return list(array.view(pa.int32()).to_pylist())
        case VariantType():
            return [None if p is None else {"metadata": p[0], "value": p[1]} for p in json_to_variant(array.to_pylist())]
        case _ if isinstance(type_, _LONGS):
            return list(array.view(pa.int64()).to_pylist())
    return list(array.to_pylist())


def _cut(array: Any, flat: list[Any], kind: Callable[[list[Any]], Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [kind(flat[offsets[i] : offsets[i + 1]]) if ok else None for i, ok in enumerate(array.is_valid().to_pylist())]
