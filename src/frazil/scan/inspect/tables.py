"""Build a metadata table by its name.

To add one: a row of `_TABLES`. tests/contract/test_golden_metadata_tables.py, docs/tour.md and the
docstring of `table.inspect` list or count them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.expr.parse import parse
from frazil.scan.inspect import files, history
from frazil.scan.inspect.partitions import partitions, partitions_schema
from frazil.scan.inspect.position_deletes import position_deletes, position_deletes_schema
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage


@dataclass(frozen=True)
class _MetadataTableKind:
    """Describe a metadata table. `columns`: the same for all tables, or made of a table's metadata.
    `build`: called with the metadata, the storage, the snapshot and further arguments by name.
    `travels`: whether it can be read as of another snapshot than the current one."""

    columns: pa.Schema | Callable[[TableMetadata], pa.Schema]
    build: Callable[..., pa.Table]
    travels: bool = False


_TABLES = {
    "history": _MetadataTableKind(history.HISTORY, lambda m, *_: history.history(m)),
    "snapshots": _MetadataTableKind(history.SNAPSHOTS, lambda m, *_: history.snapshots(m)),
    "metadata_log_entries": _MetadataTableKind(
        history.METADATA_LOG_ENTRIES,
        lambda m, *_, location: history.metadata_log_entries(m, location),
    ),
    "refs": _MetadataTableKind(history.REFS, lambda m, *_: history.refs(m)),
    "files": _MetadataTableKind(files.files_schema, files.files, travels=True),
    "data_files": _MetadataTableKind(
        files.files_schema, partial(files.files, choose=files.data_manifest), travels=True
    ),
    "delete_files": _MetadataTableKind(
        files.files_schema, partial(files.files, choose=files.delete_manifest), travels=True
    ),
    "all_files": _MetadataTableKind(files.files_schema, lambda m, s, _: files.all_files(m, s)),
    "all_data_files": _MetadataTableKind(
        files.files_schema, lambda m, s, _: files.all_files(m, s, files.data_manifest)
    ),
    "all_delete_files": _MetadataTableKind(
        files.files_schema, lambda m, s, _: files.all_files(m, s, files.delete_manifest)
    ),
    "entries": _MetadataTableKind(files.entries_schema, files.entries, travels=True),
    "all_entries": _MetadataTableKind(
        files.entries_schema, lambda m, s, _: files.all_entries(m, s)
    ),
    "manifests": _MetadataTableKind(history.MANIFESTS, history.manifests, travels=True),
    "all_manifests": _MetadataTableKind(
        history.ALL_MANIFESTS, lambda m, s, _: history.all_manifests(m, s)
    ),
    "partitions": _MetadataTableKind(partitions_schema, partitions, travels=True),
    "position_deletes": _MetadataTableKind(position_deletes_schema, position_deletes, travels=True),
}
METADATA_TABLES = tuple(_TABLES)
TIME_TRAVEL_TABLES = tuple(name for name, kind in _TABLES.items() if kind.travels)


def metadata_table(
    name: str,
    metadata: TableMetadata,
    storage: Storage,
    *,
    metadata_location: str | None = None,
    snapshot_id: int | None = None,
    snapshot: Snapshot | None = None,
    row_filter: str | Predicate | None = None,
    case_sensitive: bool = True,
) -> pa.Table:
    """Build one of `METADATA_TABLES` (any case), as of `snapshot_id` or `snapshot` (only
    `TIME_TRAVEL_TABLES`), else the current snapshot.

    `row_filter` (only `partitions`) is on the table's own columns. Raises InvalidInput for an
    argument that the metadata table does not take.
    """
    table_name = _known(name)
    if table_name not in TIME_TRAVEL_TABLES and (snapshot_id is not None or snapshot is not None):
        hint = f"Metadata tables with time travel: {', '.join(TIME_TRAVEL_TABLES)}."
        raise InvalidInput(f"Cannot select snapshot in table: {table_name}", hint=hint)
    predicate = parse(row_filter) if isinstance(row_filter, str) else row_filter
    if (
        table_name != "partitions"
        and predicate is not None
        and not isinstance(predicate, AlwaysTrue)
    ):
        raise InvalidInput(
            f"Metadata table {table_name} takes no row_filter; filter the Arrow table that it returns."
        )
    if snapshot_id is not None:
        snapshot = metadata.snapshot_by_id(snapshot_id)
    chosen = snapshot or metadata.current_snapshot()
    more: dict[str, dict[str, Any]] = {
        "partitions": {"row_filter": predicate, "case_sensitive": case_sensitive},
        "metadata_log_entries": {"location": metadata_location or ""},
    }
    return _TABLES[table_name].build(metadata, storage, chosen, **more.get(table_name, {}))


def metadata_table_schema(name: str, metadata: TableMetadata) -> pa.Schema:
    """Return the columns of a metadata table of this table."""
    columns = _TABLES[_known(name)].columns
    return columns if isinstance(columns, pa.Schema) else columns(metadata)


def _known(name: str) -> str:
    lower_name = name.lower()
    if lower_name not in METADATA_TABLES:
        raise InvalidInput(
            f"There is no metadata table {name!r}.",
            hint=f"Metadata tables: {', '.join(METADATA_TABLES)}.",
        )
    return lower_name
