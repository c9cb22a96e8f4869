"""Prune the files of a scan by the filters that Spark passes to it when the query runs. Its names
of columns are those of the scan; `of_scan` binds them to field ids, so that columns renamed since
are found in each file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.errors import FrazilError
from frazil.expr.bind import bind, conjunction
from frazil.expr.bound import Bound
from frazil.scan.aggregates import distinct_values, from_statistics
from frazil.scan.narrow import FEW, may_hold, wholly
from frazil.scan.plan import Plan
from frazil.spark.scan.planned_files import DISTINCT, NamedAggregate
from frazil.spark.scan.pushed_filters import Pushed
from frazil.spec.schema import Schema

_MOST_ANSWERS = 8


@dataclass(frozen=True, eq=False)
class Narrowing:
    """Prune the files of one read, which may consist of several scans. The last answers are kept:
    the scans of a read get the same filters, and a DataFrame is often used more than once.
    """

    plan: Plan
    _answers: dict[Bound, frozenset[str] | None] = field(default_factory=dict, repr=False)

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


@dataclass(frozen=True, eq=False)
class PrunedScan:
    """Prune the files of one scan of a read. `schema`: its columns, as it names them."""

    narrowing: Narrowing = field(repr=False)
    paths: Sequence[str] = field(repr=False)
    schema: Schema = field(repr=False)

    @property
    def tells_aggregates(self) -> bool | None:
        """Tell what the options of the read say."""
        return self.narrowing.plan.options.aggregates

    def places(self, filters: Sequence[Pushed]) -> list[int] | None:
        """Return the places of the files that may hold rows for all filters; None: all of them."""
        bound = []
        for f in filters:
            with contextlib.suppress(FrazilError):
                # a filter that cannot be bound prunes nothing; Spark still applies it to rows
                bound.append(bind(f.predicate, self.schema, zone=f.zone))
        row_filter = conjunction(bound)
        files = self.narrowing.may_hold(row_filter, self.schema)
        return None if files is None else [n for n, path in enumerate(self.paths) if path in files]

    def held(self, filters: Sequence[Pushed]) -> Sequence[int] | None:
        """Return the places of the files all of whose rows match all filters, where partitions tell
        that no row of another file does; None: they do not."""
        try:
            bound = conjunction([bind(f.predicate, self.schema, zone=f.zone) for f in filters])
        except FrazilError:
            return None
        wanted = wholly(self.narrowing.plan, bound, self.schema)
        if wanted is None:
            return None
        return [n for n, path in enumerate(self.paths) if path in wanted]

    def aggregates(
        self, asked: Sequence[NamedAggregate], places: Sequence[int] | None
    ) -> dict[NamedAggregate, int | None]:
        """Return those of the aggregates over files that metadata tells."""
        ids = {f.name: f.field_id for f in self.schema.fields if f.field_type.is_primitive}
        by_id = {(kind, ids[name]): (kind, name) for kind, name in asked if name in ids}
        plan, paths = self.narrowing.plan, self.paths
        chosen = paths if places is None else [paths[n] for n in places]
        answers = from_statistics(plan, chosen, self.schema, [a for a in by_id if a[0] != DISTINCT])
        ndv = {(DISTINCT, i): count for i, count in distinct_values(plan).items()}
        return {
            name: answers.get(a, ndv.get(a))
            for a, name in by_id.items()
            if a in answers or a in ndv
        }

    def telling(self) -> list[str]:
        """Return the columns by whose values files can be left out."""
        if len(self.paths) <= FEW:
            return []
        return [f.name for f in self.schema.fields if f.field_type.is_primitive]
