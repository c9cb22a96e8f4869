"""Make the changes that INSERT, CREATE TABLE AS SELECT and Spark's writers are: append the rows of a
DataFrame, or replace by them rows, the partitions that they fall into, or the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from frazil.arrow.write.write_options import OPTIONS
from frazil.errors import InvalidInput, NoSuchRefError, SchemaMismatch
from frazil.expr.nodes import AlwaysTrue
from frazil.ops.arguments import GivenFrame
from frazil.ops.changes import AppendRows, OverwritePartitions, OverwriteRows
from frazil.ops.engine import Frame
from frazil.ops.reading import RowFilter
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import folded
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH

Insertion: TypeAlias = AppendRows | OverwriteRows | OverwritePartitions
_MODE, _BRANCH = OPTIONS.named("overwrite-mode"), OPTIONS.named("branch")


def insertion(
    frame: GivenFrame,
    where: RowFilter | None = None,
    *,
    dynamic: bool = False,
    options: Mapping[str, Any] = {},
) -> Insertion:
    """Return the change that inserts rows which have the table's columns. `where`: the rows that
    they replace, as a filter ("true": all of them), None: none; `dynamic`: they replace the
    partitions that they fall into, where a table without partitions is one and no rows change
    nothing; `options`: write options. The option overwrite-mode=dynamic makes an overwrite of all
    rows dynamic; an append, and an overwrite of some rows, refuse it."""
    if dynamic:
        return OverwritePartitions(frame, options=options)
    if where is None:
        return AppendRows(frame, options=options)
    replaced = AlwaysTrue() if isinstance(where, str) and where == "true" else where
    return OverwriteRows(frame, replaced, options=options)


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
