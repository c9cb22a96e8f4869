"""Show results of procedures that have several rows as tables in a notebook."""

from __future__ import annotations

import html

import pyarrow as pa

from frazil.spec.shown import html_table

_SHOWN = 20


def html_of_arrow(title: str, table: pa.Table) -> str:
    """Return the first rows of an Arrow table as an HTML table with a title."""
    rows = ([_text(v) for v in row.values()] for row in table.slice(0, _SHOWN).to_pylist())
    more = f"<p>and {table.num_rows - _SHOWN:,} more</p>" if table.num_rows > _SHOWN else ""
    return f"<p><b>{html.escape(title)}</b></p>{html_table(table.column_names, rows)}{more}"


def _text(value: object) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)
