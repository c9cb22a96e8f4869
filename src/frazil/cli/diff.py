"""Tell what changed between two snapshots of a table: rows, files and schema."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click
import pyarrow.compute as pc

from frazil.cli.look import opened, snapshot_id_of
from frazil.cli.output import show_arrow, show_json, wants_json
from frazil.table.table import Table


def diff(table: str, from_snapshot: str, to_snapshot: str | None, rows: bool, limit: int) -> None:
    """Compare two snapshots, each an id, a branch or a tag; TO is the current snapshot by default."""
    table_of_name = opened(table)
    start = snapshot_id_of(table_of_name, from_snapshot)
    end = snapshot_id_of(table_of_name, to_snapshot or "main")
    files = (table_of_name.inspect.files(snapshot_id=one) for one in (start, end))
    before, after = (set(of_one["file_path"].to_pylist()) for of_one in files)
    scan = table_of_name.changes(start_snapshot_id=start, end_snapshot_id=end, net=True)
    counts: Counter[str] = Counter()
    for batch in scan.select(*table_of_name.columns[:1]).to_arrow_batch_reader():
        counts.update(
            {
                row["values"]: row["counts"]
                for row in pc.value_counts(batch["_change_type"]).to_pylist()
            }
        )
    facts: dict[str, Any] = {
        "from_snapshot_id": start,
        "to_snapshot_id": end,
        "rows_inserted": counts["INSERT"],
        "rows_deleted": counts["DELETE"],
        "files_added": sorted(after - before),
        "files_removed": sorted(before - after),
        "schema": _schema_changes(table_of_name, start, end),
    }
    if wants_json():
        show_json(
            facts | ({"rows": scan.update(limit=limit).to_arrow().to_pylist()} if rows else {})
        )
        return
    click.echo(
        f"{start} .. {end}: +{facts['rows_inserted']:,} rows, -{facts['rows_deleted']:,} rows; "
        f"+{len(facts['files_added']):,} files, -{len(facts['files_removed']):,} files"
    )
    for sign, paths in (("+", facts["files_added"]), ("-", facts["files_removed"])):
        color, rest = "green" if sign == "+" else "red", len(paths) - limit
        for path in paths[:limit]:
            click.secho(f"  {sign} {path}", fg=color)
        if rest > 0:
            click.secho(
                f"  {sign} {rest:,} more: --limit {len(paths)} or --json lists them", fg=color
            )
    for line in facts["schema"]:
        click.echo(f"  column {line}")
    if rows:
        show_arrow(scan.update(limit=limit).to_arrow(), "no rows changed")


def _schema_changes(table: Table, start: int, end: int) -> list[str]:
    schemas: list[Any] = []
    for snapshot_id in (start, end):
        snapshot = table.snapshot_by_id(snapshot_id)
        schemas.append(table.schemas().get((snapshot and snapshot.schema_id) or 0, table.schema()))
    old, new = ({i: (s.find_column_name(i), f) for i, f in s.by_id.items()} for s in schemas)
    lines = [f"added: {new[i][0]} {new[i][1].field_type}" for i in sorted(new.keys() - old.keys())]
    lines += [f"dropped: {old[i][0]}" for i in sorted(old.keys() - new.keys())]
    for i in sorted(old.keys() & new.keys()):
        (old_name, a), (new_name, b) = old[i], new[i]
        lines += [f"renamed: {old_name} is {new_name}"] if a.name != b.name else []
        lines += (
            [f"{new_name}: {a.field_type} is {b.field_type}"]
            if a.field_type.is_primitive and a.field_type != b.field_type
            else []
        )
    return lines
