"""Build a metadata table by its name.

To add one: its name to `METADATA_TABLES` (and `TIME_TRAVEL_TABLES`, where it takes a snapshot), its
columns to `_PLAIN` or `metadata_table_schema`, its builder to `_OF_TABLE`.
tests/contract/test_golden_metadata_tables.py, docs/tour.md and the docstring of `table.inspect`
list or count them.
"""

from __future__ import annotations

from collections.abc import Callable

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

METADATA_TABLES = (
    "history", "snapshots", "metadata_log_entries", "refs", "files", "data_files", "delete_files", "all_files", "all_data_files",
    "all_delete_files", "entries", "all_entries", "manifests", "all_manifests", "partitions", "position_deletes",
)  # fmt: skip
TIME_TRAVEL_TABLES = (
    "entries",
    "files",
    "data_files",
    "delete_files",
    "manifests",
    "partitions",
    "position_deletes",
)


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
    if table_name == "partitions":
        return partitions(metadata, storage, chosen, predicate, case_sensitive)
    if table_name == "metadata_log_entries":
        return history.metadata_log_entries(metadata, metadata_location or "")
    return _OF_TABLE[table_name](metadata, storage, chosen)


def metadata_table_schema(name: str, metadata: TableMetadata) -> pa.Schema:
    """Return the columns of a metadata table of this table."""
    match _known(name):
        case (
            "files"
            | "data_files"
            | "delete_files"
            | "all_files"
            | "all_data_files"
            | "all_delete_files"
        ):
            return files.files_schema(metadata)
        case "entries" | "all_entries":
            return files.entries_schema(metadata)
        case "partitions":
            return partitions_schema(metadata)
        case "position_deletes":
            return position_deletes_schema(metadata)
        case plain:
            return _PLAIN[plain]


def _known(name: str) -> str:
    lower_name = name.lower()
    if lower_name not in METADATA_TABLES:
        raise InvalidInput(
            f"There is no metadata table {name!r}.",
            hint=f"Metadata tables: {', '.join(METADATA_TABLES)}.",
        )
    return lower_name


_PLAIN = {
    "history": history.HISTORY, "snapshots": history.SNAPSHOTS, "refs": history.REFS, "metadata_log_entries": history.METADATA_LOG_ENTRIES,
    "manifests": history.MANIFESTS, "all_manifests": history.ALL_MANIFESTS,
}  # fmt: skip
_OF_TABLE: dict[str, Callable[[TableMetadata, Storage, Snapshot | None], pa.Table]] = {
    "history": lambda m, s, snapshot: history.history(m),
    "snapshots": lambda m, s, snapshot: history.snapshots(m),
    "refs": lambda m, s, snapshot: history.refs(m),
    "files": lambda m, s, snapshot: files.files(m, s, snapshot),
    "data_files": lambda m, s, snapshot: files.files(m, s, snapshot, files.data_manifest),
    "delete_files": lambda m, s, snapshot: files.files(m, s, snapshot, files.delete_manifest),
    "all_files": lambda m, s, snapshot: files.all_files(m, s),
    "all_data_files": lambda m, s, snapshot: files.all_files(m, s, files.data_manifest),
    "all_delete_files": lambda m, s, snapshot: files.all_files(m, s, files.delete_manifest),
    "entries": lambda m, s, snapshot: files.entries(m, s, snapshot),
    "all_entries": lambda m, s, snapshot: files.all_entries(m, s),
    "manifests": lambda m, s, snapshot: history.manifests(m, s, snapshot),
    "all_manifests": lambda m, s, snapshot: history.all_manifests(m, s),
    "position_deletes": lambda m, s, snapshot: position_deletes(m, s, snapshot),
}
