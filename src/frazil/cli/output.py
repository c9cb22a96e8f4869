"""Print the answers of commands: as tables for people, as JSON for programs (`--json`), and errors
as one message and an exit code.
"""

from __future__ import annotations

import base64
import datetime as dt
import importlib
import json
import math
import os
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import click

from frazil.errors import FrazilError
from frazil.spec.fact_tree import FactNode, text_of

if TYPE_CHECKING:
    import pyarrow as pa


def wants_json() -> bool:
    """Tell whether `--json` was given, before the command or behind it."""
    context = click.get_current_context(silent=True)
    while context is not None:
        if context.params.get("json"):
            return True
        context = context.parent
    return False


_IDS = ("snapshot_id", "snapshot_ids", "parent_id", "previous_ref", "updated_ref")


def plain(value: object) -> Any:
    """Convert a value to one that JSON has: times to ISO text, decimals and uuids to text, NaN and
    infinity to the texts that Spark writes, bytes to Base64. Ids of snapshots are texts, since
    numbers of so many digits are rounded by programs that hold them as doubles.
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal() | uuid.UUID():
            return str(value)
        case Mapping():
            return {str(k): plain(_id(v) if str(k).endswith(_IDS) else v) for k, v in value.items()}
        case Sequence() | set() | frozenset():
            return [plain(v) for v in value]
    return str(value)


def _id(value: object) -> object:
    return [str(v) for v in value] if isinstance(value, list | tuple) else value and str(value)


def show_json(value: object) -> None:
    """Print a value as JSON, indented in a terminal."""
    click.echo(
        json.dumps(plain(value), indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    )


def show_facts(facts: Mapping[str, Any], text: str | None = None) -> None:
    """Print named facts: an object in JSON, else `text` or a line for each."""
    if wants_json():
        show_json(facts)
    elif text is not None:
        click.echo(text)
    else:
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            click.echo(f"{name:>{width}}  {plain(value)}")


def show_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], nothing: str = "nothing"
) -> None:
    """Print rows: a list of objects in JSON, else a table, or `nothing` where there are none."""
    if wants_json():
        show_json([{c: row.get(c) for c in columns} for row in rows])
    elif not rows:
        click.echo(nothing)
    else:
        _print_table(rows, columns)


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print lines of cells, numbers to the right; in a terminal that is too narrow for them, each
    row as lines of names and values. Nothing is cut, and what reads a pipe gets the lines.
    """
    cells = [[_cell(row.get(c)) for c in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    to_the_right = [
        all(isinstance(row.get(c), int | float | None) for row in rows) for c in columns
    ]
    is_read = sys.stdout.isatty() or "COLUMNS" in os.environ
    if is_read and sum(widths) + 2 * len(widths) - 2 > shutil.get_terminal_size().columns:
        blocks = [
            text_of(FactNode(facts=tuple(p for p in zip(columns, line, strict=True) if p[1])))
            for line in cells
        ]
        click.echo("\n\n".join(blocks))
        return

    def line(texts: Sequence[str]) -> str:
        padded = (
            t.rjust(w) if right else t.ljust(w)
            for t, w, right in zip(texts, widths, to_the_right, strict=True)
        )
        return "  ".join(padded).rstrip()

    click.secho(line(columns), bold=True)
    for texts in cells:
        click.echo(line(texts))


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return value.replace("\n", "\\n")
        case dt.datetime():
            return value.isoformat(" ", "milliseconds")
        case Mapping() | list():
            return json.dumps(plain(value), ensure_ascii=False)
    return str(plain(value))


def show_arrow(table: pa.Table, nothing: str = "nothing") -> None:
    """Print an Arrow table; see `show_rows`."""
    show_rows(table.to_pylist(), table.column_names, nothing)


def fail(error: FrazilError) -> NoReturn:
    """Print an error on stderr and exit with 1: `message` and `hint`, in JSON with the error's name
    and facts. The hint is said in the words of the command line.
    """
    # opened here, since it loads Arrow, which the help does without
    hint = importlib.import_module("frazil.maintain.wording").in_commands(error.hint or "")
    if wants_json():
        facts = {
            "error": type(error).__name__,
            "message": error.message,
            "hint": hint or None,
            "facts": plain(error.facts),
        }
        click.echo(json.dumps(facts, ensure_ascii=False), err=True)
    else:
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(error.message, err=True)
        if hint:
            click.secho("  try: ", fg="cyan", nl=False, err=True)
            click.echo(hint, err=True)
    raise SystemExit(1)
