"""A small dbt project (dbt-spark, method `session`) over a catalog of Frazil's, run twice."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import CACHE
from tests.peers.checks import environment

pytestmark = [pytest.mark.spark, pytest.mark.soak]

_FILES = {
    "dbt_project.yml": """
name: shop
version: "1.0"
profile: shop
models: {+file_format: iceberg}
seeds: {+file_format: iceberg}
snapshots: {+file_format: iceberg}
""",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: {type: spark, method: session, schema: shop, host: NA, threads: 2}
""",
    "seeds/raw.csv": "id,g,qty\n1,a,5\n2,b,7\n3,a,9\n",
    "models/staged.sql": """{{ config(materialized='view') }}
select id, g, qty + {{ var('plus', 0) }} as qty from {{ ref('raw') }}""",
    "models/totals.sql": """{{ config(materialized='table', partition_by=['g']) }}
select g, sum(qty) as qty from {{ ref('staged') }} group by g""",
    "models/merged.sql": """{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, g, qty from {{ ref('staged') }}
{% if is_incremental() %} where id > 1 union all select 4, 'n', 1 {% endif %}""",
    "models/overwritten.sql": """{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['g']) }}
select id, qty, g from {{ ref('staged') }} {% if is_incremental() %} where g = 'a' {% endif %}""",
    "snapshots/shots.sql": """{% snapshot shots %}
{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['qty']) }}
select id, qty from {{ ref('staged') }} where id < 3{% endsnapshot %}""",
    "models/schema.yml": """
version: 2
models: [{name: merged, columns: [{name: id, data_tests: [unique, not_null]}]}]
""",
}
_SCRIPT = """
import json, site, sys
from pathlib import Path
site.addsitedir(sys.argv[1])  # PySpark and what Frazil needs, behind dbt's own packages
import frazil
from dbt.cli.main import dbtRunner
spark = frazil.spark_session(master="local[2]", config={
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalog.lake.type": "jdbc", "spark.sql.catalog.lake.uri": "sqlite:///lake.db",
    "spark.sql.catalog.lake.warehouse": "lake", "spark.sql.defaultCatalog": "lake",
    "spark.sql.catalog.lake.default-namespace": "shop",
})

def dbt(*arguments):
    done = dbtRunner().invoke([*arguments, "--quiet"])
    assert done.success, (arguments, done.exception, [r.message for r in done.result or ()])

def rows(text):
    return sorted(map(tuple, spark.sql(text).collect()))

for plus in (0, 1):
    for command in ("seed", "run", "snapshot", "test"):
        dbt(command, *(("--vars", f"plus: {plus}") if command in ("run", "snapshot") else ()))
assert rows("SELECT * FROM shop.merged") == [(1, "a", 5), (2, "b", 8), (3, "a", 10), (4, "n", 1)]
assert rows("SELECT * FROM shop.overwritten") == [(1, 6, "a"), (2, 7, "b"), (3, 10, "a")]
assert rows("SELECT * FROM shop.totals") == [("a", 16), ("b", 8)]
shots = "SELECT id, qty, dbt_valid_to IS NULL FROM shop.shots"
assert rows(shots) == [(1, 5, False), (1, 6, True), (2, 7, False), (2, 8, True)]
assert rows("SELECT count(*) FROM shop.merged.snapshots") == [(2,)]  # no run made it anew
staged = Path("models/staged.sql")
view = staged.read_text()
for kind in ("table", "view"):
    staged.write_text(staged.read_text().replace("'view'", "'table'") if kind == "table" else view)
    dbt("run", "--select", "staged")
    extended = rows("SHOW TABLE EXTENDED IN shop LIKE 'staged'")
    assert ("Type: VIEW" in extended[0][3]) == (kind == "view"), (kind, extended)
dbt("docs", "generate")
listed = json.loads(Path("target/catalog.json").read_text())["nodes"]
assert listed["model.shop.staged"]["metadata"]["type"] == "view", listed["model.shop.staged"]
assert listed["model.shop.totals"]["metadata"]["type"] == "table"
print("as expected")
"""


def test_a_project_of_dbt_runs_twice(tmp_path):
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sources = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run(
        [
            environment("dbt", CACHE / "peers").python,
            "-c",
            _SCRIPT,
            sysconfig.get_paths()["purelib"],
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": str(sources),
            "DBT_PROFILES_DIR": str(tmp_path),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        },
    )
    assert "as expected" in done.stdout, (done.stdout[-2000:], done.stderr[-4000:])
