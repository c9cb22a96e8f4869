"""What copy-on-write and merge-on-read leave behind; counts of merges; ids of rows; columns that
come with a merge; branches that are audited; conflicts of overwrites.
"""

from typing import Any

from tests.sql.java_topics.harness import Place, case, not_sql
from tests.sql.java_topics.rows_changed import (
    FILE_BY_FILE,
    MODES,
    Rows,
    begin,
    branch,
    head,
    put,
    told,
    views,
)
from tests.sql.java_topics.topics_delete import HARD, HR, PAIR

COW, MOR = (MODES[0],), (MODES[1],)
GROUPED = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}


def ordered(method: str, mode: str, statement: str) -> None:
    @case(method, each=(mode,))
    def new_files_carry_the_id_of_the_order(p: Place) -> None:
        begin(p, PAIR, "(1, 'hr'), (2, 'hr')", "dep")
        p.sql("ALTER TABLE $t WRITE ORDERED BY id")
        views(p, source=[1, 3])
        before = {r[0] for r in p.sql("SELECT file_path FROM $t.all_data_files")}
        p.sql(statement)
        rows = p.sql("SELECT file_path, sort_order_id FROM $t.all_data_files")
        added = {order for path, order in rows if path not in before}
        assert added == {1}, added


MERGE = "MERGE INTO $o AS t USING source AS s ON t.id == s.value WHEN MATCHED THEN {} WHEN NOT MATCHED THEN INSERT (id, dep) VALUES (s.value, 'new')"
ordered(
    "TestCopyOnWriteMerge.testCopyOnWriteMergeSetsSortOrderIdOnRewrittenDataFiles",
    MODES[0],
    MERGE.format("UPDATE SET dep = 'changed'"),
)
ordered(
    "TestCopyOnWriteUpdate.testCopyOnWriteUpdateSetsSortOrderIdOnRewrittenDataFiles",
    MODES[0],
    "UPDATE $o SET dep = 'changed' WHERE id = 1",
)
ordered(
    "TestCopyOnWriteDelete.testCopyOnWriteDeleteSetsSortOrderIdOnRewrittenDataFiles",
    MODES[0],
    "DELETE FROM $o WHERE id = 1",
)
ordered(
    "TestMergeOnReadMerge.testMergeOnReadMergeSetsSortOrderIdOnNewDataFiles",
    MODES[1],
    MERGE.format("UPDATE SET id = id + 10"),
)
ordered(
    "TestMergeOnReadUpdate.testMergeOnReadUpdateSetsSortOrderIdOnNewDataFiles",
    MODES[1],
    "UPDATE $o SET id = id + 10 WHERE id = 1",
)


def grouped(method: str, statement: str, *expected: tuple[int, str]) -> None:
    @case(method, each=COW)
    def only_files_that_match_are_rewritten(p: Place) -> None:
        begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
        put(p, "(1, 'hardware'), (2, 'hardware')")
        views(p, source=[2])
        with p.conf(GROUPED):
            p.sql(statement)
        assert len(p.snapshots()) == 3
        told(p, 1, (1, 1), (1, 1))
        p.rows("SELECT * FROM $o", *expected, (1, "hardware"), HR, (3, "hr"))


grouped(
    "TestCopyOnWriteMerge.testRuntimeFilteringWithReportedPartitioning",
    "MERGE INTO $o t USING source s ON t.id == s.value WHEN MATCHED THEN UPDATE SET id = -1",
    (-1, "hardware"),
)
grouped(
    "TestCopyOnWriteUpdate.testRuntimeFilteringWithReportedPartitioning",
    "UPDATE $o SET id = -1 WHERE id = 2",
    (-1, "hardware"),
)
grouped(
    "TestCopyOnWriteDelete.testRuntimeFilteringWithPreservedDataGrouping",
    "DELETE FROM $o WHERE id = 2",
)


not_sql(
    "TestCopyOnWriteDelete",
    "a file of equality deletes, which no SQL writes; tests/rows and tests/table change such tables",
    "testEqualityDeletePreservation",
)

# Granularity of delete files
# --------------------------------------------------------------------------------------------------------------------------------------


def granular(p: Place, granularity: str, partitioned: str = "dep") -> None:
    """Four files of two rows each, in format 2."""
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    modes = ", ".join(f"'write.{v}.mode' = 'merge-on-read'" for v in ("delete", "update", "merge"))
    p.sql(
        f"CREATE TABLE $t ({PAIR}) USING iceberg {clause} TBLPROPERTIES ('format-version' = '2',"
        f" {modes}, 'write.delete.granularity' = '{granularity}')"
    )
    for dep in ("hr", "it"):
        put(p, f"(1, '{dep}'), (2, '{dep}')", "$t")
        put(p, f"(3, '{dep}'), (4, '{dep}')", "$t")
    p.each = "merge-on-read"
    branch(p)


KINDS: tuple[tuple[str, str, str, tuple[int, int | None], Rows], ...] = (
    (
        "TestMergeOnReadMerge.testMergeDelete",
        "MERGE INTO $o AS t USING source AS s ON t.id == s.value WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (id, dep) VALUES (-1, 'other')",
        "granularity",
        (3, 1),
        [(-1, "other"), (2, "hr"), (2, "it"), (4, "hr"), (4, "it")],
    ),
    (
        "TestMergeOnReadUpdate.testUpdate",
        "UPDATE $o SET id = id - 1 WHERE id = 1 OR id = 3",
        "granularity",
        (2, 2),
        [(n, dep) for dep in ("hr", "it") for n in (0, 2, 2, 4)],
    ),
    (
        "TestMergeOnReadDelete.testDelete",
        "DELETE FROM $o WHERE id = 1 OR id = 3",
        "granularity",
        (2, None),
        [(2, "hr"), (2, "it"), (4, "hr"), (4, "it")],
    ),
)
for _name, _statement, _, _counts, _rows in KINDS:
    for _kind in ("File", "Partition"):

        @case(f"{_name}{_kind}Granularity", each=((_statement, _kind.lower(), _counts, _rows),))
        def delete_files_are_as_granular_as_the_table_says(p: Place) -> None:
            statement, kind, (partitions, added), rows = p.each
            views(p, source=[1, 3, 5])
            granular(p, kind)
            p.sql(statement)
            assert len(p.snapshots()) == 5
            told(p, partitions, (None, None), (4 if kind == "file" else 2, added))
            p.rows("SELECT * FROM $o", *rows)


def maintained(method: str, partitioned: str) -> None:
    @case(method, differs=FILE_BY_FILE)
    def delete_files_of_a_data_file_are_replaced(p: Place) -> None:
        granular(p, "file", partitioned)
        p.sql("UPDATE $o SET id = id - 1 WHERE id = 1 OR id = 3")
        p.sql("UPDATE $o SET id = id + 1 WHERE id = 4")
        summary = head(p)["summary"]
        assert (summary["added-delete-files"], summary["removed-delete-files"]) == ("2", "2")
        p.rows("SELECT * FROM $o", *((n, dep) for dep in ("hr", "it") for n in (0, 2, 2, 5)))


maintained("TestMergeOnReadUpdate.testPositionDeletesAreMaintainedDuringUpdate", "dep")
maintained("TestMergeOnReadUpdate.testUnpartitionedPositionDeletesAreMaintainedDuringUpdate", "")


@case("TestMergeOnReadDelete.testPositionDeletesAreMaintainedDuringDelete", each=("id",))
@case("TestMergeOnReadDelete.testUnpartitionedPositionDeletesAreMaintainedDuringDelete", each=("",))
def delete_files_are_replaced_by_later_deletes(p: Place) -> None:
    clause = f"PARTITIONED BY ({p.each})" if p.each else ""
    p.sql(
        f"CREATE TABLE $t (id int, data string) USING iceberg {clause} TBLPROPERTIES"
        " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',"
        " 'write.delete.granularity' = 'file')"
    )
    put(p, "(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (2, 'e')", "$t")
    for condition in ("id = 1 AND data = 'a'", "id = 2 AND data = 'd'", "id = 1 AND data = 'c'"):
        p.sql(f"DELETE FROM $t WHERE {condition}")
    assert p.snapshot()["summary"]["removed-delete-files"] == "1"
    p.rows("SELECT * FROM $t", (1, "b"), (2, "e"))


def vectors(method: str, *statements: str) -> None:
    @case(method, differs=FILE_BY_FILE)
    def a_deletion_vector_takes_the_older_deletes(p: Place) -> None:
        modes = ", ".join(
            f"'write.{v}.mode' = 'merge-on-read'" for v in ("delete", "update", "merge")
        )
        p.sql(
            f"CREATE TABLE $t ({PAIR}) USING iceberg PARTITIONED BY (dep) TBLPROPERTIES"
            f" ('format-version' = '2', {modes}, 'write.delete.granularity' = 'partition')"
        )
        put(p, "(1, 'hr'), (2, 'hr'), (3, 'hr')", "$t")
        put(p, "(4, 'hr'), (5, 'hr'), (6, 'hr')", "$t")
        views(p, source=list(range(1, 10)))
        first, second, third = statements
        p.sql(first, "ALTER TABLE $t SET TBLPROPERTIES ('write.delete.granularity' = 'file')")
        p.sql(second, "ALTER TABLE $t SET TBLPROPERTIES ('format-version' = '3')", third)
        p.rows(
            "SELECT record_count, file_format FROM $t.delete_files WHERE file_format = 'PUFFIN'",
            (3, "PUFFIN"),
        )


INSERTED = "WHEN NOT MATCHED THEN INSERT (id, dep) VALUES (-1, 'other')"
vectors(
    "TestMergeOnReadMerge.testMergeWithDVAndHistoricalPositionDeletes",
    f"MERGE INTO $t t USING source s ON t.id == s.value AND (id = 1 OR id = 4) WHEN MATCHED THEN DELETE {INSERTED}",
    f"MERGE INTO $t t USING source s ON t.id == s.value AND id = 5 WHEN MATCHED THEN UPDATE SET id = id + 2 {INSERTED}",
    f"MERGE INTO $t t USING source s ON t.id == s.value AND id = 6 WHEN MATCHED THEN UPDATE SET id = id + 1 {INSERTED}",
)
vectors(
    "TestMergeOnReadUpdate.testUpdateWithDVAndHistoricalPositionDeletes",
    "UPDATE $t SET id = id - 1 WHERE id = 1 OR id = 4",
    "UPDATE $t SET id = id + 2 WHERE id = 5",
    "UPDATE $t SET id = id + 1 WHERE id = 6",
)
vectors(
    "TestMergeOnReadDelete.testDeleteWithDVAndHistoricalPositionDeletes",
    "DELETE FROM $t WHERE id = 1 OR id = 4",
    "DELETE FROM $t WHERE id = 5",
    "DELETE FROM $t WHERE id = 6",
)


@case("TestMergeOnReadDelete.testDeleteWithExecutorCacheLocality", each=MOR)
def deletes_are_found_with_a_cache_on_the_executors(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (2, 'hr')", "dep")
    for values in ("(3, 'hr'), (4, 'hr')", "(1, 'hardware'), (2, 'hardware')", "(3, 'hardware')"):
        put(p, values)
    with p.conf({"spark.sql.iceberg.executor-cache.locality.enabled": "true"}):
        p.sql("DELETE FROM $o WHERE id = 1", "DELETE FROM $o WHERE id = 3")
        p.rows("SELECT * FROM $o", HARD, (2, "hr"), (4, "hr"))


@case("TestMergeOnReadDelete.testAggregatePushDownInMergeOnReadDelete", each=MOR)
def aggregates_see_deletes(p: Place) -> None:
    begin(
        p, "id LONG, data INT", "(1, 1111), (1, 2222), (2, 3333), (2, 4444), (3, 5555), (3, 6666)"
    )
    p.sql("DELETE FROM $o WHERE data = 1111")
    p.rows("SELECT max(data), min(data), count(data) FROM $o", (6666, 2222, 5))


not_sql(
    "TestMergeOnReadDelete",
    "a Java table whose commit raises; lost answers are tried in tests/commit and tests/catalog",
    "testCommitUnknownException",
)

# Counts of merges
# --------------------------------------------------------------------------------------------------------------------------------------

METRICS = (
    "copied", "updated", "deleted", "inserted", "matched-updated", "matched-deleted",
    "not-matched-by-source-updated", "not-matched-by-source-deleted",
)  # fmt: skip


def counted(
    method: str, columns: str, values: str, source: tuple[str, Rows], text: str, *counts: int
) -> None:
    @case(f"TestMergeMetrics.{method}", each=MODES)
    def merges_are_counted(p: Place) -> None:
        begin(p, columns, values)
        p.frame(source[1], source[0])
        p.sql(f"MERGE INTO $o AS t USING source AS s {text}")
        summary = head(p)["summary"]
        actual = {m: summary.get(f"spark.merge-into.num-target-rows-{m}") for m in METRICS}
        copied = counts[0] if p.each == "copy-on-write" else 0
        expected = dict(zip(METRICS, map(str, (copied, *counts[1:])), strict=True))
        assert actual == expected, actual


TWO = "(1, 'hr'), (2, 'software')"
THREE = f"{TWO}, (3, 'finance')"
ON = "ON t.id == s.id WHEN MATCHED THEN UPDATE SET dep = s.dep WHEN NOT MATCHED BY SOURCE THEN"
ONE: tuple[str, Rows] = (PAIR, [(1, "hr-updated")])
counted(
    "testMergeMetricsWithMatchedUpdate",
    PAIR,
    TWO,
    ("value int", [(1,), (3,)]),
    "ON t.id == s.value WHEN MATCHED THEN UPDATE SET dep = 'updated'",
    *(1, 1, 0, 0, 1, 0, 0, 0),
)
counted(
    "testMergeMetricsWithMatchedDelete",
    PAIR,
    THREE,
    ("value int", [(1,), (2,)]),
    "ON t.id == s.value WHEN MATCHED THEN DELETE",
    *(1, 0, 2, 0, 0, 2, 0, 0),
)
counted(
    "testMergeMetricsWithAllClauses",
    PAIR,
    THREE,
    (PAIR, [(1, "hr-updated"), (2, "software-delete"), (4, "new-dept")]),
    "ON t.id == s.id WHEN MATCHED AND s.dep LIKE '%delete%' THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET dep = s.dep WHEN NOT MATCHED THEN INSERT *",
    *(1, 1, 1, 1, 1, 1, 0, 0),
)
counted(
    "testMergeMetricsWithNotMatchedBySourceUpdate",
    PAIR,
    THREE,
    ONE,
    f"{ON} UPDATE SET dep = 'orphaned'",
    *(0, 3, 0, 0, 1, 0, 2, 0),
)
counted(
    "testMergeMetricsWithNotMatchedBySourceDelete",
    PAIR,
    THREE,
    ONE,
    f"{ON} DELETE",
    *(0, 1, 2, 0, 1, 0, 0, 2),
)
PAID = "id INT, dep STRING, salary INT"
counted(
    "testMergeMetricsWithMultipleUpdatesAndDeletes",
    PAID,
    "(1, 'hr', 100), (2, 'software', 200), (3, 'finance', 300), (4, 'marketing', 400), (5, 'sales', 500)",
    (
        PAID,
        [
            (1, "hr", 150),
            (2, "software", 250),
            (3, "finance", 350),
            (6, "new", 600),
            (7, "newer", 700),
        ],
    ),
    "ON t.id == s.id WHEN MATCHED AND t.salary < 200 THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET salary = s.salary WHEN NOT MATCHED THEN INSERT *"
    " WHEN NOT MATCHED BY SOURCE AND t.salary > 400 THEN DELETE"
    " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET dep = 'orphaned'",
    *(0, 3, 2, 2, 2, 1, 1, 1),
)

# Columns that come with a merge
# --------------------------------------------------------------------------------------------------------------------------------------

EVOLVE = (
    "MERGE WITH SCHEMA EVOLUTION INTO $t AS t USING source AS s ON t.id == s.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def evolves(
    method: str,
    columns: str,
    values: str,
    source: tuple[str, Rows],
    *expected: tuple[Any, ...],
    conf: dict[str, str] | None = None,
    differs: Any = "",
) -> None:
    @case(f"TestMergeSchemaEvolution.testMergeWithSchemaEvolution{method}", differs=differs)
    def columns_come_with_a_merge(p: Place) -> None:
        p.sql(f"CREATE TABLE $t ({columns}) USING iceberg")
        put(p, values, "$t")
        if method == "DisabledByTableProperty":
            off = "'write.spark.auto-schema-evolution.enabled' = 'false'"
            p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ({off})")
        p.frame(source[1], source[0])
        with p.conf(conf or {}):
            p.sql(EVOLVE)
        p.rows("SELECT * FROM $t", *expected)


SALARIES: tuple[str, Rows] = (PAID, [(1, "hr", 100), (3, "finance", 300)])
evolves("SourceHasMoreColumns", PAIR, TWO, SALARIES, *SALARIES[1], (2, "software", None))
evolves("DisabledByTableProperty", PAIR, TWO, SALARIES, HR, (2, "software"), (3, "finance"))
evolves(
    "SourceHasFewerColumns",
    PAID,
    "(1, 'hr', 100), (2, 'software', 200)",
    (PAIR, [(1, "hr-updated"), (3, "finance")]),
    (1, "hr-updated", 100),
    (2, "software", 200),
    (3, "finance", None),
)
SMALL, LARGE = (
    "id INT, s STRUCT<c1: INT, c2: STRING>",
    "id INT, s STRUCT<c1: INT, c2: STRING, c3: INT>",
)
evolves(
    "NestedStructSourceHasMoreFields",
    SMALL,
    "(1, named_struct('c1', 10, 'c2', 'a')), (2, named_struct('c1', 20, 'c2', 'b'))",
    (LARGE, [(1, (100, "aa", 1000)), (3, (300, "cc", 3000))]),
    (1, (100, "aa", 1000)),
    (2, (20, "b", None)),
    (3, (300, "cc", 3000)),
)
evolves(
    "NestedStructSourceHasFewerFields",
    LARGE,
    "(1, named_struct('c1', 100, 'c2', 'aa', 'c3', 1000)), (2, named_struct('c1', 200, 'c2', 'bb', 'c3', 2000))",
    (SMALL, [(1, (10, "a")), (3, (30, "c"))]),
    (1, (10, "a", 1000)),
    (2, (200, "bb", 2000)),
    (3, (30, "c", None)),
    conf={"spark.sql.mergeNestedTypeCoercion.enabled": "true"},
)
evolves(
    "TypeWidening",
    "id INT, value INT",
    "(1, 100), (2, 200)",
    ("id INT, value LONG", [(1, 10**12), (3, 3 * 10**12)]),
    (1, 10**12),
    (2, 200),
    (3, 3 * 10**12),
)


@case("TestMergeSchemaEvolution.testMergeWithSchemaEvolutionUsingDataFrameApi")
def columns_come_with_a_frame(p: Place) -> None:
    from pyspark.sql.functions import col

    p.sql(f"CREATE TABLE $t ({PAIR}) USING iceberg")
    put(p, TWO, "$t")
    p.frame([(1, "hr-updated", 100), (3, "finance", 300)], PAID)
    name = p.text("$t")
    merger = p.spark.table("source").mergeInto(name, col(f"{name}.id") == col("source.id"))
    merger = merger.whenMatched().updateAll().whenNotMatched().insertAll()
    merger.withSchemaEvolution().merge()
    p.rows("SELECT * FROM $t", (1, "hr-updated", 100), (2, "software", None), (3, "finance", 300))


# Ids of rows
# --------------------------------------------------------------------------------------------------------------------------------------

FIVE = [(100 + n, letter, n, 1) for n, letter in enumerate("abcde")]
LINEAGE = "SELECT id, data, _row_id, _last_updated_sequence_number FROM $t ORDER BY _row_id"


def traced(
    method: str,
    source: Rows,
    text: str,
    changed: dict[int, str | None],
    new: tuple[int, str] | None = None,
    partitioned: str = "",
) -> None:
    @case(f"TestRowLevelOperationsWithLineage.{method}", each=MODES)
    def rows_keep_their_ids(p: Place) -> None:
        clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        modes = ", ".join(f"'write.{v}.mode' = '{p.each}'" for v in ("delete", "update", "merge"))
        p.sql(
            f"CREATE TABLE $t (id INT, data STRING) USING iceberg {clause}"
            f" TBLPROPERTIES ('format-version' = '3', {modes})"
        )
        put(p, ", ".join(f"({n}, '{s}')" for n, s, _, _ in FIVE), "$t")
        ids = {r[0]: r[2] for r in p.sql(LINEAGE)}
        assert sorted(ids.values()) == [0, 1, 2, 3, 4]
        p.frame(source, "id int, data string")
        p.sql(text)
        latest = p.snapshot()["sequence-number"]
        rows = [
            (n, changed.get(n, s), ids[n], latest if n in changed else 1)
            for n, s, _, _ in FIVE
            if changed.get(n, s) is not None
        ]
        actual = p.sql(LINEAGE)
        if new:
            added = [r for r in actual if r[0] == new[0]]
            assert [(r[0], r[1], r[3]) for r in added] == [(*new, latest)]
            assert added[0][2] >= 5
            actual = [r for r in actual if r[0] != new[0]]
        assert sorted(actual) == rows, actual


USING = "MERGE INTO $t AS t USING source AS s ON t.id == s.id"
UPDATED, FRESH = [(101, "updated_b"), (200, "f")], (200, "f")
traced(
    "testMergeIntoWithBothMatchedAndNonMatched",
    UPDATED,
    f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data WHEN NOT MATCHED THEN INSERT *",
    {101: "updated_b"},
    FRESH,
)
traced(
    "testMergeIntoWithBothMatchedAndNonMatchedPartitioned",
    UPDATED,
    f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data WHEN NOT MATCHED THEN INSERT *",
    {101: "updated_b"},
    FRESH,
    "bucket(2, id)",
)
traced(
    "testMergeIntoWithOnlyNonMatched",
    UPDATED,
    f"{USING} WHEN NOT MATCHED THEN INSERT *",
    {},
    FRESH,
)
traced(
    "testMergeIntoWithOnlyMatched",
    [(101, "updated_b"), (102, "updated_c")],
    f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data",
    {101: "updated_b", 102: "updated_c"},
)
traced(
    "testMergeMatchedDelete",
    [(101, "x"), (102, "x")],
    f"{USING} WHEN MATCHED THEN DELETE",
    {101: None, 102: None},
)
traced(
    "testMergeWhenNotMatchedBySource",
    UPDATED,
    f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data WHEN NOT MATCHED BY SOURCE THEN UPDATE SET data = 'none'",
    {100: "none", 101: "updated_b", 102: "none", 103: "none", 104: "none"},
)
traced(
    "testMergeWhenNotMatchedBySourceDelete",
    [(101, "updated_b"), (102, "updated_c")],
    f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data WHEN NOT MATCHED BY SOURCE THEN DELETE",
    {100: None, 101: "updated_b", 102: "updated_c", 103: None, 104: None},
)
traced("testUpdate", [], "UPDATE $t AS t SET data = 'b2' WHERE id = 101", {101: "b2"})
traced("testDelete", [], "DELETE FROM $t WHERE id = 101", {101: None})


@case(
    "TestRowLevelOperationsWithLineage.testMergeWithManyRecords",
    each=MODES,
)
def many_rows_keep_their_ids(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id INT, data STRING) USING iceberg"
        f" TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = '{p.each}')"
    )
    p.sql("INSERT INTO $t SELECT int(id), concat('data_', id) FROM range(100, 25100, 1, 1)")
    p.frame([(101, "updated"), (26000, "new")], "id int, data string")
    p.sql(f"{USING} WHEN MATCHED THEN UPDATE SET t.data = s.data WHEN NOT MATCHED THEN INSERT *")
    p.rows(
        "SELECT count(*), count_if(_row_id = id - 100), count_if(_last_updated_sequence_number = 2) FROM $t",
        (25001, 25000, 2),
    )
    p.rows("SELECT id, data FROM $t WHERE _row_id = 1", (101, "updated"))


# Branches that are audited
# --------------------------------------------------------------------------------------------------------------------------------------


def audited(p: Place) -> None:
    p.sql(
        "CREATE TABLE $t (id bigint, data string) USING iceberg PARTITIONED BY (truncate(id, 3))"
        " OPTIONS (write.wap.enabled = 'true')"
    )
    p.sql("INSERT INTO $t VALUES (1, 'a'), (2, 'b'), (3, 'c')")


@case("TestPartitionedWritesToWapBranch.testWriteToBranchWithWapBranchSet")
def a_branch_that_is_named_is_written_to(p: Place) -> None:
    three = [(1, "a"), (2, "b"), (3, "c")]
    with p.conf({"spark.wap.branch": "test"}):
        audited(p)
        version = p.refs()["test"]["snapshot-id"]
        p.sql(f"ALTER TABLE $t CREATE BRANCH test2 AS OF VERSION {version}", "REFRESH TABLE $t")
        p.sql("INSERT INTO TABLE $t.branch_test2 VALUES (4, 'd')")
        p.rows("SELECT * FROM $t VERSION AS OF 'test2'", *three, (4, "d"))
        p.rows("SELECT * FROM $t", *three)


@case("TestPartitionedWritesToWapBranch.testWapIdAndWapBranchCannotBothBeSetForWrite")
def a_write_is_audited_by_an_id_or_on_a_branch(p: Place) -> None:
    with p.conf({"spark.wap.branch": "test"}):
        audited(p)
        with p.conf({"spark.wap.id": "an-id"}):
            p.fails("INSERT INTO $t VALUES (4, 'd')", "wap", "an-id|wap.id")


# Conflicts of overwrites
# --------------------------------------------------------------------------------------------------------------------------------------

BESIDE = "INSERT INTO $t VALUES (1, 'a')"
MARKED = (
    "INSERT INTO $t SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (1, 'b')",
    "DELETE FROM $t WHERE id = '1' AND data = 'b'",
)


def overwrites(
    method: str,
    level: str,
    changes: tuple[str, ...],
    conflict: bool,
    before: bool = True,
    differs: str = "",
) -> None:
    """Overwrite rows of which others wrote some since a snapshot: the one before their last
    statement, or none.
    """

    @case(f"TestConflictValidation.testOverwrite{method}", differs=differs)
    def overwrites_are_validated(p: Place) -> None:
        p.sql(
            "CREATE TABLE $t (id int, data string) USING iceberg PARTITIONED BY (id)"
            " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
        )
        p.sql("INSERT INTO $t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        p.sql(*changes[:-1])
        snapshot = p.snapshots()[-1]
        p.sql(changes[-1])

        def overwrite(start: int | None) -> None:
            from pyspark.sql.functions import col

            frame = p.frame([(1, "a")], "id int, data string")
            writer = frame.writeTo(p.text("$t")).option("isolation-level", level)
            if start:
                writer = writer.option("validate-from-snapshot-id", str(start))
            if "Filter" in method:
                writer.overwrite(col("id") == 1)
            else:
                writer.overwritePartitions()

        try:
            overwrite(snapshot if before else None)
        except Exception as error:
            assert conflict and "onflict" in str(error), str(error)[:500]
        else:
            assert not conflict, "no conflict was found"
        overwrite(p.snapshots()[-1])
        p.rows("SELECT * FROM $t", (1, "a"), (2, "b"), (3, "c"))


GONE = ("DELETE FROM $t WHERE id = '1'",)
BEGUN = "a decision: where no snapshot is told, a write is validated from the one at which it began"
overwrites("FilterSerializableIsolation", "serializable", (BESIDE,), True)
overwrites("FilterSerializableIsolation2", "snapshot", MARKED, True)
overwrites("FilterSerializableIsolation3", "serializable", GONE, True)
overwrites(
    "FilterNoSnapshotIdValidation", "serializable", (BESIDE,), True, before=False, differs=BEGUN
)
overwrites("FilterSnapshotIsolation", "snapshot", MARKED, True)
overwrites("FilterSnapshotIsolation2", "snapshot", (BESIDE,), False)
overwrites("PartitionSerializableIsolation", "serializable", (BESIDE,), True)
overwrites("PartitionSnapshotIsolation", "snapshot", MARKED, True)
overwrites("PartitionSnapshotIsolation2", "snapshot", GONE, True)
overwrites("PartitionSnapshotIsolation3", "snapshot", (BESIDE,), False)
overwrites(
    "PartitionNoSnapshotIdValidation", "serializable", (BESIDE,), True, before=False, differs=BEGUN
)
