"""Processes of tests that start in no time: a server imports what they need once, and forks itself
for each.

    child = started(main, "path", 7, place=tmp_path)
    assert child.wait(60) == 0, child.problems()

`main` is a function at the top of a module, and runs as in a new process: nothing of the test's own
process is in it. What it prints is `printed()`. A child that was killed has the signal as a
negative code.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
# Modules only: whoever opens a table has threads afterwards, and cannot fork any more.
CONTEXT.set_forkserver_preload(
    [
        "datafusion",
        "pyarrow.orc",
        "pyarrow.parquet",
        "pyroaring",
        "frazil.table.catalog",
        "frazil.table.table",
    ]
)


@dataclass(frozen=True)
class Child:
    process: BaseProcess
    out: Path
    err: Path

    def wait(self, timeout: float) -> int | None:
        """The exit code; None while it runs."""
        self.process.join(timeout)
        return self.process.exitcode

    def printed(self) -> str:
        return self.out.read_text()

    def problems(self) -> str:
        return self.err.read_text()[-4000:]


def started(main: Callable[..., None], *arguments: Any, place: Path) -> Child:
    """`place`: a folder for what the child prints."""
    out, err = (Path(tempfile.mkstemp(f".{kind}", "child-", place)[1]) for kind in ("out", "err"))
    process = CONTEXT.Process(target=_run, args=(main, arguments, str(out), str(err)), daemon=True)
    process.start()
    return Child(process, out, err)


def printed_by(
    main: Callable[..., None], *arguments: Any, place: Path, timeout: float
) -> list[str]:
    """The lines that a child prints, which has to end well."""
    child = started(main, *arguments, place=place)
    code = child.wait(timeout)
    if code is None:
        child.process.kill()
    assert code == 0, f"{code}: {child.problems()}"
    return child.printed().splitlines()


def _run(main: Callable[..., None], arguments: tuple[Any, ...], out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    main(*arguments)
    sys.stdout.flush()
