"""The table of hazards in tests/README.md names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HAZARDS = 17


def test_every_hazard_of_streams_has_tests_and_each_of_them_is_there() -> None:
    rows = re.findall(
        r"^\| (\d+) \|(.*)$", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE
    )
    assert [int(number) for number, _ in rows] == list(range(1, HAZARDS + 1))
    files: dict[str, str] = {}
    for number, row in rows:
        named = re.findall(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`", row)
        assert any(file for file, _ in named), f"hazard {number} has no test"
        for file, name in named:
            if file:
                files[name] = (ROOT / file).read_text()
            assert f"def {name}(" in files[name], f"hazard {number}: {name}"
