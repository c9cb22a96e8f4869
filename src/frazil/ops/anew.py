"""Stage a change of rows such that the commit can plan it anew (`commit.planned_change`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from frazil.commit.actions import Action, MetadataChange
from frazil.commit.planned_change import PlannedChange
from frazil.ops.stage import StagedWrite
from frazil.ops.step import Step
from frazil.spec.metadata import TableMetadata


def staged_change(step: Step, work: Callable[[Step], StagedWrite]) -> StagedWrite:
    """Stage what `work` makes of a step. Where the commit finds that maintenance has moved rows to
    other files meanwhile, it calls `work` again with the step on the table as it is then; the
    metrics of the staged write become those of the last call.

    What `work` reads beside the table has to be there until the end of the operation
    (`Step.resources`).
    """
    staged = work(step)
    if not staged.actions:
        return staged
    metrics = dict(staged.metrics)

    def anew(metadata: TableMetadata, start: int | None, own: frozenset[int]) -> StagedWrite:
        now = replace(
            step,
            to=step.to.with_metadata(metadata),
            start=start,
            staged=own,
            started=time.perf_counter(),
        )
        again = work(now)
        metrics.clear()
        metrics.update(again.metrics)
        return replace(again, actions=tuple(_without_metadata_changes(again)))

    planned = replace(staged, actions=tuple(_without_metadata_changes(staged)))
    changes: list[Action] = [a for a in staged.actions if isinstance(a, MetadataChange)]
    action = PlannedChange(planned, anew, step.to.branch, step.read)
    return replace(staged, actions=(*changes, action), metrics=metrics)


def _without_metadata_changes(staged: StagedWrite) -> list[Action]:
    """Leave out the changes of schema: they are actions of their own, which the commit applies
    before.
    """
    return [a for a in staged.actions if not isinstance(a, MetadataChange)]
