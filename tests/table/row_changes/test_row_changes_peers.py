"""delete and update on tables that other engines wrote, of every past: counts are right, Java Iceberg reads the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.expressions import EqualTo, IsNull
from tests import golden as golden_tables
from tests.golden import read_metadata
from tests.peers.checks import JavaCheck
from tests.peers.rowsum import rowsum

MODES = ["copy-on-write", "merge-on-read"]
TABLES = [
    "plain_v2", "plain_v3", "nested", "types_core", "types_all", "part_multi", "spec_evolution_v2", "schema_evolution", "pos_deletes_file",
    "pos_deletes_part", "eq_basic", "eq_pos_dv_mix", "dv_v3", "lineage_mor", "upgrade_v2_v3", "orc_table", "avro_table", "defaults_v3",
]  # fmt: skip


def changed(t: Any, mode: str) -> tuple[int, int]:
    """The rows of one key deleted, those of another updated to what they are, in three snapshots; what rows there must be."""
    key = next(f.name for f in t.schema().fields if f.field_type.is_primitive)
    column = t.to_arrow()[key].to_pylist()
    values = list(dict.fromkeys(column))
    first, second = values[0], values[min(1, len(values) - 1)]

    def where(value: Any) -> Any:
        return IsNull(key) if value is None else EqualTo(key, value)

    gone, same = column.count(first), column.count(second) if second != first else 0
    kept = [r for r in t.to_arrow().to_pylist() if r[key] != first]
    assert t.delete(where(first), mode=mode, runner="in-process").rows_deleted == gone
    assert t.update({key: frazil.expressions.Reference(key)}, where(second), mode=mode, runner="in-process").rows_updated == same
    assert sorted(map(repr, t.to_arrow().to_pylist())) == sorted(map(repr, kept))
    assert t.delete(where(first), mode=mode, runner="in-process").snapshot_id is None
    return gone, same


@pytest.fixture(scope="module")
def made(golden: golden_tables.Golden, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for mode in MODES:
        place = tmp_path_factory.mktemp(mode)
        for name in TABLES:
            t = frazil.load_table(str(golden_tables.writable_copy(golden[name].metadata_file, place / name)))
            if mode == "merge-on-read" and t.format_version < 2:
                t.upgrade(2)
            if name == "orc_table":  # holds times before 1970 with fractions, which cannot be written to ORC again
                t.set_properties({"write.format.default": "parquet"})
            changed(t, mode)
            found[name, mode] = t
    return found


def test_tables_of_other_engines_are_changed_by_rows(made: Any) -> None:
    assert len(made) == len(TABLES) * 2


@pytest.mark.java
def test_java_reads_what_was_deleted_and_updated(made: Any, java_check: JavaCheck) -> None:
    paths = {k: Path(t.metadata_location.removeprefix("file://")) for k, t in made.items()}
    results = java_check(list(paths.values()), newest=4, timeout=1500)  # the one that was changed, and what came of it
    for k, path in paths.items():
        t, result = made[k], results[str(path)]
        assert result["problems"] == [], (k, result)
        schema = next(s for s in read_metadata(t.metadata_location)["schemas"] if s["schema-id"] == t.schema().schema_id)
        mine = rowsum(t.to_arrow(), schema)
        assert (result["rows"], result["sum"]) == (mine["rows"], mine["sum"]), k
