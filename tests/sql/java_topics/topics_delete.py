"""DELETE FROM."""

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.rows_changed import (
    AQE,
    FILE_BY_FILE,
    LARGE_PIECES,
    MODES,
    NOTHING,
    SMALL_PIECES,
    begin,
    branch,
    head,
    in_many_row_groups,
    isolated,
    one_mode,
    put,
    steps,
    told,
    views,
    written_apart,
    written_together,
)

PAIR = "id INT, dep STRING"
HR, HARD, NONE = (1, "hr"), (2, "hardware"), (None, "hr")
THREE = "(1, 'hr'), (2, 'hardware'), (null, 'hr')"


def delete(method: str, *changes: tuple[str, list[tuple[object, ...]]], **more: object) -> None:
    values = str(more.pop("values", THREE))
    columns = str(more.pop("columns", PAIR))
    steps(f"TestDelete.{method}", columns, values, *changes, **more)  # type: ignore[arg-type]


delete("testDeleteWithAlias", ("DELETE FROM $o AS t WHERE t.id IS NULL", [HR, HARD]))
delete(
    "testDeleteWithFalseCondition", ("DELETE FROM $o WHERE id = 1 AND id > 20", [HR, HARD, NONE])
)
delete(
    "testDeleteWithFoldableConditions",
    ("DELETE FROM $o WHERE false", [HR, HARD, NONE]),
    ("DELETE FROM $o WHERE 50 <> 50", [HR, HARD, NONE]),
    ("DELETE FROM $o WHERE 1 > null", [HR, HARD, NONE]),
    ("DELETE FROM $o WHERE 21 = 21", []),
    partitioned="dep",
)
delete(
    "testDeleteWithInAndNotInConditions",
    ("DELETE FROM $o WHERE id IN (1, null)", [HARD, NONE]),
    ("DELETE FROM $o WHERE id NOT IN (null, 1)", [HARD, NONE]),
    ("DELETE FROM $o WHERE id NOT IN (1, 10)", [NONE]),
)
IDS = {"deleted_id": [-1, -2, None], "deleted_dep": ["software", "hr"]}
EXISTS = "EXISTS (SELECT 1 FROM deleted_{0} d WHERE t.{0} = d.value{1})"
delete(
    "testDeleteWithInSubquery",
    (
        "DELETE FROM $o WHERE id IN (SELECT * FROM deleted_id) AND dep IN (SELECT * FROM deleted_dep)",
        [HARD, NONE],
    ),
    ("VALUES (1, 'hr'), (-1, 'hr')", [(-1, "hr"), HR, HARD, NONE]),
    (
        "DELETE FROM $o WHERE id IS NULL OR id IN (SELECT value + 2 FROM deleted_id)",
        [(-1, "hr"), HR],
    ),
    ("VALUES (null, 'hr'), (2, 'hr')", [(-1, "hr"), HR, (2, "hr"), NONE]),
    (
        "DELETE FROM $o WHERE id IN (SELECT value + 2 FROM deleted_id) AND dep = 'hr'",
        [(-1, "hr"), HR, NONE],
    ),
    given={"deleted_id": [0, 1, None], "deleted_dep": ["software", "hr"]},
)
delete(
    "testDeleteWithNotInSubquery",
    ("DELETE FROM $o WHERE id NOT IN (SELECT * FROM deleted_id)", [HR, HARD, NONE]),
    (
        "DELETE FROM $o WHERE id NOT IN (SELECT * FROM deleted_id WHERE value IS NOT NULL)",
        [NONE],
    ),
    (f"VALUES {THREE}", [HR, HARD, NONE, NONE]),
    (
        "DELETE FROM $o WHERE id NOT IN (SELECT * FROM deleted_id) OR dep IN ('software', 'hr')",
        [HARD],
    ),
    (
        "DELETE FROM $o t WHERE id NOT IN (SELECT * FROM deleted_id WHERE value IS NOT NULL) AND "
        + EXISTS.format("dep", ""),
        [HARD],
    ),
    (
        "DELETE FROM $o t WHERE id NOT IN (SELECT * FROM deleted_id WHERE value IS NOT NULL) OR "
        + EXISTS.format("dep", ""),
        [],
    ),
    given=IDS,
)
delete(
    "testDeleteWithExistSubquery",
    (f"DELETE FROM $o t WHERE {EXISTS.format('id', '')}", [HR, HARD, NONE]),
    (f"DELETE FROM $o t WHERE {EXISTS.format('id', ' + 2')}", [HARD, NONE]),
    (f"DELETE FROM $o t WHERE {EXISTS.format('id', '')} OR t.id IS NULL", [HARD]),
    (f"DELETE FROM $o t WHERE {EXISTS.format('id', '')} AND {EXISTS.format('dep', '')}", [HARD]),
    given=IDS,
)
delete(
    "testDeleteWithNotExistsSubquery",
    (
        f"DELETE FROM $o t WHERE NOT {EXISTS.format('id', ' + 2')} AND NOT {EXISTS.format('dep', '')}",
        [HR, NONE],
    ),
    (f"DELETE FROM $o t WHERE NOT {EXISTS.format('id', ' + 2')}", [HR]),
    (f"DELETE FROM $o t WHERE NOT {EXISTS.format('id', ' + 2')} OR t.id = 1", []),
    given=IDS,
)
delete(
    "testDeleteWithScalarSubquery",
    ("DELETE FROM $o t WHERE id <= (SELECT min(value) FROM deleted_id)", [HARD, NONE]),
    given={"deleted_id": [1, 100, None]},
)
NESTED = "id INT, complex STRUCT<c1: INT, c2: STRING>"
TWO_NESTED = "(1, named_struct('c1', 3, 'c2', 'v1')), (2, named_struct('c1', 2, 'c2', 'v2'))"
delete(
    "testDeleteWithConditionOnNestedColumn",
    ("DELETE FROM $o WHERE complex.c1 = id + 2", [(2, (2, "v2"))]),
    ("DELETE FROM $o t WHERE t.complex.c1 = id", []),
    columns=NESTED,
    values=TWO_NESTED,
)
delete(
    "testDeleteWithFilterOnNestedColumn",
    ("DELETE FROM $o WHERE complex.c1 > 3", [(1, (3, "v1")), (2, (2, "v2"))]),
    ("DELETE FROM $o WHERE complex.c1 = 3", [(2, (2, "v2"))]),
    ("DELETE FROM $o t WHERE t.complex.c1 = 2", []),
    columns=NESTED,
    values=TWO_NESTED,
)


@case(
    "TestDelete.testDeleteWithMultiColumnInSubquery",
    each=one_mode("testDeleteWithMultiColumnInSubquery"),
)
def rows_are_named_by_two_columns(p: Place) -> None:
    begin(p, PAIR, THREE)
    p.frame([(None, "hr"), (1, "hr")], PAIR, "gone")
    p.sql("DELETE FROM $o WHERE (id, dep) IN (SELECT id, dep FROM gone)")
    p.rows("SELECT * FROM $o", HARD, NONE)


@case("TestDelete.testDeleteWithVectorizedReads", each=MODES)
@case("TestDelete.deleteSingleRecordProducesDeleteOperation", each=MODES)
@case("TestDelete.testDeleteWithDynamicFileFiltering", each=MODES)
def only_files_with_matching_rows_are_changed(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    p.sql("DELETE FROM $o WHERE id = 2")
    assert len(p.snapshots()) == 3
    told(p, 1, (1, 1), (1, None))
    p.rows("SELECT * FROM $o", (1, "hardware"), (1, "hr"), (3, "hr"))


def spread(p: Place, partitioned: str, mode: str) -> None:
    """Four files of a hundred rows each."""
    begin(p, PAIR, "", partitioned)
    for _ in range(4):
        p.sql("INSERT INTO $t SELECT /*+ COALESCE(1) */ int(id), 'hr' FROM range(100)")
    p.sql(
        "ALTER TABLE $t SET TBLPROPERTIES ('read.split.open-file-cost' '2147483647',"
        f" 'write.delete.distribution-mode' '{mode}', 'write.update.distribution-mode' '{mode}',"
        " 'write.delete.granularity' 'partition')"
    )
    branch(p)


@case("TestDelete.testCoalesceDelete", each=MODES[:1], differs=FILE_BY_FILE)
@case("TestDelete.testCoalesceDelete", each=MODES[1:])
def small_pieces_are_written_together(p: Place) -> None:
    spread(p, "", "range")
    with p.conf(AQE | SMALL_PIECES):
        p.sql("DELETE FROM $o WHERE mod(id, 2) = 0")
    written_together(p)
    p.rows("SELECT count(*) FROM $o", (200,))


@case("TestDelete.testSkewDelete", each=MODES)
def large_pieces_are_written_apart(p: Place) -> None:
    spread(p, "dep", "hash")
    with p.conf(AQE | LARGE_PIECES | {"spark.sql.shuffle.partitions": 2}):
        p.sql("DELETE FROM $o WHERE mod(id, 2) = 0")
    written_apart(p)
    p.rows("SELECT count(*) FROM $o", (200,))


@case("TestDelete.testDeleteWithoutScanningTable", each=MODES)
def whole_partitions_are_deleted_by_metadata(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    for path in p.sql("SELECT file_path FROM $o.files" if p.each == MODES[0] else "SELECT 1"):
        assert path
    p.sql("DELETE FROM $o WHERE dep = 'hr'")
    summary = head(p)["summary"]
    assert (summary["operation"], summary["deleted-data-files"]) == ("delete", "1")
    p.rows("SELECT * FROM $o", (1, "hardware"), (2, "hardware"))


@case(
    "TestDelete.testDeleteFileThenMetadataDelete", each=one_mode("testDeleteFileThenMetadataDelete")
)
def a_file_goes_when_no_row_of_it_is_left(p: Place) -> None:
    begin(p, PAIR)
    p.sql("INSERT INTO TABLE $t VALUES (1, 'hr'), (2, 'hardware'), (null, 'hr')")
    branch(p)
    p.sql("DELETE FROM $o AS t WHERE t.id IS NULL", "DELETE FROM $o AS t WHERE t.id = 1")
    p.rows("SELECT * FROM $o", HARD)


@case("TestDelete.testDeleteWithPartitionedTable", each=one_mode("testDeleteWithPartitionedTable"))
def a_partition_goes_with_its_files(p: Place) -> None:
    begin(p, PAIR, "", "dep")
    put(p, "(1, 'hr'), (3, 'hr')")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    p.sql("DELETE FROM $t WHERE id = 1")
    p.rows("SELECT * FROM $t", HARD, (3, "hr"))
    p.rows("SELECT count(*) FROM $t.partitions", (2,))
    p.sql("DELETE FROM $t WHERE dep = 'hr'")
    p.rows("SELECT * FROM $t", HARD)
    p.rows("SELECT count(*) FROM $t.partitions", (1,))


@case(
    "TestDelete.testDeleteFromEmptyTable",
    each=one_mode("testDeleteFromEmptyTable"),
    differs=NOTHING,
)
def nothing_is_deleted_from_an_empty_table(p: Place) -> None:
    begin(p, PAIR)
    p.sql("DELETE FROM $t WHERE id IN (1)", "DELETE FROM $t WHERE dep = 'hr'")
    assert len(p.snapshots()) == 2
    p.rows("SELECT * FROM $t")


@case(
    "TestDelete.testDeleteFromNonExistingCustomBranch",
    each=one_mode("testDeleteFromNonExistingCustomBranch"),
)
def a_branch_to_delete_from_must_exist(p: Place) -> None:
    begin(p, PAIR)
    p.fails("DELETE FROM $t.branch_test WHERE id IN (1)", "test")


@case("TestDelete.testExplain", each=one_mode("testExplain"))
def explained_deletes_change_nothing(p: Place) -> None:
    begin(p, PAIR, THREE)
    p.sql("EXPLAIN DELETE FROM $o WHERE id <=> 1", "EXPLAIN DELETE FROM $o WHERE true")
    assert len(p.snapshots()) == 1
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


@case("TestDelete.testDeleteNonExistingRecords", each=MODES, differs=NOTHING)
def deletes_of_no_rows_are_commits_without_changes(p: Place) -> None:
    begin(p, PAIR, THREE, "dep")
    p.sql("DELETE FROM $o AS t WHERE t.id > 10")
    assert len(p.snapshots()) == 2
    assert head(p)["summary"]["operation"] == "delete"
    told(p, 0, (None, None), (None, None))
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


@case("TestDelete.testDeleteWithoutCondition", each=one_mode("testDeleteWithoutCondition"))
def all_files_are_deleted(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')", "dep")
    put(p, "(2, 'hardware')")
    put(p, "(null, 'hr')")
    p.sql("DELETE FROM $o")
    assert len(p.snapshots()) == 4
    summary = head(p)["summary"]
    assert (summary["operation"], summary["deleted-data-files"]) == ("delete", "3")
    assert summary["changed-partition-count"] == "2"
    p.rows("SELECT * FROM $o")


@case(
    "TestDelete.testDeleteUsingMetadataWithComplexCondition",
    each=one_mode("testDeleteUsingMetadataWithComplexCondition"),
)
def conditions_on_partitions_delete_files(p: Place) -> None:
    begin(p, PAIR, "(1, 'dep1')", "dep")
    put(p, "(2, 'dep2')")
    put(p, "(null, 'dep3')")
    p.sql("DELETE FROM $o WHERE dep > 'dep2' OR dep = CAST(4 AS STRING) OR dep = 'dep2'")
    summary = head(p)["summary"]
    assert (summary["operation"], summary["deleted-data-files"]) == ("delete", "2")
    p.rows("SELECT * FROM $o", (1, "dep1"))


@case(
    "TestDelete.testDeleteWithArbitraryPartitionPredicates",
    each=one_mode("testDeleteWithArbitraryPartitionPredicates"),
)
def any_condition_on_partitions_deletes(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')", "dep")
    put(p, "(2, 'hardware')")
    put(p, "(null, 'hr')")
    p.sql("DELETE FROM $o WHERE id = 10 OR dep LIKE '%ware'")
    assert head(p)["summary"]["operation"] == "delete"
    assert head(p)["summary"]["changed-partition-count"] == "1"
    p.rows("SELECT * FROM $o", HR, NONE)


@case(
    "TestDelete.testDeleteWithNonDeterministicCondition",
    each=one_mode("testDeleteWithNonDeterministicCondition"),
)
def conditions_are_deterministic(p: Place) -> None:
    begin(p, PAIR, THREE, "dep")
    p.fails("DELETE FROM $o WHERE id = 1 AND rand() > 0.5", "deterministic")


@case("TestDelete.testDeleteWithNullConditions", each=one_mode("testDeleteWithNullConditions"))
def null_is_equal_to_nothing_but_by_the_safe_operator(p: Place) -> None:
    begin(p, PAIR, f"(0, null), {THREE}", "dep")
    rows = [(0, None), HR, HARD, NONE]
    for condition in ("dep = null", "dep = 'software'"):
        p.sql(f"DELETE FROM $o WHERE {condition}")
        p.rows("SELECT * FROM $o", *rows)
    p.sql("DELETE FROM $o WHERE dep <=> NULL")
    p.rows("SELECT * FROM $o", *rows[1:])
    summary = head(p)["summary"]
    assert (summary["operation"], summary["deleted-data-files"]) == ("delete", "1")


@case(
    "TestDelete.testDeleteWithMultipleRowGroupsParquet",
    each=one_mode("testDeleteWithMultipleRowGroupsParquet"),
)
def a_row_of_one_of_many_row_groups_is_deleted(p: Place) -> None:
    in_many_row_groups(p)
    p.sql("DELETE FROM $o WHERE id IN (200, 201)")
    p.rows("SELECT count(*) FROM $o", (199,))


@case("TestDelete.testDeleteOnNonIcebergTableNotSupported")
def parquet_tables_have_no_delete(p: Place) -> None:
    p.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.$db")
    p.sql("CREATE TABLE spark_catalog.$db.p (c1 INT, c2 INT) USING parquet")
    p.fails("DELETE FROM spark_catalog.$db.p WHERE c1 = -100", "does not support DELETE")


@case(
    "TestDelete.testDeleteThatRequiresGroupingBeforeWrite",
    each=one_mode("testDeleteThatRequiresGroupingBeforeWrite"),
)
def one_task_deletes_from_several_partitions(p: Place) -> None:
    begin(p, PAIR, "(0, 'hr'), (1, 'hr'), (2, 'hr')", "dep")
    for dep in ("ops", "hr", "ops"):
        put(p, f"(0, '{dep}'), (1, '{dep}'), (2, '{dep}')")
    views(p, deleted_id=[1, 100])
    with p.conf({"spark.sql.shuffle.partitions": 1}):
        p.sql("DELETE FROM $o t WHERE id IN (SELECT * FROM deleted_id)")
    p.rows("SELECT count(*) FROM $o", (8,))


isolated("TestDelete.testDelete", "delete", "DELETE FROM $o WHERE id IN (SELECT * FROM slow)")


@case("TestDelete.testDeleteRefreshesRelationCache", each=MODES)
def cached_views_follow_deletes(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT * FROM $o WHERE id = 1")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp", (1, "hardware"), (1, "hr"))
    p.sql("DELETE FROM $o WHERE id = 1")
    told(p, 2, (2, 2), (2, None))
    p.rows("SELECT * FROM $o", HARD, (3, "hr"))
    p.rows("SELECT * FROM tmp")
    p.sql("UNCACHE TABLE tmp")


@case("TestDelete.testDeleteWithMultipleSpecs", each=MODES)
def files_of_all_specs_are_changed(p: Place) -> None:
    begin(p, "id INT, dep STRING, category STRING", "(1, 'hr', 'c1')")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD dep")
    put(p, "(2, 'hr', 'c1'), (3, 'hr', 'c1')")
    p.sql("ALTER TABLE $t ADD PARTITION FIELD category")
    put(p, "(5, 'hr', 'c1')")
    p.sql("ALTER TABLE $t DROP PARTITION FIELD category")
    put(p, "(7, 'hr', 'c1')")
    p.sql("DELETE FROM $o WHERE id IN (1, 3, 5, 7)")
    assert len(p.snapshots()) == 5
    if p.each == "copy-on-write":
        told(p, 3, (4, 1), (4, None))
    p.rows("SELECT * FROM $o", (2, "hr", "c1"))


# Write, audit, publish
# --------------------------------------------------------------------------------------------------------------------------------------

WAP = {"spark.wap.branch": "wap"}
AUDITED = "ALTER TABLE $t SET TBLPROPERTIES ('write.wap.enabled' = 'true')"


def counts(p: Place, table: int, audited: int, main: int) -> None:
    p.rows("SELECT count(*) FROM $t", (table,))
    p.rows("SELECT count(*) FROM $t.branch_wap", (audited,))
    p.rows("SELECT count(*) FROM $t.branch_main", (main,))


@case("TestDelete.testDeleteToWapBranch", each=one_mode("testDeleteToWapBranch"))
@case(
    "TestDelete.testDeleteToCustomWapBranchWithoutWhereClause",
    each=one_mode("testDeleteToCustomWapBranchWithoutWhereClause"),
)
def deletes_go_to_the_branch_that_is_audited(p: Place) -> None:
    begin(p, PAIR, "", "dep")
    p.sql(AUDITED)
    put(p, "(0, 'hr'), (1, 'hr'), (2, 'hr')", "$t")
    with p.conf(WAP):
        p.sql("DELETE FROM $t t WHERE id = 0")
        counts(p, 2, 2, 3)
        p.sql("DELETE FROM $t t WHERE id = 1")
        counts(p, 1, 1, 3)
        p.sql("DELETE FROM $t t")
        counts(p, 0, 0, 3)


@case(
    "TestDelete.testDeleteToWapBranchWithTableBranchIdentifier",
    each=one_mode("testDeleteToWapBranchWithTableBranchIdentifier"),
)
def a_branch_that_is_named_is_deleted_from(p: Place) -> None:
    begin(p, PAIR, "(0, 'hr'), (1, 'hr'), (2, 'hr')", "dep")
    p.sql(AUDITED, "ALTER TABLE $t CREATE BRANCH named")
    with p.conf(WAP):
        p.sql("DELETE FROM $t.branch_named t WHERE id = 0")
        p.rows("SELECT * FROM $t.branch_named", HR, (2, "hr"))


@case(
    "TestDelete.testDeleteToWapBranchCanDeleteWhereScansWapBranch",
    each=one_mode("testDeleteToWapBranchCanDeleteWhereScansWapBranch"),
)
def deletes_read_the_branch_that_is_audited(p: Place) -> None:
    begin(p, PAIR, "", "dep")
    p.sql(AUDITED)
    put(p, "(1, 'hr')", "$t")
    with p.conf(WAP):
        put(p, "(0, 'hr'), (1, 'hr'), (2, 'hr')", "$t")
        p.sql("DELETE FROM $t WHERE id = 1")
        p.rows("SELECT * FROM $t.branch_wap", (0, "hr"), (2, "hr"))
        p.rows("SELECT * FROM $t.branch_main", HR)


@case(
    "TestDelete.testMetadataDeleteToWapBranchCommitsToWapBranch",
    each=one_mode("testMetadataDeleteToWapBranchCommitsToWapBranch"),
)
def deletes_by_metadata_go_to_the_branch_that_is_audited(p: Place) -> None:
    begin(p, PAIR, "", "dep")
    p.sql(AUDITED)
    put(p, "(1, 'hr'), (5, 'eng')", "$t")
    with p.conf(WAP):
        put(p, "(0, 'hr'), (2, 'eng')", "$t")
        p.sql("DELETE FROM $t WHERE dep = 'hr'")
        p.rows("SELECT * FROM $t.branch_wap", (2, "eng"), (5, "eng"))
        p.rows("SELECT * FROM $t.branch_main", HR, (5, "eng"))
