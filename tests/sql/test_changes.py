"""`CHANGES` and `spark.read.changes` of Spark 4.2 and 4.3 over the changelog of a table."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException

from frazil.errors import InvalidInput, NoSuchRefError

pytestmark = [pytest.mark.spark, pytest.mark.versions]


@pytest.fixture(autouse=True)
def has_changes(spark):
    if str(spark.version) < "4.2":
        pytest.skip("Spark 4.1 has no CHANGES")


@pytest.fixture
def ids(run, table_of):
    """The snapshots of lake.db.t: two inserts, an update, a delete, an insert."""
    run("CREATE TABLE lake.db.t (id INT NOT NULL, g STRING) USING iceberg")
    run("ALTER TABLE lake.db.t SET IDENTIFIER FIELDS id")
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    run("UPDATE lake.db.t SET g = 'c' WHERE id = 2")
    run("DELETE FROM lake.db.t WHERE id = 1")
    run("INSERT INTO lake.db.t VALUES (3, 'd')")
    return [s.snapshot_id for s in table_of("db.t").snapshots()]


INSERTED = [(1, "a", "insert"), (2, "b", "insert")]
UPDATED = [(2, "b", "delete"), (2, "c", "insert")]
DELETED = [(1, "a", "delete")]
ADDED = [(3, "d", "insert")]


def test_the_range_is_said_by_versions_or_times(run, ids, table_of):
    def changes(which):
        text = f"SELECT id, g, _change_type FROM lake.db.t CHANGES FROM {which}"
        return sorted(run(text))

    first, update, delete, _ = ids
    assert changes(f"VERSION {first}") == sorted(INSERTED + UPDATED + DELETED + ADDED)
    assert changes(f"VERSION {update} TO VERSION {delete}") == sorted(UPDATED + DELETED)
    assert changes(f"VERSION {first} EXCLUSIVE TO VERSION {delete} EXCLUSIVE") == sorted(UPDATED)
    run("ALTER TABLE lake.db.t CREATE TAG v1")
    assert changes("VERSION 'v1'") == ADDED
    t = table_of("db.t")
    times = [t.snapshot_by_id(i).timestamp_ms / 1000 for i in (update, delete)]
    start, end = (f"'{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S.%f}'" for t in times)
    assert changes(f"TIMESTAMP {start} TO TIMESTAMP {end}") == sorted(UPDATED + DELETED)
    assert changes(f"TIMESTAMP {start} EXCLUSIVE") == sorted(DELETED + ADDED)
    with pytest.raises(NoSuchRefError):
        changes("VERSION 5")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM lake.db.no CHANGES FROM VERSION 5")


def test_updates_and_net_changes(run, ids):
    text = f"SELECT id, g, _change_type FROM lake.db.t CHANGES FROM VERSION {ids[0]} WITH "
    told = [(2, "b", "update_preimage"), (2, "c", "update_postimage")]
    assert sorted(run(text + "('computeUpdates' = 'true')")) == sorted(
        INSERTED + told + DELETED + ADDED
    )
    net = [(2, "c", "insert"), (3, "d", "insert")]
    assert sorted(run(text + "('deduplicationMode' = 'netChanges')")) == net
    since = text.replace(f"{ids[0]} ", f"{ids[0]} EXCLUSIVE ")
    both = "('deduplicationMode' = 'netChanges', 'computeUpdates' = 'true')"
    assert sorted(run(since + both)) == sorted(DELETED + told + ADDED)
    assert sorted(run(text + both)) == net


def test_each_change_names_its_snapshot(run, ids, table_of):
    text = f"SELECT DISTINCT _commit_version, unix_millis(_commit_timestamp) FROM lake.db.t CHANGES FROM VERSION {ids[0]}"
    expected = [(s.snapshot_id, s.timestamp_ms) for s in table_of("db.t").snapshots()]
    assert sorted(run(text)) == sorted(expected)


def test_read_changes_takes_the_same_as_options(spark, lake, ids):
    reader = spark.read.option("startingVersion", str(ids[1])).option("endingVersion", str(ids[2]))
    frame = reader.changes(f"{lake}.db.t").filter("id = 2").select("_change_type", "g")
    assert sorted(map(tuple, frame.collect())) == [("delete", "b"), ("insert", "c")]
    assert spark.read.changes(f"{lake}.db.t").count() == 6
    with pytest.raises(InvalidInput, match="nonsense"):
        spark.read.option("nonsense", "1").changes(f"{lake}.db.t").count()
    with pytest.raises(InvalidInput, match="FROM and TO"):
        spark.read.option("start-snapshot-id", "1").changes(f"{lake}.db.t").count()


def test_changes_of_a_branch_and_in_views_scripts_and_joins(run, spark, ids):
    run("ALTER TABLE lake.db.t CREATE BRANCH audit")
    run("INSERT INTO lake.db.t.branch_audit VALUES (9, 'z')")
    of = f"lake.db.t CHANGES FROM VERSION {ids[3]}"
    assert run(f"SELECT count(*) FROM {of}") == [(1,)]
    assert run(f"SELECT count(*) FROM {of} WITH ('branch' = 'audit')") == [(2,)]
    run(f"CREATE OR REPLACE TEMPORARY VIEW late AS SELECT * FROM {of}")
    run("INSERT INTO lake.db.t VALUES (4, 'e')")
    assert run("SELECT count(*) FROM late") == [(2,)]
    script = f"BEGIN INSERT INTO lake.db.t VALUES (5, 'f'); SELECT count(*) FROM {of}; END"
    assert run(script) == [(3,)]
    assert run(f"SELECT t.g FROM {of} c JOIN lake.db.t t ON c.id = t.id WHERE c.id = 4") == [("e",)]
    with pytest.raises(InvalidInput, match="asked of a table"):
        run(f"SELECT * FROM lake.db.t.files CHANGES FROM VERSION {ids[0]}")
    spark.catalog.dropTempView("late")
