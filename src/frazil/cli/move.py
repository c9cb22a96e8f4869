"""Bring tables to other catalogs, and print the script that completes commands in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import click
import pyarrow as pa

from frazil.catalog.names import full_name
from frazil.cli.look import opened, snapshot_id_of
from frazil.cli.output import show_facts, show_rows
from frazil.maintain.progress import Progress, progress
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.properties import properties_of_copy
from frazil.spec.schema import Schema
from frazil.spec.sorting import SortOrder
from frazil.table.load import load_catalog, resolve


def copy(source: str, target: str, snapshot_id: str | None) -> None:
    """Copy one state of a table to a new one, in batches, as one commit. Partition and sort fields
    of columns that the snapshot lacks are left out. Raises TableAlreadyExistsError where the target
    exists.
    """
    table = opened(source)
    catalog, name = resolve(target)
    catalog.create_namespace_if_not_exists(name[:-1])
    chosen = None if snapshot_id is None else snapshot_id_of(table, snapshot_id)
    scan = table.scan(snapshot_id=chosen)
    columns = scan.projection()
    schema = Schema(
        *columns.fields,
        identifier_field_ids=[i for i in table.schema().identifier_field_ids if i in columns.by_id],
    )
    order = takewhile(lambda f: f.source_id in columns.by_id, table.sort_order().fields)
    creation = catalog.create_table_transaction(
        name,
        schema,
        partition_spec=PartitionSpec(
            *(f for f in table.spec().fields if f.source_id in columns.by_id)
        ),
        sort_order=SortOrder(*order),
        properties=properties_of_copy(table.properties),
        format_version=table.format_version,
    )
    rows = scan.to_arrow_batch_reader()
    with creation as new, progress(None, "rows copied") as shown:
        new.append(pa.RecordBatchReader.from_batches(rows.schema, _counted(rows, shown)))
    copied = catalog.load_table(name)
    snapshot = copied.current_snapshot()
    facts = {
        "table": full_name(copied.name()),
        "snapshot_id": snapshot and snapshot.snapshot_id,
        "rows": copied.count(),
    }
    show_facts(facts, f"{target}: {facts['rows']:,} rows copied")


def _counted(rows: pa.RecordBatchReader, shown: Progress) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield batch
        shown.advance(batch.num_rows)


def migrate_to(catalog: str, tables: tuple[str, ...], dry_run: bool, **source: str | None) -> None:
    """Move tables to another catalog without copying data."""
    named = [resolve(name) for name in tables]
    owners = {owner.name: owner for owner, _ in named}
    if source["from"]:
        owners |= {source["from"]: load_catalog(source["from"])}
    if len(owners) > 1:
        raise click.UsageError(
            f"All tables must be of one catalog; these are of {', '.join(sorted(owners))}."
        )
    owner = next(iter(owners.values()), None) or load_catalog()
    if not named and not source["from"]:
        raise click.UsageError(
            "Name the tables to move, or --from a catalog all of whose tables are moved."
        )
    result = owner.migrate_to(
        load_catalog(catalog), [parts for _, parts in named] or None, dry_run=dry_run
    )
    rows = [
        {
            "table": full_name(t.identifier),
            "metadata_location": t.metadata_location,
            "problem": None,
        }
        for t in result.tables
    ]
    rows += [
        {"table": full_name(name), "metadata_location": None, "problem": text}
        for name, text in result.problems
    ]
    show_rows(rows, ["table", "metadata_location", "problem"], "no tables")
    if result.problems:
        raise SystemExit(1)


def completion(shell: str) -> None:
    """Print the script that a shell evaluates to complete commands."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    command = click.get_current_context().find_root().command
    if script is None:
        raise click.UsageError(f"No completion for {shell}.")
    click.echo(script(command, {}, "frazil", "_FRAZIL_COMPLETE").source())
