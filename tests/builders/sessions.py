"""Work without Spark, also when an earlier test of the process has left a session behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def without_session() -> Iterator[None]:
    """Frazil finds no active session in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frazil.table.engines.active_session", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def no_session_is_active() -> Iterator[None]:
    """All tests below a conftest that imports this fixture work without Spark."""
    with without_session():
        yield
