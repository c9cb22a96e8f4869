"""docs/options.md against the code: what it lists is accepted, what the code accepts is listed."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from frazil.arrow.write_options import WriteOptions, write_options
from frazil.commit.properties import DEFAULTS
from frazil.scan.options import SPLIT_OPTIONS

TEXT = (Path(__file__).resolve().parents[2] / "docs/options.md").read_text()


def listed(part: str) -> set[str]:
    """Names in the first column."""
    return {name for line in part.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def test_every_write_option_is_documented_and_every_documented_one_accepted() -> None:
    documented = listed(TEXT.split("<!-- write options -->")[1])
    known = {f.name.replace("_", "-") for f in fields(WriteOptions)} - {"snapshot-properties"} | {"snapshot-property.<name>"}
    assert documented == known
    for name in documented - {"snapshot-property.<name>"}:
        write_options({name: None})
        write_options({name.replace("-", "_"): None})


def test_split_options_and_commit_properties_are_documented() -> None:
    assert {name for name in SPLIT_OPTIONS if f"`{name}`" not in TEXT} == set()
    full = TEXT.replace("`…", "`")
    assert {key for key in DEFAULTS if key not in TEXT and f"`{key.rpartition('.')[2]}`" not in full} == set()
