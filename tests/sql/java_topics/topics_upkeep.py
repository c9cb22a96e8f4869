"""Procedures that expire snapshots, remove orphan files and rewrite manifests."""

import os
import shutil
import time
from pathlib import Path

from tests.sql.java_topics.harness import Place, case, not_sql
from tests.sql.java_topics.topics_history import (
    delete_files,
    empty,
    four,
    insert,
    local,
)

ALL = "SELECT * FROM $t ORDER BY id"


def now(p: Place) -> str:
    time.sleep(0.01)
    return f"TIMESTAMP '{p.one('SELECT current_timestamp()').isoformat(sep=' ')}'"


# expire_snapshots
# --------------------------------------------------------------------------------------------------------------------------------------


@case("TestExpireSnapshotsProcedure.testExpireSnapshotsUsingPositionalArgs", on=("sql", "path"))
def files_that_expire_are_counted(p: Place) -> None:
    empty(p)
    insert(p, 1)
    time.sleep(0.01)
    insert(p, 2)
    at = p.metadata()["snapshots"][-1]["timestamp-ms"]
    told = p.spark.sql(f"SELECT CAST(timestamp_millis({at}) AS string)").first()[0]
    p.rows(f"CALL $c.system.expire_snapshots('$db.t', TIMESTAMP '{told}')", (0, 0, 0, 0, 1, 0))
    p.sql("INSERT OVERWRITE $t VALUES (3, 'c')")
    insert(p, 4)
    p.rows(ALL, (3, "c"), (4, "d"))
    assert len(p.snapshots()) == 3
    p.rows(f"CALL $c.system.expire_snapshots('$db.t', {now(p)}, 2)", (2, 0, 0, 2, 1, 0))


def expires(method: str, template: str, number: int = 2, expired: int = 1) -> None:
    @case(f"TestExpireSnapshotsProcedure.{method}")
    def all_but_the_newest_snapshot_expire(p: Place) -> None:
        empty(p)
        for n in range(1, number + 1):
            insert(p, n)
        p.rows(template.replace("AT", now(p)), (0, 0, 0, 0, expired, 0))
        assert len(p.snapshots()) == 1
        p.rows("SELECT count(*) FROM $t", (number,))


expires(
    "testExpireSnapshotUsingNamedArgs",
    "CALL $c.system.expire_snapshots(older_than => AT, table => '$db.t')",
)
expires(
    "testConcurrentExpireSnapshots",
    "CALL $c.system.expire_snapshots(older_than => AT, table => '$db.t', max_concurrent_deletes => 4)",
    *(4, 3),
)
expires(
    "testExpireSnapshotWithStreamResultsEnabled",
    "CALL $c.system.expire_snapshots(older_than => AT, table => '$db.t', stream_results => true)",
)
expires(
    "testExpireSnapshotsProcedureWorksWithSqlComments",
    "/* snapshots\n expire */\n-- here\n CALL /* now */ $c.system.expire_snapshots("
    "older_than => AT, -- all\n table => '$db.t')",
)


@case(
    "TestExpireSnapshotsProcedure.testResolvingTableInAnotherCatalog",
    differs="a decision: a name of three parts is one in nested namespaces, and such a table is missing",
)
def a_procedure_runs_in_the_catalog_of_the_table(p: Place) -> None:
    p.sql("CREATE NAMESPACE topics_path.$db")
    p.sql("CREATE TABLE topics_path.$db.t (id bigint NOT NULL, data string) USING iceberg")
    p.fails("CALL $c.system.expire_snapshots('topics_path.$db.t')", "catalog", "topics_path")


def merge_on_read(p: Place) -> Path:
    p.sql(
        "CREATE TABLE $t (id bigint, data string) USING iceberg TBLPROPERTIES"
        " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    p.sql("INSERT INTO $t SELECT id, string(id) FROM range(1, 5, 1, 1)")
    p.sql("DELETE FROM $t WHERE id = 1")
    assert delete_files(p) == 1
    return local(p.one("SELECT file_path FROM $t.delete_files"))


@case("TestExpireSnapshotsProcedure.testExpireDeleteFiles")
def delete_files_expire(p: Place) -> None:
    path = merge_on_read(p)
    p.sql(
        "CALL $c.system.rewrite_data_files(table => '$db.t',"
        " options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )
    p.sql("INSERT INTO TABLE $t VALUES (6, 'f')")
    assert delete_files(p) == 0
    assert path.exists()
    (row,) = p.sql(f"CALL $c.system.expire_snapshots(older_than => {now(p)}, table => '$db.t')")
    assert row[:2] == (1, 1)
    assert not path.exists()


def statistics(kind: str, procedure: str) -> None:
    method = f"testExpireSnapshotsWith{kind}Files"

    @case(f"TestExpireSnapshotsProcedure.{method}")
    def statistics_expire_with_their_snapshots(p: Place) -> None:
        four(p)
        p.sql(f"CALL $c.system.{procedure}('$db.t')")
        insert(p, 2)
        p.sql(f"CALL $c.system.{procedure}('$db.t')")
        key = "statistics" if kind == "Statistic" else "partition-statistics"
        known = {s["snapshot-id"]: s["statistics-path"] for s in p.metadata()[key]}
        first, second = p.snapshots()
        (row,) = p.sql(f"CALL $c.system.expire_snapshots(older_than => {now(p)}, table => '$db.t')")
        assert row[5] == 1
        assert [s["snapshot-id"] for s in p.metadata()[key]] == [second]
        assert not local(known[first]).exists()
        assert local(known[second]).exists()


statistics("Statistic", "compute_table_stats")
statistics("PartitionStatistic", "compute_partition_stats")


@case("TestExpireSnapshotsProcedure.testNoExpiredMetadataCleanupByDefault", each=(False,))
@case("TestExpireSnapshotsProcedure.testCleanExpiredMetadata", each=(True,))
def old_schemas_go_if_that_is_asked(p: Place) -> None:
    empty(p)
    insert(p, 1)
    p.sql("ALTER TABLE $t ADD COLUMN extra_col int", "INSERT INTO TABLE $t VALUES (2, 'b', 21)")
    assert len(p.metadata()["schemas"]) == 2
    clean = ", clean_expired_metadata => true" if p.each else ""
    call = f"CALL $c.system.expire_snapshots(older_than => {now(p)}, table => '$db.t'{clean})"
    p.rows(call, (0, 0, 0, 0, 1, 0))
    known = p.metadata()
    schemas = [s["schema-id"] for s in known["schemas"]]
    assert schemas == [known["current-schema-id"]] if p.each else len(schemas) == 2


# remove_orphan_files
# --------------------------------------------------------------------------------------------------------------------------------------


def aged(p: Place) -> str:
    """Make all files of the table five days old, and return the time two days ago: files of less
    than a day are safe from the procedure.
    """
    old = time.time() - 5 * 86_400
    for path in local(p.metadata()["location"]).glob("**/*"):
        os.utime(path, (old, old))
    return f"TIMESTAMP '{p.one('SELECT current_timestamp() - INTERVAL 2 DAYS').isoformat(sep=' ')}'"


def orphans(p: Place, number: int, folder: str = "data") -> str:
    """Make a table with orphan files, and return a time after them."""
    empty(p)
    insert(p, 1), insert(p, 2)
    place = local(p.metadata()["location"]) / folder
    source = next(local(p.metadata()["location"]).glob("data/**/*.parquet"))
    for n in range(number):
        shutil.copyfile(source, place / f"orphan{n}.parquet")
    return aged(p)


ORPHANS = "CALL $c.system.remove_orphan_files(table => '$db.t', older_than => {}{})"


@case("TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesInDataFolder", on=("sql", "path"))
def orphans_are_removed_once(p: Place) -> None:
    at = orphans(p, 1)
    metadata = p.metadata()["location"] + "/metadata"
    p.rows(ORPHANS.format(at, f", location => '{metadata}'"))
    assert len(p.sql(ORPHANS.format(at, ""))) == 1
    p.rows(ORPHANS.format(at, ""))
    p.rows(ALL, (1, "a"), (2, "b"))


@case("TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesDryRun")
def a_dry_run_removes_nothing(p: Place) -> None:
    at = orphans(p, 1, ".")
    assert len(p.sql(ORPHANS.format(at, ", dry_run => true"))) == 1
    assert len(p.sql(ORPHANS.format(at, ""))) == 1
    p.rows(ORPHANS.format(at, ""))
    p.rows(ALL, (1, "a"), (2, "b"))


@case("TestRemoveOrphanFilesProcedure.testConcurrentRemoveOrphanFiles")
def orphans_are_removed_at_once(p: Place) -> None:
    at = orphans(p, 4)
    assert len(p.sql(ORPHANS.format(at, ", max_concurrent_deletes => 4"))) == 4
    p.rows(ORPHANS.format(at, ", max_concurrent_deletes => 4"))
    p.rows(ALL, (1, "a"), (2, "b"))


@case("TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesWithDeleteFiles")
def delete_files_are_no_orphans(p: Place) -> None:
    path = merge_on_read(p)
    p.rows(ORPHANS.format(aged(p), ""))
    assert path.exists()
    p.rows(ALL, (2, "2"), (3, "3"), (4, "4"))


@case(
    "TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesWithStatisticFiles",
    each=("compute_table_stats",),
)
@case(
    "TestRemoveOrphanFilesProcedure.testRemoveOrphanFilesWithPartitionStatisticFiles",
    each=("compute_partition_stats",),
)
def statistics_are_no_orphans(p: Place) -> None:
    four(p)
    path = local(p.one(f"CALL $c.system.{p.each}('$db.t')"))
    orphan = path.with_name(f"orphan{path.suffix}")
    shutil.copyfile(path, orphan)
    ((removed,),) = p.sql(ORPHANS.format(aged(p), ""))
    assert local(removed) == orphan
    assert path.exists() and not orphan.exists()


not_sql(
    "TestRemoveOrphanFilesProcedure",
    "files with an authority or a scheme of their own, which local disks do not have; tests/maintain tries them",
    "testRemoveOrphanFilesProcedureWithPrefixMode",
    "testRemoveOrphanFilesProcedureWithEqualAuthorities",
)


# rewrite_manifests
# --------------------------------------------------------------------------------------------------------------------------------------


def manifests(p: Place) -> int:
    return int(p.one("SELECT count(*) FROM $t.manifests"))


def small_manifests(p: Place, number: int = 4) -> None:
    p.sql(
        "CREATE TABLE $t (id bigint NOT NULL, data string, category string) USING iceberg"
        " PARTITIONED BY (data, category)"
        " TBLPROPERTIES ('compatibility.snapshot-id-inheritance.enabled' 'true')"
    )
    for n in range(number):
        p.sql(f"INSERT INTO TABLE $t VALUES ({n}, '{'abcd'[n]}', '{'xyxy'[n]}')")
    assert manifests(p) == number


@case("TestRewriteManifestsProcedure.testPartitionStatsIncrementalCompute")
def partition_statistics_are_the_same_after_manifests_are_joined(p: Place) -> None:
    small_manifests(p, 2)

    def counted() -> list[tuple[object, ...]]:
        path = p.one("CALL $c.system.compute_partition_stats('$db.t')")
        rows = p.spark.read.parquet(path)
        fields = [f.name for f in rows.schema.fields[:5]]
        return sorted(
            tuple(r) for r in rows.selectExpr(*(f"string(`{f}`)" for f in fields)).collect()
        )

    before = counted()
    p.sql("CALL $c.system.rewrite_manifests(use_caching => false, table => '$db.t')")
    assert counted() == before
