"""MERGE as a step: every target row with every source row, no cleverness."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.model.chance import branch_of, mode_of, new_rows
from tests.model.sql import Env, Expr, both, column, compare, new_value, predicate
from tests.model.state import Refused, State, Work, assigned
from tests.model.steps import Rows, call, frame
from tests.model.values import Columns, Row, find, leaves, shown, stored

MATCHED = ("matched_update", "matched_update_all", "matched_delete")
NOT_MATCHED = ("not_matched_insert", "not_matched_insert_all")
BY_SOURCE = ("not_matched_by_source_update", "not_matched_by_source_delete")


@dataclass(frozen=True)
class ModelClause:
    """`kind`: the builder's method after `when_`."""

    kind: str
    condition: Expr | None = None
    sets: tuple[tuple[str, Expr], ...] = ()

    def code(self) -> str:
        parts = []
        if self.sets:
            word = "values" if "insert" in self.kind else "set"
            parts.append(f"{word}={{{', '.join(f'{p!r}: {e.code()}' for p, e in self.sets)}}}")
        if self.condition:
            parts.append(f"condition={self.condition.text!r}")
        return f".when_{self.kind}({', '.join(parts)})"

    def acts(self, env: Env) -> bool:
        return self.condition is None or self.condition.holds(env)


@dataclass(frozen=True)
class ModelMerge:
    """`names`: the columns of the source, which has the table's types."""

    rows: Rows
    names: tuple[str, ...]
    on: Expr
    clauses: tuple[ModelClause, ...]
    branch: str = "main"
    mode: str | None = None
    isolation: str | None = None

    def code(self, on: str = "t") -> str:
        more = {"branch": self.branch, "isolation_level": self.isolation}
        start = call(on, "merge", frame(on, self.rows, self.names), f"on={self.on.text!r}", **more)
        return (
            start
            + "".join(c.code() for c in self.clauses)
            + f".execute({'' if self.mode is None else f'mode={self.mode!r}'})"
        )

    def of(self, kinds: tuple[str, ...]) -> list[ModelClause]:
        return [c for c in self.clauses if c.kind in kinds]

    def apply(self, work: Work) -> None:
        columns = tuple(find(work.columns, n)[0] for n in self.names)
        source = [
            row
            for named in self.rows
            if (row := stored({n: named.get(n) for n in self.names}, columns)) is not None
        ]
        self.check({"target": (None, work.columns), "source": (None, columns)})
        if len(columns) < len(work.columns) and any(c.kind.endswith("_all") for c in self.clauses):
            raise Refused("the source lacks columns")
        updated: dict[int, Row] = {}
        deleted: list[int] = []
        unmatched = set(range(len(source)))
        for i, row in work.rows.items():
            envs = {
                n: {"target": (row, work.columns), "source": (s, columns)}
                for n, s in enumerate(source)
            }
            found = [n for n, env in envs.items() if self.on.holds(env)]
            unmatched -= set(found)
            chosen = (
                self.matched([envs[n] for n in found])
                if found
                else self.by_source({"target": (row, work.columns), "source": (None, columns)})
            )
            if chosen and "delete" in chosen[0].kind:
                deleted.append(i)
            elif chosen:
                updated[i] = self.version(row, work.columns, *chosen)
        inserted = [
            new
            for n in sorted(unmatched)
            if (new := self.inserted(source[n], columns, work.columns))
        ]
        work.delete(deleted)
        work.update(updated)
        work.insert(inserted)

    def check(self, env: Env) -> None:
        self.on.check(env)
        for c in self.clauses:
            (c.condition or self.on).check(env)
            for path, e in c.sets:
                find(env["target"][1], unsided(path))
                e.check(env)

    def matched(self, envs: list[Env]) -> tuple[ModelClause, Env] | None:
        clauses = self.of(MATCHED)
        lone = (
            len(clauses) == 1
            and clauses[0].kind == "matched_delete"
            and clauses[0].condition is None
        )
        if clauses and len(envs) > 1 and not lone:
            raise Refused("more than one source row matches a row")
        return next(((c, env) for env in envs for c in clauses if c.acts(env)), None)

    def by_source(self, env: Env) -> tuple[ModelClause, Env] | None:
        clause = next((c for c in self.of(BY_SOURCE) if c.acts(env)), None)
        return (clause, env) if clause else None

    def version(self, row: Row, columns: Columns, clause: ModelClause, env: Env) -> Row:
        if clause.kind.endswith("_all"):
            return dict(env["source"][0] or {})
        return assigned(row, columns, [(unsided(path), e.value(env)) for path, e in clause.sets])

    def inserted(self, row: Row, source: Columns, columns: Columns) -> Row | None:
        env: Env = {"target": (None, columns), "source": (row, source)}
        clause = next((c for c in self.of(NOT_MATCHED) if c.acts(env)), None)
        if clause is None or clause.kind.endswith("_all"):
            return dict(row) if clause else None
        return assigned(
            {c.number: c.default for c in columns},
            columns,
            [(unsided(path), e.value(env)) for path, e in clause.sets],
        )


def unsided(path: str) -> str:
    """A column of the table, which may be named with its side."""
    return path.removeprefix("target.")


# --- at random


def merge(rng: random.Random, state: State) -> Any:
    branch = branch_of(rng, state)
    there = list(state.head(branch).rows.values())
    known = [
        n["k"]
        for row in rng.sample(there, min(len(there), rng.randrange(5)))
        if (n := shown(row, state.columns))
    ]
    keys = (
        known
        + [state.keys + n + 1 for n in range(rng.randrange(3))]
        + (known[:1] if rng.random() < 0.1 else [])
    )
    rows = new_rows(rng, state, len(keys), keys)
    if not rows:
        return None
    names = tuple(c.name for c in state.columns)
    whole = rng.random() < 0.6
    if not whole:
        names = ("k", *(n for n in names if n != "k" and rng.random() < 0.6))
    source = tuple(c for c in state.columns if c.name in names)
    clauses = tuple(
        c
        for kinds in (MATCHED, NOT_MATCHED, BY_SOURCE)
        for c in some_clauses(rng, state, kinds, source, whole)
    )
    if not clauses:
        return None
    return ModelMerge(rows, names, joined(rng, state, source), clauses, branch, mode_of(rng, state))


def joined(rng: random.Random, state: State, source: Columns) -> Expr:
    equal = compare(
        column("k", "target"), rng.choice(["=", "=", "=", "<=>"]), column("k", "source")
    )
    same = [path for path, _ in leaves(source)]
    match rng.randrange(8):
        case 0:
            path = rng.choice(same)
            return compare(column(path, "target"), rng.choice(["=", "<=>"]), column(path, "source"))
        case 1:
            path = rng.choice(same)
            return both(
                equal,
                compare(
                    column(path, "target"),
                    rng.choice(["<", "<=", "<>", "="]),
                    column(path, "source"),
                ),
            )
        case 2:
            return both(equal, predicate(rng, state.columns, "target", max(state.keys, 3)))
        case 3:
            return both(equal, predicate(rng, source, "source", max(state.keys, 3)))
        case 4:
            return compare(column("k", "target"), "<", column("k", "source"))
    return equal


def some_clauses(
    rng: random.Random, state: State, kinds: tuple[str, ...], source: Columns, whole: bool
) -> list[ModelClause]:
    """Up to two of a kind; only the last may have no condition."""
    count = rng.choice([0, 1, 1, 2]) if kinds is not BY_SOURCE else rng.choice([0, 0, 0, 1, 2])
    found: list[ModelClause] = []
    for n in range(count):
        kind = rng.choice(kinds)
        if kind.endswith("_all") and not whole and rng.random() < 0.9:
            kind = kinds[0]
        sides = [("target", state.columns), ("source", source)]
        if kinds is not MATCHED:
            sides = sides[:1] if kinds is BY_SOURCE else sides[1:]
        condition = None
        if n < count - 1 or rng.random() < 0.4:
            side, columns = rng.choice(sides)
            condition = predicate(rng, columns, side, max(state.keys, 3))
        found.append(ModelClause(kind, condition, sets_of(rng, state, kind, sides)))
    return found


def sets_of(
    rng: random.Random, state: State, kind: str, sides: list[tuple[str, Columns]]
) -> tuple[tuple[str, Expr], ...]:
    if kind.endswith(("_all", "delete")):
        return ()
    inserts = kind == "not_matched_insert"
    targets = (
        [(c.name, c) for c in state.columns if not c.members]
        if inserts
        else list(leaves(state.columns))
    )
    targets = [(p, c) for p, c in targets if p != "k"]
    sets = {
        p: new_value(rng, c, state.columns, sides, max(state.keys, 3))
        for p, c in rng.sample(targets, rng.randrange(1, min(len(targets), 3) + 1))
    }
    return (*((("k", column("k", "source")),) if inserts else ()), *sets.items())
