"""One writer of a race, a process of its own (tests.forked starts it).

Every commit adds one property of its own; each acknowledged one is written down, synced, before the
next begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from frazil.catalog import CatalogBackend, Committed, Conflict, Unknown, load_backend
from frazil.errors import CommitFailedException

TABLE = ("db", "t")
EVENTS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.listdir"}


def kill_at(count: int, under: str) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in EVENTS and str(arguments[0]).startswith(under):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def commit(backend: CatalogBackend, key: str) -> bool:
    """Until it is acknowledged, with short waits; False when given up (then it is surely not
    applied).
    """
    for attempt in range(2000):
        base = backend.load(TABLE)
        properties = {**base.metadata.properties, key: "1"}
        later = max(base.metadata.last_updated_ms + 1, int(time.time() * 1000))
        try:
            outcome = backend.swap(
                base, replace(base.metadata, properties=properties, last_updated_ms=later)
            )
        except CommitFailedException as error:
            outcome = Conflict(str(error))
        if isinstance(outcome, Committed):
            return True
        if isinstance(outcome, Unknown) and key in backend.load(TABLE).metadata.properties:
            return True
        assert isinstance(outcome, Conflict | Unknown), outcome
        time.sleep(random.uniform(0, 0.002 * min(attempt + 1, 20)))
    return False


def main(
    folder: Path, number: int, rounds: int, settings: Mapping[str, str], kill: int = 0
) -> None:
    """Begins when the file `start` is there. `kill`: dies at its k-th file call below the warehouse
    once it has begun to commit.
    """
    backend = load_backend("race", **settings)  # type: ignore[arg-type]
    backend.load(TABLE)
    while not (folder / "start").exists():
        time.sleep(0.005)
    if kill:
        kill_at(kill, f"{folder}/w")
    with open(folder / f"ack{number}", "a") as log:
        for i in range(rounds):
            key = f"p.{number}.{i}"
            if commit(backend, key):
                log.write(key + "\n")
                log.flush()
                os.fsync(log.fileno())
    backend.close()


def opens(uri: str) -> None:
    load_backend("x", type="sql", uri=uri).list_namespaces()
