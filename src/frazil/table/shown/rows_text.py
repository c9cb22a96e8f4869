"""Format rows as a text table, as Spark's `show` prints them, and Arrow tables, which have no
display of their own, as tables in notebooks.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.spec.shown import LINES, html_table, shortened


def first_rows(table: pa.Table, n: int = 20, truncate: bool | int = True) -> str:
    """Format the first rows of a table, with a last line that tells if there are more. `truncate`:
    cut texts to 20 characters (True), to a given number of characters, or not at all (False)."""
    most = 20 if truncate is True else int(truncate)
    rows = table.slice(0, n)
    names = enumerate(table.column_names)
    columns = [
        [_cut(name, most), *(_cut(text, most) for text in _texts(rows.column(number)))]
        for number, name in names
    ]
    widths = [max(3, *map(len, column)) for column in columns]
    line = "+" + "+".join("-" * w for w in widths) + "+"
    lines = [
        "|" + "|".join(t.rjust(w) for t, w in zip(row, widths, strict=True)) + "|"
        for row in zip(*columns, strict=True)
    ]
    head, *body = lines or ["||"]
    more = f"\nonly showing top {n} row{'' if n == 1 else 's'}" if table.num_rows > n else ""
    return "\n".join([line, head, line, *body, line]) + more


def _cut(text: str, most: int) -> str:
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if most <= 0 or len(text) <= most:
        return text
    return text[:most] if most < 4 else f"{text[: most - 3]}..."


def _texts(column: pa.ChunkedArray) -> list[str]:
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return [_text(v.as_py()) for v in column]
    # Arrow formats these: Python's types hold neither nanoseconds nor years beyond 9999.
    if pa.types.is_temporal(type_) or pa.types.is_decimal(type_):
        return ["NULL" if v is None else v for v in pc.cast(column, pa.string()).to_pylist()]
    try:
        return [_text(v) for v in column.to_pylist()]
    except (ValueError, OverflowError):
        return [str(v) for v in column]


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return f"[{value.hex(' ').upper()}]"
        case dict():
            return "{" + ", ".join(map(_text, value.values())) + "}"
        case list() if value and all(isinstance(v, tuple) for v in value):
            return "{" + ", ".join(f"{_text(k)} -> {_text(v)}" for k, v in value) + "}"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


def show_arrow_tables() -> None:
    """Make IPython show Arrow tables as HTML tables, unless another library has said how. Outside
    of IPython it does nothing.
    """
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    formatters = {} if shell is None else shell.display_formatter.formatters
    if (of_html := formatters.get("text/html")) is not None and pa.Table not in of_html:
        of_html.for_type(pa.Table, arrow_html)


def arrow_html(table: pa.Table) -> str:
    """Format the first rows of an Arrow table as HTML, with the number of those that are left out."""
    rows = table.slice(0, LINES).to_pylist()
    more = (
        [[f"… {table.num_rows - LINES:,} more rows", *[""] * (table.num_columns - 1)]]
        if table.num_rows > LINES
        else []
    )
    return html_table(
        table.column_names, [*([shortened(v, 80) for v in row.values()] for row in rows), *more]
    )
