"""Runs the checkers beside this file in the environments of the engines they ask. `environment`
makes those on first use.

An engine starts with the first question and stays up (server.py) for all tests of the run: a JVM's
start costs more than most answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.fault_proxy import readable

HERE = Path(__file__).resolve().parent
JAR = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"

Results = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Environment:
    python: Path
    jar: Path


def environment(name: str, folder: Path) -> Environment:
    """`java` or `pyiceberg`; setup.sh keeps what is there and waits for others that set it up."""
    run = subprocess.run([HERE / "setup.sh", name, folder], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"setting up {name} failed:\n{run.stderr[-4000:]}")
    return Environment(folder / name / "bin" / "python", folder / "jars" / JAR)


class PeerProcess:
    """One process of another engine: started by the first question, again after one that killed it;
    `close` ends it.
    """

    def __init__(self, environment: Environment, *arguments: str | Path) -> None:
        self.environment = environment
        self._command = [str(environment.python), str(HERE / "server.py"), *map(str, arguments)]
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as this)

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._process is None:
            clean = {
                k: v
                for k, v in os.environ.items()
                if not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))
            }
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                bufsize=1,
                env=clean,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        line = ""
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            if readable(self._process.stdout, within=timeout):
                line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        finally:  # also when the wait is broken off: the answer would be taken for that of the next question
            if not line:
                self.close()
        if not line:
            raise RuntimeError(
                f"{self._command} gave no answer within {timeout} s or died:\n{self._told()}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise RuntimeError(
                f"failed:\n{answer['out'][-1000:]}\n{answer['failed'][-4000:]}\n{self._told()}"
            )
        return answer

    def _told(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:].decode(errors="replace")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _check(
        self, locations: Sequence[str | Path], flags: Sequence[str], timeout: float
    ) -> Results:
        """Results in the order of the locations. The scripts end with 1 when they found problems;
        anything else is a failure of the check.
        """
        named = [str(location) for location in locations]
        for path in named:
            if not Path(path).exists():
                raise FileNotFoundError(path)
        answer = self.ask({"check": [*named, *flags]}, timeout)
        start = answer["out"].find("{")
        if answer["code"] not in (0, 1) or start < 0:
            raise RuntimeError(
                f"the check ended with {answer['code']}:\n{answer['out'][-1000:]}\n{self._told()}"
            )
        found = json.loads(answer["out"][start:])["results"]
        return dict(zip(named, found, strict=True))

    def _run(self, code: str, arguments: Sequence[str | Path], timeout: float) -> str:
        return str(
            self.ask({"code": code, "arguments": [str(a) for a in arguments]}, timeout)["out"]
        )


class JavaCheck(PeerProcess):
    def __init__(self, environment: Environment, class_path: str = "") -> None:
        """`class_path` comes before Spark's own jars."""
        super().__init__(
            environment, "java", environment.jar, *([class_path] if class_path else [])
        )

    def __call__(
        self,
        locations: Sequence[str | Path],
        *,
        write: bool = False,
        light: bool = False,
        newest: int = 0,
        timeout: float = 900,
    ) -> Results:
        """`newest`: how many snapshots are read, the latest ones; 0 for all."""
        return self._check(
            locations,
            ["--write"] * write + ["--light"] * light + [f"--newest={newest}"] * (newest > 0),
            timeout,
        )

    def run(self, code: str, *arguments: str | Path, timeout: float = 600) -> str:
        """Runs Python beside Java Iceberg: `spark` is a new session whose catalog `j` is Hadoop's
        over sys.argv[2]. Gives stdout.
        """
        return self._run(code, arguments, timeout)


class PyIcebergCheck(PeerProcess):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, "pyiceberg")

    def __call__(self, locations: Sequence[str | Path], *, timeout: float = 600) -> Results:
        return self._check(locations, [], timeout)

    def run(self, code: str, *arguments: str | Path, timeout: float = 600) -> str:
        """Runs Python with PyIceberg installed; `arguments` are sys.argv[1:]. Gives stdout."""
        return self._run(code, arguments, timeout)
