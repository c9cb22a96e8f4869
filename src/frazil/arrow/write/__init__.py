"""Write Arrow rows as data files of a table: matched to its schema, split by partition, sorted, rolled at the target size, with metrics."""
