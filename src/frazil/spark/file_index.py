"""Spark's `FileIndex`, in Python: which files a scan reads is asked of us when the scan is about to run, with the filters it will apply.

So files are pruned by filters that were put on a DataFrame later, nothing is listed, and each file may carry a number that costs its rows
nothing: it is the value of a partition column, of which every file is a partition of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.spark.jvm import Jvm
from frazil.spark.paths import path_text, spark_text
from frazil.spark.pushed import Pushed, filters_of
from frazil.storage.locations import local_path_of, scheme_of

_PACKAGE = "org.apache.spark.sql.execution.datasources."
_STARTING = threading.Lock()
_LOG = logging.getLogger(__name__)
FILE = "__frazil_file_key"  # the column of numbers
_KNOWN: weakref.WeakKeyDictionary[Jvm, _Scala] = weakref.WeakKeyDictionary()

Kept = Callable[[Sequence[Pushed]], Sequence[int] | None]


class _Scala:
    """What a relation is made of, looked up once for each JVM."""

    def __init__(self, jvm: Jvm):
        view, self._nil = jvm.view, jvm.nil
        self.no_columns = getattr(view, "org.apache.spark.sql.types.StructType")()
        self.numbers = self.no_columns.add(FILE, getattr(view, "org.apache.spark.sql.types.LongType$").__getattr__("MODULE$"))
        self.relation = getattr(view, _PACKAGE + "HadoopFsRelation")
        self.parquet = getattr(view, _PACKAGE + "parquet.ParquetFileFormat")
        self.path = getattr(view, "org.apache.hadoop.fs.Path")
        self.map = getattr(view, "org.apache.spark.api.python.PythonUtils").toScalaMap
        self._sequence = getattr(view, "scala.collection.immutable.ArraySeq").unsafeWrapArray
        find = view.java.lang.Class.forName
        self._directories = find(f"[L{_PACKAGE}PartitionDirectory;")
        mapper = getattr(view, "com.fasterxml.jackson.databind.ObjectMapper")()
        mapper.registerModule(getattr(view, "com.fasterxml.jackson.module.scala.DefaultScalaModule")())
        every = find("com.fasterxml.jackson.annotation.JsonAutoDetect$Visibility").getField("ANY").get(None)
        mapper.setVisibility(getattr(view, "com.fasterxml.jackson.annotation.PropertyAccessor").FIELD, every)
        jackson = "com.fasterxml.jackson.databind."
        mapper.configure(find(f"{jackson}DeserializationFeature").getField("USE_LONG_FOR_INTS").get(None), True)
        rows = getattr(view, f"{jackson}module.SimpleModule")()
        catalyst = "org.apache.spark.sql.catalyst."
        rows.addAbstractTypeMapping(find(f"{catalyst}InternalRow"), find(f"{catalyst}expressions.GenericInternalRow"))
        mapper.registerModule(rows)
        self._read = mapper.readValue

    def one(self, item: Any) -> Any:
        return self._nil.prepended(item)

    def listing(self, partitions: Iterable[tuple[list[int], list[dict[str, Any]]]]) -> Any:
        """Values of partitions and their files. They cross in one call, as text: 5,000 take a quarter of a second, one by one six times
        that."""
        told = [{"values": {"values": values}, "files": [{"fileStatus": f, "metadata": {}} for f in files]} for values, files in partitions]
        return self._sequence(self._read(msgspec.json.encode(told).decode(), self._directories))


def listen(spark: Any) -> None:
    """Lets the JVM call objects of this process."""
    with _STARTING:  # PySpark itself lets two threads start it
        ensure_callback_server_started(spark.sparkContext._gateway)


def relation(spark: Any, jvm: Jvm, session: Any, schema: s.StructType, index: FileIndex, options: dict[str, str]) -> DataFrame:
    """Spark's own Parquet scan of an index's files. `session`: the JVM's, by which it reads."""
    listen(spark)
    scala, own = index.scala, spark._jsparkSession
    made = scala.relation(
        index, index.partitionSchema(), own.parseDataType(schema.json()), jvm.none, scala.parquet(), scala.map(jvm.map(options)), session
    )
    return DataFrame(own.baseRelationToDataFrame(made), spark)


class FileIndex:
    """Files; with `numbers`, a column `FILE` says of each row its file's. `kept`: the places of those that filters leave, None: all.

    The methods are those of Spark's interface, and are called by the JVM.
    """

    class Java:
        implements: ClassVar = [_PACKAGE + "FileIndex"]

    def __init__(self, jvm: Jvm, root: str, paths: Sequence[str], sizes: Sequence[int], numbers: Sequence[int] | None, kept: Kept):
        if (scala := _KNOWN.get(jvm)) is None:
            scala = _KNOWN[jvm] = _Scala(jvm)
        self.scala, self._jvm, self._root, self._kept = scala, jvm, root, kept
        self._paths, self._sizes, self._numbers = paths, sizes, numbers

    def listFiles(self, of_partitions: Any, of_rows: Any) -> Any:
        self._check(of_partitions)
        try:
            found = self._kept(filters) if (filters := filters_of(of_rows)) else None
        except Exception as e:  # a query that can read all files does not end because a manifest could not be read once more
            _LOG.warning("Filters prune no files of %s: %s", self._root, e)
            found = None
        return self._all if found is None or len(found) == len(self._paths) else self._listing(found)

    @cached_property
    def _all(self) -> Any:
        return self._listing(range(len(self._paths)))

    def _check(self, of_partitions: Any) -> None:
        """Spark leaves filters of partition columns to the index. Ours is in no filter by itself; a join may add that it is not null."""
        for at in range(of_partitions.size()):
            if (kind := of_partitions.apply(at).getClass().getSimpleName()) != "IsNotNull":
                raise AssertionError(f"Spark filters the files of {self._root} by their numbers ({kind}), which is not foreseen.")

    def _listing(self, places: Sequence[int]) -> Any:
        same = {"isdir": False, "block_replication": 1, "blocksize": 128 * 1024 * 1024, "access_time": 0, "modification_time": 0}
        files = [same | {"path": path_text(self._paths[n]), "length": self._length(n)} for n in places]
        if self._numbers is None:
            return self.scala.listing([([], files)])
        return self.scala.listing(([self._numbers[n]], [f]) for n, f in zip(places, files, strict=True))

    def _length(self, place: int) -> int:
        """Of local files what they have, which is quickly asked: some writers put other sizes into manifests. Elsewhere, as for Java, the
        manifest counts."""
        if scheme_of(self._paths[place]) == "file":
            with contextlib.suppress(OSError):
                return os.path.getsize(local_path_of(self._paths[place]))
        return self._sizes[place]

    @cached_property
    def _name(self) -> str:
        told = "\n".join((self._root, *self._paths, *map(str, self._numbers or ()))).encode()
        return f"Frazil({hashlib.sha256(told).hexdigest()})"

    @cached_property
    def _roots(self) -> Any:
        return self.scala.one(self.scala.path(path_text(self._root)))

    def rootPaths(self) -> Any:
        return self._roots

    def inputFiles(self) -> Any:
        return self._jvm.texts([spark_text(p) for p in self._paths])

    def refresh(self) -> None:
        """Files of Iceberg do not change."""

    def sizeInBytes(self) -> int:
        return sum(self._sizes)

    def partitionSchema(self) -> Any:
        return self.scala.no_columns if self._numbers is None else self.scala.numbers

    def metadataOpsTimeNs(self) -> Any:
        return self._jvm.none

    def isTimeTravel(self) -> bool:
        return False

    def toString(self) -> str:
        return self._name

    def hashCode(self) -> int:
        return int(self._name[7:14], 16)

    def equals(self, other: Any) -> bool:
        """Another object of the JVM, whose text tells it: one of ours answers through `toString`."""
        return other is not None and str(other.toString()) == self._name
