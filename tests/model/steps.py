"""The steps of a script: each is Python code for the table, and the same done to the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tests.model.sql import Expr, over, true
from tests.model.state import Refused, Work, assigned
from tests.model.values import WIDER, Column, Columns, Invalid, Row, changed, ddl, find, plain, quoted, shown, without

Rows = tuple[dict[str, Any], ...]


class Step(Protocol):
    """A frozen dataclass. `code`: Python statements on the variable `on`. `apply` changes `work`, or raises Refused or Invalid."""

    def code(self, on: str = "t") -> str: ...

    def apply(self, work: Work) -> None: ...


def call(on: str, verb: str, *arguments: str, **named: Any) -> str:
    """`named` that are None (or main, of branches) are left out."""
    shown = [f"{k}={v!r}" for k, v in named.items() if v is not None and (k, v) != ("branch", "main")]
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
class Overwrite:
    """`where` None: everything."""

    rows: Rows
    where: Expr | None = None
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        where = () if self.where is None else (repr(self.where.text),)
        return call(on, "overwrite", frame(on, self.rows), *where, branch=self.branch)

    def apply(self, work: Work) -> None:
        where, columns = self.where or true(), work.columns
        where.check(over({}, columns))
        work.delete(work.where(lambda row: where.holds(over(row, columns))))
        work.insert(work.frame(self.rows))


@dataclass(frozen=True)
class OverwritePartitions:
    """Replaces the partitions of the current spec that the rows fall into; without partitions, everything."""

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

    def code(self, on: str = "t") -> str:
        return call(on, "delete", repr(self.where.text), mode=self.mode, branch=self.branch)

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

    def code(self, on: str = "t") -> str:
        sets = ", ".join(f"{path!r}: {e.text!r}" for path, e in self.sets)
        return call(on, "update", f"set={{{sets}}}", f"where={self.where.text!r}", mode=self.mode, branch=self.branch)

    def apply(self, work: Work) -> None:
        columns = work.columns
        for path, e in self.sets:
            find(columns, path)
            e.check(over({}, columns))
        self.where.check(over({}, columns))
        found = work.where(lambda row: self.where.holds(over(row, columns)))
        work.update({i: self.version(work.rows[i], columns) for i in found})

    def version(self, row: Row, columns: Columns) -> Row:
        return assigned(row, columns, [(path, e.value(over(row, columns))) for path, e in self.sets])


@dataclass(frozen=True)
class Upsert:
    rows: Rows
    keys: tuple[str, ...]
    update: bool = True
    insert: bool = True
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        flags = {"when_matched_update_all": self.update, "when_not_matched_insert_all": self.insert}
        named = {k: v for k, v in flags.items() if not v}
        return call(on, "upsert", frame(on, self.rows), f"join_cols={list(self.keys)!r}", **named, branch=self.branch)

    def apply(self, work: Work) -> None:
        keys = [find(work.columns, k)[0] for k in self.keys]

        def key(row: Row) -> Any:
            return tuple(plain(row.get(c.number, c.default)) for c in keys)

        there = {key(row): i for i, row in work.rows.items()}
        source = work.frame(self.rows)
        known = [key(row) for row in source if None not in key(row)]
        if len(set(known)) != len(known):
            raise Refused("the source has a key twice")
        matched = {there[key(row)]: row for row in source if key(row) in there and None not in key(row)}
        same = {i for i, row in matched.items() if equal(work, work.rows[i], row)}
        if self.update:
            work.update({i: row for i, row in matched.items() if i not in same})
        if self.insert:
            work.insert([row for row in source if None in key(row) or key(row) not in there])


def equal(work: Work, one: Row, other: Row) -> bool:
    return bool(plain(shown(one, work.columns)) == plain(shown(other, work.columns)))


# --- columns


@dataclass(frozen=True)
class AddColumn:
    parent: str
    column: Column
    maybe = True

    def code(self, on: str = "t") -> str:
        path = repr((self.parent, self.column.name) if self.parent else self.column.name)
        default = "" if self.column.default is None else f", default_value={self.column.default!r}"
        return f"with {on}.update_schema() as change:\n    change.add_column({path}, parse_type({ddl_type(self.column)!r}){default})"

    def apply(self, work: Work) -> None:
        inside = find(work.columns, self.parent)[-1].members if self.parent else work.columns
        if any(c.name.lower() == self.column.name.lower() for c in inside):
            raise Invalid("the name is taken")
        column = replace(self.column, number=work.state.column_number())
        if self.parent:
            work.columns = changed(work.columns, self.parent, members=(*inside, column))
        else:
            work.columns = (*work.columns, column)


def ddl_type(c: Column) -> str:
    return ddl((replace(c, name="x"),)).removeprefix("x ")


@dataclass(frozen=True)
class DropColumn:
    path: str
    maybe = True

    def code(self, on: str = "t") -> str:
        return f"with {on}.update_schema() as change:\n    change.delete_column({self.path!r})"

    def apply(self, work: Work) -> None:
        found = find(work.columns, self.path)
        if self.path == "k" or len(found[-2].members if len(found) > 1 else work.columns) < 3:
            raise Invalid("too few columns are left")
        work.columns = without(work.columns, self.path)


@dataclass(frozen=True)
class RenameColumn:
    path: str
    name: str
    maybe = True

    def code(self, on: str = "t") -> str:
        return f"with {on}.update_schema() as change:\n    change.rename_column({self.path!r}, {self.name!r})"

    def apply(self, work: Work) -> None:
        found = find(work.columns, self.path)
        if self.path == "k" or any(c.name.lower() == self.name.lower() for c in (found[-2].members if len(found) > 1 else work.columns)):
            raise Invalid("the name is taken")
        work.columns = changed(work.columns, self.path, name=self.name)


@dataclass(frozen=True)
class SwapNames:
    one: str
    other: str
    maybe = True

    def code(self, on: str = "t") -> str:
        swap = f"change.rename_column({self.one!r}, {self.other!r}).rename_column({self.other!r}, {self.one!r})"
        return f"with {on}.update_schema() as change:\n    {swap}"

    def apply(self, work: Work) -> None:
        a, b = find(work.columns, self.one)[0], find(work.columns, self.other)[0]
        if a == b or "k" in (a.name, b.name):
            raise Invalid("not to be swapped")
        new = {a: replace(a, name=b.name), b: replace(b, name=a.name)}
        work.columns = tuple(new.get(c, c) for c in work.columns)


@dataclass(frozen=True)
class Widen:
    path: str
    maybe = True

    def code(self, on: str = "t") -> str:
        return f"with {on}.update_schema() as change:\n    change.update_column({self.path!r}, wider({on}, {self.path!r}))"

    def apply(self, work: Work) -> None:
        c = find(work.columns, self.path)[-1]
        if c.kind not in WIDER or c.name == "k":
            raise Invalid("not to be widened")
        work.columns = changed(work.columns, self.path, kind=WIDER[c.kind])


# --- partitions, properties, versions, branches


@dataclass(frozen=True)
class AddPartitionField:
    transform: str
    path: str
    maybe = True

    def code(self, on: str = "t") -> str:
        text = self.transform.format(".".join(map(quoted, self.path.split("."))))
        return f"with {on}.update_spec() as change:\n    change.add_field({text!r})"

    def apply(self, work: Work) -> None:
        find(work.columns, self.path)


@dataclass(frozen=True)
class DropPartitionField:
    maybe = True

    def code(self, on: str = "t") -> str:
        return f"with {on}.update_spec() as change:\n    for field in {on}.metadata.spec().fields[:1]:\n        change.remove_field(field.name)"

    def apply(self, work: Work) -> None:
        pass


@dataclass(frozen=True)
class SetProperties:
    properties: tuple[tuple[str, str], ...]

    def code(self, on: str = "t") -> str:
        return f"{on}.set_properties({dict(self.properties)!r})"

    def apply(self, work: Work) -> None:
        pass


@dataclass(frozen=True)
class Upgrade:
    version: int

    def code(self, on: str = "t") -> str:
        return f"{on}.upgrade({self.version})"

    def apply(self, work: Work) -> None:
        if work.state.version >= self.version:
            raise Invalid("no upgrade")


@dataclass(frozen=True)
class CreateBranch:
    name: str
    source: str = "main"

    def code(self, on: str = "t") -> str:
        return f"with {on}.manage_snapshots() as manage:\n    manage.create_branch({on}.refs()[{self.source!r}].snapshot_id, {self.name!r})"

    def apply(self, work: Work) -> None:
        if self.name in work.state.heads or work.state.head(self.source).snapshot_id is None:
            raise Invalid("no such branch can be made")


@dataclass(frozen=True)
class FastForward:
    source: str

    def code(self, on: str = "t") -> str:
        return f"with {on}.manage_snapshots() as manage:\n    manage.fast_forward('main', {self.source!r})"

    def apply(self, work: Work) -> None:
        snaps, at, main = work.state.snaps, work.state.head(self.source).snapshot_id, work.state.head().snapshot_id
        while at is not None and at != main:
            at = snaps[at].parent if at in snaps else None
        if at is None or main is None:
            raise Refused("main is no ancestor")


@dataclass(frozen=True)
class RollBack:
    """To the parent of main."""

    def code(self, on: str = "t") -> str:
        return f"with {on}.manage_snapshots() as manage:\n    manage.rollback_to_snapshot({on}.current_snapshot().parent_snapshot_id)"

    def apply(self, work: Work) -> None:
        if work.state.head().parent not in work.state.snaps:
            raise Invalid("nothing to go back to")


@dataclass(frozen=True)
class Transaction:
    """Steps on one branch as one commit; after it only the last state can be seen."""

    steps: tuple[Any, ...]
    branch: str = "main"

    @property
    def maybe(self) -> bool:
        return any(getattr(s, "maybe", False) for s in self.steps)

    def code(self, on: str = "t") -> str:
        inner = "\n".join(s.code("tx") for s in self.steps) or "pass"
        return f"with {on}.transaction() as tx:\n" + "\n".join("    " + line for line in inner.splitlines())

    def apply(self, work: Work) -> None:
        for step in self.steps:
            step.apply(work)


@dataclass(frozen=True)
class Look:
    """A filter over the head of a branch, and how many rows it gives."""

    where: Expr
    branch: str = "main"
    found: list[Row] = field(default_factory=list, compare=False, repr=False)

    def code(self, on: str = "t") -> str:
        scan = f"{on}.scan({self.where.text!r}{'' if self.branch == 'main' else f', branch={self.branch!r}'})"
        return f"looked = {scan}.to_arrow(), {scan}.count()"

    def apply(self, work: Work) -> None:
        columns = work.columns
        self.where.check(over({}, columns))
        self.found[:] = [work.rows[i] for i in work.where(lambda row: self.where.holds(over(row, columns)))]


@dataclass(frozen=True)
class Race:
    """Two steps on main, the second by a handle that has not seen the first. `raced` is the error of the second."""

    steps: tuple[Any, ...]
    branch: str = "main"

    def code(self, on: str = "t") -> str:
        first, second = self.steps[0].code(on), self.steps[1].code("other")
        lost = "except frazil.errors.FrazilError as e:\n    raced = e"
        return f"other, raced = catalog.load_table('db.t'), None\n{first}\ntry:\n    {second}\n{lost}\n{on}.refresh()"

    def apply(self, work: Work) -> None:
        if len(self.steps) != 2 or not self.outcome(work, (0, 1), work.replaced):
            raise Invalid("no race")

    def outcome(self, work: Work, order: tuple[int, ...], replaced: Any) -> Work | None:
        """The rows after the steps in an order; None when it cannot be."""
        work.replaced = replaced
        try:
            for n in order:
                self.steps[n].apply(work)
        except (Invalid, Refused):
            return None
        return work
