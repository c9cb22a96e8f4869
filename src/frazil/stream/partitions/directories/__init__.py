"""Commit batches and partitions of plain folders of Parquet files,
`path/dt=2026-01-01/part-….parquet`, outside Iceberg.

`folder`: where files and state lie. `publish`: makes a batch's files visible once, however often
the batch is replayed. `announce`: commits partitions. `merge_files`: merges the small files of a
partition.
"""

__all__ = ["announce", "folder", "publish"]
