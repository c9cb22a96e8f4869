"""A process that lets commits die (tests.forked starts it); it prints a JSON line for each k.

For k = FIRST, FIRST+STEP, … the table is laid out anew, and a forked child carries the operation
out until its k-th file operation below the table (or SQL statement) fails: FAULT is kill (SIGKILL
before it) or the name of an errno, raised in its place. Another child looks at what is there then.
The parent itself never opens the table: it would have threads, and could not fork.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import Append, DeleteFiles, MetadataChange, OverwriteFiles
from frazil.commit.table_commit import commit
from frazil.errors import CommitStateUnknownException, FrazilError
from frazil.spec.updates import SetProperties
from tests.builders.data_files import data_file
from tests.commit.support import (
    append,
    avro_files,
    backend_of,
    do,
    live,
    make_table,
    name_in,
    needed,
    stored,
)

MOST = 150
EVENTS = {
    "open",
    "os.rename",
    "os.link",
    "os.remove",
    "os.mkdir",
    "os.listdir",
    "os.scandir",
    "os.truncate",
    "sqlite3.connect",
}
OPERATIONS: dict[str, list[Any]] = {
    "append": [Append([data_file(8)])],
    "delete": [DeleteFiles(paths=[data_file(1).file_path])],
    "overwrite": [OverwriteFiles(removed=[data_file(1)], added=[data_file(8)])],
    "properties": [MetadataChange(lambda md: [SetProperties({"new": "1"})])],
    "transaction": [
        Append([data_file(8)]),
        DeleteFiles(paths=[data_file(1).file_path]),
        MetadataChange(lambda md: [SetProperties({"new": "1"})]),
    ],
}


class Counter:
    """Counts file operations below `root` from now on; the k-th fails."""

    def __init__(self, root: str, k: int, fault: str):
        self.root, self.k, self.fault, self.seen, self.fired = root, k, fault, 0, ""
        sys.addaudithook(self.audit)
        for name in ("fsync", "write"):
            setattr(os, name, self.wrapped(name, getattr(os, name)))
        connect = sqlite3.connect

        def traced(*arguments: Any, **more: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **more)
            connection.set_trace_callback(
                lambda statement: self.step(f"sql {statement[:20]}", quiet=True)
            )
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and any(isinstance(a, str) and self.root in a for a in arguments):
            # sqlite itself tells of that as an error of its own
            self.step(event, quiet=event == "sqlite3.connect")

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *arguments: Any) -> Any:
            try:
                below = self.root in os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                below = False
            if below:
                self.step(f"os.{name}")
            return real(fd, *arguments)

        return call

    def step(self, what: str, quiet: bool = False) -> None:
        """`quiet`: an error cannot be raised from here (sqlite swallows it), only a kill."""
        self.seen += 1
        if self.seen != self.k:
            return
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if not quiet:
            self.fired = what
            number = getattr(errno, self.fault)
            raise OSError(number, os.strerror(number))


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returned in a forked process; {"killed": True} when that died of SIGKILL."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = json.dumps(work()).encode()
        except BaseException as e:
            answer = json.dumps({"crashed": repr(e)}).encode()
        os.write(into, answer)
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"killed": True}
    return dict(json.loads(text)) if text else {"crashed": f"status {status}"}


def laid_out(kind: str, place: Path) -> CatalogBackend:
    backend = backend_of(kind, place)
    make_table(backend)
    do(backend, append(1, 2))
    return backend


def attempt(kind: str, operation: str, fault: str, k: int, place: Path) -> dict[str, Any]:
    """Run in a child: the operation with its fault, and what the caller was told."""
    backend = backend_of(kind, place)
    base = backend.load(name_in(backend))
    backend.close()
    counter = Counter(str(place), k, fault)
    try:
        backend = backend_of(kind, place)
        done = commit(backend, base, OPERATIONS[operation], sleep=lambda _: None)
        return {
            "told": "committed",
            "seen": counter.seen,
            "fired": counter.fired,
            "location": done.table.metadata_location,
        }
    except CommitStateUnknownException:
        return {"told": "unknown", "seen": counter.seen, "fired": counter.fired}
    except FrazilError as e:
        return {
            "told": "failed",
            "seen": counter.seen,
            "fired": counter.fired,
            "error": f"{type(e).__name__}: {e}",
        }


def looked_at(kind: str, place: Path, before: list[str]) -> dict[str, Any]:
    """Run in a child: what is there now, and whether the next commit works."""
    backend = backend_of(kind, place)
    table = backend.load(name_in(backend))
    files = avro_files(stored(table))
    found = {
        "live": live(table),
        "new": table.metadata.properties.get("new"),
        "snapshots": len(table.metadata.snapshots),
    }
    found["missing"] = sorted(needed(table.metadata, table) - files)
    found["orphans"] = sorted(files - needed(table.metadata, table))
    found["same_files"] = sorted(everything(table)) == before
    after = do(backend, append(9)).table
    found["next"] = live(after) == sorted([*found["live"], "9"])
    return found


def everything(table: LoadedTable) -> set[str]:
    """All files of the table, but for the hint that path tables keep."""
    return {f for f in stored(table) if not f.endswith("version-hint.text")}


def main(kind: str, operation: str, fault: str, first: int, step: int, place: Path) -> None:
    pristine, work = place / "pristine", place / "work"
    work.mkdir()
    in_child(lambda: {"ok": laid_out(kind, work) is not None})
    shutil.copytree(work, pristine)
    before = in_child(
        lambda: {
            "files": sorted(
                everything(backend_of(kind, work).load(name_in(backend_of(kind, work))))
            )
        }
    )["files"]
    k = first
    while True:
        shutil.rmtree(work)
        shutil.copytree(pristine, work)
        told = in_child(lambda k=k: attempt(kind, operation, fault, k, work))  # type: ignore[misc]
        found = in_child(lambda: looked_at(kind, work, before))
        print(json.dumps({"k": k, **told, **found}), flush=True)
        if (told.get("told") == "committed" and not told["fired"] and told["seen"] < k) or k > MOST:
            return
        k += step
