"""The names that users type, and their arguments in order: they stay. `public_names.txt` lists them.

After a change that is meant: `python -m tests.house.test_public_names > tests/house/public_names.txt`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import frazil
from frazil.metrics import CommitReport, ScanReport
from frazil.storage import FileIO
from frazil.table.catalog import Catalog
from frazil.table.catalog_transaction import CreateTableTransaction
from frazil.table.changes import ChangesScan
from frazil.table.inspect import InspectTable
from frazil.table.maintenance import MaintenanceTable
from frazil.table.merge import MergeBuilder
from frazil.table.metadata_table import MetadataTable
from frazil.table.scan import DataScan, IncrementalAppendScan
from frazil.table.static import StaticTable
from frazil.table.table import Table
from frazil.table.transaction import Transaction
from frazil.table.update_snapshot import SnapshotFiles, UpdateSnapshot
from frazil.table.views import View

LISTED = Path(__file__).with_name("public_names.txt")
CLASSES: tuple[type[Any], ...] = (
    Table, StaticTable, Transaction, CreateTableTransaction, DataScan, IncrementalAppendScan, ChangesScan, Catalog, MergeBuilder,
    MetadataTable, View, InspectTable, MaintenanceTable, frazil.CommitResult, UpdateSnapshot, SnapshotFiles, FileIO, ScanReport, CommitReport,
)  # fmt: skip

PYICEBERG_MODULES = (  # and frazil.metrics
    "frazil.catalog", "frazil.exceptions", "frazil.expressions", "frazil.io", "frazil.io.pyarrow", "frazil.metrics", "frazil.partitioning",
    "frazil.schema", "frazil.table", "frazil.table.refs", "frazil.table.snapshots", "frazil.table.sorting", "frazil.table.statistics", "frazil.transforms",
    "frazil.types",
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


def of_module(module: str) -> Iterator[str]:
    """The names that one of PyIceberg's modules has here, beside rooms and modules of the house."""
    found = importlib.import_module(module)
    for name in sorted(found.__all__):
        value = getattr(found, name, None)
        if value is not None and not inspect.ismodule(value):
            yield f"{module}.{name}{arguments(value) if inspect.isfunction(value) else ''}"


def public_names() -> list[str]:
    own = []
    for name in sorted(frazil.__all__):
        value = getattr(frazil, name)
        own.append(f"frazil.{name}{arguments(value) if inspect.isfunction(value) else ''}")
    by_path = [line for module in PYICEBERG_MODULES for line in of_module(module)]
    return [*own, *by_path, *(line for cls in CLASSES for line in members(cls))]


def test_public_names_and_their_arguments_are_those_that_were_promised() -> None:
    promised, found = LISTED.read_text().splitlines(), public_names()
    assert [line for line in promised if line not in found] == [], "gone, or changed"
    assert [line for line in found if line not in promised] == [], "new: add them to public_names.txt when they are meant"


if __name__ == "__main__":
    print("\n".join(public_names()))
