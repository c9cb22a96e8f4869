"""Parquet files as Java Iceberg reads them: field ids on every column, minimal decimals, annotated types, `iceberg.schema`."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.footers import parquet_footer
from frazil.arrow.values.arrow_schema import PARQUET_FIELD_ID
from frazil.arrow.values.file_layout import Layout, layout
from frazil.arrow.write.metrics import BatchMetrics, Metrics, column_bounds, parquet_metrics
from frazil.arrow.write.metrics_config import MetricsConfig
from frazil.arrow.write.write_options import LEVELS, check_level
from frazil.codec.json_nouns import schema_to_json
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import BooleanType, IcebergType, NestedField, StringType, UUIDType, VariantType, children

PREFIX = "write.parquet."
_SMALLEST_PAGE = 64  # bytes
_CODECS = {
    "uncompressed": "none", "none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "lz4_raw": "lz4",
    "brotli": "brotli",
}  # fmt: skip


def parquet_layout(schema: Schema) -> Layout:
    """Columns of a Parquet file: uuid carries its annotation, every field its id."""
    return layout(schema, _leaf, lambda f: {PARQUET_FIELD_ID: str(f.field_id).encode()})


def _leaf(type_: IcebergType) -> pa.DataType | None:
    return pa.uuid() if isinstance(type_, UUIDType) else None


def _variant_free(f: NestedField) -> bool:
    return not isinstance(f.field_type, VariantType) and all(_variant_free(c) for c in children(f.field_type))


class ParquetSettings:
    """What `write.parquet.*` says, as arguments of pyarrow's writer. Raises InvalidInput, naming the property."""

    def __init__(self, properties: Mapping[str, str], schema: Schema, *, codec: str | None = None, level: str | None = None):
        self._properties, self._schema = properties, schema
        name = (codec or properties.get(PREFIX + "compression-codec", "zstd")).lower()
        if name not in _CODECS:
            raise Unsupported(f"Parquet has no compression-codec {name!r} here.", hint=f"Known: {', '.join(_CODECS)}.")
        if self._flag("shred-variants", False) and not all(map(_variant_free, schema.fields)):
            raise Unsupported("write.parquet.shred-variants is not supported: variants are written unshredded.")
        self.row_group_bytes = self._number("row-group-size-bytes", 134_217_728)
        self.arguments: dict[str, Any] = {
            "compression": _CODECS[name],
            "data_page_version": {"v1": "1.0", "v2": "2.0"}[self._choice("page-version", ("v1", "v2"), "v1")],
            "store_schema": False,
            "write_page_checksum": True,  # as Java's writer
            "store_decimal_as_integer": True,
            "version": "2.6",
        }
        self._optional("data_page_size", "page-size-bytes")
        if self.arguments.get("data_page_size", _SMALLEST_PAGE) < _SMALLEST_PAGE:
            raise InvalidInput(f"{PREFIX}page-size-bytes must be at least {_SMALLEST_PAGE}: lists in smaller pages cannot be read back.")
        self._optional("max_rows_per_page", "page-row-limit")
        self._optional("dictionary_pagesize_limit", "dict-size-bytes")
        level = level or properties.get(PREFIX + "compression-level")
        if level is not None and name in LEVELS:
            self.arguments["compression_level"] = check_level(name, level, PREFIX + "compression-level")
        self._columns("use_dictionary", "dict-encoding-enabled.column.", True)
        self._columns("write_statistics", "stats-enabled.column.", True)
        if blooms := self._blooms():
            self.arguments["bloom_filter_options"] = blooms

    def _number(self, key: str, default: int) -> int:
        found = self._int(self._properties.get(PREFIX + key, str(default)), key)
        if found <= 0:
            raise InvalidInput(f"{PREFIX}{key} must be above 0, not {found}.")
        return found

    def _int(self, text: str, key: str) -> int:
        try:
            return int(text)
        except ValueError as e:
            raise InvalidInput(f"{PREFIX}{key} must be a whole number, not {text!r}.") from e

    def _choice(self, key: str, known: Sequence[str], default: str) -> str:
        found = self._properties.get(PREFIX + key, default).lower()
        if found not in known:
            raise InvalidInput(f"{PREFIX}{key} is one of {', '.join(known)}, not {found!r}.")
        return found

    def _flag(self, key: str, default: bool) -> bool:
        return self._choice(key, ("true", "false"), str(default).lower()) == "true"

    def _optional(self, argument: str, key: str) -> None:
        if PREFIX + key in self._properties:
            self.arguments[argument] = self._number(key, 1)

    def _columns(self, argument: str, prefix: str, default: bool) -> None:
        """A per-column switch: pyarrow takes the columns for which it is on."""
        given = {
            k[len(PREFIX + prefix) :]: self._flag(k[len(PREFIX) :], default) for k in self._properties if k.startswith(PREFIX + prefix)
        }
        off = {c for c, on in given.items() if not on}
        if off:
            leaves = leaf_paths(self._schema)
            self.arguments[argument] = [path for name, path in leaves.items() if name not in off]

    def _blooms(self) -> dict[str, Any]:
        prefix, leaves, found = "bloom-filter-enabled.column.", leaf_paths(self._schema), {}
        for key in self._properties:
            column = key.removeprefix(PREFIX + prefix)
            if column == key or not self._flag(key[len(PREFIX) :], False) or column not in leaves:
                continue
            options: dict[str, Any] = {}
            if isinstance(self._schema.find_field(column).field_type, BooleanType):
                raise InvalidInput(f"{key} is not possible: Parquet has no bloom filters for booleans.")
            options["fpp"] = fpp = _fraction(self._properties.get(f"{PREFIX}bloom-filter-fpp.column.{column}", "0.01"), column)
            # Each filter of an open file takes its whole size: without a number of values, and for more, the size is the bound, as in Java.
            most = max(1, int(self._number("bloom-filter-max-bytes", 1 << 20) * 8 * -math.log(1 - fpp ** (1 / 8)) / 8))
            options["ndv"] = min(self._number(f"bloom-filter-ndv.column.{column}", most), most)
            found[leaves[column]] = options
        return found


def _fraction(text: str, column: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1:
        raise InvalidInput(f"{PREFIX}bloom-filter-fpp.column.{column} is between 0 and 1, not {text!r}.")
    return found


def leaf_paths(schema: Schema) -> dict[str, str]:
    """Full names of leaf columns and their paths in a Parquet file."""
    found = {}
    for field_id, f in schema.by_id.items():
        if children(f.field_type):
            continue
        steps: list[str] = []
        around = (*schema.parents[field_id], field_id)
        for parent, child in zip((None, *around), around, strict=False):
            outer = type(schema.by_id[parent].field_type).__name__ if parent is not None else ""
            steps += {"ListType": ["list"], "MapType": ["key_value"]}.get(outer, [])
            steps.append(schema.by_id[child].name)
        name = schema.find_column_name(field_id)
        assert name is not None
        found[name] = ".".join(steps)
    return found


class ParquetFileWriter:
    """One file. `write` makes a row group of what it is given; `close` gives the metrics."""

    def __init__(
        self, sink: Any, schema: Schema, laid: Layout, settings: ParquetSettings, config: MetricsConfig,
        notes: Mapping[str, str] | None = None,
    ):  # fmt: skip
        self._schema, self._layout, self._config, self._sink = schema, laid, config, sink
        self._tail = _Tail(sink) if parquet_footer.needs_annotations(schema) else None
        self._collected: list[Any] = []
        target = pa.PythonFile(self._tail, mode="w") if self._tail else sink
        self._writer = pq.ParquetWriter(target, laid.schema, metadata_collector=self._collected, **settings.arguments)
        self._writer.add_key_value_metadata({"iceberg.schema": msgspec.json.encode(schema_to_json(schema)).decode(), **(notes or {})})
        self._nans = BatchMetrics(schema, config, only_nans=True)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._nans.add(batch)
        table = pa.Table.from_batches([self._layout.batch(b) for b in batches], self._layout.schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)

    def has(self, size: int) -> bool:
        """Whether the file has so many bytes."""
        return (self._tail.position if self._tail else int(self._sink.tell())) >= size

    def abort(self) -> None:
        """The writer must not write a footer when it is forgotten."""
        self._writer.is_open = False

    def finish(self) -> None:
        """Writes the end of the file."""
        if self._tail:
            self._tail.keep()
        self._writer.close()
        if self._tail:
            self._tail.finish(self._schema)

    def nan_counts(self) -> dict[int, int]:
        """Of the rows so far, by field id."""
        return self._nans.nan_counts()

    def metrics(self, footer: Any, nan_counts: Mapping[int, int]) -> Metrics:
        """What a footer says of the columns of such a file."""
        return parquet_metrics(footer, self._schema, self._config, nan_counts)

    def close(self) -> Metrics:
        self.finish()
        return self.metrics(self._collected[0], self.nan_counts())


class _Tail(io.RawIOBase):
    """A sink that can hold back what is written last, the footer, to change it."""

    def __init__(self, sink: Any):
        self._sink, self.position = sink, 0
        self._kept: bytearray | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.position += size
        if self._kept is None:
            self._sink.write(data)
        else:
            self._kept += data
        return size

    def tell(self) -> int:
        return self.position

    def keep(self) -> None:
        self._kept = bytearray()

    def finish(self, schema: Schema) -> None:
        kept = bytes(self._kept or b"")
        length = int.from_bytes(kept[-8:-4], "little")
        footer = parquet_footer.with_annotations(parquet_footer.parse(kept[-8 - length : -8]), schema).encode()
        self._sink.write(kept[: -8 - length] + parquet_footer.closing(footer))


def missing_bounds(metrics: Metrics, source: Any, schema: Schema, config: MetricsConfig) -> None:
    """Bounds that a footer leaves out because the values are long: found by reading those columns again."""
    if not metrics.unknown:
        return
    file = pq.ParquetFile(source, arrow_extensions_enabled=False)
    for column in metrics.unknown:
        type_ = schema.by_id[column.field_id or 0].field_type
        batches = file.reader.iter_batches(65_536, list(range(file.num_row_groups)), column_indices=[column.leaves[0]], use_threads=False)
        lower, upper = column_bounds((_only_leaf(b.column(0), type_) for b in batches), type_)
        metrics.set_bounds(column.field_id or 0, type_, lower, upper, config)


def _only_leaf(array: pa.Array, type_: IcebergType) -> pa.Array:
    """The one leaf inside structs that hold nothing else."""
    while pa.types.is_struct(array.type):
        array = array.flatten()[0]
    return array.cast(pa.string()) if isinstance(type_, StringType) and not pa.types.is_string(array.type) else array
