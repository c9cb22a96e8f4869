"""What a transaction's table looks like before its commit: its staged actions applied, so that later steps can read what earlier ones made.

The snapshots seen here are never committed: the commit applies the actions again, and the manifests written for the look are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.commit.actions import Action
from frazil.commit.apply import apply_updates
from frazil.commit.cleanup import remove
from frazil.commit.context import Context
from frazil.commit.done_once import AlreadyDone
from frazil.commit.manifests import Output
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage


class Preview:
    """`metadata(actions)` may be called again as the list grows; each action is applied once."""

    def __init__(self, base: TableMetadata, storage: Storage):
        self._current, self._applied = base, 0
        self._context = Context(Output(storage), attempt=0)

    def metadata(self, actions: Sequence[Action]) -> TableMetadata:
        """The base with these actions applied. Raises what an action raises: the commit would fail with it as well."""
        for index in range(self._applied, len(actions)):
            self._context.begin(index)
            updates = actions[index].apply(self._current, self._context)
            assert not isinstance(updates, AlreadyDone), "marks are looked for at the commit"
            if updates:
                self._current = apply_updates(self._current, updates, now_ms=self._context.now_ms)
            self._applied = index + 1
        return self._current

    @property
    def snapshot_ids(self) -> frozenset[int]:
        """Snapshots that stand for those the transaction will make."""
        return frozenset(self._context.snapshot_ids())

    def remove(self) -> None:
        """Its manifests: no table will ever refer to them."""
        remove(self._context.storage, self._context.output.written, "a look at a transaction")
