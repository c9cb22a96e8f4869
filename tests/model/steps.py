"""The steps of a script: each is Python code for the table, and the same done to the model. Here
those that change and read rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.model.sql import Expr, over, true
from tests.model.state import Refused, Work, assigned
from tests.model.values import Column, Columns, Invalid, Row, alike, find, plain, shown

Rows = tuple[dict[str, Any], ...]


class Step(Protocol):
    """A frozen dataclass. `code`: Python statements on the variable `on`. `apply` changes `work`,
    or raises Refused or Invalid.
    """

    def code(self, on: str = "t") -> str: ...

    def apply(self, work: Work) -> None: ...


def call(on: str, verb: str, *arguments: str, **named: Any) -> str:
    """`named` that are None (or main, of branches) are left out."""
    shown = [
        f"{k}={v!r}" for k, v in named.items() if v is not None and (k, v) != ("branch", "main")
    ]
    return f"{'' if on == 'tx' else 'result = '}{on}.{verb}({', '.join([*arguments, *shown])})"


def frame(on: str, rows: Rows, names: tuple[str, ...] | None = None) -> str:
    return f"rows({on}, {list(rows)!r}{f', {list(names)!r}' if names else ''})"


@dataclass(frozen=True)
class Append:
    rows: Rows
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        return call(on, "append", frame(on, self.rows), branch=self.branch)

    def apply(self, work: Work) -> None:
        work.insert(work.frame(self.rows))


@dataclass(frozen=True)
class AppendWider:
    """An append that adds a column of doubles."""

    rows: Rows
    name: str
    values: tuple[float | None, ...]
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        wider = f"rows({on}, {list(self.rows)!r}, doubles={{{self.name!r}: {list(self.values)!r}}})"
        return call(on, "append", wider, "merge_schema=True", branch=self.branch)

    def apply(self, work: Work) -> None:
        if any(c.name.lower() == self.name.lower() for c in work.columns) or len(
            self.values
        ) != len(self.rows):
            raise Invalid("the name is taken")
        work.columns = (*work.columns, Column(work.state.column_number(), self.name, "double"))
        work.insert(
            work.frame(
                {**row, self.name: value} for row, value in zip(self.rows, self.values, strict=True)
            )
        )


@dataclass(frozen=True)
class AddFile:
    """A Parquet file of another writer, without field ids; `name` tells it from others."""

    rows: Rows
    name: str
    branch: str = "main"
    maybe = True

    def code(self, on: str = "t") -> str:
        return call(
            on,
            "add_files",
            f"[parquet({frame(on, self.rows)}, {on}, {self.name!r})]",
            branch=self.branch,
        )

    def apply(self, work: Work) -> None:
        if not self.rows:
            raise Invalid("no rows")
        work.adopts = True
        work.insert(work.frame(self.rows))


@dataclass(frozen=True)
class Overwrite:
    """`where` None: everything. `isolation`: None is the default, which validates nothing, as in
    Java.
    """

    rows: Rows
    where: Expr | None = None
    branch: str = "main"
    isolation: str | None = None

    def code(self, on: str = "t") -> str:
        where = () if self.where is None else (repr(self.where.text),)
        return call(
            on,
            "overwrite",
            frame(on, self.rows),
            *where,
            branch=self.branch,
            isolation_level=self.isolation,
        )

    def apply(self, work: Work) -> None:
        where, columns = self.where or true(), work.columns
        where.check(over({}, columns))
        work.delete(work.where(lambda row: where.holds(over(row, columns))))
        work.insert(work.frame(self.rows))


@dataclass(frozen=True)
class OverwritePartitions:
    """Replaces the partitions of the current spec that the rows fall into; without partitions,
    everything.
    """

    rows: Rows
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        return call(on, "dynamic_partition_overwrite", frame(on, self.rows), branch=self.branch)

    def apply(self, work: Work) -> None:
        new = work.frame(self.rows)
        work.delete(work.replaced(work, new))
        work.insert(new)


@dataclass(frozen=True)
class Delete:
    where: Expr
    branch: str = "main"
    mode: str | None = None
    isolation: str | None = None

    def code(self, on: str = "t") -> str:
        return call(
            on,
            "delete",
            repr(self.where.text),
            mode=self.mode,
            branch=self.branch,
            isolation_level=self.isolation,
        )

    def apply(self, work: Work) -> None:
        columns = work.columns
        self.where.check(over({}, columns))
        found = work.where(lambda row: self.where.holds(over(row, columns)))
        work.delete(found)


@dataclass(frozen=True)
class Update:
    sets: tuple[tuple[str, Expr], ...]
    where: Expr
    branch: str = "main"
    mode: str | None = None
    isolation: str | None = None

    def code(self, on: str = "t") -> str:
        sets = ", ".join(f"{path!r}: {e.code()}" for path, e in self.sets)
        more = {"mode": self.mode, "branch": self.branch, "isolation_level": self.isolation}
        return call(on, "update", f"set={{{sets}}}", f"where={self.where.text!r}", **more)

    def apply(self, work: Work) -> None:
        columns = work.columns
        for path, e in self.sets:
            find(columns, path)
            e.check(over({}, columns))
        self.where.check(over({}, columns))
        found = work.where(lambda row: self.where.holds(over(row, columns)))
        work.update({i: self.version(work.rows[i], columns) for i in found})

    def version(self, row: Row, columns: Columns) -> Row:
        return assigned(
            row, columns, [(path, e.value(over(row, columns))) for path, e in self.sets]
        )


@dataclass(frozen=True)
class Compact:
    """Compaction, which changes no row; it is refused where a file of it is gone."""

    strategy: str | None = None
    sort_order: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        named = {
            "strategy": self.strategy,
            "sort_order": self.sort_order,
            "options": dict(self.options),
            "branch": self.branch,
        }
        return call(on, "maintenance.rewrite_data_files", **named)

    def apply(self, work: Work) -> None:
        if self.sort_order and not any(
            c.name in self.sort_order for c in work.columns if c.name == "k"
        ):
            raise Invalid("the key has another name")


@dataclass(frozen=True)
class Upsert:
    rows: Rows
    keys: tuple[str, ...]
    update: bool = True
    insert: bool = True
    branch: str = "main"
    mode: str | None = None
    isolation: str | None = None

    def code(self, on: str = "t") -> str:
        flags = {"when_matched_update_all": self.update, "when_not_matched_insert_all": self.insert}
        named = {k: v for k, v in flags.items() if not v} | {
            "mode": self.mode,
            "isolation_level": self.isolation,
        }
        return call(
            on,
            "upsert",
            frame(on, self.rows),
            f"join_cols={list(self.keys)!r}",
            **named,
            branch=self.branch,
        )

    def apply(self, work: Work) -> None:
        keys = [find(work.columns, k)[0] for k in self.keys]

        def key(row: Row) -> Any:
            return tuple(plain(row.get(c.number, c.default)) for c in keys)

        given = work.frame(self.rows)
        source = {key(row): row for row in given if None not in key(row)}
        without_key = [row for row in given if None in key(row)]
        if len(source) + len(without_key) != len(given):
            raise Refused("the source has a key twice")
        matched = {i: source[key(row)] for i, row in work.rows.items() if key(row) in source}
        there = {key(work.rows[i]) for i in matched}
        if self.update:
            work.update(
                {
                    i: row
                    for i, row in matched.items()
                    if not alike(shown(work.rows[i], work.columns), shown(row, work.columns))
                }
            )
        if self.insert:
            work.insert([*without_key, *(row for k, row in source.items() if k not in there)])


@dataclass(frozen=True)
class Transaction:
    """Steps on one branch as one commit, each of which makes a snapshot if it changes rows."""

    steps: tuple[Any, ...]
    branch: str = "main"

    @property
    def maybe(self) -> bool:
        return any(getattr(s, "maybe", False) for s in self.steps)

    def code(self, on: str = "t") -> str:
        inner = "\n".join(s.code("tx") for s in self.steps) or "pass"
        return f"with {on}.transaction() as tx:\n" + "\n".join(
            "    " + line for line in inner.splitlines()
        )

    def apply(self, work: Work) -> None:
        states = []
        for step in self.steps:
            before = work.inserted, work.updated, work.deleted
            step.apply(work)
            if before != (work.inserted, work.updated, work.deleted):
                states.append(dict(work.rows))
        work.states = states[:-1]


@dataclass(frozen=True)
class Look:
    """A filter over the head of a branch, or over a snapshot told by its place in the table's list,
    and how many rows it gives.
    """

    where: Expr
    branch: str = "main"
    snapshot: int | None = None
    found: list[Any] = field(default_factory=list, compare=False, repr=False)

    def code(self, on: str = "t") -> str:
        at = "" if self.branch == "main" else f", branch={self.branch!r}"
        at = (
            at
            if self.snapshot is None
            else f", snapshot_id={on}.snapshots()[{self.snapshot}].snapshot_id"
        )
        scan = f"{on}.scan({self.where.text!r}{at})"
        return f"looked = {scan}.to_arrow(), {scan}.count()"

    def apply(self, work: Work) -> None:
        rows, columns = work.rows, work.columns
        if self.snapshot is not None:
            snap = work.state.snapshot(self.snapshot)
            rows, columns = snap.rows, snap.columns
        self.where.check(over({}, columns))
        self.found[:] = [
            shown(row, columns) for row in rows.values() if self.where.holds(over(row, columns))
        ]


@dataclass(frozen=True)
class Race:
    """Two steps on main, the second by a handle that has not seen the first. `raced` is the error
    of the second.
    """

    steps: tuple[Any, ...]
    branch: str = "main"

    @property
    def maybe(self) -> bool:
        return getattr(self.steps[0], "maybe", False)

    def code(self, on: str = "t") -> str:
        first, second = self.steps[0].code(on), self.steps[1].code("other")
        lost = "except frazil.errors.FrazilError as e:\n    raced = e"
        return f"other, raced = catalog.load_table('db.t'), None\n{first}\ntry:\n    {second}\n{lost}\n{on}.refresh()"

    def apply(self, work: Work) -> None:
        if len(self.steps) != 2 or not self.outcome(work, (0, 1), work.replaced):
            raise Invalid("no race")

    def outcome(self, work: Work, order: Iterable[int], replaced: Any) -> Work | None:
        """The rows after the steps in an order; None when it cannot be."""
        work.replaced = replaced
        try:
            for n in order:
                self.steps[n].apply(work)
        except (Invalid, Refused):
            return None
        return work
