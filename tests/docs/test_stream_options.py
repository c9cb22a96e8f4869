"""docs/streams.md against the code: every starting strategy is listed."""

from __future__ import annotations

import re
from pathlib import Path

from frazil.stream.source.options import FLINK_STRATEGIES

TEXT = (Path(__file__).resolve().parents[2] / "docs/streams.md").read_text()


def listed(part: str) -> set[str]:
    return {
        name
        for line in part.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_starting_strategy_is_documented() -> None:
    assert listed(TEXT.split("## Where a stream starts")[1].split("\n## ")[0]) == set(
        FLINK_STRATEGIES
    )
