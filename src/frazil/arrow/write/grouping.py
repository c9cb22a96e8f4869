"""Group the rows of a batch by partition and sort them, vectorised: one integer code per row, one
`take` per batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.evaluate import struct_member
from frazil.arrow.values.transforms import apply_arrow
from frazil.arrow.write.row_order import row_order
from frazil.errors import ValidationError
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.sorting import NullOrder, SortDirection, SortOrder
from frazil.spec.transforms import Transform, VoidTransform
from frazil.spec.types import VariantType

Codes = np.ndarray[Any, Any]


@dataclass(frozen=True)
class PartitionRows:
    """Hold the rows of one partition. `values`: internal, in the order of the spec. `key`:
    hashable; it compares floats by their bits.
    """

    key: tuple[Any, ...]
    values: tuple[Any, ...]
    rows: pa.RecordBatch


def by_partition(
    batch: pa.RecordBatch, schema: Schema, spec: PartitionSpec
) -> Iterator[PartitionRows]:
    """Split a batch by partition; rows keep their order within each."""
    if batch.num_rows == 0:
        return
    keys = partition_columns(batch, schema, spec)
    codes, count = _codes(keys, batch.num_rows)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=count))
    starts = np.concatenate([[0], ends[:-1]])
    firsts = pa.array(order[starts])
    values = list(zip(*(k.take(firsts).to_pylist() for k in keys), strict=True)) if keys else [()]
    rows = batch if count == 1 else batch.take(pa.array(order))
    for value, start, end in zip(values, starts.tolist(), ends.tolist(), strict=True):
        yield PartitionRows(tuple(map(_bits, value)), value, rows.slice(start, end - start))


def partition_columns(batch: pa.RecordBatch, schema: Schema, spec: PartitionSpec) -> list[pa.Array]:
    """Compute the partition values of each row, one column per field of the spec."""
    return [_transformed(batch, schema, f.source_id, f.transform) for f in spec.fields]


def _transformed(
    batch: pa.RecordBatch, schema: Schema, source_id: int, transform: Transform
) -> pa.Array:
    if isinstance(transform, VoidTransform):
        return pa.nulls(batch.num_rows)
    source = schema.by_id.get(source_id)
    if source is None:
        raise ValidationError(
            f"Cannot find source column for partition field: {transform}({source_id})"
        )
    transformed = apply_arrow(transform, source.field_type, column_of(batch, schema, source_id))
    return transformed.combine_chunks() if isinstance(transformed, pa.ChunkedArray) else transformed


def column_of(batch: pa.RecordBatch, schema: Schema, field_id: int) -> pa.Array:
    """Find a column by field id, at any depth of structs; it is null where a struct around it is
    null.
    """
    path = (*schema.parents[field_id], field_id)
    names = [schema.by_id[i].name for i in path]
    column = batch.column(next(n for n, f in enumerate(schema.fields) if f.field_id == path[0]))
    for name in names[1:]:
        column = struct_member(column, column.type.get_field_index(name))
    return column


def _codes(keys: Sequence[pa.Array], count: int) -> tuple[Codes, int]:
    """Number the different combinations of values from 0; returns the number per row and their
    count. Small integer types sort fastest.
    """
    codes, total = np.zeros(count, np.int64), 1
    for key in keys:
        # floats are compared by their bits, all NaNs alike
        comparable = _bits_of(key) if pa.types.is_floating(key.type) else key
        encoded = comparable.dictionary_encode(null_encoding="encode")
        size = max(1, len(encoded.dictionary))
        if size == 1:
            continue
        codes = codes * size + encoded.indices.to_numpy(zero_copy_only=False)
        total *= size
        dense = pa.array(codes).dictionary_encode()
        codes, total = (
            dense.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            len(dense.dictionary),
        )
    return codes.astype(
        np.uint8 if total <= 256 else np.uint16 if total <= 65536 else np.int64
    ), total


def _bits_of(key: pa.Array) -> pa.Array:
    nan = pa.scalar(float("nan"), key.type)
    plain = pc.if_else(pc.fill_null(pc.is_nan(key), False), nan, key)
    return plain.view(pa.int32() if key.type == pa.float32() else pa.int64())


def _bits(value: object) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else struct.pack(">d", value)
    return value


def sorted_rows(batch: pa.RecordBatch, schema: Schema, order: SortOrder) -> pa.RecordBatch:
    """Sort rows by a sort order: floats as -NaN < -Inf < … < -0 < 0 < … < NaN, text by bytes, nulls
    as each field says.
    """
    columns, keys = sort_keys(batch, schema, order)
    if not keys or batch.num_rows < 2:
        return batch
    return batch.take(row_order(columns, keys))


def sort_keys(
    batch: pa.RecordBatch, schema: Schema, order: SortOrder, *, always: bool = False
) -> tuple[dict[str, pa.Array], list[tuple[str, str]]]:
    """Compute the columns by which Arrow sorts rows as a sort order says, and the direction of
    each. `always`: also tell nulls apart where this batch has none, so that the columns of all
    batches are alike."""
    columns: dict[str, pa.Array] = {}
    keys: list[tuple[str, str]] = []
    for number, sort_field in enumerate(order.fields):
        source = schema.by_id.get(sort_field.source_id)
        if source is None or isinstance(source.field_type, VariantType):
            raise ValidationError(
                f"Cannot sort by {sort_field}: the schema has no such column, or it is a variant."
            )
        value = _sortable(_transformed(batch, schema, sort_field.source_id, sort_field.transform))
        if value.null_count or always:
            columns[f"n{number}"] = value.is_valid()
            keys.append(
                (
                    f"n{number}",
                    "ascending" if sort_field.null_order is NullOrder.NULLS_FIRST else "descending",
                )
            )
        columns[f"v{number}"] = value
        keys.append(
            (
                f"v{number}",
                "ascending" if sort_field.direction is SortDirection.ASC else "descending",
            )
        )
    return columns, keys


def _sortable(value: pa.Array) -> pa.Array:
    if pa.types.is_null(value.type):
        return value.cast(pa.int8())
    if not pa.types.is_floating(value.type):
        return value
    bits = _bits_of(value)  # as integers, negative floats are in reverse order
    size = 31 if bits.type == pa.int32() else 63
    flipped = pc.bit_wise_xor(bits, pa.scalar(2**size - 1, bits.type))
    return pc.if_else(pc.less(bits, 0), flipped, bits)
