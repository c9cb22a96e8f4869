"""Branches and tags: ALTER TABLE, and CALL fast_forward."""

from tests.sql.java_topics.harness import Place, case


def ref(p: Place, name: str) -> tuple[object, ...]:
    """Return the snapshot; snapshots to keep, age of snapshots and age of the ref."""
    keys = ("snapshot-id", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
    return tuple(p.refs()[name].get(key) for key in keys)


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
