"""Where tasks from file to file run: in the driver's Python with a local master, as tasks of Spark
elsewhere or when that is asked.
"""

import uuid

import pyarrow as pa
import pytest

from frazil.errors import EvaluationError, InvalidInput
from frazil.spark.tasks.spark_runner import RUN_IN, SparkRunner, runner_of, runs_in_driver
from frazil.tasks.runner import InProcess
from tests.builders.files_on_disk import data_files_below, known_files

pytestmark = pytest.mark.spark


@pytest.fixture
def jobs(session):
    """Count the Spark jobs of a call."""

    def count(call):
        group = str(uuid.uuid4())
        session.sparkContext.setJobGroup(group, group)
        try:
            call()
        finally:
            session.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        return len(session.sparkContext.statusTracker().getJobIdsForGroup(group))

    return count


def made(catalog, name="db.t", **more):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table(name, "id bigint, v double", **more)
    for first in (0, 50):
        t.append(
            pa.table(
                {"id": range(first, first + 50), "v": [float(i) for i in range(first, first + 50)]}
            )
        )
    return t


class OtherMaster:
    """A session whose master is another one."""

    def __init__(self, session, master, **conf):
        self.sparkContext, self._jsc, self._master, self._conf = (
            session.sparkContext,
            session._jsc,
            master,
            conf,
        )
        self.conf = self

    def get(self, key, default=None):
        return self._master if key == "spark.master" else self._conf.get(key, default)


@pytest.mark.parametrize(
    ("master", "driver"),
    [
        ("local", True),
        ("local[4]", True),
        ("local[*]", True),
        ("local[2,3]", False),
        ("local-cluster[1,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_a_local_master_runs_tasks_in_the_driver_unless_told_otherwise(session, master, driver):
    assert runs_in_driver(OtherMaster(session, master)) == driver
    assert runs_in_driver(OtherMaster(session, master, **{RUN_IN: "driver"}))
    assert not runs_in_driver(OtherMaster(session, master, **{RUN_IN: "Spark"}))
    with pytest.raises(InvalidInput, match="run-in is 'elsewhere'"):
        runs_in_driver(OtherMaster(session, master, **{RUN_IN: "elsewhere"}))


def test_the_runner_has_as_many_threads_as_spark_has_slots(session, catalog):
    t = made(catalog)
    found = runner_of(session, t.metadata, t.io)
    assert isinstance(found, InProcess) and found.parallelism == 2
    session.conf.set(RUN_IN, "spark")
    assert isinstance(runner_of(session, t.metadata, t.io), SparkRunner)


@pytest.mark.versions
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changes_are_the_same_in_the_driver_and_in_spark(session, catalog, jobs, mode):
    found = {}
    for choice in ("driver", "spark"):
        session.conf.set(RUN_IN, choice)
        t = made(catalog, f"db.{choice}")
        source = session.range(90, 110, 1, 2).selectExpr("id", "id * 2D as v")
        merge = (
            t.merge(source, "target.id = source.id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
        )
        counts = [
            jobs(lambda t=t: t.delete("id % 10 = 3", mode=mode, spark=session)),
            jobs(lambda t=t: t.update({"v": "v + 1"}, "id % 10 = 4", mode=mode, spark=session)),
            jobs(lambda merge=merge: merge.execute(mode=mode)),
            jobs(
                lambda t=t: t.delete(
                    "id % 10 = 5 and soundex('a') = 'A000'", mode=mode, spark=session
                )
            ),
        ]
        rows = sorted((r["id"], r["v"]) for r in t.refresh().scan().to_arrow().to_pylist())
        assert data_files_below(t) == known_files(t)
        found[choice] = rows, counts
    assert found["driver"][0] == found["spark"][0] and len(found["driver"][0]) == 110 - 10 - 10
    here, by_spark = found["driver"][1], found["spark"][1]
    # Spark evaluates the source of the MERGE
    assert here[:3] == [0, 0, 1] and by_spark[:2] == [
        1,
        1,
    ]
    # and finds rows by SQL that only Spark knows
    assert here[2] < by_spark[2] and 0 < here[3] < by_spark[3]


def test_an_error_in_the_driver_is_the_project_s_own_and_leaves_no_file(session, catalog):
    t = made(catalog)
    before = data_files_below(t)
    with pytest.raises(EvaluationError, match="Column id"):
        t.update({"id": "cast(v as int) * 10000000 * 10000000000000"}, spark=session)
    assert data_files_below(t) == before and len(t.refresh().snapshots()) == 2
