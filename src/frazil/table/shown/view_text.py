"""Format the overview of a view: name, default namespace, its query in each dialect, and its
columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from frazil.catalog.names import full_name
from frazil.spec.shown import LINES, shortened
from frazil.spec.view import ViewMetadata
from frazil.table.shown.overview import column_lines, line_of


def text(name: str, metadata: ViewMetadata) -> str:
    """Format the overview as text for a terminal."""
    version = metadata.current_version()
    place = (
        *((version.default_catalog,) if version.default_catalog else ()),
        *version.default_namespace,
    )
    lines = [
        line_of("view", f"{name}  (version {version.version_id})"),
        line_of("names are in", full_name(place) if place else "no default namespace"),
    ]
    for dialect, query in version.queries.items():
        lines += _query(dialect, query.sql)
    return "\n".join([*lines, *column_lines(metadata.schema())])


def _query(dialect: str, sql: str) -> Iterator[str]:
    lines = [line.rstrip() for line in sql.strip().splitlines()]
    omitted = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    for number, line in enumerate([*(shortened(line, 200) for line in lines[:LINES]), *omitted]):
        yield line_of(f"in {dialect}" if number == 0 else "", line)
