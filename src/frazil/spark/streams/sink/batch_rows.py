"""Reduce the rows of a micro-batch to the last row per key in Spark tasks, by the rule of
`stream.sink.reduce`.

The DataFrame of the batch is evaluated once. `key_shuffle` brings all rows of a key to one task. A
shuffle does not keep the order of rows, so each row is numbered before it: the last row of a key is
the one that came last in its partition of the source.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.write.write_context import WriteContext
from frazil.errors import Unsupported
from frazil.ops.engine import Engine, InputFrame
from frazil.rows.source import MergeSource, SourceFiles, forget, open_source
from frazil.spark.dml.staging import folder_of, shared
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.settings import is_case_sensitive
from frazil.spark.host.workers import check_workers, guarded
from frazil.spark.streams.sink.key_shuffle import BatchKey, shuffled
from frazil.spark.tasks.spark_runner import attempts_on, folder_removed_on_error, remove_folder
from frazil.spark.tasks.this_task import input_errors, this_task
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.spark.types.spark_types import from_spark
from frazil.spark.write.arrow_write import shown_to_arrow
from frazil.spark.write.write_frame import clear_errors
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.locations import scheme_of
from frazil.stream.sink.equality import BatchFiles, write_changes
from frazil.stream.sink.reduce import POSITION, Reduction, reduced
from frazil.tasks.runner import Runner

_REPORT = s.StructType(
    [s.StructField("part", s.IntegerType()), s.StructField("report", s.BinaryType())]
)


@dataclass(frozen=True)
class FrameRows:
    """Implement `stream.sink.rows.BatchRows`. `metadata`: the table's, for errors; None: there is
    no table yet. `tasks`: how many tasks write the rows, if the caller says it."""

    frame: DataFrame
    engine: Engine
    metadata: TableMetadata | None
    tasks: int | None = None

    @property
    def input(self) -> InputFrame:
        return InputFrame(
            self.frame if self.tasks is None else self.frame.repartition(self.tasks), self.engine
        )

    def spread(self, tasks: int) -> FrameRows:
        return replace(self, tasks=tasks)

    @property
    def schema(self) -> Schema:
        return from_spark(self.frame.schema)

    @property
    def case_sensitive(self) -> bool:
        return is_case_sensitive(self.frame.sparkSession)

    @property
    def repeatable(self) -> bool:
        return False

    def runner(self, metadata: TableMetadata, storage: Storage) -> tuple[Engine, Runner]:
        return self.engine, self.engine.runner(metadata, storage)

    @contextmanager
    def staged(self, reduction: Reduction, context: WriteContext) -> Iterator[MergeSource]:
        # The folder has an id of its own: the files of a commit that has failed are found and
        # removed by the commit's id.
        folder = folder_of(
            replace(context, operation_id=f"{context.options.named_for}{uuid.uuid4()}")
        )
        spark, storage = self.frame.sparkSession, context.storage
        _refuse_memory(context)
        shared(spark, storage, folder)
        with self._errors(), folder_removed_on_error(spark, storage, folder):
            locations = self._run(
                reduction,
                context,
                "stage_part",
                StageWork(reduction, self.frame.schema, folder, storage),
            )
        try:
            files = tuple(location for of_task in locations for location in of_task)
            source = (
                open_source(SourceFiles(files, storage)) if files else MergeSource(pa.table({}))
            )
            try:
                yield source
            finally:
                forget(source)
        finally:
            remove_folder(storage, folder)

    def written(
        self, reduction: Reduction, context: WriteContext, ids: Sequence[int], specs: Sequence[int]
    ) -> BatchFiles:
        spark = self.frame.sparkSession
        _refuse_memory(context)
        check_workers(spark)
        attempts = attempts_on(spark, context)
        with self._errors(), attempts.removing_files_on_error():
            work = WriteWork(reduction, self.frame.schema, context, tuple(ids), tuple(specs))
            reports = self._run(reduction, context, "write_part", work)
        files = BatchFiles.together([files_of_task for files_of_task, _ in reports])
        attempts.retried = any(was_tried_again for _, was_tried_again in reports)
        attempts.remove_unreported(files.locations)
        return files

    def _errors(self) -> AbstractContextManager[None]:
        return nullcontext() if self.metadata is None else clear_errors(self.metadata)

    def _run(
        self, reduction: Reduction, context: WriteContext, function: str, work: object
    ) -> list[Any]:
        """Run a function of this module in Spark tasks, each of which gets all rows of its keys;
        return the tasks' reports in the order of the tasks."""
        # names may hold dots, or differ in case only
        names = [f"c{n}" for n in range(len(self.frame.columns))]
        columns = {
            f.name: (F.col(name), f.dataType)
            for f, name in zip(self.frame.schema.fields, names, strict=True)
        }
        keys = [
            BatchKey(*columns[name], f)
            for name, f in zip(reduction.key_names, reduction.keys.fields, strict=True)
        ]
        numbered = shown_to_arrow(self.frame.toDF(*names)).withColumn(
            POSITION, F.monotonically_increasing_id()
        )
        with shuffled(self.frame, numbered, keys, context, self.tasks) as rows:
            job = rows.mapInArrow(guarded(__name__, function, work), _REPORT)
            reports = interruptible(self.frame.sparkSession, job.collect)
        return [
            cloudpickle.loads(bytes(r["report"]))
            for r in sorted(reports, key=lambda r: int(r["part"]))
        ]


def _refuse_memory(context: WriteContext) -> None:
    if scheme_of(context.location) == "memory":
        text = "A table at a memory: location lives in this process, so Spark's workers cannot write to it."
        raise Unsupported(
            text,
            hint="Keep the table in a catalog with a warehouse on a disk or an object store.",
            table=context.location,
        )


# The worker's side
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StageWork:
    """Describe the work of tasks that write reduced rows to Arrow files, in a folder that all tasks
    see. `columns`: those of the frame.
    """

    reduction: Reduction
    columns: s.StructType
    folder: str
    storage: Storage


@dataclass(frozen=True)
class WriteWork:
    """Describe the work of tasks that write reduced rows to data files and equality deletes of the
    table.
    """

    reduction: Reduction
    columns: s.StructType
    context: WriteContext
    ids: tuple[int, ...]
    specs: tuple[int, ...]


def stage_part(work: StageWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the last row per key of one task to one Arrow file (none when there are no rows), and
    report its location.
    """
    task, locations = this_task(), list[str]()
    with input_errors():
        rows = _table(work.columns, batches)
        if rows.num_rows:
            source = reduced(rows, work.reduction).source(work.reduction)
            locations = [f"{work.folder}/{task.partition:05d}-{task.attempt}.arrow"]
            with (
                work.storage.open_output(locations[0]) as sink,
                pa.ipc.new_file(sink, source.schema) as writer,
            ):
                writer.write_table(source, max_chunksize=1 << 17)
    yield _report(task.partition, locations)


def write_part(work: WriteWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the last row per key of one task to files of the table, and report the files and
    whether the task was tried before.
    """
    task, changes = this_task(), BatchFiles()
    context = replace(work.context, partition_id=task.partition, task_id=task.attempt, workers=1)
    with input_errors():
        rows = _table(work.columns, batches)
        if rows.num_rows:
            changes = write_changes(
                reduced(rows, work.reduction), work.reduction, context, work.ids, work.specs
            )
    yield _report(task.partition, (changes, task.retried))


def _table(columns: s.StructType, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Collect the rows of one task under the frame's names, with their places in the frame."""
    wanted = s.StructType([*columns.fields, s.StructField(POSITION, s.LongType())])
    schema = arrow_schema(_as_text(wanted))
    return pa.Table.from_batches(
        [
            fitted(pa.RecordBatch.from_arrays(b.columns, names=schema.names), schema)
            for b in batches
        ],
        schema,
    )


def _as_text(columns: s.StructType) -> s.StructType:
    """Return columns with text for variants, which come as JSON (`arrow_write.shown_to_arrow`).
    Required columns are checked later.
    """
    fields = [
        s.StructField(
            f.name, s.StringType() if isinstance(f.dataType, s.VariantType) else f.dataType, True
        )
        for f in columns.fields
    ]
    return s.StructType(fields)


def _report(part: int, report: object) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            "report": pa.array([cloudpickle.dumps(report)], pa.binary()),
        }
    )
