"""Every maintenance procedure on a standalone cluster of two workers (`make soak`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_cluster import ROOT, cluster

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.soak]
__all__ = ["cluster"]
JOB = ROOT / "tests/contract/upkeep_job.py"


def test_each_procedure_does_its_work_on_the_workers_and_keeps_the_rows(
    cluster: object, tmp_path: Path
) -> None:
    env = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        [sys.executable, str(JOB), str(cluster), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,
        env=env,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("TOLD ")), None)
    assert line is not None, done.stderr[-3000:]
    told = json.loads(line.removeprefix("TOLD "))
    assert told["executors"] == 2
    failed = {name: what for name, (kept, what) in told["told"].items() if not kept}
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())
    assert len(told["told"]) == 2 * 25
