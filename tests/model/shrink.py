"""A failing script made small: steps, rows, parts of conditions, partitions and properties are left
out as long as it fails alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.model.column_steps import AddColumn, RenameColumn
from tests.model.play import Mismatch, Script, play
from tests.model.sql import Expr, true
from tests.model.steps import AppendWider, Race, Transaction
from tests.model.values import Invalid


def shrunk(failure: Mismatch, seconds: float = 60, tries: int = 600) -> Mismatch:
    """The smallest failure of the same kind that was found."""
    end, best = time.monotonic() + seconds, failure
    better = True
    while better:
        better = False
        for candidate in smaller(best.script):  # type: ignore[attr-defined]
            tries -= 1
            if tries < 0 or time.monotonic() > end:
                return best
            if (found := fails(candidate)) and found.kind == failure.kind:
                best, better = found, True
                break
    return best


def fails(script: Script) -> Mismatch | None:
    try:
        play(replace(script, steps=()), script.steps)
    except Mismatch as e:
        return e
    except Invalid:
        return None
    except Exception:
        return None
    return None


def smaller(script: Script) -> Iterator[Script]:
    """Simpler scripts, the greatest cuts first."""
    steps, size = script.steps, len(script.steps) // 2
    names = {c.name for c in script.columns} | {n for step in steps for n in named(step)}
    if (tidy := tuple(only(step, names) for step in steps)) != steps:
        yield replace(script, steps=tidy)
    while size:
        for at in range(len(steps) - size, -1, -size):
            yield replace(script, steps=steps[:at] + steps[at + size :])
        size //= 2
    if script.partition_by:
        yield replace(script, partition_by=())
        yield from (
            replace(script, partition_by=script.partition_by[:n] + script.partition_by[n + 1 :])
            for n in range(len(script.partition_by))
        )
    yield from (
        replace(script, properties=script.properties[:n] + script.properties[n + 1 :])
        for n in range(len(script.properties))
    )
    yield from (
        replace(script, columns=script.columns[:n] + script.columns[n + 1 :])
        for n in range(1, len(script.columns))
    )
    for n, step in enumerate(steps):
        yield from (
            replace(script, steps=(*steps[:n], simpler, *steps[n + 1 :]))
            for simpler in simpler_steps(step)
        )


def named(step: Any) -> Iterator[str]:
    """Names that a step gives to columns."""
    if isinstance(step, Transaction | Race):
        yield from (name for inner in step.steps for name in named(inner))
    elif isinstance(step, AddColumn):
        yield step.column.name
    elif isinstance(step, RenameColumn | AppendWider):
        yield step.name


def only(step: Any, names: set[str]) -> Any:
    """Without values for columns that the script never has."""
    if isinstance(step, Transaction | Race):
        return replace(step, steps=tuple(only(inner, names) for inner in step.steps))
    if not hasattr(step, "rows"):
        return step
    return replace(
        step, rows=tuple({k: v for k, v in row.items() if k in names} for row in step.rows)
    )


def simpler_steps(step: Any) -> Iterator[Any]:
    for f in fields(step):
        held = getattr(step, f.name)
        match held:
            case Expr():
                if held.text != "true":
                    yield replace(step, **{f.name: true()})
                yield from (replace(step, **{f.name: part}) for part in held.parts)
            case tuple() if len(held) > 1 or (f.name == "steps" and held):
                for n in range(len(held)):
                    yield replace(step, **{f.name: held[:n] + held[n + 1 :]})
                if f.name in ("steps", "clauses"):
                    for n, inner in enumerate(held):
                        yield from (
                            replace(step, **{f.name: (*held[:n], one, *held[n + 1 :])})
                            for one in simpler_steps(inner)
                        )
            case str() if f.name == "mode" or (f.name == "branch" and held != "main"):
                yield replace(step, **{f.name: None if f.name == "mode" else "main"})
            case _ if is_dataclass(held):
                continue
