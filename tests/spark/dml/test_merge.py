"""MERGE and upsert whose tasks Spark runs: the source staged once, joined in the tasks, the same
rows as without Spark.
"""

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from frazil.errors import EvaluationError, InvalidInput
from frazil.spark.dml import merge_by_sql as row_changes_merge
from frazil.spark.engine import engine
from tests.builders.files_on_disk import leftovers

pytestmark = pytest.mark.spark
MODES = ["copy-on-write", "merge-on-read"]


@pytest.fixture(autouse=True)
def in_tasks(monkeypatch):
    """What the grammar knows is joined in the tasks, never by Spark."""

    def refuse(*_, **__):
        raise AssertionError("Spark was asked to join")

    monkeypatch.setattr(row_changes_merge, "merge", refuse)


@pytest.fixture
def table(catalog):
    def make(version=2, **more):
        catalog.create_namespace_if_not_exists("db")
        t = catalog.create_table(
            "db.t", "id bigint, v int, name string", format_version=version, **more
        )
        for first in (0, 10):
            t.append(frame(range(first, first + 10)))
        return t

    return make


def frame(ids, v=1, name="t"):
    ids = list(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([v] * len(ids), pa.int32()),
            "name": [name] * len(ids),
        }
    )


def state(t):
    return {r["id"]: (r["v"], r["name"]) for r in t.refresh().to_arrow().to_pylist()}


@pytest.fixture
def t(table):
    return table()


@pytest.mark.parametrize(
    "version, mode",
    [(1, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")],
)
def test_a_frame_of_spark_is_merged_by_tasks(table, session, version, mode):
    t = table(version, partition_by=["bucket(2, id)"])
    source = session.range(5, 25).selectExpr("id", "cast(id as int) as v", "'s' as name")
    result = (
        t.merge(source, "target.id = source.id and target.id <> 7")
        .when_matched_delete("source.v = 6")
        .when_matched_update(
            {"v": "target.v + source.v", "name": "concat(target.name, source.name)"}
        )
        .when_not_matched_insert_all("source.id >= 20")
        .when_not_matched_by_source_update({"name": "'old'"}, "id < 3")
        .execute(mode)
    )
    wanted = (
        dict.fromkeys(range(20), (1, "t"))
        | {i: (1 + i, "ts") for i in range(5, 20) if i != 7}
        | {i: (i, "s") for i in range(20, 25)}
    )
    wanted |= dict.fromkeys(range(3), (1, "old"))
    del wanted[6]
    assert state(t) == wanted and leftovers(t) == []
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (5, 16, 1)
    assert (
        result.summary["engine-name"] == "spark"
        and result.summary["spark.merge-into.num-target-rows-not-matched-by-source-updated"] == "3"
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_source_that_is_never_the_same_is_evaluated_once(t, session, mode):
    source = session.range(0, 40).select(
        "id", (F.rand() * 1_000_000).cast("int").alias("v"), F.lit("s").alias("name")
    )
    again = source.where("v % 2 = 0")  # another evaluation would choose other rows
    t.merge(
        again, "target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute(mode)
    assert all(v % 2 == 0 for v, name in state(t).values() if name == "s")
    assert len(state(t)) == t.scan().count()


@pytest.mark.parametrize("travels", [True, False])
def test_arrow_frames_travel_with_the_tasks_or_lie_beside_the_table(
    table, session, monkeypatch, travels
):
    if not travels:
        monkeypatch.setattr(engine, "WITH_TASKS", 0)
    t = table()
    t.merge(
        frame(range(18, 22), 9), "target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute("merge-on-read")
    assert [state(t)[i][0] for i in (17, 18, 19, 20, 21)] == [1, 9, 9, 9, 9] and leftovers(t) == []


def test_an_error_in_a_task_is_the_project_s_own_and_leaves_no_file(t, session):
    twice = session.range(0, 4).selectExpr("id % 2 as id", "1 as v", "'s' as name")
    with pytest.raises(InvalidInput, match=r"ambiguous.*id = 0 \(2 source rows\)"):
        t.merge(
            twice, "target.id = source.id"
        ).when_matched_update_all().when_not_matched_insert_all().execute()
    big = session.range(0, 3).selectExpr("id", "id + 3000000000 as v", "'s' as name")
    with pytest.raises(EvaluationError, match="Column v"):
        t.merge(big, "target.id = source.id").when_matched_update_all().execute()
    with pytest.raises(InvalidInput, match="keys more than once"):
        t.upsert(twice, ["id"])
    assert leftovers(t) == [] and len(t.refresh().snapshots()) == 2


def test_an_upsert_of_a_frame_of_spark(t, session):
    source = session.range(15, 25).selectExpr("id", "1 as v", "if(id = 16, 'new', 't') as name")
    result = t.upsert(source, ["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 5) and state(t)[16] == (1, "new")


def test_an_empty_source_and_a_table_that_gains_columns(t, session):
    none = session.range(0).selectExpr("id", "1 as v", "'s' as name")
    assert (
        t.merge(none, "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
        .snapshot_id
        is None
    )
    wider = session.range(19, 21).selectExpr(
        "id", "2 as v", "'w' as name", "timestamp '2020-01-01 00:00:00' as at"
    )
    t.merge(
        wider, "target.id = source.id", merge_schema=True
    ).when_matched_update_all().when_not_matched_insert_all().execute("merge-on-read")
    found = {r["id"]: r["at"] for r in t.refresh().to_arrow().to_pylist()}
    assert found[20] == found[19] == dt.datetime(2020, 1, 1, tzinfo=dt.UTC) and found[18] is None


def test_names_and_zone_are_the_session_s(t, session):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    source = session.sql("select 3L as ID, timestamp '2020-01-01 00:00:00' as at")
    t.merge(
        source, "TARGET.Id = source.id and source.at = '2020-01-01 00:00:00'"
    ).when_matched_update({"NAME": "cast(at as string)"}).execute()
    assert state(t)[3][1] == "2020-01-01 00:00:00"
