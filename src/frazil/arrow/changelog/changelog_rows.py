"""Read the rows of a changelog task: all rows of a data file that was added or removed, or those
that new deletes remove from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.deletes.apply_deletes import RowDeletes, deletes_of
from frazil.arrow.files.project import plan_columns
from frazil.arrow.files.source import reading
from frazil.arrow.read.read_context import ReadContext, identity_values
from frazil.arrow.read.read_tasks import OpenedFile, open_task, read_opened
from frazil.scan.changelog import ChangelogTask
from frazil.spec.manifest import DataFile
from frazil.spec.types import NestedField

Flags = npt.NDArray[np.bool_]
_NONE = RowDeletes(np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class OnlyAlive(RowDeletes):
    """Select the rows that a commit deleted from a file: those that the task's own deletes leave
    alive and those of the other state of the table (`other_deletes`) remove.

    It is passed where a reader expects the deletes of a file, and so hides all other rows. `tests`
    holds the tests of both sides.
    """

    own_deletes: RowDeletes = _NONE
    other_deletes: RowDeletes = _NONE

    @classmethod
    def of(cls, own_deletes: RowDeletes, other_deletes: RowDeletes) -> OnlyAlive:
        return cls(
            _NONE.positions, (*own_deletes.tests, *other_deletes.tests), own_deletes, other_deletes
        )

    def may_hold(self, first: int, count: int) -> bool:
        """Tell whether one of the rows [first, first + count) may be selected; a negative count
        means: to the end of the file.
        """
        if self.other_deletes.tests:
            return True
        died = np.setdiff1d(
            self.other_deletes.positions, self.own_deletes.positions, assume_unique=True
        )
        return (
            bool(np.searchsorted(died, first) < np.searchsorted(died, first + count))
            if count >= 0
            else bool(len(died))
        )

    def deleted(
        self,
        first: int,
        count: int,
        columns: Sequence[pa.Array] = (),
        fields: Sequence[NestedField] = (),
    ) -> Flags:
        deleted_by_own, deleted_by_other = (
            d.deleted(first, count, columns, fields) for d in (self.own_deletes, self.other_deletes)
        )
        if deleted_by_other is None:
            return np.ones(count, bool)
        return ~deleted_by_other if deleted_by_own is None else ~deleted_by_other | deleted_by_own


def changelog_rows(
    change: ChangelogTask, context: ReadContext, *, threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a changelog task as the context projects and filters them, in the order of
    the file.

    Raises CorruptData, NoSuchFileError, Unsupported, each naming the file.
    """
    file = change.task.file
    with reading(file.file_path, file.file_format):
        if change.other is None:
            yield from read_opened(open_task(change.task, context), context, threads=threads)
            return
        opened = _open_difference(change, change.other, context)
        yield from read_opened(opened, context, threads=threads)


def _open_difference(
    change: ChangelogTask, other: Sequence[DataFile], context: ReadContext
) -> OpenedFile:
    file = change.task.file
    difference = OnlyAlive.of(
        _deletes(file, change.task.delete_files, context), _deletes(file, other, context)
    )
    opened = open_task(change.task.with_deletes(()), context)
    pieces = [p for p in opened.pieces if difference.may_hold(p.first_row, p.rows)]
    fields = context.mask_fields(opened.filter, difference.key_ids)
    schema = opened.source.file_schema(context.mapping, context.table_schema)
    constants = identity_values(change.task.spec, file.partition)
    columns = plan_columns(
        fields, schema, constants, prune=opened.source.prunes_leaves, name=file.file_path
    )
    return replace(
        opened, deletes=difference, mask_fields=fields, mask_columns=columns, pieces=pieces
    )


def _deletes(file: DataFile, deletes: Sequence[DataFile], context: ReadContext) -> RowDeletes:
    if not deletes:
        return _NONE
    return deletes_of(
        file,
        deletes,
        storage=context.storage,
        cache=context.delete_cache,
        data_schema=context.data_schema,
        keys=context.keys,
        mapping=context.mapping,
        limit=context.options.delete_memory,
    )
