"""Ask Hadoop, in Spark's JVM, for its file systems and settings: which schemes of locations Spark itself can open, and how."""

from __future__ import annotations

from typing import Any


def has_file_system(spark: Any, scheme: str) -> bool:
    """Tell whether Hadoop has a file system for a scheme such as `s3a`; False on Spark Connect."""
    try:
        spark._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())
    except Exception:
        return False
    return True


def hadoop_setting(spark: Any, key: str) -> str | None:
    """Return a setting of the application's Hadoop configuration (`spark.hadoop.<key>`, or Hadoop's default); None where there is none."""
    value: str | None = spark._jsc.hadoopConfiguration().get(key)
    return value or None


def hadoop_version(spark: Any) -> str:
    """Return the version of Hadoop's client on the session's class path, such as `3.4.2`."""
    return str(spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
