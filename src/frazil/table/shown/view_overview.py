"""Format the overview of a view: name, default namespace, its query in each dialect, and its
columns.
"""

from __future__ import annotations

from frazil.catalog.names import full_name
from frazil.spec.fact_tree import FactNode
from frazil.spec.shown import LINES, shortened
from frazil.spec.view import ViewMetadata
from frazil.table.shown.overview import column_facts


def tree(name: str, metadata: ViewMetadata) -> FactNode:
    """Return the overview as a tree of facts."""
    version = metadata.current_version()
    place = (
        *((version.default_catalog,) if version.default_catalog else ()),
        *version.default_namespace,
    )
    return FactNode(
        facts=(
            ("view", f"{name}  (version {version.version_id})"),
            ("names are in", full_name(place) if place else "no default namespace"),
            *((f"in {dialect}", _query(query.sql)) for dialect, query in version.queries.items()),
            *column_facts(metadata.schema()),
        )
    )


def _query(sql: str) -> str:
    lines = [line.rstrip() for line in sql.strip().splitlines()]
    omitted = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join([*(shortened(line, 200) for line in lines[:LINES]), *omitted])
