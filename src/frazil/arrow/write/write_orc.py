"""Write ORC data files with Iceberg's attributes (spec, "ORC"): field ids, required columns, and
what an ORC type leaves open.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from frazil.arrow.values.arrow_schema import Layout, layout
from frazil.arrow.write.conform import without_hidden
from frazil.arrow.write.metrics import BatchMetrics, Metrics, MetricsConfig
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.properties import (
    ORC_BLOOM_FILTER_COLUMNS,
    ORC_BLOOM_FILTER_FPP,
    ORC_CODEC,
    ORC_STRATEGY,
    ORC_STRIPE_SIZE,
)
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

_CODECS = ("none", "uncompressed", "zlib", "snappy", "lz4", "zstd")


def orc_layout(schema: Schema) -> Layout:
    """Plan the columns of an ORC file. Raises Unsupported for variants, which Java Iceberg cannot
    read from ORC.
    """
    if variants := [i for i, f in schema.by_id.items() if isinstance(f.field_type, VariantType)]:
        raise Unsupported(
            f"Column {schema.find_column_name(variants[0])} is a variant, which ORC files cannot hold.",
            hint="Write Parquet or Avro.",
        )
    return layout(schema, _leaf, _attributes)


def _leaf(type_: IcebergType) -> pa.DataType | None:
    if isinstance(type_, UUIDType | FixedType):
        return pa.binary()
    # timestamps outside the range of nanoseconds are refused here, since pyarrow's ORC reader could
    # not read them
    match type_:
        case TimestampType():
            return pa.timestamp("ns")
        case TimestamptzType():
            return pa.timestamp("ns", "UTC")
    return pa.int64() if isinstance(type_, TimeType) else None


def _attributes(field: NestedField) -> dict[bytes, bytes]:
    attributes = {
        b"iceberg.id": str(field.field_id).encode(),
        b"iceberg.required": b"true" if field.required else b"false",
    }
    match field.field_type:
        case LongType():
            attributes[b"iceberg.long-type"] = b"LONG"
        case TimeType():
            attributes[b"iceberg.long-type"] = b"TIME"
        case TimestampType() | TimestamptzType():
            attributes[b"iceberg.timestamp-unit"] = b"MICROS"
        case TimestampNanoType() | TimestamptzNanoType():
            attributes[b"iceberg.timestamp-unit"] = b"NANOS"
        case UUIDType():
            attributes[b"iceberg.binary-type"] = b"UUID"
        case FixedType(length=n):
            attributes |= {b"iceberg.binary-type": b"FIXED", b"iceberg.length": str(n).encode()}
        case BinaryType():
            attributes[b"iceberg.binary-type"] = b"BINARY"
    return attributes


def orc_settings(
    properties: Mapping[str, str],
    *,
    codec: str | None = None,
    strategy: str | None = None,
    schema: pa.Schema | None = None,
) -> dict[str, Any]:
    """Read `write.orc.*` as arguments of pyarrow's writer.

    `schema`: of the files, whose columns may get bloom filters; None: no column may. Raises
    InvalidInput for bloom filters of columns that the table does not have.
    """
    name = (codec or ORC_CODEC.of(properties)).lower()
    if name not in _CODECS:
        raise Unsupported(
            f"Cannot write ORC with compression codec {name!r}.",
            hint=f"Known: {', '.join(_CODECS)}.",
        )
    settings: dict[str, Any] = {
        "compression": "uncompressed" if name == "none" else name,
        "compression_strategy": strategy.lower() if strategy else ORC_STRATEGY.of(properties),
    }
    settings["stripe_size"] = ORC_STRIPE_SIZE.of(properties)
    settings["bloom_filter_fpp"] = ORC_BLOOM_FILTER_FPP.of(properties)
    if schema is not None and (text := ORC_BLOOM_FILTER_COLUMNS.of(properties)):
        columns, names = orc_columns(schema), [c.strip() for c in text.split(",") if c.strip()]
        if unknown := [n for n in names if n not in columns]:
            text = f"{ORC_BLOOM_FILTER_COLUMNS.name} names columns that the table does not have: {', '.join(unknown)}."
            raise InvalidInput(text, column=unknown[0])
        settings["bloom_filter_columns"] = [columns[n] for n in names]
    return settings


def orc_columns(schema: pa.Schema) -> dict[str, int]:
    """Map the full names of columns to ORC's column ids, which count types from the root, each
    before those inside it.
    """
    column_ids: dict[str, int] = {}

    def number(name: str, type_: pa.DataType) -> None:
        column_ids[name] = len(column_ids) + 1
        if pa.types.is_map(type_):
            number(f"{name}.key", type_.key_type)
            number(f"{name}.value", type_.item_type)
        elif pa.types.is_list(type_):
            number(f"{name}.element", type_.value_type)
        elif pa.types.is_struct(type_):
            for f in type_:
                number(f"{name}.{f.name}", f.type)

    for f in schema:
        number(f.name, f.type)
    return column_ids


def check_moments(type_: IcebergType, array: pa.Array, name: str) -> None:
    """Check that no time before 1970 has a fraction of a second: pyarrow rounds those towards zero,
    and Java reads another second.

    Raises InvalidInput.
    """
    match type_:
        case StructType():
            for f, inside in zip(
                type_.fields, array.flatten() if type_.fields else (), strict=True
            ):
                check_moments(f.field_type, inside, f"{name}.{f.name}")
        case ListType():
            check_moments(type_.element_type, array.flatten(), name)
        case MapType():
            check_moments(type_.key_type, array.keys, name)
            check_moments(type_.value_type, array.items, name)
    if not pa.types.is_timestamp(array.type) or len(array) == array.null_count:
        return
    numbers = array.view(pa.int64())
    early = numbers.filter(pc.less(numbers, 0))
    per_second = 1_000_000 if array.type.unit == "us" else 1_000_000_000
    if pc.any(pc.not_equal(pc.multiply(pc.divide(early, per_second), per_second), early)).as_py():
        raise InvalidInput(
            f"Column {name} holds a time before 1970 with a fraction of a second, which ORC files would not preserve.",
            hint="Write Parquet or Avro.",
            column=name,
        )


class OrcFileWriter:
    """Write one ORC data file."""

    def __init__(
        self,
        sink: Any,
        schema: Schema,
        laid: Layout,
        settings: Mapping[str, Any],
        config: MetricsConfig,
    ):
        self._schema, self._layout, self._sink = schema, laid, _GuardedSink(sink)
        self._writer = orc.ORCWriter(self._sink, **settings)
        self._metrics = BatchMetrics(schema, config)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._metrics.add(batch)
            for f, column in zip(self._schema.fields, batch.columns, strict=True):
                check_moments(f.field_type, column, f.name)
        laid = [self._layout.batch(b) for b in batches]
        cleaned = [
            pa.RecordBatch.from_arrays([without_hidden(c) for c in b.columns], schema=b.schema)
            for b in laid
        ]
        self._writer.write(pa.Table.from_batches(cleaned, self._layout.schema))
        self._sink.check()

    def has(self, size: int) -> bool:
        """Tell whether the file has at least `size` bytes."""
        return self._sink.tell() >= size

    def abort(self) -> None:
        """Keep pyarrow's writer from writing a footer when it is garbage-collected."""
        self._writer.is_open = False

    def close(self) -> Metrics:
        self._writer.close()
        self._sink.check()
        return self._metrics.finish()


class _GuardedSink(io.RawIOBase):
    """Keep the errors of a sink until `check` raises them: pyarrow's ORC writer ends the process
    when its sink fails while it is closed.
    """

    def __init__(self, sink: Any):
        self._to, self._position = sink, 0
        self._error: Exception | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._error is None:
            try:
                self._to.write(data)
            except Exception as error:
                self._error = error
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def check(self) -> None:
        """Raise the first error of the sink, if there was one."""
        if self._error is not None:
            raise self._error
