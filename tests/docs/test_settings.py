"""docs/spark.md names every session setting that Frazil needs or changes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def names(text: str) -> set[str]:
    return set(re.findall(r"^\| `?(spark\.[\w.]+|PYSPARK_\w+)", text, re.M))


def test_the_table_of_settings_is_that_of_the_code() -> None:
    code = names((ROOT / "src/frazil/spark/host/settings.py").read_text())
    assert code
    assert names((ROOT / "docs/spark.md").read_text()) == code
