"""Play every case of the case files at every door of a prepared session that takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.doors import IN_SESSION
from tests.cases.drawn import runs
from tests.cases.form import cases_of
from tests.cases.play import QUICK, Refused, Wrong, play, settings_of

pytestmark = pytest.mark.spark  # and `drawn.runs` gives some pytest.mark.versions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def sessions(spark: Any, folder: Path) -> Any:
    """Sessions in which the catalogs are configured, by the kind of catalog."""
    made = {"sql": spark, "path": spark, "session": spark.newSession()}
    settings = {kind: settings_of(kind, folder) | QUICK for kind in made}
    for kind, session in made.items():
        for key, value in settings[kind].items():
            session.conf.set(key, value)
    yield made
    for kind, session in made.items():
        for key in settings[kind]:
            session.conf.unset(key)


def at(door: str, run: dict[str, Any], known: str | None, sessions: Any, folder: Path) -> None:
    case = cases_of(run["file"])[run["number"]]
    kind = run["kind"]
    try:
        play(case, IN_SESSION[door](sessions[kind]), kind, folder, run["run"])
    except Refused as refused:
        pytest.skip(str(refused))
    except Wrong:
        if known is None:
            raise
        pytest.xfail(known)
    assert known is None, f"it is right by now: {known}"


@pytest.mark.parametrize("run, known", runs("sql"))
def test_a_case_is_right_in_sql(run: Any, known: str | None, sessions: Any, folder: Path) -> None:
    at("sql", run, known, sessions, folder)


OTHERS = [
    pytest.param(door, *param.values, id=param.id, marks=param.marks)
    for door in IN_SESSION
    if door != "sql"
    for param in runs(door)
]


@pytest.mark.parametrize("door, run, known", OTHERS)
def test_a_case_is_right_at_another_door(
    door: str, run: Any, known: str | None, sessions: Any, folder: Path
) -> None:
    at(door, run, known, sessions, folder)
