"""Copies of tables that other engines wrote, changed by rows in both modes, and what Java Iceberg
says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import frazil
from tests import golden as golden_tables
from tests.golden import read_metadata
from tests.peers.checks import JavaCheck
from tests.peers.rowsum import rowsum

MODES = ["copy-on-write", "merge-on-read"]
Copies = dict[tuple[str, str], Any]


def changed_copies(
    golden: golden_tables.Golden,
    folders: pytest.TempPathFactory,
    names: Sequence[str],
    change: Callable[[Any, str, str], object],
) -> Copies:
    """A copy of each table for each mode, changed by `change(table, mode, name)`; by name and mode."""
    copies: Copies = {}
    for mode in MODES:
        place = folders.mktemp(mode)
        for name in names:
            copies[name, mode] = t = frazil.load_table(
                str(golden_tables.writable_copy(golden[name].metadata_file, place / name))
            )
            change(t, mode, name)
    return copies


def judged_by_java(copies: Copies, java_check: JavaCheck) -> Copies:
    """What Java says of each copy, and of its last snapshots: the one that was changed, and what
    came of it.
    """
    paths = {k: Path(t.metadata_location.removeprefix("file://")) for k, t in copies.items()}
    results = java_check(list(paths.values()), newest=4, timeout=1500)
    return {k: results[str(path)] for k, path in paths.items()}


def rows_and_sum(t: Any) -> tuple[Any, Any]:
    """Count and check sum of a table's rows, as Java computes them."""
    schema = next(
        s
        for s in read_metadata(t.metadata_location)["schemas"]
        if s["schema-id"] == t.schema().schema_id
    )
    mine = rowsum(t.to_arrow(), schema)
    return mine["rows"], mine["sum"]
