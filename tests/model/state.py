"""The table as plain Python: branches and snapshots as rows by an identity of ours, so that row ids
can be followed.

Tests that need rows only, not a whole history, take `begun` or `rows_after`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.model.values import Column, Columns, Invalid, Row, find, shown, stored, stored_value


class Refused(Exception):
    """The model expects an error, and the table as it was."""


@dataclass(frozen=True)
class Facts:
    """What the table said about a row in one snapshot; None before v3 and for rows that have no id
    yet.
    """

    row_id: int | None = None
    sequence: int | None = None
    spec_id: int | None = None


@dataclass(frozen=True)
class Snap:
    """`rows` by identity; `facts` are what was read, once it was."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: Columns = ()
    facts: dict[int, Facts] = field(default_factory=dict)
    snapshot_id: int | None = None
    parent: int | None = None


@dataclass
class State:
    """`snaps`: the snapshots whose rows are known, `order`: all snapshots in the order of the
    table. `key`: the column that rows are told apart by (None: they are not). `adopted`: files
    without field ids were added, so that columns keep their names."""

    columns: Columns
    version: int
    heads: dict[str, Snap]
    snaps: dict[int, Snap] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)
    staged: list[int] = field(default_factory=list)
    key: str | None = "k"
    adopted: bool = False
    schemas: dict[int, Columns] = field(default_factory=dict)
    row_ids: set[int] = field(default_factory=set)
    numbers: int = 100  # of columns
    identities: int = 0  # of rows
    keys: int = 0  # the greatest key given out

    def head(self, branch: str = "main") -> Snap:
        if branch not in self.heads:
            raise Invalid(f"no branch {branch}")
        return self.heads[branch]

    def snapshot(self, number: int) -> Snap:
        """The one at this place of the table's list."""
        if not 0 <= number < len(self.order) or self.order[number] not in self.snaps:
            raise Invalid(f"no snapshot {number}")
        return self.snaps[self.order[number]]

    def ancestors(self, snapshot_id: int | None) -> list[Snap]:
        """A snapshot and those before it, as far as they are known."""
        found: list[Snap] = []
        while snapshot_id is not None and snapshot_id in self.snaps:
            found.append(self.snaps[snapshot_id])
            snapshot_id = found[-1].parent
        return found

    def column_number(self) -> int:
        self.numbers += 1
        return self.numbers


@dataclass
class Work:
    """One step on one branch, before it is known to have succeeded."""

    state: State
    branch: str
    columns: Columns
    rows: dict[int, Row]
    touched: set[int] = field(default_factory=set)  # rows that are new or have a new version
    facts: dict[int, Facts] = field(default_factory=dict)
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    adopts: bool = False
    # the rows of each snapshot that the step makes, but for the last
    states: list[dict[int, Row]] = field(default_factory=list)
    # rows in the partitions of these
    replaced: Callable[[Work, list[Row]], list[int]] = lambda work, rows: []

    @classmethod
    def of(cls, state: State, branch: str = "main") -> Work:
        head = state.head(branch)
        return cls(state, branch, state.columns, dict(head.rows), facts=head.facts)

    @property
    def changes(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)

    def insert(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.state.identities += 1
            self.rows[self.state.identities] = row
            self.touched.add(self.state.identities)
            self.inserted += 1
        self.check_keys()

    def delete(self, identities: Iterable[int]) -> None:
        for i in list(identities):
            del self.rows[i]
            self.touched.discard(i)
            self.deleted += 1

    def update(self, versions: dict[int, Row]) -> None:
        self.rows.update(versions)
        self.touched |= set(versions)
        self.updated += len(versions)
        self.check_keys()

    def named(self) -> list[dict[str, Any]]:
        """The rows as a reader sees them."""
        return [
            named for row in self.rows.values() if (named := shown(row, self.columns)) is not None
        ]

    def where(self, holds: Callable[[Row], bool]) -> list[int]:
        return [i for i, row in self.rows.items() if holds(row)]

    def key(self, row: Row) -> Any:
        return row.get(find(self.columns, self.state.key or "k")[0].number)

    def check_keys(self) -> None:
        """Rows are told apart by their key, so the scripts keep it unique."""
        if self.state.key is None:
            return
        keys = [self.key(row) for row in self.rows.values()]
        if len(set(keys)) != len(keys) or None in keys:
            raise Invalid("keys are not unique")

    def frame(self, named: Iterable[dict[str, Any]]) -> list[Row]:
        return [row for n in named if (row := stored(n, self.columns)) is not None]


def assigned(row: Row, columns: Columns, sets: Iterable[tuple[str, Any]]) -> Row:
    """A row with new values for some columns ("s.x": of a member, which makes a struct that was
    null).
    """
    new = dict(row)
    for path, value in sets:
        found = find(columns, path)
        if len(found) == 1:
            new[found[0].number] = stored_value(value, found[0])
            continue
        top, member = found
        struct = new.get(top.number)
        if struct is None:
            struct = {m.number: None for m in top.members}
        new[top.number] = {**struct, member.number: value}
    return new


def value(rng: random.Random, c: Column, values: dict[str, tuple[str, tuple[Any, ...]]]) -> Any:
    """A value as frames hold it: structs by names."""
    if rng.random() < 0.15:
        return None
    if c.kind == "list":
        return [
            {m.name: value(rng, m, values) for m in c.members} if rng.random() < 0.9 else None
            for _ in range(rng.randrange(3))
        ]
    if c.members:
        return {m.name: value(rng, m, values) for m in c.members}
    return rng.choice(values[c.kind][1])


def begun(columns: Columns, rows: Iterable[dict[str, Any]], key: str | None = None) -> Work:
    """A table that holds `rows` (by name), for steps to be applied to."""
    found = {n: row for n, named in enumerate(rows) if (row := stored(named, columns)) is not None}
    return Work.of(
        State(columns, 2, {"main": Snap(found, columns)}, identities=len(found), key=key)
    )


def rows_after(
    columns: Columns, rows: Iterable[dict[str, Any]], steps: Iterable[Any]
) -> list[dict[str, Any]]:
    """The rows of a table that held `rows` after some steps. Raises Refused where a step must fail."""
    work = begun(columns, rows)
    for step in steps:
        step.apply(work)
    return work.named()
