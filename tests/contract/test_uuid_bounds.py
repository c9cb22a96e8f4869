"""uuid columns of Java's files: bounds that it joins over row groups in another order than the
specification's hide no rows.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.table.table import Table
from tests.contract import doors
from tests.contract.doors import Ask
from tests.golden import writable_copy
from tests.peers.checks import JavaCheck

pytestmark = pytest.mark.java

JAVA = """
import json
iceberg = spark._jvm.org.apache.iceberg
fields = [{"id": 1, "name": "n", "type": "int", "required": False}, {"id": 2, "name": "u", "type": "uuid", "required": False}]
schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
catalog = iceberg.hadoop.HadoopCatalog(spark.sparkContext._jsc.hadoopConfiguration(), sys.argv[2])
for name, firsts, rows_of_group in json.loads(sys.argv[3]):
    properties = spark._jvm.java.util.HashMap()
    for key, value in (("size-bytes", 64), ("check-min-record-count", rows_of_group), ("check-max-record-count", rows_of_group)):
        properties.put("write.parquet.row-group-" + key, str(value))
    made = catalog.createTable(iceberg.catalog.TableIdentifier.parse("db." + name), schema, iceberg.PartitionSpec.unpartitioned(), properties)
    rows = [(n, "%02x000000-0000-4000-8000-000000000000" % first) for n, first in enumerate(firsts)]
    if name == "staged":
        spark.sql("ALTER TABLE j.db.staged SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        spark.conf.set("spark.wap.id", "w1")
    spark.createDataFrame(rows, "n int, u string").coalesce(1).writeTo("j.db." + name).append()
"""
FILES = [  # name, first bytes of the uuids, rows of a row group
    ["hidden", [0x10, 0xF0, 0x20, 0x30], 2],
    ["inverted", [0xF0, 0xF1, 0x10, 0x20], 2],
    ["one", [0x10, 0xF0, 0x20, 0x30], 4],
]


def uuid_of(first: int) -> str:
    return str(uuid.UUID(bytes=bytes([first, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0])))


@pytest.fixture(scope="module")
def by_java(java_check: JavaCheck, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    warehouse = tmp_path_factory.mktemp("uuids")
    java_check.run(JAVA, warehouse, json.dumps([*FILES, ["staged", [0x10, 0xF0, 0x20, 0x30], 2]]))
    return {
        name: frazil.load_table(str(warehouse / "db" / name))
        for name in ("hidden", "inverted", "one", "staged")
    }


def bounds(table: Table) -> tuple[int, list[int]]:
    """(row groups, first bytes of the bounds of column u) of the table's one file."""
    (file,) = (e["data_file"] for e in table.inspect.entries().to_pylist())
    return len(file["split_offsets"]), [
        dict(file[k])[2][0] for k in ("lower_bounds", "upper_bounds")
    ]


def test_java_writes_bounds_of_uuids_that_its_row_groups_contradict(
    by_java: dict[str, Table],
) -> None:
    assert bounds(by_java["hidden"]) == (2, [0x10, 0x30])  # f0… is there
    assert bounds(by_java["inverted"]) == (2, [0xF0, 0x20])
    assert bounds(by_java["one"]) == (1, [0x10, 0xF0])


@pytest.mark.parametrize("door", ["arrow", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize(("name", "firsts"), [(name, firsts) for name, firsts, _ in FILES])
def test_no_row_of_java_is_lost_by_the_bounds_of_its_uuids(
    by_java: dict[str, Table],
    request: pytest.FixtureRequest,
    door: str,
    name: str,
    firsts: list[int],
) -> None:
    location = str(by_java[name].location())
    for first in (0x10, 0x30, 0xF0):
        for sign, test in (
            ("=", first.__eq__),
            (">", first.__lt__),
            ("<=", first.__ge__),
            ("<>", first.__ne__),
        ):
            ask = Ask.of(f"u {sign} '{uuid_of(first)}'", ("n",))
            if door == "arrow":
                found = doors.arrow(location, ask)
            else:
                found = doors.collect(
                    doors.to_spark(request.getfixturevalue("plain_spark"), location, ask)
                )
            assert sorted(found["n"].to_pylist()) == [n for n, f in enumerate(firsts) if test(f)], (
                ask
            )


def test_delete_takes_no_other_row_by_bounds_that_are_wrong(
    by_java: dict[str, Table], tmp_path: Path
) -> None:
    for name, firsts, _ in FILES:
        table = frazil.load_table(
            str(writable_copy(by_java[name].metadata_location, tmp_path / name))
        )
        table.delete(f"u < '{uuid_of(0x40)}'")
        assert table.scan().to_arrow()["n"].to_pylist() == [
            n for n, first in enumerate(firsts) if first >= 0x40
        ], name


def test_bounds_of_one_row_group_and_of_frazils_own_files_prune(
    by_java: dict[str, Table], tmp_path: Path
) -> None:
    def planned(table: Table) -> int:
        return len(table.scan(row_filter=f"u > '{uuid_of(0xF1)}'").plan_files())

    assert planned(by_java["one"]) == 0 and planned(by_java["hidden"]) == 1
    catalog = frazil.load_catalog("own", type="path", warehouse=str(tmp_path))
    ours = catalog.create_table(
        "db.own", "n int, u uuid", properties={"write.parquet.row-group-size-bytes": "40"}
    )
    firsts = [0x10, 0xF0, 0x20, 0x30] * 50
    ours.append(
        pa.table({"n": pa.array(range(200), pa.int32()), "u": [uuid_of(f) for f in firsts]})
    )
    row_groups, ends = bounds(ours)
    assert row_groups > 1 and ends == [0x10, 0xF0]
    assert planned(ours) == 0
    assert len(ours.scan(row_filter=f"u >= '{uuid_of(0xF0)}'").to_arrow()) == 50


def test_files_that_frazil_took_over_from_java_are_not_its_own(
    by_java: dict[str, Table], tmp_path: Path
) -> None:
    """A cherry-pick commits what Java has staged, with Java's bounds."""
    table = frazil.load_table(
        str(writable_copy(by_java["staged"].metadata_location, tmp_path / "staged"))
    )
    table.append(pa.table({"n": pa.array([9], pa.int32()), "u": [uuid_of(0x20)]}))
    (staged,) = (s.snapshot_id for s in table.snapshots() if s.summary.get("wap.id") == "w1")
    with table.manage_snapshots() as manage:
        manage.cherrypick_snapshot(staged)
    picked = table.current_snapshot()
    assert picked.summary["source-snapshot-id"] == str(staged) and picked.summary[
        "iceberg-version"
    ].startswith("Frazil ")
    assert table.scan(row_filter=f"u = '{uuid_of(0xF0)}'").to_arrow()["n"].to_pylist() == [1]
    table.delete(f"u < '{uuid_of(0x40)}'")
    assert table.scan().to_arrow()["n"].to_pylist() == [1]
