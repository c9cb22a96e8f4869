"""Temporary views follow what this process writes, cached or not; DataFrames keep the state that
they were made from.
"""

import logging
import threading

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import frazil
from frazil.spark.read import view_refresh
from tests.builders.spark_frames import ids

pytestmark = [pytest.mark.spark, pytest.mark.versions]


@pytest.fixture
def table(catalog):
    t = catalog.create_table(
        "db.t",
        "id bigint, s string",
        format_version=3,
        properties={"write.delete.mode": "merge-on-read"},
    )
    t.append(pa.table({"id": [0, 1, 2], "s": ["a", "b", "c"]}))
    return t


def add(table, *ids):
    table.append(pa.table({"id": list(ids), "s": ["x"] * len(ids)}))


def drop(session, *names):
    for name in names:
        session.catalog.dropTempView(name)


def test_a_cached_view_shows_what_the_process_has_written_since(session, table):
    table.to_spark(session).createOrReplaceTempView("cached")
    session.sql("CACHE TABLE cached OPTIONS ('storageLevel' 'MEMORY_ONLY')")
    try:
        assert ids(session.table("cached")) == [0, 1, 2]
        add(table, 3)
        assert ids(session.table("cached")) == [0, 1, 2, 3] and session.catalog.isCached("cached")
        frame = session.sql("SELECT * FROM cached")
        assert "InMemory" in frame._jdf.queryExecution().executedPlan().toString()
        assert not frame.storageLevel.useDisk and session.table("cached").storageLevel.useMemory
        table.delete("id = 1")  # merge-on-read: another plan than before
        table.update(set={"s": "'new'"}, where="id = 2")
        assert ids(session.table("cached")) == [0, 2, 3]
        assert [r.s for r in session.sql("SELECT s FROM cached WHERE id = 2").collect()] == ["new"]
        table.overwrite(session.range(7, 9).selectExpr("id", "'y' AS s"))
        assert ids(session.table("cached")) == [7, 8]
        with table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(table.snapshots()[0].snapshot_id)
        assert ids(session.table("cached")) == [0, 1, 2] and session.catalog.isCached("cached")
        session.catalog.uncacheTable("cached")
        assert ids(session.table("cached")) == [0, 1, 2] and not session.catalog.isCached("cached")
    finally:
        session.catalog.clearCache()
        drop(session, "cached")


def test_a_view_that_is_not_cached_shows_the_same_as_one_that_is(session, table):
    frame = table.to_spark(session)
    frame.where("id > 0").groupBy().agg(F.sum("id").alias("n")).createOrReplaceTempView("sums")
    frame.alias("a").join(frame.alias("b"), F.col("a.id") == F.col("b.id")).select(
        "a.id", "b.s"
    ).createOrReplaceTempView("joined")
    frame.createOrReplaceTempView("plain")
    shaped = (
        frame.withColumn("z", F.lit(1))
        .withColumnRenamed("s", "t")
        .drop("z")
        .dropDuplicates(["id"])
        .select("id", "t")
        .na.fill("")
    )
    shaped.sort("id").toDF("id", "u").withColumns({"v": F.col("u")}).createOrReplaceTempView(
        "shaped"
    )
    session.sql("CREATE OR REPLACE TEMP VIEW texts AS SELECT max(id) AS id FROM plain")
    session.sql(
        "SELECT id FROM range(20) WHERE id IN (SELECT id FROM plain)"
    ).createOrReplaceTempView("inner_query")
    frame.unionAll(frame).createOrReplaceGlobalTempView("everywhere")
    session.sql("CACHE TABLE texts")
    try:
        add(table, 5)
        add(table, 6)
        assert session.table("sums").first().n == 14 and ids(session.table("joined")) == [
            0,
            1,
            2,
            5,
            6,
        ]
        assert ids(session.table("shaped")) == [0, 1, 2, 5, 6] and session.table(
            "shaped"
        ).columns == ["id", "u", "v"]
        assert ids(session.table("texts")) == [6] and session.catalog.isCached("texts")
        assert ids(session.table("inner_query")) == [0, 1, 2, 5, 6]
        assert ids(session.table("global_temp.everywhere")) == [0, 0, 1, 1, 2, 2, 5, 5, 6, 6]
        depth = session.table("plain")._jdf.queryExecution().optimizedPlan().toString().count("\n")
        add(table, 7)
        assert (
            session.table("plain")._jdf.queryExecution().optimizedPlan().toString().count("\n")
            == depth
        )
    finally:
        session.catalog.clearCache()
        session.catalog.dropGlobalTempView("everywhere")
        drop(session, "sums", "joined", "plain", "shaped", "texts", "inner_query")


def test_frames_and_what_was_cached_as_a_frame_keep_their_state(session, table):
    frame, held = table.to_spark(session), table.to_spark(session).where("id < 100").cache()
    try:
        assert held.count() == 3
        held.createOrReplaceTempView("over_held")
        add(table, 3)
        assert ids(frame) == [0, 1, 2] and ids(held) == [0, 1, 2]
        assert (
            held.storageLevel.useMemory
            and "InMemory" in held.groupBy().count()._jdf.queryExecution().executedPlan().toString()
        )
        assert ids(session.table("over_held")) == [0, 1, 2, 3] and session.catalog.isCached(
            "over_held"
        )
        held.unpersist()
        assert ids(held) == [0, 1, 2] and ids(session.table("over_held")) == [0, 1, 2, 3]
    finally:
        session.catalog.clearCache()
        drop(session, "over_held")


def test_views_of_a_snapshot_stay_and_views_of_a_branch_follow_it(session, table):
    first = table.current_snapshot().snapshot_id
    with table.manage_snapshots() as manage:
        manage.create_branch(first, "audit")
    table.scan(snapshot_id=first).to_spark(session).createOrReplaceTempView("fixed")
    table.scan(branch="audit").to_spark(session).createOrReplaceTempView("audited")
    table.scan("id >= 2", ("id",)).to_spark(session).createOrReplaceTempView("chosen")
    try:
        add(table, 3)
        table.append(pa.table({"id": [9], "s": ["z"]}), branch="audit")
        assert ids(session.table("fixed")) == [0, 1, 2] and ids(session.table("audited")) == [
            0,
            1,
            2,
            9,
        ]
        assert ids(session.table("chosen")) == [2, 3] and session.table("chosen").columns == ["id"]
    finally:
        drop(session, "fixed", "audited", "chosen")


def test_evolution_keeps_a_views_columns_and_says_when_it_cannot(session, table, caplog):
    table.to_spark(session).createOrReplaceTempView("evolving")
    try:
        with table.update_schema() as update:
            update.add_column("more", frazil.IntegerType()).move_first("s")
        add(table, 3)
        assert session.table("evolving").columns == ["id", "s"] and ids(
            session.table("evolving")
        ) == [0, 1, 2, 3]
        with caplog.at_level(logging.WARNING), table.update_schema() as update:
            update.delete_column("s")
        assert "evolving" in caplog.text and "column s is gone" in caplog.text
        table.append(pa.table({"id": [4]}))
        assert ids(session.table("evolving")) == [0, 1, 2, 3]
    finally:
        drop(session, "evolving")


def test_without_a_view_and_for_other_tables_nothing_is_planned(
    session, catalog, table, monkeypatch
):
    other = catalog.create_table("db.other", "id bigint")
    frame = table.to_spark(session)
    table.to_spark(session).createOrReplaceTempView("mine")
    asked = []
    refreshed = view_refresh._Refresh.run
    monkeypatch.setattr(
        view_refresh._Refresh,
        "run",
        lambda self: (asked.append(self.loaded.identifier), refreshed(self)),
    )
    try:
        other.append(pa.table({"id": [1]}))
        table.set_properties(a="b")
        assert asked == []
        add(table, 3)
        assert len(asked) == 1 and frame.count() == 3 and session.table("mine").count() == 4
    finally:
        drop(session, "mine")


def test_a_view_never_goes_back_behind_a_later_commit(session, table):
    table.to_spark(session).createOrReplaceTempView("ahead")
    try:
        earlier = table._loaded
        add(table, 3)
        view_refresh.refresh(earlier)
        assert ids(session.table("ahead")) == [0, 1, 2, 3]
        threads = [
            threading.Thread(target=lambda n=n: add(frazil.load_table(table.location()), n))
            for n in (10, 11, 12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ids(session.table("ahead")) == [0, 1, 2, 3, 10, 11, 12]
    finally:
        drop(session, "ahead")


def test_an_error_of_a_view_is_no_error_of_the_commit(session, table, monkeypatch, caplog):
    table.to_spark(session).createOrReplaceTempView("failing")
    try:
        monkeypatch.setattr(view_refresh._Refresh, "run", lambda self: 1 / 0)
        with caplog.at_level(logging.WARNING):
            add(table, 3)
        assert table.scan().count() == 4 and "keep the rows from before this commit" in caplog.text
    finally:
        drop(session, "failing")
