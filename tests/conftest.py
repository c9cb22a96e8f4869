"""Fixtures that every room's tests share; tests/README.md lists them."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from frazil import errors
from frazil.catalog import Catalog, load_catalog
from tests import golden as golden_tables
from tests.builders.examples import SOAK
from tests.jvm_options import java_options
from tests.peers import checks

ROOT = Path(__file__).resolve().parent.parent
PRELOADED = ROOT / "tests" / "builders" / "preloaded"
CACHE = Path(os.environ.get("FRAZIL_TEST_CACHE", ROOT / ".cache"))

os.environ["TZ"] = "UTC"
time.tzset()
errors.HIDES_FRAMES = False  # who tests Frazil looks into it

os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())

# Two cores are shared by several processes: no deadline for a single example, nor for making the
# first ones.
settings.register_profile(
    "frazil", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
)
settings.load_profile("frazil")


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: a million objects that live to
    the end, walked in vain again and again.
    """
    gc.freeze()


FEW = 4


def _seed() -> int:
    """Return by what the cases that a run tries are drawn: the day and the commit, so that every
    case is met within days. FRAZIL_TEST_SEED draws those of an earlier run.
    """
    if given := os.environ.get("FRAZIL_TEST_SEED"):
        return int(given)
    head = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return zlib.crc32(head.stdout.encode()) + datetime.date.today().toordinal()


SEED = _seed()


def pytest_report_header() -> str:
    """Tell how the same cases are drawn again."""
    return f"cases drawn by FRAZIL_TEST_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that take a SparkSession, through whichever fixture, and are not marked `spark`.

    Of a test with many cases `make test` tries a quarter, at least four, other tables and catalogs
    in every test and on every day; `make soak` tries the other cases, and long property tests.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "[" in item.nodeid and not any(map(item.get_closest_marker, ("soak", "drawn"))):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, those in cases.items():
        one_of = min(4, max(1, len(those) // FEW))
        for number, item in enumerate(those, zlib.crc32(name.encode()) + SEED):
            if number % one_of:
                item.add_marker("soak")
    if SOAK:
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("soak")
    taking = [i for i in items if "plain_spark" in getattr(i, "fixturenames", ())]
    if unmarked := [i.nodeid for i in taking if i.get_closest_marker("spark") is None]:
        raise pytest.UsageError(
            f"These tests take a SparkSession; mark them with pytest.mark.spark: {', '.join(unmarked)}"
        )


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """pytest's. Where that is in memory (FRAZIL_TEST_DISK names a place that is not), tests marked
    `disk` get one on the disk.
    """
    if "FRAZIL_TEST_DISK" in os.environ and request.node.get_closest_marker("disk"):
        with tempfile.TemporaryDirectory(
            dir=os.environ["FRAZIL_TEST_DISK"], ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)
    else:
        yield tmp_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """The default catalog, in a folder of this test, which is the working directory too; with the
    namespace `db`.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAZIL_HOME", str(tmp_path / "home"))
    with load_catalog() as catalog:
        catalog.create_namespace("db")
        yield catalog


@pytest.fixture(scope="session")
def golden() -> golden_tables.Golden:
    """All golden tables by name, unpacked and in place. Read only: never commit to them;
    `writable_copy` is for that.
    """
    return golden_tables.load(CACHE / "golden")


@pytest.fixture
def writable_copy(golden: golden_tables.Golden, tmp_path: Path) -> Callable[[str], str]:
    """`writable_copy("plain_v2")`: location of a path table of this test that goes on from a golden
    one.
    """
    return lambda name: str(
        golden_tables.writable_copy(golden[name].metadata_file, tmp_path / "copies" / name)
    )


@pytest.fixture(scope="session")
def plain_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The process's one SparkSession: two cores, one gigabyte, UTC. `frazil.install` was not called
    on it.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    place = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={place} -Duser.timezone=UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("frazil tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        # what the JVM starts with, its Pythons do; no other process that a test starts
        patch.setenv(
            "PYTHONPATH",
            os.pathsep.join([str(PRELOADED), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        )
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(plain_spark: Any) -> Any:
    """A second session of the same process (its own settings and views), after `frazil.install`."""
    import frazil

    return frazil.install(plain_spark.newSession())


@pytest.fixture(autouse=True)
def no_views_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop the temporary views that a test leaves in the sessions that all tests share: they hide
    tables of the same name from the tests after it.
    """
    shared = [
        request.getfixturevalue(name)
        for name in ("plain_spark", "spark")
        if name in request.fixturenames
    ]
    before = [set(temporary_views(session)) for session in shared]
    yield
    for session, known in zip(shared, before, strict=True):
        for name in set(temporary_views(session)) - known:
            session.catalog.dropTempView(name)


def temporary_views(session: Any) -> list[str]:
    """The names of a session's temporary views; none of one that a test has stopped."""
    if session._jsc.sc().isStopped():
        return []
    views = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return [views.apply(n).table() for n in range(views.size())]


@pytest.fixture(scope="session")
def java_check() -> Iterator[checks.JavaCheck]:
    """Real Java Iceberg opens tables: `java_check(locations, write=False, light=False, newest=0)`
    -> results by location.

    One JVM serves all tests of a run. Each result has `ok`, `problems`, `rows`, `sum`, `snapshots`,
    `refs`; with `write=True` Java goes on with a scratch copy (append, delete, merge, compact,
    expire) and tells it under `write`.
    """
    engine = checks.JavaCheck(checks.environment("java", CACHE / "peers"))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def java_of_hive4() -> Iterator[checks.JavaCheck]:
    """Java Iceberg over Hive 4's client of metastores. The one in Spark's jars, that of 2.3, asks
    for tables by calls that are gone from 4.0.
    """
    environment = checks.environment("java", CACHE / "peers")
    command = [ROOT / "tests/services/spark_jars.sh", "hive4", CACHE / "hive4-client"]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHON": str(environment.python)},
    )
    assert found.returncode == 0, found.stderr
    with contextlib.closing(checks.JavaCheck(environment, found.stdout.strip())) as engine:
        yield engine


@pytest.fixture(scope="session")
def pyiceberg_check() -> Iterator[checks.PyIcebergCheck]:
    """Real PyIceberg opens tables: `pyiceberg_check(locations)` -> results by location, with `ok`,
    `problems`, `rows`, `sum` or `cannot`.
    """
    engine = checks.PyIcebergCheck(checks.environment("pyiceberg", CACHE / "peers"))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def worker_python() -> Path:
    """The Python of a packed environment as docs/spark.md has it: Frazil installed, another than
    ours.
    """
    return checks.environment("worker", CACHE / "peers").python
