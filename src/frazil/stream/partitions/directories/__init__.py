"""Commit batches and partitions of plain folders of Parquet files, `path/dt=2026-01-01/part-….parquet`, outside Iceberg.

`folder`: places and state. `publish`: a batch's files become visible once, however often it is replayed. `announce`: partition commit.
`merge`: the small files of a partition.
"""

__all__ = ["announce", "folder", "publish"]
