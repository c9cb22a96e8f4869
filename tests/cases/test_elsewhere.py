"""Play every case at the doors that are processes of their own: Java Iceberg on Spark 4.1, a client of
Spark Connect with Frazil in it, and a plain client of `frazil serve`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.drawn import runs
from tests.conftest import ROOT
from tests.peers import checks

JAVA = """
import json
sys.path.insert(0, sys.argv[3])
from tests.cases.elsewhere import answer
print(json.dumps(answer(spark, "java", sys.argv[2], **json.loads(sys.argv[4]))))
"""


class Client(checks.PeerProcess):
    """A client of Spark Connect that plays cases, in this Python."""

    def __init__(self, kind: str, address: str = "") -> None:
        super().__init__(checks.Environment(Path(sys.executable), Path()))
        self._command = [sys.executable, str(ROOT / "tests/cases/elsewhere.py"), kind, address]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def connect() -> Iterator[Client]:
    client = Client("connect")
    yield client
    client.close()


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[Client]:
    """A plain client of a server of its own."""
    serve = "from frazil.cli import main; main()"
    command = [sys.executable, "-c", serve, "--json", "serve", "--master", "local[2]"]
    command += ["--connect", "0", "--conf", "spark.ui.enabled=false"]
    token = os.environ | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "a-token"}
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, env=token
        ) as server,
    ):
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said, (folder / "errors").read_text()[-4000:]
            port = json.loads(said)["connect"].rpartition(":")[2]
            client = Client("plain", f"sc://localhost:{port}/;token=a-token")
            yield client
            client.close()
        finally:
            server.terminate()
            server.wait(90)


def ask(client: Client, folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    return client.ask({"folder": str(folder), **run}, 300)


def judge(answer: dict[str, Any], known: str | None) -> None:
    if "refused" in answer:
        pytest.skip(answer["refused"])
    if "wrong" in answer and known is not None:
        pytest.xfail(known)
    assert "right" in answer, answer["wrong"]
    assert known is None, f"it is right by now: {known}"


@pytest.mark.java
@pytest.mark.parametrize("run, known", runs("java"))
def test_a_case_is_right_in_java(
    java_check: Any, folder: Path, run: Any, known: str | None
) -> None:
    judge(json.loads(java_check.run(JAVA, folder, ROOT, json.dumps(run))), known)


@pytest.mark.spark
@pytest.mark.service
@pytest.mark.parametrize("run, known", runs("connect"))
def test_a_case_is_right_through_a_client_with_frazil(
    connect: Client, folder: Path, run: Any, known: str | None
) -> None:
    judge(ask(connect, folder, run), known)


@pytest.mark.spark
@pytest.mark.service
@pytest.mark.parametrize("run, known", runs("plain"))
def test_a_case_is_right_through_a_plain_client(
    plain: Client, folder: Path, run: Any, known: str | None
) -> None:
    judge(ask(plain, folder, run), known)
