"""Choose which cases a run tries at which doors: `make test` a few, drawn by the day and the commit
(FRAZIL_TEST_SEED draws the same again), `make soak` all others.
"""

from __future__ import annotations

import zlib
from typing import Any

import pyspark
import pytest

from tests.cases.doors import IN_SESSION
from tests.cases.form import Case, cases_of, files
from tests.conftest import SEED

VERSION = ".".join(pyspark.__version__.split(".")[:2])
SHARE = {"sql": 3}
"""Of how many cases at a door one is drawn, of which a run then tries a quarter. At the other doors
cases are for `make soak` alone, until all of them have been tried there.
"""


def takes(door: str, case: Case) -> bool:
    """Tell whether a case goes by a door on this Spark."""
    if door in case.skips or (case.since and case.since > VERSION):
        return False
    match door:
        case "connect":
            return case.catalogs[0] == "path" or case.catalogs == ("sql",)
        case "plain" | "java":
            return case.catalogs[0] != "session"
    return IN_SESSION[door](None).takes(case)


def runs(door: str) -> list[Any]:
    """Return the cases at a door, as parameters of a test: what to play, and how it is known to be
    wrong.
    """
    params = []
    for file in files():
        for number, case in enumerate(cases_of(file)):
            if not takes(door, case):
                continue
            known = case.known.get(door) or case.known.get(VERSION)
            kinds = case.catalogs if door == "sql" else case.catalogs[:1]
            for kind in kinds:
                for each in case.each:
                    kind = "path" if door in ("java", "connect") else kind
                    run = {"file": file, "number": number, "kind": kind, "each": each}
                    name = "-".join(filter(None, (file, case.name, kind, each)))
                    chance = zlib.crc32(f"{door} {name}".encode()) + SEED
                    few = door in SHARE and chance % SHARE[door] == 0
                    mark = pytest.mark.versions if few else pytest.mark.soak
                    params.append(
                        pytest.param(
                            run,
                            known,
                            id=f"{door}-{name}",
                            marks=mark,
                        )
                    )
    return params
