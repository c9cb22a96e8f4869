"""Answer what Spark's scan of planned files (`spark/jvm/ParquetFiles.java`) asks: what a query's
filters leave of them, and the files to read.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

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

P = ParamSpec("P")
R = TypeVar("R")
_LOG = logging.getLogger(__name__)
DISTINCT = "distinct"
NamedAggregate: TypeAlias = tuple[str, str]
"""An aggregate, "count", "min", "max" or `DISTINCT`, and the name of its column; "count" of none
counts rows."""
FILE = "__frazil_file_key"
LOCATION = "__frazil_location"
CONSTANTS = s.StructType(
    [s.StructField(FILE, s.LongType(), False), s.StructField(LOCATION, s.StringType(), False)]
)
"""The columns that each file has one value of: its number, and its location as manifests have it."""

_LOCATIONS = Schema(NestedField(1, LOCATION, StringType()))
_MOST_QUERIES = 256  # what is left of the files for each is kept; it is planned again for others
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
    """Prune the files of one scan by filters with the scan's names of columns. `tells_aggregates`:
    whether metadata may tell aggregates, None: as the session says."""

    @property
    def tells_aggregates(self) -> bool | None: ...

    def places(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        """Return the places of the files that may hold rows for all filters; None: all of them."""
        ...

    def held(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        """Return the places of the files all of whose rows match all filters, where no other file
        has a row that does; None: there may be such a file."""
        ...

    def telling(self) -> list[str]:
        """Return the columns by whose values files can be left out."""
        ...

    def aggregates(
        self, asked: Sequence[NamedAggregate], places: Sequence[int] | None
    ) -> Mapping[NamedAggregate, int | None]:
        """Return those of the aggregates over files that metadata tells, by internal values.
        `places`: of the files; None: all of them."""
        ...


class NoPruning:
    """Read all files of a scan whatever the filters."""

    tells_aggregates = None

    def places(self, filters: Sequence[Pushed]) -> None:
        """Return None."""

    def held(self, filters: Sequence[Pushed]) -> None:
        """Return None."""

    def telling(self) -> list[str]:
        """Return no column."""
        return []

    def aggregates(
        self, asked: Sequence[NamedAggregate], places: Sequence[int] | None
    ) -> Mapping[NamedAggregate, int | None]:
        """Return nothing."""
        return {}


@dataclass(frozen=True)
class _Query:
    """Hold what a query wants. `filters`: by which files are left out when it runs; `places`: of
    the files that may be read, None: all of them; `holds`: all their rows are wanted, whatever the
    filters."""

    filters: Sequence[Pushed] = ()
    places: Sequence[int] | None = None
    holds: bool = False


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
        self._root, self._paths, self._prune = root, paths, prune
        self._rows, self._sizes = np.asarray(rows, np.int64), np.asarray(sizes, np.int64)
        self._numbers = [0] * len(paths) if numbers is None else numbers
        self.title = _TITLE.get() or root
        self._queries: dict[tuple[str, str], _Query] = {}

    def apply(self, verb: str, message: str) -> str:
        """Answer a question about a query. Its first line says whether Spark was told that all rows
        of its files are wanted, and its limit; the second one its filters. "plan": whether all rows
        of the files that these leave are wanted, the rows and number of these files, the number of
        all, the bytes of those left. "aggregates": a line for each, nothing where statistics do not
        tell. "statistics": of each column the numbers of distinct values and of nulls, the least
        and the greatest value. "files": four lines for each file to read, its bytes, number,
        location in manifests and as Hadoop takes it.
        """
        first, filters, asked = message.split("\n", 2)
        held, _, limit = first.partition(" ")
        query = self._query(limit, filters)
        if held and not query.holds:
            raise RuntimeError(f"Spark was told that files of {self._root} hold no other rows.")
        match verb:
            case "plan":
                return f"{'holds' if query.holds else ''} {self._left(query)}"
            case "aggregates":
                of_session, *texts = asked.split("\n")
                wanted = self._prune.tells_aggregates
                if not (of_session.lower() == "true" if wanted is None else wanted):
                    return ""
                each = (a.partition(" ") for a in texts)
                answers = self._aggregates([(kind, name) for kind, _, name in each], query.places)
                return "\n".join(map(_text, answers or ()))
            case "statistics":
                return "\n".join(self._statistics(asked.split("\n"), query))
            case "files":
                return self._files(query, filters_of_joins(asked))
        raise ValueError(verb)

    def _query(self, limit: str, filters: str) -> _Query:
        """Return what a query wants, which is the same whenever it is asked: Spark does not filter
        the rows of files that it was told to hold no others."""
        key = (limit, filters)
        if (query := self._queries.get(key)) is None:
            if limit:
                whole = self._query("", filters)
                query = replace(whole, places=self._of_rows(whole.places, int(limit)))
            else:
                query = self._planned(filters_of(filters))
            while len(self._queries) >= _MOST_QUERIES:
                self._queries.pop(next(iter(self._queries)), None)
            self._queries[key] = query
        return query

    def _planned(self, filters: Sequence[Pushed | None]) -> _Query:
        prunes = [f for f in filters if f is not None]
        if len(prunes) < len(filters):
            return _Query(prunes)
        held = self._safely(self._prune.held, prunes) if prunes else None
        return _Query(prunes if held is None else (), held, held is not None or not prunes)

    def _left(self, query: _Query) -> str:
        places = self._places(query, ())
        rows, sizes = (
            column if places is None else column[places] for column in (self._rows, self._sizes)
        )
        return f"{rows.sum()} {len(rows)} {len(self._paths)} {sizes.sum()}"

    def _of_rows(self, places: Sequence[int] | None, wanted: int) -> Sequence[int]:
        """Return the first places of files that have as many rows at least."""
        chosen = np.arange(len(self._paths)) if places is None else np.asarray(places, np.int64)
        upto = int(np.searchsorted(np.cumsum(self._rows[chosen]), wanted))
        return [int(n) for n in chosen[: upto + 1]]

    def _aggregates(
        self, asked: Sequence[NamedAggregate], places: Sequence[int] | None
    ) -> list[int | None] | None:
        rows = int((self._rows if places is None else self._rows[places]).sum())
        if not rows or all(one == ("count", "") for one in asked):
            return [rows] * len(asked) if rows else None
        # where statistics do not tell, the query counts its rows itself
        named = [one for one in asked if one[1]]
        answers = {
            ("count", ""): rows,
            **(self._safely(self._prune.aggregates, named, places) or {}),
        }
        return [answers[one] for one in asked] if answers.keys() >= set(asked) else None

    def _statistics(self, columns: Sequence[str], query: _Query) -> Iterator[str]:
        places = self._places(query, ())
        rows = int((self._rows if places is None else self._rows[places]).sum())
        asked = [(kind, c) for c in columns for kind in (DISTINCT, "count", "min", "max")]
        answers = self._safely(self._prune.aggregates, asked, places) or {}
        for c in columns:
            distinct, count, *ends = (
                answers.get((k, c)) for k in (DISTINCT, "count", "min", "max")
            )
            yield " ".join(map(_text, (distinct, None if count is None else rows - count, *ends)))

    def _files(self, query: _Query, of_joins: Sequence[Pushed]) -> str:
        places = self._places(query, of_joins)
        return "\n".join(
            f"{self._sizes[n]}\n{self._numbers[n]}\n{self._paths[n]}\n{path_text(self._paths[n])}"
            for n in (range(len(self._paths)) if places is None else places)
        )

    def _places(self, query: _Query, of_joins: Sequence[Pushed]) -> Sequence[int] | None:
        filters = [*query.filters, *of_joins]
        places = self._safely(self._pruned, filters) if filters else None
        if places is None or query.places is None:
            return query.places if places is None else places
        return sorted(set(places).intersection(query.places))

    def _safely(self, ask: Callable[P, R | None], *asked: P.args, **named: P.kwargs) -> R | None:
        """Return the answer, or None after an error, such as a manifest that can no longer be read:
        the query still returns the right rows, from all files."""
        try:
            return ask(*asked, **named)
        except Exception as e:
            _LOG.warning("Metadata leaves out no files of %s: %s", self._root, e)
            return None

    def _pruned(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        at_locations = [f for f in filters if names(f.predicate) == {LOCATION}]
        return self._at_locations(at_locations, self._prune.places(filters))

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

    @property
    def telling(self) -> str:
        """Return a line for each column by whose values a join can leave files out."""
        return "\n".join(self._prune.telling())

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


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
