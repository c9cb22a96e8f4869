"""Random choices that the generators of random steps share."""

from __future__ import annotations

import random

from tests.model.state import State, value
from tests.model.steps import Rows
from tests.model.values import KINDS

MODES = ("copy-on-write", "merge-on-read")


def new_rows(rng: random.Random, state: State, count: int, keys: list[int] | None = None) -> Rows:
    found = []
    for n in range(count):
        row = {c.name: value(rng, c, KINDS) for c in state.columns}
        found.append({**row, "k": keys[n] if keys else state.keys + n + 1})
    return tuple(found)


def branch_of(rng: random.Random, state: State) -> str:
    return rng.choice(["main", "main", "main", *state.heads])


def mode_of(rng: random.Random, state: State) -> str | None:
    return rng.choice([None, None, *(MODES if state.version > 1 else MODES[:1])])
