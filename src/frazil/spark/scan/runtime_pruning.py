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
from frazil.scan.aggregates import from_statistics
from frazil.scan.narrow import FEW, may_hold
from frazil.scan.plan import Plan
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
