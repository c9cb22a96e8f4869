"""Read the rows of file scan tasks as Arrow: projected by field id, deletes applied, filtered
exactly, with metadata columns.

Steps: units of work (row groups of large files, small files whole) -> columns of the file -> plan
(project.py) -> deletes, filter -> batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.apply_deletes import Flags, RowDeletes, deletes_of
from frazil.arrow.deletes.delete_files import SOURCES
from frazil.arrow.files.project import (
    ColumnPlan,
    ColumnsPlan,
    FileField,
    FileSchema,
    build,
    merge_plans,
    plan_columns,
)
from frazil.arrow.files.source import FileReader, Piece, reading
from frazil.arrow.read.read_context import (
    LINEAGE_IDS,
    METADATA_IDS,
    ReadContext,
    ReadOptions,
    identity_values,
    metadata_column,
)
from frazil.arrow.values.evaluate import evaluate
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.bound import Bound
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import DELETED_ID
from frazil.spec.types import NestedField
from frazil.storage import REMOTE_SCHEMES
from frazil.storage.locations import scheme_of
from frazil.tasks.in_order import InOrder, default_workers

__all__ = ["ReadContext", "ReadOptions", "read", "read_task"]
# the wanted columns are read after the filter's columns when both together have more than this many
# times the latter's bytes
LATER = 4
SPLIT_BYTES = 16 * 1024 * 1024  # files above it are read row group by row group, in parallel
_WAITING, _FIRST_TASKS = 8, 16
_FEW_ROWS = 16_384
Plans = Sequence[tuple[int | None, ColumnPlan]]


@dataclass(frozen=True)
class OpenedFile:
    """Hold an opened data file: the plans that make its columns, and the pieces of it that the task
    covers.

    `mask_fields` and `mask_columns`: the columns of the filter and of equality deletes, which
    decide which rows are kept.
    """

    task: Any
    source: FileReader
    columns: ColumnsPlan
    fields: tuple[NestedField, ...]
    filter: Bound | None
    mask_fields: tuple[NestedField, ...]
    mask_columns: ColumnsPlan
    pieces: Sequence[Piece]
    deletes: RowDeletes | None = None

    def untested(self, piece: Piece) -> bool:
        """Tell whether the kept rows of a piece are known without reading a column."""
        return (self.filter is None or piece.all_match) and not (
            self.deletes and self.deletes.tests
        )


def read(
    tasks: Iterable[Any], context: ReadContext, *, limit: int | None = None
) -> pa.RecordBatchReader:
    """Read the rows of tasks as a stream, in their order, at most `limit` rows. The options bound
    the memory, whatever the table's size.
    """
    if limit is not None and context.filter is None:
        # the rows asked for are the first ones, so that more need not be decoded
        few = min(context.options.batch_size, max(limit, _FEW_ROWS))
        context = replace(context, options=replace(context.options, batch_size=few))
    return pa.RecordBatchReader.from_batches(
        context.arrow_schema, _limited(_batches(tasks, context, limit), limit)
    )


def read_task(task: FileScanTask, context: ReadContext) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task. Raises CorruptData, NoSuchFileError, Unsupported, each naming the
    file.
    """
    file = task.file
    with reading(file.file_path, file.file_format):
        opened = open_task(task, context)
        yield from read_opened(opened, context, threads=False)


def _batches(
    tasks: Iterable[Any], context: ReadContext, limit: int | None
) -> Iterator[pa.RecordBatch]:
    if limit is not None and limit <= 0:
        return iter(())
    workers = context.options.workers or (
        _workers_for(tasks, context) if limit is None else default_workers()
    )
    if workers <= 1 or (
        isinstance(tasks, Sequence) and len(tasks) == 1 and tasks[0].length <= SPLIT_BYTES
    ):
        return (batch for task in tasks for batch in read_task(task, context))
    return iter(
        InOrder(
            _units(tasks, context),
            lambda u: _read_unit(u, context),
            workers=workers,
            budget=context.options.memory,
            size=_size,
        )
    )


def _workers_for(tasks: Iterable[Any], context: ReadContext) -> int:
    """Return how many threads read these tasks: one per core; more where a store is waited for, as
    far as its files fit into the memory that the options allow. By the first tasks, since it takes
    time to make all of them."""
    cores = default_workers()
    if (
        not isinstance(tasks, Sequence)
        or not tasks
        or scheme_of(tasks[0].file.file_path) not in REMOTE_SCHEMES
    ):
        return cores
    largest = max(int(task.length) for task in tasks[:_FIRST_TASKS])
    return max(cores, min(_WAITING, len(tasks), context.options.memory // max(1, largest)))


def _size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + 1024


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches:
        if batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left -= batch.num_rows
        yield batch


def _units(
    tasks: Iterable[Any], context: ReadContext
) -> Iterator[tuple[Any, OpenedFile | None, Piece | None]]:
    """Split tasks into units of work: (task, None, None) per small file, (task, opened, piece) per
    row group of a large one.
    """
    for task in tasks:
        if task.length <= SPLIT_BYTES:
            yield task, None, None
            continue
        with reading(task.file.file_path, task.file.file_format):
            opened = open_task(task, context)
        for piece in opened.pieces:
            yield task, opened, piece


def _read_unit(
    unit: tuple[Any, OpenedFile | None, Piece | None], context: ReadContext
) -> Iterator[pa.RecordBatch]:
    task, opened, piece = unit
    if opened is None or piece is None:
        yield from read_task(task, context)
        return
    with reading(task.file.file_path, task.file.file_format):
        yield from read_opened(opened, context, pieces=(piece,), threads=len(opened.pieces) == 1)


def open_task(task: FileScanTask, context: ReadContext) -> OpenedFile:
    """Open the data file of a task: plan its columns, decode its deletes, and prune its pieces by
    the filter.
    """
    file = task.file
    _check(task)
    source = SOURCES[file.file_format].open(file, context.storage)
    schema = source.file_schema(context.mapping, context.table_schema)
    constants = identity_values(task.spec, file.partition)
    row_filter = context.filter if context.apply_residual and task.residual is not None else None
    fields = tuple(
        f
        for f in context.projection.fields
        if f.field_id not in METADATA_IDS or f.field_id in LINEAGE_IDS
    )
    columns = _plan(source, fields, schema, constants, file.file_path)
    whole = task.start == 0 and task.length >= file.file_size_in_bytes
    pieces = source.pieces(task.start, None if whole else task.length)
    deletes = _deletes(task, context) if pieces and task.delete_files else None
    mask_fields = context.mask_fields(row_filter, deletes.key_ids if deletes else set())
    mask_columns = _plan(source, mask_fields, schema, constants, file.file_path)
    if row_filter is not None:
        used = {
            k: v for k, v in constants.items() if schema.by_name or not _holds(schema.fields, k)
        }
        pieces = source.prune(pieces, schema.fields, row_filter, context.table_schema, used)
    return OpenedFile(
        task, source, columns, fields, row_filter, mask_fields, mask_columns, pieces, deletes
    )


def _deletes(task: FileScanTask, context: ReadContext) -> RowDeletes:
    return deletes_of(
        task.file,
        task.delete_files,
        storage=context.storage,
        cache=context.delete_cache,
        data_schema=context.data_schema,
        keys=context.keys,
        mapping=context.mapping,
        limit=context.options.delete_memory,
    )


def _check(task: FileScanTask) -> None:
    file = task.file
    if file.key_metadata:
        raise Unsupported(
            f"{file.file_path} is encrypted; Frazil does not read encrypted files.",
            file=file.file_path,
        )
    if file.file_format not in SOURCES:
        text = f"Data file {file.file_path} has format {file.file_format}; supported are parquet, orc and avro."
        raise Unsupported(text, file=file.file_path)


def _holds(fields: Sequence[FileField], field_id: int) -> bool:
    return any(f.field_id == field_id or _holds(f.children, field_id) for f in fields)


def _plan(
    source: FileReader,
    projection: tuple[NestedField, ...],
    schema: FileSchema,
    constants: Mapping[int, Any],
    name: str,
) -> ColumnsPlan:
    return plan_columns(projection, schema, constants, prune=source.prunes_leaves, name=name)


def read_opened(
    opened: OpenedFile,
    context: ReadContext,
    *,
    pieces: Sequence[Piece] | None = None,
    threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read batches of an opened file, of all its pieces or of the given ones."""
    for piece in opened.pieces if pieces is None else pieces:
        if not opened.untested(piece):
            yield from _tested(opened, piece, context, threads)
            continue
        for columns, count, first in opened.source.read(
            piece, opened.columns, context.options.batch_size, threads
        ):
            chosen = _chosen(opened, context, (), (), count, first)
            if chosen.some:
                yield chosen_batch(
                    opened, context, opened.columns.columns, columns, count, first, chosen
                )


@dataclass(frozen=True)
class Chosen:
    """Hold which rows of a batch a read returns (`mask`; None: all) and which are deleted (None:
    none).
    """

    mask: pa.BooleanArray | None
    deleted: Flags | None

    @property
    def some(self) -> bool:
        return self.mask is None or self.mask.true_count > 0


def _tested(
    opened: OpenedFile, piece: Piece, context: ReadContext, threads: bool
) -> Iterator[pa.RecordBatch]:
    """Read a piece whose rows must be tested.

    The columns of the test and the wanted ones are read in one pass. Where the wanted ones are much
    larger they are read in a second pass, which is left out when no row passes the test.
    """
    source, size, first_columns = opened.source, context.options.batch_size, opened.mask_columns
    both = merge_plans(first_columns, opened.columns, pruned=source.prunes_leaves)
    if both is not None and source.bytes_of(piece, both) <= LATER * max(
        1, source.bytes_of(piece, first_columns)
    ):
        cut = len(first_columns.columns)
        for raw, count, first in source.read(piece, both, size, threads):
            chosen = _chosen(opened, context, both.columns[:cut], raw, count, first)
            if chosen.some:
                yield chosen_batch(opened, context, both.columns[cut:], raw, count, first, chosen)
        return
    masks, deleted = [pa.array([], pa.bool_())], [np.zeros(0, bool)]
    for raw, count, first in source.read(piece, first_columns, size, threads):
        chosen = _chosen(opened, context, first_columns.columns, raw, count, first)
        masks.append(pa.repeat(True, count) if chosen.mask is None else chosen.mask)
        deleted.append(np.zeros(count, bool) if chosen.deleted is None else chosen.deleted)
    mask, gone = pa.concat_arrays(masks), np.concatenate(deleted)
    if not mask.true_count:
        return
    for raw, count, first in source.read(piece, opened.columns, size, threads):
        offset = first - piece.first_row
        mask_of_batch = mask.slice(offset, count)
        if (matches := mask_of_batch.true_count) > 0:
            chosen = Chosen(
                None if matches == count else mask_of_batch, gone[offset : offset + count]
            )
            yield chosen_batch(opened, context, opened.columns.columns, raw, count, first, chosen)


def _chosen(
    opened: OpenedFile,
    context: ReadContext,
    plans: Plans,
    raw: Sequence[pa.Array],
    count: int,
    first: int,
) -> Chosen:
    """Choose the rows for which the filter is TRUE and that are not deleted; where `_deleted` is
    projected, deleted rows are kept.
    """
    columns = [build(p, None if index is None else raw[index], count) for index, p in plans]
    mask = (
        _matching(opened, context, columns, count)
        if opened.filter is not None and columns
        else None
    )
    deleted = (
        opened.deletes.deleted(first, count, columns, opened.mask_fields)
        if opened.deletes
        else None
    )
    if deleted is not None and not context.shows_deleted:
        alive = pa.array(~deleted)
        mask = alive if mask is None else pc.and_(mask, alive)
    return Chosen(mask, deleted)


def _matching(
    opened: OpenedFile, context: ReadContext, columns: Sequence[pa.Array], count: int
) -> pa.BooleanArray | None:
    """Flag the rows for which the filter is TRUE; None when it is for all."""
    assert opened.filter is not None
    names = [f.name for f in opened.mask_fields]
    batch = batch_of(
        columns, pa.schema(list(zip(names, (c.type for c in columns), strict=True))), count
    )
    try:
        matches = evaluate(opened.filter, batch, context.filter_paths)
    except pa.ArrowException as error:
        # caught here, since `reading` would take it for damage of the file
        raise InvalidInput(f"The filter {opened.filter} cannot be evaluated: {error}") from error
    if matches.null_count:
        matches = pc.fill_null(matches, False)
    return None if matches.true_count == count else matches


def chosen_batch(
    opened: OpenedFile,
    context: ReadContext,
    plans: Plans,
    raw: Sequence[pa.Array],
    count: int,
    first: int,
    chosen: Chosen,
) -> pa.RecordBatch:
    """Build the batch that a read returns: the wanted columns of the kept rows, and their metadata
    columns.
    """
    positions, mask = None, chosen.mask
    if mask is not None:
        raw, count = [a.filter(mask) for a in raw], mask.true_count
    pairs = zip(opened.fields, plans, strict=True)
    read = {
        field.field_id: build(plan, None if index is None else raw[index], count)
        for field, (index, plan) in pairs
    }
    columns = []
    for field in context.projection.fields:
        if field.field_id not in METADATA_IDS:
            columns.append(read[field.field_id])
            continue
        if positions is None:
            positions = (
                np.arange(first, first + count)
                if mask is None
                else first + np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            )
        if field.field_id == DELETED_ID and chosen.deleted is not None:
            columns.append(pa.array(chosen.deleted[positions - first]))
            continue
        columns.append(metadata_column(field, opened.task, positions, read.get(field.field_id)))
    return batch_of(columns, context.arrow_schema, count)


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Make a batch of columns, which keeps its number of rows also where there are no columns."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
