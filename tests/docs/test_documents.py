"""Every Python block of the documents runs, in order, in an empty directory; every command they
name is there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.one_driver import OneDriver
from tests.peers.checks import PyIcebergCheck

ROOT = Path(__file__).resolve().parents[2]
SPARK = "README.md docs/spark.md docs/sql.md docs/streams.md docs/streams-sink.md docs/partition-commit.md docs/from-flink.md docs/from-java.md".split()
PLAIN = [
    "docs/tour.md",
    "docs/pyiceberg.md",
    "docs/from-delta.md",
    "docs/maintenance.md",
    "docs/procedures.md",
    "docs/compaction.md",
    "docs/options.md",
    "docs/catalogs.md",
    "docs/operations.md",
]
# as a user runs them, but for what a large cluster would want of Spark; the demo wants that memory,
# and shares a JVM with the documents
SMALL = '--conf spark.driver.memory=2g --conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false --driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell'
DOCUMENTS = [
    p
    for p in ROOT.rglob("*.md")
    if not {".venv", ".cache", ".git", "node_modules"} & set(p.relative_to(ROOT).parts)
]


def blocks(path: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of each fenced block."""
    found, text = [], path.read_text()
    for m in re.finditer(rf"^```{language}\n(.*?)^```", text, re.S | re.M):
        found.append((text.count("\n", 0, m.start()) + 2, m[1]))
    return found


def statements(text: str) -> list[str]:
    return [s for part in re.split(r";\s*\n", re.sub(r"--.*", "", text)) if (s := part.strip())]


def script(path: Path) -> str:
    """The document's blocks at their own line numbers, so that a failure names the place; those of
    SQL in the session that Python made.
    """
    lines: list[str] = []
    sql = [
        (line, f"for statement in {statements(text)!r}: spark.sql(statement).collect()")
        for line, text in blocks(path, "sql")
    ]
    for line, text in sorted(blocks(path, "python") + sql):
        lines += [""] * (line - 1 - len(lines)) + text.splitlines()
    return "\n".join(lines) + "\n"


def written(name: str, folder: Path) -> Path:
    file = folder / "document.py"
    file.write_text(script(ROOT / name))
    return file


def environment() -> dict[str, str]:
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("FRAZIL_", "PYICEBERG_", "PYSPARK_", "SPARK_"))
    }
    return clean | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_SUBMIT_ARGS": SMALL}


def ended_well(name: str, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, f"{name}:\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("name", PLAIN)
def test_documents_without_spark_run_line_by_line(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(written(name, tmp_path))]
    ended_well(
        name,
        subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment()
        ),
    )


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneDriver]:
    with OneDriver(tmp_path_factory.mktemp("driver"), environment()) as made:
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("name", SPARK)
def test_documents_with_spark_run_line_by_line(
    name: str, driver: OneDriver, tmp_path: Path
) -> None:
    ended_well(name, driver.run(written(name, tmp_path)))


def test_no_python_block_is_left_out() -> None:
    ours = {
        str(p.relative_to(ROOT))
        for p in DOCUMENTS
        if blocks(p, "python") and not str(p.relative_to(ROOT)).startswith(("tests/", "bench/"))
    }
    assert ours == set(SPARK) | set(PLAIN)


def test_make_words_in_the_documents_exist() -> None:
    words = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    missing = []
    for path in DOCUMENTS:
        code = re.findall(r"`([^`\n]+)`", path.read_text()) + [
            line for _, b in blocks(path, "sh") for line in b.splitlines()
        ]
        for line in code:
            if (m := re.match(r"make ([a-z-]+)", line.strip())) and m[1] not in words:
                missing.append(f"{path.relative_to(ROOT)}: {line}")
    assert missing == []


def test_scripts_in_the_documents_exist() -> None:
    missing = []
    for path in DOCUMENTS:
        for _, text in blocks(path, "sh"):
            for word in re.findall(
                r"(?:^|\s)((?:bench|demo|tests|docs)/[\w./-]+\.(?:py|sh))", text
            ):
                if not (ROOT / word).exists() and not (path.parent / word).exists():
                    missing.append(f"{path.relative_to(ROOT)}: {word}")
    assert missing == []


@pytest.mark.spark
@pytest.mark.soak
def test_the_demo_of_streams_has_every_flight_once_after_its_driver_was_killed(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "demo/streams.py"),
            "--days",
            "1",
            "--kills",
            "1",
            "--keep",
            str(tmp_path / "demo"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (
        "the driver was killed 1 times" in done.stdout
        and done.stdout.count("in its last state: yes") == 2
    )


@pytest.mark.spark
@pytest.mark.soak
def test_the_demo_of_a_cluster_has_every_flight_once_after_its_workers_were_killed(
    tmp_path: Path, pyiceberg_check: PyIcebergCheck
) -> None:
    peers = pyiceberg_check.environment.python.parents[2]
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "demo/cluster.py"),
            "--days",
            "2",
            "--keep",
            str(tmp_path / "demo"),
            "--peers",
            str(peers),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (
        done.stdout.count(" flights: yes") == 3
        and " a worker was killed" in done.stdout
        and " an executor was killed" in done.stdout
    )


@pytest.mark.spark
@pytest.mark.java
def test_the_demo_runs_and_pyiceberg_agrees(
    driver: OneDriver, pyiceberg_check: PyIcebergCheck
) -> None:
    python = pyiceberg_check.environment.python
    done = driver.run(ROOT / "demo/flights.py", "--rows", "40000", "--pyiceberg", str(python))
    ended_well("demo/flights.py", done)
    assert "the same" in done.stdout
