"""Steps that change columns, partitions, properties and the format version."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.state import Work
from tests.model.values import WIDER, Column, Invalid, changed, ddl, find, quoted, without


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


def keeps_names(work: Work) -> None:
    """Files without field ids are read by the names of their columns."""
    if work.state.adopted:
        raise Invalid("files without field ids are there")


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
        keeps_names(work)
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
        keeps_names(work)
        if self.path == "k" or any(
            c.name.lower() == self.name.lower()
            for c in (found[-2].members if len(found) > 1 else work.columns)
        ):
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
        keeps_names(work)
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


@dataclass(frozen=True)
class MoveFirst:
    path: str

    def code(self, on: str = "t") -> str:
        return f"with {on}.update_schema() as change:\n    change.move_first({self.path!r})"

    def apply(self, work: Work) -> None:
        moved = find(work.columns, self.path)[-1]
        if moved not in work.columns:
            raise Invalid("a member")
        work.columns = (moved, *(c for c in work.columns if c != moved))


# --- partitions, properties, versions


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
