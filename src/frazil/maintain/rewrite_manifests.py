"""Rewrite manifests so that reads open few of them: sorted by partition, of
commit.manifest.target-size-bytes each (Java's procedure).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.commit.rewrite_manifests import RewriteManifests, plan_manifests
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_state
from frazil.maintain.progress import ProgressCallback, progress


@dataclass(frozen=True, kw_only=True, repr=False)
class RewriteManifestsResult(ProcedureResult):
    """Count the manifests that were replaced (`rewritten_manifests_count`), and those that took
    their place (`added_manifests_count`)."""

    rewritten_manifests_count: int = 0
    added_manifests_count: int = 0


def rewrite_manifests(
    table: MaintainedTable,
    spec_id: int | None = None,
    sort_by: Sequence[str] = (),
    *,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> RewriteManifestsResult:
    """Rewrite the data and delete manifests of one partition spec (None: the current one) on main,
    in one snapshot. No snapshot is made if the manifests are few and sorted already. Planning reads
    the manifest list, and no manifest."""
    started = time.monotonic()
    newest = newest_state(table, dry_run)
    groups = plan_manifests(newest.metadata, newest.storage, spec_id, sort_by)
    if groups and not dry_run:
        with progress(
            sum(len(g.manifests) for g in groups), "manifests rewritten", callback
        ) as shown:
            action = RewriteManifests(spec_id, tuple(sort_by), shown.advance)
            with newest.begin() as operation:
                operation.stage(action)
        groups = action.groups
    return RewriteManifestsResult(
        rewritten_manifests_count=sum(len(g.manifests) for g in groups),
        added_manifests_count=sum(g.added for g in groups),
        dry_run=dry_run,
        seconds=time.monotonic() - started,
        bytes_rewritten=sum(m.manifest_length for g in groups for m in g.manifests),
    )
