"""Choose which cases a run tries at which doors: `make test` each in `spark.sql`, with one of its
values and catalogs, and a few at other doors, drawn by the day and the commit (FRAZIL_TEST_SEED draws
the same again); `make soak` all others.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import pyspark
import pytest

from tests.cases.doors import IN_SESSION
from tests.cases.form import Case, cases_of, files
from tests.conftest import SEED

VERSION = ".".join(pyspark.__version__.split(".")[:2])
ONE_OF = {"sql": 3, "java": 40}
"""Of how many cases at a door a run tries one, with one of its values; at the other doors one of 50."""
LONG = ("connect", "plain", "dataset", "script", "immediate", "batch")
"""Doors that are for `make soak` alone, until all cases have been tried there."""


def takes(door: str, case: Case) -> bool:
    """Tell whether a case goes by a door on this Spark."""
    if door in case.skips or (case.since and case.since > VERSION):
        return False
    match door:
        case "connect":
            return case.catalogs[0] == "path" or case.catalogs == ("sql",)
        case "java":  # its catalog is Hadoop's, which keeps no views
            return case.catalogs[0] != "session" and case.file != "views"
        case "plain":
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
            known = case.known.get(door)
            if door != "java":
                known = known or case.known.get(VERSION) or case.known.get("frazil")
            kinds = case.catalogs if door == "sql" else case.catalogs[:1]
            kinds = ("path",) if door in ("java", "connect") else kinds
            ways = list(itertools.product(kinds, range(len(case.runs))))
            chance = zlib.crc32(f"{door} {file} {case.name}".encode()) + SEED
            tried, one_of = ways[chance % len(ways)], ONE_OF.get(door, 50)
            for kind, run in ways:
                marks = [pytest.mark.drawn]
                if door in LONG or (kind, run) != tried or chance // 100 % one_of:
                    marks.append(pytest.mark.soak)
                elif door == "sql" and chance // 10 % 10 == 0:
                    marks.append(pytest.mark.versions)
                name = "-".join([file, case.name, kind, *([str(run)] if run else [])])
                play = {"file": file, "number": number, "kind": kind, "run": run}
                params.append(pytest.param(play, known, id=f"{door}-{name}", marks=marks))
    return params
