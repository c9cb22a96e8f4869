"""What a MERGE wrote, read by Java Iceberg: tables of every past, both modes, v2 and v3."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests import golden as golden_tables
from tests.peers.checks import JavaCheck
from tests.table.row_changes.peer_copies import (
    MODES,
    Copies,
    changed_copies,
    judged_by_java,
    rows_and_sum,
)

pytestmark = pytest.mark.java
TABLES = [
    "plain_v2", "plain_v3", "nested", "types_core", "types_all", "part_multi", "spec_evolution_v2", "schema_evolution", "pos_deletes_file",
    "pos_deletes_part", "eq_basic", "eq_pos_dv_mix", "dv_v3", "lineage_mor", "upgrade_v2_v3", "orc_v2", "avro_table", "defaults_v3",
]  # fmt: skip


def merged(t: Any, mode: str) -> None:
    """One row deleted by its key, some updated to what they are, two inserted again."""
    rows, key = t.to_arrow(), next(f.name for f in t.schema().fields if f.field_type.is_primitive)
    on = f"target.{key} <=> source.{key}"
    t.merge(rows.slice(0, 1), on, runner="in-process").when_matched_delete().execute(mode)
    seen: set[str] = set()
    unique = [
        not (repr(v) in seen or seen.add(repr(v))) and len(seen) < 5 for v in rows[key].to_pylist()
    ]  # type: ignore[func-returns-value]
    t.merge(
        rows.filter(pa.array(unique)), on, runner="in-process"
    ).when_matched_update_all().execute(mode)
    t.merge(rows.slice(0, 2), "false", runner="in-process").when_not_matched_insert_all().execute(
        mode
    )


@pytest.fixture(scope="module")
def made(golden: golden_tables.Golden, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return changed_copies(golden, tmp_path_factory, TABLES, lambda t, mode, _: merged(t, mode))


@pytest.fixture(scope="module")
def judged(made: Copies, java_check: JavaCheck) -> Copies:
    return judged_by_java(made, java_check)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TABLES)
def test_java_reads_what_was_merged(made: Any, judged: Any, name: str, mode: str) -> None:
    t, result = made[name, mode], judged[name, mode]
    assert result["problems"] == []
    assert (result["rows"], result["sum"]) == rows_and_sum(t)
