"""Apply a transaction's staged actions before its commit, so that later steps of it can read what
earlier ones wrote.

The snapshots of a preview are never committed: the commit applies the actions again, and the
preview's manifests are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.commit.actions import Action
from frazil.commit.apply import apply_updates
from frazil.commit.context import Context, remove
from frazil.commit.done_once import AlreadyDone
from frazil.commit.manifests import Output
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage


class Preview:
    """Hold a table's metadata with staged actions applied. As the list of actions grows, each
    action is applied once.
    """

    def __init__(self, base: TableMetadata, storage: Storage):
        self._current, self._applied = base, 0
        self._context = Context(Output(storage), attempt=0)

    def metadata(self, actions: Sequence[Action]) -> TableMetadata:
        """Return the table's metadata with these actions applied. Raises what an action raises, as
        the commit would.
        """
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
        """Return the ids of the preview's snapshots, which the commit replaces by snapshots of its
        own.
        """
        return frozenset(self._context.snapshot_ids())

    def remove(self) -> None:
        """Remove the manifests of the preview, which no table refers to."""
        remove(self._context.storage, self._context.output.written, "the preview of a transaction")
