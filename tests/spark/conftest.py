"""A session of its own settings for each test, and a catalog of path tables."""

import itertools

import pytest

import frazil

_names = itertools.count()


@pytest.fixture
def session(plain_spark):
    """A new session of the process's Spark (`frazil.install` was not called on it), active while
    the test runs.
    """
    made = plain_spark.newSession()
    made.conf.set("spark.sql.timeType.enabled", "true")
    plain_spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(made._jsparkSession)
    yield made
    plain_spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(
        plain_spark._jsparkSession
    )


@pytest.fixture
def catalog(tmp_path):
    return frazil.load_catalog(f"c{next(_names)}", type="path", warehouse=str(tmp_path / "wh"))


@pytest.fixture
def rows():
    """Rows of a frame as sorted lists of dicts, so that frames can be compared."""
    return lambda frame: sorted((r.asDict(recursive=True) for r in frame.collect()), key=repr)
