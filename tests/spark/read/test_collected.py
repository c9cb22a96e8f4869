"""The source of a MERGE in the driver's memory: for frames that Spark expects to be small, with the
rows and types of staged ones.
"""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.spark.dml import small_source, staging
from frazil.spark.dml.small_source import collect
from frazil.spark.host.jvm_plans import taking_nulls
from frazil.spark.tasks.spark_runner import RUN_IN
from frazil.storage import storage_for
from tests.builders.files_on_disk import leftovers

pytestmark = pytest.mark.spark

WIDE = (
    "select id, cast(id as int) i, id / 2 as half, cast(id as decimal(20,2)) d, cast(id as string) s, binary(cast(id as string)) b, "
    "date'2020-01-01' + cast(id as int) day, timestamp'2020-01-01 00:00:00' ts, timestamp_ntz'2020-01-01 00:00:00' tn, id % 2 = 0 as even, "
    "struct(1 as a, array(1, null) as b) st, map('k', 1.5D) m, array(struct(id)) l, id as i, null n from range(5)"
)


@pytest.mark.versions
def test_collected_rows_are_those_of_a_staged_frame(session, tmp_path):
    folder, storage = str(tmp_path / "staged"), storage_for(str(tmp_path), {})
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    for frame in map(taking_nulls, (session.sql(WIDE), session.sql(WIDE).limit(0))):
        found, staged = collect(frame, folder), staging.stage(frame, folder, storage)
        assert (
            found.table.schema.equals(staged.schema) and found.spark_schema == staged.spark_schema
        )
        again = found.staged(folder, storage)
        assert (
            sum(f.rows for f in again.files) == again.rows == staged.rows
            and again.values == staged.values
        )
        if staged.files:
            parts = [staging.open_file(staged, n) for n in range(len(staged.files))]
            assert (
                staging.open_file(again, 0)
                .combine_chunks()
                .equals(pa.concat_tables(parts).combine_chunks())
            )
            assert found.source.table.to_pylist() == found.table.to_pylist()
        assert [r.asDict() for r in staging.as_frame(session, again, "number").collect()] == [
            r.asDict() for r in staging.as_frame(session, staged, "number").collect()
        ]


def test_variants_are_staged_since_pyspark_hands_none_of_their_nulls_to_arrow(session):
    for value in ("parse_json('[1]')", "array(parse_json('[1]'))", "struct(parse_json('[1]'))"):
        assert collect(session.sql(f"select {value} v"), "/t") is None


def test_a_frame_that_spark_would_not_broadcast_is_not_collected(session):
    small, large = session.range(10), session.range(10_000_000)
    assert collect(small, "/t").table.num_rows == 10 and collect(large, "/t") is None
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "64")
    assert collect(small, "/t") is None
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    assert collect(session.range(0), "/t") is None


def test_rows_that_are_more_than_spark_takes_are_staged(session, catalog, monkeypatch):
    asked = []

    def refused(*_):
        asked.append(1)
        raise RuntimeError(
            "Total size of serialized results of 2 tasks is bigger than spark.driver.maxResultSize"
        )

    monkeypatch.setattr(small_source, "interruptible", refused)
    catalog.create_namespace("db")
    t = catalog.create_table("db.t", "id bigint")
    result = (
        t.merge(session.range(5), "target.id = source.id").when_not_matched_insert_all().execute()
    )
    assert asked and result.rows_inserted == 5 and leftovers(t) == []


def test_a_failed_evaluation_is_its_own_error(session, catalog):
    catalog.create_namespace("db")
    t = catalog.create_table("db.t", "id bigint")
    frame = session.range(10).select(
        F.expr("if(id = 9, raise_error('no such luck'), id)").alias("id")
    )
    with pytest.raises(Exception, match="no such luck"):
        t.merge(frame, "target.id = source.id").when_not_matched_insert_all().execute()
    assert len(t.refresh().snapshots()) == 0 and leftovers(t) == []


def test_a_merge_by_spark_sql_takes_collected_rows_too(session, catalog):
    catalog.create_namespace("db")
    source, found = session.range(3, 8).selectExpr("id", "concat('s', id) s"), []
    for choice in ("driver", "spark"):
        session.conf.set(RUN_IN, choice)
        t = catalog.create_table(f"db.{choice}", "id bigint, s string")
        t.append(session.range(5).selectExpr("id", "cast(id as string) s"))
        merge = (
            t.merge(source, "target.id = source.id and levenshtein('a', 'b') = 1")
            .when_matched_update_all()
            .when_not_matched_insert_all()
        )
        result = merge.execute()
        found.append({r["id"]: r["s"] for r in t.refresh().scan().to_arrow().to_pylist()})
        assert (result.rows_updated, result.rows_inserted) == (2, 3) and leftovers(t) == []
    assert found[0] == found[1] == {i: f"{i if i < 3 else f's{i}'}" for i in range(8)}
