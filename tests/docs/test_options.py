"""docs/options.md against the code: what it lists is accepted, what the code accepts is listed."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from frazil.arrow.write.write_options import WriteOptions, write_options
from frazil.commit.properties import DEFAULTS
from frazil.scan.options import SPLIT_OPTIONS
from frazil.spark.door import target

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/options.md").read_text()


def listed(part: str) -> set[str]:
    """Names in the first column."""
    return {name for line in part.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def test_every_write_option_is_documented_and_every_documented_one_accepted() -> None:
    documented = listed(TEXT.split("<!-- write options -->")[1])
    known = {f.name.replace("_", "-") for f in fields(WriteOptions)} - {"snapshot-properties", "of-session"} | {"snapshot-property.<name>"}
    assert documented == known
    for name in documented - {"snapshot-property.<name>"}:
        write_options({name: None})
        write_options({name.replace("-", "_"): None})


def test_every_read_option_is_documented_and_every_documented_one_accepted() -> None:
    known = {*target._SELECTORS, *target._RANGE, *target._HINTS, *SPLIT_OPTIONS, "catalog.<key>"}
    documented = listed(TEXT.split("<!-- read options -->")[1]) - {"db.events.changes"}
    assert {name.lower() for name in documented} == known
    assert target.read_request({"path": "/t", "Snapshot_Id": 3}).selectors == {"snapshot_id": 3}


_PROPERTY = re.compile(r"(?:write|read|commit|gc|schema|encryption)\.[a-z][a-z.-]*")
_STEMS = {
    "write.parquet.",
    "write.orc.",
    "write.avro.",
    "write.delete.",
    "commit.retry.",
    "commit.status-check.",
}  # put together with what follows


def test_table_properties_are_those_that_the_code_reads() -> None:
    documented = {name.replace("<c>", "") for name in listed(TEXT.split("<!-- table properties -->")[1])}
    source = {p: p.read_text() for p in (ROOT / "src/frazil").rglob("*.py")}
    literals = {
        n.value for t in source.values() for n in ast.walk(ast.parse(t)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    read = {text for text in literals if _PROPERTY.fullmatch(text)} - _STEMS
    assert read - documented == set()
    ends = tuple(text for text in literals if len(text) > 4)
    unread = {name for name in documented - read if "…" not in name and not name.endswith(ends)}
    assert unread - {"write.spark.accept-any-schema"} == set()


def test_split_options_and_commit_properties_are_documented() -> None:
    assert {name for name in SPLIT_OPTIONS if f"`{name}`" not in TEXT} == set()
    full = TEXT.replace("`…", "`")
    assert {key for key in DEFAULTS if key not in TEXT and f"`{key.rpartition('.')[2]}`" not in full} == set()
