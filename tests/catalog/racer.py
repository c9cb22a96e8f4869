"""One writer of a race, run as a process: `racer.py KIND ACKNOWLEDGEMENTS NUMBER ROUNDS properties…`.

Every commit adds one property of its own; each acknowledged one is written down, synced, before the next begins. FRAZIL_KILL_AT=k kills
the process at its k-th file call below the table once it has begun to commit; FRAZIL_KILL_UNDER is that directory.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import replace

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
    """Until it is acknowledged, with short waits; False when given up (then it is surely not applied)."""
    for attempt in range(2000):
        base = backend.load(TABLE)
        properties = {**base.metadata.properties, key: "1"}
        later = max(base.metadata.last_updated_ms + 1, int(time.time() * 1000))
        try:
            outcome = backend.swap(base, replace(base.metadata, properties=properties, last_updated_ms=later))
        except CommitFailedException as error:
            outcome = Conflict(str(error))
        if isinstance(outcome, Committed):
            return True
        if isinstance(outcome, Unknown) and key in backend.load(TABLE).metadata.properties:
            return True
        assert isinstance(outcome, Conflict | Unknown), outcome
        time.sleep(random.uniform(0, 0.002 * min(attempt + 1, 20)))
    return False


def main(acknowledgements: str, number: str, rounds: str, *settings: str) -> None:
    backend = load_backend("race", **dict(s.split("=", 1) for s in settings))
    backend.load(TABLE)
    start = os.environ.get("FRAZIL_START")
    while start and not os.path.exists(start):
        time.sleep(0.005)
    if count := os.environ.get("FRAZIL_KILL_AT"):
        kill_at(int(count), os.environ["FRAZIL_KILL_UNDER"])
    with open(acknowledgements, "a") as log:
        for i in range(int(rounds)):
            key = f"p.{number}.{i}"
            if commit(backend, key):
                log.write(key + "\n")
                log.flush()
                os.fsync(log.fileno())
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
