"""List the partition commits of a table, and mark a partition as done by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.ops.arguments import mapping
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.stream.partitions.commit_hook import announce, context_of, mark
from frazil.stream.partitions.fields import fields_of, named_partition, path_of
from frazil.stream.partitions.options import partition_commit_options
from frazil.stream.partitions.policies.chain import table_chain
from frazil.stream.partitions.policies.context import TableSite, address_of
from frazil.stream.partitions.state import state_of
from frazil.stream.partitions.tracking import PartitionRecords

_TIME = pa.timestamp("ms", "UTC")
PARTITION_COMMITS = pa.schema([
    ("partition", pa.string()), ("committed_at", _TIME), ("watermark", _TIME), ("snapshot_id", pa.int64()), ("times_committed", pa.int32()),
    ("late_data_since", _TIME), ("pending_since", _TIME),
])  # fmt: skip


def partition_commits(metadata: TableMetadata, storage: Storage, branch: str) -> pa.Table:
    """List the partitions of a branch that are done or pending, one row each. A partition is
    complete when it has a `committed_at` and no `late_data_since`; what any writer changed since
    the stream last looked is read from the snapshots that came since."""
    records = PartitionRecords()
    state = records.caught_up(
        state_of(metadata, branch), metadata, metadata.branch_head(branch), storage
    )
    done = records.archives.all(state, metadata, storage)
    rows = []
    for partition in dict.fromkeys((*done, *state.pending)):
        path = path_of(partition, fields_of(metadata, partition.spec_id))
        record, pending = done.get(partition), state.pending.get(partition)
        facts = (
            (None, None, None, 0, None)
            if record is None
            else (
                record.committed_ms,
                record.watermark_ms,
                record.snapshot_id,
                record.times,
                record.late_ms,
            )
        )
        rows.append((path, *facts, None if pending is None else pending.first_ms))
    columns = zip(*rows, strict=True) if rows else [() for _ in PARTITION_COMMITS]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, PARTITION_COMMITS, strict=True)],
        schema=PARTITION_COMMITS,
    )


def mark_done(
    backend: CatalogBackend,
    table: LoadedTable,
    name: str,
    partition: Mapping[str, Any],
    branch: str,
    policies: Sequence[Callable[[Any], object]],
    options: Mapping[str, Any],
) -> LoadedTable:
    """Announce a partition now, regardless of its trigger, and record it as done; return the
    table's newest state. The text `partition.default-name` names a null, as it does for policies.

    Raises InvalidInput for a partition that the table's spec cannot have, NoSuchRefError for a
    branch that is not there, and the error of the first policy that fails.
    """
    chosen = partition_commit_options(options, policies)
    metadata = table.metadata
    head = metadata.existing_branch_head(branch)
    named = mapping("partition", partition)
    values = {k: None if v == chosen.default_name else v for k, v in named.items()}
    marked = named_partition(values, metadata, name)
    site, records = (
        TableSite(backend, address_of(table), name, branch, table.storage),
        PartitionRecords(),
    )
    state = records.caught_up(state_of(metadata, branch), metadata, head, table.storage)
    context = context_of(marked, state, table, site, chosen, state.watermark_ms, records.archives)
    _, failures = announce({marked: context}, table_chain(chosen, site))
    if failures:
        raise failures[0].error
    return mark(site, {marked: state.pending.get(marked)}, state.watermark_ms, records)
