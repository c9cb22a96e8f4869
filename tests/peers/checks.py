"""Runs the checkers beside this file in the environments of the engines they ask. `environment` makes those on first use."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def _run(environment: Environment, script: str, locations: Sequence[str | Path], *flags: str, timeout: float) -> Results:
    """Results in the order of the locations. The scripts end with 1 when they found problems; anything else is a failure of the check."""
    named = [str(location) for location in locations]
    for path in named:
        if not Path(path).exists():
            raise FileNotFoundError(path)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}
    command = [str(environment.python), str(HERE / script), *named, *flags]
    run = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=clean)
    start = run.stdout.find("{")
    if run.returncode not in (0, 1) or start < 0:
        raise RuntimeError(f"{script} ended with {run.returncode}:\n{run.stderr[-4000:]}")
    found = json.loads(run.stdout[start:])["results"]
    return dict(zip(named, found, strict=True))


@dataclass(frozen=True)
class JavaCheck:
    environment: Environment

    def __call__(self, locations: Sequence[str | Path], *, write: bool = False, light: bool = False, timeout: float = 900) -> Results:
        flags = ["--jar", str(self.environment.jar)] + ["--write"] * write + ["--light"] * light
        return _run(self.environment, "java_check.py", locations, *flags, timeout=timeout)

    def run(self, code: str, *arguments: str | Path, timeout: float = 600) -> str:
        """Runs Python in Java Iceberg's environment: `spark` is a session whose catalog `j` is Hadoop's over sys.argv[1]. Gives stdout."""
        return _script(self.environment.python, (HERE / "java_session.py").read_text() + code, (self.environment.jar, *arguments), timeout)


@dataclass(frozen=True)
class PyIcebergCheck:
    environment: Environment

    def __call__(self, locations: Sequence[str | Path], *, timeout: float = 600) -> Results:
        return _run(self.environment, "pyiceberg_check.py", locations, timeout=timeout)

    def run(self, code: str, *arguments: str | Path, timeout: float = 600) -> str:
        """Runs Python with PyIceberg installed; `arguments` are sys.argv[1:]. Gives stdout."""
        return _script(self.environment.python, code, arguments, timeout)


def _script(python: Path, code: str, arguments: Sequence[str | Path], timeout: float) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))}
    run = subprocess.run([str(python), "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, env=clean)
    if run.returncode:
        raise RuntimeError(f"ended with {run.returncode}:\n{run.stdout[-1000:]}\n{run.stderr[-4000:]}")
    return run.stdout
