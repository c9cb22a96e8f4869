"""Parquet files whose columns other writers store in their own ways: each case is read by Arrow and
by Spark's scan as Java Iceberg reads it.

PyIceberg and polars write Arrow's extension types, DuckDB and pandas nanoseconds; a column without
values has Arrow's null type.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.data_files import by_another_writer, taken_as_it_is

ONE = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)
UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ONE.bytes, None], pa.binary(16)))
OFFSETS = pa.array([0, 1, 2], pa.int32())


def numbered(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


# the type of the table's column, the column in the file, the values that are read
CASES: dict[str, tuple[str, pa.Array, list[Any]]] = {
    "uuid": ("uuid", UUIDS, [str(ONE), None]),
    "uuid_in_struct": (
        "struct<u: uuid>",
        pa.StructArray.from_arrays([UUIDS], fields=[numbered("u", pa.uuid(), 3)]),
        [{"u": str(ONE)}, {"u": None}],
    ),
    "uuid_in_list": (
        "array<uuid>",
        pa.ListArray.from_arrays(OFFSETS, UUIDS, pa.list_(numbered("element", pa.uuid(), 3))),
        [[str(ONE)], [None]],
    ),
    "uuid_as_text": ("uuid", pa.array([str(ONE), None]), [str(ONE), None]),
    "json": ("string", pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[1]", None])), ["[1]", None]),
    "nanoseconds": ("timestamp_ntz", pa.array([NOON, None], pa.timestamp("ns")), [NOON, None]),
    "nanoseconds_in_utc": (
        "timestamp",
        pa.array([NOON.replace(tzinfo=dt.UTC), None], pa.timestamp("ns", "UTC")),
        [NOON.replace(tzinfo=dt.UTC), None],
    ),
    "no_values": ("string", pa.nulls(2), [None, None]),
    "days": ("date", pa.array([5, None], pa.int32()), [dt.date(1970, 1, 6), None]),
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Table]]:
    folder = tmp_path_factory.mktemp("types")
    catalog, tables = catalog_of("sql", folder), {}
    for name, (ddl, column, _) in CASES.items():
        t = catalog.create_table(f"db.{name}", f"id int, c {ddl}")
        columns = pa.schema([numbered("id", pa.int32(), 1), numbered("c", column.type, 2)])
        ids = pa.array([0, 1], pa.int32())
        pq.write_table(
            pa.Table.from_arrays([ids, column], schema=columns), folder / f"{name}.parquet"
        )
        taken_as_it_is(t, folder / f"{name}.parquet", 2)
        tables[name] = by_another_writer(catalog, t, f"db.{name}_of_others")
    yield tables
    catalog.close()


@pytest.mark.parametrize("name", CASES)
def test_arrow_reads_them(tables: dict[str, Table], name: str) -> None:
    assert tables[name].scan().to_arrow().sort_by("id")["c"].to_pylist() == CASES[name][2]


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_spark_reads_them(tables: dict[str, Table], plain_spark: Any, name: str) -> None:
    rows = tables[name].scan().to_spark(plain_spark).toArrow().sort_by("id")
    assert rows["c"].to_pylist() == CASES[name][2]


JAVA = """
import json
for name, location in json.loads(sys.argv[3]).items():
    frame = spark.read.format("iceberg").option("vectorization-enabled", "false").load(location)
    print(json.dumps([name, [r.c for r in frame.orderBy("id").selectExpr("to_json(struct(c), map('ignoreNullFields', 'false')) c").collect()]]))
"""


def test_java_reads_the_same(tables: dict[str, Table], java_check: Any, tmp_path: Path) -> None:
    # nanoseconds it takes for microseconds
    places = {n: t.metadata_location for n, t in tables.items() if "nano" not in n}
    of_java = dict(map(json.loads, java_check.run(JAVA, tmp_path, json.dumps(places)).splitlines()))
    assert of_java == {
        name: [json.dumps({"c": v}, separators=(",", ":"), default=str) for v in CASES[name][2]]
        for name in places
    }


PYICEBERG = """
import sys, uuid
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, UUIDType
catalog = SqlCatalog("c", uri=f"sqlite:///{sys.argv[1]}/c.db", warehouse=f"file://{sys.argv[1]}/w")
catalog.create_namespace("db")
t = catalog.create_table("db.t", Schema(NestedField(1, "u", UUIDType(), required=False)))
one = pa.array([uuid.UUID(sys.argv[2]).bytes], pa.binary(16))
column = pa.ExtensionArray.from_storage(pa.uuid(), one)
t.append(pa.Table.from_arrays([column], schema=t.schema().as_arrow()))
"""


def test_uuids_that_pyiceberg_wrote_are_read_and_changed(
    pyiceberg_check: Any, tmp_path: Path
) -> None:
    pyiceberg_check.run(PYICEBERG, tmp_path, str(ONE))
    catalog = frazil.load_catalog(
        "c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w"
    )
    t = catalog.load_table("db.t")
    assert t.scan(f"u = '{ONE}'").to_arrow().to_pylist() == [{"u": str(ONE)}]
    t.append([{"u": str(uuid.UUID(int=5))}])
    assert t.delete(f"u <> '{ONE}'").rows_deleted == 1 and t.maintenance.rewrite_data_files()
    assert t.scan().to_arrow().to_pylist() == [{"u": str(ONE)}]
