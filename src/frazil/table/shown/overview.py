"""Format the overview of a table (name, location, partitioning, snapshot and columns) and that of a
view (name, default namespace, its query in each dialect, and columns).
"""

from __future__ import annotations

from frazil.catalog.names import full_name
from frazil.spec.fact_tree import FactNode
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.shown import LINES, listed, shortened, time_text
from frazil.spec.snapshot import Summary
from frazil.spec.view import ViewMetadata


def facts(name: str, metadata: TableMetadata, metadata_location: str) -> list[tuple[str, str]]:
    """Return (label, text) pairs that describe a table, the most important first."""
    snapshot = metadata.current_snapshot()
    summary = Summary() if snapshot is None else snapshot.summary
    schema, spec, order = metadata.schema(), metadata.spec(), metadata.sort_order()
    names = {i: schema.find_column_name(i) or f"#{i}" for i in schema.by_id}
    partition = ", ".join(
        _term(names.get(f.source_id, f"#{f.source_id}"), str(f.transform)) for f in spec.fields
    )
    sort = ", ".join(
        f"{names.get(f.source_id, f.source_id)} {f.direction.value}" for f in order.fields
    )
    when = time_text(snapshot.timestamp_ms) if snapshot else ""
    pairs = [
        ("table", f"{name}  (Iceberg v{metadata.format_version})"),
        ("location", metadata.location),
        ("partitioned by", partition or "nothing"),
        *([("sorted by", sort)] if sort else []),
        *(
            [("primary key", ", ".join(sorted(schema.identifier_field_names())))]
            if schema.identifier_field_ids
            else []
        ),
        (
            "snapshot",
            f"{snapshot.snapshot_id}  {snapshot.operation}, {when}" if snapshot else "none yet",
        ),
        *([("rows", rows)] if (rows := _rows(summary, metadata.format_version)) else []),
        *([("refs", listed(sorted(metadata.refs)))] if len(metadata.refs) > 1 else []),
        ("metadata", metadata_location.rsplit("/", 1)[-1]),
    ]
    return [(label, shortened(value, 200)) for label, value in pairs]


def _rows(summary: Summary, version: int) -> str:
    """Tell the rows in the data files, and how many are left at least; what equality deletes
    delete takes more than the summary to tell.
    """
    rows, files = summary.get("total-records", ""), summary.get("total-data-files", "0")
    if not (rows.isdigit() and files.isdigit()):
        return ""
    deletes = summary.get("total-delete-files", "0" if version == 1 else "")
    number = f"{int(deletes):,} " if deletes.isdigit() else ""
    if number == "0 ":
        return f"{int(rows):,} in {int(files):,} files"
    positions = summary.get("total-position-deletes", "")
    if summary.get("total-equality-deletes") == "0" and positions.isdigit():
        # several deletes can name one row, or one of a file that is gone
        least = max(0, int(rows) - int(positions))
        return f"at least {least:,} in {int(files):,} files, {int(rows):,} before the deletes of {number}delete files"
    return f"{int(rows):,} in {int(files):,} files, before the deletes of {number}delete files, which count() subtracts"


def _term(column: str, transform: str) -> str:
    return column if transform == "identity" else f"{transform}({column})"


def columns(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (name, type, remark) of the top-level columns, as many as fit on a screen; the last
    entry tells how many more there are.
    """
    fields = schema.fields
    shown = []
    for f in fields[:LINES]:
        remark = " ".join([*(["required"] if f.required else []), *([f.doc] if f.doc else [])])
        shown.append((shortened(f.name, 60), shortened(f.field_type), shortened(remark)))
    return shown if len(fields) <= LINES else [*shown, (f"… {len(fields) - LINES} more", "", "")]


def tree(name: str, metadata: TableMetadata, metadata_location: str) -> FactNode:
    """Return the overview as a tree of facts."""
    return FactNode(
        facts=(*facts(name, metadata, metadata_location), *column_facts(metadata.schema()))
    )


def column_facts(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the top-level columns as one fact, one column in each line; nothing where there are
    none.
    """
    rows = columns(schema)
    width = max((len(n) for n, _, _ in rows), default=0)
    lines = [f"{n:<{width}}  {t}{'  ' + r if r else ''}" for n, t, r in rows]
    return (("columns", "\n".join(lines)),) if lines else ()


def view_tree(name: str, metadata: ViewMetadata) -> FactNode:
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
