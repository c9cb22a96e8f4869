"""Procedures run in this process here, also when an earlier test has left a Spark session behind."""

from collections.abc import Iterator

import pytest

from tests.builders.sessions import without_session


@pytest.fixture(autouse=True)
def no_session_is_active(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests that are marked `spark` see the session."""
    if request.node.get_closest_marker("spark") is not None:
        yield
        return
    with without_session():
        yield
