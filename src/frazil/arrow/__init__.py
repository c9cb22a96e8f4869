"""Read and write data files as Arrow: Parquet, ORC and Avro, projected by field id, written with
field ids and metrics.
"""

__all__ = ["changelog", "deletes", "files", "footers", "read", "values", "write"]
