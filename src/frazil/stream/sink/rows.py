"""Hand over the rows of one micro-batch: the protocol that each engine implements, and its
implementation for Arrow in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from frazil.arrow.values.arrow_schema import from_arrow_schema
from frazil.arrow.values.frames import as_arrow
from frazil.arrow.write.conform import conform, frame_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.ops.engine import Engine, InputFrame
from frazil.ops.in_process import IN_PROCESS
from frazil.rows.assign import refuse_partial
from frazil.rows.source import MergeSource, signed, stage
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.stream.sink.equality import BatchFiles, write_changes
from frazil.stream.sink.reduce import Reduction, reduced
from frazil.tasks.runner import InProcess, Runner


class BatchRows(Protocol):
    """Hand over the rows of one micro-batch. They are evaluated once: by one of `input`, `staged`
    and `written`.
    """

    @property
    def input(self) -> InputFrame:
        """Return the frame and its engine, for writes that take rows as they are."""

    @property
    def schema(self) -> Schema: ...

    @property
    def case_sensitive(self) -> bool: ...

    @property
    def repeatable(self) -> bool:
        """Tell whether `written` may be called again without evaluating the rows again."""

    def spread(self, tasks: int) -> BatchRows:
        """Return the same rows, written by so many tasks where an engine has tasks."""

    def runner(self, metadata: TableMetadata, storage: Storage) -> tuple[Engine, Runner]:
        """Return the engine and the runner that look for the keys in the table's files."""

    def staged(
        self, reduction: Reduction, context: WriteContext
    ) -> AbstractContextManager[MergeSource]:
        """Stage the last row per key in files that all tasks can read (see `Reduced.source`); they
        are removed at the end of the block.
        """

    def written(
        self, reduction: Reduction, context: WriteContext, ids: Sequence[int], specs: Sequence[int]
    ) -> BatchFiles:
        """Write the last row of each key as data files and equality deletes (see
        `equality.write_changes`); after an error none is left.
        """


@dataclass
class ArrowRows:
    """Implement `BatchRows` for anything with an Arrow stream, in this process. `like`: the table's
    columns, by which Python values are read. `engine`: says for which engine the summary of the
    snapshot is written."""

    frame: Any
    like: Schema | None = None
    case_sensitive: bool = True
    repeatable: bool = True
    engine: Engine = IN_PROCESS

    @cached_property
    def table(self) -> pa.Table:
        arrow = as_arrow(self.frame, self.like, case_sensitive=self.case_sensitive)
        table = arrow.read_all() if isinstance(arrow, pa.RecordBatchReader) else arrow
        if (schema := signed(table.schema)) == table.schema:
            return table
        rows = conform(table, from_arrow_schema(schema))
        return pa.Table.from_batches(list(rows), schema=rows.schema)

    @property
    def input(self) -> InputFrame:
        return InputFrame(self.table, self.engine)

    @property
    def schema(self) -> Schema:
        return frame_schema(self.table)

    def spread(self, tasks: int) -> ArrowRows:
        return self

    def runner(self, metadata: TableMetadata, storage: Storage) -> tuple[Engine, Runner]:
        return self.engine, InProcess()

    @contextmanager
    def staged(self, reduction: Reduction, context: WriteContext) -> Iterator[MergeSource]:
        with stage(reduced(self.table, reduction).source(reduction)) as source:
            yield source

    def written(
        self, reduction: Reduction, context: WriteContext, ids: Sequence[int], specs: Sequence[int]
    ) -> BatchFiles:
        return write_changes(reduced(self.table, reduction), reduction, context, ids, specs)


def check_columns(
    schema: Schema,
    table: Schema,
    reduction: Reduction,
    context: WriteContext,
    *,
    keeps: bool = False,
) -> None:
    """Check, before a row is looked at, that the columns of a frame fit those of the table. Raises
    SchemaMismatch.

    A struct that lacks a member is refused, as by `upsert`: the old value of the member would be
    lost. `keeps`: such members keep theirs.
    """
    empty = schema.as_arrow().empty_table().drop_columns(list(reduction.unstored))
    conform(empty, table, case_sensitive=reduction.case_sensitive)
    for f in () if keeps else schema.fields:
        if (column := table.get_field(f.name, reduction.case_sensitive)) is not None:
            refuse_partial(f.field_type, column.field_type, column.name, reduction.case_sensitive)
