"""What `spark_catalog` asks of the two catalogs that it stands for, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from frazil.errors import NoSuchTableError
from frazil.spark.catalog import session
from frazil.spark.catalog.session import ServedSessionCatalog
from frazil.spark.host import jvm_errors
from frazil.spark.host.jvm_errors import Thrown

Parts = tuple[str, ...]


def exception(*_: object) -> Thrown:
    """Return what Spark would see of an exception of Java."""
    return Thrown(SimpleNamespace(_target_id="o1"))


class SparksOwn:
    """Stand for the session's own catalog, which has the table db.own."""

    def __init__(self) -> None:
        self.renamed: list[Parts] = []

    def defaultNamespace(self) -> list[str]:
        return ["default"]

    def tableExists(self, parts: Parts) -> bool:
        return parts == ("db", "own")

    def renameTable(self, parts: Parts, to: Parts) -> None:
        self.renamed.append(to)

    def dropNamespace(self, namespace: Parts, cascade: bool) -> bool:
        if namespace[0].lower() == "default":
            raise exception()
        return True


class Icebergs:
    """Stand for Frazil's catalog, which has the tables db.ice and default.ice."""

    name = "spark_catalog"

    def __init__(self) -> None:
        self.tables: set[Parts] = {("db", "ice"), ("default", "ice")}

    def list_namespaces(self, parent: Parts) -> list[Parts]:
        return sorted({table[:-1] for table in self.tables})

    def list_tables(self, namespace: Parts) -> list[Parts]:
        return [t for t in self.tables if t[:-1] == namespace]

    def drop_table(self, parts: Parts, purge: bool) -> None:
        self.tables.remove(parts)

    def drop_namespace(self, parts: Parts, cascade: bool) -> None:
        """Do nothing: it has no namespaces."""

    def rename_table(self, parts: Parts, to: Parts) -> None:
        self.tables = self.tables - {parts} | {to}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Any:
    calls, own = Icebergs(), SparksOwn()
    types: Any = SimpleNamespace(names=tuple, jvm=None)
    spark: Any = SimpleNamespace(conf={})
    catalog = ServedSessionCatalog(types, spark, calls, own)  # type: ignore[arg-type]

    def found(parts: Parts) -> None:
        if parts not in calls.tables:
            raise NoSuchTableError("no")

    monkeypatch.setattr(catalog, "_find", found)
    monkeypatch.setattr(jvm_errors, "table_exists", exception)
    monkeypatch.setattr(session, "unchecked", lambda spark, error: error)
    return catalog, calls, own


def test_tables_of_the_default_database_outlive_its_drop_which_spark_refuses(both: Any) -> None:
    catalog, calls, _ = both
    for name in ("default", "DEFAULT"):
        with pytest.raises(Thrown):
            catalog.dropNamespace((name,), True)
    assert ("default", "ice") in calls.tables
    assert catalog.dropNamespace(("db",), True) and calls.tables == {("default", "ice")}


def test_no_table_is_hidden_by_one_that_is_renamed(both: Any) -> None:
    catalog, calls, own = both
    for name, to in ((("db", "ice"), ("db", "own")), (("db", "own"), ("db", "ice"))):
        with pytest.raises(Thrown):
            catalog.renameTable(name, to)
    catalog.renameTable(("db", "ice"), ("db", "new"))
    catalog.renameTable(("db", "own"), ("db", "other"))
    assert ("db", "new") in calls.tables and own.renamed == [("db", "other")]
