"""A writer process of the tests (tests.forked starts it): each acknowledged commit is a line of
PLACE/ack-WHO.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.errors import CommitFailedException
from tests.builders.data_files import data_file
from tests.commit.support import backend_of, name_in


def main(kind: str, place: Path, who: int, commits: int) -> None:
    (place / f"ready-{who}").touch()
    while not (place / "go").exists():
        time.sleep(0.01)
    backend = backend_of(kind, place)
    with open(place / f"ack-{who}", "ab", buffering=0) as acknowledged:
        for i in range(commits):
            number = who * 1000 + i
            try:
                commit(backend, backend.load(name_in(backend)), [Append([data_file(number)])])
            except CommitFailedException:
                continue
            acknowledged.write(b"%d\n" % number)
            os.fsync(acknowledged.fileno())
