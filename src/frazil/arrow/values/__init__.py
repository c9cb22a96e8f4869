"""Convert Arrow values: Iceberg types to Arrow types and back, uuid and variant columns, promotions, partition transforms, predicates
evaluated over batches."""
