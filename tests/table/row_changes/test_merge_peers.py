"""What a MERGE wrote, read by Java Iceberg: tables of every past, both modes, v2 and v3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from tests import golden as golden_tables
from tests.golden import read_metadata
from tests.peers.checks import JavaCheck
from tests.peers.rowsum import rowsum

pytestmark = pytest.mark.java
TABLES = [
    "plain_v2", "plain_v3", "nested", "types_core", "types_all", "part_multi", "spec_evolution_v2", "schema_evolution", "pos_deletes_file",
    "pos_deletes_part", "eq_basic", "eq_pos_dv_mix", "dv_v3", "lineage_mor", "upgrade_v2_v3", "orc_v2", "avro_table", "defaults_v3",
]  # fmt: skip
MODES = ["copy-on-write", "merge-on-read"]


def merged(t: Any, mode: str) -> None:
    """One row deleted by its key, some updated to what they are, two inserted again."""
    rows, key = t.to_arrow(), next(f.name for f in t.schema().fields if f.field_type.is_primitive)
    on = f"target.{key} <=> source.{key}"
    t.merge(rows.slice(0, 1), on, runner="in-process").when_matched_delete().execute(mode)
    seen: set[str] = set()
    unique = [not (repr(v) in seen or seen.add(repr(v))) and len(seen) < 5 for v in rows[key].to_pylist()]  # type: ignore[func-returns-value]
    t.merge(rows.filter(pa.array(unique)), on, runner="in-process").when_matched_update_all().execute(mode)
    t.merge(rows.slice(0, 2), "false", runner="in-process").when_not_matched_insert_all().execute(mode)


@pytest.fixture(scope="module")
def made(golden: golden_tables.Golden, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for mode in MODES:
        place = tmp_path_factory.mktemp(mode)
        for name in TABLES:
            t = frazil.load_table(str(golden_tables.writable_copy(golden[name].metadata_file, place / name)))
            merged(t, mode)
            found[name, mode] = t
    return found


@pytest.fixture(scope="module")
def judged(made: dict[tuple[str, str], Any], java_check: JavaCheck) -> dict[tuple[str, str], Any]:
    paths = {k: Path(t.metadata_location.removeprefix("file://")) for k, t in made.items()}
    results = java_check(list(paths.values()), newest=4, timeout=1500)  # the one merged into, and what came of it
    return {k: results[str(p)] for k, p in paths.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TABLES)
def test_java_reads_what_was_merged(made: Any, judged: Any, name: str, mode: str) -> None:
    t, result = made[name, mode], judged[name, mode]
    assert result["problems"] == []
    schema = next(s for s in read_metadata(t.metadata_location)["schemas"] if s["schema-id"] == t.schema().schema_id)
    mine = rowsum(t.to_arrow(), schema)
    assert (result["rows"], result["sum"]) == (mine["rows"], mine["sum"])
