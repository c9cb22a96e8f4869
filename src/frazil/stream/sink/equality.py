"""Write a reduced micro-batch as Flink does: new rows as data files, and one equality delete per
key, which deletes all older rows of the key.

Data and deletes of a batch are committed as one snapshot and share its sequence number. An equality
delete applies to older data only, so the batch's own rows stay. No commit of another writer can
contradict it, so a retry of the commit reads no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.arrow.deletes.write_deletes import write_equality_deletes
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.commit.context import Context, remove
from frazil.commit.produce import parent_of
from frazil.errors import ValidationException
from frazil.scan.manifests import is_data, manifests_of
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Update
from frazil.storage import Storage
from frazil.stream.sink.options import check_partitions
from frazil.stream.sink.reduce import Reduced, Reduction

_BATCH = 1 << 17


@dataclass(frozen=True)
class BatchFiles:
    """Hold the data and delete files that one writer of a batch has written, or all of them.
    `upserts`: the number of rows written; `removals`: that of keys that are only deleted."""

    data: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()
    upserts: int = 0
    removals: int = 0

    @classmethod
    def together(cls, parts: Sequence[BatchFiles]) -> BatchFiles:
        data, deletes = (
            tuple(f for p in parts for f in p.data),
            tuple(f for p in parts for f in p.deletes),
        )
        return cls(data, deletes, sum(p.upserts for p in parts), sum(p.removals for p in parts))

    @property
    def locations(self) -> list[str]:
        return [f.file_path for f in (*self.data, *self.deletes)]


def specs_to_delete_in(
    metadata: TableMetadata, storage: Storage, branch: str, own: int, ids: Sequence[int]
) -> tuple[int, ...]:
    """Return the partition specs in which equality deletes are needed: that of the new rows, and
    those of the branch's older data files, since a delete file reaches only data files of its own
    spec. Raises InvalidInput where the keys do not determine the partition."""
    spec_ids = {own}
    head = parent_of(metadata, branch) if len(metadata.partition_specs) > 1 else None
    if head is not None:
        spec_ids |= {
            m.partition_spec_id
            for m in manifests_of(metadata, head, storage)
            if is_data(m) and m.has_live_files
        }
    for spec_id in spec_ids:
        check_partitions(metadata, spec_id, ids)
    return tuple(sorted(spec_ids))


class RowsOutOfReach(ValidationException):
    """Report that the branch got rows in a partition spec for which a batch has written no equality
    deletes.
    """


@dataclass(frozen=True)
class DeletesReach:
    """Compare, at each attempt of a commit, the partition specs of the branch's rows with `specs`,
    those that equality deletes were written in. It goes before the action that adds them, and makes
    no updates. Raises RowsOutOfReach."""

    branch: str
    specs: Sequence[int]
    ids: Sequence[int]

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        needed = specs_to_delete_in(metadata, context.storage, self.branch, self.specs[0], self.ids)
        if missing := sorted(set(needed) - set(self.specs)):
            text = f"Rows were added in partition spec {missing[0]} while a batch wrote its equality deletes, which do not reach them."
            hint = "Start the query again: Spark then sends the batch again, and its equality deletes cover that spec too."
            raise RowsOutOfReach(text, hint=hint, table=metadata.location, specs=missing)
        return ()


def write_changes(
    changes: Reduced,
    reduction: Reduction,
    context: WriteContext,
    ids: Sequence[int],
    specs: Sequence[int],
) -> BatchFiles:
    """Write the remaining rows as data files, and the keys of all rows as equality deletes. The
    files are durable and complete; after an error none is left."""
    rows = changes.written
    data: list[DataFile] = []
    deletes: list[DataFile] = []
    try:
        if rows.num_rows:
            data = write(
                conform(rows, context.schema, case_sensitive=reduction.case_sensitive),
                context,
            )
        for spec_id in specs if changes.keys.num_rows else ():
            within = context.with_spec(spec_id)
            deletes += write_equality_deletes(
                _key_rows(changes, within), within, ids, first=len(deletes) + 1
            )
    except BaseException:
        remove(context.storage, [f.file_path for f in (*data, *deletes)], "a batch that failed")
        raise
    return BatchFiles(
        tuple(data), tuple(deletes), rows.num_rows, changes.keys.num_rows - rows.num_rows
    )


def _key_rows(changes: Reduced, context: WriteContext) -> Iterator[pa.RecordBatch]:
    """Yield the keys as rows of the table, in which the other columns are null: they are neither
    written nor partitioned by.
    """
    schema, names = to_arrow_schema(context.schema), changes.keys.column_names
    for batch in changes.keys.to_batches(max_chunksize=_BATCH):
        count = batch.num_rows
        columns = [
            batch.column(names.index(f.name)) if f.name in names else pa.nulls(count, f.type)
            for f in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
