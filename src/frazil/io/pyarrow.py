"""Schemas to Arrow and back by PyIceberg's path: `from frazil.io.pyarrow import schema_to_pyarrow, pyarrow_to_schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from frazil.arrow.values.arrow_schema import from_arrow_schema, numbered_by_names, to_arrow_schema, with_docs
from frazil.arrow.write.add_files import data_files_of
from frazil.commit.apply import check_schema
from frazil.errors import Unsupported
from frazil.io import FileIO, load_file_io
from frazil.spec.data_file import DataFile
from frazil.spec.metadata import DEFAULT_FORMAT_VERSION, TableMetadata
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.schema import Schema
from frazil.storage import Storage

UnsupportedPyArrowTypeException = Unsupported

__all__ = ["PyArrowFileIO", "UnsupportedPyArrowTypeException", "parquet_files_to_data_files", "pyarrow_to_schema", "schema_to_pyarrow"]


def schema_to_pyarrow(schema: Schema, metadata: Mapping[bytes, bytes] = {}, include_field_ids: bool = True) -> pa.Schema:
    """The Arrow schema of the rows that a scan gives; field ids and comments are in the fields' metadata, `metadata` is the schema's."""
    found = with_docs(to_arrow_schema(schema, field_ids=include_field_ids), schema.fields)
    return pa.schema(found, metadata=dict(metadata) or None)


def pyarrow_to_schema(
    schema: pa.Schema,
    name_mapping: NameMapping | str | None = None,
    downcast_ns_timestamp_to_us: bool = False,
    format_version: int = DEFAULT_FORMAT_VERSION,
) -> Schema:
    """The Iceberg schema of an Arrow schema: with its field ids when every field has one, else with those of the name mapping (as text, or
    parsed), else with ids from 1. Raises Unsupported for types without a counterpart, ValidationError for those of a later format
    version and for columns that the mapping does not know."""
    if name_mapping is not None:
        schema = numbered_by_names(schema, parse_name_mapping(name_mapping) if isinstance(name_mapping, str) else name_mapping)
    found = from_arrow_schema(schema, nanoseconds=not downcast_ns_timestamp_to_us)
    check_schema(found, format_version)
    return found


def parquet_files_to_data_files(io: Storage, table_metadata: TableMetadata, file_paths: Iterable[str]) -> Iterator[DataFile]:
    """Entries for Parquet files that lie somewhere, with metrics from their footers: what `update_snapshot().fast_append()` takes."""
    return iter(data_files_of(file_paths, table_metadata, io))


def PyArrowFileIO(properties: Mapping[str, str] = {}) -> FileIO:
    """Files of any store; see `frazil.io.load_file_io`."""
    return load_file_io(properties)
