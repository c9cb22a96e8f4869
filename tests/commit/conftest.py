"""What the tests of commits share."""

from pathlib import Path

import pytest

from frazil.catalog import CatalogBackend
from tests.commit.support import backend_of


@pytest.fixture
def memory(tmp_path: Path) -> CatalogBackend:
    """A catalog in memory, without tables."""
    return backend_of("memory", tmp_path)
