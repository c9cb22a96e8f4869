"""The path of an append through the rooms, as ARCHITECTURE.md describes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import frazil
from frazil.catalog import Catalog

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = f"{Path(frazil.__file__).parent}/"


def described() -> list[str]:
    """The files of an append without Spark, in the order of the paragraph "Write"."""
    paragraph = re.search(r"\*\*Write\.\*\*(.*)", (ROOT / "ARCHITECTURE.md").read_text())
    assert paragraph is not None
    chain, end, _ = paragraph[1].partition("`commit/table_commit.py`")
    return [name for name in re.findall(r"`([a-z_/]+\.py)`", chain + end) if not name.startswith(("spark/", "tests/"))]


def passed_on(call: Any) -> list[str]:
    """The files of which a function calls one of another file, in the order in which they first do so. What only answers, be it by a fact
    of the format (`spec/`), is left out."""
    files: dict[str, None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event == "call" and caller is not None:
            a, b = caller.f_code.co_filename, frame.f_code.co_filename
            if a != b and a.startswith(PACKAGE) and b.startswith(PACKAGE) and not b.startswith(f"{PACKAGE}spec/"):
                files.setdefault(a.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(files)


def test_an_append_goes_through_eight_files_in_the_order_that_is_described(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", "id bigint")
    found = passed_on(lambda: table.append(pa.table({"id": [1, 2]})))
    before_the_swap = found[: found.index("catalog/sql.py")]
    path = [name for name in before_the_swap if name.startswith(("table/", "ops/")) or name == "commit/table_commit.py"]
    assert path == described() and len(path) == 8 and table.count() == 2
