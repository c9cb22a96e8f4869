"""Stage the rows of a micro-batch, by write mode: append, replace partitions or all rows, upsert
and delete by key by either strategy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from frazil.arrow.write.write_context import WriteContext
from frazil.commit.actions import Action, MetadataChange, RowDelta, WrittenFor
from frazil.commit.apply import apply_updates
from frazil.commit.context import remove
from frazil.commit.produce import parent_of
from frazil.expr.nodes import And, EqualTo, Expression, NullSafeEqualTo, Reference
from frazil.ops.engine import Engine
from frazil.ops.merge import stage_ready
from frazil.ops.operation import TableOperation
from frazil.ops.stage import (
    StagedWrite,
    evolve_to,
    of_files,
    staged_by,
    written,
)
from frazil.ops.target import WriteArguments, WriteTarget, WrittenTo, start_of, where_to
from frazil.rows.clauses import (
    Clause,
    Merge,
    matched_delete,
    matched_update_all,
    not_matched_insert_all,
)
from frazil.rows.modes import MERGE_ON_READ
from frazil.rows.source import MergeSource
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.stream.sink.equality import DeletesReach, specs_to_delete_in
from frazil.stream.sink.options import EQUALITY_DELETES, SinkOptions, key_ids
from frazil.stream.sink.reduce import REMOVED, Reduction, reduction
from frazil.stream.sink.rows import BatchRows, check_columns


class BatchStage:
    """Stage the rows of one batch, which are evaluated once, however often the commit is tried on a
    newer state of the table.

    `resources`: what the batch holds open, among them the staged source of a look-up; closed when
    the batch ends. `named_for`: how the operation's id begins in the names of files. `came`:
    whether the batch held any rows, known once it is staged.
    """

    def __init__(
        self,
        options: SinkOptions,
        rows: BatchRows,
        arguments: WriteArguments,
        resources: ExitStack,
        named_for: str = "",
    ):
        self._rows = rows if options.tasks is None else rows.spread(options.tasks)
        self._options, self._arguments, self._resources, self._named_for = (
            options,
            arguments,
            resources,
            named_for,
        )
        self._source: tuple[Reduction, MergeSource] | None = None
        self.came = False

    @property
    def case_sensitive(self) -> bool:
        """Tell how names are matched: as the caller says, else as the engine does."""
        by_caller = self._arguments.case_sensitive
        return self._rows.case_sensitive if by_caller is None else by_caller

    @property
    def repeatable(self) -> bool:
        """Tell whether the rows of a batch with equality deletes can be written once more."""
        return self._rows.repeatable

    def where_to(self, metadata: TableMetadata) -> WrittenTo:
        return where_to(self._arguments, metadata, self._rows.input.engine)

    def __repr__(self) -> str:
        return f"BatchStage({self._options.mode})"

    def staged(self, operation: TableOperation) -> StagedWrite:
        if self._options.verb != "merge":
            to = self._target(operation)
            staged = _staged_files(self._options, written(self._rows.input, to), to)
        elif self._options.strategy == EQUALITY_DELETES:
            staged = self._with_equality_deletes(operation)
        else:
            return self._looked_up(operation)
        self.came = bool(staged.actions)
        return staged

    def discard(self, storage: Storage) -> None:
        """Do nothing: no file is written before the batch is staged."""

    def _target(self, operation: TableOperation) -> WriteTarget:
        return self._named(operation.target(self._arguments, self._rows.input.engine))

    def _named(self, to: WriteTarget) -> WriteTarget:
        """Return the same write, whose files carry the query and the batch in their names."""
        return replace(to, options=replace(to.options, named_for=self._named_for))

    # --- rows by key

    def _reduction(self, schema: Schema) -> Reduction:
        columns = [f.name for f in self._rows.schema.fields]
        ids = key_ids(self._options, schema, self.case_sensitive)
        return reduction(self._options, schema, ids, columns, self.case_sensitive)

    def _evolved(self, to: WriteTarget) -> tuple[WriteTarget, Reduction, tuple[Action, ...]]:
        """Add the columns that only the frame has to the table, with merge-schema, in the same
        commit.
        """
        reduction, changes = self._reduction(to.metadata.schema()), ()
        if to.options.merge_schema:
            wanted = Schema(
                *(f for f in self._rows.schema.fields if f.name not in reduction.unstored)
            )
            if (update := evolve_to(wanted, to.metadata, reduction.case_sensitive)) is not None:
                to = to.with_metadata(apply_updates(to.metadata, update.updates(to.metadata)))
                return to, self._reduction(to.metadata.schema()), (MetadataChange(update.updates),)
        return to, reduction, changes

    def _with_equality_deletes(self, operation: TableOperation) -> StagedWrite:
        begun = time.perf_counter()
        to, reduction, before = self._evolved(self._target(operation))
        context = WriteContext.of(to.metadata, to.storage, to.options)
        check_columns(self._rows.schema, to.metadata.schema(), reduction, context)
        ids = key_ids(self._options, to.metadata.schema(), self.case_sensitive)
        specs = specs_to_delete_in(to.metadata, to.storage, to.branch, context.spec.spec_id, ids)
        files = self._rows.written(reduction, context, ids, specs)
        both = (*files.data, *files.deletes)
        delta = RowDelta(added=files.data, added_deletes=files.deletes, **to.snapshot_fields)
        metrics: Mapping[str, int] = {
            "rows_inserted": files.upserts,
            "rows_deleted": files.removals,
        }
        actions = (
            *before,
            WrittenFor(to.metadata, to.known_columns, both),
            DeletesReach(to.branch, specs, ids),
            delta,
        )
        return (
            StagedWrite(actions, both, time.perf_counter() - begun, metrics)
            if both
            else StagedWrite(())
        )

    def _looked_up(self, operation: TableOperation) -> StagedWrite:
        engine, runner = self._rows.runner(operation.metadata, operation.storage)
        step = operation.step(self._arguments, engine, runner, self._rows.input)
        to, reduction, before = self._evolved(self._named(step.to))
        step = replace(step, to=to)
        check_columns(
            self._rows.schema,
            to.metadata.schema(),
            reduction,
            step.write_context,
            keeps=to.options.merge_schema,
        )
        if self._source is None:
            self._source = (
                reduction,
                self._resources.enter_context(self._rows.staged(reduction, step.write_context)),
            )
        reduction, source = self._source
        self.came = source.num_rows > 0
        if not self.came:
            return StagedWrite(())
        staged = stage_ready(
            step, source, _merge_by(reduction, to.options.merge_schema), MERGE_ON_READ
        )
        actions = (*before, *staged.actions) if staged.actions else ()
        return replace(staged, actions=actions)


class FilesStage:
    """Stage a batch whose rows were written to data files before its commit began."""

    def __init__(
        self,
        options: SinkOptions,
        files: Sequence[DataFile],
        schema_id: int,
        engine: Engine,
        arguments: WriteArguments,
    ):
        self._options, self._files, self._schema_id, self._engine, self._arguments = (
            options,
            files,
            schema_id,
            engine,
            arguments,
        )
        self.came, self.repeatable, self.case_sensitive = False, False, True

    def where_to(self, metadata: TableMetadata) -> WrittenTo:
        return where_to(self._arguments, metadata, self._engine)

    def __repr__(self) -> str:
        return f"FilesStage({self._options.mode}, {len(self._files)} files)"

    def staged(self, operation: TableOperation) -> StagedWrite:
        # first, so that they are removed if the batch is found to be done
        operation.written += [f.file_path for f in self._files]
        to = operation.target(self._arguments, self._engine)
        written_for = replace(to.metadata, current_schema_id=self._schema_id)
        staged = _staged_files(self._options, of_files(self._files, written_for, to), to)
        self.came = bool(staged.actions)
        return staged

    def discard(self, storage: Storage) -> None:
        remove(storage, [f.file_path for f in self._files], "a batch that is committed already")


def _staged_files(options: SinkOptions, staged: StagedWrite, to: WriteTarget) -> StagedWrite:
    """Stage the written files of a batch by its write mode: as an append, in place of the partitions
    that they are in (as Flink's overwrite-enabled does; all rows of an unpartitioned table), or in
    place of all rows of the branch. Nothing is done without files, unless there are some to replace.
    """
    head = parent_of(to.metadata, to.branch) if options.mode == "complete" else None
    if not staged.files and (head is None or head.summary.get("total-data-files") == "0"):
        return StagedWrite(())
    return staged_by(options.verb, staged, to, start_of(to.metadata, to))


def _merge_by(reduction: Reduction, merge_schema: bool) -> Merge:
    """Build the MERGE of a reduced batch, in which each key occurs once, null is a key like any
    other, and a column tells which rows are removed. With `merge_schema`, columns and members of
    structs that the batch lacks keep their values."""
    pairs = zip(reduction.keys.fields, reduction.key_names, strict=True)
    parts: list[Expression] = []
    for f, name in pairs:
        equal = EqualTo if f.required else NullSafeEqualTo
        parts.append(
            equal(
                Reference(f"target.{f.name}", ("target", f.name)),
                Reference(f"source.{name}", ("source", name)),
            )
        )
    removed = Reference(f"source.{REMOVED}", ("source", REMOVED))
    clauses: tuple[Clause, ...] = (matched_update_all(), not_matched_insert_all())
    if reduction.op is not None:
        goes, stays = EqualTo(removed, True), EqualTo(removed, False)
        clauses = (matched_delete(goes), matched_update_all(), not_matched_insert_all(stays))
    return Merge(parts[0] if len(parts) == 1 else And(*parts), clauses, merge_schema=merge_schema)
