"""Fit Arrow batches to the types that Spark expects of a task."""

from __future__ import annotations

import pyarrow as pa

from frazil.arrow.values.variant import json_to_variant


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in exactly these types."""
    if batch.schema.equals(schema):
        return batch
    columns = [_cast(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type.equals(type_):
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), type_)
    if pa.types.is_struct(type_) and pa.types.is_string(column.type):
        return _as_variant(column, type_)
    return column.cast(type_)


def _as_variant(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """JSON texts as Spark hands variants over: a struct of value and metadata."""
    pairs = [p or (b"", b"") for p in json_to_variant(texts.to_pylist())]
    parts = {"metadata": pa.array([p[0] for p in pairs], pa.binary()), "value": pa.array([p[1] for p in pairs], pa.binary())}
    return pa.StructArray.from_arrays([parts[f.name] for f in type_], fields=list(type_), mask=texts.is_null())
