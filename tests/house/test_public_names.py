"""The names that users type, and their arguments in order: they stay. `public_names.txt` lists
them.

After a change that is meant: `python -m tests.house.test_public_names >
tests/house/public_names.txt`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import frazil
from frazil import errors, testing
from frazil.commit.evolve.evolve_spec import UpdateSortOrder, UpdateSpec
from frazil.commit.evolve.manage_snapshots import ManageSnapshots, UpdateStatistics
from frazil.commit.evolve.update_properties import UpdateProperties
from frazil.maintain.advice.auto import AutoResult
from frazil.maintain.advice.finding import Finding, Findings
from frazil.maintain.compact.procedure import RewriteDataFilesResult
from frazil.maintain.migration.add_files import AddFilesResult
from frazil.maintain.migration.move_tables import MoveTablesResult
from frazil.maintain.migration.new_tables import MigrateTableResult, SnapshotTableResult
from frazil.maintain.migration.register import RegisterTableResult
from frazil.maintain.orphans.remove_orphan_files import OrphanFilesResult
from frazil.maintain.position_deletes.convert_equality import ConvertEqualityDeletesResult
from frazil.maintain.position_deletes.rewrite_position_delete_files import (
    RewritePositionDeleteFilesResult,
)
from frazil.maintain.rewrite_manifests import RewriteManifestsResult
from frazil.maintain.rewrite_table_path.table_path import RewriteTablePathResult
from frazil.maintain.snapshots.expire_snapshots import ExpireSnapshotsResult
from frazil.maintain.snapshots.move_snapshots import (
    AncestorsResult,
    FastForwardResult,
    MovedSnapshotResult,
    PickedSnapshotResult,
)
from frazil.maintain.stats.partition_stats import PartitionStatsResult
from frazil.maintain.stats.table_stats import TableStatsResult
from frazil.metrics import CommitReport, ScanReport
from frazil.scan.explain.delete_report import ExplainedDelete, ExplainedDeletes
from frazil.scan.explain.explain_file import ExplainedCondition, ExplainedFile
from frazil.scan.explain.explanation import Explanation
from frazil.storage import FileIO
from frazil.stream.engine import StreamWriter
from frazil.stream.sink.many_tables import SetAside, TablesResult
from frazil.table.catalog import Catalog
from frazil.table.catalog_transaction import (
    CatalogTransaction,
    CreateTableTransaction,
    TransactionPart,
)
from frazil.table.changelog import ChangesScan
from frazil.table.evolve import (
    SnapshotFiles,
    UpdateSchema,
    UpdateSnapshot,
    Updating,
)
from frazil.table.expire_chain import ExpireSnapshots
from frazil.table.inspect import InspectTable
from frazil.table.load import StaticTable
from frazil.table.maintenance import MaintenanceTable
from frazil.table.merge import MergeBuilder
from frazil.table.metadata_table import MetadataTable
from frazil.table.scan import DataScan, IncrementalAppendScan
from frazil.table.table import Table
from frazil.table.transaction import Transaction
from frazil.table.views import View

LISTED = Path(__file__).with_name("public_names.txt")
CLASSES: tuple[type[Any], ...] = (
    Table, StaticTable, Transaction, CreateTableTransaction, DataScan, IncrementalAppendScan, ChangesScan, Catalog, MergeBuilder,
    MetadataTable, View, InspectTable, MaintenanceTable, frazil.CommitResult, UpdateSnapshot, SnapshotFiles, FileIO, ScanReport, CommitReport,
    CatalogTransaction, TransactionPart, Updating, UpdateSchema, UpdateSpec, UpdateSortOrder, UpdateProperties, UpdateStatistics,
    ManageSnapshots, ExpireSnapshots, Explanation, ExplainedDelete, ExplainedDeletes, ExplainedFile,
    ExplainedCondition, StreamWriter, TablesResult, SetAside,
)  # fmt: skip
RESULTS: tuple[type[Any], ...] = (  # of procedures
    AddFilesResult, AncestorsResult, AutoResult, ConvertEqualityDeletesResult, ExpireSnapshotsResult, FastForwardResult, Finding, Findings,
    MigrateTableResult, MoveTablesResult, MovedSnapshotResult, OrphanFilesResult, PartitionStatsResult, PickedSnapshotResult,
    RegisterTableResult, RewriteDataFilesResult, RewriteManifestsResult, RewritePositionDeleteFilesResult, RewriteTablePathResult,
    SnapshotTableResult, TableStatsResult,
)  # fmt: skip

PYICEBERG_MODULES = (  # and frazil.metrics, frazil.logs
    "frazil.catalog", "frazil.exceptions", "frazil.expressions", "frazil.io", "frazil.io.pyarrow", "frazil.logs", "frazil.manifest", "frazil.metrics", "frazil.partitioning",
    "frazil.schema", "frazil.table", "frazil.table.refs", "frazil.table.snapshots", "frazil.table.sorting", "frazil.table.metadata", "frazil.table.statistics", "frazil.table.update",
    "frazil.transforms", "frazil.typedef", "frazil.types", "frazil.view",
)  # fmt: skip


def arguments(function: Any) -> str:
    """Names, kinds and defaults; annotations may become more exact."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(cls: type[Any]) -> Iterator[str]:
    """Of classes that users make or refine (dataclasses) also the fields; tables and transactions
    are made by functions.
    """
    for name in sorted(
        n for n in dir(cls) if not n.startswith("_") or (n == "__init__" and is_dataclass(cls))
    ):
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


def is_made_elsewhere(cls: type[Any]) -> bool:
    """Tell whether a class is an error, or a protocol, which nobody constructs."""
    return issubclass(cls, Exception) or getattr(cls, "_is_protocol", False)


def of_exported_classes() -> Iterator[str]:
    """How the classes are made that the package and PyIceberg's modules export (schemas, fields,
    predicates, snapshots), and the members of enums. Not of those whose members are listed anyway,
    nor of errors."""
    exported: dict[str, type[Any]] = {}
    for module in ("frazil", *PYICEBERG_MODULES):
        found = importlib.import_module(module)
        exported |= {
            value.__name__: value
            for name in found.__all__
            if inspect.isclass(value := getattr(found, name, None))
        }
    for name, cls in sorted(exported.items()):
        if issubclass(cls, Enum):
            yield from (f"{name}.{member} = {cls[member].value!r}" for member in cls.__members__)
        elif (
            inspect.isfunction(cls.__init__)
            and cls not in (*CLASSES, *RESULTS)
            and not is_made_elsewhere(cls)
        ):
            yield f"{name}.__init__{arguments(cls.__init__)}"


def of_testing() -> Iterator[str]:
    """The tools for tests, which users make themselves."""
    for name in testing.__all__:
        yield f"frazil.testing.{name}{arguments(getattr(testing, name).__init__)}"
        yield from members(getattr(testing, name))


def of_errors() -> Iterator[str]:
    """The errors, with the classes by which an `except` catches them, and what each of them tells."""
    for name, value in sorted(vars(errors).items()):
        if inspect.isclass(value) and issubclass(value, errors.FrazilError):
            caught_as = [
                c.__name__
                for c in value.__mro__[1:]
                if issubclass(c, Exception) and c not in (Exception,)
            ]
            yield f"frazil.errors.{name}({', '.join(caught_as)}) retryable={value.retryable}"
    yield f"FrazilError.__init__{arguments(errors.FrazilError.__init__)}"
    yield from (
        f"FrazilError.{name}"
        for name in sorted(vars(errors.FrazilError))
        if not name.startswith("_")
    )
    yield from (
        f"FrazilError.{name}"
        for name in sorted(vars(errors.FrazilError("text")))
        if not name.startswith("_")
    )


def public_names() -> list[str]:
    own = []
    for name in sorted(frazil.__all__):
        value = getattr(frazil, name)
        own.append(f"frazil.{name}{arguments(value) if inspect.isfunction(value) else ''}")
    by_path = [line for module in PYICEBERG_MODULES for line in of_module(module)]
    return [
        *own,
        *by_path,
        *of_exported_classes(),
        *(line for cls in (*CLASSES, *RESULTS) for line in members(cls)),
        *of_testing(),
        *of_errors(),
    ]


def test_public_names_and_their_arguments_are_those_that_were_promised() -> None:
    promised, found = LISTED.read_text().splitlines(), public_names()
    assert [line for line in promised if line not in found] == [], "gone, or changed"
    assert [line for line in found if line not in promised] == [], (
        "new: add them to public_names.txt when they are meant"
    )


def test_every_result_that_a_procedure_returns_is_listed() -> None:
    """A procedure's annotation names its result, so that a new procedure cannot be forgotten here."""
    listed = {cls.__name__ for cls in (*RESULTS, *CLASSES)}
    procedures = [
        m
        for n, m in vars(MaintenanceTable).items()
        if inspect.isfunction(m) and not n.startswith("_")
    ]
    returned = {
        part.strip()
        for m in procedures
        for part in inspect.signature(m).return_annotation.split("|")
    }
    assert len(procedures) > 15 and returned - listed == set()


if __name__ == "__main__":
    print("\n".join(public_names()))
