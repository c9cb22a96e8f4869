"""The same catalogs, opened in turn by real Java Iceberg, by PyIceberg and by us."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import load_backend
from tests.catalog.conftest import TABLE, changed, committed, made

JAVA = """
import json, sys
w = sys.argv[-1]
spark.sql("INSERT INTO j.db.t VALUES (1), (2)")
spark.sql("ALTER TABLE j.db.t SET TBLPROPERTIES ('java' = 'was here')")
spark.sql("CREATE TABLE j.db.made_by_java (id bigint) USING iceberg TBLPROPERTIES ('write.metadata.compression-codec' = 'gzip')")
spark.sql("INSERT INTO j.db.made_by_java VALUES (7)")
print("ANSWER" + json.dumps({
    "tables": sorted(r[1] for r in spark.sql("SHOW TABLES IN j.db").collect()),
    "namespaces": sorted(r[0] for r in spark.sql("SHOW NAMESPACES IN j").collect()),
    "rows": sorted(r[0] for r in spark.table("j.db.t").collect()),
    "properties": {r[0]: r[1] for r in spark.sql("SHOW TBLPROPERTIES j.db.t").collect()},
}))
"""

JAVA_AGAIN = """
import json
print("ANSWER" + json.dumps([{r[0]: r[1] for r in spark.sql("SHOW TBLPROPERTIES j.db." + t).collect()} for t in ("t", "made_by_java")]))
"""

PYICEBERG = """
import sys
import json
import pyarrow as pa
from pyiceberg.catalog import load_catalog
c = load_catalog("c", type="sql", uri=sys.argv[-2], warehouse=sys.argv[-1])
t = c.load_table("db.t")
t.append(pa.table({"id": pa.array([1, 2], pa.int64())}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])))
c.create_table("db.made_by_pyiceberg", pa.schema([("a", pa.int32())]))
print("ANSWER" + json.dumps({"tables": c.list_tables("db"), "namespaces": c.list_namespaces(), "inner": c.list_namespaces("ns"),
    "properties": c.load_namespace_properties(("ns", "inner")), "table": t.properties}))
"""


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


@pytest.mark.java
def test_java_and_we_take_turns_on_one_warehouse_of_path_tables(
    java_check: Any, tmp_path: Path
) -> None:
    warehouse = str(tmp_path / "w")
    backend = load_backend("p", type="path", warehouse=warehouse)
    table = made(backend)
    for i in range(3):
        table = committed(backend.swap(table, changed(table, i=str(i))))
    # Java goes on from a stale one
    (tmp_path / "w/db/t/metadata/version-hint.text").write_text("1")
    backend.create_namespace(("empty",))
    seen = answer(java_check.run(JAVA, warehouse))
    assert (
        seen["rows"] == [1, 2]
        and seen["tables"] == ["made_by_java", "t"]
        and seen["namespaces"] == ["db", "empty"]
    )
    assert seen["properties"]["i"] == "2"
    found = backend.load(TABLE)
    assert found.metadata.properties["java"] == "was here" and found.metadata_location.endswith(
        "/v6.metadata.json"
    )
    committed(backend.swap(found, changed(found, after="java")))
    zipped = backend.load(("db", "made_by_java"))
    assert zipped.metadata_location.endswith("/v2.gz.metadata.json")
    committed(backend.swap(zipped, changed(zipped, after="java")))
    assert all(p["after"] == "java" for p in answer(java_check.run(JAVA_AGAIN, warehouse)))


def test_pyiceberg_and_we_take_turns_on_one_sqlite_catalog(
    pyiceberg_check: Any, tmp_path: Path
) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    backend = load_backend("c", type="sql", uri=uri, warehouse=warehouse)
    table = made(backend)
    committed(backend.swap(table, changed(table, ours="1")))
    backend.create_namespace(("ns", "inner"), {"k": "v"})
    seen = answer(pyiceberg_check.run(PYICEBERG, uri, warehouse))
    assert seen["tables"] == [["db", "made_by_pyiceberg"], ["db", "t"]] or sorted(
        seen["tables"]
    ) == [
        ["db", "made_by_pyiceberg"],
        ["db", "t"],
    ]
    assert sorted(seen["namespaces"]) == [["db"], ["ns"]] and seen["inner"] == [["ns", "inner"]]
    assert seen["properties"]["k"] == "v" and seen["table"] == {"ours": "1"}
    found = backend.load(TABLE)
    assert len(found.metadata.snapshots) == 1
    committed(backend.swap(found, changed(found, after="pyiceberg")))
    assert backend.table_exists(("db", "made_by_pyiceberg"))
    backend.drop_table(TABLE, purge=True)
    assert not [f for _, _, files in os.walk(tmp_path / "w/db/t") for f in files], (
        "purge takes PyIceberg's data files, manifests and lists too"
    )
    backend.close()
