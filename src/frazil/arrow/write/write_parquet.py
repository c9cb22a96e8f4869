"""Write Parquet data files as Java Iceberg does: field ids on every column, minimal decimals,
annotated types, `iceberg.schema`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.arrow.footers import parquet_footer
from frazil.arrow.values.arrow_schema import PARQUET_FIELD_ID, Layout, layout
from frazil.arrow.write.metrics import (
    BatchMetrics,
    Metrics,
    MetricsConfig,
    column_bounds,
    parquet_metrics,
)
from frazil.arrow.write.write_options import LEVELS, check_level
from frazil.codec.json_nouns import schema_to_json
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.properties import (
    PARQUET_BLOOM_FILTER,
    PARQUET_BLOOM_FILTER_FPP,
    PARQUET_BLOOM_FILTER_MAX,
    PARQUET_BLOOM_FILTER_NDV,
    PARQUET_CODEC,
    PARQUET_DICTIONARY,
    PARQUET_DICTIONARY_SIZE,
    PARQUET_LEVEL,
    PARQUET_PAGE_ROWS,
    PARQUET_PAGE_SIZE,
    PARQUET_PAGE_VERSION,
    PARQUET_ROW_GROUP_SIZE,
    PARQUET_SHRED_VARIANTS,
    PARQUET_STATISTICS,
    ColumnProperty,
)
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BooleanType,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StringType,
    UUIDType,
    VariantType,
    children,
)

_SMALLEST_PAGE = 64  # bytes
_BLOOM_FILTER_RATE = 0.01  # rate of false positives, where no property sets another
_ANNOTATED = (VariantType, GeometryType, GeographyType)
"""Types whose annotation in the footer pyarrow cannot write."""
_LIMITS = {
    "data_page_size": PARQUET_PAGE_SIZE, "max_rows_per_page": PARQUET_PAGE_ROWS, "dictionary_pagesize_limit": PARQUET_DICTIONARY_SIZE,
}  # fmt: skip
_CODECS = {
    "uncompressed": "none", "none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "lz4_raw": "lz4",
    "brotli": "brotli",
}  # fmt: skip


def parquet_layout(schema: Schema) -> Layout:
    """Plan the columns of a Parquet file: uuid carries its annotation, every field its id."""
    return layout(schema, _leaf, lambda f: {PARQUET_FIELD_ID: str(f.field_id).encode()})


def _leaf(type_: IcebergType) -> pa.DataType | None:
    return pa.uuid() if isinstance(type_, UUIDType) else None


def _variant_free(f: NestedField) -> bool:
    return not isinstance(f.field_type, VariantType) and all(
        _variant_free(c) for c in children(f.field_type)
    )


class ParquetSettings:
    """Read `write.parquet.*` as arguments of pyarrow's writer. Raises InvalidInput, naming the
    property.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        schema: Schema,
        *,
        codec: str | None = None,
        level: str | None = None,
    ):
        self._properties, self._schema = properties, schema
        name = (codec or PARQUET_CODEC.of(properties)).lower()
        if name not in _CODECS:
            raise Unsupported(
                f"Cannot write Parquet with compression codec {name!r}.",
                hint=f"Known: {', '.join(_CODECS)}.",
            )
        if PARQUET_SHRED_VARIANTS.of(properties) and not all(map(_variant_free, schema.fields)):
            raise Unsupported(
                f"{PARQUET_SHRED_VARIANTS.name} is not supported: variants are written unshredded."
            )
        self.row_group_bytes = PARQUET_ROW_GROUP_SIZE.of(properties)
        self.arguments: dict[str, Any] = {
            "compression": _CODECS[name],
            "data_page_version": {"v1": "1.0", "v2": "2.0"}[PARQUET_PAGE_VERSION.of(properties)],
            "store_schema": False,
            "write_page_checksum": True,  # as Java's writer does
            "dictionary_pagesize_limit": 2 << 20,  # Java's default
            "store_decimal_as_integer": True,
            "version": "2.6",
        }
        for argument, limit in _LIMITS.items():
            if (value := limit.of(properties)) is not None:
                self.arguments[argument] = value
        if self.arguments.get("data_page_size", _SMALLEST_PAGE) < _SMALLEST_PAGE:
            text = f"{PARQUET_PAGE_SIZE.name} must be at least {_SMALLEST_PAGE}: lists in smaller pages could not be read."
            raise InvalidInput(text)
        level = level or PARQUET_LEVEL.of(properties)
        if level is not None and name in LEVELS:
            self.arguments["compression_level"] = check_level(name, level, PARQUET_LEVEL.name)
        self._columns("use_dictionary", PARQUET_DICTIONARY)
        self._columns("write_statistics", PARQUET_STATISTICS)
        if blooms := self._blooms():
            self.arguments["bloom_filter_options"] = blooms

    def arguments_for(self, first: pa.Table) -> dict[str, Any]:
        """Return the arguments of pyarrow's writer for a file that begins with these rows, as the
        file has them.
        """
        without = without_dictionary(first, self.arguments["dictionary_pagesize_limit"])
        if not without:
            return self.arguments
        allowed = self.arguments.get("use_dictionary", [*leaf_paths(self._schema).values()])
        return {
            **self.arguments,
            "use_dictionary": [path for path in allowed if path not in without],
        }

    def _columns(self, argument: str, switch: ColumnProperty[bool]) -> None:
        """Apply a switch that properties set per column; pyarrow takes the columns for which it is
        on.
        """
        off = {column for column, on in switch.of(self._properties).items() if not on}
        if off:
            leaves = leaf_paths(self._schema)
            self.arguments[argument] = [path for name, path in leaves.items() if name not in off]

    def _blooms(self) -> dict[str, Any]:
        leaves, filters = leaf_paths(self._schema), {}
        rates, counts = (
            PARQUET_BLOOM_FILTER_FPP.of(self._properties),
            PARQUET_BLOOM_FILTER_NDV.of(self._properties),
        )
        for column, enabled in PARQUET_BLOOM_FILTER.of(self._properties).items():
            if not enabled or column not in leaves:
                continue
            if isinstance(self._schema.find_field(column).field_type, BooleanType):
                text = f"{PARQUET_BLOOM_FILTER.prefix}{column} cannot be set: Parquet has no bloom filters for booleans."
                raise InvalidInput(text)
            rate = rates.get(column, _BLOOM_FILTER_RATE)
            # A filter takes its whole size in memory. Without a number of values, or with too large
            # a one, the maximum size bounds it, as in Java.
            most = max(
                1,
                int(
                    PARQUET_BLOOM_FILTER_MAX.of(self._properties)
                    * 8
                    * -math.log(1 - rate ** (1 / 8))
                    / 8
                ),
            )
            filters[leaves[column]] = {"fpp": rate, "ndv": min(counts.get(column, most), most)}
        return filters


def leaf_paths(schema: Schema) -> dict[str, str]:
    """Map the full names of leaf columns to their paths in a Parquet file."""
    paths = {}
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
        paths[name] = ".".join(steps)
    return paths


class ParquetFileWriter:
    """Write one Parquet file. Each `write` makes one row group; `close` returns the metrics."""

    def __init__(
        self,
        sink: Any,
        schema: Schema,
        laid: Layout,
        settings: ParquetSettings,
        config: MetricsConfig,
        notes: Mapping[str, str] | None = None,
    ):
        self._schema, self._layout, self._config, self._sink = schema, laid, config, sink
        annotated = any(isinstance(f.field_type, _ANNOTATED) for f in schema.by_id.values())
        self._tail = _Tail(sink) if annotated else None
        self._settings, self._notes = (
            settings,
            {
                "iceberg.schema": msgspec.json.encode(schema_to_json(schema)).decode(),
                **(notes or {}),
            },
        )
        self._collected: list[Any] = []
        self._writer: pq.ParquetWriter | None = None
        self._arguments: dict[str, Any] | None = None
        self._nans = BatchMetrics(schema, config, only_nans=True)

    def _opened(self, first: pa.Table | None) -> pq.ParquetWriter:
        """Return pyarrow's writer, which the first rows open, as they decide about dictionaries;
        None: the file has no rows.
        """
        if self._writer is None:
            target = pa.PythonFile(self._tail, mode="w") if self._tail else self._sink
            arguments = self._arguments or (
                self._settings.arguments if first is None else self._settings.arguments_for(first)
            )
            self._writer = pq.ParquetWriter(
                target, self._layout.schema, metadata_collector=self._collected, **arguments
            )
            self._writer.add_key_value_metadata(self._notes)
        return self._writer

    def decided_by(self, first: Sequence[pa.RecordBatch]) -> dict[str, Any]:
        """Return the arguments of pyarrow's writer for a file that begins with these rows."""
        return self._settings.arguments_for(self._table(first))

    def decide(self, arguments: dict[str, Any]) -> None:
        """Write with these arguments, instead of those that the first rows decide."""
        self._arguments = arguments

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches([self._layout.batch(b) for b in batches], self._layout.schema)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._nans.add(batch)
        table = self._table(batches)
        if table.num_rows:
            self._opened(table).write_table(table, row_group_size=table.num_rows)

    def has(self, size: int) -> bool:
        """Tell whether the file has at least `size` bytes."""
        return (self._tail.position if self._tail else int(self._sink.tell())) >= size

    def abort(self) -> None:
        """Keep pyarrow's writer from writing a footer when it is garbage-collected."""
        if self._writer is not None:
            self._writer.is_open = False

    def finish(self) -> None:
        """Write the footer of the file."""
        writer = self._opened(None)
        if self._tail:
            self._tail.keep()
        writer.close()
        if self._tail:
            self._tail.finish(self._schema)

    def nan_counts(self) -> dict[int, int]:
        """Return the number of NaNs so far, by field id."""
        return self._nans.nan_counts()

    def metrics(self, footer: pq.FileMetaData, nan_counts: Mapping[int, int]) -> Metrics:
        """Collect the metrics of a file of this writer from its footer."""
        return parquet_metrics(footer, self._schema, self._config, nan_counts)

    def close(self) -> Metrics:
        self.finish()
        return self.metrics(self._collected[0], self.nan_counts())


class _Tail(io.RawIOBase):
    """Pass data on to a sink, but hold back the footer to annotate it: pyarrow cannot change a
    schema after the write (docs/adr/0019).
    """

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
        """Hold back what is written from now on."""
        self._kept = bytearray()

    def finish(self, schema: Schema) -> None:
        """Write the rows that were held back, with annotations in the footer."""
        tail = bytes(self._kept or b"")
        length = int.from_bytes(tail[-8:-4], "little")
        footer = parquet_footer.with_annotations(
            parquet_footer.parse(tail[-8 - length : -8]), schema
        ).encode()
        self._sink.write(tail[: -8 - length] + parquet_footer.closing(footer))


def missing_bounds(metrics: Metrics, source: Any, schema: Schema, config: MetricsConfig) -> None:
    """Find the bounds that a footer leaves out because values are long, by reading those columns
    again.
    """
    if not metrics.unknown:
        return
    file = pq.ParquetFile(source, arrow_extensions_enabled=False)
    for column in metrics.unknown:
        type_ = schema.by_id[column.field_id or 0].field_type
        batches = file.reader.iter_batches(
            65_536,
            list(range(file.num_row_groups)),
            column_indices=[column.leaves[0]],
            use_threads=False,
        )
        lower, upper = column_bounds((_only_leaf(b.column(0), type_) for b in batches), type_)
        metrics.set_bounds(column.field_id or 0, type_, lower, upper, config)


def _only_leaf(array: pa.Array, type_: IcebergType) -> pa.Array:
    """Take the only leaf out of the structs around it."""
    while pa.types.is_struct(array.type):
        array = array.flatten()[0]
    return (
        array.cast(pa.string())
        if isinstance(type_, StringType) and not pa.types.is_string(array.type)
        else array
    )


# rows that decide: those of the first page, by which Java's writer decides, too; and more where one
# in 32 of these repeats a value: 100,000 values recur, but hardly within one page
_PAGE_ROWS, DECIDING_ROWS = 20_000, 262_144
_REPEATED = 32


def without_dictionary(rows: pa.Table, limit: int = 1 << 20) -> frozenset[str]:
    """Return the names of top-level columns whose values a dictionary would make larger: in the
    first rows, the distinct values with a number for each row take as many bytes as the values
    themselves, or the dictionary will have more than `limit` bytes (docs/adr/0035, 0054).

    pyarrow keeps a dictionary of values that are all different until it fills a page, so that a
    small file would hold each value and its number. Columns with nested values keep their
    dictionaries.
    """
    first = rows.slice(0, DECIDING_ROWS)
    return frozenset(
        name
        for name, column in zip(first.column_names, first.columns, strict=True)
        if column.type.id not in _NO_DICTIONARY
        and not pa.types.is_nested(column.type)
        and _grows(column, limit)
    )


def _grows(column: pa.ChunkedArray, limit: int) -> bool:
    """Tell whether a dictionary makes the values of a column larger."""
    page = _repetition(column.slice(0, _PAGE_ROWS))
    if page is None or not page.grows:
        return False
    few = _REPEATED * (page.count - page.distinct) < page.count
    if few or len(column) <= _PAGE_ROWS:
        return True
    more = _repetition(column)
    return more is None or more.grows or more.dictionary_bytes > limit


@dataclass(frozen=True)
class _Repetition:
    """Hold how many values some rows have, how many of them differ, and their bytes."""

    count: int
    distinct: int
    plain: int

    @property
    def grows(self) -> bool:
        """Tell whether these rows take more bytes with a dictionary."""
        numbers = self.count * (self.distinct - 1).bit_length() / 8
        return self.distinct == self.count or (
            self.plain * self.distinct / self.count + numbers >= self.plain
        )

    @property
    def dictionary_bytes(self) -> float:
        """Estimate the bytes of all values that differ, those of later rows among them, where rows
        take their values at random.

        Of `all` values, `count` rows then show `all * (1 - exp(-count / all))`.
        """
        shown, low, high = self.distinct / self.count, 0.0, 64.0
        for _ in range(40):
            rows_a_value = (low + high) / 2
            if -math.expm1(-rows_a_value) > shown * rows_a_value:
                low = rows_a_value
            else:
                high = rows_a_value
        return self.plain / high


def _repetition(column: pa.ChunkedArray) -> _Repetition | None:
    """Count the values of a column; None: it has none."""
    count = len(column) - column.null_count
    if count == 0:
        return None
    values = column.combine_chunks()
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    plain = (
        count * width
        if (width := _width(values.type))
        else 4 * count + (pc.sum(pc.binary_length(values)).as_py() or 0)
    )
    return _Repetition(count, pc.count_distinct(values).as_py(), plain)


def _width(type_: pa.DataType) -> int | None:
    """Return the bytes of a value in a Parquet file; None: that differs from value to value."""
    if pa.types.is_decimal(type_):
        return 4 if type_.precision <= 9 else 8 if type_.precision <= 18 else int(type_.byte_width)
    return (
        int(type_.bit_width) // 8
        if pa.types.is_primitive(type_) or pa.types.is_fixed_size_binary(type_)
        else None
    )


_NO_DICTIONARY: Collection[int] = frozenset({pa.bool_().id, pa.null().id})
