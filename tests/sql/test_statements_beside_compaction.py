"""Statements of SQL and verbs on DataFrames that lose to a compaction committed between their plan
and their commit: they are planned anew by Spark as well, and nobody is refused.
"""

import threading

import pytest
from pyspark.sql import functions as F

from frazil.commit.table_commit import TableCommit
from tests.builders.files_on_disk import leftovers
from tests.builders.frames import frame_of, id_p_v
from tests.spark.streams.test_stream_sink import drained, folder, stream

pytestmark = pytest.mark.spark
KINDS = pytest.mark.parametrize(
    ("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
)
START = [(n, "ab"[n % 2], 0) for n in range(8)]
DELETED = [r for r in START if r[0] not in (1, 4)]
UPDATED = sorted([*(r for r in START if r[0] != 1), (1, "b", 9)])
MERGED = sorted([*(r for r in START if r[0] != 1), (1, "b", 7), (50, "a", 7)])
SOURCE = "(SELECT * FROM VALUES (1L, 'b', 7L), (50L, 'a', 7L) AS r(id, p, v)) s"
MERGE = f"MERGE INTO lake.db.t t USING {SOURCE} ON {{}} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def source(spark):
    return spark.sql(f"SELECT * FROM {SOURCE}")


def merged(t, spark, run):
    merging = t.merge(source(spark), "target.id = source.id")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def merged_into(t, spark, run):
    run("USE lake.db")
    found = source(spark).mergeInto("t", F.expr("t.id = s.id"))
    found.whenMatched().updateAll().whenNotMatched().insertAll().merge()


def by_sql(text):
    return lambda t, spark, run: run(text)


# Those that Frazil's grammar holds, and those that Spark plans.
CHANGES = {
    "DELETE": (by_sql("DELETE FROM lake.db.t WHERE id IN (1, 4)"), DELETED),
    "DELETE by Spark": (
        by_sql(f"DELETE FROM lake.db.t WHERE id IN (SELECT id + 3 FROM {SOURCE}) OR id = 1"),
        DELETED,
    ),
    "UPDATE": (by_sql("UPDATE lake.db.t SET v = v + 9 WHERE id = 1"), UPDATED),
    "UPDATE by Spark": (
        by_sql("UPDATE lake.db.t SET v = v + greatest(9, v) WHERE id = 1"),
        UPDATED,
    ),
    "MERGE": (by_sql(MERGE.format("t.id = s.id")), MERGED),
    "MERGE by Spark": (by_sql(MERGE.format("t.id = greatest(s.id, 1)")), MERGED),
    "mergeInto": (merged_into, MERGED),
    "merge": (merged, MERGED),
    "upsert": (lambda t, spark, run: t.upsert(source(spark), join_cols=["id"]), MERGED),
    "delete": (lambda t, spark, run: t.delete(F.col("id").isin(1, 4), spark=spark), DELETED),
    "overwrite": (
        lambda t, spark, run: t.overwrite(source(spark), "id IN (1)", isolation_level="snapshot"),
        MERGED,
    ),
}


@pytest.fixture
def table(catalog, mode, version):
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    made = catalog.create_table(
        "db.t",
        "id bigint, p string, v bigint",
        partition_by=["p"],
        format_version=version,
        properties=modes,
    )
    for rows in (START[:4], START[4:]):
        made.append(frame_of(rows))
    return made


def compact(table):
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"}, runner="in-process")


@KINDS
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_loses_to_a_compaction_is_planned_anew(
    name, mode, version, table, table_of, spark, run, monkeypatch
):
    swap, committed = TableCommit._swap, []

    def after_a_compaction(self, ready):
        if not committed:
            committed.append(1)  # first, since the compaction swaps as well
            compact(table_of("db.t"))
        return swap(self, ready)

    monkeypatch.setattr(TableCommit, "_swap", after_a_compaction)
    change, rows = CHANGES[name]
    change(table, spark, run)
    operations = [s.operation for s in table.refresh().snapshots()]
    assert committed == [1] and operations[-2] == "replace", "the compaction was committed before"
    assert id_p_v(table) == rows
    assert leftovers(table) == []


@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 3)])
def test_a_stream_that_looks_up_its_keys_is_not_refused_beside_a_compaction_that_never_rests(
    mode, version, table, table_of, spark, tmp_path
):
    ends, errors, runs = threading.Event(), [], []

    def compacts():
        other = table_of("db.t")
        while not ends.wait(0.2):
            try:
                options = {"rewrite-all": "true"}
                done = other.maintenance.rewrite_data_files(options=options, runner="in-process")
                runs.append(done.commits)
            except BaseException as error:
                errors.append(error)

    batches = [[(n % 5, "ab"[n % 5 % 2], n), (100 + n, "a", n)] for n in range(1, 13)]
    thread = threading.Thread(target=compacts)
    thread.start()
    try:
        writer = table.write_stream(
            stream(spark, folder(tmp_path, *batches)),
            mode="upsert",
            key_columns="id",
            upsert_strategy="lookup",
        )
        drained(
            writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
        )
    finally:
        ends.set()
        thread.join(120)
    assert errors == [] and sum(runs) > 1
    rows = {r[0]: r for r in START} | {r[0]: r for batch in batches for r in batch}
    assert id_p_v(table.refresh()) == sorted(rows.values())
    assert leftovers(table) == []
