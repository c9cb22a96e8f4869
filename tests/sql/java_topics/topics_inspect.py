"""Metadata tables, and the functions `system.bucket` and its like in conditions."""

from typing import Any

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.rows_changed import put

TABLES = "TestMetadataTables"
VERSIONS = (2, 3)


def letters(p: Place, partitioned: str = "") -> None:
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    p.sql(
        f"CREATE TABLE $t (id bigint, data string) USING iceberg {clause} TBLPROPERTIES"
        f" ('format-version' = '{p.each}', 'write.delete.mode' = 'merge-on-read')"
    )


def four(p: Place) -> None:
    letters(p)
    put(p, "(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')", "$t")


def two_partitions(p: Place) -> None:
    letters(p, "data")
    put(p, "(1, 'a'), (2, 'a')", "$t")
    put(p, "(1, 'b'), (2, 'b')", "$t")


def files(p: Place, name: str, where: str = "") -> list[tuple[Any, ...]]:
    return p.sql(f"SELECT content, record_count, spec_id FROM $t.{name} {where} ORDER BY content")


@case(f"{TABLES}.testUnpartitionedTable", each=VERSIONS)
def files_are_listed_by_their_content(p: Place) -> None:
    four(p)
    p.sql("DELETE FROM $t WHERE id = 1")
    data, deletes = (0, 4, 0), (1, 1, 0)
    assert files(p, "data_files") == [data]
    assert files(p, "delete_files") == [deletes]
    assert files(p, "files") == [data, deletes]
    p.rows("SELECT content FROM $t.manifests", (0,), (1,))
    (listed,) = p.sql("SELECT lower_bounds, upper_bounds, value_counts FROM $t.data_files")
    assert listed[0][2] == b"a" and listed[1][2] == b"d" and listed[2] == {1: 4, 2: 4}


@case(f"{TABLES}.testAllManifestsTableWithNegatedContentFilters", each=VERSIONS)
def manifests_are_filtered_by_content(p: Place) -> None:
    four(p)
    p.sql("DELETE FROM $t WHERE id = 1")
    query = "SELECT content, path, reference_snapshot_id FROM $t.all_manifests WHERE {} ORDER BY path, reference_snapshot_id"
    expected = p.sql(query.format("content = 1"))
    assert expected
    for condition in ("content != 0", "content <> 0", "NOT(content = 0)"):
        p.rows(query.format(condition), *expected)


@case(f"{TABLES}.testPositionDeletesTable", each=VERSIONS)
def deleted_positions_are_listed(p: Place) -> None:
    four(p)
    p.sql("DELETE FROM $t WHERE id = 1 OR id = 3")
    data = p.one("SELECT file_path FROM $t.data_files")
    deletes = p.one("SELECT file_path FROM $t.delete_files")
    more: tuple[Any, ...] = ()
    if p.each == 3:
        (more,) = p.sql("SELECT content_offset, content_size_in_bytes FROM $t.delete_files")
    rows = [(data, position, None, 0, deletes, *more) for position in (0, 2)]
    p.rows("SELECT * FROM $t.position_deletes ORDER BY pos", *rows)


LOG = "SELECT {} FROM $t.metadata_log_entries"


@case(f"{TABLES}.testMetadataLogEntries", each=VERSIONS)
def metadata_files_are_listed(p: Place) -> None:
    two_partitions(p)
    first, second = p.snapshots()
    rows = p.sql(LOG.format("*"))
    assert [r[2:] for r in rows] == [(None, None, None), (first, 0, 1), (second, 0, 2)]
    assert p.sql(f"{LOG.format('*')} WHERE latest_snapshot_id = {second}") == rows[2:]
    assert p.sql(LOG.format("file")) == [(r[1],) for r in rows]
    known = p.metadata()["metadata-log"]
    assert [entry["metadata-file"] for entry in known] == [r[1] for r in rows[:2]]


@case(f"{TABLES}.metadataLogEntriesAfterReplacingTable", each=VERSIONS)
def metadata_files_of_a_replaced_table_stay_listed(p: Place) -> None:
    letters(p, "data")
    p.sql("INSERT INTO $t VALUES (1, 'a')", "INSERT INTO $t VALUES (1, 'a')")
    before = p.sql(LOG.format("*"))
    second = p.snapshots()[-1]
    p.sql("CREATE OR REPLACE TABLE $t (id bigint, data string) USING iceberg PARTITIONED BY (data)")
    rows = p.sql(LOG.format("*"))
    assert rows[:3] == before
    assert [r[2:] for r in rows[3:]] == [(second, 0, 2)]
    p.sql("INSERT INTO $t VALUES (1, 'a')")
    assert p.sql(LOG.format("*"))[:4] == rows
    assert p.sql(LOG.format("latest_snapshot_id"))[4:] == [(p.refs()["main"]["snapshot-id"],)]


@case(f"{TABLES}.testSnapshotReferencesMetatable", each=VERSIONS)
def branches_and_tags_are_listed(p: Place) -> None:
    two_partitions(p)
    head = p.snapshots()[-1]
    p.sql(
        "ALTER TABLE $t CREATE BRANCH testBranch RETAIN 1 MINUTES"
        " WITH SNAPSHOT RETENTION 20 SNAPSHOTS 3 MINUTES",
        "ALTER TABLE $t CREATE TAG testTag RETAIN 5 MINUTES",
    )
    main = ("main", "BRANCH", head, None, None, None)
    branch = ("testBranch", "BRANCH", head, 60_000, 20, 180_000)
    tag = ("testTag", "TAG", head, 300_000, None, None)
    p.rows("SELECT * FROM $t.refs", main, branch, tag)
    p.rows("SELECT * FROM $t.refs WHERE type = 'BRANCH'", main, branch)
    p.rows("SELECT * FROM $t.refs WHERE type = 'TAG'", tag)
    p.rows("SELECT * FROM $t.refs WHERE name = 'main' AND type = 'BRANCH'", main)
    p.rows("SELECT name, type FROM $t.refs WHERE name = 'testBranch'", branch[:2])
    names = [f.name for f in p.spark.table(p.text("$t.refs")).schema.fields]
    assert names[2:] == [
        "snapshot_id",
        "max_reference_age_in_ms",
        "min_snapshots_to_keep",
        "max_snapshot_age_in_ms",
    ]
