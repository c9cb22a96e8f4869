"""Count files, rows and deletes by partition, as Java Iceberg's partition statistics do: from all
manifests, or from the later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.columns import unified_partition_type
from frazil.scan.inspect.partition_type import coerce_partition
from frazil.scan.manifests import column_of, each, manifests_of, read_manifest, threads_for
from frazil.scan.options import default_workers
from frazil.spec.manifest import DataFileContent, ManifestEntryStatus, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage

COUNTS = (
    "data_record_count", "data_file_count", "total_data_file_size_in_bytes", "position_delete_record_count", "position_delete_file_count",
    "equality_delete_record_count", "equality_delete_file_count", "dv_count",
)  # fmt: skip
"""Names of the counts, in the order of `PartitionCounts.counts`."""
_COLUMNS = (
    "status",
    "snapshot_id",
    "content",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
)
_RECORDS = (0, 3, 5)  # where rows are counted, by content: data, position deletes, equality deletes
_FILES = (1, 4, 6)
_BYTES, _VECTORS = 2, 7
_NAN = float("nan")


@dataclass
class PartitionCounts:
    """Hold the counts of one partition under one spec, and the newest snapshot that changed it
    (None: it has expired).
    """

    partition: tuple[Any, ...]
    spec_id: int
    counts: list[int] = field(default_factory=lambda: [0] * len(COUNTS))
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the key by which partitions are distinguished: -0.0 and 0.0 are two values, all
        NaNs are one.
        """
        return (self.spec_id, *(repr(v) if isinstance(v, float) else v for v in self.partition))

    def add(self, other: PartitionCounts) -> Self:
        """Add the counts of another part of the same partition."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        if other.last_updated_at is not None and (
            self.last_updated_at is None or self.last_updated_at < other.last_updated_at
        ):
            self.last_updated_at, self.last_updated_snapshot_id = (
                other.last_updated_at,
                other.last_updated_snapshot_id,
            )
        return self


def summed(parts: Iterable[PartitionCounts]) -> list[PartitionCounts]:
    """Sum up parts by partition, in the order of the values: nulls first, NaN last."""
    counts_by_key: dict[tuple[Any, ...], PartitionCounts] = {}
    for part in parts:
        total = counts_by_key.setdefault(part.key, part)
        if total is not part:
            total.add(part)
    return sorted(counts_by_key.values(), key=lambda p: (*map(_rank, p.partition), p.spec_id))


def _rank(value: object) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (
        (1, value != value, repr(value)[0] != "-", 0.0 if value != value else value)
        if isinstance(value, float)
        else (1, value)
    )


def count_partitions(
    metadata: TableMetadata,
    storage: Storage,
    manifests: Iterable[ManifestFile],
    *,
    added_only: bool = False,
    on_manifest: Callable[[], object] = lambda: None,
) -> list[PartitionCounts]:
    """Count the files of manifests by partition.

    `added_only`: count only changes, that is, the files that the manifests add, less those that
    they remove; else count all live files. `on_manifest`: called after each manifest.
    """
    work = partial(
        _manifest,
        metadata=metadata,
        storage=storage,
        added_only=added_only,
        times={s.snapshot_id: s.timestamp_ms for s in metadata.snapshots},
    )
    todo, counts = list(manifests), list[PartitionCounts]()
    for parts in each(work, todo, threads_for(todo, storage, default_workers())):
        counts += parts
        on_manifest()
    return summed(counts)


def added_manifests(
    metadata: TableMetadata, storage: Storage, snapshots: Iterable[Snapshot]
) -> list[ManifestFile]:
    """List the manifests that each of the snapshots added. Removed entries are only in the manifest
    of the snapshot that removed them.
    """
    return [
        m
        for s in snapshots
        for m in manifests_of(metadata, s, storage)
        if m.added_snapshot_id == s.snapshot_id
    ]


def _manifest(
    manifest: ManifestFile,
    *,
    metadata: TableMetadata,
    storage: Storage,
    added_only: bool,
    times: Mapping[int, int],
) -> list[PartitionCounts]:
    """Count one manifest; rows of one partition, kind and snapshot are summed up before they become
    objects.
    """
    unified = unified_partition_type(metadata)
    entries = read_manifest(storage, manifest, _COLUMNS).combine_chunks()
    if added_only:
        entries = entries.filter(
            pc.not_equal(entries.column("status"), int(ManifestEntryStatus.EXISTING))
        ).combine_chunks()
    if not entries.num_rows:
        return []
    partitions = coerce_partition(column_of(entries, "partition"), unified)
    names = [f"k{i}" for i in range(len(partitions))]
    kind = [column_of(entries, n) for n in ("content", "file_format", "status", "snapshot_id")]
    keys = [*names, "content", "file_format", "status", "snapshot_id"]
    sizes = [column_of(entries, n) for n in ("record_count", "file_size_in_bytes")]
    table = pa.Table.from_arrays([*partitions, *kind, *sizes], names=[*keys, "records", "bytes"])
    grouped = table.group_by(keys, use_threads=False).aggregate(
        [("records", "sum"), ("bytes", "sum"), ("records", "count")]
    )
    return [
        _counts(row, names, manifest.partition_spec_id, added_only, times)
        for row in grouped.to_pylist()
    ]


def _counts(
    row: Mapping[str, Any],
    names: list[str],
    spec_id: int,
    added_only: bool,
    times: Mapping[int, int],
) -> PartitionCounts:
    values = tuple(
        _NAN if isinstance(row[n], float) and row[n] != row[n] else row[n] for n in names
    )
    partition = PartitionCounts(values, spec_id)
    removed = row["status"] == ManifestEntryStatus.DELETED
    sign = (-1 if removed else 1) if added_only else int(not removed)
    content = row["content"] or 0
    partition.counts[_RECORDS[content]] = sign * row["records_sum"]
    is_vector = content == DataFileContent.POSITION_DELETES and row["file_format"] == "puffin"
    partition.counts[_VECTORS if is_vector else _FILES[content]] = sign * row["records_count"]
    if content == DataFileContent.DATA:
        partition.counts[_BYTES] = sign * row["bytes_sum"]
    if (time := times.get(row["snapshot_id"])) is not None:
        partition.last_updated_at, partition.last_updated_snapshot_id = time, row["snapshot_id"]
    return partition
