"""Tables after the procedures: Java Iceberg and PyIceberg read them, and Java Iceberg commits to
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.table import Table
from tests.builders.frames import frame_of
from tests.maintain.support import LATER, add, age, files_of, named_files, root_of

pytestmark = pytest.mark.java


def kept_up(place: Path, version: int, name: str) -> Table:
    """A table on which every procedure on metadata has done something."""
    catalog = frazil.load_catalog("test", type="path", warehouse=str(place / "wh"))
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table(
        f"db.{name}",
        "id bigint, p string, v bigint",
        format_version=version,
        partition_by=["p", "bucket(4, id)"],
        properties={"commit.manifest-merge.enabled": "false"},
    )
    made = [add(t, i, i + 10, i + 20, p="abcde"[i % 5]) for i in range(6)]
    if version > 1:
        t.delete("id = 11", mode="merge-on-read")
        t.delete("id = 12", mode="merge-on-read")
    t.append(frame_of([(99, None, 1)]))
    with t.manage_snapshots() as ms:
        ms.create_tag(made[2], "kept").create_branch(made[4], "dev")
    assert t.maintenance.rewrite_manifests().rewritten_manifests_count > 5
    assert (
        t.maintenance.expire_snapshots(older_than=LATER, retain_last=2).deleted_manifest_lists_count
        > 2
    )
    age(root_of(t))
    t.maintenance.remove_orphan_files()
    assert files_of(t) == named_files(t)
    return t


def test_java_and_pyiceberg_read_what_is_left_and_java_goes_on(
    tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    tables = {str(root_of(t)): t for t in (kept_up(tmp_path, v, f"v{v}") for v in (1, 2, 3))}
    for place, found in java_check(list(tables), write=True).items():
        assert found["ok"] and not found["problems"], (place, found)
        assert found["rows"] == tables[place].scan().count()
    for place, found in pyiceberg_check(list(tables)[:2]).items():
        assert found["ok"], (place, found)


JAVA = """
import json, os, time
from pathlib import Path
warehouse, tables = sys.argv[2], sys.argv[3:]
for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hadoop"), (".warehouse", "file:" + warehouse), (".cache-enabled", "false")):
    spark.conf.set("spark.sql.catalog.k" + key, value)
def call(catalog, text):
    (row,) = spark.sql(f"CALL {catalog}.system.{text}").collect() or [None]
    return row.asDict() if row is not None else {}
def orphan(table):
    path = Path(warehouse, "db", table, "data", "orphan-of-java.parquet")
    path.write_text("x")
    os.utime(path, (time.time() - 5 * 86400,) * 2)
    return str(path)
out = {}
for table in tables:
    catalog = "k" if table.endswith("uri") else "j"  # k: Java writes its files as file:/path, where ours are /path
    name, told = f"{catalog}.db.{table}", {"orphan": orphan(table)}
    for n in range(2):
        spark.sql(f"INSERT INTO {name} VALUES ({200 + n}, 'a', 5), ({210 + n}, 'b', 6)")
    told["rewrite_manifests"] = call(catalog, f"rewrite_manifests(table => 'db.{table}')")
    told["remove_orphan_files"] = [r[0] for r in spark.sql(f"CALL {catalog}.system.remove_orphan_files(table => 'db.{table}')").collect()]
    told["expire_snapshots"] = call(catalog, f"expire_snapshots(table => 'db.{table}', older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 2)")
    ids = [r[0] for r in spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()]
    told["rows"] = {i: sorted(map(list, spark.sql(f"SELECT id, v FROM {name} VERSION AS OF {i}").collect())) for i in ids}
    out[table] = told
print(json.dumps(out))
"""
READ_AGAIN = """
import json
out = {}
for table in sys.argv[3:]:
    ids = [r[0] for r in spark.sql(f"SELECT snapshot_id FROM j.db.{table}.snapshots").collect()]
    out[table] = {i: sorted(map(list, spark.sql(f"SELECT id, v FROM j.db.{table} VERSION AS OF {i}").collect())) for i in ids}
print(json.dumps(out))
"""


def relative(t: Table) -> tuple[set[str], set[str]]:
    """The files that are there, and those that snapshots reach, whether named as /path or as
    file:/path.
    """
    root = str(root_of(t))
    named = {str(Path(root, f)).removeprefix(f"{root}/file:") for f in named_files(t)}
    return files_of(t), {
        str(Path(p if p.startswith("/") else f"{root}/{p}").relative_to(root)) for p in named
    }


def pairs(t: Table) -> dict[str, list[list[int]]]:
    """Id and value of all rows of each snapshot."""
    found = {s.snapshot_id: t.scan(snapshot_id=s.snapshot_id).to_arrow() for s in t.snapshots()}
    return {
        str(i): sorted([r["id"], r["v"]] for r in rows.to_pylist()) for i, rows in found.items()
    }


def in_turns(place: Path, kinds: list[tuple[int, str]], java_check: Any) -> dict[str, Table]:
    """Our procedures, then Java's, then ours; every snapshot that is kept is read by both after
    each turn.
    """
    tables = {
        f"t{version}{kind}": kept_up(place, version, f"t{version}{kind}") for version, kind in kinds
    }
    told = json.loads(java_check.run(JAVA, place / "wh", *tables).strip().splitlines()[-1])
    for name, t in tables.items():
        java, t = told[name], t.refresh()
        assert [p.removeprefix("file:") for p in java["remove_orphan_files"]] == [java["orphan"]]
        assert (
            java["rewrite_manifests"]["rewritten_manifests_count"] > 2
            and java["expire_snapshots"]["deleted_manifest_lists_count"] > 1
        )
        assert pairs(t) == java["rows"] and len(java["rows"]) >= 4
        add(t, 300, p="b")
        t.delete("id = 200", mode="merge-on-read" if t.format_version > 1 else "copy-on-write")
        assert t.maintenance.rewrite_manifests().rewritten_manifests_count > 1
        age(root_of(t))
        (root_of(t) / "data" / "orphan.parquet").write_text("x")
        age(root_of(t))
        left = t.maintenance.remove_orphan_files().orphan_file_location.to_pylist()
        assert [Path(p).name for p in left if not p.endswith((".crc", ".json", ".text"))] == [
            "orphan.parquet"
        ], left
        assert (
            t.maintenance.expire_snapshots(
                older_than=LATER, retain_last=1
            ).deleted_manifest_lists_count
            > 1
        )
        there, named = relative(t)
        assert there == named
    again = json.loads(java_check.run(READ_AGAIN, place / "wh", *tables).strip().splitlines()[-1])
    assert again == {name: pairs(t) for name, t in tables.items()}
    return tables


def test_javas_expiry_orphans_and_manifests_after_ours_and_ours_after_javas(
    tmp_path: Path, java_check: Any
) -> None:
    in_turns(tmp_path, [(3, "uri")], java_check)


@pytest.mark.soak
def test_each_version_and_spelling_of_paths_goes_through_the_hands_of_both(
    tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    tables = in_turns(tmp_path, [(v, kind) for v in (1, 2, 3) for kind in ("", "uri")], java_check)
    where = {str(root_of(t)): t for t in tables.values()}
    for place, found in java_check(list(where), write=True).items():
        assert found["ok"] and found["rows"] == where[place].scan().count(), (place, found)
    for place, found in pyiceberg_check(
        [p for p, t in where.items() if t.format_version < 3]
    ).items():
        assert found["ok"], (place, found)
