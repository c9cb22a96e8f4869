"""What copy-on-write and merge-on-read leave behind; counts of merges; ids of rows; columns that
come with a merge; branches that are audited; conflicts of overwrites.
"""

from tests.sql.java_topics.harness import Place, case, not_sql
from tests.sql.java_topics.rows_changed import (
    FILE_BY_FILE,
    MODES,
    Rows,
    begin,
    branch,
    head,
    put,
    views,
)
from tests.sql.java_topics.topics_delete import PAIR


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


not_sql(
    "TestMergeOnReadDelete",
    "a Java table whose commit raises; lost answers are tried in tests/commit and tests/catalog",
    "testCommitUnknownException",
)

# Counts of merges
# --------------------------------------------------------------------------------------------------------------------------------------

TWO = "(1, 'hr'), (2, 'software')"


PAID = "id INT, dep STRING, salary INT"

# Columns that come with a merge
# --------------------------------------------------------------------------------------------------------------------------------------


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
