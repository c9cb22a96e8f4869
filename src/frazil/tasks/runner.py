"""Work on groups of files, by whoever has slots: a Runner maps a function over groups. In process here; tasks of Spark in `spark.run`.

A task learns where it runs from `current_place`, since names of files carry it: attempts of one group can be told apart afterwards.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from frazil.tasks.in_order import default_workers, map_in_order

G = TypeVar("G")
R = TypeVar("R")
_attempts = itertools.count()


@dataclass(frozen=True)
class Place:
    """`partition`: number of the group. `task`: number of the attempt, different for every attempt of an operation.
    `workers`: threads the task may use. `share`: tasks that run beside it in this process, itself included, and divide its memory."""

    partition: int = 0
    task: int = 0
    workers: int | None = None
    share: int = 1


class Runner(Protocol):
    """`run` gives the results in the order of the groups. `work` is picklable: a `functools.partial` of a function of a module.

    `parallelism`: groups worked on at once. `repeats`: some group may have been tried more than once, so that files may lie about which
    no result names. `linger`: seconds for which such a file may still come, from work that has been ended.
    """

    @property
    def parallelism(self) -> int: ...

    @property
    def repeats(self) -> bool: ...

    @property
    def linger(self) -> float: ...

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]: ...


@dataclass(frozen=True)
class InProcess:
    """Threads of this process, None: one a core. Every group is worked on once."""

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

        def one(numbered: tuple[int, G]) -> R:
            with place(Place(numbered[0], next(_attempts), threads, at_once)):
                return work(numbered[1])

        yield from map_in_order(one, enumerate(groups), at_once)


_PLACE: contextvars.ContextVar[Place] = contextvars.ContextVar("frazil_place", default=Place())  # noqa: B039 (frozen)


def current_place() -> Place:
    """Where the calling task runs; outside of any, group 0."""
    return _PLACE.get()


@contextlib.contextmanager
def place(here: Place) -> Iterator[None]:
    """What `current_place` says inside."""
    token = _PLACE.set(here)
    try:
        yield
    finally:
        _PLACE.reset(token)
