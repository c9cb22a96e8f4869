"""Statements of SQL and verbs on DataFrames that lose to another writer's change of rows: they are
run again as a whole on the newest state, with an input that reads the table, and an input that does
not is read once.
"""

import pytest
from pyspark.sql import functions as F

from frazil.commit.table_commit import TableCommit
from frazil.errors import ValidationException
from tests.builders.files_on_disk import leftovers
from tests.builders.frames import frame_of, id_p_v

pytestmark = pytest.mark.spark
LAYOUTS = pytest.mark.parametrize(
    ("mode", "version"), [("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3)]
)
START = [(1, "a", 0), (2, "b", 0), (3, "a", 5)]
OTHER = [(1, "a", 100), (2, "b", 0), (3, "a", 5)]
RAISED = [(i, p, v + 1) for i, p, v in OTHER]
ON = "WHEN MATCHED THEN UPDATE SET v = s.v"


@pytest.fixture
def table(catalog, mode, version):
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    made = catalog.create_table(
        "db.t", "id bigint, p string, v bigint", format_version=version, properties=modes
    )
    made.append(frame_of(START))
    return made


@pytest.fixture
def run(spark, lake):
    """Run a statement in which `lake` stands for the catalog, and return its DataFrame."""
    return lambda text: spark.sql(text.replace("lake.", f"{lake}."))


@pytest.fixture
def beside(table_of, monkeypatch):
    """Another writer commits first, once."""
    swap, committed = TableCommit._swap, []

    def after_another(self, ready):
        if not committed:
            committed.append(1)
            table_of("db.t").update({"v": "v + 100"}, "id = 1", runner="in-process")
        return swap(self, ready)

    monkeypatch.setattr(TableCommit, "_swap", after_another)
    return committed


def next_values(run):
    return run("SELECT id, p, v + 1 AS v FROM lake.db.t")


def merged(t, spark, run):
    t.merge(next_values(run), "target.id = source.id").when_matched_update_all().execute()


def merged_into(t, spark, run):
    run("USE lake.db")
    merging = next_values(run).alias("s").mergeInto("t", F.expr("t.id = s.id"))
    merging.whenMatched().updateAll().merge()


def by_sql(text):
    return lambda t, spark, run: run(text)


CHANGES = {
    "MERGE": (by_sql(f"MERGE INTO lake.db.t t USING (SELECT id, v + 1 AS v FROM lake.db.t) s ON t.id = s.id {ON}"), RAISED),
    "MERGE by Spark": (
        by_sql(f"MERGE INTO lake.db.t t USING (SELECT id, v + 1 AS v FROM lake.db.t) s ON t.id = greatest(s.id, 1) {ON}"), RAISED,
    ),
    "WITH": (
        by_sql(f"WITH w AS (SELECT id, v + 1 AS v FROM lake.db.t) MERGE INTO lake.db.t t USING w s ON t.id = s.id {ON}"), RAISED,
    ),
    "UPDATE": (by_sql("UPDATE lake.db.t SET v = v + 1"), RAISED),
    "UPDATE by a sub-query": (
        by_sql("UPDATE lake.db.t SET v = -1 WHERE v = (SELECT max(v) FROM lake.db.t)"), [(1, "a", -1), *START[1:]],
    ),
    "DELETE by a sub-query": (by_sql("DELETE FROM lake.db.t WHERE v IN (SELECT max(v) FROM lake.db.t)"), OTHER[1:]),
    "DELETE by a sub-query of one value": (
        by_sql("DELETE FROM lake.db.t WHERE v = (SELECT max(v) FROM lake.db.t)"), OTHER[1:],
    ),
    "MERGE by a sub-query": (
        by_sql("MERGE INTO lake.db.t t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = (SELECT max(v) FROM lake.db.t)"),
        [*OTHER[:2], (3, "a", 100)],
    ),
    "merge": (merged, RAISED),
    "mergeInto": (merged_into, RAISED),
    "upsert": (lambda t, spark, run: t.upsert(next_values(run), join_cols=["id"]), RAISED),
    "overwrite": (
        lambda t, spark, run: t.overwrite(next_values(run).where("id = 3 OR v > 50"), "id IN (1, 3)"),
        [(1, "a", 101), (2, "b", 0), (3, "a", 6)],
    ),
}  # fmt: skip


@LAYOUTS
@pytest.mark.parametrize("name", CHANGES)
def test_a_statement_that_reads_its_table_runs_again_with_its_input(
    name, mode, version, table, beside, spark, run
):
    change, rows = CHANGES[name]
    change(table, spark, run)
    assert beside == [1] and id_p_v(table.refresh()) == rows
    assert leftovers(table) == []


@LAYOUTS
def test_rows_that_do_not_come_from_the_table_are_read_once(mode, version, table, beside, spark):
    read = spark.sparkContext.accumulator(0)
    count = F.udf(lambda v: read.add(1) or v, "bigint")
    rows = spark.range(1, 2).select("id", F.lit("a").alias("p"), count("id").alias("v"))
    result = table.upsert(rows, join_cols=["id"])
    assert beside == [1] and result.planned_anew == 1 and read.value == 1
    assert id_p_v(table.refresh()) == [(1, "a", 1), *START[1:]]


@LAYOUTS
@pytest.mark.parametrize("pinned", [True, False])
def test_what_the_caller_has_fixed_is_not_run_again(mode, version, pinned, table, beside, run):
    """Rows of a snapshot that is named, and a property."""
    beside.append(1)
    table.set_properties({"commit.retry.plan-anew.enabled": str(pinned).lower()})
    at = f" VERSION AS OF {table.current_snapshot().snapshot_id}" if pinned else ""
    rows = run(f"SELECT * FROM lake.db.t{at}")
    beside.clear()
    with pytest.raises(ValidationException):
        table.upsert(rows.withColumn("v", F.col("v") + 1), join_cols=["id"])
    assert beside == [1] and id_p_v(table.refresh())[0] == OTHER[0]
    assert leftovers(table) == []
