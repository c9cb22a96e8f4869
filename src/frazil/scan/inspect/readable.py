"""Build the column `readable_metrics` of metadata tables: counts and bounds of every leaf column by
name, with decoded bounds.
"""

from __future__ import annotations

import pyarrow as pa

from frazil.scan.bounds import MapColumn, decode_bounds
from frazil.scan.inspect.repeats import Repeats
from frazil.scan.inspect.types import door_type, to_door
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, VariantType

_COUNTS = (
    ("column_size", "column_sizes"), ("value_count", "value_counts"), ("null_value_count", "null_value_counts"),
    ("nan_value_count", "nan_value_counts"),
)  # fmt: skip
_BOUNDS = (("lower_bound", "lower_bounds"), ("upper_bound", "upper_bounds"))
METRIC_COLUMNS = tuple(column for _, column in (*_COUNTS, *_BOUNDS))


def _leaves(schema: Schema) -> list[tuple[str, int, IcebergType]]:
    """List (full name, id, type) of the primitive columns at any depth, in Java's order of names
    (by UTF-16).
    """
    named = [
        (schema.find_column_name(i) or str(i), i, f.field_type) for i, f in schema.by_id.items()
    ]
    leaves = [
        leaf for leaf in named if leaf[2].is_primitive and not isinstance(leaf[2], VariantType)
    ]
    return sorted(leaves, key=lambda leaf: leaf[0].encode("utf-16-be", "surrogatepass"))


def _metric_type(type_: IcebergType) -> pa.StructType:
    counts = [pa.field(name, pa.int64()) for name, _ in _COUNTS]
    return pa.struct([*counts, *(pa.field(name, door_type(type_)) for name, _ in _BOUNDS)])


def readable_type(schema: Schema) -> pa.StructType:
    return pa.struct([pa.field(name, _metric_type(type_)) for name, _, type_ in _leaves(schema)])


def readable_metrics(entries: pa.Table, schema: Schema, repeats: Repeats) -> pa.Array:
    """Return one struct per row, with null for a count or bound that a file lacks or that cannot be
    of the column's type.
    """
    metrics = {column: MapColumn(entries.column(column)) for column in METRIC_COLUMNS}
    structs = []
    for _, field_id, type_ in _leaves(schema):
        children = [
            repeats.same((field_id, column), metrics[column].at(field_id)) for _, column in _COUNTS
        ]
        for _, column in _BOUNDS:
            values = to_door(decode_bounds(metrics[column].at(field_id), type_), type_)
            children.append(repeats.same((field_id, column), values))
        structs.append(pa.StructArray.from_arrays(children, fields=list(_metric_type(type_))))
    if not structs:
        return pa.Array.from_buffers(pa.struct([]), entries.num_rows, [None])
    return pa.StructArray.from_arrays(structs, fields=list(readable_type(schema)))
