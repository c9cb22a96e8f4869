"""MERGE INTO."""

from typing import Any

from tests.sql.java_topics.harness import Place, case
from tests.sql.java_topics.rows_changed import (
    AQE,
    FILE_BY_FILE,
    LARGE_PIECES,
    MODES,
    SMALL_PIECES,
    Rows,
    begin,
    branch,
    isolated,
    one_mode,
    put,
    written_apart,
    written_together,
)
from tests.sql.java_topics.topics_delete import (
    PAIR,
)

Source = tuple[str, Rows]
INTO = "MERGE INTO $o AS t USING source AS s ON "


def refused(
    method: str,
    columns: str,
    values: str,
    source: Source,
    *changes: tuple[str, str],
    conf: dict[str, Any] | None = None,
    differs: str = "",
) -> None:
    """Register a case of merges that fail, each with what its error says; the table stays."""

    @case(f"TestMerge.{method}", each=one_mode(method), differs=differs)
    def wrong_merges_fail(p: Place) -> None:
        begin(p, columns, values)
        p.frame(source[1], source[0])
        before = p.sql("SELECT * FROM $o")
        with p.conf(conf or {}):
            for text, pattern in changes:
                p.fails(text, pattern)
        p.rows("SELECT * FROM $o", *before)


ALL_CLAUSES = (
    "(1, 'emp-id-one'), (2, 'emp-id-two'), (3, 'emp-id-3'), (4, 'emp-id-4')",
    (PAIR, [(1, "emp-id-1"), (2, "emp-id-2"), (5, "emp-id-5")]),
)
AFTER_ALL: Rows = [(1, "emp-id-1"), (3, "invalid"), (5, "emp-id-5")]


@case(
    "TestMerge.testMergeWithAllClausesUsingDataFrameAPI",
    each=one_mode("testMergeWithAllClausesUsingDataFrameAPI"),
)
def a_frame_is_merged_into_a_table(p: Place) -> None:
    from pyspark.sql.functions import col, lit

    begin(p, PAIR, ALL_CLAUSES[0])
    frame = p.frame(ALL_CLAUSES[1][1], PAIR)
    name = p.text("$o")
    target = col(f"{name}.id")
    (
        p.spark.table("source")
        .mergeInto(name, target == col("source.id"))
        .whenMatched(target == lit(1))
        .updateAll()
        .whenMatched(target == lit(2))
        .delete()
        .whenNotMatched()
        .insertAll()
        .whenNotMatchedBySource(target == lit(3))
        .update({"dep": lit("invalid")})
        .whenNotMatchedBySource(target == lit(4))
        .delete()
        .merge()
    )
    assert frame.count() == 3
    p.rows("SELECT * FROM $o", *AFTER_ALL)


def spread(p: Place, partitioned: str, mode: str) -> None:
    begin(p, "id INT, salary INT, dep STRING", "", partitioned)
    for _ in range(4):
        p.sql("INSERT INTO $t SELECT /*+ COALESCE(1) */ int(id), 100, 'hr' FROM range(100)")
    p.sql(
        "ALTER TABLE $t SET TBLPROPERTIES ('read.split.open-file-cost' '2147483647',"
        f" 'write.merge.distribution-mode' '{mode}', 'write.delete.granularity' 'partition')"
    )
    branch(p)
    p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(0, 100)")


RAISE = f"{INTO} t.id = s.id WHEN MATCHED THEN UPDATE SET salary = -1"


@case("TestMerge.testCoalesceMerge", each=MODES, differs=FILE_BY_FILE)
def small_pieces_are_written_together(p: Place) -> None:
    spread(p, "", "none")
    with p.conf(AQE | SMALL_PIECES | {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        p.sql(RAISE)
    written_together(p)
    p.rows("SELECT count(*) FROM $o WHERE salary = -1", (400,))


@case("TestMerge.testSkewMerge", each=MODES[1:], differs=FILE_BY_FILE)
def large_pieces_are_written_apart(p: Place) -> None:
    spread(p, "dep", "hash")
    sizes = {
        "spark.sql.shuffle.partitions": 4,
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "100",
    }
    with p.conf(AQE | LARGE_PIECES | sizes):
        p.sql(RAISE)
    written_apart(p)
    p.rows("SELECT count(*) FROM $o WHERE salary = -1", (400,))


@case(
    "TestMerge.testMergeWithStaticPredicatePushDown",
    each=one_mode("testMergeWithStaticPredicatePushDown"),
)
def files_of_other_partitions_are_not_read(p: Place) -> None:
    begin(p, "id BIGINT, dep STRING", "(1, 'software')", "dep")
    put(p, "(1, 'hr')")
    p.frame([(1, "finance"), (2, "hardware")], "id bigint, dep string")
    folder = p.directory.parent.parent
    hidden = list(folder.glob(f"**/{p.namespace}/**/dep=hr/*.parquet"))
    assert hidden
    for path in hidden:
        path.rename(path.with_suffix(".hidden"))
    p.sql(
        "MERGE INTO $o t USING source ON t.id == source.id AND t.dep IN ('software') AND source.id < 10"
        " WHEN MATCHED AND source.id = 1 THEN UPDATE SET dep = source.dep"
        " WHEN NOT MATCHED THEN INSERT (dep, id) VALUES (source.dep, source.id)"
    )
    for path in hidden:
        path.with_suffix(".hidden").rename(path)
    p.rows("SELECT * FROM $o", (1, "finance"), (1, "hr"), (2, "hardware"))


# Sources
# --------------------------------------------------------------------------------------------------------------------------------------


isolated(
    "TestMerge.testMerge",
    "merge",
    "MERGE INTO $o t USING slow s ON t.id == s.value WHEN MATCHED THEN UPDATE SET dep = 'x', id = 7",
)


# What is refused
# --------------------------------------------------------------------------------------------------------------------------------------

BOXED = "id INT, c STRUCT<n1: INT, n2: STRUCT<dn1: INT, dn2: INT>>"
BOX = "(1, named_struct('n1', 2, 'n2', named_struct('dn1', 3, 'dn2', 4)))"
C1_C2: Source = ("c1 int, c2 int", [(-100, -200)])


def conditions(method: str, pattern: str, *parts: str, differs: str = "") -> None:
    on, update, delete, insert = parts
    refused(
        method,
        BOXED,
        BOX,
        C1_C2,
        (f"{INTO} t.id == s.c1 AND {on} WHEN MATCHED THEN UPDATE SET t.c.n1 = -1", pattern),
        (f"{INTO} t.id == s.c1 WHEN MATCHED AND {update} THEN UPDATE SET t.c.n1 = -1", pattern),
        (f"{INTO} t.id == s.c1 WHEN MATCHED AND {delete} THEN DELETE", pattern),
        (
            f"{INTO} t.id == s.c1 WHEN NOT MATCHED AND {insert} THEN INSERT (id, c) VALUES (1, null)",
            pattern,
        ),
        differs=differs,
    )


MAX = "t.id < (SELECT max(c2) FROM source)"
conditions(
    "testMergeWithSubqueriesInConditions",
    "subquer",
    *(MAX, MAX, "t.id NOT IN (SELECT c2 FROM source)", "s.c1 IN (SELECT c2 FROM source)"),
    differs="a decision: conditions of a merge may have sub-queries",
)
