"""Spark's `FileIndex`, in Python: which files a scan reads is asked of us when the scan is about to run, with the filters it will apply.

So files are pruned by filters that were put on a DataFrame later, nothing is listed, and each file may carry a number that costs its rows
nothing: it is the value of a partition column, of which every file is a partition of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.spark.host.jvm import FILE_INDEX, Jvm, ParquetRelations, each
from frazil.spark.scan.paths import path_text, spark_text
from frazil.spark.scan.pushed import Pushed, filters_of
from frazil.storage.locations import local_path_of, scheme_of

_LOG = logging.getLogger(__name__)
FILE = "__frazil_file_key"  # the column of numbers
_KNOWN: weakref.WeakKeyDictionary[Jvm, ParquetRelations] = weakref.WeakKeyDictionary()

Kept = Callable[[Sequence[Pushed]], Sequence[int] | None]


def relation(spark: Any, session: Any, schema: s.StructType, index: FileIndex, options: Mapping[str, str]) -> DataFrame:
    """Spark's own Parquet scan of an index's files. `session`: the JVM's, by which it reads."""
    return index.relations.scan(spark, session, schema, index, options)


class FileIndex:
    """Files; with `numbers`, a column `FILE` says of each row its file's. `kept`: the places of those that filters leave, None: all.

    The methods are those of Spark's interface, and are called by the JVM.
    """

    class Java:
        implements: ClassVar = [FILE_INDEX]

    def __init__(self, jvm: Jvm, root: str, paths: Sequence[str], sizes: Sequence[int], numbers: Sequence[int] | None, kept: Kept):
        if (relations := _KNOWN.get(jvm)) is None:
            relations = _KNOWN[jvm] = ParquetRelations(jvm, FileIndex, FILE)
        self.relations, self._host, self._root, self._kept = relations, jvm, root, kept
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
        """Spark leaves filters of partition columns to the index. Ours is in no filter by itself; a join may add that it is not null.
        Filters without any column are handed over as well, and Spark evaluates them after the scan all the same."""
        for one in each(of_partitions):
            if (kind := one.getClass().getSimpleName()) != "IsNotNull" and not one.references().isEmpty():
                raise AssertionError(f"Spark filters the files of {self._root} by their numbers ({kind}), which is not foreseen.")

    def _listing(self, places: Sequence[int]) -> Any:
        same = {"isdir": False, "block_replication": 1, "blocksize": 128 * 1024 * 1024, "access_time": 0, "modification_time": 0}
        files = [same | {"path": path_text(self._paths[n]), "length": self._length(n)} for n in places]
        partitions: list[tuple[list[int], list[dict[str, Any]]]] = [([], files)]
        if self._numbers is not None:
            partitions = [([self._numbers[n]], [f]) for n, f in zip(places, files, strict=True)]
        told = [{"values": {"values": values}, "files": [{"fileStatus": f, "metadata": {}} for f in of]} for values, of in partitions]
        return self.relations.listing(msgspec.json.encode(told).decode())

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
        return self.relations.path(path_text(self._root))

    def rootPaths(self) -> Any:
        return self._roots

    def inputFiles(self) -> Any:
        return self._host.texts([spark_text(p) for p in self._paths])

    def refresh(self) -> None:
        """Files of Iceberg do not change."""

    def sizeInBytes(self) -> int:
        return sum(self._sizes)

    def partitionSchema(self) -> Any:
        return self.relations.no_columns if self._numbers is None else self.relations.numbers

    def metadataOpsTimeNs(self) -> Any:
        return self._host.none

    def isTimeTravel(self) -> bool:
        return False

    def toString(self) -> str:
        return self._name

    def hashCode(self) -> int:
        return int(self._name[7:14], 16)

    def equals(self, other: Any) -> bool:
        """Another object of the JVM, whose text tells it: one of ours answers through `toString`."""
        return other is not None and str(other.toString()) == self._name
