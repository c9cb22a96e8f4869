"""The table as plain Python: branches and snapshots as rows by an identity of ours, so that row ids can be followed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.model.values import Column, Columns, Invalid, Row, find, stored


class Refused(Exception):
    """The model expects an error, and the table as it was."""


@dataclass(frozen=True)
class Facts:
    """What the table said about a row in one snapshot; None before v3 and for rows that have no id yet."""

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
    columns: Columns
    version: int
    heads: dict[str, Snap]
    snaps: dict[int, Snap] = field(default_factory=dict)
    schemas: dict[int, Columns] = field(default_factory=dict)
    row_ids: set[int] = field(default_factory=set)
    numbers: int = 100  # of columns
    identities: int = 0  # of rows
    keys: int = 0  # the greatest key given out

    def head(self, branch: str = "main") -> Snap:
        if branch not in self.heads:
            raise Invalid(f"no branch {branch}")
        return self.heads[branch]

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
    replaced: Callable[[Work, list[Row]], list[int]] = lambda work, rows: []  # rows in the partitions of these

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

    def where(self, holds: Callable[[Row], bool]) -> list[int]:
        return [i for i, row in self.rows.items() if holds(row)]

    def key(self, row: Row) -> Any:
        return row.get(find(self.columns, "k")[0].number)

    def check_keys(self) -> None:
        """Rows are told apart by their key, so the scripts keep it unique."""
        keys = [self.key(row) for row in self.rows.values()]
        if len(set(keys)) != len(keys) or None in keys:
            raise Invalid("keys are not unique")

    def frame(self, named: Iterable[dict[str, Any]]) -> list[Row]:
        return [row for n in named if (row := stored(n, self.columns)) is not None]


def assigned(row: Row, columns: Columns, sets: Iterable[tuple[str, Any]]) -> Row:
    """A row with new values for some columns ("s.x": of a member, which makes a struct that was null)."""
    new = dict(row)
    for path, value in sets:
        found = find(columns, path)
        if len(found) == 1:
            new[found[0].number] = stored(value, found[0].members) if found[0].members else value
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
    if c.members:
        return {m.name: value(rng, m, values) for m in c.members}
    return rng.choice(values[c.kind][1])
