"""Convert Arrow values: Iceberg types to Arrow types and back, uuid and variant columns,
promotions, partition transforms, predicates evaluated over batches."""

__all__ = [
    "arrays",
    "arrow_schema",
    "casts",
    "evaluate",
    "frames",
    "mismatch",
    "python_values",
    "row_digest",
    "transforms",
    "uuids",
    "variant",
]
