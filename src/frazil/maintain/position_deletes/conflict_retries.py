"""Commit maintenance of delete files beside other writers: after a conflict the work is done again
on the newest state, up to a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.catalog import LoadedTable
from frazil.commit.context import remove
from frazil.commit.queue import turn
from frazil.commit.replace_deletes import ReplaceDeletes
from frazil.commit.table_commit import commit
from frazil.errors import InvalidInput, ValidationException
from frazil.maintain.procedure import MaintainedTable, newest_readable
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import naming
from frazil.ops.step import Step
from frazil.ops.target import WriteTarget
from frazil.scan.deletes import DeleteEntries, DeleteIndex, Reach
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import COMMIT_RETRY
from frazil.storage import Storage
from frazil.tasks.attempts import attempts_of, removing_files_on_error

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ready:
    """Hold a replacement of delete files that is ready to be committed. `written`: the locations of
    its new files.
    """

    action: ReplaceDeletes
    written: tuple[str, ...]


Work = Callable[[Step], Ready | None]
"""Read a state of the table and write new files; None: there is nothing to do. After an error none
of its files is left.
"""


def newest(table: MaintainedTable) -> LoadedTable:
    """Load the newest state of a table; of a table that is read-only, return the state that it was
    opened with. Raises ValidationError for a table that was dropped and created again."""
    return newest_readable(table).loaded


def step_of(
    table: MaintainedTable, loaded: LoadedTable, branch: str, options: WriteOptions
) -> Step:
    """Begin to work on a state of a branch. Raises InvalidInput for a branch that does not exist."""
    metadata = loaded.metadata
    if branch not in metadata.refs and not (
        branch == "main" and metadata.current_snapshot_id is None
    ):
        text = f"There is no branch {branch!r}."
        hint = f"The branches and tags are {', '.join(sorted(metadata.refs)) or 'none yet'}."
        raise InvalidInput(text, hint=hint, table=metadata.location)
    to = WriteTarget(
        metadata, loaded.storage, branch, {}, options, known_columns=metadata.last_column_id
    )
    head = metadata.branch_head(branch)
    settings = IN_PROCESS.settings(table.engine.settings().case_sensitive)
    start = head.snapshot_id if head else None
    return Step(to, IN_PROCESS, table.runner, start=start, settings=settings)


def until_committed(
    table: MaintainedTable,
    branch: str,
    options: WriteOptions,
    work: Work,
    loaded: LoadedTable | None = None,
) -> bool:
    """Do the work on the newest state and commit it; where another writer's commit came in between
    and matters, do it again, the last time in the turn of the commit, for which the writers of this
    machine wait.

    `loaded`: the state to begin with, if it was loaded already. Returns whether there was anything
    to commit. Raises ValidationException when the work met a conflict each time (as often as
    commit.retry.num-retries says), CommitFailedException, CommitStateUnknownException. Unless the
    outcome is unknown, no file is left that is not part of the table.
    """
    backend = table.writable
    loaded = loaded or newest(table)
    written: dict[str, None] = {}
    conflicts = 0
    retries = COMMIT_RETRY.retries.of(loaded.metadata.properties)
    with ExitStack() as cleanup:
        while True:
            step = step_of(table, loaded, branch, options)
            cleanup.enter_context(
                removing_files_on_error(step.write_context, table.runner, commits=True)
            )
            if conflicts and conflicts == retries:
                cleanup.enter_context(turn(loaded))
            ready = work(step)
            if ready is None:
                remove(loaded.storage, written, "deletes that were merged by others")
                return False
            attempts_of(step.write_context, table.runner).remove_unreported(ready.written)
            written.update(dict.fromkeys(ready.written))
            try:
                with naming(table.name, loaded.metadata.location):
                    outcome = commit(
                        backend, loaded, [ready.action], environment=table.engine.facts()
                    )
                break
            except ValidationException as conflict:
                if conflicts >= retries:
                    raise
                conflicts += 1
                log.info(
                    "Another writer has committed to %s; the work is done again for its changes: %s",
                    table.name,
                    conflict,
                )
                loaded = newest(table)
    remove(
        loaded.storage,
        [w for w in written if w not in ready.written],
        "an attempt that met a conflict",
    )
    table.on_commit(outcome.table)
    return True


def within(metadata: TableMetadata, earlier: int | None, branch: str) -> bool:
    """Tell whether the branch still continues from a snapshot that was read earlier: it was not
    rolled back meanwhile.
    """
    head = metadata.branch_head(branch)
    return earlier is not None and head is not None and metadata.is_ancestor(earlier, head)


def unmatched(entries: DeleteEntries) -> DeleteIndex:
    """Look up the delete files of a snapshot without data files by their numbers: they apply to
    nothing.
    """
    none = np.zeros(0, np.int64)
    return DeleteIndex(
        entries,
        none,
        np.zeros((0, 2, 2), np.int64),
        None,
        Reach(none, none, none, none, none.astype(bool)),
    )


# Dry runs
# --------------------------------------------------------------------------------------------------


def written_nowhere(write: WriteContext) -> WriteContext:
    """Return the context of a write whose files go nowhere."""
    return replace(write, storage=Discarding(write.storage))


@dataclass
class Discarding:
    """Read from a store, and write nowhere: a dry run does the whole work, so that its numbers are
    those of the real run.
    """

    inner: Storage
    last: dict[str, bytes] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __reduce__(self) -> Any:
        return Discarding, (self.inner,)

    @contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[BytesIO]:
        sink = _Kept()
        yield sink
        # a writer may read back what its own last file holds
        self.last = {location: sink.getvalue()}

    def open_input(self, location: str) -> pa.NativeFile:
        held = self.last.get(location)
        return self.inner.open_input(location) if held is None else pa.BufferReader(held)

    def delete_many(self, locations: Iterable[str]) -> list[tuple[str, Exception]]:
        return []


class _Kept(BytesIO):
    """Keep the bytes when a writer closes its sink."""

    def close(self) -> None:
        pass
