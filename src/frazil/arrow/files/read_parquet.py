"""Read Parquet data files: prune row groups by their statistics, choose leaf columns by field id,
stream batches. The statistics of column chunks become internal values of a table's types.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.files.project import (
    ColumnsPlan,
    FileField,
    FileSchema,
    file_schema,
    schema_by_position,
)
from frazil.arrow.files.source import Piece, RawBatch
from frazil.arrow.values.arrow_schema import plain_type
from frazil.errors import CorruptData
from frazil.expr.bound import Bound
from frazil.expr.pruning.prune import TRUE, outcomes
from frazil.expr.pruning.ranges import UNKNOWN, Range, constant, from_statistics
from frazil.expr.values import arrow_type
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from frazil.storage.base import Storage
from frazil.storage.local import regular_path

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_BATCHES_AT_ONCE, _BYTES_AT_ONCE = 8, 16 << 20


def open_parquet(
    location: str, storage: Storage, metadata: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Open a Parquet file and read its footer (unless `metadata` is given). Remote files are read
    with coalesced requests.
    """
    path = storage.local_path(location)
    source = regular_path(path) if path is not None else storage.open_input(location)
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=path is None,
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=False,
        page_checksum_verification=True,
    )


def row_groups(metadata: pq.FileMetaData, start: int, length: int | None) -> list[Piece]:
    """List the row groups whose first byte lies in [start, start + length), so that each is read by
    one task; length None: all.
    """
    pieces, first = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if length is None or start <= first_byte(group) < start + length:
            pieces.append(Piece(number, first, group.num_rows))
        first += group.num_rows
    if first != metadata.num_rows:
        raise CorruptData(
            f"The footer says {metadata.num_rows} rows, but its row groups have {first}."
        )
    return pieces


def first_byte(group: pq.RowGroupMetaData) -> int:
    """Find the offset at which a row group begins in its file."""
    if group.num_columns == 0:
        return 4
    chunk = group.column(0)
    offset = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(min(x for x in (offset, chunk.data_page_offset) if x))


def prune(
    pieces: Sequence[Piece],
    metadata: pq.FileMetaData,
    fields: Sequence[FileField],
    bound: Bound,
    schema: Schema,
    constants: Mapping[int, Any],
) -> list[Piece]:
    """Keep the row groups that may hold rows for which the filter is true; `all_match` is set where
    it is true for all of them.
    """
    if not pieces:
        return []
    groups = [metadata.row_group(p.number) for p in pieces]

    def ranges(field_id: int) -> Sequence[Range]:
        return (_range(field_id, groups, fields, schema, constants),)

    group_outcomes = outcomes(bound, ranges, len(pieces))
    return [
        Piece(p.number, p.first_row, p.rows, bool(o == TRUE))
        for p, o in zip(pieces, group_outcomes, strict=True)
        if o & TRUE
    ]


def _range(
    field_id: int,
    groups: Sequence[Any],
    fields: Sequence[FileField],
    schema: Schema,
    constants: Mapping[int, Any],
) -> Range:
    want = schema.by_id.get(field_id)
    if want is None or isinstance(
        want.field_type, VariantType | GeometryType | GeographyType | UnknownType
    ):
        return UNKNOWN
    have = _find(fields, field_id)
    if field_id in constants or (have is None and not schema.parents.get(field_id)):
        return constant(constants.get(field_id, want.initial_default), want.field_type)
    if have is None or have.children or have.leaves[1] != have.leaves[0] + 1:
        return UNKNOWN
    chunks = [
        chunk_statistics(g.column(have.leaves[0]), have.type, want.field_type) for g in groups
    ]
    return range_of_chunks(chunks, want.field_type)


def range_of_chunks(chunks: Sequence[ChunkStatistics | None], type_: IcebergType) -> Range:
    """Collect statistics of column chunks as a range, one row per chunk. Parquet's statistics leave
    NaN out, so its count is unknown.
    """
    held = arrow_type(type_)
    return from_statistics(
        type_,
        pa.array([c.lower if c else None for c in chunks], held),
        pa.array([c.upper if c else None for c in chunks], held),
        pa.array([c.values if c else None for c in chunks], pa.int64()),
        pa.array([c.nulls if c else None for c in chunks], pa.int64()),
    )


def _find(fields: Sequence[FileField], field_id: int) -> FileField | None:
    """Find a field by id, at any depth of structs, but not inside lists and maps, whose statistics
    are not those of rows.
    """
    for f in fields:
        if f.field_id == field_id:
            return f
        if pa.types.is_struct(f.type) and (inside := _find(f.children, field_id)):
            return inside
    return None


@dataclass(frozen=True)
class ParquetSource:
    """Read a Parquet data file, whose pieces are its row groups."""

    file: pq.ParquetFile

    @classmethod
    def open(cls, file: DataFile, storage: Storage) -> ParquetSource:
        return cls(open_parquet(file.file_path, storage))

    @property
    def prunes_leaves(self) -> bool:
        return True

    def file_schema(self, mapping: NameMapping | None, columns: Schema) -> FileSchema:
        arrow = self.file.schema_arrow
        return file_schema(arrow, mapping) or schema_by_position(arrow)

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        return row_groups(self.file.metadata, start, length)

    def prune(
        self,
        pieces: Sequence[Piece],
        fields: Sequence[FileField],
        bound: Bound,
        schema: Schema,
        constants: Mapping[int, Any],
    ) -> list[Piece]:
        return prune(pieces, self.file.metadata, fields, bound, schema, constants)

    def read(
        self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool
    ) -> Iterator[RawBatch]:
        if not plan.leaves:
            for start in range(0, piece.rows, batch_size):
                yield (), min(batch_size, piece.rows - start), piece.first_row + start
            return
        done, rows = 0, _rows_at_once(self.file.metadata.schema, plan.leaves, batch_size)
        for together in self.file.reader.iter_batches(
            rows, [piece.number], column_indices=list(plan.leaves), use_threads=threads
        ):
            for start in range(0, together.num_rows, batch_size):
                batch = together.slice(start, batch_size)
                yield (
                    [_plain(c) for c in batch.columns],
                    batch.num_rows,
                    piece.first_row + done,
                )
                done += batch.num_rows
        if done != piece.rows:
            raise CorruptData(
                f"Row group {piece.number} holds {done} rows, but the footer says {piece.rows}."
            )

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        group = self.file.metadata.row_group(piece.number)
        return sum(group.column(i).total_compressed_size for i in plan.leaves)


def _rows_at_once(schema: pq.ParquetSchema, leaves: Sequence[int], batch_size: int) -> int:
    """Return how many rows pyarrow decodes together: of columns of fixed width those of up to eight
    batches, within 16 MB.

    A row group that is decoded as a whole takes a fifth less processor time than one that is
    decoded in pieces. What a row of other columns takes is known only when it has been decoded.
    """
    columns = [schema.column(leaf) for leaf in leaves]
    if any(c.max_repetition_level or c.physical_type not in _WIDTHS for c in columns):
        return batch_size
    width = sum(_WIDTHS[c.physical_type] for c in columns)
    return max(batch_size, min(_BATCHES_AT_ONCE * batch_size, _BYTES_AT_ONCE // width))


def _plain(values: pa.Array) -> pa.Array:
    """Convert views and extension types to the types that hold their values: pyarrow restores what
    a file was written from, but can neither filter nor take from views.
    """
    held = values.type
    plain = plain_type(held)
    return values if plain is held else values.cast(plain)


_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True)
class ChunkStatistics:
    """Hold statistics of a column chunk: the number of values, nulls included, that of nulls, and
    bounds as internal values of the table's type; None: unknown."""

    values: int
    nulls: int | None
    lower: Any = None
    upper: Any = None


def chunk_statistics(
    chunk: pq.ColumnChunkMetaData, have: pa.DataType, want: IcebergType
) -> ChunkStatistics | None:
    """Decode the statistics of a column chunk; None when it has none. `have` is the file's type of
    the column, `want` the table's.
    """
    if not chunk.is_stats_set or (stats := chunk.statistics) is None:
        return None
    nulls = stats.null_count if stats.has_null_count else None
    if not stats.has_min_max:
        return ChunkStatistics(chunk.num_values, nulls)
    lower, upper = decoded(stats.min_raw, have, want), decoded(stats.max_raw, have, want)
    if isinstance(want, FloatType | DoubleType):
        # a zero bound may stand for either zero (Parquet, "Statistics")
        if lower is None or upper is None or lower != lower or upper != upper:
            return ChunkStatistics(chunk.num_values, nulls)
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if lower is not None and upper is not None and lower > upper:
        # written by a faulty writer: neither bound can be trusted
        return ChunkStatistics(chunk.num_values, nulls)
    return ChunkStatistics(chunk.num_values, nulls, lower, upper)


def decoded(raw: object, have: pa.DataType, want: IcebergType) -> Any:
    """Convert a physical value to an internal value of the table's type; None when the types do not
    tell how.
    """
    match want:
        case BooleanType():
            return raw if isinstance(raw, bool) else None
        case IntegerType() | LongType():
            return raw if isinstance(raw, int) and pa.types.is_signed_integer(have) else None
        case FloatType() | DoubleType():
            return float(raw) if isinstance(raw, float) else None
        case DateType():
            return raw if pa.types.is_date32(have) and isinstance(raw, int) else None
        case TimeType():
            if not isinstance(raw, int) or not pa.types.is_time(have):
                return None
            return raw * (1_000_000 // _PER_SECOND[have.unit]) if have.unit != "ns" else None
        case DecimalType(scale=s):
            return _decimal(raw, have, s)
        case StringType():
            return _text(raw)
        case UUIDType():
            return raw if isinstance(raw, bytes) and len(raw) == 16 else None
        case FixedType(length=n):
            return raw if isinstance(raw, bytes) and len(raw) == n else None
        case BinaryType():
            return raw if isinstance(raw, bytes) else None
    return _moment(raw, have, want) if isinstance(want, _TIMESTAMPS) else None


def _decimal(raw: object, have: pa.DataType, scale: int) -> decimal.Decimal | None:
    if not pa.types.is_decimal(have) or have.scale != scale:
        return None
    number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    return (
        decimal.Decimal(number).scaleb(-scale, decimal.Context(prec=60))
        if isinstance(number, int)
        else None
    )


def _text(raw: object) -> str | None:
    try:
        return raw.decode() if isinstance(raw, bytes) else None
    except UnicodeDecodeError:
        return None


def _moment(raw: object, have: pa.DataType, want: IcebergType) -> int | None:
    unit = "ns" if isinstance(want, TimestampNanoType | TimestamptzNanoType) else "us"
    if not isinstance(raw, int):
        return None
    if pa.types.is_date32(have):
        return raw * _DAY[unit]
    if not pa.types.is_timestamp(have):
        return None
    return raw * _PER_SECOND[unit] // _PER_SECOND[have.unit]
