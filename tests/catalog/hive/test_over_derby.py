"""A metastore 4 over Derby, which cannot compare parameters: commits work under the lock, and those
without are refused by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import frazil
from frazil.errors import Unsupported

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.soak, pytest.mark.service]


@pytest.fixture(scope="module")
def derby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, script = tmp_path_factory.mktemp("derby"), ROOT / "tests/services/hms4.sh"
    environment = {k: v for k, v in os.environ.items() if k != "HMS_PG"} | {
        "PYTHON": sys.executable
    }
    started = subprocess.run(
        [script, "start", folder], capture_output=True, text=True, env=environment
    )
    if started.returncode == 77:
        pytest.skip(started.stderr.strip().splitlines()[-1])
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    subprocess.run([script, "stop", folder], check=True, env=environment)


def test_commits_work_under_the_lock_and_are_refused_without(derby: str, tmp_path: Path) -> None:
    db = f"t{uuid.uuid4().hex[:10]}"
    with frazil.load_catalog("h", type="hive", uri=derby, warehouse=f"{tmp_path}/w") as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint").append([{"id": 1}])
        catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 0")
    settings = {"engine.hive.lock-enabled": "false"}
    with frazil.load_catalog(
        "h", type="hive", uri=derby, warehouse=f"{tmp_path}/w", **settings
    ) as catalog:
        table = catalog.load_table(f"{db}.t")
        with pytest.raises(Unsupported, match="lock-enabled"):
            table.append([{"id": 2}])
        with pytest.raises(Unsupported, match="lock-enabled"):
            catalog.replace_view(f"{db}.v", sql="SELECT 1")
        assert [v.version_id for v in catalog.load_view(f"{db}.v").versions] == [1]
        assert catalog.load_table(f"{db}.t").to_arrow()["id"].to_pylist() == [1]
