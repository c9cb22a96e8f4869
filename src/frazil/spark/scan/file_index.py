"""Implement Spark's `FileIndex` in Python: when a scan is about to run, Spark passes it the query's
filters and gets the files to read.

Why not `spark.read.parquet(*files)`: with an index of our own, filters that are put on a DataFrame
after it was made still prune files by Iceberg's metadata; Spark lists no directories; and every
file can have a number that is read at no cost per row. The number is the value of a partition
column, each file being a partition of its own. Deletes and facts of files are joined to rows by it
(`file_keys`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.spark.host.jvm import Jvm, each, implementing
from frazil.spark.host.jvm_plans import NodeKind, has_references, kind_of
from frazil.spark.host.jvm_reads import FILE_INDEX, ParquetRelations
from frazil.spark.scan.paths import path_text, spark_text
from frazil.spark.scan.pushed_filters import Pushed, filters_of
from frazil.storage.locations import local_path_of, scheme_of

_LOG = logging.getLogger(__name__)
FILE = "__frazil_file_key"  # the partition column that holds each file's number
_KNOWN: weakref.WeakKeyDictionary[Jvm, ParquetRelations] = weakref.WeakKeyDictionary()

_TITLE: ContextVar[str | None] = ContextVar("title", default=None)


@contextlib.contextmanager
def titled(title: str) -> Iterator[None]:
    """Let the scans that are made in the block show a table's name and snapshot in EXPLAIN."""
    token = _TITLE.set(title)
    try:
        yield
    finally:
        _TITLE.reset(token)


Prune = Callable[[Sequence[Pushed]], Sequence[int] | None]
"""Return the places, among a scan's files, of those that may hold rows for the filters; None: all
of them may.
"""


class FileIndex:
    """Hold the files of a scan, and answer the JVM's calls of Spark's interface FileIndex.

    `numbers`: a number per file, which the scan shows in the column `FILE`; `prune`: prunes files
    by the filters of a query. `relations` makes the scan over this index (`ParquetRelations.scan`).
    """

    Java = implementing(FILE_INDEX)

    def __init__(
        self,
        jvm: Jvm,
        root: str,
        paths: Sequence[str],
        sizes: Sequence[int],
        numbers: Sequence[int] | None,
        prune: Prune,
    ):
        if (relations := _KNOWN.get(jvm)) is None:
            relations = _KNOWN[jvm] = ParquetRelations(jvm, FileIndex, FILE)
        self.relations, self._texts, self._none, self._root, self._prune = (
            relations,
            jvm.texts,
            jvm.none,
            root,
            prune,
        )
        self._paths, self._sizes, self._numbers, self.title = paths, sizes, numbers, _TITLE.get()

    def listFiles(self, partition_filters: JavaObject, data_filters: JavaObject) -> Any:
        """Return the files to read, as Spark's partition directories: those that may hold rows for
        the data filters.
        """
        self._check(partition_filters)
        try:
            places = self._prune(filters_of(data_filters))
        except Exception as e:  # for example, a manifest that can no longer be read: the query still returns the right rows from all files
            _LOG.warning("Filters prune no files of %s: %s", self._root, e)
            places = None
        return (
            self._all
            if places is None or len(places) == len(self._paths)
            else self._listing(places)
        )

    @cached_property
    def _all(self) -> Any:
        return self._listing(range(len(self._paths)))

    def _check(self, partition_filters: JavaObject) -> None:
        """Raise AssertionError for a filter on the column of numbers: Spark leaves filters on
        partition columns to the index, and this one does not apply them. Frazil puts no filter on
        the column; a join may add IsNotNull, which is always true. Spark also passes filters
        without any column here, but evaluates those after the scan."""
        for condition in each(partition_filters):
            if (kind := kind_of(condition)) != NodeKind.IS_NOT_NULL and has_references(condition):
                raise AssertionError(
                    f"Spark filters the files of {self._root} by the internal column {FILE} ({kind}): not supported."
                )

    def _listing(self, places: Sequence[int]) -> Any:
        numbers = None if self._numbers is None else [self._numbers[n] for n in places]
        return self.relations.listing(
            [path_text(self._paths[n]) for n in places], [self._length(n) for n in places], numbers
        )

    def _length(self, place: int) -> int:
        """Return a file's length in bytes: of local files the real one, since some writers record
        another size in manifests and the look-up is quick; else the one in the manifest, as Java
        Iceberg does."""
        if scheme_of(self._paths[place]) == "file":
            with contextlib.suppress(OSError):
                return os.path.getsize(local_path_of(self._paths[place]))
        return self._sizes[place]

    @cached_property
    def _name(self) -> str:
        """Return a text that is the same for indexes of the same files, by which Spark recognises
        equal scans.
        """
        content = "\n".join((self._root, *self._paths, *map(str, self._numbers or ()))).encode()
        return f"Frazil({hashlib.sha256(content).hexdigest()})"

    @cached_property
    def _roots(self) -> Any:
        return self.relations.path(path_text(self._root))

    def rootPaths(self) -> Any:
        """Return the table's location; Spark shows it in plans and opens the file system by it."""
        return self._roots

    def inputFiles(self) -> Any:
        """Return all files of the scan, as `DataFrame.inputFiles` shows them."""
        return self._texts([spark_text(p) for p in self._paths])

    def refresh(self) -> None:
        """Do nothing: the files of a snapshot never change."""

    def sizeInBytes(self) -> int:
        """Return the size of all files, by which Spark chooses join strategies."""
        return sum(self._sizes)

    def partitionSchema(self) -> Any:
        """Return the StructType of the partition columns: `FILE` where files have numbers, else
        none.
        """
        return self.relations.no_columns if self._numbers is None else self.relations.numbers

    def metadataOpsTimeNs(self) -> Any:
        """Return Scala's None: the time that planning took is not reported to Spark."""
        return self._none

    def isTimeTravel(self) -> bool:
        """Return False: Spark need not treat the files of a snapshot in a special way."""
        return False

    def toString(self) -> str:
        """Return the text by which `equals` compares."""
        return self._name

    def hashCode(self) -> int:
        """Return a hash that is the same for indexes of the same files."""
        return int(self._name[7:14], 16)

    def equals(self, other: JavaObject | None) -> bool:
        """Compare by `toString`: an object of this class arrives as a Java proxy, which answers
        with this class's text.
        """
        return other is not None and str(other.toString()) == self._name
