"""Store files in HDFS, without a JVM: `hdfs` is the store, `hdfs_options` translates a catalog's
properties.
"""

__all__ = ["hdfs", "hdfs_files", "hdfs_options"]
