"""Row-level changes by tasks of Spark: the same rows as in process, few jobs, errors in the
project's words, nothing left behind.
"""

import importlib
import sys
import zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from frazil.errors import EvaluationError, NotInstalledError
from frazil.spark.host.workers import frazil_version, prepare
from frazil.spark.tasks.spark_runner import RUN_IN, SparkRunner, work_on
from tests.builders.files_on_disk import data_files_below, known_files

pytestmark = pytest.mark.spark
ROWS = pa.table(
    {"id": range(1000), "p": [i % 3 for i in range(1000)], "v": [float(i) for i in range(1000)]}
)


@pytest.fixture(autouse=True)
def tasks_of_spark(session):
    """With a local master tasks would run in the driver."""
    session.conf.set(RUN_IN, "spark")


def made(catalog, name="db.t", files=4, **options):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table(name, "id long, p long, v double", **options)
    for n in range(files):
        t.append(ROWS.slice(n * 1000 // files, 1000 // files))
    return t


@pytest.fixture
def t(catalog):
    return made(catalog)


@pytest.mark.versions
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_spark_makes_the_same_changes_as_this_process(session, catalog, mode, version):
    found = []
    for name, given in (("db.a", {"spark": session}), ("db.b", {"runner": "in-process"})):
        t = made(catalog, name, partition_by=["p"], format_version=version)
        deleted = t.delete("id % 10 = 0 and v < 900", mode=mode, **given)
        updated = t.update(
            {"v": "v * 2", "p": "p + 1"}, "id < 500 and id % 7 = 1", mode=mode, **given
        )
        extra = ("_row_id", "_last_updated_sequence_number") if version == 3 else ()
        rows = t.scan(selected_fields=("*", *extra)).to_arrow().sort_by("id").to_pylist()
        found.append((deleted.rows_deleted, updated.rows_updated, rows))
        assert data_files_below(t) == known_files(t)
    assert found[0] == found[1] and found[0][:2] == (90, 65)


def test_a_change_is_one_job_with_a_task_for_each_group(session, t):
    tracker = session.sparkContext.statusTracker()
    session.sparkContext.setJobGroup("change", "one change")
    t.update({"v": "v + 1"}, "id % 2 = 0", spark=session)
    assert len(tracker.getJobIdsForGroup("change")) == 1
    session.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_times_without_a_zone_are_in_the_session_s_zone_on_spark_and_in_utc_else(session, catalog):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table("db.z", "id long, ts timestamp")
    # from 2026-01-01 00:00 UTC on
    hours = pa.array([1767225600 + 3600 * n for n in range(10)], pa.int64())
    t.append(
        pa.table(
            {"id": range(10), "ts": pc.multiply(hours, 1_000_000).cast(pa.timestamp("us", "UTC"))}
        )
    )
    assert t.delete("ts < '2026-01-01 02:00:00'", runner="in-process").rows_deleted == 2
    # before 04:00 UTC
    assert t.delete("ts < '2025-12-31 23:00:00'", spark=session).rows_deleted == 2
    t.update(
        {"ts": "timestamp '2025-12-31 23:30:00'"}, "ts >= '2026-01-01 00:00:00'", spark=session
    )
    assert t.scan("ts = '2026-01-01 04:30:00'").count() == 5


def test_an_error_of_a_row_is_the_project_s_own_and_leaves_no_file(session, t):
    before = data_files_below(t)
    with pytest.raises(EvaluationError, match="Column id"):
        t.update({"id": "cast(v as int) * 10000000 * 10000000000000"}, spark=session)
    assert data_files_below(t) == before


def test_a_worker_without_frazil_is_one_clear_error(session, t, monkeypatch):
    before = data_files_below(t)
    monkeypatch.setattr("frazil.spark.host.workers.frazil_version", lambda: "99.0")
    with pytest.raises(NotInstalledError, match=r"has Frazil .*, the driver has 99\.0"):
        t.delete("id = 5", spark=session)
    assert frazil_version() != "99.0" and data_files_below(t) == before


def test_groups_beyond_what_one_job_may_carry_go_with_the_next(session, monkeypatch):
    monkeypatch.setattr("frazil.spark.tasks.numbered_groups.PAYLOAD_BYTES", 100)
    assert list(SparkRunner(session).run(abs, [-1, -2, -3, -4])) == [1, 2, 3, 4]
    assert list(SparkRunner(session).run(abs, [])) == []


def test_a_task_that_is_tried_again_says_so():
    from pyspark import cloudpickle

    class Again:
        attemptNumber, taskAttemptId, partitionId = (lambda _: 1), (lambda _: 7), (lambda _: 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frazil.spark.tasks.this_task.TaskContext.get", staticmethod(lambda: Again()))
        report = next(work_on(0, -3, cloudpickle.dumps(abs))).to_pylist()[0]
    assert report["retried"] and cloudpickle.loads(report["result"]) == (False, 3)


@pytest.mark.versions
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_spark_frame_replaces_the_rows_of_a_filter_that_cuts_through_files(
    session, catalog, mode
):
    t = made(catalog, properties={"write.delete.mode": mode})
    frame = session.range(2000, 2010).selectExpr("id", "id % 3 as p", "cast(id as double) as v")
    result = t.overwrite(frame, "id between 240 and 510")
    assert (result.rows_inserted, result.rows_deleted, len(t.snapshots())) == (10, 271, 5)
    assert t.scan("id >= 2000").count() == 10 and t.scan().count() == 1000 - 271 + 10
    assert data_files_below(t) == known_files(t)


def test_an_overwrite_and_an_update_take_any_sql_and_columns_of_spark(session, t):
    result = t.overwrite(
        session.range(2000, 2002).selectExpr("id", "0L as p", "0D as v"),
        "soundex(cast(id as string)) = '7' and id < 10",
    )
    assert (result.rows_inserted, result.rows_deleted, t.scan().count()) == (2, 1, 1001) and t.scan(
        "id = 7"
    ).count() == 0
    assert (
        t.update({"v": F.col("v") + F.lit(0.5)}, F.col("id") == 8, spark=session).rows_updated == 1
    )
    assert t.scan("v = 8.5").count() == 1 and data_files_below(t) == known_files(t)


def test_archives_on_the_path_are_read_again_only_when_they_have_changed(tmp_path, monkeypatch):
    """PySpark 4.1 has Python forget its import caches before each task; Spark's zip files are
    large.
    """

    def archive(*names):
        with zipfile.ZipFile(tmp_path / "mods.zip", "w") as z:
            for name in names:
                z.writestr(f"{name}.py", f"NAME = {name!r}")

    archive("frazil_zip_a")
    monkeypatch.syspath_prepend(str(tmp_path / "mods.zip"))
    assert importlib.import_module("frazil_zip_a").NAME == "frazil_zip_a"
    finder = sys.path_importer_cache[str(tmp_path / "mods.zip")]
    prepare()
    asked = []
    monkeypatch.setattr(
        type(finder),
        "invalidate_caches",
        lambda f, real=type(finder).invalidate_caches: (asked.append(f), real(f)),
    )
    prepare()
    importlib.invalidate_caches()
    assert asked.count(finder) == 0
    archive("frazil_zip_a", "frazil_zip_b")
    importlib.invalidate_caches()
    importlib.invalidate_caches()
    assert (
        asked.count(finder) == 1 and importlib.import_module("frazil_zip_b").NAME == "frazil_zip_b"
    )
