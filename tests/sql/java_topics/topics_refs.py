"""Branches and tags."""

from tests.sql.java_topics.harness import Place, case

DAY = 86_400_000


def table(p: Place) -> None:
    p.sql("CREATE TABLE $t (id int, data string) USING iceberg")
    insert(p)


def insert(p: Place) -> None:
    p.sql("INSERT INTO $t VALUES (1, 'a'), (2, 'b')")


def ref(p: Place, name: str) -> tuple[object, ...]:
    """Return snapshots to keep, age of snapshots and age of the ref."""
    keys = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
    return tuple(p.refs()[name].get(key) for key in keys)


def created(method: str, clause: str, *expected: int | None) -> None:
    @case(f"TestBranchDDL.{method}")
    def a_branch_keeps_what_its_clauses_say(p: Place) -> None:
        table(p)
        p.sql(f"ALTER TABLE $t CREATE BRANCH b1 {clause}")
        assert p.refs()["b1"]["snapshot-id"] == p.snapshots()[-1]
        assert ref(p, "b1") == expected
        p.fails("ALTER TABLE $t CREATE BRANCH b1", "b1.* already exists")
        p.sql("ALTER TABLE $t CREATE BRANCH IF NOT EXISTS b1")
        assert ref(p, "b1") == expected


created("testCreateBranchUseDefaultConfig", "", None, None, None)
created("testCreateBranchIfNotExists", "WITH SNAPSHOT RETENTION 2 DAYS", None, 2 * DAY, None)
