"""Show Arrow tables, which have no display of their own, as tables in notebooks."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from frazil.spec.shown import LINES, html_table, shortened


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
