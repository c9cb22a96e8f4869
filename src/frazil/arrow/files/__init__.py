"""Read Parquet, ORC and Avro data files: one file's columns by field id, in pieces (row groups,
stripes, blocks), as Arrow batches.
"""

__all__ = ["project", "read_avro", "read_orc", "read_parquet", "source"]
