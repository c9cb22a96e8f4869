"""Hive catalogs of one test, over the metastores that FRAZIL_TEST_HMS2, _HMS31 and _HMS4 name."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import Catalog
from tests.catalog.conftest import HIVE
from tests.peers import checks

METASTORES = [kind for kind, variable in HIVE.items() if os.environ.get(variable)]


@pytest.fixture(params=METASTORES)
def metastore(request: pytest.FixtureRequest) -> str:
    """`hive2`, `hive3` (in the long form) or `hive4`."""
    return str(request.param)


@pytest.fixture
def address(metastore: str) -> str:
    return os.environ[HIVE[metastore]]


@pytest.fixture
def db() -> str:
    """The name of a namespace that no other test has."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def opened(address: str, db: str, tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    """`opened(**properties)`: a catalog with the namespace `db`; several are of one metastore."""
    catalogs: list[Catalog] = []

    def catalog(**properties: Any) -> Catalog:
        more = {"uri": address, "warehouse": f"{tmp_path}/warehouse"} | {
            k.replace("_", "."): v for k, v in properties.items()
        }
        catalogs.append(frazil.load_catalog("h", type="hive", **more))
        if not catalogs[-1].namespace_exists(db):
            catalogs[-1].create_namespace(db)
        return catalogs[-1]

    yield catalog
    for one in catalogs:
        one.close()


@pytest.fixture
def java(metastore: str, request: pytest.FixtureRequest) -> checks.JavaCheck:
    """Java Iceberg as it can speak to the metastore of this test."""
    engine: checks.JavaCheck = request.getfixturevalue(
        "java_of_hive4" if metastore == "hive4" else "java_check"
    )
    return engine
