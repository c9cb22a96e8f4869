"""Describe what an ALTER TABLE changes, as data: columns, properties and the location, whoever
parsed the statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]
FIRST = ("FIRST", None)
ColumnPosition: TypeAlias = tuple[str, str | None]
"""`FIRST`, or ("AFTER", the name of a column of the same struct)."""


@dataclass(frozen=True)
class AddColumn:
    """Add a column. `type_`: of the library that parsed the statement; `default`: a value as the
    format has it, None: there is none.
    """

    path: Path
    type_: Any
    nullable: bool = True
    comment: str | None = None
    position: ColumnPosition | None = None
    default: Any = None


@dataclass(frozen=True)
class DeleteColumn:
    path: Path
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    path: Path
    name: str


@dataclass(frozen=True)
class ChangeType:
    path: Path
    type_: Any


@dataclass(frozen=True)
class ChangeComment:
    path: Path
    comment: str


@dataclass(frozen=True)
class ChangeNullable:
    path: Path
    nullable: bool


@dataclass(frozen=True)
class MoveColumn:
    path: Path
    position: ColumnPosition


@dataclass(frozen=True)
class ChangeDefault:
    """Set the default of a column for rows to come, as SQL text; "": drop it."""

    path: Path
    text: str


@dataclass(frozen=True)
class SetProperty:
    name: str
    value: str


@dataclass(frozen=True)
class RemoveProperty:
    name: str


@dataclass(frozen=True)
class NotServed:
    """Stand for a change that Iceberg's tables do not have. `text`: as in "CLUSTER BY"."""

    text: str


ColumnChange: TypeAlias = (
    AddColumn
    | DeleteColumn
    | RenameColumn
    | ChangeType
    | ChangeComment
    | ChangeNullable
    | MoveColumn
    | ChangeDefault
)
TableChange: TypeAlias = ColumnChange | SetProperty | RemoveProperty | NotServed
