"""Read the state of a table for advice: all live files of the current snapshot as columns, from
manifests alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.maintain.procedure import MaintainedTable
from frazil.scan.bounds import MapColumn, decode_bounds
from frazil.scan.columns import unified_partition_type
from frazil.scan.inspect.partition_type import coerce_partition
from frazil.scan.manifests import each, live, manifests_of, read_manifest, threads_for
from frazil.scan.options import default_workers
from frazil.spec.manifest import DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.sorting import SortField
from frazil.storage import REMOTE_SCHEMES, Storage
from frazil.storage.locations import scheme_of

Flags = npt.NDArray[np.bool_]
_PLAIN = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "referenced_data_file",
    "sequence_number",
)
_COLUMNS = ("status", "partition", *_PLAIN)
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """Hold a snapshot's manifests and its live files: one row per file, with its partition as a
    number.

    `files`, `deletes`: data files and delete files, with the columns of the manifest, `manifest`
    (its place among `manifests`), `spec_id`, `group` (equal for files of one partition and spec)
    and for data files `low` and `high`, the bounds of the first sort column, and `low<id>`,
    `high<id>`, those of the columns asked for.
    """

    metadata: TableMetadata
    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...]
    files: pa.Table
    deletes: pa.Table
    workers: int

    @cached_property
    def file_bytes(self) -> int:
        return int(pc.sum(self.files.column("file_size_in_bytes")).as_py() or 0)

    @cached_property
    def rows(self) -> int:
        return int(pc.sum(self.files.column("record_count")).as_py() or 0)

    @property
    def open_seconds(self) -> float:
        """Return what opening one more file costs a read: on a local disk a millisecond of a core,
        in a store that is waited for more.
        """
        return 0.03 if scheme_of(self.metadata.location) in REMOTE_SCHEMES else 0.001

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """Return a number of each data file."""
        return np.asarray(self.files.column(name).to_numpy())

    def deletes_of(self, *contents: DataFileContent) -> pa.Table:
        """Return the delete files of these kinds."""
        return self.deletes.filter(
            pc.is_in(
                self.deletes.column("content"), pa.array([int(c) for c in contents], pa.int32())
            )
        )


def sorted_by(metadata: TableMetadata) -> SortField | None:
    """Return the first field of the table's sort order by which bounds tell how files overlap: its
    transform keeps the order of values.
    """
    fields = metadata.sort_order().fields
    if not fields or not fields[0].transform.keeps_order:
        return None
    source = metadata.schema().by_id.get(fields[0].source_id)
    return fields[0] if source is not None and source.field_type.is_primitive else None


def state_of(table: MaintainedTable, bounds_of: frozenset[int] = frozenset()) -> LiveFiles | None:
    """Read the state of the current snapshot; None for a table without snapshot. `bounds_of`: ids
    of columns whose bounds are wanted."""
    metadata, storage = table.metadata, table.storage
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return None
    manifests = manifests_of(metadata, snapshot, storage)
    work = partial(_entries, metadata=metadata, storage=storage, bounds_of=bounds_of)
    alive = [(number, m) for number, m in enumerate(manifests) if m.has_live_files]
    threads = threads_for([m for _, m in alive], storage, default_workers())
    tables = [t for t in each(work, alive, threads) if t.num_rows]
    every = (
        _grouped(pa.concat_tables(tables, promote_options="permissive")) if tables else _nothing()
    )
    is_data = pc.equal(every.column("content"), int(DataFileContent.DATA))
    workers = max(1, min(table.runner.parallelism, 64))
    return LiveFiles(
        metadata,
        snapshot,
        manifests,
        every.filter(is_data),
        every.filter(pc.invert(is_data)),
        workers,
    )


def _entries(
    numbered: tuple[int, ManifestFile],
    *,
    metadata: TableMetadata,
    storage: Storage,
    bounds_of: frozenset[int],
) -> pa.Table:
    (number, manifest), field = numbered, sorted_by(metadata)
    wanted = {str(field_id): field_id for field_id in sorted(bounds_of)} | (
        {} if field is None else {"": field.source_id}
    )
    entries = live(
        read_manifest(storage, manifest, (*_COLUMNS, *(_BOUNDS if wanted else ())))
    ).combine_chunks()
    if not entries.num_rows:
        return entries
    columns = {name: entries.column(name) for name in _PLAIN}
    # planning takes entries without a sequence number for those of number 0
    columns["sequence_number"] = pc.fill_null(columns["sequence_number"], 0)
    columns["manifest"] = pa.array(np.full(entries.num_rows, number, np.int32))
    columns["spec_id"] = pa.array(np.full(entries.num_rows, manifest.partition_spec_id, np.int32))
    partition = entries.column("partition").combine_chunks()
    partition = partition.chunk(0) if isinstance(partition, pa.ChunkedArray) else partition
    for place, values in enumerate(coerce_partition(partition, unified_partition_type(metadata))):
        columns[f"k{place}"] = values
    for side, name in zip(_BOUNDS, ("low", "high"), strict=True):
        bounds = MapColumn(entries.column(side)) if wanted else None
        for suffix, field_id in wanted.items():
            assert bounds is not None
            columns[name + suffix] = decode_bounds(
                bounds.at(field_id), metadata.schema().by_id[field_id].field_type
            )
    return pa.table(columns)


def _grouped(table: pa.Table) -> pa.Table:
    """Number the partitions: files of one partition and spec get the same number in column `group`."""
    keys = ["spec_id", *(c for c in table.column_names if c.startswith("k") and c[1:].isdigit())]
    numbered = table.append_column("row", pa.array(np.arange(table.num_rows)))
    lists = (
        numbered.group_by(keys, use_threads=False)
        .aggregate([("row", "list")])
        .column("row_list")
        .combine_chunks()
    )
    rows, group = pc.list_flatten(lists), pc.list_parent_indices(lists)
    places = np.empty(table.num_rows, np.int64)
    places[np.asarray(rows)] = np.asarray(group)
    return table.drop_columns(keys[1:]).append_column("group", pa.array(places))


def _nothing() -> pa.Table:
    text, number = pa.array([], pa.string()), pa.array([], pa.int64())
    return pa.table(
        {
            "content": pa.array([], pa.int32()),
            "file_path": text,
            "file_format": text,
            "record_count": number,
            "file_size_in_bytes": number,
            "referenced_data_file": text,
            "sequence_number": number,
            "spec_id": pa.array([], pa.int32()),
            "manifest": pa.array([], pa.int32()),
            "group": number,
        }
    )
