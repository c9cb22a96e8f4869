"""The names that users type, and their arguments in order: they stay. `public_names.txt` lists them.

After a change that is meant: `python -m tests.house.test_public_names > tests/house/public_names.txt`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import frazil
from frazil.table.catalog import Catalog
from frazil.table.changes import ChangesScan
from frazil.table.creation import CreateTableTransaction
from frazil.table.inspect import InspectTable
from frazil.table.merge import MergeBuilder
from frazil.table.metadata_table import MetadataTable
from frazil.table.scan import DataScan, IncrementalAppendScan
from frazil.table.static import StaticTable
from frazil.table.table import Table
from frazil.table.transaction import Transaction

LISTED = Path(__file__).with_name("public_names.txt")
CLASSES: tuple[type[Any], ...] = (
    Table, StaticTable, Transaction, CreateTableTransaction, DataScan, IncrementalAppendScan, ChangesScan, Catalog, MergeBuilder,
    MetadataTable, InspectTable, frazil.CommitResult,
)  # fmt: skip


def arguments(function: Any) -> str:
    """Names, kinds and defaults; annotations may become more exact."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(cls: type[Any]) -> Iterator[str]:
    """Of classes that users make or refine (dataclasses) also the fields; tables and transactions are made by functions."""
    for name in sorted(n for n in dir(cls) if not n.startswith("_") or (n == "__init__" and is_dataclass(cls))):
        found = inspect.getattr_static(cls, name)
        value = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        kind = type(found).__name__ if isinstance(found, classmethod | staticmethod) else ""
        if inspect.isfunction(value):
            yield f"{cls.__name__}.{name}{arguments(value)} {kind}".rstrip()
        else:
            yield f"{cls.__name__}.{name}"


def public_names() -> list[str]:
    own = []
    for name in sorted(frazil.__all__):
        value = getattr(frazil, name)
        own.append(f"frazil.{name}{arguments(value) if inspect.isfunction(value) else ''}")
    return [*own, *(line for cls in CLASSES for line in members(cls))]


def test_public_names_and_their_arguments_are_those_that_were_promised() -> None:
    promised, found = LISTED.read_text().splitlines(), public_names()
    assert [line for line in promised if line not in found] == [], "gone, or changed"
    assert [line for line in found if line not in promised] == [], "new: add them to public_names.txt when they are meant"


if __name__ == "__main__":
    print("\n".join(public_names()))
