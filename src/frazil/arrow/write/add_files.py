"""Make manifest entries for existing Parquet files: metrics from their footers, partition values
from metrics or Hive-style paths.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.arrow.files.project import FileField, FileSchema, file_schema, plan_columns
from frazil.arrow.files.read_parquet import open_parquet
from frazil.arrow.files.source import reading
from frazil.arrow.footers.parquet_footer import file_name
from frazil.arrow.footers.spark_calendar import check_calendar
from frazil.arrow.write.metrics import FULL, MetricsConfig, footer_metrics, metrics_config
from frazil.codec.single_value import from_bytes
from frazil.errors import CorruptData, InvalidInput, SchemaMismatch, Unsupported
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.name_mapping import MappedField, NameMapping, mapping_of, parse_name_mapping
from frazil.spec.partitioning import PartitionField
from frazil.spec.properties import NAME_MAPPING
from frazil.spec.schema import Schema
from frazil.spec.transform_values import apply
from frazil.spec.transforms import IdentityTransform, VoidTransform
from frazil.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    VariantType,
    children,
)
from frazil.spec.values import internal_value
from frazil.storage.base import Storage
from frazil.tasks.in_order import map_in_order

OnFile = Callable[[], object]
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def data_files_of(
    paths: Iterable[str],
    metadata: TableMetadata,
    storage: Storage,
    workers: int | None = None,
    on_file: OnFile = lambda: None,
) -> list[DataFile]:
    """Make entries for Parquet files, in the order given; nothing is written. `workers`: threads
    that read footers, None: one per core. `on_file`: called as each footer was read.

    Files without field ids are read by the table's name mapping, or by the names of its columns
    where it has none yet (the caller stores that mapping: `spec.name_mapping.mapping_of(schema)`).
    Raises SchemaMismatch, InvalidInput, Unsupported (ORC, Avro, dates in Spark's legacy calendar),
    CorruptData, NoSuchFileError, naming the file.
    """
    config = metrics_config(metadata.properties, metadata.schema(), metadata.sort_order())
    columns, mapping = _known(metadata), _mapping(metadata)
    files: list[DataFile] = []
    for file in map_in_order(
        lambda p: _data_file(p, metadata, columns, mapping, config, storage), list(paths), workers
    ):
        files.append(file)
        on_file()
    return files


def refuse_unreadable(files: Iterable[DataFile], metadata: TableMetadata, storage: Storage) -> bool:
    """Check the Parquet files of entries that a caller made as `data_files_of` checks files: by
    their footers. Returns whether any file has no field ids, so that it is read by the table's name
    mapping, which the caller stores. Raises as `data_files_of`."""
    mapping = _mapping(metadata)

    def by_name(entry: DataFile) -> bool:
        path = entry.file_path
        with reading(path, "parquet"):
            file = open_parquet(path, storage)
            columns = file_schema(file.schema_arrow, mapping)
            assert columns is not None  # `file_schema` always answers when it is given a mapping
            check_calendar(path, file)
        _check_columns(
            path,
            metadata,
            columns,
            {f.source_id for f in metadata.spec_by_id(entry.spec_id).fields if _is_identity(f)},
        )
        _refuse_other_names(path, columns, metadata.schema().fields)
        _refuse_more(path, columns, metadata.schema(), _known(metadata), mapping)
        return columns.by_name

    return any(
        list(map_in_order(by_name, [f for f in files if f.file_format.lower() == "parquet"]))
    )


def _mapping(metadata: TableMetadata) -> NameMapping:
    text = NAME_MAPPING.text(metadata.properties)
    return parse_name_mapping(text) if text else mapping_of(metadata.schema())


def _known(metadata: TableMetadata) -> dict[int, NestedField]:
    return {i: f for s in metadata.schemas for i, f in s.by_id.items()}


def _data_file(
    path: str,
    metadata: TableMetadata,
    known: Mapping[int, NestedField],
    mapping: NameMapping,
    config: MetricsConfig,
    storage: Storage,
) -> DataFile:
    schema, spec = metadata.schema(), metadata.spec()
    if path.lower().endswith((".orc", ".avro")):
        raise Unsupported(f"Cannot add {path}: only Parquet files can be added.", file=path)
    size = storage.size(path)
    with reading(path, "parquet"):
        file = open_parquet(path, storage)
        columns = file_schema(file.schema_arrow, mapping)
        assert columns is not None  # `file_schema` always answers when it is given a mapping
        check_calendar(path, file)
        footer = file.metadata
        metrics = footer_metrics(footer, schema, config, mapping=mapping)
        sources = {f.source_id for f in spec.fields} | {
            f.field_id for f in schema.fields if f.required
        }
        exact = (
            footer_metrics(
                footer,
                schema,
                MetricsConfig(dict.fromkeys(sources, FULL), config.default),
                mapping=mapping,
            )
            if sources
            else metrics
        )
        partition = tuple(
            _partition_value(path, f, schema, columns, exact, file) for f in spec.fields
        )
    _check_columns(
        path,
        metadata,
        columns,
        {f.source_id for f, v in zip(spec.fields, partition, strict=True) if _is_identity(f)},
    )
    _refuse_other_names(path, columns, schema.fields)
    _refuse_more(path, columns, schema, known, mapping)
    _refuse_nulls(path, schema, exact)
    return DataFile(
        file_path=path,
        file_format="parquet",
        partition=partition,
        file_size_in_bytes=size,
        spec_id=spec.spec_id,
        **metrics,
    )


def _refuse_nulls(path: str, schema: Schema, metrics: Mapping[str, Any]) -> None:
    """Refuse a file with nulls in a required column, as far as its footer counts them."""
    for column in schema.fields:
        if column.required and (nulls := _count(metrics, "null_value_counts", column)):
            text = (
                f"{path} holds {nulls:,} nulls in column {column.name}, which the table requires."
            )
            hint = "update.make_column_optional(…) in a block of table.update_schema() allows them."
            raise SchemaMismatch(text, hint=hint, file=path, columns=(column.name,))


def _refuse_other_names(path: str, columns: FileSchema, fields: Sequence[NestedField]) -> None:
    """Refuse a file without field ids in which a name that two columns have borne stands for the
    older one, or two names for one column: its values would be read where nobody expects them, or
    not at all."""
    if columns.by_name and (wrong := next(_other_names(columns.fields, fields, ""), None)):
        name, reason = wrong
        hint = "Read the file as Parquet and append its rows, or say in schema.name-mapping.default which column the name means."
        raise SchemaMismatch(
            f"{path} has no field ids, and {reason}.", hint=hint, file=path, columns=(name,)
        )


def _other_names(
    columns: Sequence[FileField], fields: Sequence[NestedField], above: str
) -> Iterator[tuple[str, str]]:
    """Yield (name, why it is not clear which column it means)."""
    current, first_names = {f.name: f for f in fields}, dict[int, str]()
    by_id = {f.field_id: f for f in fields}
    for column in columns:
        path, bearer = above + column.name, current.get(column.name)
        if (
            column.field_id is not None
            and (first := first_names.setdefault(column.field_id, column.name)) != column.name
        ):
            yield path, f"both {above + first} and {path} are names of one column of the table"
        elif (
            bearer is not None
            and column.field_id is not None
            and column.field_id != bearer.field_id
        ):
            owner = by_id.get(column.field_id)
            now = f"which is {above + owner.name} now" if owner is not None else "which was dropped"
            yield (
                path,
                f"in such files the name {path} means the older column, {now}, not the column that bears it",
            )
        elif (meant := by_id.get(column.field_id or -1)) is not None:
            yield from _other_names(column.children, children(meant.field_type), f"{path}.")


def _refuse_more(
    path: str,
    columns: FileSchema,
    schema: Schema,
    known: Mapping[int, NestedField],
    mapping: NameMapping,
) -> None:
    """Refuse a file with columns that the table does not have and never had, since nobody would see
    their values.
    """
    if more := list(_unknown(columns.fields, known, "", mapping.fields)):
        text = f"{path} has columns that the table does not have: {', '.join(more[:20])}."
        by_lower = {n.lower(): n for n in schema.column_names}
        hint = "The field ids in the file are those of another table: read the file as Parquet and append its rows."
        if columns.by_name and (meant := by_lower.get(more[0].lower())):
            hint = f"Names are matched with their case: the table's column is {meant!r}. Read the file as Parquet and append its rows."
        elif columns.by_name:
            hint = "Add the columns first, with update.add_column(…) in a block of table.update_schema()."
        raise SchemaMismatch(text, hint=hint, file=path, columns=tuple(more))


def _unknown(
    fields: Sequence[FileField],
    known: Mapping[int, NestedField],
    above: str,
    mapped: Sequence[MappedField],
) -> Iterator[str]:
    for column in fields:
        entry = next((m for m in mapped if column.name in m.names), None)
        if column.field_id is None and entry is not None:
            # the table's name mapping has the name without an id, so that the column is not read
            continue
        if column.field_id is None or column.field_id not in known:
            yield above + column.name
        elif isinstance(known[column.field_id].field_type, VariantType):
            continue  # metadata, value and the like are parts of one value, not columns
        elif pa.types.is_struct(column.type):
            yield from _unknown(
                column.children, known, f"{above}{column.name}.", (entry and entry.fields) or ()
            )
        else:
            # elements, keys and values have no names of their own, and not all writers give them
            # ids
            for child in column.children:
                if pa.types.is_struct(child.type):
                    inside = next(
                        (m for m in (entry and entry.fields) or () if m.field_id == child.field_id),
                        None,
                    )
                    yield from _unknown(
                        child.children,
                        known,
                        f"{above}{column.name}.{child.name}.",
                        (inside and inside.fields) or (),
                    )


def _is_identity(field: PartitionField) -> bool:
    return isinstance(field.transform, IdentityTransform)


def _check_columns(
    path: str, metadata: TableMetadata, columns: FileSchema, constants: set[int]
) -> None:
    """Check that the file can be read as the table: types fit, and its own field ids, if any, mean
    the same columns, now or before they were renamed."""
    schema = metadata.schema()
    try:
        plan_columns(schema.fields, columns, dict.fromkeys(constants), prune=True, name=path)
    except CorruptData as error:
        raise SchemaMismatch(
            f"{path} does not fit the table: {error.message}", file=path
        ) from error
    if not columns.by_name:
        names: dict[int, set[str]] = {}
        for f in (f for s in metadata.schemas for f in s.by_id.values()):
            names.setdefault(f.field_id, set()).update((f.name, file_name(f.name)))
        root = FileField(None, "", pa.struct([]), columns.fields)
        if (misnamed := next(_misnamed(root, names, ""), None)) is not None:
            name, field_id = misnamed
            meant = schema.find_column_name(field_id) or "a dropped column"
            raise SchemaMismatch(
                f"{path} has field ids of another table: id {field_id} is column {name} in the file and {meant} in the table.",
                file=path,
            )


def _misnamed(
    column: FileField, names: Mapping[int, set[str]], path: str
) -> Iterator[tuple[str, int]]:
    """Yield (full name, id) of what lies in a column of a file and never had that name in the
    table. `path`: the column's own name; elements, keys and values have other names with each
    writer.
    """
    for child in column.children:
        inside = path
        if pa.types.is_struct(column.type):
            inside = f"{path}.{child.name}" if path else child.name
            field_id = child.field_id
            if field_id is not None and child.name not in names.get(field_id, (child.name,)):
                yield inside, field_id
        yield from _misnamed(child, names, inside)


def _partition_value(
    path: str,
    field: PartitionField,
    schema: Schema,
    columns: FileSchema,
    metrics: Mapping[str, Any],
    file: pq.ParquetFile,
) -> Any:
    if isinstance(field.transform, VoidTransform):
        return None
    source = schema.find_field(field.source_id)
    if _field(columns.fields, field.source_id) is None:
        return _from_path(path, field, source)
    if isinstance(source.field_type, FloatType | DoubleType):
        return _only_float(path, field, file, _field(columns.fields, field.source_id))
    values, nulls = (
        _count(metrics, "value_counts", source),
        _count(metrics, "null_value_counts", source),
    )
    if values is not None and values == nulls:
        return None
    lower, upper = (
        (metrics[k] or {}).get(source.field_id) for k in ("lower_bounds", "upper_bounds")
    )
    if lower is None or upper is None or nulls is None:
        raise InvalidInput(
            f"Cannot determine the value of partition field {field.name} for {path}: "
            f"its footer has no exact statistics of column {source.name}.",
            file=path,
        )
    ends = [
        apply(field.transform, source.field_type, from_bytes(source.field_type, b))
        for b in (lower, upper)
    ]
    same_bucket = field.transform.name != "bucket" or lower == upper
    if nulls or ends[0] != ends[1] or not same_bucket:
        also = ", and nulls" if nulls else ""
        raise InvalidInput(
            f"{path} holds rows of several partitions: {field.name} is {ends[0]!r} to {ends[1]!r}{also}.",
            file=path,
        )
    return ends[0]


def _only_float(
    path: str, field: PartitionField, file: pq.ParquetFile, column: FileField | None
) -> float | None:
    """Find the one value of a column of floats by reading it: bounds in footers leave NaN out and
    do not tell 0.0 from -0.0.
    """
    assert column is not None
    by_text: dict[str, float | None] = {}
    for group in range(file.metadata.num_row_groups):
        for chunk in (
            file.reader.read_row_group(group, column_indices=[column.leaves[0]]).column(0).chunks
        ):
            while pa.types.is_struct(chunk.type):
                (chunk,) = chunk.flatten()
            bits = chunk.view(
                pa.int32() if pa.types.is_float32(chunk.type) else pa.int64()
            ).unique()
            by_text |= {repr(v): v for v in bits.view(chunk.type).to_pylist()}
            if len(by_text) > 1:
                raise InvalidInput(
                    f"{path} holds rows of several partitions: {field.name} is {', '.join(list(by_text)[:5])}.",
                    file=path,
                )
    return next(iter(by_text.values()), None)


def _field(fields: Sequence[FileField], field_id: int) -> FileField | None:
    for f in fields:
        inside = _field(f.children, field_id) if pa.types.is_struct(f.type) else None
        if f.field_id == field_id or inside:
            return inside or f
    return None


def _count(metrics: Mapping[str, Any], key: str, source: NestedField) -> int | None:
    return (metrics[key] or {}).get(source.field_id)


def _from_path(path: str, field: PartitionField, source: NestedField) -> Any:
    """Parse the value of `name=value` in a Hive-style path, for a column that the file itself does
    not hold.
    """
    parts = dict(p.split("=", 1) for p in path.split("/")[:-1] if "=" in p)
    text = parts.get(source.name, parts.get(field.name)) if _is_identity(field) else None
    if text is None:
        raise InvalidInput(
            f"Cannot determine the value of partition field {field.name} for {path}: neither its columns nor its path hold it.",
            file=path,
        )
    return None if text == HIVE_NULL else _parsed(unquote(text), source, path)


def _parsed(text: str, source: NestedField, path: str) -> Any:
    try:
        match source.field_type:
            case StringType():
                return text
            case BooleanType():
                return {"true": True, "false": False}[text.lower()]
            case IntegerType() | LongType():
                return internal_value(source.field_type, int(text))
            case FloatType() | DoubleType():
                return float(text)
            case DecimalType():
                return internal_value(source.field_type, decimal.Decimal(text))
        return internal_value(source.field_type, text)
    except (ValueError, KeyError, ArithmeticError) as error:
        raise InvalidInput(
            f"{path}: {text!r} is not a valid {source.field_type} for column {source.name}.",
            file=path,
        ) from error
