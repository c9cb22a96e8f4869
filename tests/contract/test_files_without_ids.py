"""Files without field ids, of tables without a name mapping, and equality delete files that lack a
key: each case is read by Arrow, Spark's scan and Java Iceberg.

Java takes the columns of Parquet files by position, those of ORC and Avro files by the table's
names, and a key that a delete file lacks for null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from frazil.catalog import Catalog
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.data_files import by_another_writer, taken_as_it_is

Rows = list[list[Any]]
FLAT = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})
POINT = pa.struct([("x", pa.int64())])
NESTED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "l": pa.array([[1, 2], None], pa.list_(pa.int64())),
        "m": pa.array([[("k", 5)], None], pa.map_(pa.string(), pa.int64())),
    }
)
POINTS = pa.table({"id": pa.array([1], pa.int64()), "p": pa.array([{"x": 1}], POINT)})
KEYED = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "k": ["a", "b", None, "a"]})
STRUCTS = "whose members cannot be told apart"


@dataclass(frozen=True)
class Case:
    """A file of a table with the columns `ddl`, and the rows that are read, or the error. `change`:
    of the schema, before the file is added. `deletes`: the file's ids as an equality delete file.
    """

    name: str
    ddl: str
    file: pa.Table
    rows: Rows | str
    change: Callable[[Any], object] | None = None
    deletes: tuple[int, ...] = ()
    partition: str | None = None
    # what Java shows where Frazil refuses to read
    java: Rows | str | None = None


def named(*names: str) -> pa.Table:
    return FLAT.rename_columns(list(names))


def with_ids(table: pa.Table, *ids: int) -> pa.Table:
    fields = [
        f.with_metadata({"PARQUET:field_id": str(n), "iceberg.id": str(n)})
        for f, n in zip(table.schema, ids, strict=True)
    ]
    return table.cast(pa.schema(fields))


BOTH: Rows = [[1, "a"], [2, "b"]]
IDS = pa.table({"id": pa.array([1, 3], pa.int64())})
CASES = [
    Case("same.parquet", "id bigint, s string", FLAT, BOTH),
    Case("other_names.parquet", "id bigint, s string", named("x", "y"), BOTH),
    Case("other_order.parquet", "id bigint, s string", FLAT.select(["s", "id"]), "id 1.* is string"),
    Case("fewer.parquet", "id bigint, s string, d double", FLAT, [[1, "a", None], [2, "b", None]]),
    Case("more.parquet", "id bigint", FLAT, [[1], [2]]),
    Case("dropped.parquet", "a string, id bigint, s string", FLAT.select(["s", "id", "s"]).rename_columns(["a", "id", "s"]), BOTH, change=lambda u: u.delete_column("a")),
    Case("renamed.parquet", "id bigint, s string", FLAT, BOTH, change=lambda u: u.rename_column("s", "t")),
    Case("nested.parquet", "id bigint, l array<bigint>, m map<string, bigint>", NESTED, [[1, [1, 2], {"k": 5}], [2, None, None]]),
    Case("struct.parquet", "id bigint, p struct<x: bigint>", POINTS, STRUCTS, java=[[1, None]]),
    Case("struct_aside.parquet", "id bigint", POINTS, [[1]]),
    Case("required.parquet", "id bigint, r bigint not null", FLAT.select(["id"]), "r .*is required"),
    Case("partition.parquet", "id bigint, s string", FLAT, [[1, "q"], [2, "q"]], partition="q"),
    Case("other_order.orc", "id bigint, s string", FLAT.select(["s", "id"]), BOTH),
    Case("case.orc", "id bigint, s string", named("ID", "s"), [[None, "a"], [None, "b"]]),
    Case("other_names.orc", "id bigint, s string", named("x", "y"), [[None, None], [None, None]]),
    Case("renamed.orc", "id bigint, s string", FLAT, [[1, None], [2, None]], change=lambda u: u.rename_column("s", "t")),
    Case("nested.orc", "id bigint, l array<bigint>, m map<string, bigint>", NESTED, [[1, [1, 2], {"k": 5}], [2, None, None]]),
    Case("struct.orc", "id bigint, p struct<x: bigint>", POINTS, [[1, {"x": 1}]]),
    Case("required.orc", "id bigint, r bigint not null", FLAT.select(["id"]), "r .*is required"),
    Case("partition.orc", "id bigint, s string", FLAT, [[1, "q"], [2, "q"]], partition="q"),
    Case("other_order.avro", "id bigint, s string", FLAT.select(["s", "id"]), BOTH),
    Case("other_names.avro", "id bigint, s string", named("x", "s"), [[None, "a"], [None, "b"]]),
    Case("renamed.avro", "id bigint, s string", FLAT, [[1, None], [2, None]], change=lambda u: u.rename_column("s", "t")),
    Case("required.avro", "id bigint, r bigint not null", FLAT.select(["id"]), "r .*is required"),
    *(
        Case(f"{name}_of_deletes.{kind}", f"id bigint, k string{'' if rows else ' not null'}", file, rows or "k .*is required", deletes=ids)
        for kind in ("parquet", "orc")
        for name, file, rows, ids in (
            ("no_key", with_ids(IDS, 1), [[1, "a"], [2, "b"], [4, "a"]], (1, 2)),
            ("only_key", with_ids(IDS, 1), [[1, "a"], [2, "b"], [4, "a"]], (2,)),
            ("required_key", with_ids(IDS, 1), [], (1, 2)),
        )
    ),
    Case("by_position_of_deletes.parquet", "id bigint, k string", IDS.rename_columns(["z"]), [[2, "b"], [4, "a"]], deletes=(1,)),
    Case("behind_of_deletes.parquet", "id bigint, k string", FLAT.select(["s"]), [[1, "a"], [2, "b"], [4, "a"]], deletes=(2,)),
    Case("by_name_of_deletes.orc", "id bigint, k string", named("z", "k"), [[3, None]], deletes=(2,)),
    Case("by_name_of_deletes.avro", "id bigint, k string", named("z", "k"), [[3, None]], deletes=(2,)),
]  # fmt: skip


def write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        kinds = {pa.int64(): "long", pa.string(): "string"}
        fields = [{"name": f.name, "type": ["null", kinds[f.type]]} for f in table.schema]
        with path.open("wb") as file:
            fastavro.writer(
                file, {"type": "record", "name": "r", "fields": fields}, table.to_pylist()
            )


def table_of(case: Case, catalog: Catalog, folder: Path) -> Table:
    name = "db." + case.name.replace(".", "_")
    t = catalog.create_table(name, case.ddl, partition_by=["s"] if case.partition else None)
    if case.change:
        with t.update_schema() as update:
            case.change(update)
    more: dict[str, Any] = {"partition": (case.partition,)} if case.partition else {}
    if case.deletes:
        keyed = KEYED if isinstance(case.rows, list) else KEYED.set_column(1, "k", [["a"] * 4])
        t.append(keyed)
        more = {"content": 2, "equality_ids": case.deletes}
    write(case.file, folder / case.name)
    taken_as_it_is(t, folder / case.name, case.file.num_rows, **more)
    return by_another_writer(catalog, t, f"{name}_of_others")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Table]]:
    folder = tmp_path_factory.mktemp("without_ids")
    catalog = catalog_of("sql", folder)
    yield {case.name: table_of(case, catalog, folder) for case in CASES}
    catalog.close()


def plain(rows: pa.Table) -> Rows:
    """Rows in the order of their ids; maps as dicts."""
    maps = [f.name for f in rows.schema if pa.types.is_map(f.type)]
    values = [
        [dict(v) if k in maps and v is not None else v for k, v in r.items()]
        for r in rows.to_pylist()
    ]
    return sorted(values, key=lambda r: (r[0] is None, r[0] or 0, str(r)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_arrow_reads_them_as_java_does(tables: dict[str, Table], case: Case) -> None:
    scan = tables[case.name].scan()
    if isinstance(case.rows, str):
        with pytest.raises(Exception, match=case.rows):
            scan.to_arrow()
    else:
        assert plain(scan.to_arrow()) == case.rows


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_spark_reads_them_as_java_does(
    tables: dict[str, Table], plain_spark: Any, case: Case
) -> None:
    frame = tables[case.name].scan().to_spark(plain_spark)
    if isinstance(case.rows, str):
        with pytest.raises(Exception, match=case.rows):
            frame.toArrow()
    else:
        assert plain(frame.toArrow()) == case.rows


JAVA = """
import json
def plain(v):
    if hasattr(v, "asDict"): return {k: plain(x) for k, x in v.asDict().items()}
    return [plain(x) for x in v] if isinstance(v, list) else v
for name, location in json.loads(sys.argv[3]).items():
    try:
        rows = spark.read.format("iceberg").load(location).collect()
        print(json.dumps([name, sorted(([plain(v) for v in r] for r in rows), key=lambda r: (r[0] is None, r[0] or 0, str(r)))]))
    except Exception as e:
        print(json.dumps([name, None]))
"""


def test_java_reads_the_same(tables: dict[str, Table], java_check: Any, tmp_path: Path) -> None:
    places = {name: t.metadata_location for name, t in tables.items()}
    out = java_check.run(JAVA, tmp_path, json.dumps(places))
    of_java = dict(json.loads(line) for line in out.splitlines())
    assert of_java == {
        c.name: c.java or (c.rows if isinstance(c.rows, list) else None) for c in CASES
    }
