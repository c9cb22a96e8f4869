"""UPDATE."""

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
from tests.sql.java_topics.topics_delete import (
    AUDITED,
    HARD,
    HR,
    NONE,
    PAIR,
    THREE,
    WAP,
    spread,
)


def update(method: str, *changes: tuple[str, list[tuple[object, ...]]], **more: object) -> None:
    values = str(more.pop("values", THREE))
    columns = str(more.pop("columns", PAIR))
    steps(f"TestUpdate.{method}", columns, values, *changes, **more)  # type: ignore[arg-type]


update(
    "testUpdateWithVectorizedReads",
    ("UPDATE $o SET value = -1 WHERE id = 1", [(1, -1, "hr")]),
    columns="id INT, value INT, dep STRING",
    values="(1, 100, 'hr')",
    partitioned="dep",
)
update(
    "testUpdateWithAlias",
    ("UPDATE $o AS t SET t.dep = 'x'", [(1, "x")]),
    values="(1, 'a')",
    partitioned="dep",
)
update(
    "testUpdateAlignsAssignments",
    ("UPDATE $o SET `c2` = c2 - 2, c1 = `c1` - 1 WHERE id <=> 1", [(1, 10, 109), (2, 22, 222)]),
    columns="id INT, c1 INT, c2 INT",
    values="(1, 11, 111), (2, 22, 222)",
)
update(
    "testUpdateWithUnsupportedPartitionPredicate",
    ("UPDATE $o t SET `t`.`id` = -1 WHERE t.dep LIKE '%r' ", [(-1, "hr"), (1, "software")]),
    values="(1, 'software'), (2, 'hr')",
    partitioned="dep",
)
update(
    "testUpdateWithNullConditions",
    ("UPDATE $o SET id = -1 WHERE dep = NULL", [(0, None), HR, HARD]),
    ("UPDATE $o SET id = -1 WHERE dep = 'software'", [(0, None), HR, HARD]),
    ("UPDATE $o SET dep = 'x', id = -1 WHERE dep <=> NULL", [(-1, "x"), HR, HARD]),
    values="(0, null), (1, 'hr'), (2, 'hardware')",
)
GONE = (-1, "hr")
update(
    "testUpdateWithInAndNotInConditions",
    ("UPDATE $o SET id = -1 WHERE id IN (1, null)", [GONE, HARD, NONE]),
    ("UPDATE $o SET id = 100 WHERE id NOT IN (null, 1)", [GONE, HARD, NONE]),
    ("UPDATE $o SET id = 100 WHERE id NOT IN (1, 10)", [(100, "hardware"), (100, "hr"), NONE]),
)
update(
    "testUpdateNestedStructFields",
    (
        "UPDATE $o SET s.c1 = -1, s.c2.m = map('k', 'v'), s.c2.a = array(-1)",
        [(1, (-1, ([-1], {"k": "v"})))],
    ),
    ("UPDATE $o SET s.c1 = NULL, s.c2 = NULL WHERE id IN (1)", [(1, (None, None))]),
    (
        "UPDATE $o SET s = named_struct('c1', 1, 'c2', named_struct('a', array(1), 'm', null))",
        [(1, (1, ([1], None)))],
    ),
    columns="id INT, s STRUCT<c1: INT, c2: STRUCT<a: ARRAY<INT>, m: MAP<STRING, STRING>>>",
    values="(1, named_struct('c1', 2, 'c2', named_struct('a', array(1, 2), 'm', map('a', 'b'))))",
)
THREE_INTS = [(1, 11, 1), (2, 22, 1), (3, 33, 1)]


@case(
    "TestUpdate.testUpdateWithUserDefinedDistribution",
    each=one_mode("testUpdateWithUserDefinedDistribution"),
)
def updates_are_written_as_the_table_is_ordered(p: Place) -> None:
    begin(p, "id INT, c2 INT, c3 INT", "(1, 11, 1), (2, 22, 1), (3, 33, 1)", "bucket(8, c3)")
    rows = {r[0]: r for r in THREE_INTS}
    for order, condition, number in (
        ("ORDERED BY c2", "id NOT IN (1, 3)", 2),
        ("LOCALLY ORDERED BY id", "id = 3", 3),
        ("DISTRIBUTED BY PARTITION ORDERED BY id", "id = 1", 1),
    ):
        p.sql(f"ALTER TABLE $t WRITE {order}")
        p.sql(f"UPDATE $o SET c2 = -{11 * number} WHERE {condition}")
        rows[number] = (number, -11 * number, 1)
        p.rows("SELECT * FROM $o", *rows.values())


update(
    "testUpdateWithInferredCasts",
    ("UPDATE $o SET s = -1 WHERE id = 1", [(1, "-1")]),
    columns="id INT, s STRING",
    values="(1, 'value')",
)
update(
    "testUpdateModifiesNullStruct",
    ("UPDATE $o SET s.n1 = -1 WHERE id = 1", [(1, (-1, None))]),
    columns="id INT, s STRUCT<n1: INT, n2: INT>",
    values="(1, CAST(null AS STRUCT<n1: INT, n2: INT>))",
)
update(
    "testUpdateWithInSubquery",
    (
        "UPDATE $o SET id = -1 WHERE id IN (SELECT * FROM updated_id) AND dep IN (SELECT * FROM updated_dep)",
        [GONE, HARD, NONE],
    ),
    (
        "UPDATE $o SET id = 5 WHERE id IS NULL OR id IN (SELECT value + 1 FROM updated_id)",
        [GONE, (5, "hardware"), (5, "hr")],
    ),
    ("VALUES (null, 'hr'), (2, 'hr')", [GONE, (2, "hr"), (5, "hardware"), (5, "hr"), NONE]),
    (
        "UPDATE $o SET id = 10 WHERE id IN (SELECT value + 2 FROM updated_id) AND dep = 'hr'",
        [GONE, (10, "hr"), (5, "hardware"), (5, "hr"), NONE],
    ),
    given={"updated_id": [0, 1, None], "updated_dep": ["software", "hr"]},
)
update(
    "testUpdateWithSelfSubquery",
    ("UPDATE $o SET dep = 'x' WHERE id IN (SELECT id + 1 FROM $o)", [HR, (2, "x")]),
    (
        "UPDATE $o SET dep = 'y' WHERE id = (SELECT count(*) FROM (SELECT DISTINCT id FROM $o) AS t)",
        [HR, (2, "y")],
    ),
    ("UPDATE $o SET id = (SELECT id - 2 FROM $o WHERE id = 1)", [GONE, (-1, "y")]),
    values="(1, 'hr'), (2, 'hr')",
)
NOT_NULL = "(SELECT * FROM updated_id WHERE value IS NOT NULL)"
update(
    "testUpdateWithNotInSubquery",
    ("UPDATE $o SET id = -1 WHERE id NOT IN (SELECT * FROM updated_id)", [HR, HARD, NONE]),
    (
        f"UPDATE $o SET id = -1 WHERE id NOT IN {NOT_NULL}",
        [(-1, "hardware"), GONE, NONE],
    ),
    (
        "UPDATE $o SET id = 5 WHERE id NOT IN (SELECT * FROM updated_id) OR dep IN ('software', 'hr')",
        [(-1, "hardware"), (5, "hr"), (5, "hr")],
    ),
    given={"updated_id": [-1, -2, None], "updated_dep": ["software", "hr"]},
)
EXISTS = "EXISTS (SELECT 1 FROM updated_{0} u WHERE t.{0} = u.value{1})"
update(
    "testUpdateWithExistSubquery",
    (f"UPDATE $o t SET id = -1 WHERE {EXISTS.format('id', '')}", [HR, HARD, NONE]),
    (
        f"UPDATE $o t SET dep = 'x', id = -1 WHERE {EXISTS.format('id', ' + 2')}",
        [(-1, "x"), HARD, NONE],
    ),
    (
        f"UPDATE $o t SET id = -2 WHERE {EXISTS.format('id', '')} OR t.id IS NULL",
        [(-2, "x"), (-2, "hr"), HARD],
    ),
    (
        f"UPDATE $o t SET id = 1 WHERE {EXISTS.format('id', '')} AND {EXISTS.format('dep', '')}",
        [(-2, "x"), HR, HARD],
    ),
    given={"updated_id": [-1, -2, None], "updated_dep": ["hr", None]},
)
update(
    "testUpdateWithNotExistsSubquery",
    (
        f"UPDATE $o t SET id = -1 WHERE NOT {EXISTS.format('id', ' + 2')}",
        [HR, (-1, "hardware"), GONE],
    ),
    (
        f"UPDATE $o t SET id = 5 WHERE NOT {EXISTS.format('id', '')} OR t.id = 1",
        [(5, "hr"), (-1, "hardware"), GONE],
    ),
    (
        f"UPDATE $o t SET id = 10 WHERE NOT {EXISTS.format('id', '')} AND {EXISTS.format('dep', '')}",
        [(10, "hr"), (-1, "hardware"), GONE],
    ),
    given={"updated_id": [-1, -2, None], "updated_dep": ["hr", "software"]},
)
update(
    "testUpdateWithScalarSubquery",
    ("UPDATE $o SET id = -1 WHERE id <= (SELECT min(value) FROM updated_id)", [GONE, HARD, NONE]),
    given={"updated_id": [1, 100, None]},
)
update(
    "testUpdateWithVectorization",
    ("UPDATE $o t SET id = -1", [GONE] * 3),
    values="(0, 'hr'), (1, 'hr'), (2, 'hr')",
    conf={"spark.sql.iceberg.vectorization.enabled": "true"},
)


@case(
    "TestUpdate.testUpdateWithMultiColumnInSubquery",
    each=one_mode("testUpdateWithMultiColumnInSubquery"),
)
def rows_are_named_by_two_columns(p: Place) -> None:
    begin(p, PAIR, THREE)
    p.frame([(None, "hr"), (1, "hr")], PAIR, "named")
    p.sql("UPDATE $o SET dep = 'x', id = -1 WHERE (id, dep) IN (SELECT id, dep FROM named)")
    p.rows("SELECT * FROM $o", (-1, "x"), HARD, NONE)


@case("TestUpdate.testCoalesceUpdate", each=MODES[:1], differs=FILE_BY_FILE)
@case("TestUpdate.testCoalesceUpdate", each=MODES[1:])
def small_pieces_are_written_together(p: Place) -> None:
    spread(p, "", "range")
    with p.conf(AQE | SMALL_PIECES):
        p.sql("UPDATE $o SET id = -1 WHERE mod(id, 2) = 0")
    written_together(p)
    p.rows("SELECT count(*) FROM $o WHERE id = -1", (200,))


@case("TestUpdate.testSkewUpdate", each=MODES[:1], differs=FILE_BY_FILE)
@case("TestUpdate.testSkewUpdate", each=MODES[1:])
def large_pieces_are_written_apart(p: Place) -> None:
    spread(p, "dep", "hash")
    with p.conf(AQE | LARGE_PIECES | {"spark.sql.shuffle.partitions": 2}):
        p.sql("UPDATE $o SET id = -1 WHERE mod(id, 2) = 0")
    written_apart(p)
    p.rows("SELECT count(*) FROM $o WHERE id = -1", (200,))


@case("TestUpdate.testExplain", each=one_mode("testExplain"))
def explained_updates_change_nothing(p: Place) -> None:
    begin(p, PAIR, THREE)
    for condition in ("id <=> 1", "true"):
        p.sql(f"EXPLAIN UPDATE $o SET dep = 'invalid' WHERE {condition}")
    assert len(p.snapshots()) == 1
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


@case("TestUpdate.testUpdateEmptyTable", each=one_mode("testUpdateEmptyTable"), differs=NOTHING)
def nothing_is_updated_in_an_empty_table(p: Place) -> None:
    begin(p, PAIR)
    p.sql("UPDATE $t SET dep = 'x' WHERE id IN (1)", "UPDATE $t SET id = -1 WHERE dep = 'hr'")
    assert len(p.snapshots()) == 2
    p.rows("SELECT * FROM $t")


@case(
    "TestUpdate.testUpdateNonExistingCustomBranch",
    each=one_mode("testUpdateNonExistingCustomBranch"),
)
def a_branch_to_update_must_exist(p: Place) -> None:
    begin(p, PAIR)
    p.fails("UPDATE $t.branch_test SET dep = 'invalid' WHERE id IN (1)", "test")


APART = "known gap: rows that Spark's SQL computes are written into a file of their own"


@case("TestUpdate.testUpdateWithDynamicFileFiltering", each=[(m, "= 2") for m in MODES])
@case(
    "TestUpdate.testUpdateWithInSubqueryAndDynamicFileFiltering",
    each=[(MODES[1], "IN (SELECT * FROM updated_id)")],
)
@case(
    "TestUpdate.testUpdateWithInSubqueryAndDynamicFileFiltering",
    each=[(MODES[0], "IN (SELECT * FROM updated_id)")],
    differs=APART,
)
def only_files_with_matching_rows_are_changed(p: Place) -> None:
    p.each, condition = p.each
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    views(p, updated_id=[-1, 2])
    p.sql(f"UPDATE $o SET id = CAST('-1' AS INT) WHERE id {condition}")
    assert len(p.snapshots()) == 3
    told(p, 1, (1, 1), (1, 1))
    p.rows("SELECT * FROM $o", (-1, "hardware"), (1, "hardware"), HR, (3, "hr"))


@case("TestUpdate.testUpdateNonExistingRecords", each=MODES, differs=NOTHING)
def updates_of_no_rows_are_commits_without_changes(p: Place) -> None:
    begin(p, PAIR, THREE, "dep")
    p.sql("UPDATE $o SET id = -1 WHERE id > 10")
    assert len(p.snapshots()) == 2
    told(p, 0, (None, None), (None, None))
    p.rows("SELECT * FROM $o", HR, HARD, NONE)


@case("TestUpdate.testUpdateWithoutCondition", each=MODES[:1])
@case("TestUpdate.testUpdateWithoutCondition", each=MODES[1:], differs=FILE_BY_FILE)
def all_rows_are_updated(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')", "dep")
    p.sql("ALTER TABLE $t WRITE DISTRIBUTED BY PARTITION")
    put(p, "(2, 'hardware')")
    put(p, "(null, 'hr')")
    p.sql("UPDATE $o SET id = -1")
    summary = head(p)["summary"]
    assert summary["operation"] == "overwrite"
    assert summary["changed-partition-count"] == "2"
    key = "deleted-data-files" if p.each == "copy-on-write" else "added-delete-files"
    assert summary[key] == "3"
    assert summary["added-data-files"] in ("2", "3")
    p.rows("SELECT * FROM $o", (-1, "hardware"), GONE, GONE)


@case(
    "TestUpdate.testUpdateWithMultipleRowGroupsParquet",
    each=one_mode("testUpdateWithMultipleRowGroupsParquet"),
)
def a_row_of_one_of_many_row_groups_is_updated(p: Place) -> None:
    in_many_row_groups(p)
    p.sql("UPDATE $o SET id = -1 WHERE id IN (200, 201)")
    p.rows("SELECT count(*) FROM $o", (200,))


isolated(
    "TestUpdate.testUpdate", "update", "UPDATE $o SET id = -1 WHERE id IN (SELECT * FROM slow)"
)


@case("TestUpdate.testUpdateRefreshesRelationCache", each=MODES)
def cached_views_follow_updates(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (3, 'hr')", "dep")
    put(p, "(1, 'hardware'), (2, 'hardware')")
    p.sql("CREATE OR REPLACE TEMPORARY VIEW tmp AS SELECT * FROM $o WHERE id = 1")
    p.sql("CACHE TABLE tmp")
    p.rows("SELECT * FROM tmp", (1, "hardware"), HR)
    p.sql("UPDATE $o SET id = -1 WHERE id = 1")
    told(p, 2, (2, 2), (2, 2))
    p.rows("SELECT * FROM $o", (-1, "hardware"), GONE, HARD, (3, "hr"))
    p.rows("SELECT * FROM tmp")
    p.sql("UNCACHE TABLE tmp")


@case(
    "TestUpdate.testUpdateThatRequiresGroupingBeforeWrite",
    each=one_mode("testUpdateThatRequiresGroupingBeforeWrite"),
)
def one_task_updates_several_partitions(p: Place) -> None:
    begin(p, PAIR, "(0, 'hr'), (1, 'hr'), (2, 'hr')", "dep")
    for dep in ("ops", "hr", "ops"):
        put(p, f"(0, '{dep}'), (1, '{dep}'), (2, '{dep}')")
    views(p, updated_id=[1, 100])
    with p.conf({"spark.sql.shuffle.partitions": 1}):
        p.sql("UPDATE $o t SET id = -1 WHERE id IN (SELECT * FROM updated_id)")
    p.rows("SELECT count(*), count_if(id = -1) FROM $o", (12, 4))


@case(
    "TestUpdate.testUpdateModifyPartitionSourceField",
    each=one_mode("testUpdateModifyPartitionSourceField"),
)
def updates_move_rows_to_other_partitions(p: Place) -> None:
    begin(p, "id INT, dep STRING, country STRING", "", "bucket(4, id), dep")
    text = "INSERT INTO $o SELECT /*+ COALESCE(1) */ int(id), '{}', 'usa' FROM range(1, 101)"
    p.sql(text.format("hr"))
    branch(p)
    p.sql(text.format("software"), text.format("hardware"))
    p.sql("UPDATE $o SET id = -1 WHERE id IN (10, 11, 12, 13, 14, 15, 16, 17, 18, 19)")
    p.rows("SELECT count(*) FROM $o WHERE id = -1", (30,))


@case(
    "TestUpdate.testUpdateWithStaticPredicatePushdown",
    each=one_mode("testUpdateWithStaticPredicatePushdown"),
)
def files_of_other_partitions_are_not_read(p: Place) -> None:
    begin(p, PAIR, "(1, 'software')", "dep")
    put(p, "(1, 'hr')")
    for path in (p.directory.parent.parent).glob(f"**/{p.namespace}/**/dep=hr/*.parquet"):
        path.unlink()
    p.sql("UPDATE $o SET id = -1 WHERE dep IN ('software') AND id == 1")
    assert head(p)["summary"]["total-records"] in ("2", "3")


@case("TestUpdate.testUpdateWithInvalidUpdates", each=one_mode("testUpdateWithInvalidUpdates"))
def fields_of_lists_and_maps_are_not_set(p: Place) -> None:
    begin(p, "id INT, a ARRAY<STRUCT<c1: INT, c2: INT>>, m MAP<STRING, STRING>", "(0, null, null)")
    for assignment in ("a.c1 = 1", "m.key = 'new_key'"):
        p.fails(f"UPDATE $o SET {assignment}", "struct|nested|field|DATATYPE_MISMATCH")


@case(
    "TestUpdate.testUpdateWithConflictingAssignments",
    each=one_mode("testUpdateWithConflictingAssignments"),
)
def a_column_is_set_once(p: Place) -> None:
    begin(p, "id INT, c STRUCT<n1: INT, n2: STRUCT<dn1: INT, dn2: INT>>", "(0, null)")
    whole = "named_struct('n1', 1, 'n2', named_struct('dn1', 1, 'dn2', 2))"
    for assignments in (
        "t.id = 1, t.c.n1 = 2, t.id = 2",
        "t.c.n1 = 1, t.id = 2, t.c.n1 = 2",
        f"c.n1 = 1, c = {whole}",
    ):
        p.fails(f"UPDATE $o t SET {assignments}", "assignments|twice|more than once")


STRICT = "id INT NOT NULL, s STRUCT<n1: INT NOT NULL, n2: STRUCT<dn1: INT, dn2: INT>> NOT NULL"
ROW = "(0, named_struct('n1', 1, 'n2', named_struct('dn1', 3, 'dn2', 4)))"
ASSIGNMENTS = (
    ("t.id = NULL", "null|safely"),
    ("t.s.n1 = NULL", "null|safely"),
    ("t.s = named_struct('n1', 1)", "n2|output column"),
    ("t.s.n1 = 'str'", "cast"),
    ("t.s.n2 = named_struct('dn3', 1, 'dn1', 2)", "dn2|output column"),
)


@case(
    "TestUpdate.testUpdateWithInvalidAssignmentsAnsi",
    each=one_mode("testUpdateWithInvalidAssignmentsAnsi"),
)
def values_are_stored_as_ansi_says(p: Place) -> None:
    begin(p, STRICT, ROW)
    with p.conf({"spark.sql.storeAssignmentPolicy": "ansi"}):
        for assignment, pattern in ASSIGNMENTS:
            p.fails(f"UPDATE $o t SET {assignment}", pattern)


@case(
    "TestUpdate.testUpdateWithInvalidAssignmentsStrict",
    each=one_mode("testUpdateWithInvalidAssignmentsStrict"),
)
def values_are_stored_as_strict_says(p: Place) -> None:
    begin(p, STRICT, ROW)
    with p.conf({"spark.sql.storeAssignmentPolicy": "strict"}):
        for assignment, pattern in ASSIGNMENTS:
            p.fails(f"UPDATE $o t SET {assignment}", pattern)


@case(
    "TestUpdate.testUpdateWithNonDeterministicCondition",
    each=one_mode("testUpdateWithNonDeterministicCondition"),
)
def conditions_are_deterministic(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')")
    p.fails("UPDATE $o SET id = -1 WHERE id = 1 AND rand() > 0.5", "deterministic")


@case("TestUpdate.testUpdateOnNonIcebergTableNotSupported")
def views_have_no_update(p: Place) -> None:
    p.frame([(-100, -200)], "c1 int, c2 int", "testtable")
    p.fails("UPDATE testtable SET c1 = -1 WHERE c2 = 1", "not support|unsupported|UPDATE")


@case("TestUpdate.testUpdateToWAPBranch", each=one_mode("testUpdateToWAPBranch"))
def updates_go_to_the_branch_that_is_audited(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr'), (2, 'a')")
    p.sql(AUDITED)
    count = "SELECT count(*) FROM {} WHERE dep = '{}'"
    with p.conf(WAP):
        for old, new, main in (("a", "hr", 1), ("hr", "b", 0)):
            p.sql(f"UPDATE $t SET dep = '{new}' WHERE dep = '{old}'")
            for name, number in (("$t", 2), ("$t.branch_wap", 2), ("$t.branch_main", main)):
                p.rows(count.format(name, new), (number,))


@case(
    "TestUpdate.testUpdateToWapBranchWithTableBranchIdentifier",
    each=one_mode("testUpdateToWapBranchWithTableBranchIdentifier"),
)
def a_branch_that_is_named_is_updated(p: Place) -> None:
    begin(p, PAIR, "(1, 'hr')")
    p.sql(AUDITED, "ALTER TABLE $t CREATE BRANCH named")
    with p.conf(WAP):
        p.sql("UPDATE $t.branch_named SET dep = 'software' WHERE dep = 'hr'")
        p.rows("SELECT * FROM $t.branch_named", (1, "software"))
