"""`CHANGES` and `spark.read.changes` of Spark 4.2 and 4.3 over the changelog of a table."""

import pytest

from frazil.errors import InvalidInput

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


def test_read_changes_takes_the_same_as_options(spark, lake, ids):
    reader = spark.read.option("startingVersion", str(ids[1])).option("endingVersion", str(ids[2]))
    frame = reader.changes(f"{lake}.db.t").filter("id = 2").select("_change_type", "g")
    assert sorted(map(tuple, frame.collect())) == [("delete", "b"), ("insert", "c")]
    assert spark.read.changes(f"{lake}.db.t").count() == 6
    with pytest.raises(InvalidInput, match="nonsense"):
        spark.read.option("nonsense", "1").changes(f"{lake}.db.t").count()
    with pytest.raises(InvalidInput, match="FROM and TO"):
        spark.read.option("start-snapshot-id", "1").changes(f"{lake}.db.t").count()
