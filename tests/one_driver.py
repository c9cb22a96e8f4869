"""Programs that start Spark, one after another in one driver, since a JVM that starts anew costs
more than most of them.

    with OneDriver(place, environment) as driver:
        done = driver.run("program.py", "--rows", "3")
        assert done.returncode == 0, done.stderr

Each program begins as `python program.py …` does, with its own `__main__`, in the driver's folder,
which is empty; its Spark session is stopped after it. The folder is the same for all, since a JVM
cannot change its working directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any


class OneDriver:
    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self.folder, self._out, self._err = place / "folder", place / "out", place / "err"
        self.folder.mkdir()
        answers, theirs = os.pipe()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=self.folder,
                text=True,
                pass_fds=(theirs,),
            )
        os.close(theirs)
        self._answers = os.fdopen(answers)

    def run(
        self, program: str | Path, *arguments: str, timeout: float = 400
    ) -> subprocess.CompletedProcess[str]:
        """What the program printed, and its exit code; -1 where the driver died of it or gave no
        answer in time.
        """
        for left in self.folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        began = [file.stat().st_size for file in (self._out, self._err)]
        code = -1
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            print(json.dumps([str(program), *arguments]), file=self._process.stdin, flush=True)
            waiting = select.poll()  # select() takes no descriptors above 1023
            waiting.register(self._answers, select.POLLIN)
            if waiting.poll(1000 * timeout) and (line := self._answers.readline()):
                code = json.loads(line)
        told = [
            file.read_bytes()[size:].decode(errors="replace")
            for file, size in zip((self._out, self._err), began, strict=True)
        ]
        return subprocess.CompletedProcess([str(program), *arguments], code, *told)

    def __enter__(self) -> OneDriver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._answers.close()


def called(argv: list[str]) -> int:
    """Run a program as Python's command line does, and return its exit code."""
    sys.argv = argv
    sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        end()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def end() -> None:
    """End what a program left, as the end of its process would have: its Spark session, and what
    Frazil knows of files.
    """
    sql: Any = sys.modules.get("pyspark.sql")
    session = sql and sql.SparkSession._instantiatedSession
    if session is not None:
        session.stop()
    if frazil := sys.modules.get("frazil"):
        frazil.clear_caches()


def main(answers_to: str) -> None:
    os.set_inheritable(int(answers_to), False)
    with os.fdopen(int(answers_to), "w") as answers:
        for line in sys.stdin:
            print(json.dumps(called(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
