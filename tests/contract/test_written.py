"""Everything we write is read back by real Java Iceberg and by PyIceberg, and Java goes on with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from tests.contract.made import TABLES, Made, many, row
from tests.golden import read_metadata
from tests.peers.checks import JavaCheck, PyIcebergCheck, Results
from tests.peers.rowsum import rowsum

pytestmark = pytest.mark.java

Written = dict[str, Any]


def warehouse(tmp_path_factory: pytest.TempPathFactory, name: str) -> Any:
    folder = tmp_path_factory.mktemp(name)
    catalog = frazil.load_catalog("written", type="path", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog


def schema_of(table: Any) -> dict[str, Any]:
    """The current schema as Iceberg JSON, out of the metadata file itself."""
    metadata = read_metadata(table.metadata_location)
    return next(
        s
        for s in metadata.get("schemas") or [metadata["schema"]]
        if s.get("schema-id", 0) == metadata.get("current-schema-id", 0)
    )


def want(made: Made, table: Any) -> tuple[int, str]:
    rows = made.rows() if made.batches else None
    got = rowsum(rows, schema_of(table)) if rows is not None else {"rows": 0, "sum": "0" * 16}
    return got["rows"], got["sum"]


@pytest.fixture(scope="module")
def by_arrow(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Every table, written from Arrow; an exception where that failed."""
    catalog, found = warehouse(tmp_path_factory, "arrow"), {}
    for name, made in TABLES.items():
        try:
            table = catalog.create_table(f"db.{name}", made.ddl, **made.create)
            for frame in made.frames():
                table.append(frame)
            found[name] = table
        except Exception as e:
            found[name] = e
    return found


@pytest.fixture(scope="module")
def by_spark(plain_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The same from Spark DataFrames: a choice of them, for time."""
    catalog, found = warehouse(tmp_path_factory, "spark"), {}
    for name in BY_SPARK:
        made = TABLES[name]
        try:
            table = catalog.create_table(f"db.{name}", made.ddl, **made.create)
            for frame in made.frames():
                if frame.num_rows:
                    table.append(
                        plain_spark.createDataFrame(
                            frame, schema=table.to_spark(plain_spark).schema
                        )
                    )
            found[name] = table
        except Exception as e:
            found[name] = e
    return found


def opened(written: Written) -> list[Path]:
    return [
        Path(t.metadata_location.removeprefix("file://"))
        for t in written.values()
        if not isinstance(t, Exception)
    ]


def judged(written: Written, results: Results) -> dict[str, Any]:
    return {
        n: t if isinstance(t, Exception) else results[t.metadata_location.removeprefix("file://")]
        for n, t in written.items()
    }


@pytest.fixture(scope="module")
def java_on_arrow(by_arrow: Written, java_check: JavaCheck) -> dict[str, Any]:
    return judged(by_arrow, java_check(opened(by_arrow), timeout=1500))


@pytest.fixture(scope="module")
def java_on_spark(by_spark: Written, java_check: JavaCheck) -> dict[str, Any]:
    return judged(by_spark, java_check(opened(by_spark), timeout=1500))


@pytest.fixture(scope="module")
def pyiceberg_on_arrow(by_arrow: Written, pyiceberg_check: PyIcebergCheck) -> dict[str, Any]:
    return judged(by_arrow, pyiceberg_check(opened(by_arrow)))


NOT_BY_SPARK = {
    "codec_uncompressed",
    "codec_snappy",
    "codec_lz4",
    "metrics_none",
    "metrics_trun",
    "metrics_full",
    "types_v2",
    "nested_v1",
    "part_v1",
    "nested_avro",
}
BY_SPARK = [n for n, made in TABLES.items() if made.spark and n not in NOT_BY_SPARK]


def sound(result: Any) -> dict[str, Any]:
    """The judge's answer; raises what the writer raised, fails on problems."""
    if isinstance(result, Exception):
        raise result
    assert result["problems"] == []
    return dict(result)


@pytest.mark.parametrize("name", TABLES)
def test_frazil_reads_what_it_wrote(by_arrow: Written, name: str) -> None:
    table = by_arrow[name]
    if isinstance(table, Exception):
        raise table
    got = rowsum(table.scan().to_arrow(), schema_of(table))
    assert (got["rows"], got["sum"]) == want(TABLES[name], table)


@pytest.mark.parametrize("name", TABLES)
def test_java_finds_rows_metrics_totals_and_files_in_order(
    by_arrow: Written, java_on_arrow: dict[str, Any], name: str
) -> None:
    result = sound(java_on_arrow[name])
    assert (result["rows"], result["sum"]) == want(TABLES[name], by_arrow[name])


@pytest.mark.parametrize("name", [n for n, made in TABLES.items() if made.pyiceberg])
def test_pyiceberg_reads_the_same_rows(
    by_arrow: Written, pyiceberg_on_arrow: dict[str, Any], name: str
) -> None:
    result = sound(pyiceberg_on_arrow[name])
    assert "cannot" not in result, result["cannot"]
    assert (result["rows"], result["sum"]) == want(TABLES[name], by_arrow[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_SPARK)
def test_java_finds_tables_written_from_spark_frames_in_order(
    by_spark: Written, java_on_spark: dict[str, Any], name: str
) -> None:
    result = sound(java_on_spark[name])
    assert (result["rows"], result["sum"]) == want(TABLES[name], by_spark[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_SPARK)
def test_spark_and_arrow_write_the_same_partitions_and_counts(
    by_spark: Written, by_arrow: Written, name: str
) -> None:
    """Partition values, record counts and null counts; NaN counts and bounds may be less known from
    Spark's footers.
    """
    for table in (by_spark[name], by_arrow[name]):
        if isinstance(table, Exception):
            raise table
    tables = [t.inspect.partitions().to_pylist() for t in (by_spark[name], by_arrow[name])]
    first, second = (
        [(repr(sorted((p.get("partition") or {}).items())), p["record_count"]) for p in t]
        for t in tables
    )
    assert sorted(first) == sorted(second)


# --- Java goes on, and we go on after Java

GO_ON = """
import json
out = {}
spark.conf.set("spark.sql.caseSensitive", "true")
for name in sys.argv[3:]:
    t = f"j.db.{name}"
    cols = ", ".join(f"`{f.name}`" for f in spark.table(t).schema)
    spark.sql(f"INSERT INTO {t} SELECT {cols} FROM {t} WHERE id < 3")
    spark.sql(f"DELETE FROM {t} WHERE id = 5")
    spark.sql(f"CALL j.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    spark.sql(f"CALL j.system.rewrite_manifests(table => 'db.{name}')")
    spark.sql(f"ALTER TABLE {t} ADD COLUMN added INT")
    spark.sql(f"CALL j.system.expire_snapshots(table => 'db.{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
    spark.sql(f"INSERT INTO {t} SELECT {cols}, 7 FROM {t} WHERE id = 1 LIMIT 1")
    out[name] = spark.sql(f"SELECT id, added FROM {t} ORDER BY id, added").toPandas().fillna(-1).astype(int).values.tolist()
print("RESULT" + json.dumps(out))
"""
CONTINUED = [
    "types_v1",
    "types_v2",
    "types_v3",
    "part_v1",
    "part_v2",
    "part_v3",
    "nested_v2",
    "types_orc",
    "types_avro",
    "sorted",
]


@pytest.fixture(scope="module")
def continued(
    tmp_path_factory: pytest.TempPathFactory, java_check: JavaCheck
) -> tuple[Any, dict[str, Any]]:
    """Tables begun by Frazil that Java appended to, deleted from, compacted, changed and expired;
    with the rows that Java then saw.
    """
    catalog = warehouse(tmp_path_factory, "continued")
    for name in CONTINUED:
        made = TABLES[name]
        table = catalog.create_table(f"db.{name}", made.ddl, **made.create)
        for frame in made.frames():
            table.append(frame)
    said = java_check.run(GO_ON, catalog.properties["warehouse"], *CONTINUED, timeout=900)
    return catalog, json.loads(said.partition("RESULT")[2].splitlines()[0])


@pytest.mark.parametrize("name", CONTINUED)
def test_frazil_reads_what_java_made_of_the_table(
    continued: tuple[Any, dict[str, Any]], name: str
) -> None:
    catalog, java = continued
    table = catalog.load_table(f"db.{name}")
    rows = table.scan(selected_fields=("id", "added")).to_arrow().to_pylist()
    assert sorted([r["id"], -1 if r["added"] is None else r["added"]] for r in rows) == sorted(
        java[name]
    )
    assert len(table.snapshots()) == 2


def test_frazil_goes_on_after_java_and_java_finds_it_in_order(
    continued: tuple[Any, dict[str, Any]], java_check: JavaCheck
) -> None:
    catalog, java = continued
    tables = {}
    for name in CONTINUED:
        table = tables[name] = catalog.load_table(f"db.{name}")
        fields = table.scan().to_arrow().schema
        table.append(
            pa.Table.from_pylist([{"id": 1000 + n, "added": n} for n in range(3)], schema=fields)
        )
    results = java_check(
        [Path(t.metadata_location.removeprefix("file://")) for t in tables.values()], write=True
    )
    for (name, table), result in zip(tables.items(), results.values(), strict=True):
        assert result["problems"] == [], name
        assert result["rows"] == len(java[name]) + 3, name
        assert not result["write"].get("failed"), name
        assert table.scan().count() == result["rows"], name


def test_a_table_made_in_sqlite_opens_in_pyiceberg_and_one_of_pyicebergs_here(
    tmp_path: Path, pyiceberg_check: PyIcebergCheck
) -> None:
    """The same catalog file serves both: each sees the other's tables and commits."""
    properties = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": str(tmp_path / "warehouse"),
    }
    ours = frazil.load_catalog("shared", type="sql", **properties)
    ours.create_namespace("db")
    made = TABLES["part_v2"]
    table = ours.create_table("db.ours", made.ddl, partition_by=["bucket(3, id)"])
    table.append(next(made.frames()))
    code = """
import sys, json, pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
c = SqlCatalog("shared", uri=sys.argv[1], warehouse="file://" + sys.argv[2])
t = c.load_table("db.ours")
before = len(t.scan().to_arrow())
t.append(t.scan().to_arrow())
n = c.create_table("db.theirs", pa.schema([("id", pa.int64()), ("s", pa.string())]))
n.append(pa.table({"id": [1, 2], "s": ["a", None]}))
print("RESULT" + json.dumps([before, len(t.scan().to_arrow())]))
"""
    said = pyiceberg_check.run(code, properties["uri"], properties["warehouse"])
    before, after = json.loads(said.partition("RESULT")[2].splitlines()[0])
    assert (before, after) == (24, 48)
    assert ours.load_table("db.ours").scan().count() == 48
    theirs = ours.load_table("db.theirs")
    assert theirs.scan().to_arrow().to_pylist() == [{"id": 1, "s": "a"}, {"id": 2, "s": None}]
    theirs.append(pa.table({"id": [3], "s": ["c"]}))
    assert theirs.scan(row_filter="s = 'c'").count() == 1


def test_rows_for_these_tests_hold_every_awkward_value() -> None:
    rows = many(0, 16, row)
    assert any(r.get("f") != r.get("f") for r in rows)
    assert {len(r) for r in rows} == {1, 14}
