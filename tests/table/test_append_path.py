"""The path of an append through the rooms, as ARCHITECTURE.md describes it."""

from __future__ import annotations

import re
import sys
from collections import Counter
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
    return [
        name
        for name in re.findall(r"`([a-z_/]+\.py)`", chain + end)
        if not name.startswith(("spark/", "tests/"))
    ]


def entries_of(call: Any) -> list[tuple[str, str]]:
    """Every call from one file to another, be it of a library, into the rooms `table` and `ops` and
    into the commit loop: the file and the function that is entered."""
    entries: list[tuple[str, str]] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        caller, entered = frame.f_back, frame.f_code.co_filename
        if (
            event == "call"
            and caller is not None
            and caller.f_code.co_filename != entered
            and entered.startswith(PACKAGE)
        ):
            if (file := entered.removeprefix(PACKAGE)).startswith(
                ("table/", "ops/")
            ) or file == "commit/table_commit.py":
                entries.append((file, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return entries


# what only tells a fact, checks an argument or names the table in errors, however often it is asked
ANSWERS = {
    "DataChange.txn", "InProcessEngine.evaluates_sql", "InProcessEngine.facts", "InProcessEngine.write_defaults", "StagedWrite.written",
    "WriteTarget.snapshot_fields", "flag", "is_spark_frame", "mapping", "naming",
}  # fmt: skip
RETURNS = {  # how the way leads back to a file that it has entered, and how often
    # the block of the operation, in the verb
    "TableOperation.__enter__": 1, "TableOperation.run": 1, "TableOperation.__exit__": 1,
    "TableOperation.target": 1,  # the change asks for the target of this operation
    "start_of": 1,  # from which snapshot conflicts are looked for
    "staged_by": 1,  # the change stages the files that were written
    "TableCommit.__post_init__": 1,  # called by the __init__ that dataclasses write
    "TableOperation.releasing": 2,  # a context manager: contextlib enters and ends it
    "DataChange.repeatable": 1,  # whether the change would be run again
    "TableHandle._show": 1,  # the operation hands the new state to its table
    "refresh_views": 1,  # Spark's views over the table
}  # fmt: skip


def test_an_append_enters_eight_files_once_each_in_the_order_that_is_described(
    catalog: Catalog,
) -> None:
    table = catalog.create_table("db.t", "id bigint")
    entries = entries_of(lambda: table.append(pa.table({"id": [1, 2]})))
    way = [
        file for file, function in entries if function not in RETURNS and function not in ANSWERS
    ]
    assert way == described() and len(way) == 8 and table.count() == 2
    assert Counter(function for _, function in entries if function in RETURNS) == RETURNS
    assert {function for _, function in entries} >= ANSWERS
