"""Procedures that move a table through its history, audit its writes, count and move its files."""

import time
from datetime import UTC, datetime
from pathlib import Path

from tests.sql.java_topics.harness import Place, case

ONE, TWICE = (1, "a"), [(1, "a"), (1, "a")]
ALL = "SELECT * FROM $t ORDER BY id"


def empty(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint NOT NULL, data string) USING iceberg")


def insert(p: Place, number: int = 1) -> int:
    p.sql(f"INSERT INTO TABLE $t VALUES ({number}, '{' abcd'[number]}')")
    return p.snapshots()[-1]


def twice(p: Place) -> tuple[int, int]:
    empty(p)
    first = insert(p)
    return first, insert(p)


def missing(name: str) -> str:
    return f"REQUIRED_PARAMETER_NOT_FOUND.*`{name}`"


# ancestors_of
# --------------------------------------------------------------------------------------------------------------------------------------


def ancestors(p: Place, *snapshot_ids: int) -> list[tuple[int, int]]:
    times = {s["snapshot-id"]: s["timestamp-ms"] for s in p.metadata()["snapshots"]}
    return [(i, times[i]) for i in snapshot_ids]


@case("TestAncestorsOfProcedure.testAncestorOfUsingEmptyArgs", on=("sql", "path"))
@case("TestAncestorsOfProcedure.testAncestorOfUsingSnapshotId")
@case("TestAncestorsOfProcedure.testAncestorOfUsingNamedArgs")
def ancestors_are_listed_from_the_newest(p: Place) -> None:
    first, second = twice(p)
    both = ancestors(p, second, first)
    assert p.sql("CALL $c.system.ancestors_of('$db.t')") == both
    assert p.sql(f"CALL $c.system.ancestors_of('$db.t', {second}L)") == both
    assert p.sql(f"CALL $c.system.ancestors_of('$db.t', {first}L)") == both[1:]
    named = f"CALL $c.system.ancestors_of(snapshot_id => {first}L, table => '$db.t')"
    assert p.sql(named) == both[1:]


@case("TestAncestorsOfProcedure.testAncestorOfWithRollBack")
def ancestors_pass_by_what_was_rolled_back(p: Place) -> None:
    empty(p)
    first, second, third = (insert(p, n) for n in (1, 2, 3))
    p.sql(f"CALL $c.system.rollback_to_snapshot('$db.t', {second}L)")
    fourth = insert(p, 4)
    for head in (fourth, third):
        expected = ancestors(p, head, second, first)
        assert p.sql(f"CALL $c.system.ancestors_of('$db.t', {head}L)") == expected


# Write, audit, publish
# --------------------------------------------------------------------------------------------------------------------------------------


def staged(p: Place, wap_id: str = "1", numbers: tuple[int, ...] = (1,)) -> int:
    empty(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('write.wap.enabled' 'true')")
    with p.conf({"spark.wap.id": wap_id}):
        snapshots = [insert(p, number) for number in numbers]
        p.rows("SELECT * FROM $t")
    return snapshots[0]


@case(
    "TestCherrypickSnapshotProcedure.testCherrypickSnapshotUsingPositionalArgs",
    each=("'$db.t', {}L",),
)
@case(
    "TestCherrypickSnapshotProcedure.testCherrypickSnapshotUsingNamedArgs",
    each=("snapshot_id => {}L, table => '$db.t'",),
)
def a_staged_snapshot_is_picked(p: Place) -> None:
    picked = staged(p)
    output = p.sql(f"CALL $c.system.cherrypick_snapshot({p.each.format(picked)})")
    assert output == [(picked, p.refs()["main"]["snapshot-id"])]
    p.rows("SELECT * FROM $t", ONE)


@case(
    "TestCherrypickSnapshotProcedure.testCherrypickSnapshotRefreshesRelationCache",
    each=("cherrypick_snapshot('$db.t', {}L)",),
)
def what_is_published_is_seen_by_cached_views(p: Place) -> None:
    empty(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('write.wap.enabled' 'true')")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT * FROM $t WHERE id = 1")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp")
    with p.conf({"spark.wap.id": "1"}):
        snapshot = insert(p)
        p.rows("SELECT * FROM $t")
    p.sql(f"CALL $c.system.{p.each.format(snapshot)}")
    p.rows("SELECT * FROM tmp", ONE)
    p.sql("UNCACHE TABLE tmp")


# Roll back, and set the current snapshot
# --------------------------------------------------------------------------------------------------------------------------------------

GO_BACK = {
    "TestRollbackToSnapshotProcedure.testRollbackToSnapshot": "rollback_to_snapshot",
    "TestSetCurrentSnapshotProcedure.testSetCurrentSnapshot": "set_current_snapshot",
}
for _method, _name in GO_BACK.items():

    @case(f"{_method}UsingPositionalArgs", on=("sql", "path"), each=(f"{_name}('$db.t', {{}}L)",))
    @case(f"{_method}UsingNamedArgs", each=(f"{_name}(snapshot_id => {{}}L, table => '$db.t')",))
    def the_table_goes_back_to_a_snapshot(p: Place) -> None:
        first, second = twice(p)
        p.rows(ALL, *TWICE)
        p.rows(f"CALL $c.system.{p.each.format(first)}", (second, first))
        p.rows(ALL, ONE)


@case("TestRollbackToSnapshotProcedure.testRollbackToSnapshotRefreshesRelationCache")
def cached_views_follow_a_rollback(p: Place) -> None:
    first, second = twice(p)
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT * FROM $t WHERE id = 1")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp", *TWICE)
    call = f"CALL $c.system.rollback_to_snapshot(table => '$db.t', snapshot_id => {first}L)"
    p.rows(call, (second, first))
    p.rows("SELECT * FROM tmp", ONE)
    p.sql("UNCACHE TABLE tmp")


@case(
    "TestRollbackToSnapshotProcedure.testRollbackToSnapshotWithoutExplicitCatalog",
    on=("session",),
    each=("rOLlBaCk_to_SnApShOt",),
)
@case(
    "TestSetCurrentSnapshotProcedure.tesSetCurrentSnapshotWithoutExplicitCatalog",
    on=("session",),
    each=("sEt_cuRrEnT_sNaPsHot",),
)
def the_session_catalog_need_not_be_named(p: Place) -> None:
    first, second = twice(p)
    p.rows(f"CALL SyStEm.{p.each}('$db.t', {first}L)", (second, first))
    p.rows(ALL, ONE)


@case("TestSetCurrentSnapshotProcedure.testSetCurrentSnapshotWap")
def a_staged_snapshot_becomes_the_current_one(p: Place) -> None:
    snapshot = staged(p)
    call = f"CALL $c.system.set_current_snapshot(table => '$db.t', snapshot_id => {snapshot}L)"
    p.rows(call, (None, snapshot))
    p.rows("SELECT * FROM $t", ONE)


def between(p: Place) -> tuple[int, int, str]:
    """Two snapshots, and a time between them as the session would write it."""
    empty(p)
    first = insert(p)
    time.sleep(0.01)
    told = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    time.sleep(0.01)
    return first, insert(p), told


TIMED = "TestRollbackToTimestampProcedure.testRollbackToTimestamp"


@case(f"{TIMED}UsingPositionalArgs", each=("'$db.t', TIMESTAMP '{}'",))
@case(f"{TIMED}UsingNamedArgs", each=("timestamp => TIMESTAMP '{}', table => '$db.t'",))
@case(f"{TIMED}WithQuotedIdentifiers", each=("'`$db`.`t`', TIMESTAMP '{}'",))
@case(f"{TIMED}WithoutExplicitCatalog", on=("session",), each=("'$db.t', TIMESTAMP '{}'",))
def the_table_goes_back_to_a_time(p: Place) -> None:
    first, second, told = between(p)
    p.rows(ALL, *TWICE)
    catalog = "" if p.catalog == "spark_catalog" else "$c."
    p.rows(f"CALL {catalog}SyStEm.rOLlBaCk_to_TiMeStaMp({p.each.format(told)})", (second, first))
    p.rows(ALL, ONE)


@case(f"{TIMED}RefreshesRelationCache")
def cached_views_follow_a_rollback_to_a_time(p: Place) -> None:
    first, second, told = between(p)
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT * FROM $t WHERE id = 1")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp", *TWICE)
    p.rows(f"CALL $c.system.rollback_to_timestamp('$db.t', TIMESTAMP '{told}')", (second, first))
    p.rows("SELECT * FROM tmp", ONE)
    p.sql("UNCACHE TABLE tmp")


@case(f"{TIMED}BeforeOrEqualToOldestSnapshot")
def a_time_to_go_back_to_is_after_the_first_snapshot(p: Place) -> None:
    empty(p)
    insert(p)
    at = p.metadata()["snapshots"][0]["timestamp-ms"]
    for millis in (at - 1, at):
        text = f"CALL $c.system.rollback_to_timestamp('$db.t', timestamp_millis({millis}))"
        told = datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        text = f"CALL $c.system.rollback_to_timestamp('$db.t', TIMESTAMP '{told}')"
        p.fails(text, "snapshot")


# Statistics
# --------------------------------------------------------------------------------------------------------------------------------------


def letters(p: Place) -> None:
    p.sql("CREATE TABLE $t (id bigint NOT NULL, data string) USING iceberg PARTITIONED BY (data)")


def four(p: Place) -> int:
    letters(p)
    p.sql("INSERT INTO TABLE $t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    return p.snapshots()[-1]


def local(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


@case("TestComputePartitionStatsProcedure.procedureWithPositionalArgs", on=("sql", "path"))
@case("TestComputePartitionStatsProcedure.procedureWithNamedArgs")
def partition_statistics_are_of_a_snapshot(p: Place) -> None:
    first = four(p)
    p.sql("INSERT INTO TABLE $t VALUES (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h')")
    second = p.snapshots()[-1]
    by_name = f"table => '$db.t', snapshot_id => {first}"
    for arguments, snapshot in (("'$db.t'", second), (by_name, first)):
        path = p.one(f"CALL $c.system.compute_partition_stats({arguments})")
        known = p.metadata()["partition-statistics"]
        assert (path, snapshot) in [(s["statistics-path"], s["snapshot-id"]) for s in known]
        assert local(path).exists()


@case("TestComputeTableStatsProcedure.testProcedureWithNamedArgs")
@case("TestComputeTableStatsProcedure.testProcedureWithPositionalArgs")
def statistics_count_distinct_values(p: Place) -> None:
    snapshot = four(p)
    for arguments in ("table => '$db.t', columns => array('id')", f"'$db.t', {snapshot}L"):
        assert p.one(f"CALL $c.system.compute_table_stats({arguments})").endswith(".stats")
        (known,) = p.metadata()["statistics"]
        assert known["blob-metadata"][0]["properties"]["ndv"] == "4"


# Another place
# --------------------------------------------------------------------------------------------------------------------------------------


def newest(p: Place) -> str:
    files = p.sql("SELECT file FROM $t.metadata_log_entries ORDER BY timestamp")
    return str(files[-1][0]).rpartition("/")[2]


def moved(p: Place, arguments: str) -> tuple[object, ...]:
    source = p.metadata()["location"]
    call = f"CALL $c.system.rewrite_table_path({arguments})"
    (row,) = p.sql(call, source=source, target="file:$dir/to/".replace("$dir", str(p.directory)))
    return row


@case("TestRewriteTablePathProcedure.testRewriteTablePathWithPositionalArgument")
def a_table_is_prepared_for_another_place(p: Place) -> None:
    empty(p)
    row = moved(p, "'$db.t', '$source', '$target'")
    assert row[0] == newest(p)
    assert str(row[1]).startswith(p.metadata()["location"])
    assert p.spark.read.text(row[1]).count() == 1


@case("TestRewriteTablePathProcedure.testRewriteTablePathWithNamedArgument")
def versions_of_a_table_are_prepared_for_another_place(p: Place) -> None:
    empty(p)
    start = newest(p)
    insert(p)
    end, staging = newest(p), f"file:{p.directory}/staging/"
    row = moved(
        p,
        "table => '$db.t', target_prefix => '$target', source_prefix => '$source',"
        f" end_version => '{end}', start_version => '{start}', staging_location => '{staging}'",
    )
    assert row[:2] == (end, f"{staging}file-list")
    assert p.spark.read.text(row[1]).count() == 4


@case("TestRewriteTablePathProcedure.testRewriteTablePathWithoutFileList")
def the_list_of_files_may_be_left_out(p: Place) -> None:
    empty(p)
    row = moved(
        p,
        "table => '$db.t', source_prefix => '$source', target_prefix => '$target',"
        " create_file_list => false",
    )
    assert row[:2] == (newest(p), "N/A")


@case("TestRewriteTablePathProcedure.testRewriteTablePathWithManifestAndDeleteCounts")
def manifests_and_delete_files_that_are_rewritten_are_counted(p: Place) -> None:
    empty(p)
    p.sql("ALTER TABLE $t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    p.sql("INSERT INTO $t SELECT id, string(id) FROM range(1, 3, 1, 1)")
    insert(p, 2), insert(p, 3)
    p.sql("DELETE FROM $t WHERE id = 1")
    insert(p, 4)
    row = moved(
        p,
        "table => '$db.t', source_prefix => '$source', target_prefix => '$target',"
        " create_file_list => false",
    )
    assert row[2:4] == (5, 1)


# Position deletes
# --------------------------------------------------------------------------------------------------------------------------------------

MERGE_ON_READ = (
    "'format-version' = '2', 'write.delete.mode' = 'merge-on-read',"
    " 'write.delete.granularity' = 'partition'"
)


def deleting(p: Place, partitioned: str = "", *conditions: str) -> None:
    p.sql(
        f"CREATE TABLE $t (id bigint, data string) USING iceberg {partitioned}"
        f" TBLPROPERTIES ({MERGE_ON_READ})"
    )
    rows = [(n // 3 + 1, letter) for n, letter in enumerate("abcdefghijklmnopqr")]
    p.frame(rows, "id bigint, data string").coalesce(1).writeTo(p.text("$t")).append()
    for condition in conditions:
        p.sql(f"DELETE FROM $t WHERE {condition}")
    assert delete_files(p) == len(conditions)


def delete_files(p: Place) -> int:
    return int(p.one("SELECT count(*) FROM $t.delete_files"))


def rewritten(p: Place, arguments: str, removed: int, added: int) -> None:
    (row,) = p.sql(f"CALL $c.system.rewrite_position_delete_files(table => '$db.t'{arguments})")
    summary = p.snapshot()["summary"]
    sizes = (int(summary["removed-files-size"]), int(summary["added-files-size"]))
    assert row == (removed, added, *sizes)


EVERY = ", options => map('rewrite-all', 'true')"


@case("TestRewritePositionDeleteFilesProcedure.testExpireDeleteFilesAll")
def all_delete_files_are_rewritten(p: Place) -> None:
    deleting(p, "", "id = 1", "id = 2")
    rewritten(p, EVERY, 2, 1)
    assert delete_files(p) == 1


@case("TestRewritePositionDeleteFilesProcedure.testExpireDeleteFilesNoOption")
def five_small_delete_files_are_rewritten(p: Place) -> None:
    deleting(p, "", *(f"id = {n}" for n in range(1, 6)))
    rewritten(p, "", 5, 1)


@case("TestRewritePositionDeleteFilesProcedure.testExpireDeleteFilesFilter")
def delete_files_of_some_partitions_are_rewritten(p: Place) -> None:
    pairs = [(1, "a"), (1, "b"), (2, "d"), (2, "e"), (3, "g"), (3, "h")]
    deleting(p, "PARTITIONED BY (id)", *(f"id = {n} AND data = '{c}'" for n, c in pairs))
    rewritten(p, f", where => 'id IN (1, 2) AND data = \"bar\"'{EVERY}", 4, 2)
    assert delete_files(p) == 4


@case(
    "TestRewritePositionDeleteFilesProcedure.testRewriteWithUntranslatedOrUnconvertedFilter",
    differs="a decision: a filter of a rewrite may be any expression that Frazil knows",
)
def filters_of_rewrites_are_comparisons(p: Place) -> None:
    deleting(p)
    for where in ('substr(encode(data, "utf-8"), 2) = "fo"', 'substr(data, 2) = "fo"'):
        p.fails(
            f"CALL $c.system.rewrite_position_delete_files(table => '$db.t', where => '{where}')",
            "substr|translate",
        )


@case("TestRewritePositionDeleteFilesProcedure.testRewriteSummary")
def a_rewrite_tells_the_engine(p: Place) -> None:
    deleting(p, "", "id = 1")
    p.sql(f"CALL $c.system.rewrite_position_delete_files(table => '$db.t'{EVERY})")
    summary = p.snapshot()["summary"]
    assert summary["engine-name"] == "spark"
    assert summary["engine-version"].startswith(p.spark.version[:3])
    assert {"app-id", "app-name"} <= summary.keys()
