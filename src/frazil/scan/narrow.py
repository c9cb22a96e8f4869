"""Narrow a finished plan by a filter that arrives later, as Spark's runtime filters and pushed-down
conditions do.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from frazil.expr.bind import conjunction
from frazil.expr.bound import Bound, BoundNot, Constant, NullTest, conjuncts, references
from frazil.expr.building import from_numpy
from frazil.scan.manifests import is_data, manifests_of
from frazil.scan.plan import Plan, plan_manifests
from frazil.scan.prune import file_outcomes
from frazil.scan.tasks import WHOLLY, PlannedFiles
from frazil.spec.schema import Schema

FEW = 16  # files; reading the footers of so few takes no longer than pruning manifests again


def may_hold(plan: Plan, row_filter: Bound, schema: Schema) -> frozenset[str] | None:
    """Return the paths of the planned files that may hold rows for which this filter is TRUE as
    well; None: it excludes nothing new.

    `schema`: the one `row_filter` is bound to, with the table's field ids. Raises the errors of
    `plan`.
    """
    if (
        plan.storage is None
        or plan.snapshot is None
        or len(plan) <= FEW
        or isinstance(row_filter, Constant)
    ):
        return None
    if all(_is_told(part, plan) for part in conjuncts(row_filter)):
        return None
    if plan.by_server is not None:
        # manifests may be closed to whoever is to ask the server for plans
        matching = [_may_match(group, row_filter, schema, plan) for group in plan.groups]
        return frozenset(p for t in matching for p in t.column("file_path").to_pylist())
    groups = planned_again(plan, row_filter, schema)
    return frozenset(p for g in groups for p in g.table.column("file_path").to_pylist())


def wholly(plan: Plan, row_filter: Bound, schema: Schema) -> frozenset[str] | None:
    """Return the paths of the planned files for all of whose rows this filter is TRUE, where by the
    partitions it is TRUE for no row of another file; None: they do not tell that. `schema`: the one
    `row_filter` is bound to, with the table's field ids."""
    columns = references(row_filter).keys()
    paths: list[str] = []
    for group in plan.groups:
        if not columns <= {f.source_id for f in group.spec.fields}:
            return None
        masks = file_outcomes(group.table, row_filter, schema, group.spec, plan.metadata.snapshots)
        may_match = (masks & 1).astype(bool)
        if (masks[may_match] != WHOLLY).any():
            return None
        paths += group.table.column("file_path").filter(from_numpy(may_match)).to_pylist()
    return frozenset(paths)


def any_may_hold(plan: Plan, row_filter: Bound) -> bool:
    """Tell whether any planned file may hold rows for which this filter, bound to the plan's
    schema, is TRUE as well. Raises the errors of `plan`."""
    if plan.storage is None or plan.snapshot is None or plan.by_server is not None:
        return any(len(_may_match(group, row_filter, plan.schema, plan)) for group in plan.groups)
    both = conjunction([plan.row_filter, row_filter])
    return any(len(group.table) for group in planned_again(plan, both, plan.schema))


def planned_again(
    plan: Plan, row_filter: Bound, schema: Schema, with_stats: bool = False
) -> tuple[PlannedFiles, ...]:
    """Plan the data files of a plan's snapshot by another filter, bound to `schema`, from the
    manifests, which a plan by a server may keep closed. `with_stats`: keep their statistics."""
    assert plan.storage is not None and plan.snapshot is not None
    data = [m for m in manifests_of(plan.metadata, plan.snapshot, plan.storage) if is_data(m)]
    options = replace(plan.options, with_stats=with_stats)
    groups, _ = plan_manifests(
        plan.metadata, plan.storage, data, row_filter, schema, options, plan.report
    )
    return groups


def _may_match(group: PlannedFiles, row_filter: Bound, schema: Schema, plan: Plan) -> pa.Table:
    masks = file_outcomes(group.table, row_filter, schema, group.spec, plan.metadata.snapshots)
    return group.table.filter(from_numpy((masks & 1).astype(bool)))


def _is_told(part: Bound, plan: Plan) -> bool:
    """Tell whether the plan's own filter implies this part. Spark passes the plan's filter down
    again, and adds IS NOT NULL for its columns."""
    if part in conjuncts(plan.row_filter):
        return True
    is_not_null = isinstance(part, BoundNot) and isinstance(part.child, NullTest)
    return is_not_null and references(part).keys() <= references(plan.row_filter).keys()
