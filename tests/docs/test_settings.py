"""docs/spark.md lists every session setting that Frazil changes."""

from __future__ import annotations

import re
from pathlib import Path

from frazil.dropin import sql
from frazil.spark.host import settings
from frazil.spark.scan import parquet_scan
from frazil.spark.write import layout, spark_writer

ROOT = Path(__file__).resolve().parents[2]


def names(text: str) -> set[str]:
    return set(re.findall(r"^\| `?(spark\.[\w.]+|PYSPARK_\w+)", text, re.M))


def test_every_setting_of_the_table_is_one_that_the_code_names() -> None:
    listed = names((ROOT / "docs/spark.md").read_text())
    code = "".join(path.read_text() for path in (ROOT / "src/frazil").rglob("*.py"))
    assert len(listed) > 10 and {name for name in listed if f'"{name}"' not in code} == set()


def test_every_setting_that_is_changed_for_a_while_is_in_the_table() -> None:
    listed = names((ROOT / "docs/spark.md").read_text())
    changed = {
        *spark_writer._SETTINGS,
        spark_writer._MOST_WRITERS,
        layout.ADVISORY,
        settings.FEWEST_PARTITIONS,
        settings.CASE_SENSITIVE,
        settings.ZONE,
        settings.ANSI,
        settings.READ_IDS,
        parquet_scan._THRESHOLD,
        sql.MARK,
    }
    assert changed <= listed
