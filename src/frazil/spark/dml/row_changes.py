"""Run DELETE, UPDATE and MERGE by Spark SQL, for conditions and values of any kind that Spark can
evaluate, and sources of any size.

Frazil evaluates row changes itself, file by file, where its grammar covers the expressions. For
everything else (functions of Spark, UDFs, sub-queries, large sources) Spark reads the target with
the file and position of each row, and its plan decides what happens to the row. One job evaluates
that plan: its tasks write the new rows as data files and collect the positions of rows that are
deleted or replaced. A second job removes these positions, by rewritten files or by delete files
(`change_tasks`). Only facts about files come to the driver.

Entry points: `delete`, `update`, `merge_by_sql.merge`.
"""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.read.rows_at import rows_at
from frazil.catalog.names import identifier_parts
from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.expr.bind import bind
from frazil.expr.bound import Bound
from frazil.expr.compute import compute
from frazil.expr.double_quotes import columns_of, refuse_columns
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, And, Predicate
from frazil.ops.engine import ContextOf, Planned, RowChanges
from frazil.ops.reading import RowFilter
from frazil.ops.session import Session
from frazil.rows.change import ChangeContext, combined
from frazil.rows.groups import packed
from frazil.rows.merge import ambiguous
from frazil.rows.modes import COPY_ON_WRITE, Kind, distribution_of
from frazil.scan.columns import columns_of_conditions, metadata_columns
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, PlannedFiles
from frazil.spark.dml import change_tasks
from frazil.spark.dml.analysis import as_input, columns_at, columns_by_id, conditions, named
from frazil.spark.dml.change_tasks import (
    BY_SOURCE_DELETED,
    BY_SOURCE_UPDATED,
    DELETED,
    INSERTED,
    SHOWN,
    UPDATED,
    WRITES,
    Sink,
    TaskReport,
    Touched,
    take_away,
)
from frazil.spark.dml.expression_checks import GivenExpression, checked, refuse_windows_of_times
from frazil.spark.dml.new_values import Given, NewColumns, failed, given_expressions
from frazil.spark.dml.staging import folder_of, shared
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.jvm_plans import empty_frame, with_names
from frazil.spark.host.settings import sensitivity, temporarily
from frazil.spark.host.workers import guarded
from frazil.spark.read.native_read import read, understood
from frazil.spark.read.view_refresh import lineage_of
from frazil.spark.scan.read_schema import renamed, shown_column
from frazil.spark.tasks.spark_runner import attempts_on, remove_folder, runner_of
from frazil.spark.types.spark_types import contains, has_type, time_enabled, to_spark
from frazil.spark.write.conform_frame import REQUIRED
from frazil.spark.write.layout import ADVISORY, advisory_size, rebalanced, spread
from frazil.spark.write.write_frame import clear_errors
from frazil.spec import types as i
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import FILE_ID, SPEC_ID_ID, Schema
from frazil.storage.locations import scheme_of
from frazil.tasks.attempts import Attempts

OPERATION, FILE, POS, ROW_ID, NUMBER = (
    f"__frazil_c_{n}" for n in ("op", "file", "pos", "row_id", "number")
)
_NEW = "__frazil_c_new_"
_SUB_QUERY = re.compile(r"\b(?:exists|listquery|\w*subquery)\(\)")
_REPORT = s.StructType([s.StructField("report", s.BinaryType())])
_GROUP_BYTES = 128 << 20  # of positions per task, at most


# Entry points
# --------------------------------------------------------------------------------------------------


def delete(
    spark: Session,
    planned: Planned,
    where: RowFilter,
    context_of: ContextOf,
    *,
    case_sensitive: bool | None = None,
    alias: str = "",
) -> RowChanges:
    """Delete the rows for which `where` (SQL text, Column, predicate) is TRUE, and return the
    changes, which are not committed yet. `alias`: by what name, of one or more parts, the condition
    calls the table.

    Raises InvalidInput for what Spark cannot resolve, and for columns in double quotes, which Spark
    takes for texts.
    """
    with sensitivity(spark, case_sensitive) as sensitive:
        plan = planned(AlwaysFalse())
        schema, extra = plan.schema, metadata_columns_in([where], plan.metadata)
        refuse_columns(where, columns_of(schema))
        empty = _called(shadow(spark, schema, extra), alias)
        where = checked(empty, [GivenExpression(where, "The condition")])[0]
        plan, predicate = _pruned(empty, planned, where, schema, sensitive)
        job = Job.of(spark, plan, context_of(plan), predicate, "delete", whole=False, extra=extra)
        with as_input():
            deleted = _called(job.target, alias).filter(where)
        return job.run(
            deleted.select(F.lit(DELETED).cast("byte").alias(OPERATION), F.col(FILE), F.col(POS)),
            new_rows=False,
            unique=False,
        )


def update(
    spark: Session,
    planned: Planned,
    assignments: Mapping[str, Any],
    where: RowFilter,
    context_of: ContextOf,
    *,
    case_sensitive: bool | None = None,
    alias: str = "",
) -> RowChanges:
    """Update the rows for which `where` is TRUE (all rows where it is None), and return the
    changes, which are not committed yet.

    Values of `assignments` are SQL texts, Columns, terms, or Python constants; `alias` as for
    `delete`. Raises InvalidInput for what Spark cannot resolve and for windows of times,
    SchemaMismatch for values that do not fit their column.
    """
    with sensitivity(spark, case_sensitive) as sensitive:
        plan = planned(AlwaysFalse())
        words = [where, *assignments.values()]
        schema, extra = plan.schema, metadata_columns_in(words, plan.metadata)
        for text in words:
            refuse_columns(text, columns_of(schema))
        assigned_values = Given.of(schema, tuple(assignments.items()), sensitive)
        empty = _called(shadow(spark, schema, extra), alias)
        where = checked(
            empty, [GivenExpression(True if where is None else where, "The condition")]
        )[0]
        refuse_windows_of_times(empty, where, "The condition")
        checked(empty, given_expressions(assigned_values))
        if len(empty.columns) == len(schema.fields) + len(extra):
            NewColumns(
                empty, schema, columns_by_id(empty, schema), sensitive, time_enabled(spark)
            ).columns(assigned_values)
        plan, predicate = _pruned(empty, planned, where, schema, sensitive)
        job = Job.of(spark, plan, context_of(plan), predicate, "update", extra=extra)
        with as_input():
            chosen = _called(job.target, alias).filter(where)
        new = NewColumns(
            chosen, plan.schema, columns_by_id(chosen, plan.schema), sensitive, job.time
        ).columns(assigned_values)
        columns = [
            F.lit(UPDATED).cast("byte").alias(OPERATION),
            *job.marks(),
            *job.named(new, None),
        ]
        return job.run(chosen.select(*columns), new_rows=True, unique=False)


def _called(frame: DataFrame, alias: str) -> DataFrame:
    """Alias a frame by the name, of one or more parts, that expressions call it by; an empty one
    leaves it as it is.
    """
    return named(frame, identifier_parts(alias)) if alias else frame


def _pruned(
    empty: DataFrame,
    planned: Planned,
    where: Column,
    schema: Schema,
    case_sensitive: bool,
) -> tuple[Plan, Predicate]:
    """Plan the scan for a condition, pruned by those of its conjuncts that Frazil's grammar covers;
    return the plan and the predicate of the table's columns. `empty`: a frame by whose columns the
    condition is resolved.
    """
    pruning: Predicate = AlwaysTrue()
    others = []
    for node in conditions(empty, where):
        predicate = understood(empty.sparkSession, node, schema, case_sensitive)
        if predicate is None:
            others.append(node)
        elif not isinstance(predicate, AlwaysTrue):
            pruning = predicate if isinstance(pruning, AlwaysTrue) else And(pruning, predicate)
    return with_files(planned(pruning), others, case_sensitive), pruning


def with_files(plan: Plan, tests: Iterable[Predicate], case_sensitive: bool = True) -> Plan:
    """Keep the files of a plan that pass tests of `_file` and `_spec_id`; tests of other columns are
    left to the rows.
    """
    every = columns_of_conditions(plan.metadata)
    of_files = Schema(*(every[name] for name in ("_file", "_spec_id") if name in every))
    groups = plan.groups
    for test in tests:
        with contextlib.suppress(FrazilError):
            bound = bind(test, of_files, case_sensitive=case_sensitive)
            groups = tuple(group.chosen(_passes(bound, group)) for group in groups)
    return replace(plan, groups=tuple(group for group in groups if len(group)))


def _passes(test: Bound, group: PlannedFiles) -> pa.Array:
    """Return for which files of a group a test of `_file` and `_spec_id` is TRUE."""
    columns = {
        FILE_ID: group.table.column("file_path").combine_chunks().cast(pa.string()),
        SPEC_ID_ID: pa.repeat(pa.scalar(group.spec_id, pa.int32()), len(group)),
    }
    passes = compute(test, lambda reference: columns[reference.field_id], len(group))
    return pc.fill_null(passes, False)


def lacking(spark: Session, schema: Schema) -> i.NestedField | None:
    """Return the first column, if any, that keeps whole rows from passing through Spark: its type
    is unknown there, or nests a variant.
    """
    time = time_enabled(spark)
    for f in schema.fields:
        if not has_type(f, time) or (
            not isinstance(f.field_type, i.VariantType) and contains(f.field_type, i.VariantType)
        ):
            return f
    return None


def metadata_columns_in(
    words: Iterable[object], metadata: TableMetadata
) -> tuple[i.NestedField, ...]:
    """Return the metadata columns of a table that conditions and values may name. One too many
    costs little; a sub-query of a Column, whose text does not show it, may name each of them.
    """
    text = " ".join(map(str, words)).lower()
    hides_names = _SUB_QUERY.search(text) is not None
    every = columns_of_conditions(metadata)
    return tuple(field for name, field in every.items() if hides_names or name in text)


def shadow(spark: Session, schema: Schema, extra: Sequence[i.NestedField] = ()) -> DataFrame:
    """Return an empty frame with the table's columns, and behind them metadata columns, against
    which Spark's analyser checks expressions without a scan.
    """
    return empty_frame(spark, shown_columns(spark, Schema(*schema.fields, *extra)))


def shown_columns(spark: Session, schema: Schema) -> s.StructType:
    """Return those columns of a table that Spark has a type for."""
    time = time_enabled(spark)
    return to_spark(Schema(*(f for f in schema.fields if has_type(f, time))), time=time)


# One operation
# --------------------------------------------------------------------------------------------------


@dataclass
class Job:
    """Hold an operation while it runs. `target`: a frame with the table's columns and the file and
    position of each row.
    """

    spark: Session
    plan: Plan
    context: ChangeContext
    filter: Predicate
    kind: Kind
    target: DataFrame
    time: bool
    keys: tuple[int, ...] = ()
    """Field ids of the columns by which errors name rows; empty: all columns."""
    reports: list[TaskReport] = field(default_factory=list)
    reads_table: bool = False
    """Whether expressions have sub-queries over the table."""

    @classmethod
    def of(
        cls,
        spark: Session,
        plan: Plan,
        context: ChangeContext,
        predicate: Predicate,
        kind: Kind,
        where: Predicate | None = None,
        whole: bool = True,
        extra: Sequence[i.NestedField] = (),
    ) -> Job:
        """Read the target of an operation. `where`: other rows need not be read. `whole`: rows are
        written again, so every column is read. `extra`: metadata columns that expressions name.

        Raises Unsupported for tables whose location is in memory and, with `whole`, for types that
        Spark lacks.
        """
        if scheme_of(context.write.location) == "memory":
            raise Unsupported(
                "A table at a memory: location lives in this process; Spark's workers cannot see it.",
                hint="Use runner= in process.",
            )
        columns_by_name = metadata_columns(plan.metadata)
        marks = {"_file": FILE, "_pos": POS, **({"_row_id": ROW_ID} if context.lineage else {})}
        time = time_enabled(spark)
        fields = [f for f in plan.schema.fields if whole or has_type(f, time)]
        hidden = list(dict.fromkeys([*marks, *(f.name for f in extra)]))
        projection = Schema(*fields, *(columns_by_name[n] for n in hidden))
        frame = read(spark, plan, projection=projection, storage=context.write.storage, where=where)
        last = len(fields)
        columns = columns_at(frame, range(last + len(hidden)))
        column_of = dict(zip(hidden, columns[last:], strict=True))
        columns = columns[:last]
        columns += [column_of[name].alias(mark) for name, mark in marks.items()]
        columns += [column_of[f.name] for f in extra]
        return cls(spark, plan, context, predicate, kind, frame.select(*columns), time)

    @property
    def attempts(self) -> Attempts:
        """Return the attempts of the operation's tasks."""
        return attempts_on(self.spark, self.context.write)

    def marks(self) -> list[Column]:
        """Return the columns that tell where a row is, and its row id with row lineage."""
        return [F.col(FILE), F.col(POS), *((F.col(ROW_ID),) if self.context.lineage else ())]

    def named(self, new: Sequence[Column], operation: Column | None) -> list[Column]:
        """Name new values as the table's columns; a null in a required column fails the job.
        `operation`: None, or a column by which only rows that are written are checked."""
        fields = self.plan.schema.fields
        return [
            renamed(self.spark, _required(c, f, operation), f.name)
            for c, f in zip(new, fields, strict=True)
        ]

    def run(self, frame: DataFrame, *, new_rows: bool, unique: bool) -> RowChanges:
        """Run both jobs. `frame`: columns as `Sink` describes. `unique`: a row may be changed only
        once. After an error no file is left.
        """
        with self.cleaned():
            self.write(frame, new_rows=new_rows)
            return self.finish(unique=unique)

    @contextlib.contextmanager
    def cleaned(self) -> Iterator[None]:
        """Delete the operation's temporary folder at the end, and after an error the files that it
        has written.
        """
        write = self.context.write
        try:
            with self.attempts.removing_files_on_error(), clear_errors(self.plan.metadata):
                yield
        except BaseException as e:
            if (value_error := failed(e)) is not None:
                raise value_error from e
            raise
        finally:
            remove_folder(write.storage, folder_of(write))

    def write(
        self, frame: DataFrame, *, new_rows: bool, numbered: bool = False, inserts: bool = False
    ) -> list[TaskReport]:
        """Run the first job and return its reports. `inserts`: all rows are new, so none has a
        position in the table. Sub-queries over an older state of the table than the one that is
        changed are made over that one.
        """
        write = self.context.write
        if (
            self.context.settled
            and (lineage := lineage_of(frame, self.plan.metadata)).over is not None
        ):
            self.reads_table = True
            frame = lineage.over(self.plan.metadata, write.storage)
        shared(self.spark, write.storage, folder_of(write))
        settings: Mapping[str, str] = {}
        if new_rows:
            frame, settings = self._spread(frame, inserts)
        sink = Sink(write, folder_of(write), self.plan.schema if new_rows else None, numbered)
        with temporarily(self.spark, settings) if settings else contextlib.nullcontext():
            job = frame.mapInArrow(
                guarded(change_tasks.__name__, "write_rows_and_positions", sink), _REPORT
            )
            rows = interruptible(self.spark, job.collect)
        reports = [cloudpickle.loads(bytes(r["report"])) for r in rows]
        self.reports += reports
        return reports

    def _spread(self, frame: DataFrame, inserts: bool) -> tuple[DataFrame, Mapping[str, str]]:
        """Distribute rows over tasks as `write.<kind>.distribution-mode` asks (default: hash), and
        return the session settings for that.

        Without partitions rows are distributed by the file that they come from, so that the
        positions of a file come from few tasks.
        """
        write = self.context.write
        names = frame.columns[: len(frame.columns) - len(self.plan.schema.fields)]
        distribution = distribution_of(self.kind, self.plan.metadata, write.options) or "hash"
        fields = self.plan.schema.fields
        # names may contain dots or differ only in case
        by_place = Schema(*(replace(f, name=f"{_NEW}{n}") for n, f in enumerate(fields)))
        frame = with_names(frame, [*names, *(f.name for f in by_place.fields)])
        to = replace(
            write, schema=by_place, options=replace(write.options, distribution_mode=distribution)
        )
        settings: Mapping[str, str] = {}
        if distribution == "hash" and write.spec.unpartitioned:
            to = replace(to, options=replace(to.options, distribution_mode="none"))
            frame = rebalanced(self.spark, frame, [] if inserts else [FILE])
            settings = {ADVISORY: str(advisory_size(self.spark, write, write.properties))}
        rows = spread(self.spark, frame, to, write.properties, folders=False)
        new = [
            _to_arrow(self.spark, have.name, f)
            for have, f in zip(by_place.fields, fields, strict=True)
        ]
        return rows.frame.select(*names, *new), {**settings, **rows.settings}

    def finish(self, *, unique: bool) -> RowChanges:
        """Run the second job and return the changes of both. Raises InvalidInput, with `unique`,
        for a row that was matched twice.
        """
        if unique and (twice := [t for r in self.reports for t in r.twice]):
            raise self.ambiguous(twice)
        runner = runner_of(self.spark, self.plan.metadata, self.context.write.storage)
        touched = self._touched()
        if self.context.mode == COPY_ON_WRITE:
            groups: Sequence[Sequence[Touched]] = packed(
                touched, runner.parallelism, self.plan.options.split, lambda t: t.task
            )
        else:
            groups = balanced(touched, runner.parallelism)
        changes = (
            list(runner.run(partial(take_away, self.context, unique), groups)) if groups else []
        )
        if twice := [t for c in changes for t in c.reports]:
            raise self.ambiguous(twice)
        changed = combined(changes)
        rows = [sum(r.rows[n] for r in self.reports) for n in range(BY_SOURCE_UPDATED + 1)]
        updated = rows[UPDATED] + rows[BY_SOURCE_UPDATED]
        counts = {
            "updated": updated,
            "deleted": changed.deleted - updated,
            "inserted": rows[INSERTED],
            "copied": changed.copied,
            "matched-updated": rows[UPDATED],
            "matched-deleted": changed.deleted - updated - rows[BY_SOURCE_DELETED],
            "not-matched-by-source-updated": rows[BY_SOURCE_UPDATED],
            "not-matched-by-source-deleted": rows[BY_SOURCE_DELETED],
        }
        new = tuple(f for r in self.reports for f in r.files)
        changed = replace(
            changed,
            added=(*new, *changed.added),
            updated=updated,
            deleted=changed.deleted - updated,
            reports=(),
        )
        attempts = self.attempts
        attempts.retried = runner.repeats or any(r.retried for r in self.reports)
        attempts.remove_unreported([f.file_path for f in changed.written])
        return RowChanges(changed, self.filter, rows[INSERTED], counts, self.reads_table)

    def _touched(self) -> list[Touched]:
        """Return the data files that lose rows or were matched in several tasks, each with the
        bitmaps of all tasks.
        """
        parts: dict[str, list[tuple[str, int]]] = {}
        rows: dict[str, int] = {}
        for places in (r.places for r in self.reports if r.places is not None):
            for n, (path, count) in enumerate(zip(places.paths, places.counts, strict=True)):
                parts.setdefault(path, []).append((places.location, n))
                rows[path] = rows.get(path, 0) + count
        parts = {path: at for path, at in parts.items() if rows[path] or len(at) > 1}
        if not parts:
            return []
        tasks = tasks_of(self.plan, parts)
        return [Touched(tasks[path], tuple(parts[path]), rows[path]) for path in parts]

    def ambiguous(self, twice: Sequence[tuple[str, int]]) -> InvalidInput:
        """Return the error for target rows that several source rows match; it names some of
        them by their keys.
        """
        rows = [row for path, position in twice[:SHOWN] for row in self._rows(path, position)]
        shown = "; ".join(", ".join(f"{n} = {v!r}" for n, v in row.items()) for row in rows)
        return ambiguous(shown, rows=rows)

    def _rows(self, path: str, position: int) -> list[Any]:
        """Read the key columns of the row at a position of a data file."""
        wanted = self.plan.schema.project(self.keys) if self.keys else self.plan.schema
        context = self.context.read.sharing_deletes(projection=wanted)
        task = tasks_of(self.plan, [path])[path]
        return [
            row
            for batch in rows_at(task, np.array([position]), context)
            for row in batch.to_pylist()
        ]


def tasks_of(plan: Plan, paths: Iterable[str]) -> dict[str, FileScanTask]:
    """Return the scan tasks of some data files, by path."""
    wanted, every = set(paths), plan.tasks()
    return {p: every[n] for n, p in enumerate(plan.paths()) if p in wanted}


def _required(value: Column, f: i.NestedField, operation: Column | None) -> Column:
    """Return the value; a null in a required column fails the job. With `operation` only rows that
    are written are checked.
    """
    if not f.required:
        return value
    missing = F.raise_error(
        F.lit(f"{REQUIRED}column {f.name} is required, and its new value is null in a row")
    )
    return F.coalesce(
        value, missing if operation is None else F.when(operation.isin(*WRITES), missing)
    )


def _to_arrow(spark: Session, name: str, f: i.NestedField) -> Column:
    """Return a column as the Arrow writer takes it: a variant as JSON text, as everywhere outside
    Spark (docs/adr/0018).
    """
    if not contains(f.field_type, i.VariantType):
        return shown_column(spark, name, name)
    if isinstance(f.field_type, i.VariantType):
        return F.to_json(F.col(name)).alias(name)
    raise Unsupported(
        f"Column {f.name}: rows with a variant inside a struct, list or map cannot be written here.",
        column=f.name,
    )


def balanced(touched: Sequence[Touched], parallelism: int) -> list[list[Touched]]:
    """Group files so that tasks remove about equal numbers of rows: the heaviest file goes to the
    lightest group.
    """
    weights = {t.task.file.file_path: 8 * t.rows + 4096 for t in touched}
    count = max(1, min(len(touched), max(parallelism, -(-sum(weights.values()) // _GROUP_BYTES))))
    groups: list[list[Touched]] = [[] for _ in range(count)]
    loads = [(0, n) for n in range(count)]
    for t in sorted(touched, key=lambda t: weights[t.task.file.file_path], reverse=True):
        load, least = heapq.heappop(loads)
        groups[least].append(t)
        heapq.heappush(loads, (load + weights[t.task.file.file_path], least))
    return [g for g in groups if g]
