"""Cast Arrow batches to the schema that Spark expects from a Python task."""

from __future__ import annotations

import pyarrow as pa

from frazil.arrow.values.variant import json_to_variant


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with its columns cast, by position, to exactly the types of `schema`; JSON
    text is cast to variant.
    """
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
    """Convert JSON texts to Spark's form of variants in Arrow: structs of `value` and `metadata`."""
    pairs = [pair or (b"", b"") for pair in json_to_variant(texts.to_pylist())]
    members = {
        "metadata": pa.array([p[0] for p in pairs], pa.binary()),
        "value": pa.array([p[1] for p in pairs], pa.binary()),
    }
    return pa.StructArray.from_arrays(
        [members[f.name] for f in type_], fields=list(type_), mask=texts.is_null()
    )
