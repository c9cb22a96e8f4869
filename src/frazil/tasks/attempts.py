"""Clean up after tasks that were tried more than once: remove all files of an operation that its
result does not name.

File names carry the operation's id and the attempt. A task that failed, was killed, or ran twice at
the same time (speculation) leaves files that no result names. They are orphans: harmless, but they
take space until they are removed. A file counts if the result of its task names it: Spark takes the
result of one attempt per task, and the caller passes the names to `Attempts.remove_unreported`.
(Spark's own Parquet writer does without this module: its committer keeps one attempt, see
`spark.write.write_frame`.)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from frazil.errors import CommitStateUnknownException
from frazil.storage import Storage
from frazil.storage.locations import base_name, data_root
from frazil.tasks.runner import Runner

_PAUSE = 0.5


class WriteOperation(Protocol):
    """Describe a write whose files carry `operation_id` in their names, in the data folder of the
    table at `location`.
    """

    @property
    def storage(self) -> Storage: ...

    @property
    def location(self) -> str: ...

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def operation_id(self) -> str: ...


def _at_once() -> float:
    return 0.0


@dataclass
class Attempts:
    """Track the task attempts of one operation, and remove the files of those that did not count.

    `speculates`: a task may run twice at the same time, and the superfluous copy may still be
    writing. `retried`: some task was tried more than once. `settle`: waits until running tasks have
    ended, and returns the seconds during which files of theirs may still appear.
    """

    operation: WriteOperation
    speculates: bool = False
    settle: Callable[[], float] = _at_once
    retried: bool = False

    def remove_unreported(self, reported: Iterable[str]) -> None:
        """Remove the files that no result names, after success. The table's folder is listed only
        if there may be such files.
        """
        if self.speculates:
            _leave_only(self.operation, reported, self.settle())
        elif self.retried:
            _leave_only(self.operation, reported, 0.0)

    def remove_all(self) -> None:
        """Remove every file of the operation, after certain failure. Never call it when the outcome
        of the commit is unknown, since then every file may be part of the table."""
        _leave_only(self.operation, (), self.settle())

    @contextlib.contextmanager
    def removing_files_on_error(self) -> Iterator[None]:
        """Remove every file that the operation has written when the block raises an error."""
        try:
            yield
        except BaseException:
            self.remove_all()
            raise


def attempts_of(operation: WriteOperation, runner: Runner) -> Attempts:
    """Make the attempts of an operation whose groups a runner has finished; the runner is asked now
    whether it repeated any.
    """
    linger = runner.linger
    return Attempts(operation, linger > 0, lambda: linger, runner.repeats)


@contextlib.contextmanager
def removing_files_on_error(
    operation: WriteOperation, runner: Runner, *, commits: bool = False
) -> Iterator[None]:
    """Remove every file that a runner's groups have written for the operation when the block raises
    an error.

    `commits`: the block also commits the operation. Then nothing is removed after a
    CommitStateUnknownException, nor after an interrupt, which may come after the commit: every file
    may be part of the table.
    """
    try:
        yield
    except BaseException as error:
        if not commits or (
            isinstance(error, Exception) and not isinstance(error, CommitStateUnknownException)
        ):
            attempts_of(operation, runner).remove_all()
        raise


def _leave_only(operation: WriteOperation, committed: Iterable[str], linger: float) -> None:
    """Remove the operation's files that are not kept, and keep looking for `linger` seconds, since
    tasks that were told to stop may finish a file first. Best effort: a file that is missed becomes
    an orphan.

    Files are compared by base name, which is unique within an operation, since a store may list a
    location in another spelling than the one it was written under.
    """
    names_to_keep = frozenset(base_name(k) for k in committed)
    with contextlib.suppress(Exception):
        storage = operation.storage
        root = data_root(operation.location, operation.properties)
        until = time.monotonic() + linger
        while True:
            locations = (
                f.location for f in storage.list(root) if operation.operation_id in f.location
            )
            storage.delete_many([f for f in locations if base_name(f) not in names_to_keep])
            if time.monotonic() >= until:
                return
            time.sleep(_PAUSE)
