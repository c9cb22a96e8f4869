"""Show catalogs and tables."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from frazil.catalog.names import full_name, identifier_parts
from frazil.cli.output import show_arrow, show_facts, show_json, show_rows, wants_json
from frazil.codec.json_nouns import schema_to_json
from frazil.errors import InvalidInput, NoSuchSnapshotError
from frazil.scan.inspect import METADATA_TABLES
from frazil.table.catalog import Catalog
from frazil.table.load import described_catalog, list_catalogs, load_catalog, load_table
from frazil.table.metadata_table import MetadataTable
from frazil.table.table import Table

_OF_CATALOG = ("uri", "warehouse")


def opened(name: str) -> Table:
    """Load a table. Raises InvalidInput for the name of a metadata table or changelog."""
    table = load_table(name)
    if not isinstance(table, Table):
        raise InvalidInput(f"{name} is not a table.", hint=f"frazil head {name} prints its rows.")
    return table


def snapshot_id_of(table: Table, text: str) -> int:
    """Return the id of a snapshot that is named by a branch, a tag (which may be a number, as
    20260101) or its id; with `~3` behind it, of the ancestor so many commits before. Raises
    NoSuchSnapshotError.
    """
    name, tilde, back = text.partition("~")
    snapshot = table.snapshot_by_name(name)
    if snapshot is None and name.isdecimal():
        snapshot = table.snapshot_by_id(int(name))
    if tilde and (back.isdecimal() or not back):
        lineage = table.metadata.ancestors(snapshot)
        snapshot = next(islice(lineage, int(back or 1), None), None)
    elif tilde:
        snapshot = None
    if snapshot is None:
        hint = "frazil snapshots lists the ids, frazil refs the branches and tags."
        raise NoSuchSnapshotError(
            f"There is no snapshot, branch or tag {text}.", hint=hint, table=table.location()
        )
    return snapshot.snapshot_id


def place_of(name: str | None, catalog: str | None = None) -> tuple[Catalog, tuple[str, ...]]:
    """Return the catalog and the namespace that `[catalog.]namespace` or a catalog's name mean. A
    namespace of the default catalog goes before a catalog whose name stands alone.
    """
    parts = identifier_parts(name) if name else ()
    if parts and parts[0] in ([catalog] if catalog else list_catalogs()):
        if len(parts) > 1 or catalog or not load_catalog().namespace_exists(parts):
            catalog, parts = parts[0], parts[1:]
    return load_catalog(catalog), parts


def catalogs() -> None:
    """List the configured catalogs, without opening them."""
    rows = []
    for name in list_catalogs():
        kind, properties = described_catalog(name)
        rows.append({"catalog": name, "type": kind, **{c: properties.get(c) for c in _OF_CATALOG}})
    show_rows(rows, ["catalog", "type", *_OF_CATALOG])


def namespaces(catalog: str | None) -> None:
    """List the namespaces of a catalog, or those below a namespace."""
    owner, parent = place_of(catalog)
    rows = [{"namespace": full_name((owner.name, *n))} for n in every_namespace(owner, parent)]
    show_rows(rows, ["namespace"], f"no namespaces in {full_name((owner.name, *parent))}")


def create_namespace(namespace: str) -> None:
    """Create a namespace."""
    catalog, parts = place_of(namespace)
    if not parts:
        raise click.UsageError(f"{namespace} is a catalog; name a namespace, as in {namespace}.db.")
    catalog.create_namespace(parts)
    name = full_name((catalog.name, *parts))
    show_facts({"namespace": name}, f"{name} was created")


def tables(namespace: str | None, catalog: str | None) -> None:
    """List the tables of a namespace, or of all namespaces of a catalog."""
    owner, parts = place_of(namespace, catalog)
    rows = [
        {"table": full_name((owner.name, *name))}
        for one in ([parts] if parts else every_namespace(owner))
        for name in sorted(owner.list_tables(one))
    ]
    show_rows(rows, ["table"], f"no tables in {full_name((owner.name, *parts))}")


def every_namespace(catalog: Catalog, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """List the namespaces of a catalog, nested ones too."""
    return [
        n
        for child in sorted(catalog.list_namespaces(parent))
        for n in (child, *every_namespace(catalog, child))
    ]


def describe(table: str) -> None:
    """Show the overview of a table."""
    loaded = load_table(table)
    if not isinstance(loaded, Table):
        if isinstance(loaded, MetadataTable):
            columns = list(loaded.schema().names)
        else:
            columns = [f.name for f in loaded.projection().fields]
        show_facts({"table": table, "columns": columns}, f"{table}: {', '.join(columns)}")
        return
    snapshot, schema = loaded.current_snapshot(), loaded.schema()
    facts = {
        "table": full_name(loaded.name()),
        "format_version": loaded.format_version,
        "location": loaded.location(),
        "metadata_location": loaded.metadata_location,
        "uuid": loaded.metadata.table_uuid,
        "columns": [
            {
                "id": f.field_id,
                "name": f.name,
                "type": str(f.field_type),
                "required": f.required,
                "doc": f.doc,
            }
            for f in schema.fields
        ],
        "partition_by": [str(f) for f in loaded.spec().fields],
        "sort_by": [str(f) for f in loaded.sort_order().fields],
        "identifier_fields": sorted(schema.identifier_field_names()),
        "snapshot_id": snapshot and snapshot.snapshot_id,
        "snapshots": len(loaded.metadata.snapshots.ids),
        "summary": dict(snapshot.summary) if snapshot else {},
        "properties": loaded.properties,
    }
    show_facts(facts, repr(loaded))


def schema(table: str) -> None:
    """Show the columns of a table."""
    loaded = opened(table).schema()
    if wants_json():
        show_json(schema_to_json(loaded))
    else:
        click.echo(str(loaded))


def snapshots(table: str) -> None:
    """List the snapshots."""
    rows = opened(table).inspect.snapshots()
    if wants_json():
        show_arrow(rows)
        return
    shown = [
        {
            "committed_at": row["committed_at"],
            "snapshot_id": row["snapshot_id"],
            "operation": row["operation"],
            "added rows": _count(row, "added-records"),
            "deleted rows": _count(row, "deleted-records"),
            "rows": _count(row, "total-records"),
            "files": _count(row, "total-data-files"),
            "delete files": _count(row, "total-delete-files"),
        }
        for row in rows.to_pylist()
    ]
    show_rows(shown, list(shown[0]) if shown else [], "no snapshots")


def _count(row: dict[str, Any], key: str) -> int | None:
    text = dict(row["summary"] or ()).get(key)
    return int(text) if text is not None and text.isdigit() else None


def refs(table: str) -> None:
    """List branches and tags."""
    show_arrow(opened(table).inspect.refs(), "no branches, since there is no snapshot")


def files(table: str, snapshot_id: str | None) -> None:
    """List data files and delete files."""
    loaded = opened(table)
    chosen = None if snapshot_id is None else snapshot_id_of(loaded, snapshot_id)
    rows = loaded.inspect.files(snapshot_id=chosen)
    few = ["content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"]
    show_arrow(
        rows if wants_json() else rows.select([n for n in few if n in rows.column_names]),
        "no files",
    )


def inspect(table: str, metadata_table: str, snapshot_id: str | None) -> None:
    """Print a metadata table."""
    name = metadata_table.replace("-", "_")
    if name not in (*METADATA_TABLES, "partition_commits"):
        there = ", ".join((*METADATA_TABLES, "partition_commits"))
        raise click.UsageError(
            f"There is no metadata table {metadata_table!r}; there are: {there}."
        )
    loaded = opened(table)
    chosen = {} if snapshot_id is None else {"snapshot_id": snapshot_id_of(loaded, snapshot_id)}
    show_arrow(getattr(loaded.inspect, name)(**chosen), "no rows")


def _scan(table: str, where: str | None, **more: Any) -> Any:
    loaded = load_table(table)
    chosen = {**more, **({} if where is None else {"row_filter": where})}
    if isinstance(loaded, Table):
        return loaded.scan(**chosen)
    if isinstance(loaded, MetadataTable):
        if where is not None:
            raise InvalidInput(
                f"{table} takes no --where.", hint="frazil sql filters metadata tables."
            )
        return loaded
    return loaded.update(**chosen)


def head(table: str, where: str | None, columns: str | None, limit: int) -> None:
    """Print some rows."""
    scan = _scan(table, where, limit=limit)
    names = [c.strip() for c in columns.split(",")] if columns else []
    if not isinstance(scan, MetadataTable):
        show_arrow((scan.select(*names) if names else scan).to_arrow(), "no rows")
        return
    rows = scan.to_arrow().slice(0, limit)
    if missing := [n for n in names if n not in rows.column_names]:
        raise InvalidInput(
            f"{table} has no column {missing[0]}; columns are: {', '.join(rows.column_names)}."
        )
    show_arrow(rows.select(names) if names else rows, "no rows")


def count(table: str, where: str | None) -> None:
    """Count the rows."""
    number = _scan(table, where).count()
    if wants_json():
        show_json({"count": number})
    else:
        click.echo(number)


def explain(table: str, where: str | None, why: str | None) -> None:
    """Tell what a scan reads and skips."""
    scan = _scan(table, where)
    if isinstance(scan, MetadataTable):
        raise InvalidInput(
            f"{table} is read whole: there is nothing to explain.",
            hint="frazil explain takes the name of a table.",
        )
    explanation = scan.explain()
    if why is not None:
        file = explanation.why(why)
        show_facts(
            {
                "file_path": file.file_path,
                "is_read": file.is_read,
                "skipped_by": file.skipped_by,
                "conditions": [str(c) for c in file.conditions],
            },
            str(file),
        )
    else:
        show_facts(
            {**vars(explanation.report)}
            if hasattr(explanation.report, "__dict__")
            else {"report": str(explanation)},
            str(explanation),
        )
