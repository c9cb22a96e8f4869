"""Define the hooks of a micro-batch's commit: extra actions in the same commit, and work after it
(partition commit, upkeep).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import Action
from frazil.errors import InvalidInput
from frazil.spec.options import did_you_mean


@dataclass(frozen=True)
class MicroBatch:
    """Identify a micro-batch of a streaming query and the table that it goes to.

    `watermark_ms`: the query's event-time watermark when the batch was planned, in milliseconds
    since 1970-01-01 UTC; None: the query has none. `last`: no further batch follows in this run
    (bounded input has ended). `wap_id`: the batch's snapshot is only staged, under this id
    (write-audit-publish), and `branch` does not move. `digest`: of the offsets at which the batch
    ends (`sink.offsets`).
    """

    query_id: str
    batch_id: int
    name: str
    backend: CatalogBackend
    branch: str
    watermark_ms: int | None = None
    last: bool = False
    wap_id: str | None = None
    digest: str | None = None


class BatchHook(Protocol):
    """Take part in the commit of each micro-batch. Every method must be safe to repeat: a batch is
    replayed after a crash at any point.
    """

    def actions(self, batch: MicroBatch, table: LoadedTable) -> Sequence[Action]:
        """Return the actions to commit after those that add the batch's rows, in the same commit."""

    def committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        """Do the work that follows the batch's commit. Called with the table's newest state after
        every batch, also after one that was committed before (a replay) and one that held no rows.
        """


_METHODS = ("actions", "committed")
_HINT = "A hook is an object with the methods actions(batch, table) and committed(batch, table)."


def checked_hooks(hooks: object) -> tuple[BatchHook, ...]:
    """Check `hooks=` of a streaming write, before its query starts. Raises InvalidInput, naming the
    hook, for one that lacks a method or has one that cannot be called with (batch, table).
    """
    if not isinstance(hooks, list | tuple):
        raise InvalidInput(f"hooks is a list of hooks, not {hooks!r}.", hint=_HINT)
    for hook in hooks:
        for name in _METHODS:
            method = getattr(hook, name, None)
            if method is None:
                own = [n for n in dir(hook) if not n.startswith("_")]
                near = did_you_mean(name, own).replace("Did you mean", "Is it").rstrip()
                raise InvalidInput(f"The hook {hook!r} has no method {name}.{near}", hint=_HINT)
            if not _takes_two(method):
                raise InvalidInput(
                    f"{name} of the hook {hook!r} cannot be called with (batch, table): it is {method!r}.",
                    hint=_HINT,
                )
    return tuple(hooks)


def _takes_two(method: object) -> bool:
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a method that is written in C says nothing of its parameters
        return True
    return True
