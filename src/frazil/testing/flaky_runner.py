"""Run groups of tasks with faults: repeated, killed and in another order, as on a cluster that
loses workers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.tasks.runner import InProcess, Runner

G = TypeVar("G")
R = TypeVar("R")


class TaskKilled(Exception):
    """Stand for a task whose worker was lost and that is not tried again."""


@dataclass
class FlakyRunner(Runner):
    """Run groups in this process (see `frazil.tasks.runner.Runner`), with faults.

    `repeat`: the numbers, from 0, of the groups that run twice with the first result lost, as when
    a worker dies after its work or Spark speculates. `kill`: the numbers of the groups after whose
    work `TaskKilled` is raised. `seed`: shuffles the order in which groups run; results still come
    in the order of the groups, as a Runner must return them. `workers`: the number of threads;
    None: one per core. `fired`: (fault, number of group) pairs, so that a test can prove that its
    fault happened.
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
            self.fired += [
                ("reorder", number) for place, number in enumerate(order) if place != number
            ]

        def run_group(number: int) -> R:
            result = work(groups[number])
            if number in self.kill:
                self.fired.append(("kill", number))
                raise TaskKilled(f"group {number} was killed after its work")
            return result

        repeated = [number for number in order if number in self.repeat]
        for number, _ in zip(
            repeated, InProcess(self.workers).run(run_group, repeated), strict=True
        ):
            self.fired.append(("repeat", number))
        results = dict(zip(order, InProcess(self.workers).run(run_group, order), strict=True))
        yield from (results[number] for number in range(len(groups)))
