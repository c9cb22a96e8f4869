"""Procedures run in this process here, also when an earlier test has left a Spark session behind."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_session_is_active(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("spark") is None:
            patch.setattr("frazil.table.engines.active_session", lambda: None)
        yield
