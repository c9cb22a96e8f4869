"""Answer what Spark's scan of planned files (`spark/jvm/ParquetFiles.java`) asks: what a query's
filters leave of them, by which columns a join may filter them while it runs, and the files to read.

Why not `spark.read.parquet(*files)`: filters that are put on a DataFrame after it was made, and
those that a join finds while it runs, prune files by Iceberg's metadata; the planner learns how many
rows are left; Spark lists no directories; and every file can have a number and its location as
columns that cost nothing for each row. Deletes and facts of files are joined to rows by the number
(`file_keys`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from frazil.expr.bind import bind
from frazil.expr.compute import compute
from frazil.expr.nodes import names
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_reads import ANSWERS
from frazil.spark.scan.paths import path_text
from frazil.spark.scan.pushed_filters import Pushed, filters_of, filters_of_joins
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField, StringType

_LOG = logging.getLogger(__name__)
FILE = "__frazil_file_key"
LOCATION = "__frazil_location"
CONSTANTS = s.StructType(
    [s.StructField(FILE, s.LongType(), False), s.StructField(LOCATION, s.StringType(), False)]
)
"""The columns that each file has one value of: its number, and its location as manifests have it."""

_LOCATIONS = Schema(NestedField(1, LOCATION, StringType()))
_MOST_PUSHED = 256  # filters of plans that are kept until their queries run
_TITLE: ContextVar[str | None] = ContextVar("title", default=None)


@contextlib.contextmanager
def titled(title: str) -> Iterator[None]:
    """Let the scans that are made in the block show a table's name and snapshot in EXPLAIN."""
    token = _TITLE.set(title)
    try:
        yield
    finally:
        _TITLE.reset(token)


class Prune(Protocol):
    """Prune the files of one scan by filters with the scan's names of columns."""

    def places(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        """Return the places of the files that may hold rows for all filters; None: all of them."""
        ...

    def telling(self, columns: Sequence[str]) -> list[str]:
        """Return those of the columns by whose values files can be left out."""
        ...

    def aggregates(self, asked: Sequence[tuple[str, str]]) -> list[int | None] | None:
        """Return aggregates over all files ("count", "min", "max" of a column), as statistics tell
        them by internal values; None where they do not."""
        ...


class NoPruning:
    """Read all files of a scan whatever the filters."""

    def places(self, filters: Sequence[Pushed]) -> None:
        """Return None."""

    def telling(self, columns: Sequence[str]) -> list[str]:
        """Return no column."""
        return []

    def aggregates(self, asked: Sequence[tuple[str, str]]) -> None:
        """Return None."""


class FileAnswers:
    """Answer a scan's questions about its files. `sizes`: bytes, `rows`: rows of each file;
    `numbers`: a number per file, which the scan shows in the column `FILE`.
    """

    Java = implementing(ANSWERS)

    def __init__(
        self,
        root: str,
        paths: Sequence[str],
        sizes: Sequence[int],
        rows: Sequence[int],
        numbers: Sequence[int] | None,
        prune: Prune,
    ):
        self._root, self._paths, self._sizes, self._prune = root, paths, sizes, prune
        self._rows = np.asarray(rows, np.int64)
        self._numbers = [0] * len(paths) if numbers is None else numbers
        self.title = _TITLE.get() or root
        self._pushed: dict[str, list[Pushed]] = {}

    def apply(self, verb: str, message: str) -> str:
        """Answer a question: "plan", the rows and number of the files that filters leave and the
        number of all; "aggregates", a line for each, or nothing where statistics do
        not tell; "columns", those of the columns given by which a join may filter; "files",
        four lines for each file to read: bytes, number, location in manifests and as Hadoop takes it.
        """
        match verb:
            case "plan":
                number, _, trees = message.partition("\n")
                self._pushed[number] = filters_of(trees)
                while len(self._pushed) > _MOST_PUSHED:
                    self._pushed.pop(next(iter(self._pushed)), None)
                places = self._places(self._pushed[number])
                rows = self._rows if places is None else self._rows[places]
                return f"{rows.sum()} {len(rows)} {len(self._paths)}"
            case "aggregates":
                asked = [
                    (kind, name)
                    for kind, _, name in (a.partition(" ") for a in message.split("\n"))
                ]
                answers = self._aggregates(asked) or ()
                return "\n".join("null" if answer is None else str(answer) for answer in answers)
            case "columns":
                return "\n".join(self._prune.telling(message.split("\n")))
            case "files":
                number, _, values = message.partition("\n")
                return self._files([*self._pushed.get(number, ()), *filters_of_joins(values)])
        raise ValueError(verb)

    def _aggregates(self, asked: Sequence[tuple[str, str]]) -> list[int | None] | None:
        if not len(self._paths):
            return None
        rows = int(self._rows.sum())
        if all(one == ("count", "") for one in asked):
            return [rows] * len(asked)
        try:
            of_columns = self._prune.aggregates([one for one in asked if one[1]])
        except Exception as e:  # the query counts its rows itself
            _LOG.warning("Statistics tell no aggregates of %s: %s", self._root, e)
            return None
        if of_columns is None:
            return None
        each = iter(of_columns)
        return [next(each) if name else rows for _, name in asked]

    def _files(self, pushed: Sequence[Pushed]) -> str:
        places = self._places(pushed)
        return "\n".join(
            f"{self._sizes[n]}\n{self._numbers[n]}\n{self._paths[n]}\n{path_text(self._paths[n])}"
            for n in (range(len(self._paths)) if places is None else places)
        )

    def _places(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        try:
            places = self._prune.places(filters)
            return self._at_locations(
                [f for f in filters if names(f.predicate) == {LOCATION}], places
            )
        except Exception as e:  # for example, a manifest that can no longer be read: the query still returns the right rows from all files
            _LOG.warning("Filters prune no files of %s: %s", self._root, e)
            return None

    def _at_locations(
        self, filters: Sequence[Pushed], places: Sequence[int] | None
    ) -> Sequence[int] | None:
        """Return those of the places (None: of all) whose files' locations match all filters."""
        for f in filters:
            chosen = range(len(self._paths)) if places is None else places
            paths = pa.array((self._paths[n] for n in chosen), pa.string())
            bound = bind(f.predicate, _LOCATIONS, zone=f.zone)
            matches = compute(bound, lambda _: paths, len(paths)).to_pylist()  # noqa: B023, it is called at once
            places = [n for n, match in zip(chosen, matches, strict=True) if match]
        return places

    @cached_property
    def identity(self) -> str:
        """Return a text that is the same for scans of the same files, by which Spark recognises
        equal scans.
        """
        content = "\n".join((self._root, *self._paths, *map(str, self._numbers))).encode()
        return hashlib.sha256(content).hexdigest()

    def toString(self) -> str:
        """Return the text that Spark shows."""
        return self.title
