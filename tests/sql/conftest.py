"""A catalog of tables for SQL, and a runner of statements that shows rows as plain tuples."""

import itertools

import pytest

import frazil

_names = itertools.count()


@pytest.fixture
def lake(spark, tmp_path):
    """The name of a catalog that only this test's session settings know, with the namespace `db`;
    it is the current one of no session.
    """
    name = f"lake{next(_names)}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"sqlite:///{tmp_path}/lake.db",
        ".warehouse": f"{tmp_path}/wh",
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    yield name
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.setCurrentDatabase("default")
    for key in settings:
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


@pytest.fixture
def run(spark, lake):
    """Run a statement in which `lake` stands for the catalog, and return its rows as tuples."""
    return lambda text: [
        tuple(row) for row in spark.sql(text.replace("lake.", f"{lake}.")).collect()
    ]


@pytest.fixture
def catalog(lake, tmp_path):
    """The catalog, opened by Frazil's own door."""
    return frazil.load_catalog(
        lake, type="jdbc", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"{tmp_path}/wh"
    )


@pytest.fixture
def table_of(catalog):
    """Open a table of the catalog by Frazil's own door."""
    return catalog.load_table
