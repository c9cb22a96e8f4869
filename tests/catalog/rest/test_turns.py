"""Java Iceberg, PyIceberg and we take turns on the tables and views of one REST catalog
(FRAZIL_TEST_REST and FRAZIL_TEST_NESSIE name servers).
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

import frazil
from tests.catalog.test_java_clients import jars
from tests.storage.conftest import s3_place

SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []

JAVA = """
import json, sys
uri, db = sys.argv[-2:]
for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "rest"), (".uri", uri), (".cache-enabled", "false")):
    spark.conf.set("spark.sql.catalog.r" + key, value)
spark.sql(f"INSERT INTO r.{db}.t VALUES (3, 'java')")
seen = sorted(list(r) for r in spark.table(f"r.{db}.v").collect())
team = {r[0]: r[1] for r in spark.sql(f"SHOW TBLPROPERTIES r.{db}.v").collect()}.get("team")
spark.sql(f"CREATE VIEW r.{db}.made_by_java (word COMMENT 'a word', n) AS SELECT s, count(*) FROM r.{db}.t GROUP BY s")
spark.sql(f"USE r.{db}")
spark.sql("CREATE OR REPLACE VIEW v AS SELECT id, s FROM t WHERE id > 1")
print("ANSWER" + json.dumps({
    "rows": sorted(list(r) for r in spark.table(f"r.{db}.t").collect()), "view": seen,
    "views": sorted(r[1] for r in spark.sql(f"SHOW VIEWS IN r.{db}").collect()),
    "team": team,
}))
"""

PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
uri, db = sys.argv[-2:]
c = load_catalog("r", type="rest", uri=uri)
t = c.load_table(f"{db}.t")
t.append(pa.table({"id": pa.array([4], pa.int64()), "s": ["pyiceberg"]}))
view = c.load_view(f"{db}.v")
print("ANSWER" + json.dumps({
    "rows": sorted([r["id"], r["s"]] for r in t.scan().to_arrow().to_pylist()), "views": sorted(v[-1] for v in c.list_views(db)),
    "sql": view.sql_for("spark").sql, "versions": [v.version_id for v in view.versions],
}))
"""

PYICEBERG_OF_NESSIE = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
properties, db = json.loads(sys.argv[-2]), sys.argv[-1]
c = load_catalog("n", **properties)
def rows(t):
    return sorted([r["id"], r["s"]] for r in t.scan().to_arrow().to_pylist())
t = c.load_table(f"{db}.t")
seen = rows(t)
t.append(pa.table({"id": pa.array([10 + len(seen)], pa.int64()), "s": ["pyiceberg"]}))
made = c.create_table_if_not_exists(f"{db}.made_by_pyiceberg", pa.schema([("id", pa.int64()), ("s", pa.string())]))
made.append(pa.table({"id": pa.array([7], pa.int64()), "s": ["pyiceberg"]}))
print("ANSWER" + json.dumps({"rows": seen, "tables": sorted(n for _, n in c.list_tables(db)), "properties": dict(t.properties)}))
"""
JAVA_OF_NESSIE = """
import json, sys
jars, settings, db = sys.argv[-3].split(","), json.loads(sys.argv[-2]), sys.argv[-1]
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
for jar in jars:
    loader.addURL(spark._jvm.java.io.File(jar).toURI().toURL())
for key, value in settings.items():
    spark.conf.set("spark.sql.catalog.n" + key, value)
seen = sorted(list(r) for r in spark.table(f"n.{db}.t").collect())
spark.sql(f"INSERT INTO n.{db}.t VALUES (20, 'java')")
spark.sql(f"ALTER TABLE n.{db}.t ADD COLUMN more int")
spark.sql(f"DELETE FROM n.{db}.t WHERE id = 1")
print("ANSWER" + json.dumps({"rows": seen, "tables": sorted(r.tableName for r in spark.sql(f"SHOW TABLES IN n.{db}").collect())}))
"""


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


@pytest.mark.java
@pytest.mark.parametrize("uri", SERVERS)
def test_java_pyiceberg_and_we_take_turns_on_tables_and_views(
    uri: str, java_check: Any, pyiceberg_check: Any
) -> None:
    db = f"t{uuid.uuid4().hex[:8]}"
    catalog = frazil.load_catalog("r", type="rest", uri=uri)
    catalog.create_namespace(db)
    table = catalog.create_table(f"{db}.t", "id bigint, s string")
    table.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    sql = "SELECT id FROM t WHERE s = 'b'"
    catalog.create_view(
        f"{db}.v",
        "two bigint",
        sql=sql,
        default_catalog="r",
        properties={"team": "ours", "spark.query-column-names": "id"},
    )
    java = answer(java_check.run(JAVA, uri, db))
    assert (
        java["rows"] == [[1, "a"], [2, "b"], [3, "java"]]
        and java["view"] == [[2]]
        and java["views"] == ["made_by_java", "v"]
    )
    assert java["team"] == "ours"
    theirs = answer(pyiceberg_check.run(PYICEBERG, uri, db))
    assert (
        theirs["rows"] == [*java["rows"], [4, "pyiceberg"]]
        and theirs["views"] == java["views"]
        and theirs["versions"] == [1, 2]
    )
    view = catalog.load_view(f"{db}.v")
    assert view.sql_for("spark").sql == theirs[
        "sql"
    ] == "SELECT id, s FROM t WHERE id > 1" and view.schema().column_names == ["id", "s"]
    assert view.current_version().default_namespace == (
        db,
    ) and view.current_version().default_catalog in (None, "r")
    made = catalog.load_view(f"{db}.made_by_java")
    assert (
        made.schema().column_names == ["word", "n"]
        and made.schema().find_field("word").doc == "a word"
    )
    table.refresh()
    table.append([{"id": 5, "s": "us"}])
    assert sorted(catalog.load_table(f"{db}.t").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    catalog.close()


@pytest.mark.parametrize("uri", SERVERS)
def test_a_commit_is_one_request_and_a_load_before_it_another(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = f"t{uuid.uuid4().hex[:8]}"
    catalog: Any = frazil.load_catalog("r", type="rest", uri=uri)
    catalog.create_namespace(db)
    catalog.create_table(f"{db}.t", "id bigint").append([{"id": 1}])
    asked: list[str] = []
    request = catalog._backend.client.request

    def counted(method: str, path: str, **more: Any) -> Any:
        if not path.endswith("/metrics"):  # reports go in the background
            asked.append(method)
        return request(method, path, **more)

    monkeypatch.setattr(catalog._backend.client, "request", counted)
    table = catalog.load_table(f"{db}.t")
    table.append([{"id": 2}])
    table.append([{"id": 3}])
    assert asked == ["GET", "POST", "POST"]
    catalog.load_table(f"{db}.t").delete("id = 1")
    assert asked[3:] == ["GET", "POST"]
    catalog.close()


OF_NESSIE = [os.environ["FRAZIL_TEST_NESSIE"]] if os.environ.get("FRAZIL_TEST_NESSIE") else []


@pytest.mark.parametrize("uri", OF_NESSIE)
def test_pyiceberg_and_we_take_turns_on_the_tables_of_nessie(
    uri: str, pyiceberg_check: Any
) -> None:
    db, properties = f"t{uuid.uuid4().hex[:8]}", {"type": "rest", "uri": uri, **s3_place()[1]}
    with frazil.load_catalog("n", **properties) as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint, s string", properties={"team": "ours"}).append(
            [{"id": 1, "s": "us"}, {"id": 2, "s": "us"}]
        )
        first = answer(
            pyiceberg_check.run(
                PYICEBERG_OF_NESSIE, json.dumps(properties | {"s3.region": "us-east-1"}), db
            )
        )
        assert first["rows"] == [[1, "us"], [2, "us"]] and first["properties"]["team"] == "ours"
        assert (
            first["tables"]
            == ["made_by_pyiceberg", "t"]
            == [name for _, name in catalog.list_tables(db)]
        )
        table = catalog.load_table(f"{db}.t")
        assert rows(table) == [[1, "us"], [2, "us"], [12, "pyiceberg"]]
        table.delete("id = 1")
        table.update(set={"s": "'us again'"}, where="id = 12")
        made = catalog.load_table(f"{db}.made_by_pyiceberg")
        made.append([{"id": 8, "s": "us"}])
        second = answer(
            pyiceberg_check.run(
                PYICEBERG_OF_NESSIE, json.dumps(properties | {"s3.region": "us-east-1"}), db
            )
        )
        assert second["rows"] == [[2, "us"], [12, "us again"]]
        assert rows(catalog.load_table(f"{db}.t")) == [
            [2, "us"],
            [12, "pyiceberg"],
            [12, "us again"],
        ]
        assert rows(catalog.load_table(f"{db}.made_by_pyiceberg")) == [
            [7, "pyiceberg"],
            [7, "pyiceberg"],
            [8, "us"],
        ]


@pytest.mark.java
@pytest.mark.soak
@pytest.mark.parametrize("uri", OF_NESSIE)
def test_java_and_we_take_turns_on_the_tables_of_nessie(
    uri: str, java_check: Any, tmp_path: Path
) -> None:
    db, properties = f"t{uuid.uuid4().hex[:8]}", s3_place()[1]
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": uri,
        ".cache-enabled": "false",
        ".client.region": "us-east-1",
        ".http-client.type": "urlconnection",
    }
    settings |= {f".{key}": value for key, value in properties.items()}
    with frazil.load_catalog("n", type="rest", uri=uri, **properties) as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint, s string").append(
            [{"id": 1, "s": "us"}, {"id": 2, "s": "us"}]
        )
        found = answer(
            java_check.run(
                JAVA_OF_NESSIE,
                jars("aws", tmp_path, java_check.environment.python),
                json.dumps(settings),
                db,
            )
        )
        assert found == {"rows": [[1, "us"], [2, "us"]], "tables": ["t"]}
        table = catalog.load_table(f"{db}.t")
        assert rows(table) == [[2, "us"], [20, "java"]] and table.schema().column_names == [
            "id",
            "s",
            "more",
        ]
        table.append([{"id": 3, "s": "us", "more": 1}])
        assert rows(catalog.load_table(f"{db}.t")) == [[2, "us"], [3, "us"], [20, "java"]]


def rows(table: Any) -> list[list[Any]]:
    return sorted([r["id"], r["s"]] for r in table.to_arrow().to_pylist())
