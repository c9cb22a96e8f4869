"""Build Spark's native Parquet scan (HadoopFsRelation, ParquetFileFormat) through py4j over a
FileIndex written in Python, and local rows (LocalRelation); and ask Hadoop which schemes of
locations Spark itself can open, and how.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.ops.session import Session
from frazil.spark.host.jvm import CATALYST, EXPRESSIONS, SPARK, Jvm, listen
from frazil.spark.host.jvm_catalog import catalog_types
from frazil.spark.host.jvm_plans import frame_of
from frazil.storage.base import temporary_files

_DATASOURCES = SPARK + "sql.execution.datasources."
_JACKSON = "com.fasterxml.jackson."
FILE_INDEX = _DATASOURCES + "FileIndex"


class ParquetRelations:
    """Make Parquet scans over a file index that is implemented in Python, and the Java values that
    such an index returns.

    The constructor raises one of NOT_AS_KNOWN if this Spark's FileIndex differs from the one that
    Frazil implements: it has a method that the Python class lacks, or it lists files in another
    form.
    """

    def __init__(self, jvm: Jvm, index: type, number_column: str):
        view, self._nil, self._jvm = jvm.view, jvm.nil, jvm
        self.no_columns = getattr(view, SPARK + "sql.types.StructType")()
        self.numbers = self.no_columns.add(
            number_column, getattr(view, SPARK + "sql.types.LongType$").__getattr__("MODULE$")
        )
        self._relation = getattr(view, _DATASOURCES + "HadoopFsRelation")
        self._logical = getattr(getattr(view, _DATASOURCES + "LogicalRelation$"), "MODULE$")
        self._format = getattr(view, _DATASOURCES + "parquet.ParquetFileFormat")()
        self._maps: dict[tuple[tuple[str, str], ...], Any] = {}
        self._path = getattr(view, "org.apache.hadoop.fs.Path")
        self._scala_map = getattr(view, SPARK + "api.python.PythonUtils").toScalaMap
        self._sequence = getattr(view, "scala.collection.immutable.ArraySeq").unsafeWrapArray
        find = view.java.lang.Class.forName
        self._directories = find(f"[L{_DATASOURCES}PartitionDirectory;")
        mapper = getattr(view, _JACKSON + "databind.ObjectMapper")()
        mapper.registerModule(getattr(view, _JACKSON + "module.scala.DefaultScalaModule")())
        any_visibility = (
            find(_JACKSON + "annotation.JsonAutoDetect$Visibility").getField("ANY").get(None)
        )
        mapper.setVisibility(
            getattr(view, _JACKSON + "annotation.PropertyAccessor").FIELD, any_visibility
        )
        mapper.configure(
            find(_JACKSON + "databind.DeserializationFeature")
            .getField("USE_LONG_FOR_INTS")
            .get(None),
            True,
        )
        rows = getattr(view, _JACKSON + "databind.module.SimpleModule")()
        rows.addAbstractTypeMapping(
            find(f"{CATALYST}InternalRow"), find(f"{EXPRESSIONS}GenericInternalRow")
        )
        mapper.registerModule(rows)
        self._read = mapper.readValue
        self._check(find, index)

    def _check(self, find: Callable[[str], JavaObject], index: type) -> None:
        is_abstract = self._jvm.view.java.lang.reflect.Modifier.isAbstract
        required = {
            str(m.getName()) for m in find(FILE_INDEX).getMethods() if is_abstract(m.getModifiers())
        }
        if missing := sorted(name for name in required if not hasattr(index, name)):
            raise NotImplementedError(
                f"{FILE_INDEX} has methods that Frazil does not implement: {', '.join(missing)}."
            )
        directory = self.listing(["file:/a"], [5], [7]).apply(0)
        if (directory.values().getLong(0), directory.files().apply(0).getLen()) != (7, 5):
            raise NotImplementedError(
                "PartitionDirectory does not return the values and files that it was made from."
            )

    def path(self, text: str) -> Any:
        """Make a Scala sequence of one Hadoop path."""
        return self._nil.prepended(self._path(text))

    def listing(
        self, paths: Sequence[str], lengths: Sequence[int], numbers: Sequence[int] | None
    ) -> Any:
        """Make a Scala sequence of PartitionDirectory: one per file, with its number, or one of all
        files where they have none. One call carries all of it as JSON: 5,000 files take 0.25 s,
        with calls per file six times that."""
        common = {
            "isdir": False,
            "block_replication": 1,
            "blocksize": 128 * 1024 * 1024,
            "access_time": 0,
            "modification_time": 0,
        }
        statuses = [
            common | {"path": path, "length": length}
            for path, length in zip(paths, lengths, strict=True)
        ]
        partitions: list[tuple[list[int], list[dict[str, Any]]]] = [([], statuses)]
        if numbers is not None:
            partitions = [
                ([number], [status]) for number, status in zip(numbers, statuses, strict=True)
            ]
        directories = [
            {
                "values": {"values": values},
                "files": [{"fileStatus": status, "metadata": {}} for status in of_directory],
            }
            for values, of_directory in partitions
        ]
        return self._sequence(
            self._read(msgspec.json.encode(directories).decode(), self._directories)
        )

    def scan(
        self,
        spark: Session,
        session: JavaObject,
        schema: s.StructType,
        index: Any,
        options: Mapping[str, str],
        *,
        locations: bool = False,
    ) -> DataFrame:
        """Make a DataFrame over the files of an index. `session`: the JVM's session whose settings
        the Parquet reader uses; `locations`: it has the column `_metadata`, of which only the
        member `file_path` is there."""
        listen(spark)
        jsession, jvm = spark._jsparkSession, self._jvm
        columns = jsession.parseDataType(schema.json())
        relation = self._relation(
            index,
            index.partitionSchema(),
            columns,
            jvm.none,
            self._format,
            self._options(options),
            session,
        )
        if index.title is not None:
            logical = self._logical.apply(
                relation, catalog_types(spark).catalog_table(index.title, relation.schema())
            )
        elif locations:
            logical = self._logical.apply(relation, False)
        else:
            return DataFrame(jsession.baseRelationToDataFrame(relation), spark)
        return frame_of(spark, self._with_location(logical) if locations else logical)

    def _options(self, options: Mapping[str, str]) -> Any:
        key = tuple(options.items())
        if key not in self._maps:
            self._maps[key] = self._scala_map(self._jvm.map(options))
        return self._maps[key]

    def _with_location(self, logical: JavaObject) -> Any:
        """Return a relation with the member `file_path` of its metadata column; it offers no other."""
        metadata = logical.withMetadataColumns().output().last()
        location = metadata.withDataType(
            self.no_columns.add(metadata.dataType().apply("file_path"))
        )
        fields = [logical.productElement(n) for n in range(logical.productArity())]
        return logical.copy(fields[0], logical.output().appended(location), *fields[2:])


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
