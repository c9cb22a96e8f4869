"""Show results of procedures as tables in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import pyarrow as pa

_SHOWN = 20


def html_table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[object]], more: int = 0
) -> str:
    """Return an HTML table with a title. `more`: rows that are not shown."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_text(value))}</td>' for value in row)}</tr>"
        for row in rows
    )
    rest = f"<p>and {more:,} more</p>" if more else ""
    return f"<p><b>{html.escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def html_of_arrow(title: str, table: pa.Table) -> str:
    """Return the first rows of an Arrow table as an HTML table."""
    rows = [tuple(row.values()) for row in table.slice(0, _SHOWN).to_pylist()]
    return html_table(title, table.column_names, rows, max(0, table.num_rows - _SHOWN))


def _text(value: object) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)
