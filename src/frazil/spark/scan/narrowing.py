"""Which files of a read are left by filters that Spark hands down when the read runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.errors import FrazilError
from frazil.expr.bind import bind, conjunction
from frazil.expr.bound import Bound
from frazil.scan.narrow import may_hold
from frazil.scan.plan import Plan
from frazil.spark.scan.file_index import Kept
from frazil.spark.scan.pushed import Pushed
from frazil.spec.schema import Schema

_KEPT = 8


@dataclass(frozen=True, eq=False)
class Narrowing:
    """Of one read, which may be several scans; what was asked last is known."""

    plan: Plan
    _known: dict[Bound, frozenset[str] | None] = field(default_factory=dict, repr=False)

    def kept(self, paths: Sequence[str], sources: Mapping[int, str]) -> Kept:
        """Of a scan of these files that calls columns as `sources` says, by their ids."""
        schema = Schema(*(replace(f, name=sources[f.field_id]) for f in self.plan.schema.fields if f.field_id in sources))

        def kept(filters: Sequence[Pushed]) -> list[int] | None:
            bound = []
            for f in filters:
                with contextlib.suppress(FrazilError):
                    bound.append(bind(f.predicate, schema, zone=f.zone))
            found = self._may_hold(conjunction(bound), schema)
            return None if found is None else [n for n, path in enumerate(paths) if path in found]

        return kept

    def _may_hold(self, row_filter: Bound, schema: Schema) -> frozenset[str] | None:
        if row_filter not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)), None)
            self._known[row_filter] = may_hold(self.plan, row_filter, schema)
        return self._known.get(row_filter)
