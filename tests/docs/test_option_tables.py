"""The tables of options in the documents are made of the tables of the code.

After a change that is meant: `python -m tests.docs.test_option_tables` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from frazil.arrow.write import write_options
from frazil.catalog import options as catalogs
from frazil.catalog.hive import options as hive
from frazil.catalog.rest import options as rest
from frazil.catalog.sql import options as sql
from frazil.maintain.compact import options as compaction
from frazil.maintain.position_deletes import delete_groups
from frazil.maintain.stream_upkeep import triggers
from frazil.spark.engine import read_target
from frazil.spark.streams.sink import files
from frazil.spec.options import DURATION, Option
from frazil.stream.partitions import options as partition_commit
from frazil.stream.sink import options as sink
from frazil.stream.source import options as source

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES: dict[tuple[str, str], tuple[Option[Any, Any], ...]] = {
    ("options.md", "read options"): read_target.OPTIONS.listed,
    ("options.md", "write options"): write_options.OPTIONS.listed,
    ("catalogs.md", "properties of REST catalogs"): rest.OPTIONS.listed,
    ("catalogs.md", "properties of Hive catalogs"): hive.OPTIONS.listed,
    ("catalogs.md", "properties of all catalogs"): catalogs.OPTIONS.listed,
    ("catalogs.md", "properties of SQL catalogs"): sql.OPTIONS.listed,
    ("streams.md", "options"): source.OPTIONS.listed,
    ("streams-sink.md", "options"): sink.OPTIONS.options,
    ("partition-commit.md", "options"): partition_commit.OPTIONS.listed,
    ("partition-commit.md", "options of write_stream_files"): files.OPTIONS.options,
    ("compaction.md", "options of rewrite_data_files"): compaction.OPTIONS.listed,
    (
        "compaction.md",
        "options of rewrite_position_delete_files",
    ): delete_groups.OPTIONS.listed,
    ("maintenance.md", "options of maintenance"): triggers.OPTIONS.listed,
}


def as_markdown(options: Iterable[Option[Any, Any]]) -> str:
    """Return a table: of each option its names, what holds without it, and what it does; where all
    say who named them, this as well. Options that differ in their names only share a row.
    """
    options = tuple(options)
    with_origins = all(o.origin for o in options)
    head = ["option", "default", *(["from"] if with_origins else []), "meaning"]
    rows: dict[tuple[str, ...], list[str]] = {}
    for o in options:
        cells = (default(o), *([o.origin] if with_origins else []), meaning(o))
        rows.setdefault(cells, []).extend(f"`{name}`" for name in o.names)
    lines = [
        head,
        ["---"] * len(head),
        *([", ".join(names), *cells] for cells, names in rows.items()),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def default(option: Option[Any, Any]) -> str:
    """Return what a document says of the value that an option has if it is not given."""
    if option.otherwise:
        return option.otherwise
    match option.default:
        case None | ():
            return "none"
        case bool() as truth:
            return f"`{str(truth).lower()}`"
        case int() as number if option.kind is DURATION:
            return (
                f"{number // 1000} s"
                if number % 3_600_000 or not number
                else f"{number // 3_600_000} h"
            )
        case int() as number if number >= 1 << 20:
            return f"{number >> 30} GB" if number >> 30 else f"{number >> 20} MB"
        case int() | float() as number:
            return str(number)
        case text:
            return f"`{text}`"


def meaning(option: Option[Any, Any]) -> str:
    """Return the text of an option, with its choices and the operations that it is for."""
    choices = [f"`{word}`" for word in option.kind.choices]
    text = f"{option.text} One of {', '.join(choices)}." if choices else option.text
    verbs = ", ".join(f"`{verb}`" for verb in option.verbs)
    return f"{text} Only for {verbs}." if verbs else text


def written(page: str) -> str:
    """Return the text of a page with its tables of options anew."""
    text = (DOCS / page).read_text()
    for (of_page, name), options in TABLES.items():
        if of_page == page:
            mark = f"<!-- {name} -->\n"
            before, _, after = text.split(mark)
            text = f"{before}{mark}{as_markdown(options)}{mark}{after}"
    return text


@pytest.mark.parametrize("page", sorted({page for page, _ in TABLES}))
def test_the_tables_of_a_page_are_those_that_the_code_makes(page: str) -> None:
    assert (DOCS / page).read_text() == written(page), (
        "run: python -m tests.docs.test_option_tables"
    )


@pytest.mark.parametrize("table", TABLES, ids=" ".join)
def test_each_option_says_in_sentences_what_it_does(table: tuple[str, str]) -> None:
    for option in TABLES[table]:
        assert option.text[:1].isupper() or option.text.startswith("`"), option.name
        assert option.text.endswith(".") and "|" not in option.text, option.name


if __name__ == "__main__":
    for page in {page for page, _ in TABLES}:
        text = written(page)
        (DOCS / page).write_text(text)
