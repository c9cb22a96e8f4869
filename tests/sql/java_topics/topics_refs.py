"""Branches and tags: ALTER TABLE, and CALL fast_forward."""

from tests.sql.java_topics.harness import Place, case

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
REFUSED = "syntax|viable|mismatched|expecting|expected"  # by the parser
UNITS = {"DAYS": DAY, "HOURS": HOUR, "MINUTES": MINUTE}


def insert(p: Place) -> int:
    p.sql("INSERT INTO $t VALUES (1, 'a'), (2, 'b')")
    return p.snapshots()[-1]


def table(p: Place) -> int:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    return insert(p)


def ref(p: Place, name: str) -> tuple[object, ...]:
    """Return the snapshot; snapshots to keep, age of snapshots and age of the ref."""
    keys = ("snapshot-id", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
    return tuple(p.refs()[name].get(key) for key in keys)


def created(method: str, clause: str, *expected: int | None, refused: tuple[str, ...] = ()) -> None:
    @case(f"TestBranchDDL.{method}")
    def a_branch_keeps_what_its_clauses_say(p: Place) -> None:
        head = table(p)
        p.sql(f"ALTER TABLE $t CREATE BRANCH b1 {clause}".replace("HEAD", str(head)))
        assert ref(p, "b1") == (head, *expected)
        p.fails("ALTER TABLE $t CREATE BRANCH b1", "b1.* already exists")
        p.sql("ALTER TABLE $t CREATE BRANCH IF NOT EXISTS b1")
        assert ref(p, "b1") == (head, *expected)
        for clause_refused in refused:
            p.fails(f"ALTER TABLE $t CREATE BRANCH b2 {clause_refused}", REFUSED)


created(
    "testCreateBranch",
    "AS OF VERSION HEAD RETAIN 10 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 2 days",
    *(2, 2 * DAY, 10 * DAY),
)
created("testCreateBranchUseDefaultConfig", "", None, None, None)
created(
    "testCreateBranchUseCustomMinSnapshotsToKeep",
    "WITH SNAPSHOT RETENTION 2 SNAPSHOTS",
    *(2, None, None),
)
created(
    "testCreateBranchUseCustomMaxSnapshotAge",
    "WITH SNAPSHOT RETENTION 2 DAYS",
    *(None, 2 * DAY, None),
)
created("testCreateBranchIfNotExists", "WITH SNAPSHOT RETENTION 2 DAYS", None, 2 * DAY, None)
created(
    "testCreateBranchUseCustomMinSnapshotsToKeepAndMaxSnapshotAge",
    "WITH SNAPSHOT RETENTION 2 SNAPSHOTS 2 DAYS",
    *(2, 2 * DAY, None),
    refused=("WITH SNAPSHOT RETENTION",),
)
created(
    "testCreateBranchUseCustomMaxRefAge",
    "RETAIN 10 DAYS",
    *(None, None, 10 * DAY),
    refused=("RETAIN", "RETAIN abc DAYS", "RETAIN 10 SECONDS"),
)


@case("TestBranchDDL.testCreateBranchOnEmptyTable", each=("CREATE", "CREATE OR REPLACE"))
@case("TestBranchDDL.testCreateOrReplaceBranchOnEmptyTable", each=("CREATE OR REPLACE",))
def a_branch_of_an_empty_table_is_an_empty_snapshot(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    p.sql(f"ALTER TABLE $t {p.each} BRANCH b1")
    assert set(p.refs()) == {"b1"}
    assert ref(p, "b1")[1:] == (None, None, None)
    snapshot = p.snapshot(ref="b1")
    assert "parent-snapshot-id" not in snapshot
    assert snapshot["summary"].get("total-data-files", "0") == "0"


@case("TestBranchDDL.testDropBranch")
def a_branch_is_dropped(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t CREATE BRANCH b1", "ALTER TABLE $t DROP BRANCH b1")
    assert "b1" not in p.refs()


@case("TestBranchDDL.testDropBranchDoesNotExist")
def a_branch_that_is_dropped_must_exist(p: Place) -> None:
    table(p)
    p.fails("ALTER TABLE $t DROP BRANCH nonExistingBranch", "branch.*nonExistingBranch|nonExisting")


@case("TestBranchDDL.testDropBranchFailsForTag")
def a_tag_is_not_dropped_as_a_branch(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t CREATE TAG b1")
    p.fails("ALTER TABLE $t DROP BRANCH b1", "b1.* is a tag")


@case("TestBranchDDL.testDropBranchNonConformingName")
@case("TestTagDDL.testDropTagNonConformingName")
def a_number_is_no_name_of_a_ref(p: Place) -> None:
    table(p)
    p.fails("ALTER TABLE $t DROP BRANCH 123", REFUSED, "123")
    p.fails("ALTER TABLE $t DROP TAG 123", REFUSED, "123")


@case("TestBranchDDL.testDropMainBranchFails")
def main_is_not_dropped(p: Place) -> None:
    table(p)
    p.fails("ALTER TABLE $t DROP BRANCH main", "main")


@case("TestBranchDDL.testDropBranchIfExists")
def dropping_a_branch_if_it_exists_changes_nothing_otherwise(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t DROP BRANCH IF EXISTS nonExistingBranch")
    assert set(p.refs()) == {"main"}


@case("TestBranchDDL.createOrReplace")
@case("TestReplaceBranch.testCreateOrReplace")
def a_branch_that_exists_is_replaced(p: Place) -> None:
    first = table(p)
    insert(p)
    p.sql("ALTER TABLE $t CREATE BRANCH b1")
    p.sql("ALTER TABLE $t CREATE OR REPLACE BRANCH b1 AS OF VERSION $v", v=first)
    assert ref(p, "b1")[0] == first


@case("TestBranchDDL.createOrReplaceWithNonExistingBranch")
def a_branch_that_does_not_exist_is_created_by_or_replace(p: Place) -> None:
    table(p)
    second = insert(p)
    p.sql("ALTER TABLE $t CREATE OR REPLACE BRANCH b1 AS OF VERSION $v", v=second)
    assert ref(p, "b1")[0] == second


@case("TestBranchDDL.replaceBranch")
@case("TestReplaceBranch.testReplaceBranch")
def a_replaced_branch_keeps_its_retention(p: Place) -> None:
    first = table(p)
    p.sql(
        "ALTER TABLE $t CREATE BRANCH b1 AS OF VERSION $v RETAIN 1 MINUTES"
        " WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 MINUTES",
        v=first,
    )
    second = insert(p)
    p.sql("ALTER TABLE $t REPLACE BRANCH b1 AS OF VERSION $v", v=second)
    assert ref(p, "b1") == (second, 2, 3 * MINUTE, MINUTE)


@case("TestBranchDDL.replaceBranchDoesNotExist")
@case("TestReplaceBranch.testReplaceBranchDoesNotExist")
def a_branch_that_is_replaced_must_exist(p: Place) -> None:
    head = table(p)
    p.fails("ALTER TABLE $t REPLACE BRANCH someBranch AS OF VERSION $v", "someBranch", v=head)


@case("TestReplaceBranch.testReplaceBranchFailsForTag")
def a_tag_is_not_replaced_as_a_branch(p: Place) -> None:
    first = table(p)
    p.sql("ALTER TABLE $t CREATE TAG tag1 AS OF VERSION $v", v=first)
    second = insert(p)
    p.fails("ALTER TABLE $t REPLACE BRANCH tag1 AS OF VERSION $v", "tag1.* is a tag", v=second)


def replaced(method: str, clause: str, *expected: int | None) -> None:
    @case(f"TestReplaceBranch.{method}")
    def a_replaced_branch_gets_the_retention_that_is_said(p: Place) -> None:
        first = table(p)
        p.sql("ALTER TABLE $t CREATE BRANCH b1 AS OF VERSION $v", v=first)
        second = insert(p)
        text = f"ALTER TABLE $t REPLACE BRANCH b1 AS OF VERSION {second} {clause}"
        snapshots, *ages = expected
        for name, unit in UNITS.items():
            p.sql(text.replace("UNIT", name))
            kept = (second, snapshots, *(age and age * unit for age in ages))
            assert ref(p, "b1") == kept


replaced("testReplaceBranchWithRetain", "RETAIN 10 UNIT", None, None, 10)
replaced(
    "testReplaceBranchWithSnapshotRetention",
    "WITH SNAPSHOT RETENTION 2 SNAPSHOTS 2 UNIT",
    *(2, 2, None),
)
replaced(
    "testReplaceBranchWithRetainAndSnapshotRetention",
    "RETAIN 10 UNIT WITH SNAPSHOT RETENTION 2 SNAPSHOTS 2 UNIT",
    *(2, 2, 10),
)


@case("TestTagDDL.testCreateTagWithRetain")
def a_tag_keeps_its_age(p: Place) -> None:
    first = table(p)
    insert(p)
    for name, unit in UNITS.items():
        p.sql(f"ALTER TABLE $t CREATE TAG t_{name} AS OF VERSION {first} RETAIN 10 {name}")
        assert ref(p, f"t_{name}") == (first, None, None, 10 * unit)
    for clause in ("RETAIN", "RETAIN abc DAYS", f"AS OF VERSION {first} RETAIN 10 SECONDS"):
        p.fails(f"ALTER TABLE $t CREATE TAG t2 {clause}", REFUSED)


@case("TestTagDDL.testCreateTagOnEmptyTable")
def an_empty_table_has_nothing_to_tag(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    p.fails("ALTER TABLE $t CREATE TAG abc", "no snapshot")


@case("TestTagDDL.testCreateTagUseDefaultConfig")
def a_tag_is_of_the_current_snapshot_or_the_one_said(p: Place) -> None:
    first = table(p)
    p.fails("ALTER TABLE $t CREATE TAG t1 AS OF VERSION -1", "")
    p.fails("ALTER TABLE $t CREATE TAG t1 AS OF VERSION 1", "snapshot")
    p.sql("ALTER TABLE $t CREATE TAG t1")
    assert ref(p, "t1") == (first, None, None, None)
    p.fails("ALTER TABLE $t CREATE TAG t1", "already exists")
    p.fails("ALTER TABLE $t CREATE TAG 123", REFUSED, "123")
    p.sql("ALTER TABLE $t DROP TAG t1")
    second = insert(p)
    p.sql("ALTER TABLE $t CREATE TAG t1 AS OF VERSION $v", v=second)
    assert ref(p, "t1") == (second, None, None, None)


@case("TestTagDDL.testCreateTagIfNotExists")
def a_tag_that_exists_stays(p: Place) -> None:
    first = table(p)
    p.sql(
        "ALTER TABLE $t CREATE TAG t1 RETAIN 2 days", "ALTER TABLE $t CREATE TAG IF NOT EXISTS t1"
    )
    assert ref(p, "t1") == (first, None, None, 2 * DAY)


@case("TestTagDDL.testReplaceTagFailsForBranch")
@case("TestTagDDL.testDropTagFailesForBranch")
def a_branch_is_no_tag(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t CREATE BRANCH branch1")
    insert(p)
    p.fails("ALTER TABLE $t REPLACE Tag branch1", "branch1.* is a branch")
    p.fails("ALTER TABLE $t DROP TAG branch1", "branch1.* is a branch")


@case("TestTagDDL.testReplaceTag")
def a_replaced_tag_keeps_its_age(p: Place) -> None:
    first = table(p)
    p.sql("ALTER TABLE $t CREATE TAG t1 AS OF VERSION $v RETAIN 1 MINUTES", v=first)
    second = insert(p)
    p.sql("ALTER TABLE $t REPLACE Tag t1 AS OF VERSION $v", v=second)
    assert ref(p, "t1") == (second, None, None, MINUTE)


@case("TestTagDDL.testReplaceTagDoesNotExist")
def a_tag_that_is_replaced_must_exist(p: Place) -> None:
    head = table(p)
    p.fails("ALTER TABLE $t REPLACE Tag someTag AS OF VERSION $v", "someTag|Tag does not", v=head)


@case("TestTagDDL.testReplaceTagWithRetain")
def a_replaced_tag_gets_the_age_that_is_said(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t CREATE TAG t1")
    second = insert(p)
    for name, unit in UNITS.items():
        p.sql(f"ALTER TABLE $t REPLACE TAG t1 AS OF VERSION {second} RETAIN 10 {name}")
        assert ref(p, "t1") == (second, None, None, 10 * unit)


@case("TestTagDDL.testCreateOrReplace")
@case("TestTagDDL.createOrReplaceWithNonExistingTag")
def a_tag_is_created_or_replaced(p: Place) -> None:
    first = table(p)
    second = insert(p)
    for version in (second, first):
        p.sql("ALTER TABLE $t CREATE OR REPLACE TAG t1 AS OF VERSION $v", v=version)
        assert ref(p, "t1")[0] == version


@case("TestTagDDL.testDropTag")
@case("TestTagDDL.testDropTagIfExists")
def a_tag_is_dropped(p: Place) -> None:
    table(p)
    p.sql("ALTER TABLE $t DROP TAG IF EXISTS t1", "ALTER TABLE $t CREATE TAG t1")
    assert set(p.refs()) == {"main", "t1"}
    p.sql("ALTER TABLE $t DROP TAG IF EXISTS t1")
    assert set(p.refs()) == {"main"}
    p.sql("ALTER TABLE $t CREATE TAG t1", "ALTER TABLE $t DROP TAG t1")
    assert set(p.refs()) == {"main"}


@case("TestTagDDL.testDropTagDoesNotExist")
def a_tag_that_is_dropped_must_exist(p: Place) -> None:
    table(p)
    p.fails("ALTER TABLE $t DROP TAG nonExistingTag", "nonExistingTag")


AB, ABC = [(1, "a"), (2, "b")], [(1, "a"), (2, "b"), (3, "c")]
ALL = "SELECT * FROM $t ORDER BY id"


def branched(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int NOT NULL, data string) USING iceberg")
    p.sql("INSERT INTO TABLE $t VALUES (1, 'a')", "INSERT INTO TABLE $t VALUES (2, 'b')")
    p.sql("ALTER TABLE $t CREATE BRANCH testBranch")
    p.sql("INSERT INTO TABLE $t.branch_testBranch VALUES (3, 'c')")
    p.rows(ALL, *AB)
    p.rows("SELECT * FROM $t.branch_testBranch ORDER BY id", *ABC)


@case("TestFastForwardBranchProcedure.testFastForwardBranchUsingPositionalArgs", on=("sql", "path"))
def main_moves_forward_to_a_branch(p: Place) -> None:
    branched(p)
    before, after = ref(p, "main")[0], ref(p, "testBranch")[0]
    p.rows("CALL $c.system.fast_forward('$db.t', 'main', 'testBranch')", ("main", before, after))
    p.rows(ALL, *ABC)


@case("TestFastForwardBranchProcedure.testFastForwardBranchUsingNamedArgs")
def arguments_have_names(p: Place) -> None:
    branched(p)
    p.sql("CALL $c.system.fast_forward(table => '$db.t', branch => 'main', to => 'testBranch')")
    p.rows(ALL, *ABC)


@case("TestFastForwardBranchProcedure.testFastForwardWhenTargetIsNotAncestorFails")
def branches_that_went_apart_are_not_joined(p: Place) -> None:
    branched(p)
    p.sql("INSERT INTO TABLE $t VALUES (4, 'd')")
    p.fails(
        "CALL $c.system.fast_forward(table => '$db.t', branch => 'main', to => 'testBranch')",
        "ancestor",
    )


@case("TestFastForwardBranchProcedure.testInvalidFastForwardBranchCases")
def wrong_arguments_are_told(p: Place) -> None:
    call = "CALL $c.system.fast_forward"
    p.fails(
        f"{call}(table => 'test_table', 'main', to => 'newBranch')",
        "UNEXPECTED_POSITIONAL_ARGUMENT",
    )
    p.fails(
        "CALL $c.custom.fast_forward('test_table', 'main', 'newBranch')",
        "FAILED_TO_LOAD_ROUTINE|ROUTINE_NOT_FOUND",
    )
    p.fails(f"{call}('test_table', 'main')", "REQUIRED_PARAMETER_NOT_FOUND", "`to`")
    p.fails(f"{call}('', 'main', 'newBranch')", "empty", "table")


@case("TestFastForwardBranchProcedure.testFastForwardNonExistingToRefFails")
def the_branch_to_go_to_must_exist(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int NOT NULL, data string) USING iceberg")
    p.fails("CALL $c.system.fast_forward('$db.t', 'main', 'non_existing')", "non_existing")


@case("TestFastForwardBranchProcedure.testFastForwardNonMain")
def any_branch_moves_forward(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int NOT NULL, data string) USING iceberg")
    p.sql("INSERT INTO TABLE $t VALUES (1, 'a')", "ALTER TABLE $t CREATE BRANCH branch1")
    p.sql("INSERT INTO TABLE $t.branch_branch1 VALUES (2, 'b')")
    first = ref(p, "branch1")[0]
    p.sql("ALTER TABLE $t CREATE BRANCH branch2 AS OF VERSION $v", v=first)
    p.sql("INSERT INTO TABLE $t.branch_branch2 VALUES (3, 'c')")
    p.rows(
        "CALL $c.system.fast_forward('$db.t', 'branch1', 'branch2')",
        ("branch1", first, ref(p, "branch2")[0]),
    )


@case("TestFastForwardBranchProcedure.testFastForwardNonExistingFromMainCreatesBranch")
def a_branch_that_does_not_exist_is_created(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int NOT NULL, data string) USING iceberg")
    p.sql("ALTER TABLE $t CREATE BRANCH branch1")
    p.sql("INSERT INTO $t.branch_branch1 VALUES (1, 'a')")
    p.sql("INSERT INTO $t.branch_branch1 VALUES (2, 'b')")
    head = ref(p, "branch1")[0]
    p.rows("CALL $c.system.fast_forward('$db.t', 'main', 'branch1')", ("main", None, head))
    p.rows("CALL $c.system.fast_forward('$db.t', 'branch2', 'branch1')", ("branch2", None, head))
