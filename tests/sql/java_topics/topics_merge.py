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
    in_many_row_groups,
    isolated,
    one_mode,
    put,
    written_apart,
    written_together,
)
from tests.sql.java_topics.topics_delete import (
    AUDITED,
    PAIR,
    WAP,
)

Source = tuple[str, Rows]
INTO = "MERGE INTO $o AS t USING source AS s ON "
VALUES = "id INT, v STRING"
ONE_SIX = "(1, 'emp-id-one'), (6, 'emp-id-6')"
KEPT = [(1, "emp-id-one"), (6, "emp-id-6")]
TWO_ONE_SIX: Source = (PAIR, [(2, "emp-id-2"), (1, "emp-id-1"), (6, "emp-id-6")])
ONE_TWO_THREE: Source = (PAIR, [(n, f"emp-id-{n}") for n in (1, 2, 3)])


def merge(
    method: str,
    columns: str,
    values: str,
    source: Source | None,
    *changes: tuple[str, Rows],
    partitioned: str = "",
    conf: dict[str, Any] | None = None,
) -> None:
    """Register a case of merges, each followed by the rows that the table then has."""

    @case(f"TestMerge.{method}", each=one_mode(method))
    def rows_are_merged(p: Place) -> None:
        begin(p, columns, values, partitioned)
        if source:
            p.frame(source[1], source[0])
        with p.conf(conf or {}):
            for text, expected in changes:
                p.sql(text)
                p.rows("SELECT * FROM $o", *expected)


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
merge(
    "testMergeWithAllClauses",
    PAIR,
    *ALL_CLAUSES,
    (
        f"{INTO} t.id == s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET *"
        " WHEN MATCHED AND t.id = 2 THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET dep = 'invalid'"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE",
        AFTER_ALL,
    ),
)


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


merge(
    "testMergeWithOneNotMatchedBySourceClause",
    PAIR,
    "(1, 'emp-id-1'), (2, 'emp-id-2'), (3, 'emp-id-3'), (4, 'emp-id-4')",
    ("value int", [(1,), (4,)]),
    (
        f"{INTO} t.id == s.value WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [(1, "emp-id-1"), (4, "emp-id-4")],
    ),
)
merge(
    "testMergeNotMatchedBySourceClausesPartitionedTable",
    PAIR,
    "(1, 'hr'), (2, 'hr'), (3, 'support')",
    ("value int", [(1,), (2,)]),
    (
        f"{INTO} t.id == s.value AND t.dep = 'hr' WHEN MATCHED THEN UPDATE SET dep = 'support'"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET dep = 'invalid'",
        [(1, "support"), (2, "support"), (3, "invalid")],
    ),
    partitioned="dep",
)
merge(
    "testMergeWithVectorizedReads",
    "id INT, value INT, dep STRING",
    "(1, 100, 'hr'), (6, 600, 'software')",
    ("id int, value int", [(2, 201), (1, 101), (6, 601)]),
    (
        f"{INTO} t.id == s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET t.value = s.value"
        " WHEN MATCHED AND t.id = 6 THEN DELETE"
        " WHEN NOT MATCHED AND s.id = 2 THEN INSERT (id, value, dep) VALUES (s.id, s.value, 'invalid')",
        [(1, 101, "hr"), (2, 201, "invalid")],
    ),
    partitioned="dep",
)


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


merge(
    "testMergeConditionSplitIntoTargetPredicateAndJoinCondition",
    "id INT, salary INT, dep STRING, sub_dep STRING",
    "(1, 100, 'd1', 'sd1'), (6, 600, 'd6', 'sd6')",
    (
        "id INT, salary INT, dep STRING, sub_dep STRING",
        [(1, 101, "d1", "sd1"), (2, 200, "d2", "sd2"), (3, 300, "d3", "sd3")],
    ),
    (
        f"{INTO} t.id == s.id AND ((t.dep = 'd1' AND t.sub_dep IN ('sd1', 'sd3'))"
        " OR (t.dep = 'd6' AND t.sub_dep IN ('sd2', 'sd6')))"
        " WHEN MATCHED THEN UPDATE SET salary = s.salary WHEN NOT MATCHED THEN INSERT *",
        [
            (1, 101, "d1", "sd1"),
            (2, 200, "d2", "sd2"),
            (3, 300, "d3", "sd3"),
            (6, 600, "d6", "sd6"),
        ],
    ),
    partitioned="dep, sub_dep",
)


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


INSERT = f"{INTO} t.id == s.id WHEN NOT MATCHED"


@case(
    "TestMerge.testMergeIntoEmptyTargetInsertAllNonMatchingRows",
    each=one_mode("testMergeIntoEmptyTargetInsertAllNonMatchingRows"),
)
@case(
    "TestMerge.testMergeIntoEmptyTargetInsertOnlyMatchingRows",
    each=one_mode("testMergeIntoEmptyTargetInsertOnlyMatchingRows"),
)
def all_rows_are_new_to_an_empty_table(p: Place) -> None:
    begin(p, PAIR)
    p.frame(ONE_TWO_THREE[1], PAIR)
    p.sql(f"{INSERT} AND (s.id >= 2) THEN INSERT *")
    p.rows("SELECT * FROM $t", *ONE_TWO_THREE[1][1:])
    p.sql(f"{INSERT} THEN INSERT *")
    p.rows("SELECT * FROM $t", *ONE_TWO_THREE[1])


UPDATE_ONE = "WHEN MATCHED AND t.id = 1 THEN UPDATE SET *"
DELETE_SIX = "WHEN MATCHED AND t.id = 6 THEN DELETE"
INSERT_TWO = "WHEN NOT MATCHED AND s.id = 2 THEN INSERT *"
merge(
    "testMergeWithOnlyUpdateClause",
    PAIR,
    ONE_SIX,
    TWO_ONE_SIX,
    (f"{INTO} t.id == s.id {UPDATE_ONE}", [(1, "emp-id-1"), (6, "emp-id-6")]),
)
NUMBERS = "id INT, value INT"
NULLED = "(1, 2), (6, null)"
HUNDRED: Source = ("id INT NOT NULL, value INT", [(1, 100)])
for _method, _action, _rows in (
    ("testMergeWithOnlyUpdateNullUnmatchedValues", "UPDATE SET id=123, value=456", [(123, 456)]),
    ("testMergeWithOnlyUpdateSingleFieldNullUnmatchedValues", "UPDATE SET id=123", [(123, 2)]),
    ("testMergeWithOnlyDeleteNullUnmatchedValues", "DELETE", []),
):
    merge(
        _method,
        NUMBERS,
        NULLED,
        HUNDRED,
        (f"{INTO} t.id == s.id WHEN MATCHED THEN {_action}", [*_rows, (6, None)]),
    )
merge(
    "testMergeWithOnlyUpdateClauseAndNullValues",
    PAIR,
    f"(null, 'emp-id-one'), {ONE_SIX}",
    TWO_ONE_SIX,
    (
        f"{INTO} t.id == s.id AND t.id < 3 WHEN MATCHED THEN UPDATE SET *",
        [(None, "emp-id-one"), (1, "emp-id-1"), (6, "emp-id-6")],
    ),
)
merge(
    "testMergeWithOnlyDeleteClause",
    PAIR,
    ONE_SIX,
    TWO_ONE_SIX,
    (f"{INTO} t.id == s.id {DELETE_SIX}", KEPT[:1]),
)
CLAUSES = f"{UPDATE_ONE} {DELETE_SIX} {INSERT_TWO}"
MERGED: Rows = [(1, "emp-id-1"), (2, "emp-id-2")]
merge(
    "testMergeWithMatchedAndNotMatchedClauses",
    PAIR,
    ONE_SIX,
    TWO_ONE_SIX,
    (f"{INTO} t.id == s.id {CLAUSES}", MERGED),
)
merge(
    "testMergeWithAllCausesWithExplicitColumnSpecification",
    PAIR,
    ONE_SIX,
    TWO_ONE_SIX,
    (
        f"{INTO} t.id == s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET t.id = s.id, t.dep = s.dep"
        f" {DELETE_SIX} WHEN NOT MATCHED AND s.id = 2 THEN INSERT (t.id, t.dep) VALUES (s.id, s.dep)",
        MERGED,
    ),
)
merge(
    "testMergeWithSourceCTE",
    PAIR,
    "(2, 'emp-id-two'), (6, 'emp-id-6')",
    (PAIR, [(2, "emp-id-3"), (1, "emp-id-2"), (5, "emp-id-6")]),
    (
        "WITH cte1 AS (SELECT id + 1 AS id, dep FROM source) MERGE INTO $o AS t USING cte1 AS s"
        " ON t.id == s.id WHEN MATCHED AND t.id = 2 THEN UPDATE SET *"
        f" {DELETE_SIX} WHEN NOT MATCHED AND s.id = 3 THEN INSERT *",
        [(2, "emp-id-2"), (3, "emp-id-3")],
    ),
)
merge(
    "testMergeWithSourceFromSetOps",
    PAIR,
    ONE_SIX,
    TWO_ONE_SIX,
    (
        "MERGE INTO $o AS t USING (SELECT * FROM source WHERE id = 2 UNION ALL"
        f" SELECT * FROM source WHERE id = 1 OR id = 6) AS s ON t.id == s.id {CLAUSES}",
        MERGED,
    ),
)
merge(
    "testMergeWithTableWithNonNullableColumn",
    "id INT NOT NULL, dep STRING",
    ONE_SIX,
    ("id INT NOT NULL, dep STRING", TWO_ONE_SIX[1]),
    (f"{INTO} t.id == s.id {CLAUSES}", MERGED),
)

# Several source rows for one of the table's
# --------------------------------------------------------------------------------------------------------------------------------------

MANY = "multiple|several|CARDINALITY"
refused(
    "testMergeWithOneMatchingBranchButMultipleSourceRowsForTargetRow",
    PAIR,
    ONE_SIX,
    ("id int, state string", [(1, "on"), (1, "off"), (10, "on")]),
    (
        f"{INTO} t.id == s.id {DELETE_SIX} WHEN NOT MATCHED THEN INSERT (id, dep) VALUES (s.id, 'unknown')",
        MANY,
    ),
)
DOUBLE: Source = ("value int", [(n,) for n in range(1000)] * 2)
TEN = "WHEN MATCHED AND t.id = 1 THEN UPDATE SET id = 10"
LEFT = "WHEN NOT MATCHED AND s.value = 2 THEN INSERT (id, dep) VALUES (s.value, null)"
SHUFFLED = {"spark.sql.join.preferSortMergeJoin": "false"}
_LARGE = "testMergeWithMultipleUpdatesForTargetRowSmallTargetLargeSource"
for _method, _values, _on, _rest in (
    ("", ONE_SIX, "=", LEFT),
    ("EnabledHashShuffleJoin", ONE_SIX, "=", LEFT),
    ("NoEqualityCondition", "(1, 'emp-id-one')", ">", LEFT),
    ("NoNotMatchedActions", ONE_SIX, "=", ""),
    ("NoNotMatchedActionsNoEqualityCondition", "(1, 'emp-id-one')", ">", ""),
):
    refused(
        f"{_LARGE}{_method}",
        PAIR,
        _values,
        DOUBLE if _on == "=" else ("value int", [(n,) for n in range(100)] * 2),
        (f"{INTO} t.id {_on} s.value {TEN} {DELETE_SIX} {_rest}", MANY),
        conf=SHUFFLED,
    )
TWICE: Source = (PAIR, [(1, "emp-id-1"), (1, "emp-id-1"), (2, "emp-id-2"), (6, "emp-id-6")])
refused(
    "testMergeWithMultipleUpdatesForTargetRow",
    PAIR,
    ONE_SIX,
    TWICE,
    (f"{INTO} t.id == s.id {CLAUSES}", MANY),
)
merge(
    "testMergeWithUnconditionalDelete",
    PAIR,
    ONE_SIX,
    TWICE,
    (f"{INTO} t.id == s.id WHEN MATCHED THEN DELETE {INSERT_TWO}", [(2, "emp-id-2")]),
)
refused(
    "testMergeWithSingleConditionalDelete",
    PAIR,
    ONE_SIX,
    TWICE,
    (f"{INTO} t.id == s.id WHEN MATCHED AND t.id = 1 THEN DELETE {INSERT_TWO}", MANY),
)

# Partitions and order
# --------------------------------------------------------------------------------------------------------------------------------------


def laid(method: str, term: str, order: str = "") -> None:
    @case(f"TestMerge.{method}", each=one_mode(method))
    def rows_are_merged_whatever_the_distribution(p: Place) -> None:
        for mode in ("none", "hash", "range"):
            p.sql("DROP TABLE IF EXISTS $t")
            begin(p, PAIR, "", term)
            p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ('write.distribution-mode' '{mode}')")
            if order:
                p.sql(f"ALTER TABLE $t WRITE ORDERED BY {order}")
            put(p, ONE_SIX)
            branch(p)
            p.frame(TWO_ONE_SIX[1], PAIR)
            p.sql(f"{INTO} t.id == s.id {CLAUSES}")
            p.rows("SELECT * FROM $o", *MERGED)


laid("testMergeWithIdentityTransform", "dep")
laid("testMergeWithBucketTransform", "bucket(2, dep)")
laid("testMergeWithTruncateTransform", "truncate(2, dep)")
laid("testMergeIntoPartitionedAndOrderedTable", "dep", "(id)")


@case("TestMerge.testMergeWithDaysTransform", each=one_mode("testMergeWithDaysTransform"))
def rows_are_merged_into_days(p: Place) -> None:
    for mode in ("none", "hash", "range"):
        p.sql("DROP TABLE IF EXISTS $t")
        begin(p, "id INT, ts TIMESTAMP", "", "days(ts)")
        p.sql(f"ALTER TABLE $t SET TBLPROPERTIES ('write.distribution-mode' '{mode}')")
        put(p, "(1, TIMESTAMP '2000-01-01 00:00:00'), (6, TIMESTAMP '2000-01-06 00:00:00')")
        branch(p)
        p.frame([(n, f"2001-01-0{n} 00:00:00") for n in (2, 1, 6)], "id int, at string", "texts")
        p.sql(
            "CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id, timestamp(at) AS ts FROM texts"
        )
        p.sql(f"{INTO} t.id == s.id {CLAUSES}")
        p.rows(
            "SELECT id, CAST(ts AS STRING) FROM $o",
            *((n, f"2001-01-0{n} 00:00:00") for n in (1, 2)),
        )


# Sources
# --------------------------------------------------------------------------------------------------------------------------------------

V1_V2 = "(1, 'v1'), (2, 'v2')"
X_V2: Rows = [(1, "x"), (2, "v2")]
SELF = (
    "MERGE INTO $o t USING $o s ON t.id == s.id WHEN MATCHED AND t.id = 1 THEN UPDATE SET v = 'x'"
    " WHEN NOT MATCHED THEN INSERT *"
)
merge("testSelfMerge", VALUES, V1_V2, None, (SELF, X_V2))


@case("TestMerge.testSelfMergeWithCaching", each=one_mode("testSelfMergeWithCaching"))
def a_cached_table_is_merged_into_itself(p: Place) -> None:
    begin(p, VALUES, V1_V2)
    p.sql("CACHE TABLE $t", SELF)
    p.rows("SELECT * FROM $o", *X_V2)
    p.sql("UNCACHE TABLE $t")


merge(
    "testMergeWithSourceAsSelfSubquery",
    VALUES,
    V1_V2,
    ("value int", [(1,), (None,)]),
    (
        "MERGE INTO $o t USING (SELECT id AS value FROM $o r JOIN source ON r.id = source.value) s"
        " ON t.id == s.value WHEN MATCHED AND t.id = 1 THEN UPDATE SET v = 'x'"
        " WHEN NOT MATCHED THEN INSERT (v, id) VALUES ('invalid', -1)",
        X_V2,
    ),
)
isolated(
    "TestMerge.testMerge",
    "merge",
    "MERGE INTO $o t USING slow s ON t.id == s.value WHEN MATCHED THEN UPDATE SET dep = 'x', id = 7",
)
BY_NAME = (
    "MERGE INTO $o t USING source ON {} WHEN MATCHED THEN UPDATE SET v = source.v"
    " WHEN NOT MATCHED THEN INSERT (v, id) VALUES (source.v, source.id)"
)
merge(
    "testMergeWithExtraColumnsInSource",
    VALUES,
    V1_V2,
    ("id int, extra_col int, v string", [(1, -1, "v1_1"), (3, -1, "v3"), (4, -1, "v4")]),
    (BY_NAME.format("t.id == source.id"), [(1, "v1_1"), (2, "v2"), (3, "v3"), (4, "v4")]),
)
NULL_V1 = "(null, 'v1'), (2, 'v2')"
merge(
    "testMergeWithNullsInTargetAndSource",
    VALUES,
    NULL_V1,
    (VALUES, [(None, "v1_1"), (4, "v4")]),
    (
        BY_NAME.format("t.id == source.id"),
        [(None, "v1"), (None, "v1_1"), (2, "v2"), (4, "v4")],
    ),
)
merge(
    "testMergeWithNullSafeEquals",
    VALUES,
    NULL_V1,
    (VALUES, [(None, "v1_1"), (4, "v4")]),
    (BY_NAME.format("t.id <=> source.id"), [(None, "v1_1"), (2, "v2"), (4, "v4")]),
)
merge(
    "testMergeWithNullCondition",
    VALUES,
    NULL_V1,
    (VALUES, [(None, "v1_1"), (2, "v2_2")]),
    (
        BY_NAME.format("t.id == source.id AND NULL"),
        [(None, "v1"), (None, "v1_1"), (2, "v2"), (2, "v2_2")],
    ),
)
NULL_ACTIONS = (
    "MERGE INTO $o t USING source ON t.id == source.id"
    " WHEN MATCHED AND source.id = 1 AND NULL THEN UPDATE SET v = source.v"
    " WHEN MATCHED AND source.v = 'v1_1'{} THEN DELETE"
    " WHEN NOT MATCHED AND source.id = 3 AND NULL THEN INSERT (v, id) VALUES (source.v, source.id)"
)
merge(
    "testMergeWithNullActionConditions",
    VALUES,
    V1_V2,
    (VALUES, [(1, "v1_1"), (2, "v2_2"), (3, "v3_3")]),
    (NULL_ACTIONS.format(" AND NULL"), [(1, "v1"), (2, "v2")]),
    (NULL_ACTIONS.format(""), [(2, "v2")]),
)
merge(
    "testMergeWithMultipleMatchingActions",
    VALUES,
    V1_V2,
    (VALUES, [(1, "v1_1"), (2, "v2_2")]),
    (
        "MERGE INTO $o t USING source ON t.id == source.id"
        " WHEN MATCHED AND source.id = 1 THEN UPDATE SET v = source.v"
        " WHEN MATCHED AND source.v = 'v1_1' THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (v, id) VALUES (source.v, source.id)",
        [(1, "v1_1"), (2, "v2")],
    ),
)


@case(
    "TestMerge.testMergeWithMultipleRowGroupsParquet",
    each=one_mode("testMergeWithMultipleRowGroupsParquet"),
)
def a_row_of_one_of_many_row_groups_is_merged(p: Place) -> None:
    in_many_row_groups(p)
    p.frame([(1,)], "value int")
    p.sql(f"{INTO} t.id == s.value WHEN MATCHED THEN UPDATE SET dep = 'x'")
    p.rows("SELECT count(*) FROM $o", (200,))


TEXTS = "id STRING, v STRING"
merge(
    "testMergeInsertOnly",
    TEXTS,
    "('a', 'v1'), ('b', 'v2')",
    (TEXTS, [("a", "v1_1"), ("a", "v1_2"), ("c", "v3"), ("d", "v4_1"), ("d", "v4_2")]),
    (
        f"{INSERT} THEN INSERT *",
        [("a", "v1"), ("b", "v2"), ("c", "v3"), ("d", "v4_1"), ("d", "v4_2")],
    ),
)
merge(
    "testMergeInsertOnlyWithCondition",
    "id INTEGER, v INTEGER",
    "(1, 1)",
    ("id int, v int, is_new boolean", [(1, 11, True), (2, 21, True), (2, 22, False)]),
    (
        f"{INSERT} AND is_new = TRUE THEN INSERT (v, id) VALUES (s.v + 100, s.id)",
        [(1, 1), (2, 121)],
    ),
)
ALIGNED: Source = ("id int, c1 int, c2 string", [(1, -2, "new_str_1"), (2, -20, "new_str_2")])
merge(
    "testMergeAlignsUpdateAndInsertActions",
    "id INT, a INT, b STRING",
    "(1, 2, 'str')",
    ALIGNED,
    (
        "MERGE INTO $o t USING source ON t.id == source.id"
        " WHEN MATCHED THEN UPDATE SET b = c2, a = c1, t.id = source.id"
        " WHEN NOT MATCHED THEN INSERT (b, a, id) VALUES (c2, c1, id)",
        ALIGNED[1],
    ),
)
merge(
    "testMergeMixedCaseAlignsUpdateAndInsertActions",
    "id INT, a INT, b STRING",
    "(1, 2, 'str')",
    ALIGNED,
    (
        "MERGE INTO $o t USING source ON t.iD == source.Id"
        " WHEN MATCHED THEN UPDATE SET B = c2, A = c1, t.Id = source.ID"
        " WHEN NOT MATCHED THEN INSERT (b, A, iD) VALUES (c2, c1, id)",
        ALIGNED[1],
    ),
)
DEEP = "id INT, s STRUCT<c1: INT, c2: STRUCT<a: ARRAY<INT>, m: MAP<STRING, STRING>>>"
MATCHED = f"{INTO} t.id == s.id WHEN MATCHED THEN UPDATE SET"
DEEP_MATCHED = "MERGE INTO $o t USING source ON t.id == source.id WHEN MATCHED THEN UPDATE SET"
merge(
    "testMergeUpdatesNestedStructFields",
    DEEP,
    "(1, named_struct('c1', 2, 'c2', named_struct('a', array(1, 2), 'm', map('a', 'b'))))",
    ("id int, c1 int", [(1, -2)]),
    (
        f"{DEEP_MATCHED} t.s.c1 = source.c1, t.s.c2.a = array(-1, -2), t.s.c2.m = map('k', 'v')",
        [(1, (-2, ([-1, -2], {"k": "v"})))],
    ),
    (f"{DEEP_MATCHED} t.s.c1 = NULL, t.s.c2 = NULL", [(1, (None, None))]),
    (
        f"{DEEP_MATCHED} t.s = named_struct('c1', 100, 'c2', named_struct('a', array(1), 'm', map('x', 'y')))",
        [(1, (100, ([1], {"x": "y"})))],
    ),
)
merge(
    "testMergeWithInferredCasts",
    "id INT, s STRING",
    "(1, 'value')",
    ("id int, c1 bigint", [(1, -2)]),
    (f"{DEEP_MATCHED} t.s = source.c1", [(1, "-2")]),
)
merge(
    "testMergeModifiesNullStruct",
    "id INT, s STRUCT<n1: INT, n2: INT>",
    "(1, CAST(null AS STRUCT<n1: INT, n2: INT>))",
    ("id int, n1 int", [(1, -10)]),
    (f"{DEEP_MATCHED} t.s.n1 = source.n1", [(1, (-10, None))]),
)


@case("TestMerge.testMergeRefreshesRelationCache", each=one_mode("testMergeRefreshesRelationCache"))
def cached_views_follow_merges(p: Place) -> None:
    begin(p, "id INT, name STRING", "(1, 'n1')")
    p.frame([(1, "n2")], "id int, name string")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT name FROM $o")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp", ("n1",))
    p.sql(f"{MATCHED} t.name = s.name")
    p.rows("SELECT * FROM tmp", ("n2",))
    p.sql("UNCACHE TABLE tmp")


FIRST = f"{INSERT} AND s.id = 1 THEN INSERT (dep, id) VALUES (s.dep, -1) WHEN NOT MATCHED"
ZERO: Rows = [(-1, "emp-id-1"), (0, "emp-id-0"), (2, "emp-id-2")]
merge(
    "testMergeWithMultipleNotMatchedActions",
    PAIR,
    "(0, 'emp-id-0')",
    ONE_TWO_THREE,
    (f"{FIRST} THEN INSERT *", [*ZERO, (3, "emp-id-3")]),
)
merge(
    "testMergeWithMultipleConditionalNotMatchedActions",
    PAIR,
    "(0, 'emp-id-0')",
    ONE_TWO_THREE,
    (f"{FIRST} AND s.id = 2 THEN INSERT *", ZERO),
)
merge(
    "testMergeResolvesColumnsByName",
    "id INT, badge INT, dep STRING",
    "(1, 1000, 'emp-id-one'), (6, 6000, 'emp-id-6')",
    (
        "badge INT, id INT, dep STRING",
        [(1001, 1, "emp-id-1"), (6006, 6, "emp-id-6"), (7007, 7, "emp-id-7")],
    ),
    (
        f"{INTO} t.id == s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, 1001, "emp-id-1"), (6, 6006, "emp-id-6"), (7, 7007, "emp-id-7")],
    ),
)


@case(
    "TestMerge.testMergeShouldResolveWhenThereAreNoUnresolvedExpressionsOrColumns",
    each=one_mode("testMergeShouldResolveWhenThereAreNoUnresolvedExpressionsOrColumns"),
)
def a_condition_may_name_no_column(p: Place) -> None:
    begin(p, PAIR)
    p.frame(ONE_TWO_THREE[1], PAIR)
    p.sql(f"{INTO} 1 != 1 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    p.rows("SELECT * FROM $o", *ONE_TWO_THREE[1])


# What is refused
# --------------------------------------------------------------------------------------------------------------------------------------

BOXED = "id INT, c STRUCT<n1: INT, n2: STRUCT<dn1: INT, dn2: INT>>"
BOX = "(1, named_struct('n1', 2, 'n2', named_struct('dn1', 3, 'dn2', 4)))"
C1_C2: Source = ("c1 int, c2 int", [(-100, -200)])
SET = f"{INTO} t.id == s.c1 WHEN MATCHED THEN UPDATE SET"
refused(
    "testMergeWithNonExistingColumns",
    BOXED,
    BOX,
    C1_C2,
    (f"{SET} t.invalid_col = s.c2", "invalid_col"),
    (f"{SET} t.c.n2.invalid_col = s.c2", "invalid_col"),
    (
        f"{SET} t.c.n2.dn1 = s.c2 WHEN NOT MATCHED THEN INSERT (id, invalid_col) VALUES (s.c1, null)",
        "invalid_col",
    ),
)
refused(
    "testMergeWithInvalidColumnsInInsert",
    f"{BOXED} NOT NULL",
    BOX,
    C1_C2,
    (
        f"{SET} t.c.n2.dn1 = s.c2 WHEN NOT MATCHED THEN INSERT (id, c.n2) VALUES (s.c1, null)",
        "nested|c.n2",
    ),
    (
        f"{SET} t.c.n2.dn1 = s.c2 WHEN NOT MATCHED THEN INSERT (id, id) VALUES (s.c1, null)",
        "assignments|twice|more than once",
    ),
    (f"{INTO} t.id == s.c1 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.c1)", "c\\b"),
)
merge(
    "testMergeWithMissingOptionalColumnsInInsert",
    "id INT, value LONG",
    "(1, 100)",
    ("c1 int, c2 bigint", [(2, 200)]),
    (
        f"{INTO} t.id == s.c1 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.c1)",
        [(1, 100), (2, None)],
    ),
)
refused(
    "testMergeWithInvalidUpdates",
    "id INT, a ARRAY<STRUCT<c1: INT, c2: INT>>, m MAP<STRING, STRING>",
    "(1, array(named_struct('c1', 2, 'c2', 3)), map('k', 'v'))",
    C1_C2,
    (f"{SET} t.a.c1 = s.c2", "struct|nested|field|cast"),
    (f"{SET} t.m.key = 'new_key'", "struct|nested|field|cast"),
)
refused(
    "testMergeWithConflictingUpdates",
    BOXED,
    BOX,
    C1_C2,
    (f"{SET} t.id = 1, t.c.n1 = 2, t.id = 2", "assignments|twice|more than once"),
    (f"{SET} t.c.n1 = 1, t.id = 2, t.c.n1 = 2", "assignments|twice|more than once"),
    (
        f"{SET} c.n1 = 1, c = named_struct('n1', 1, 'n2', named_struct('dn1', 1, 'dn2', 2))",
        "assignments|twice|more than once",
    ),
)
STRICT = "id INT NOT NULL, s STRUCT<n1: INT NOT NULL, n2: STRUCT<dn1: INT, dn2: INT>> NOT NULL"
ODD: Source = (
    "c1 INT, c2 STRUCT<n1: INT NOT NULL> NOT NULL, c3 STRING NOT NULL, c4 STRUCT<dn3: INT, dn1: INT>",
    [(1, (1,), "str", (1, 2))],
)
for _policy in ("Ansi", "Strict"):
    refused(
        f"testMergeWithInvalidAssignments{_policy}",
        STRICT,
        BOX,
        ODD,
        (
            f"{SET} t.id = CAST(NULL AS INT)" if _policy == "Ansi" else f"{SET} t.id = NULL",
            "null|safely",
        ),
        (f"{SET} t.s.n1 = NULL", "null|safely"),
        (f"{SET} t.s.n1 = s.c3", "cast"),
        (f"{SET} t.s.n2 = s.c4", "dn2|output column"),
        conf={"spark.sql.storeAssignmentPolicy": _policy.lower()},
    )


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


conditions(
    "testMergeWithNonDeterministicConditions",
    "deterministic",
    *("rand() > t.id", "rand() > t.id", "rand() > t.id", "rand() > c1"),
)
conditions(
    "testMergeWithAggregateExpressions",
    "aggregate",
    *("max(t.id) == 1", "sum(t.id) < 1", "sum(t.id)", "sum(c1) < 1"),
)
MAX = "t.id < (SELECT max(c2) FROM source)"
conditions(
    "testMergeWithSubqueriesInConditions",
    "subquer",
    *(MAX, MAX, "t.id NOT IN (SELECT c2 FROM source)", "s.c1 IN (SELECT c2 FROM source)"),
    differs="a decision: conditions of a merge may have sub-queries",
)
refused(
    "testMergeWithTargetColumnsInInsertConditions",
    "id INT, c2 INT",
    "(1, 2)",
    ("id int, value int", [(1, 11)]),
    (f"{INSERT} AND c2 = 1 THEN INSERT (id, c2) VALUES (s.id, null)", "c2"),
)


@case("TestMerge.testMergeWithNonIcebergTargetTableNotSupported")
def views_are_not_merged_into(p: Place) -> None:
    p.frame([(-100, -200)], "c1 int, c2 int", "target")
    p.frame([(-100, -200)], "c1 int, c2 int")
    p.fails(
        "MERGE INTO target t USING source s ON t.c1 == s.c1 WHEN MATCHED THEN UPDATE SET *",
        "not support|unsupported|MERGE",
    )


# Whole tables
# --------------------------------------------------------------------------------------------------------------------------------------

BOTH = f"{INTO} t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
FIVE: Rows = [(n,) for n in range(5)]


@case(
    "TestMerge.testMergeSinglePartitionPartitioning",
    each=one_mode("testMergeSinglePartitionPartitioning"),
)
@case("TestMerge.testMergeEmptyTable", each=one_mode("testMergeEmptyTable"))
def a_source_of_one_partition_is_merged(p: Place) -> None:
    p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(0, 5, 1, 1)")
    for values, kept in (("(-1)", [(-1,)]), ("", [])):
        begin(p, "id INT", values)
        p.sql(BOTH)
        p.rows("SELECT * FROM $o", *kept, *FIVE)
        p.sql("DROP TABLE $t")


@case("TestMerge.testMergeNonExistingBranch", each=one_mode("testMergeNonExistingBranch"))
def a_branch_to_merge_into_must_exist(p: Place) -> None:
    begin(p, "id INT")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(0, 5, 1, 1)")
    p.names["o"] = p.text("$t.branch_test")
    p.fails(BOTH, "test")


@case("TestMerge.testMergeToWapBranch", each=one_mode("testMergeToWapBranch"))
def merges_go_to_the_branch_that_is_audited(p: Place) -> None:
    begin(p, "id INT", "(-1)")
    p.names["o"] = p.text("$t")
    p.sql(AUDITED)
    p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(0, 5, 1, 1)")
    with p.conf(WAP):
        p.sql(BOTH)
        for name in ("$t", "$t.branch_wap"):
            p.rows(f"SELECT * FROM {name}", (-1,), *FIVE)
        p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(3, 6, 1, 1)")
        p.sql(f"{INTO} t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *")
        for name in ("$t", "$t.branch_wap"):
            p.rows(f"SELECT * FROM {name}", (-1,), (0,), (1,), (2,), (5,))
        p.rows("SELECT * FROM $t.branch_main", (-1,))


@case(
    "TestMerge.testMergeToWapBranchWithTableBranchIdentifier",
    each=one_mode("testMergeToWapBranchWithTableBranchIdentifier"),
)
def a_branch_that_is_named_is_merged_into(p: Place) -> None:
    begin(p, "id INT", "(-1)")
    p.sql(AUDITED, "ALTER TABLE $t CREATE BRANCH named")
    p.names["o"] = p.text("$t.branch_named")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW source AS SELECT id FROM range(0, 5, 1, 1)")
    with p.conf(WAP):
        p.sql(BOTH)
        p.rows("SELECT * FROM $t.branch_named", (-1,), *FIVE)
