"""Prune the files of a scan by the filters that Spark passes to it when the query runs. Its names
of columns are those of the scan; `of_scan` binds them to field ids, so that columns renamed since
are found in each file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.errors import FrazilError
from frazil.expr.bind import bind, conjunction
from frazil.expr.bound import Bound
from frazil.scan.aggregates import from_statistics
from frazil.scan.narrow import FEW, may_hold
from frazil.scan.plan import Plan
from frazil.spark.scan.pushed_filters import Pushed
from frazil.spec.schema import Schema

_MOST_ANSWERS = 8
_SAME_QUERY_SECONDS = 1.0  # in which the scans of one query ask for their files
OnRun = Callable[[Sequence[Bound], frozenset[str] | None], None]


@dataclass(frozen=True, eq=False)
class Narrowing:
    """Prune the files of one read, which may consist of several scans. The last answers are kept:
    the scans of a read get the same filters, and a DataFrame is often used more than once.

    `on_run`: called when a query asks for its files, with its filters and the files that these
    leave (None: all). `scans`: those of the read whose files are planned, so that Spark asks for
    them; none where Spark was given paths.
    """

    plan: Plan
    on_run: OnRun | None = field(default=None, repr=False)
    scans: list[Any] = field(default_factory=list, repr=False)
    _answers: dict[Bound, frozenset[str] | None] = field(default_factory=dict, repr=False)
    _runs: dict[Bound, float] = field(default_factory=dict, repr=False)

    @property
    def is_asked(self) -> bool:
        """Tell whether Spark asks for the files of a scan when a query runs."""
        return bool(self.scans)

    def of_scan(self, paths: Sequence[str], sources: Mapping[int, str]) -> PrunedScan:
        """Return what prunes the files of one scan. `sources`: the scan's name of each column, by
        field id.
        """
        schema = Schema(
            *(
                replace(f, name=sources[f.field_id])
                for f in self.plan.schema.fields
                if f.field_id in sources
            )
        )
        return PrunedScan(self, paths, schema)

    def may_hold(self, row_filter: Bound, schema: Schema) -> frozenset[str] | None:
        """Return the paths of the files that may hold rows for a filter; None: all of them."""
        if row_filter not in self._answers:
            while len(self._answers) >= _MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[row_filter] = may_hold(self.plan, row_filter, schema)
        return self._answers.get(row_filter)

    def report_run(self, row_filter: Bound, files: frozenset[str] | None) -> None:
        """Call `on_run` once per query: each scan of a query asks for its files, within a moment
        and with the same filters.
        """
        now, last = time.monotonic(), self._runs.get(row_filter)
        if self.on_run is None or (last is not None and now - last < _SAME_QUERY_SECONDS):
            return
        while len(self._runs) >= _MOST_ANSWERS:
            self._runs.pop(next(iter(self._runs)), None)
        self._runs[row_filter] = now
        self.on_run((row_filter,), files)


@dataclass(frozen=True, eq=False)
class PrunedScan:
    """Prune the files of one scan of a read. `schema`: its columns, as it names them."""

    narrowing: Narrowing = field(repr=False)
    paths: Sequence[str] = field(repr=False)
    schema: Schema = field(repr=False)

    def places(self, filters: Sequence[Pushed], runs: bool) -> list[int] | None:
        """Return the places of the files that may hold rows for all filters; None: all of them.
        `runs`: the query reads them now, so that the read is reported.
        """
        bound = []
        for f in filters:
            with contextlib.suppress(FrazilError):
                # a filter that cannot be bound prunes nothing; Spark still applies it to rows
                bound.append(bind(f.predicate, self.schema, zone=f.zone))
        row_filter = conjunction(bound)
        files = self.narrowing.may_hold(row_filter, self.schema)
        if runs:
            self.narrowing.report_run(row_filter, files)
        return None if files is None else [n for n, path in enumerate(self.paths) if path in files]

    def aggregates(self, asked: Sequence[tuple[str, str]]) -> list[int | None] | None:
        """Return aggregates over all files, as their statistics tell them; None where they do not."""
        ids = {f.name: f.field_id for f in self.schema.fields if f.field_type.is_primitive}
        if not all(name in ids for _, name in asked):
            return None
        by_id = [(kind, ids[name]) for kind, name in asked]
        return from_statistics(self.narrowing.plan, self.paths, self.schema, by_id)

    def telling(self, columns: Sequence[str]) -> list[str]:
        """Return those of the columns by whose values files can be left out."""
        fields = {f.name: f for f in self.schema.fields if f.field_type.is_primitive}
        return [name for name in columns if name in fields] if len(self.paths) > FEW else []
