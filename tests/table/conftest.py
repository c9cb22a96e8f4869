"""What the tests of tables share. Row-level verbs work in this process here, also when an earlier test has left a Spark session behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog import Catalog
from tests.builders.catalogs import catalog_of


@pytest.fixture(autouse=True, scope="module")
def no_session_is_active() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frazil.table.engines.active_session", lambda: None)
        yield


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A SQLite catalog with the namespace `db`."""
    with catalog_of("sql", tmp_path) as made:
        yield made
