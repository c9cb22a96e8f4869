"""Map a function over groups of files: the `Runner` protocol and its in-process implementation (for
Spark tasks, and rows that pass between tasks, see `frazil.spark.tasks`).

A task learns from `current_place` which group and attempt it is. File names carry both, so that
each attempt of a group has files of its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from frazil.tasks.in_order import default_workers, map_in_order

G = TypeVar("G")
R = TypeVar("R")
_attempts = itertools.count()


@dataclass(frozen=True)
class Place:
    """Describe where a task runs. `partition`: number of the group. `task`: number of the attempt,
    unique within an operation. `workers`: threads that the task may use. `share`: number of tasks
    that run in this process at once and share its memory. `stopped`: set once the results of the
    tasks are not wanted any more, because another task failed or the user interrupted."""

    partition: int = 0
    task: int = 0
    workers: int | None = None
    share: int = 1
    stopped: threading.Event | None = None

    def go_on(self) -> None:
        """Raise CancelledError where the result of the task is not wanted any more. Long tasks call
        it now and then.
        """
        if self.stopped is not None and self.stopped.is_set():
            raise CancelledError


class Runner(Protocol):
    """Run work on groups. `run` yields the results in the order of the groups; `work` must be
    picklable: a `functools.partial` of a function of a module.

    `parallelism`: number of groups worked on at once. `repeats`: some group may have been tried
    more than once, so that files may exist that no result names. `linger`: seconds during which
    such a file may still appear, from work that was asked to stop.
    """

    @property
    def parallelism(self) -> int:
        """Return the number of groups worked on at once."""

    @property
    def repeats(self) -> bool:
        """Tell whether some group may have been tried more than once."""

    @property
    def linger(self) -> float:
        """Return for how many seconds a file of stopped work may still appear."""

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        """Run the work on each group, and yield the results in the order of the groups. Raises the
        error of a group whose work fails."""


@runtime_checkable
class ExchangingRunner(Runner, Protocol):
    """Run work on groups whose rows pass from tasks to other tasks, on several machines."""

    def exchange(
        self,
        divide: Callable[[G], Iterator[tuple[int, pa.RecordBatch]]],
        groups: Sequence[G],
        work: Callable[[Iterator[pa.RecordBatch]], R],
        parts: int,
    ) -> list[R]:
        """Divide the rows of each group among parts, work on each part that has rows, and return
        the results in the order of the parts. A part's batches come in the order of the groups, and
        in that in which `divide` has yielded them."""


@dataclass(frozen=True)
class InProcess(Runner):
    """Run groups in threads of this process, each group once. `workers` None: one thread per core."""

    workers: int | None = None

    @property
    def parallelism(self) -> int:
        return self.workers or default_workers()

    @property
    def repeats(self) -> bool:
        return False

    @property
    def linger(self) -> float:
        return 0.0

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        at_once = max(1, min(self.parallelism, len(groups)))
        threads = max(1, self.parallelism // at_once)
        stopped, errors = threading.Event(), list[BaseException]()

        def run_group(numbered_group: tuple[int, G]) -> R:
            with place(Place(numbered_group[0], next(_attempts), threads, at_once, stopped)):
                try:
                    return work(numbered_group[1])
                except BaseException as error:
                    errors.append(error)
                    stopped.set()
                    raise

        try:
            yield from map_in_order(run_group, enumerate(groups), at_once, abandon=stopped.set)
        except CancelledError:
            raise errors[0] from None  # the error because of which the others were stopped


_PLACE: contextvars.ContextVar[Place] = contextvars.ContextVar("frazil_place", default=Place())  # noqa: B039 (frozen)


def current_place() -> Place:
    """Return where the calling task runs; outside of a task, group 0."""
    return _PLACE.get()


@contextlib.contextmanager
def place(here: Place) -> Iterator[None]:
    """Set the result of `current_place` within the block."""
    token = _PLACE.set(here)
    try:
        yield
    finally:
        _PLACE.reset(token)
