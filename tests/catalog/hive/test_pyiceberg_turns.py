"""PyIceberg and we take turns on the tables of one Hive Metastore: 2.3, 4.0, and 3.1 in the long
form.

Two calls of PyIceberg 0.12 are gone from 4.0. There the tests put their successors, which
PyIceberg's own client has, in their place; all else is as it comes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.errors import NoSuchTableError

BEGINNING = """
import json, sys
import pyarrow as pa
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import GetTableRequest, GetTablesRequest
from pyiceberg.catalog import hive, load_catalog
from pyiceberg.types import IntegerType
metastore, uri, db, warehouse = sys.argv[-4:]
class Client4(Client):
    def get_table(self, dbname, tbl_name):
        return self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name)).table
    def get_table_objects_by_name(self, dbname, tbl_names):
        return self.get_table_objects_by_name_req(GetTablesRequest(dbName=dbname, tblNames=tbl_names)).tables
hive.Client = Client4 if metastore == "hive4" else Client
c = load_catalog("h", type="hive", uri=uri, warehouse=warehouse)
def rows(t):
    return sorted([r["id"], r["s"]] for r in t.scan().to_arrow().to_pylist())
"""
FIRST = (
    BEGINNING
    + """
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
)
SECOND = (
    BEGINNING
    + """
t = c.load_table(f"{db}.t")
seen = rows(t)
t.append(pa.table({"id": pa.array([5], pa.int64()), "s": ["again"], "more": pa.array([5], pa.int32())}))
t.delete("id = 3")
other = c.load_table(f"{db}.renamed")
c.rename_table(f"{db}.renamed", f"{db}.back")
print("ANSWER" + json.dumps({"rows": seen, "after": rows(c.load_table(f"{db}.t")), "other": rows(other),
    "snapshots": len(t.metadata.snapshots), "columns": t.schema().column_names, "view": c.table_exists(f"{db}.v")}))
"""
)


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def rows(table: Any) -> list[list[Any]]:
    return sorted([r["id"], r["s"]] for r in table.scan().to_arrow().to_pylist())


def test_pyiceberg_and_we_take_turns_on_tables(
    metastore: str, address: str, db: str, tmp_path: Path, pyiceberg_check: Any
) -> None:
    warehouse = f"{tmp_path}/warehouse"
    with frazil.load_catalog("h", type="hive", uri=address, warehouse=warehouse) as catalog:
        catalog.create_namespace(db)
        catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 1")
        properties = {"format-version": "2", "ours": "1", "gone": "soon"}
        catalog.create_table(f"{db}.t", "id bigint, s string", properties=properties).append(
            [{"id": 1, "s": "us"}]
        )
        first = answer(pyiceberg_check.run(FIRST, metastore, address, db, f"file://{warehouse}"))
        assert (
            first["rows"] == [[1, "us"]]
            and first["properties"]["ours"] == "1"
            and first["tables"] == ["made_by_pyiceberg", "t"]
        )

        table = catalog.load_table(f"{db}.t")
        assert rows(table) == [[1, "us"], [2, "pyiceberg"]] and table.schema().column_names == [
            "id",
            "s",
            "more",
        ]
        assert {k: table.properties.get(k) for k in ("ours", "theirs", "gone")} == {
            "ours": "1",
            "theirs": "2",
            "gone": None,
        }
        table.append([{"id": 3, "s": "us", "more": 3}, {"id": 4, "s": "us"}])
        table.delete("id = 2")
        made = catalog.load_table(f"{db}.made_by_pyiceberg")
        assert rows(made) == [[7, "pyiceberg"]]
        made.append([{"id": 8, "s": "us"}])
        catalog.rename_table(f"{db}.made_by_pyiceberg", f"{db}.renamed")

        second = answer(pyiceberg_check.run(SECOND, metastore, address, db, f"file://{warehouse}"))
        assert second["rows"] == [[1, "us"], [3, "us"], [4, "us"]] and second["other"] == [
            [7, "pyiceberg"],
            [8, "us"],
        ]
        assert (
            second["after"] == [[1, "us"], [4, "us"], [5, "again"]]
            and second["columns"] == ["id", "s", "more"]
            and not second["view"]
        )

        table = catalog.load_table(f"{db}.t")
        assert (
            rows(table) == second["after"] and len(table.metadata.snapshots) == second["snapshots"]
        )
        table.append([{"id": 6, "s": "us"}])
        assert [6, "us"] in rows(catalog.load_table(f"{db}.t"))
        with pytest.raises(NoSuchTableError):
            catalog.load_table(f"{db}.renamed")
        assert catalog.list_tables(db) == [(db, "back"), (db, "t")] and catalog.list_views(db) == [
            (db, "v")
        ]
