"""Make Spark's scan of planned Parquet files, whose Java is `spark/jvm/ParquetFiles.java`, and local
rows (LocalRelation); and ask Hadoop which schemes of locations Spark itself can open, and how.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host import jvm_classes
from frazil.spark.host.jvm import CATALYST, EXPRESSIONS, SPARK, Jvm, classic_jvm, listen
from frazil.spark.host.jvm_plans import frame_of
from frazil.spark.host.jvm_trees import expression_trees
from frazil.storage.base import temporary_files

_DATASOURCES = SPARK + "sql.execution.datasources."
_FILES = "ParquetFiles$Files"
ANSWERS = "java.util.function.BiFunction"
"""The interface by which the scan asks about its files."""


def scan_of(
    spark: Session,
    session: JavaObject,
    columns: tuple[s.StructType, s.StructType],
    names: tuple[str, str, str, str],
    options: Mapping[str, str],
    answers: object,
) -> DataFrame:
    """Make a DataFrame over planned Parquet files. `session`: the JVM's session whose settings the
    reader uses; `columns`: those of the files, and those that each file has one value of; `names`:
    a text that equal scans share, the title in EXPLAIN, the table's location, and a line for each
    column by whose values a join can leave files out; `answers`: the object with the interface
    ANSWERS.

    Raises Unsupported or one of NOT_AS_KNOWN where this Spark's interfaces are not those that the
    scan knows.
    """
    listen(spark)
    jvm, parse = classic_jvm(spark), spark._jsparkSession.parseDataType
    of_files, of_each = (parse(c.json()) for c in columns)
    files = jvm_classes.make(
        spark,
        _FILES,
        session,
        of_files,
        of_each,
        *names,
        jvm.map(options),
        answers,
        expression_trees(spark, jvm),
    )
    relation = jvm.java_class(_DATASOURCES + "v2.DataSourceV2Relation")
    return frame_of(spark, relation.create(files, jvm.none, jvm.none))


def array_frame(
    spark: Session, jvm: Jvm, schema: s.StructType, numbers: npt.NDArray[np.int64]
) -> DataFrame:
    """Make a DataFrame of one row and one column, an array of longs, as a LocalRelation. It takes a
    dozen calls to the JVM, where PySpark's createDataFrame takes some sixty and an Arrow file."""
    view, jsession, gateway = jvm.view, spark._jsparkSession, spark.sparkContext._gateway
    longs = gateway.new_array(view.long, len(numbers))
    with contextlib.ExitStack() as stack:
        # the numbers go through a file, since py4j encodes bytes as text
        with temporary_files():
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(numbers.astype(">i8").tobytes())
            file.flush()
        with contextlib.closing(view.java.io.RandomAccessFile(file.name, "r")) as java_file:
            read_only = view.java.nio.channels.FileChannel.MapMode.READ_ONLY
            java_file.getChannel().map(read_only, 0, java_file.length()).asLongBuffer().get(longs)
    values = gateway.new_array(view.java.lang.Object, 1)
    values[0] = getattr(view, EXPRESSIONS + "UnsafeArrayData").fromPrimitiveArray(longs)
    row = getattr(view, EXPRESSIONS + "GenericInternalRow")(values)
    columns = getattr(view, CATALYST + "types.DataTypeUtils").toAttributes(
        jsession.parseDataType(schema.json())
    )
    plan = getattr(view, CATALYST + "plans.logical.LocalRelation")(
        columns, jvm.nil.prepended(row), False, jvm.none
    )
    return frame_of(spark, plan)


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
