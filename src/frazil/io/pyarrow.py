"""Convert schemas to Arrow and back, by PyIceberg's module path: `from frazil.io.pyarrow import
schema_to_pyarrow, pyarrow_to_schema`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from frazil.arrow.values.arrow_schema import (
    from_arrow_schema,
    numbered_by_names,
    to_arrow_schema,
    with_docs,
)
from frazil.arrow.write.add_files import data_files_of
from frazil.commit.apply import check_schema
from frazil.errors import Unsupported
from frazil.io import FileIO, load_file_io
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import DEFAULT_FORMAT_VERSION, TableMetadata
from frazil.spec.name_mapping import NameMapping, parse_name_mapping
from frazil.spec.schema import Schema
from frazil.storage import Storage, absolute

UnsupportedPyArrowTypeException = Unsupported

__all__ = [
    "PyArrowFileIO",
    "UnsupportedPyArrowTypeException",
    "parquet_files_to_data_files",
    "pyarrow_to_schema",
    "schema_to_pyarrow",
]


def schema_to_pyarrow(
    schema: Schema, metadata: Mapping[bytes, bytes] = {}, include_field_ids: bool = True
) -> pa.Schema:
    """Return the Arrow schema of the rows that a scan returns, with field ids and comments in the
    metadata of its fields. `metadata`: that of the Arrow schema."""
    arrow_schema = with_docs(to_arrow_schema(schema, field_ids=include_field_ids), schema.fields)
    return pa.schema(arrow_schema, metadata=dict(metadata) or None)


def pyarrow_to_schema(
    schema: pa.Schema,
    name_mapping: NameMapping | str | None = None,
    downcast_ns_timestamp_to_us: bool = False,
    format_version: int = DEFAULT_FORMAT_VERSION,
) -> Schema:
    """Return the Iceberg schema of an Arrow schema.

    Field ids are those of the Arrow fields if each has one, else those of the name mapping (JSON
    text or parsed), else numbered from 1. `downcast_ns_timestamp_to_us`: give timestamps in
    nanoseconds a type in microseconds. Raises Unsupported for types without a counterpart,
    ValidationError for types of a later format version and for columns that the mapping does not
    name.
    """
    if name_mapping is not None:
        schema = numbered_by_names(
            schema,
            parse_name_mapping(name_mapping) if isinstance(name_mapping, str) else name_mapping,
        )
    converted = from_arrow_schema(schema, nanoseconds=not downcast_ns_timestamp_to_us)
    check_schema(converted, format_version)
    return converted


def parquet_files_to_data_files(
    io: Storage, table_metadata: TableMetadata, file_paths: Iterable[str]
) -> Iterator[DataFile]:
    """Return the entries of existing Parquet files, with metrics from their footers, as
    `update_snapshot().fast_append()` takes them. Relative paths are made absolute."""
    return iter(data_files_of([absolute(os.fspath(p)) for p in file_paths], table_metadata, io))


def PyArrowFileIO(properties: Mapping[str, str] = {}) -> FileIO:
    """Return a FileIO for any store; see `frazil.io.load_file_io`."""
    return load_file_io(properties)
