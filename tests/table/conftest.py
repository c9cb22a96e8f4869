"""What the tests of tables share. Row-level verbs work in this process here, also when an earlier
test has left a Spark session behind.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog import Catalog
from tests.builders.catalogs import catalog_of
from tests.builders.sessions import no_session_is_active

__all__ = ["catalog", "no_session_is_active"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A SQLite catalog with the namespace `db`."""
    with catalog_of("sql", tmp_path) as made:
        yield made
