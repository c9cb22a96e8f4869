"""docs/options.md against the code: what it lists is accepted, what the code accepts is listed."""

from __future__ import annotations

import re
from pathlib import Path

from frazil.arrow.write.write_options import write_options
from frazil.spec.properties import COLUMN_PROPERTIES, TABLE_PROPERTIES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/options.md").read_text()


def listed(part: str) -> set[str]:
    """Names in the first column."""
    return {
        name
        for line in part.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_documented_write_option_is_accepted() -> None:
    documented = listed(TEXT.split("<!-- write options -->")[1])
    assert len(documented) > 20
    for name in documented - {"snapshot-property.<name>"}:
        assert (
            write_options({name: None})
            == write_options({name.replace("-", "_"): None})
            == write_options({})
        )


# documented as a whole
_OF_DELETES = tuple(f"write.delete.{format_}." for format_ in ("parquet", "orc", "avro"))
_NOT_SERVED = {"write.orc.block-size-bytes"}  # checked, but without effect: see KNOWN_GAPS.md


def test_table_properties_are_those_that_the_code_knows() -> None:
    documented = {
        name for name in listed(TEXT.split("<!-- table properties -->")[1]) if "…" not in name
    }
    known = {n for n in TABLE_PROPERTIES if not n.startswith(_OF_DELETES)} | {
        f"{prefix}<c>" for prefix in COLUMN_PROPERTIES
    }
    assert documented == known - _NOT_SERVED


def test_defaults_of_table_properties_are_the_documented_ones() -> None:
    checked = 0
    for line in TEXT.split("<!-- table properties -->")[1].splitlines():
        for name in listed(line) & TABLE_PROPERTIES.keys():
            default, said = TABLE_PROPERTIES[name].default, line.split("|")[2]
            if default is not None:
                checked += 1
                assert any(text in said for text in _spellings(default)), (
                    f"{name} is {default}, the document says {said}"
                )
    assert checked > 30


def _spellings(default: object) -> list[str]:
    if isinstance(default, bool):
        return [str(default).lower()]
    if isinstance(default, int) and default and default % (1 << 20) == 0:
        return [str(default), f"{default >> 20} MB"]
    return [str(default)]
