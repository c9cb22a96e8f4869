"""Insert the rows of a DataFrame as INSERT, CREATE TABLE AS SELECT and Spark's writers do: append
them, or replace by them rows, the partitions that they fall into, or the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from frazil.arrow.write.write_options import OPTIONS
from frazil.catalog import Identifier as Parts
from frazil.errors import InvalidInput, NoSuchRefError, SchemaMismatch
from frazil.ops.arguments import GivenFrame
from frazil.ops.engine import Frame
from frazil.ops.reading import RowFilter
from frazil.ops.table_definition import GivenSchema
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import folded
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH

R = TypeVar("R", covariant=True)
_MODE, _BRANCH = OPTIONS.named("overwrite-mode"), OPTIONS.named("branch")


class Inserting(Protocol[R]):
    """Take rows: a table, at once, or a transaction, at its commit."""

    def append(self, *rows: Any, **options: Any) -> R: ...

    def overwrite(self, *rows: Any, **options: Any) -> R: ...

    def dynamic_partition_overwrite(self, *rows: Any, **options: Any) -> R: ...


class Creating(Protocol[R]):
    """Begin to create and to replace tables together with their rows: a catalog."""

    def create_table_transaction(self, *table: Any, **definition: Any) -> R: ...

    def replace_table_transaction(self, *table: Any, **definition: Any) -> R: ...


@dataclass(frozen=True)
class Insert:
    """Describe an insert whose rows have the table's columns. `where`: the rows that they replace,
    as a filter ("true": all of them), None: none; `dynamic`: they replace the partitions that they
    fall into, where a table without partitions is one and no rows change nothing; `options`: write
    options. The option overwrite-mode=dynamic makes an overwrite of all rows dynamic; an append,
    and an overwrite of some rows, refuse it."""

    where: RowFilter | None = None
    dynamic: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def into(self, target: Inserting[R], frame: GivenFrame) -> R:
        """Insert the rows of a frame."""
        if self.dynamic:
            return target.dynamic_partition_overwrite(frame, **self.options)
        if self.where is None:
            return target.append(frame, **self.options)
        is_all = isinstance(self.where, str) and self.where == "true"
        some = {} if is_all else {"overwrite_filter": self.where}
        return target.overwrite(frame, **some, **self.options)


def overwrite_mode(options: Mapping[str, Any]) -> str | None:
    """Return Java's write option overwrite-mode, None where it is not given. Raises InvalidInput
    for one that is neither static nor dynamic.
    """
    own = {k: v for k, v in options.items() if folded(k) == _MODE.name}
    mode: str | None = _MODE.of(OPTIONS.read(own))
    return mode


def require_branch(branch: str | None, metadata: TableMetadata) -> None:
    """Raise NoSuchRefError for a branch that does not exist: statements and Spark's writers make
    none of a name that was misspelt."""
    if branch and branch not in (MAIN_BRANCH, *metadata.refs):
        raise NoSuchRefError(
            f"Cannot use branch (does not exist): {branch}",
            hint=f"ALTER TABLE … CREATE BRANCH {branch} makes it.",
            table=metadata.location,
        )


def with_branch(
    options: Mapping[str, Any], branch: str | None, metadata: TableMetadata
) -> dict[str, Any]:
    """Return the options of a write with the branch that the table's name selects, if it does.
    Raises InvalidInput where an option names another one, NoSuchRefError."""
    by_option = _BRANCH.given(options)
    require_branch(by_option if branch is None else branch, metadata)
    if branch is None:
        return dict(options)
    if by_option not in (None, branch):
        text = f"The name of the table says branch {branch!r}, the option branch {by_option!r}."
        raise InvalidInput(text, hint="Give one of them.")
    others = {k: v for k, v in options.items() if folded(k) not in _BRANCH.spellings}
    return {**others, _BRANCH.name: branch}


def by_position(frame: Frame, schema: Schema, name: str) -> Frame:
    """Give the columns of a frame the names of a table's, in their order. Raises SchemaMismatch
    where there are not as many."""
    names = [f.name for f in schema.fields]
    if len(names) != len(frame.columns):
        few = "NOT_ENOUGH" if len(names) > len(frame.columns) else "TOO_MANY"
        raise SchemaMismatch(
            f"insertInto goes by position: {name} has {len(names)} columns, the frame {len(frame.columns)}.",
            hint="Select as many columns, or use writeTo(…).append(), which goes by name.",
            condition=f"INSERT_COLUMN_ARITY_MISMATCH.{few}_DATA_COLUMNS",
        )
    return frame.toDF(*names)


def create_as(
    catalog: Creating[R],
    parts: Parts,
    schema: GivenSchema,
    *,
    replace: bool,
    create: bool,
    **definition: object,
) -> R:
    """Begin CREATE TABLE AS SELECT, or with `replace` REPLACE TABLE, which with `create` makes a
    table that does not exist. Rows that replace are an overwrite of all rows, as Spark writes them,
    which the snapshot records. `definition`: further arguments of `create_table`.
    """
    if replace:
        return catalog.replace_table_transaction(parts, schema, create=create, **definition)
    return catalog.create_table_transaction(parts, schema, **definition)
