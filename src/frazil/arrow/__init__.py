"""Data files to Arrow and back: Parquet, ORC and Avro, projected by field id, written with ids and metrics."""

__all__ = ["changelog", "deletes", "files", "footers", "read", "values", "write"]
