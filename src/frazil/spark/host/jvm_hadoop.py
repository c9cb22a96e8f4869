"""Call Hadoop's file systems and settings in Spark's JVM through py4j: which schemes of locations
Spark itself can open, and how.
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.ops.session import Session

S3A_FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"
S3A_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
S3A_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
S3A_SESSION_KEYS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"


def has_file_system(spark: Session, scheme: str) -> bool:
    """Tell whether Hadoop has a file system for a scheme such as `s3a`; False on Spark Connect."""
    try:
        spark._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, spark._jsc.hadoopConfiguration()
        )
    except Exception:
        return False
    return True


def read_text(spark: Session, location: str) -> str | None:
    """Read a text file with Hadoop's file systems; None: it does not exist."""
    path = spark._jvm.org.apache.hadoop.fs.Path(location)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        return str(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def hadoop_settings(spark: Session, keys: Iterable[str]) -> dict[str, str]:
    """Return those of Hadoop's settings that have a value, as the session's scans have them:
    `spark.hadoop.…` over HADOOP_CONF_DIR's files over Hadoop's defaults."""
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return {key: str(value) for key in keys if (value := configuration.get(key))}


def hadoop_version(spark: Session) -> str:
    """Return the version of Hadoop's client on the session's class path, such as `3.4.2`."""
    return str(spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
