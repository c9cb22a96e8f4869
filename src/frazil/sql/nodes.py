"""Hold statements of SQL about one table as data, free of any engine: what `run` turns into calls
of Python.

Names are tuples of parts. Conditions and values are SQL text, or what the engine that parsed the
statement holds in place of text (Spark: a Column).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a statement of the grammar loads nothing of it
    from frazil.ops.changes import RowLevelChange

Name = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """Hold a column, or a transform of one as the format writes it (`bucket[16]`)."""

    column: Name
    transform: str | None = None

    def __str__(self) -> str:
        column = ".".join(self.column)
        return column if self.transform is None else f"{self.transform}({column})"


@dataclass(frozen=True)
class OrderTerm:
    """Hold one field of a sort order. `nulls_first` None: first when ascending, last when
    descending.
    """

    term: Term
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class Statement:
    """Hold what every statement has: the table that it is about, as typed."""

    table: Name


# Partition fields, write order, identifier fields
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddPartitionField(Statement):
    term: Term
    name: str | None = None


@dataclass(frozen=True)
class DropPartitionField(Statement):
    term: Term


@dataclass(frozen=True)
class ReplacePartitionField(Statement):
    old: Term
    new: Term
    name: str | None = None


@dataclass(frozen=True)
class WriteOrder(Statement):
    """Hold `WRITE …`. `mode`: the distribution mode that it sets, None where it leaves the table's."""

    order: tuple[OrderTerm, ...]
    mode: str | None


@dataclass(frozen=True)
class SetIdentifierFields(Statement):
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class DropIdentifierFields(Statement):
    columns: tuple[Name, ...]


# Branches and tags
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetRef(Statement):
    """Hold CREATE and REPLACE of a branch or tag. `create`, `replace`: which of both words it has.
    Ages are milliseconds.
    """

    name: str
    kind: str
    create: bool = False
    replace: bool = False
    if_not_exists: bool = False
    snapshot_id: int | None = None
    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclass(frozen=True)
class DropRef(Statement):
    name: str
    kind: str
    if_exists: bool = False


# Rows
# --------------------------------------------------------------------------------------------------


DEFAULT = "DEFAULT"
"""The value that stands for a column's default in UPDATE and MERGE, here as in the methods of a
table.
"""


@dataclass(frozen=True)
class ChangeRows(Statement):
    """Hold DELETE FROM, UPDATE, MERGE INTO or TRUNCATE TABLE. `change`: to be made on the branch of
    the table's name, by the session.
    """

    change: RowLevelChange


@dataclass(frozen=True)
class Analyze(Statement):
    """Hold ANALYZE TABLE. `columns` empty: all columns of which statistics can be made."""

    columns: tuple[str, ...] = ()
