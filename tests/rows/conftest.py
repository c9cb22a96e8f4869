"""Row-level verbs work in this process here, also when an earlier test has left a Spark session behind."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_session_is_active() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("frazil.table.engines.active_session", lambda: None)
        yield
