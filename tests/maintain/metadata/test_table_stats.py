"""compute_table_stats: numbers of distinct values of every type, of snapshots and with deletes, as
statistics that Java reads.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog import Catalog
from frazil.codec.single_value import to_bytes
from frazil.codec.theta_sketch import hash_lengths
from frazil.errors import InvalidInput, NoSuchSnapshotError
from frazil.maintain.stats.table_stats import hash_values
from frazil.spec.types import DecimalType, DoubleType, IcebergType, LongType, StringType
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.codec.puffin_files import decode_blob, decode_footer
from tests.codec.sketches import decode_sketch

SCHEMA = "id bigint, s string, d decimal(20,2), b boolean, day date, at timestamp_ntz, f double, x binary, u uuid, n struct<a:int>, l array<int>"
ROWS = 20_000


def frame(first: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": [f"v{i % 5000}" if i % 7 else None for i in numbers],
            "d": pa.array(
                [decimal.Decimal(i % 3000 - 1500) / 100 for i in numbers], pa.decimal128(20, 2)
            ),
            "b": [i % 2 == 0 for i in numbers],
            "day": [dt.date(2026, 1, 1) + dt.timedelta(i % 100) for i in numbers],
            "at": pa.array(numbers, pa.int64()).cast(pa.timestamp("us")),
            "f": [i / 7 for i in numbers],
            "x": [b"x" * (i % 50) for i in numbers],
            "u": [str(uuid.UUID(int=i % 300)) for i in numbers],
            "n": [{"a": i % 77} for i in numbers],
            "l": [[i] for i in numbers],
        }
    )


@pytest.fixture
def t(home: Catalog) -> Any:
    return home.create_table("db.t", SCHEMA)


def test_a_progress_callback_counts_the_data_files_that_were_read(t: Any) -> None:
    for first in (0, 10, 20):
        t.append(frame(first, 10))
    calls: list[tuple[Any, ...]] = []
    t.maintenance.compute_table_stats(columns="id", progress=lambda *step: calls.append(step))
    assert calls[-1] == (3, 3, "data files read")


def test_one_column_may_be_named_by_text_alone(t: Any) -> None:
    t.append(frame(0, 10))
    assert t.maintenance.compute_table_stats(columns="id").ndv == {"id": 10}
    with pytest.raises(InvalidInput, match="columns must be a list of column names, not 7"):
        t.maintenance.compute_table_stats(columns=7)  # type: ignore[arg-type]


def test_no_column_at_all_is_refused(home: Catalog) -> None:
    t = home.create_table("db.none", "id long")
    t.append(pa.table({"id": [1]}))
    with pytest.raises(InvalidInput, match="names no column"):
        t.maintenance.compute_table_stats(columns=[])
    assert t.refresh().metadata.statistics == ()


def test_numbers_of_distinct_values_are_within_three_percent(t: Any) -> None:
    t.append(frame(rows=ROWS // 2))
    t.append(frame(ROWS // 2, ROWS - ROWS // 2))
    result = t.maintenance.compute_table_stats()
    # empty bytes do not count
    exact = {
        "id": ROWS,
        "s": 5000,
        "d": 3000,
        "b": 2,
        "day": 100,
        "at": ROWS,
        "f": ROWS,
        "x": 49,
        "u": 300,
    }
    assert {k: round(v / exact[k] - 1, 2) for k, v in result.ndv.items()} == {
        k: pytest.approx(0, abs=0.03) for k in exact
    }
    assert result.files_read == 2 and result.to_arrow().to_pylist() == [
        {"statistics_file": result.statistics_file}
    ]


def test_the_file_holds_what_the_metadata_says(home: Catalog) -> None:
    t = home.create_table("db.t", "id int, s string", format_version=3)
    t.append(pa.table({"id": pa.array([1, 2, 2], pa.int32()), "s": ["a", None, "a"]}))
    result = t.maintenance.compute_table_stats()
    assert result.statistics_file is not None
    data, (described,) = Path(result.statistics_file).read_bytes(), t.refresh().metadata.statistics
    footer = decode_footer(data)
    assert (described["file-size-in-bytes"], described["file-footer-size-in-bytes"]) == (
        len(data),
        footer.size,
    )
    snapshot = t.current_snapshot()
    for blob, entry, ndv in zip(footer.blobs, described["blob-metadata"], ("2", "1"), strict=True):
        assert (
            snapshot is not None
            and entry["snapshot-id"] == blob.snapshot_id == snapshot.snapshot_id
        )
        assert entry["properties"] == blob.properties == {"ndv": ndv} and entry["fields"] == list(
            blob.fields
        )
        assert blob.type == entry["type"] == "apache-datasketches-theta-v1"
        assert decode_sketch(decode_blob(data, blob)).estimate == int(ndv)


def test_deleted_rows_do_not_count_and_older_snapshots_can_be_asked_for(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint")
    first = t.append(pa.table({"id": range(100)})).snapshot_id
    t.delete("id >= 60", mode="merge-on-read")
    assert t.maintenance.compute_table_stats().ndv == {"id": 60}
    assert t.maintenance.compute_table_stats(snapshot_id=first).ndv == {"id": 100}
    assert [s["snapshot-id"] for s in t.refresh().metadata.statistics] == [
        t.metadata.current_snapshot_id,
        first,
    ]


def test_columns_inside_structs_can_be_named_and_others_are_refused(t: Any) -> None:
    t.append(frame(rows=100))
    assert t.maintenance.compute_table_stats(columns=["n.a", "id"]).ndv == {"n.a": 77, "id": 100}
    for name, told in (
        ("n", "non-primitive"),
        ("l", "non-primitive"),
        ("l.element", "inside a list"),
        ("z", "Can't find column z"),
    ):
        with pytest.raises(InvalidInput, match=told):
            t.maintenance.compute_table_stats(columns=[name])


def test_a_dry_run_and_an_empty_table_write_nothing(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint")
    assert t.maintenance.compute_table_stats().to_arrow().num_rows == 0
    t.append(pa.table({"id": [1]}))
    before = t.metadata_location
    planned = t.maintenance.compute_table_stats(dry_run=True)
    assert (planned.dry_run, planned.files_read, planned.statistics_file) == (True, 1, None)
    assert (
        t.refresh().metadata_location == before and list(Path(t.location()).rglob("*.stats")) == []
    )


def test_statistics_of_a_snapshot_that_expires_meanwhile_leave_no_file(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint")
    first = t.append(pa.table({"id": [1]})).snapshot_id
    t.append(pa.table({"id": [2]}))
    other = home.load_table("db.t")
    from frazil.commit.actions import MetadataChange
    from frazil.spec.updates import RemoveSnapshots

    with other._begin() as operation:
        operation.stage(MetadataChange(lambda _: (RemoveSnapshots((first or 0,)),)))
    with pytest.raises(NoSuchSnapshotError):
        t.maintenance.compute_table_stats(snapshot_id=first)
    assert list(Path(t.location()).rglob("*.stats")) == []


@pytest.mark.spark
def test_tasks_of_spark_make_the_same_sketches(t: Any, spark: Any) -> None:
    for first in range(0, 3000, 1000):
        t.append(frame(first, 1000))
    t.delete("id < 500", mode="merge-on-read", runner="in-process")
    files = [
        t.maintenance.compute_table_stats(**where).statistics_file
        for where in ({"runner": "in-process"}, {"spark": spark})
    ]
    ours, theirs = (Path(str(f)).read_bytes() for f in files)
    assert ours == theirs and t.maintenance.compute_table_stats(
        columns=["id"], spark=spark
    ).ndv == {"id": 2500}


VALUES: list[tuple[IcebergType, pa.DataType, Any]] = [
    (
        DecimalType(38, 3),
        pa.decimal128(38, 3),
        st.decimals(min_value=-(10**30), max_value=10**30, places=3),
    ),
    (
        DecimalType(5, 0),
        pa.decimal128(5, 0),
        st.integers(-(10**5) + 1, 10**5 - 1).map(decimal.Decimal),
    ),
    (LongType(), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (DoubleType(), pa.float64(), st.floats(allow_nan=False)),
    (StringType(), pa.string(), st.text(min_size=1)),
]


@pytest.mark.parametrize(("type_", "arrow", "values"), VALUES, ids=lambda v: str(v)[:20])
@given(data=st.data())
def test_values_are_hashed_by_their_single_value_bytes(
    type_: IcebergType, arrow: pa.DataType, values: Any, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    array = pa.array([None, *drawn, None], arrow)[1:]  # with an offset
    encoded = [
        to_bytes(type_, v) if not isinstance(v, float) else struct.pack("<d", v)
        for v in drawn
        if v is not None
    ]
    lengths = np.array([len(b) for b in encoded], np.int64)
    wanted = hash_lengths(
        np.frombuffer(b"".join(encoded), np.uint8), np.cumsum(lengths) - lengths, lengths
    )
    assert set(hash_values(array, type_).tolist()) == set(wanted.tolist())


JAVA = """
import json
table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db.t")
io, out = table.io(), {}
def sketches(file):
    reader = spark._jvm.org.apache.iceberg.puffin.Puffin.read(io.newInputFile(file.path())).withFileSize(file.fileSizeInBytes()).withFooterSize(file.fileFooterSizeInBytes()).build()
    pairs = reader.readAll(reader.fileMetadata().blobs()).iterator()
    while pairs.hasNext():
        pair = pairs.next()
        blob, buffer = pair.first(), pair.second()
        at = buffer.arrayOffset() + buffer.position()
        data = bytes(buffer.array())[at:at + buffer.remaining()]
        estimate = spark.sql(f"SELECT theta_sketch_estimate(X'{data.hex()}')").collect()[0][0]
        yield table.schema().findColumnName(blob.inputFields()[0]), [int(blob.properties()["ndv"]), estimate, data.hex()]
ours = dict(sketches(table.statisticsFiles()[0]))
spark.sql("CALL j.system.compute_table_stats(table => 'db.t')").collect()
table.refresh()
theirs = dict(sketches(table.statisticsFiles()[0]))
union = {}
for name in theirs:
    union[name] = spark.sql(f"SELECT theta_sketch_estimate(theta_union(X'{ours[name][2]}', X'{theirs[name][2]}', 12))").collect()[0][0]
print(json.dumps({n: {"ours": ours[n][:2], "theirs": theirs[n][:2], "union": union[n]} for n in theirs}))
"""


@pytest.mark.java
def test_java_reads_the_sketches_and_finds_the_same_values(tmp_path: Path, java_check: Any) -> None:
    catalog = catalog_of("path", tmp_path)
    t = catalog.create_table(
        "db.t",
        "id bigint, i int, s string, d decimal(20,2), b boolean, day date, at timestamp_ntz, f double, x binary",
    )
    t.append(
        frame()
        .drop_columns(["u", "n", "l"])
        .append_column("i", pa.array([n % 1000 for n in range(ROWS)], pa.int32()))
    )
    ndv = t.maintenance.compute_table_stats().ndv
    seen = json.loads(java_check.run(JAVA, tmp_path / "wh").strip().splitlines()[-1])
    assert set(seen) == set(ndv)
    for name, told in seen.items():
        assert told["ours"][0] == ndv[name] and abs(told["ours"][1] - ndv[name]) <= 1
        if ndv[name] <= 4096:
            # Java's sketches are exact as well, and of the same hashes: the union has no more
            assert told["theirs"] == [ndv[name], ndv[name]] and told["union"] == ndv[name], name
        assert told["union"] == pytest.approx(ndv[name], rel=0.06), name


JAVA_GOES_ON = """
import json
spark.sql("INSERT INTO j.db.t VALUES (1000, 'new'), (1001, 'newer')")
path = spark.sql("CALL j.system.compute_table_stats(table => 'db.t')").collect()[0][0]
table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db.t")
print(json.dumps([[f.snapshotId(), f.path()] for f in table.statisticsFiles()] + [path]))
"""


@pytest.mark.java
def test_java_keeps_our_statistics_beside_its_own_and_we_keep_javas(
    tmp_path: Path, java_check: Any
) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id bigint, s string")
    t.append(pa.table({"id": range(100), "s": [f"v{n % 10}" for n in range(100)]}))
    ours = t.maintenance.compute_table_stats()
    *files, path = json.loads(
        java_check.run(JAVA_GOES_ON, tmp_path / "wh").strip().splitlines()[-1]
    )
    ids = [s.snapshot_id for s in t.refresh().snapshots()]
    assert sorted(files) == sorted([[ids[0], ours.statistics_file], [ids[1], path]])
    assert ndv_of(t) == [{"id": 100, "s": 10}, {"id": 102, "s": 12}]
    assert "table_stats" not in t.maintenance.recommend().kinds, "Java's statistics are new"
    t.append(pa.table({"id": [2000], "s": ["v1"]}))
    assert t.maintenance.compute_table_stats().ndv == {"id": 103, "s": 12} and ndv_of(t.refresh())[
        :2
    ] == [{"id": 100, "s": 10}, {"id": 102, "s": 12}]
    assert (
        t.maintenance.expire_snapshots(
            older_than="2099-01-01", retain_last=1
        ).deleted_statistics_files_count
        == 2
    )


def ndv_of(t: Table) -> list[dict[str, int]]:
    """The distinct values that the statistics of each snapshot name, oldest first."""
    age = {s.snapshot_id: n for n, s in enumerate(t.snapshots())}
    names = t.schema().find_column_name
    return [
        {str(names(b["fields"][0])): int(b["properties"]["ndv"]) for b in s["blob-metadata"]}
        for s in sorted(t.metadata.statistics, key=lambda s: age[s["snapshot-id"]])
    ]
