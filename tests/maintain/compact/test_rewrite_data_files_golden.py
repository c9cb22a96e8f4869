"""Compaction of tables that other engines wrote, of every past: the same rows and row ids; Java
Iceberg and PyIceberg read what it leaves, and Java's compaction goes on after ours, and ours after
Java's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import InvalidInput
from frazil.maintain.compact.procedure import RewriteDataFilesResult
from frazil.spec.types import ListType, MapType, StructType
from frazil.table.table import Table
from tests import golden as golden_tables
from tests.builders.catalogs import catalog_of
from tests.builders.examples import sampled
from tests.golden import read_metadata
from tests.maintain.compacting import table_of
from tests.maintain.support import numbers
from tests.peers.checks import JavaCheck, PyIcebergCheck
from tests.peers.rowsum import rowsum

ALL = {"rewrite-all": "true", "remove-dangling-deletes": "true"}
SHOWN = [
    "plain_v1", "plain_v3", "nested", "types_core", "types_all", "part_multi", "part_special", "spec_evolution_v2", "schema_evolution",
    "pos_deletes_part", "eq_partitioned", "eq_pos_dv_mix", "dv_v3", "lineage_mor", "upgrade_v2_v3", "avro_table", "defaults_v3", "variant_v3",
    "upsert_part_v2", "upsert_v3",
]  # fmt: skip
CURVES = (
    "binary",
    "boolean",
    "date",
    "decimal",
    "double",
    "fixed",
    "float",
    "int",
    "long",
    "string",
    "time",
    "uuid",
)


def opened(golden: golden_tables.Golden, name: str, place: Path) -> Table:
    """A writable copy; ORC files hold times that cannot be written to ORC again, so that new files
    are Parquet.
    """
    table = frazil.load_table(
        str(golden_tables.writable_copy(golden[name].metadata_file, place / name))
    )
    if table.properties.get("write.format.default") == "orc" or name in ("orc_table", "orc_v2"):
        table.set_properties({"write.format.default": "parquet"})
    return table


def content(table: Table) -> list[str]:
    lineage = ("_row_id", "_last_updated_sequence_number") if table.format_version >= 3 else ()
    return sorted(map(repr, table.scan(selected_fields=("*", *lineage)).to_arrow().to_pylist()))


def ways(table: Table) -> list[dict[str, Any]]:
    """By bin packing, by the first column that can be sorted, and along both curves over columns
    that have an order.
    """
    spec = {f.source_id for f in table.spec().fields}
    plain = [
        f
        for f in table.schema().fields
        if not isinstance(f.field_type, StructType | ListType | MapType)
    ]
    named = [
        f"`{f.name}`"
        for f in plain
        if str(f.field_type).startswith(CURVES) and f.field_id not in spec
    ][:3]
    found: list[dict[str, Any]] = [{}]
    if named:
        found += [
            {"sort_order": f"{named[0]} DESC NULLS LAST"},
            {"sort_order": f"zorder({', '.join(named)})"},
        ]
        found += [{"strategy": "hilbert", "sort_order": named}]
    return found


def promised(result: RewriteDataFilesResult) -> dict[str, Any]:
    """What the dry run knows: all but the number of new files, which it estimates."""
    return {k: v for k, v in numbers(result).items() if k != "added_data_files_count"} | {
        "removed": sorted(result.removed_files)
    }


@pytest.mark.parametrize("name", sampled(golden_tables.names(deletes=None), 5))
def test_every_golden_table_keeps_its_rows(
    golden: golden_tables.Golden, tmp_path: Path, name: str
) -> None:
    table = opened(golden, name, tmp_path)
    before = content(table)
    for way in ways(table):
        expected = table.maintenance.rewrite_data_files(
            **way, options=ALL, dry_run=True, runner="in-process"
        )
        done = table.maintenance.rewrite_data_files(**way, options=ALL, runner="in-process")
        assert content(table) == before, way
        assert promised(done) == promised(expected), way
    assert table.inspect.delete_files().num_rows == 0 or not before


@pytest.fixture(scope="module")
def compacted(
    golden: golden_tables.Golden, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Table]:
    place, found = tmp_path_factory.mktemp("compacted"), {}
    for n, name in enumerate(SHOWN):
        table = opened(golden, name, place)
        every = ways(table)
        table.maintenance.rewrite_data_files(
            **every[n % len(every)], options=ALL, runner="in-process"
        )
        found[name] = table
    return found


@pytest.mark.java
def test_java_and_pyiceberg_read_what_a_compaction_leaves(
    compacted: dict[str, Table], java_check: JavaCheck, pyiceberg_check: PyIcebergCheck
) -> None:
    paths = {n: Path(t.metadata_location.removeprefix("file://")) for n, t in compacted.items()}
    java, python = (
        java_check(list(paths.values()), timeout=1500),
        pyiceberg_check(list(paths.values())),
    )
    for name, path in paths.items():
        table = compacted[name]
        schema = next(
            s
            for s in read_metadata(table.metadata_location)["schemas"]
            if s["schema-id"] == table.schema().schema_id
        )
        mine = rowsum(table.to_arrow(), schema)
        assert java[str(path)]["problems"] == [], name
        assert (java[str(path)]["rows"], java[str(path)]["sum"]) == (mine["rows"], mine["sum"]), (
            name
        )
        assert python[str(path)]["ok"] or name in ("variant_v3", "types_all", "upgrade_v2_v3"), (
            name,
            python[str(path)],
        )


AGAIN = """
import json
out = {}
for name, order in json.loads(sys.argv[3]):
    t = f"j.db.{name}"
    call = f"CALL j.system.rewrite_data_files(table => 'db.{name}', {order} options => map('rewrite-all', 'true'))"
    spark.sql(f"INSERT INTO {t} SELECT id + 1000, p, x, s FROM {t} WHERE id < 5")
    out[name] = [spark.sql(call).collect()[0].asDict(), sorted(r[0] for r in spark.sql(f"SELECT id FROM {t}").collect())]
print("RESULT" + json.dumps(out))
"""
ORDERS = {
    "binpack": "", "sort": "strategy => 'sort', sort_order => 's DESC NULLS LAST, x',",
    "zorder": "strategy => 'sort', sort_order => 'zorder(x, s)',",
}  # fmt: skip


@pytest.mark.java
def test_java_compacts_after_us_and_we_after_java(tmp_path: Path, java_check: JavaCheck) -> None:
    catalog = catalog_of("path", tmp_path)
    tables = {
        f"{how}{version}": table_of(catalog, f"{how}{version}", version)
        for how in ORDERS
        for version in (1, 2, 3)
    }
    for name, table in tables.items():
        table.delete("id % 10 = 3")
        how = name.rstrip("123")
        table.maintenance.rewrite_data_files(
            None if how == "binpack" else "sort",
            {"sort": "s DESC NULLS LAST, x", "zorder": "zorder(x, s)"}.get(how),
            {"rewrite-all": True},
        )
    said = java_check.run(
        AGAIN,
        tmp_path / "wh",
        json.dumps([[n, ORDERS[n.rstrip("123")]] for n in tables]),
        timeout=900,
    )
    java = json.loads(said.partition("RESULT")[2].splitlines()[0])
    for name, table in tables.items():
        counts, ids = java[name]
        assert (
            counts["rewritten_data_files_count"] == 2 and counts["failed_data_files_count"] == 0
        ), name
        assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == ids, name
        done = table.maintenance.rewrite_data_files(options={"rewrite-all": True})
        assert list(counts) == done.to_arrow().column_names, name
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == ids, name


def test_a_curve_over_a_list_is_refused(golden: golden_tables.Golden, tmp_path: Path) -> None:
    table = opened(golden, "nested", tmp_path)
    inside = next(
        f.name for f in table.schema().fields if isinstance(f.field_type, ListType | MapType)
    )
    with pytest.raises(InvalidInput, match=inside):
        table.maintenance.rewrite_data_files(sort_order=f"zorder({inside})")
