"""compute_partition_stats: counts by partition, kept up incrementally, equal to Java's files."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import frazil
from frazil.catalog import Catalog
from frazil.errors import ValidationError
from frazil.maintain.stats.partition_counts import PartitionCounts, count_partitions
from frazil.maintain.stats.partition_stats import read_counts
from frazil.scan.manifests import manifests_of
from frazil.table import Table
from tests.builders.catalogs import catalog_of

FORMATS = ["parquet", "avro", "orc"]


def rows(first: int, count: int = 30) -> pa.Table:
    return pa.table(
        {
            "id": range(first, first + count),
            "s": [f"v{i % 3}" if i % 4 else None for i in range(count)],
        }
    )


def registered(t: Table) -> list[PartitionCounts]:
    t.refresh()
    by_id = {s["snapshot-id"]: s for s in t.metadata.partition_statistics}
    return read_counts(by_id[t.metadata.current_snapshot_id], t.metadata, t._loaded.storage)


def counted(t: Table) -> list[PartitionCounts]:
    snapshot, storage = t.current_snapshot(), t._loaded.storage
    assert snapshot is not None
    return count_partitions(t.metadata, storage, manifests_of(t.metadata, snapshot, storage))


def live(counts: list[PartitionCounts]) -> dict[Any, list[int]]:
    return {c.key: c.counts for c in counts if any(c.counts)}


@pytest.fixture
def t(home: Catalog) -> Any:
    return home.create_table("db.t", "id bigint, s string", partition_by=["s"])


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("format_", FORMATS)
def test_counts_agree_with_the_metadata_table_partitions(
    home: Catalog, version: int, format_: str
) -> None:
    t = home.create_table(
        "db.t",
        "id bigint, s string",
        partition_by=["s"],
        format_version=version,
        properties={"write.format.default": format_},
    )
    t.append(rows(0))
    t.delete("id % 5 = 0", mode="merge-on-read" if version > 1 else None)
    result = t.maintenance.compute_partition_stats()
    assert (
        result.partition_statistics_file is not None
        and result.partition_statistics_file.endswith(f".{format_}")
    )
    (described,) = t.refresh().metadata.partition_statistics
    assert described["file-size-in-bytes"] == Path(result.partition_statistics_file).stat().st_size
    table = {r["partition"]["s"]: r for r in t.inspect.partitions().to_pylist()}
    found = {c.partition[0]: c for c in registered(t)}
    assert set(found) == set(table)
    for value, r in table.items():
        files = [
            r[n]
            for n in (
                "record_count",
                "file_count",
                "total_data_file_size_in_bytes",
                "position_delete_record_count",
            )
        ]
        assert found[value].counts[:4] == files
        assert found[value].counts[4] + found[value].counts[7] == r["position_delete_file_count"]
        assert (found[value].counts[7] > 0) == (version == 3)
        assert found[value].last_updated_snapshot_id == r["last_updated_snapshot_id"]


def test_only_manifests_that_came_since_are_read_and_a_second_call_reads_none(t: Any) -> None:
    for first in range(0, 300, 30):
        t.append(rows(first))
    assert t.maintenance.compute_partition_stats().manifests_read == 10
    t.append(rows(1000))
    assert t.maintenance.compute_partition_stats(dry_run=True).manifests_read == 1
    result = t.maintenance.compute_partition_stats()
    assert result.manifests_read == 1 and result.continued_from is not None
    again = t.maintenance.compute_partition_stats()
    assert (again.partition_statistics_file, again.manifests_read, again.partitions) == (
        result.partition_statistics_file,
        0,
        result.partitions,
    )
    assert result.partitions == t.inspect.partitions().num_rows
    assert live(registered(t)) == live(counted(t))


def test_a_lost_or_damaged_file_is_not_gone_on_from(
    t: Any, caplog: pytest.LogCaptureFixture
) -> None:
    t.append(rows(0))
    for damage in (lambda p: p.unlink(), lambda p: p.write_bytes(b"nothing")):
        old = t.maintenance.compute_partition_stats().partition_statistics_file
        assert old is not None
        damage(Path(old))
        t.append(rows(100))
        result = t.maintenance.compute_partition_stats()
        assert result.continued_from is None and live(registered(t)) == live(counted(t))
    damage(Path(result.partition_statistics_file or ""))
    anew = t.maintenance.compute_partition_stats()
    assert anew.partition_statistics_file != result.partition_statistics_file and live(
        registered(t)
    ) == live(counted(t))
    assert "cannot be read; all manifests are read instead" in caplog.text


def test_files_of_older_specs_and_versions_are_gone_on_from(t: Any) -> None:
    t.append(rows(0))
    t.maintenance.compute_partition_stats()
    with t.update_spec() as update:
        update.add_field("id", "bucket[4]")
    t.upgrade(3)
    t.append(rows(50))
    t.delete("id = 51", mode="merge-on-read")
    assert t.maintenance.compute_partition_stats().continued_from is not None
    assert live(registered(t)) == live(counted(t)) and {c.spec_id for c in registered(t)} == {0, 1}


def test_tables_without_partitions_are_refused_and_empty_ones_have_no_file(home: Catalog) -> None:
    t = home.create_table("db.t", "id bigint")
    assert t.maintenance.compute_partition_stats().to_arrow().num_rows == 0
    t.append(pa.table({"id": [1]}))
    with pytest.raises(ValidationError, match="Table must be partitioned"):
        t.maintenance.compute_partition_stats()


STEPS = st.lists(
    st.sampled_from(["append", "delete", "mor", "overwrite", "stats", "merge", "branch"]),
    min_size=1,
    max_size=9,
)


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS)
def test_what_is_kept_up_equals_what_is_counted_anew(steps: list[str]) -> None:
    t = frazil.load_catalog(f"c{uuid.uuid4().hex}", type="memory")
    t.create_namespace("db")
    table = t.create_table("db.t", "id bigint, s string", partition_by=["s"], format_version=2)
    table.append(rows(0))
    for n, step in enumerate(steps):
        match step:
            case "append":
                table.append(rows(100 * n))
            case "delete":
                table.delete(f"id % {n + 2} = 0", mode="copy-on-write")
            case "mor":
                table.delete(f"id % {n + 3} = 1", mode="merge-on-read")
            case "overwrite":
                table.overwrite(rows(7 * n, 5), overwrite_filter="s = 'v1'")
            case "stats":
                table.maintenance.compute_partition_stats()
            case "merge":
                with table.update_properties() as update:
                    update.set("commit.manifest.min-count-to-merge", "2")
            case "branch":
                table.append(rows(5000 + n), branch="other")
    table.maintenance.compute_partition_stats()
    assert live(registered(table)) == live(counted(table))


JAVA = """
import json
def seen(table):
    at = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db." + table)
    rows = at.newPartitionStatisticsScan().scan().iterator()
    out = []
    while rows.hasNext():
        r = rows.next()
        out.append([r.partition().toString(),
                    r.specId(), r.dataRecordCount(), r.dataFileCount(), r.totalDataFileSizeInBytes(), r.positionDeleteRecordCount(),
                    r.positionDeleteFileCount(), r.equalityDeleteRecordCount(), r.equalityDeleteFileCount(), r.totalRecords(), r.lastUpdatedAt(),
                    r.lastUpdatedSnapshotId(), r.dvCount()])
    return out
out = {}
for table in sys.argv[3:]:
    ours = seen(table)
    at = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db." + table)
    remove = at.updatePartitionStatistics()
    for f in at.partitionStatisticsFiles():
        remove = remove.removePartitionStatistics(f.snapshotId())
    remove.commit()
    path = spark.sql(f"CALL j.system.compute_partition_stats(table => 'db.{table}')").collect()[0][0]
    out[table] = {"ours": ours, "theirs": seen(table), "path": path}
print(json.dumps(out))
"""


@pytest.mark.java
def test_java_reads_our_file_and_writes_the_same(tmp_path: Path, java_check: Any) -> None:
    catalog, ours = catalog_of("path", tmp_path), {}
    for version in (2, 3):
        t = catalog.create_table(
            f"db.t{version}",
            "id bigint, s string, at timestamp, u decimal(9,2), f double",
            partition_by=["s", "bucket(4, id)", "days(at)", "u", "f"],
            format_version=version,
        )
        frame = pa.table(
            {
                "id": range(40),
                "s": [f"v{i % 3}" if i % 4 else None for i in range(40)],
                "at": pa.array(
                    [86_400_000_000 * (i % 2) for i in range(40)], pa.timestamp("us", "UTC")
                ),
                "u": pa.array([i % 2 for i in range(40)], pa.decimal128(9, 2)),
                "f": [[0.5, -1.0][i % 2] for i in range(40)],
            }
        )
        t.append(frame)
        t.delete("id % 5 = 0", mode="merge-on-read")
        path = t.maintenance.compute_partition_stats().partition_statistics_file
        ours[version] = pq.read_table(path, partitioning=None)
    told = json.loads(java_check.run(JAVA, tmp_path / "wh", "t2", "t3").strip().splitlines()[-1])
    for version in (2, 3):
        found = told[f"t{version}"]
        assert found["ours"] == found["theirs"] and len(found["ours"]) == ours[version].num_rows > 5
        theirs = pq.read_table(found["path"].removeprefix("file:"), partitioning=None)
        assert theirs.to_pylist() == ours[version].to_pylist()
        plain = [
            (f.name, f.type, f.metadata[b"PARQUET:field_id"])
            for f in ours[version].schema
            if f.name != "partition"
        ]
        assert [
            (f.name, f.type, f.metadata[b"PARQUET:field_id"])
            for f in theirs.schema
            if f.name != "partition"
        ] == plain


JAVA_GOES_ON = """
import json
out = {}
for table in sys.argv[3:]:
    for n in range(2):
        spark.sql(f"INSERT INTO j.db.{table} SELECT id + 100, s FROM j.db.{table} LIMIT 4")
    path = spark.sql(f"CALL j.system.compute_partition_stats(table => 'db.{table}')").collect()[0][0]
    out[table] = path
print(json.dumps(out))
"""


@pytest.mark.java
def test_java_goes_on_from_our_file_and_we_from_javas(tmp_path: Path, java_check: Any) -> None:
    """Each reads what the other has counted, and adds what came since."""
    catalog, tables = catalog_of("path", tmp_path), {}
    for version in (2, 3):
        t = tables[f"t{version}"] = catalog.create_table(
            f"db.t{version}", "id bigint, s string", partition_by=["s"], format_version=version
        )
        t.append(rows(0))
        t.delete("id % 5 = 0", mode="merge-on-read")
        t.maintenance.compute_partition_stats()
    told = json.loads(
        java_check.run(JAVA_GOES_ON, tmp_path / "wh", *tables).strip().splitlines()[-1]
    )
    for name, t in tables.items():
        assert live(registered(t)) == live(counted(t)) and len(t.metadata.partition_statistics) == 2
        by_id = {s["snapshot-id"]: s["statistics-path"] for s in t.metadata.partition_statistics}
        assert by_id[t.metadata.current_snapshot_id].endswith(told[name].removeprefix("file:"))
        t.append(rows(500))
        assert t.maintenance.compute_partition_stats().manifests_read == 1, (
            "Java's file was not taken for a beginning"
        )
        assert live(registered(t)) == live(counted(t)) and len(live(counted(t))) == 4


def test_a_progress_callback_counts_the_manifests_that_were_read(t: Any) -> None:
    t.append(rows(0))
    t.append(rows(30))
    calls: list[tuple[Any, ...]] = []
    t.maintenance.compute_partition_stats(progress=lambda *step: calls.append(step))
    t.append(rows(60))
    t.maintenance.compute_partition_stats(progress=lambda *step: calls.append(step))
    assert calls == [(1, 2, "manifests read"), (2, 2, "manifests read"), (1, 1, "manifests read")]
