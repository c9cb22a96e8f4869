"""Tables as one likes to see them: text for a terminal, HTML for a notebook."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Sequence

from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Summary


def facts(name: str, metadata: TableMetadata, metadata_location: str) -> list[tuple[str, str]]:
    """(label, text) pairs, most wanted first."""
    snapshot = metadata.current_snapshot()
    summary = Summary() if snapshot is None else snapshot.summary
    schema, spec, order = metadata.schema(), metadata.spec(), metadata.sort_order()
    names = {i: schema.find_column_name(i) or f"#{i}" for i in schema.by_id}
    partition = ", ".join(
        names.get(f.source_id, f"#{f.source_id}")
        if str(f.transform) == "identity"
        else f"{f.transform}({names.get(f.source_id, f.source_id)})"
        for f in spec.fields
    )
    sort = ", ".join(f"{names.get(f.source_id, f.source_id)} {f.direction.value}" for f in order.fields)
    when = dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if snapshot else ""
    rows, files = summary.get("total-records", ""), summary.get("total-data-files", "0")
    return [
        ("table", f"{name}  (Iceberg v{metadata.format_version})"),
        ("location", metadata.location),
        ("partitioned by", partition or "nothing"),
        *([("sorted by", sort)] if sort else []),
        *([("primary key", ", ".join(sorted(schema.identifier_field_names())))] if schema.identifier_field_ids else []),
        ("snapshot", f"{snapshot.snapshot_id}  {snapshot.operation}, {when}" if snapshot else "none yet"),
        *([("rows", f"{int(rows):,} in {int(files):,} files")] if rows.isdigit() and files.isdigit() else []),
        *([("refs", ", ".join(sorted(metadata.refs)))] if len(metadata.refs) > 1 else []),
        ("metadata", metadata_location.rsplit("/", 1)[-1]),
    ]


def _term(column: str, transform: str) -> str:
    return column if transform == "identity" else f"{transform}({column})"


def columns(metadata: TableMetadata) -> list[tuple[str, str, str]]:
    """(name, type, remark) of the top-level columns."""
    return [
        (f.name, str(f.field_type), " ".join([*(["required"] if f.required else []), *([f.doc] if f.doc else [])]))
        for f in metadata.schema().fields
    ]


def text(name: str, metadata: TableMetadata, metadata_location: str) -> str:
    lines = [f"{label:>14}  {value}" for label, value in facts(name, metadata, metadata_location)]
    width = max((len(n) for n, _, _ in columns(metadata)), default=0)
    listed = columns(metadata)
    shown = [f"{'columns' if i == 0 else '':>14}  {n:<{width}}  {t}{'  ' + r if r else ''}" for i, (n, t, r) in enumerate(listed[:40])]
    more = [f"{'':>14}  … {len(listed) - 40} more"] if len(listed) > 40 else []
    return "\n".join([*lines, *shown, *more])


def as_html(name: str, metadata: TableMetadata, metadata_location: str) -> str:
    def table(rows: Sequence[Sequence[str]]) -> str:
        cells = "".join("<tr>" + "".join(f"<td style='text-align:left'>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
        return f"<table>{cells}</table>"

    return f"<div>{table(facts(name, metadata, metadata_location))}{table(columns(metadata))}</div>"
