"""Planned files, narrowed by a filter that came later."""

from __future__ import annotations

from dataclasses import replace

from frazil.expr.bound import Bound, BoundNot, Constant, NullTest, conjuncts, references
from frazil.scan.manifests import is_data, manifests_of
from frazil.scan.plan import Plan, plan_manifests
from frazil.spec.schema import Schema

FEW = 16  # files: reading their footers takes no longer than asking manifests again


def may_hold(plan: Plan, row_filter: Bound, schema: Schema) -> frozenset[str] | None:
    """Locations; of the plan's files only these may hold rows for which the filter is TRUE as well. None: nothing new is known.

    `schema`: the one `row_filter` is bound to, with the table's field ids. Raises what `plan` does.
    """
    if plan.storage is None or plan.snapshot is None or len(plan) <= FEW or isinstance(row_filter, Constant):
        return None
    if all(_is_told(part, plan) for part in conjuncts(row_filter)):
        return None
    data = [m for m in manifests_of(plan.metadata, plan.snapshot, plan.storage) if is_data(m)]
    options = replace(plan.options, with_stats=False)
    groups, _ = plan_manifests(plan.metadata, plan.storage, data, row_filter, schema, options, plan.report)
    return frozenset(p for g in groups for p in g.table.column("file_path").to_pylist())


def _is_told(part: Bound, plan: Plan) -> bool:
    """Whether the plan's own filter says so: Spark hands that down with the rest, and adds that its columns are not null."""
    if part in conjuncts(plan.row_filter):
        return True
    is_not_null = isinstance(part, BoundNot) and isinstance(part.child, NullTest)
    return is_not_null and references(part).keys() <= references(plan.row_filter).keys()
