"""Read Parquet, ORC and Avro data files: one file's columns by field id, in pieces (row groups, stripes, blocks), as Arrow batches."""
