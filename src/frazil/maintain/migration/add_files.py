"""Add the Parquet files of a directory or of one of Spark's tables to a table without moving them
(Java's procedure add_files).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from frazil.arrow.write.add_files import data_files_of
from frazil.commit.actions import NotYetThere
from frazil.errors import InvalidInput
from frazil.maintain.migration.source import Source
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_state
from frazil.maintain.progress import ProgressCallback, progress
from frazil.ops.changes import AddFiles
from frazil.ops.operation import Preview
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.transforms import IdentityTransform
from frazil.storage import Storage, normalise


@dataclass(frozen=True, kw_only=True, repr=False)
class AddFilesResult(ProcedureResult):
    """Hold the result of add_files. `added_files_count`: the files that were added.
    `changed_partition_count`: the partitions that they are in."""

    added_files_count: int = 0
    changed_partition_count: int = 0


def add_files(
    table: MaintainedTable,
    source: Source,
    *,
    partition_filter: Mapping[str, object] = {},
    again: bool = False,
    parallelism: int | None = None,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> AddFilesResult:
    """Add the files that match the filter, in one snapshot; none where the source is empty. Only
    footers are read, by `parallelism` threads (None: one per core). `again`: as for
    `stage.add_files`.
    """
    begun = time.monotonic()
    table = newest_state(table, dry_run)
    if parallelism is not None and parallelism < 1:
        raise InvalidInput("Parallelism should be larger than 0")
    paths = paths_to_add(
        source, table.metadata, table.storage, partition_filter, ignore_missing_files
    )
    if not paths:
        return AddFilesResult(dry_run=dry_run, seconds=time.monotonic() - begun)
    if dry_run:
        with progress(len(paths), "footers read", callback) as shown:
            entries = data_files_of(
                paths, table.metadata, table.storage, parallelism, shown.advance
            )
        # raises for files that cannot be added, as the commit would
        added = frozenset(normalise(f.file_path) for f in entries)
        Preview(table.metadata, table.storage).metadata([NotYetThere(added, MAIN_BRANCH, again)])
        partitions = len({f.partition for f in entries})
        return AddFilesResult(
            dry_run=True,
            added_files_count=len(entries),
            changed_partition_count=partitions,
            seconds=time.monotonic() - begun,
        )
    operation = table.begin()
    with operation, progress(len(paths), "footers read", callback) as shown:
        operation.run(AddFiles(paths, again, parallelism, shown.advance))
    summary = operation.result.summary
    return AddFilesResult(
        added_files_count=int(summary.get("added-data-files", 0)),
        changed_partition_count=int(summary.get("changed-partition-count", 0)),
        seconds=time.monotonic() - begun,
    )


def paths_to_add(
    source: Source,
    metadata: TableMetadata,
    storage: Storage,
    partition_filter: Mapping[str, object] = {},
    ignore_missing: bool = False,
) -> list[str]:
    """Return the paths of a source that fit the table's partitioning. Raises InvalidInput where the
    values of folders would be lost.
    """
    schema, spec = metadata.schema(), metadata.spec()
    identity_columns = {
        schema.find_field(f.source_id).name
        for f in spec.fields
        if isinstance(f.transform, IdentityTransform)
    }
    if source.partition_columns and not spec.fields:
        raise InvalidInput(
            "Cannot add partitioned files to an unpartitioned table", table=metadata.location
        )
    if lost := [name for name in source.partition_columns if name not in identity_columns]:
        raise InvalidInput(
            f"The files in {source.location} are partitioned by {lost[0]}, by which the table is not.",
            hint=f"Its identity partition fields are {', '.join(sorted(identity_columns)) or 'none'}.",
            table=metadata.location,
        )
    files = source.chosen(partition_filter).files
    if source.files and not files:
        raise InvalidInput(
            f"Cannot find any matching partitions in {source.location}.", table=metadata.location
        )
    return [f.path for f in files if not ignore_missing or storage.exists(f.path)]
