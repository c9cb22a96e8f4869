"""Describe changes of a table's rows as values: what `Table.append` and its kind, INSERT and Spark's
writers make, an operation stages (`TableOperation.run`), and logs show.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

import pyarrow as pa

from frazil.arrow.write.add_files import OnFile
from frazil.arrow.write.write_options import OPTIONS, Verb
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Expression
from frazil.ops import row_changes, stage
from frazil.ops.arguments import GivenFrame, is_spark_column, is_stream, mapping
from frazil.ops.engine import InputFrame
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.merge import stage_merge
from frazil.ops.operation import TableOperation, TableWrite
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.ops.stage import StagedWrite
from frazil.ops.step import Step
from frazil.ops.target import WriteArguments, overwrites_partitions, start_of
from frazil.rows.clauses import Clause, Merge
from frazil.rows.upsert import upsert_of
from frazil.spec.shown import listed
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage.locations import absolute
from frazil.tasks.runner import InProcess, Runner

_BRANCH = OPTIONS.named("branch")


@dataclass(frozen=True, repr=False)
class DataChange(TableWrite):
    """Hold one change of a table's rows as the caller gave it, not checked yet. Its text, which logs
    show, has conditions, names of columns and types of frames, but neither rows nor new values nor
    write options.
    """

    _: KW_ONLY
    branch: str | None = field(default=MAIN_BRANCH, repr=False)
    snapshot_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    case_sensitive: bool | None = None

    @property
    def repeatable(self) -> bool | None:
        """Tell whether a change that looks for existing rows can be run a second time; None: it
        does not look for rows."""
        return None

    @property
    def txn(self) -> Any:
        """Return the txn of the change, which INSERT and Spark's writers give as an option; None:
        there is none."""
        return next((v for k, v in self.options.items() if k.lower() == "txn"), None)

    def arguments(self, verb: Verb) -> WriteArguments:
        """Return the arguments that say where and how a verb writes."""
        options = {k: v for k, v in self.options.items() if k.lower() != "txn"}
        return WriteArguments(
            verb, self.branch, self.snapshot_properties, options, self.case_sensitive
        )

    def __repr__(self) -> str:
        branch = _BRANCH.given(self.options) or self.branch
        shown = [
            f"{f.name}={_shown(value)}"
            for f in fields(self)
            if f.repr and (value := getattr(self, f.name)) is not f.default
        ]
        return f"{type(self).__name__}({', '.join([f'branch={branch}', *shown])})"


def _shown(value: object) -> str:
    """Show an argument of a change: conditions and flags as they are, anything else by its type and
    by the names that it tells without being evaluated."""
    if isinstance(value, str | bool | Expression | None):
        return str(value)
    names: object = value.clauses if isinstance(value, Merge) else value
    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        names = value.schema.names
    several = names if isinstance(names, Mapping | list | tuple) else ()
    texts = [name for name in several if isinstance(name, str | Clause)]
    return type(value).__name__ + (f"[{listed(texts)}]" if texts else "")


# Rows of frames
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class AppendRows(DataChange):
    """Append the rows of a frame."""

    frame: GivenFrame

    def staged(self, operation: TableOperation) -> StagedWrite:
        return _written(operation, self.arguments("append"), self.frame)


@dataclass(frozen=True, repr=False)
class OverwriteRows(DataChange):
    """Replace the rows of a condition by those of a frame. The write option overwrite-mode=dynamic
    makes an overwrite of all rows one of partitions."""

    frame: GivenFrame
    where: RowFilter = AlwaysTrue()

    def staged(self, operation: TableOperation) -> StagedWrite:
        operation.check_open()
        arguments = self.arguments("overwrite")
        if overwrites_partitions(arguments, self.where):
            dynamic = arguments.for_verb("dynamic_partition_overwrite")
            return _written(operation, dynamic, self.frame)
        rows = operation.engines.of_frame(self.frame)
        # An overwrite of all rows reads none of them, so it needs no tasks of Spark; a frame of
        # this process brings no session.
        if isinstance(self.where, AlwaysTrue) or not rows.engine.evaluates_sql:
            step = operation.step(arguments, IN_PROCESS, InProcess(), rows)
        else:
            step = _row_step(operation, arguments, rows, [self.where])
        return row_changes.overwrite(step, rows, self.where)


@dataclass(frozen=True, repr=False)
class OverwritePartitions(DataChange):
    """Replace the partitions that a frame has rows for."""

    frame: GivenFrame

    def staged(self, operation: TableOperation) -> StagedWrite:
        return _written(operation, self.arguments("dynamic_partition_overwrite"), self.frame)


def _written(
    operation: TableOperation, arguments: WriteArguments, frame: GivenFrame
) -> StagedWrite:
    """Write the rows of a frame, and stage them as the verb commits them."""
    rows = operation.engines.of_frame(frame)
    to = operation.target(arguments, rows.engine)
    staged = stage.written(rows, to)
    return stage.staged_by(arguments.verb, staged, to, start_of(to.metadata, to))


@dataclass(frozen=True, repr=False)
class AddFiles(DataChange):
    """Add Parquet files at their present location. `again`, `parallelism`, `on_file`: see
    `stage.add_files`."""

    file_paths: Sequence[str]
    again: bool = False
    parallelism: int | None = None
    on_file: OnFile = lambda: None

    def staged(self, operation: TableOperation) -> StagedWrite:
        if isinstance(self.file_paths, str):
            raise InvalidInput(
                f"add_files takes a list of paths, not one text: [{self.file_paths!r}]."
            )
        to = operation.target(self.arguments("append"), IN_PROCESS)
        paths = [absolute(os.fspath(p)) for p in self.file_paths]
        return stage.add_files(paths, to, self.parallelism, self.on_file, self.again)


# Rows that are there
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class RowLevelChange(DataChange):
    """Hold one change that looks for existing rows. `mode`: copy-on-write or merge-on-read; None: as
    the table's properties say. `runner`, `spark`: what does the work; None: as the operation's
    `engines` choose."""

    _: KW_ONLY
    mode: str | None = None
    runner: Runner | str | None = None
    spark: Session | None = None

    @property
    def repeatable(self) -> bool:
        return not is_stream(getattr(self, "frame", None))

    def step(
        self,
        operation: TableOperation,
        verb: Verb,
        rows: InputFrame | None = None,
        words: Iterable[object] = (),
    ) -> Step:
        """Begin the change. `words`: its conditions and values."""
        return _row_step(operation, self.arguments(verb), rows, words, self.runner, self.spark)


@dataclass(frozen=True, repr=False)
class DeleteRows(RowLevelChange):
    """Delete the rows of a condition. `target_alias`: by what name a Column calls the table."""

    where: RowFilter = AlwaysTrue()
    target_alias: str = ""

    def staged(self, operation: TableOperation) -> StagedWrite:
        step = self.step(operation, "delete", words=[self.where])
        return row_changes.delete(step, self.where, self.mode, self.target_alias)


@dataclass(frozen=True, repr=False)
class UpdateRows(RowLevelChange):
    """Set columns of the rows of a condition. `set`: expressions or values by column; `where` None:
    all rows; `target_alias`: by what name a Column calls the table."""

    set: Mapping[str, object]
    where: RowFilter | None = None
    target_alias: str = ""

    def staged(self, operation: TableOperation) -> StagedWrite:
        values = mapping("set", self.set)
        step = self.step(operation, "update", words=[self.where, *values.values()])
        return row_changes.update(step, values, self.where, self.mode, self.target_alias)


@dataclass(frozen=True, repr=False)
class UpsertRows(RowLevelChange):
    """Update the rows whose keys a frame holds, and insert its other rows. `join_cols` None: the
    key is the table's identifier fields."""

    frame: GivenFrame
    join_cols: Sequence[str] | None = None
    update: bool = True
    insert: bool = True

    def staged(self, operation: TableOperation) -> StagedWrite:
        rows = operation.engines.of_frame(self.frame)
        step = self.step(operation, "merge", rows)
        merge, keys = upsert_of(step.schema, self.join_cols, self.update, self.insert)
        return stage_merge(step, rows, merge, self.mode, unique=keys)


@dataclass(frozen=True, repr=False)
class MergeRows(RowLevelChange):
    """Merge a frame into the table."""

    frame: GivenFrame
    merge: Merge

    def staged(self, operation: TableOperation) -> StagedWrite:
        rows = operation.engines.of_frame(self.frame)
        step = self.step(operation, "merge", rows, self.merge.words)
        return stage_merge(step, rows, self.merge, self.mode)


def _row_step(
    operation: TableOperation,
    arguments: WriteArguments,
    rows: InputFrame | None,
    words: Iterable[object],
    runner: Runner | str | None = None,
    spark: Session | None = None,
) -> Step:
    """Begin a row-level change with the engine and runner that the arguments choose.

    `rows`: a Spark frame brings its own session. `words`: the conditions and values; a Column among
    them brings the running session.
    """
    operation.check_open()
    if spark is None and rows is not None and rows.engine.evaluates_sql:
        spark = rows.frame.sparkSession
    if spark is None and any(map(is_spark_column, words)):
        spark = operation.engines.active_session()
    operation.go_first(rows)
    engine, chosen = operation.engines.of_rows(operation.metadata, operation.storage, runner, spark)
    return operation.step(
        arguments, engine, chosen, rows, named=spark is not None or runner is not None
    )
