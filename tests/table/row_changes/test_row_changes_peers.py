"""delete and update on tables that other engines wrote, of every past: counts are right, Java
Iceberg reads the same rows.
"""

from __future__ import annotations

from typing import Any

import pytest

import frazil
from frazil.expressions import EqualTo, IsNull
from tests import golden as golden_tables
from tests.peers.checks import JavaCheck
from tests.table.row_changes.peer_copies import Copies, changed_copies, judged_by_java, rows_and_sum

TABLES = [
    "plain_v2", "plain_v3", "nested", "types_core", "types_all", "part_multi", "spec_evolution_v2", "schema_evolution", "pos_deletes_file",
    "pos_deletes_part", "eq_basic", "eq_pos_dv_mix", "dv_v3", "lineage_mor", "upgrade_v2_v3", "orc_table", "avro_table", "defaults_v3",
]  # fmt: skip


def changed(t: Any, mode: str) -> tuple[int, int]:
    """The rows of one key deleted, those of another updated to what they are, in three snapshots;
    what rows there must be.
    """
    key = next(f.name for f in t.schema().fields if f.field_type.is_primitive)
    column = t.to_arrow()[key].to_pylist()
    values = list(dict.fromkeys(column))
    first, second = values[0], values[min(1, len(values) - 1)]

    def where(value: Any) -> Any:
        return IsNull(key) if value is None else EqualTo(key, value)

    gone, same = column.count(first), column.count(second) if second != first else 0
    kept = [r for r in t.to_arrow().to_pylist() if r[key] != first]
    assert t.delete(where(first), mode=mode, runner="in-process").rows_deleted == gone
    assert (
        t.update(
            {key: frazil.expressions.Reference(key)}, where(second), mode=mode, runner="in-process"
        ).rows_updated
        == same
    )
    assert sorted(map(repr, t.to_arrow().to_pylist())) == sorted(map(repr, kept))
    assert t.delete(where(first), mode=mode, runner="in-process").snapshot_id is None
    return gone, same


def prepared_and_changed(t: Any, mode: str, name: str) -> None:
    if mode == "merge-on-read" and t.format_version < 2:
        t.upgrade(2)
    if name == "orc_table":
        # holds times before 1970 with fractions, which cannot be written to ORC again
        t.set_properties({"write.format.default": "parquet"})
    changed(t, mode)


@pytest.fixture(scope="module")
def made(golden: golden_tables.Golden, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return changed_copies(golden, tmp_path_factory, TABLES, prepared_and_changed)


def test_tables_of_other_engines_are_changed_by_rows(made: Any) -> None:
    assert len(made) == len(TABLES) * 2


@pytest.mark.java
def test_java_reads_what_was_deleted_and_updated(made: Any, java_check: JavaCheck) -> None:
    for k, result in judged_by_java(made, java_check).items():
        assert result["problems"] == [], (k, result)
        assert (result["rows"], result["sum"]) == rows_and_sum(made[k]), k
