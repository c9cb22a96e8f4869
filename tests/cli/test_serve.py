"""`frazil serve`: clients that know nothing of Frazil reach its catalogs, until a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.app import app

_MANY = Path(__file__).parent / "served_client.py"
_CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = eval(sys.argv[1])
assert "frazil" not in sys.modules
for text in (
    "CREATE NAMESPACE lake.db",
    "CREATE TABLE lake.db.t (id INT, s STRING) USING iceberg",
    "INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')",
    "MERGE INTO lake.db.t t USING (SELECT 2 AS id, 'c' AS s UNION ALL SELECT 3, 'd') n ON t.id = n.id"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
):
    spark.sql(text).collect()
spark.range(4, 5).selectExpr("int(id) AS id", "'e' AS s").writeTo("lake.db.t").append()
found = spark.table("lake.db.t").orderBy("id").collect()
assert [tuple(row) for row in found] == [(1, "a"), (2, "c"), (3, "d"), (4, "e")], found
print("as expected")
"""


@pytest.mark.spark
def test_plain_clients_write_and_read_until_a_signal(tmp_path: Path) -> None:
    command = [
        *(
            sys.executable,
            "-c",
            "from frazil.cli import main; main()",
            "--json",
            "serve",
            "--master",
            "local[2]",
        ),
        *("--connect", "0", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.sql.catalog.lake.warehouse={tmp_path}/lake"),
        *("--conf", "spark.sql.catalog.lake.type=path"),
    ]
    environment = os.environ | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "a-token"}
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said, (tmp_path / "errors").read_text()[-4000:]
            facts = json.loads(said)
            port = facts["connect"].rpartition(":")[2]
            checks = [
                CliRunner().invoke(app, ["serve", "--check", "--connect", p]).exit_code
                for p in (port, "1")
            ]
            assert checks == [0, 1]
            outcomes = [
                subprocess.run(
                    [sys.executable, "-c", _CLIENT, facts["python"]],
                    capture_output=True,
                    text=True,
                    cwd=tmp_path,
                    timeout=200,
                    env=environment | token,
                )
                for token in ({"SPARK_CONNECT_AUTHENTICATE_TOKEN": "another"}, {})
            ]
            assert outcomes[0].returncode != 0 and "UNAUTHENTICATED" in outcomes[0].stderr
            assert outcomes[1].stdout == "as expected\n", outcomes[1].stderr[-4000:]
            many = subprocess.run(
                [sys.executable, str(_MANY), f"sc://localhost:{port}", str(tmp_path)],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=400,
                env=environment,
            )
            assert many.returncode == 0, many.stdout + many.stderr[-4000:]
            server.send_signal(signal.SIGTERM)
            assert server.wait(90) == 0, (tmp_path / "errors").read_text()[-4000:]
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--host", "0.0.0.0"], 1, "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        (["--host", "0.0.0.0", "--token", "t", "--thrift", "10000"], 1, "127.0.0.1"),
        (["--thrift", "0"], 1, "10000"),
        (["--conf", "spark.ui.enabled"], 2, "KEY=VALUE"),
        (["--conf", "spark.connect.grpc.binding.port=1"], 2, "--connect"),
    ],
)
def test_what_is_not_served_is_refused_before_spark_starts(
    arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    refused = CliRunner().invoke(app, ["serve", *arguments])
    assert refused.exit_code == code and words in refused.stderr
