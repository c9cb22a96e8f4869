"""A Runner whose groups are tried more than once, are killed and come in another order, as on a cluster that has a bad day."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.tasks.runner import InProcess

G = TypeVar("G")
R = TypeVar("R")


class TaskKilled(Exception):
    """Stands for a worker that was lost for good."""


@dataclass
class FlakyRunner:
    """Works on groups in this process, and lists in `fired` what went wrong, so that a test can prove its fault.

    `repeat`: numbers of groups (from 0) that are worked on twice, and the first result is lost, as when a worker dies after its work or
    speculation runs a copy. `kill`: numbers of groups after whose work `TaskKilled` is raised. `seed`: groups are worked on in the order
    that this seed gives; results come in the order of the groups, as a Runner promises.
    """

    repeat: Collection[int] = ()
    kill: Collection[int] = ()
    seed: int | None = None
    workers: int | None = None
    fired: list[tuple[str, int]] = field(default_factory=list)

    @property
    def parallelism(self) -> int:
        return InProcess(self.workers).parallelism

    @property
    def repeats(self) -> bool:
        return any(fault == "repeat" for fault, _ in self.fired)

    @property
    def linger(self) -> float:
        return 0.0

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        order = list(range(len(groups)))
        if self.seed is not None:
            random.Random(self.seed).shuffle(order)
            self.fired += [("reorder", number) for at, number in enumerate(order) if at != number]

        def one(number: int) -> R:
            result = work(groups[number])
            if number in self.kill:
                self.fired.append(("kill", number))
                raise TaskKilled(f"group {number} was killed after its work")
            return result

        doubled = [number for number in order if number in self.repeat]
        for number, _ in zip(doubled, InProcess(self.workers).run(one, doubled), strict=True):
            self.fired.append(("repeat", number))
        results = dict(zip(order, InProcess(self.workers).run(one, order), strict=True))
        yield from (results[number] for number in range(len(groups)))
