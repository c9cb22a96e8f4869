"""PyIceberg and we take turns on the tables of one Hive Metastore 2.3: PyIceberg 0.12 makes calls that 4.0 no longer has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import NoSuchTableError
from tests.catalog.conftest import HIVE

SERVERS = [os.environ[HIVE["hive2"]]] if os.environ.get(HIVE["hive2"]) else []

BEGINNING = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.types import IntegerType
uri, db, warehouse = sys.argv[-3:]
c = load_catalog("h", type="hive", uri=uri, warehouse=warehouse)
def rows(t):
    return sorted([r["id"], r["s"]] for r in t.scan().to_arrow().to_pylist())
"""
FIRST = BEGINNING + """
t = c.load_table(f"{db}.t")
seen, properties = rows(t), dict(t.properties)
t.append(pa.table({"id": pa.array([2], pa.int64()), "s": ["pyiceberg"]}))
with t.update_schema() as change:
    change.add_column("more", IntegerType())
with t.transaction() as tx:
    tx.set_properties(theirs="2")
    tx.remove_properties("gone")
made = c.create_table(f"{db}.made_by_pyiceberg", pa.schema([("id", pa.int64()), ("s", pa.string())]), properties={"format-version": "2"})
made.append(pa.table({"id": pa.array([7], pa.int64()), "s": ["pyiceberg"]}))
print("ANSWER" + json.dumps({"rows": seen, "properties": properties, "tables": sorted(n for _, n in c.list_tables(db))}))
"""
SECOND = BEGINNING + """
t = c.load_table(f"{db}.t")
seen = rows(t)
t.append(pa.table({"id": pa.array([5], pa.int64()), "s": ["again"], "more": pa.array([5], pa.int32())}))
t.delete("id = 3")
other = c.load_table(f"{db}.renamed")
c.rename_table(f"{db}.renamed", f"{db}.back")
print("ANSWER" + json.dumps({"rows": seen, "after": rows(c.load_table(f"{db}.t")), "other": rows(other),
    "snapshots": len(t.metadata.snapshots), "columns": t.schema().column_names, "view": c.table_exists(f"{db}.v")}))
"""


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def rows(table: Any) -> list[list[Any]]:
    return sorted([r["id"], r["s"]] for r in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("uri", SERVERS)
def test_pyiceberg_and_we_take_turns_on_tables(uri: str, db: str, tmp_path: Path, pyiceberg_check: Any) -> None:
    warehouse = f"{tmp_path}/warehouse"
    with frazil.load_catalog("h", type="hive", uri=uri, warehouse=warehouse) as catalog:
        catalog.create_namespace(db)
        catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 1")
        properties = {"format-version": "2", "ours": "1", "gone": "soon"}
        catalog.create_table(f"{db}.t", "id bigint, s string", properties=properties).append([{"id": 1, "s": "us"}])
        first = answer(pyiceberg_check.run(FIRST, uri, db, f"file://{warehouse}"))
        assert first["rows"] == [[1, "us"]] and first["properties"]["ours"] == "1" and first["tables"] == ["made_by_pyiceberg", "t"]

        table = catalog.load_table(f"{db}.t")
        assert rows(table) == [[1, "us"], [2, "pyiceberg"]] and table.schema().column_names == ["id", "s", "more"]
        assert {k: table.properties.get(k) for k in ("ours", "theirs", "gone")} == {"ours": "1", "theirs": "2", "gone": None}
        table.append([{"id": 3, "s": "us", "more": 3}, {"id": 4, "s": "us"}])
        table.delete("id = 2")
        made = catalog.load_table(f"{db}.made_by_pyiceberg")
        assert rows(made) == [[7, "pyiceberg"]]
        made.append([{"id": 8, "s": "us"}])
        catalog.rename_table(f"{db}.made_by_pyiceberg", f"{db}.renamed")

        second = answer(pyiceberg_check.run(SECOND, uri, db, f"file://{warehouse}"))
        assert second["rows"] == [[1, "us"], [3, "us"], [4, "us"]] and second["other"] == [[7, "pyiceberg"], [8, "us"]]
        assert second["after"] == [[1, "us"], [4, "us"], [5, "again"]] and second["columns"] == ["id", "s", "more"] and not second["view"]

        table = catalog.load_table(f"{db}.t")
        assert rows(table) == second["after"] and len(table.metadata.snapshots) == second["snapshots"]
        table.append([{"id": 6, "s": "us"}])
        assert [6, "us"] in rows(catalog.load_table(f"{db}.t"))
        with pytest.raises(NoSuchTableError):
            catalog.load_table(f"{db}.renamed")
        assert catalog.list_tables(db) == [(db, "back"), (db, "t")] and catalog.list_views(db) == [(db, "v")]
