"""Serve `format("iceberg")` by a Python data source, in sessions on which `frazil.install` was not
called.

PySpark runs a data source in processes of its own. These see options, environment variables and
yaml files, but no settings of the session, and PySpark offers them neither column pruning nor
filter push-down. Reads return the same rows, but read all columns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import cloudpickle
from pyspark.sql import types as s
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from frazil.arrow.changelog.changelog_groups import partition_rows, partitions_of
from frazil.arrow.changelog.read_changelog import ChangelogRead
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import write
from frazil.catalog import CatalogBackend, LoadedTable, load_backend, reporting
from frazil.catalog.names import identifier_parts
from frazil.catalog.path import load_location
from frazil.errors import InvalidInput, NotFound, Unsupported
from frazil.expr.nodes import AlwaysTrue
from frazil.ops.in_process import InProcessEngine
from frazil.ops.insert import require_branch
from frazil.ops.operation import TableOperation, writable
from frazil.ops.stage import of_files, staged_by
from frazil.ops.target import (
    WriteArguments,
    check_overwrite,
    overwrites_partitions,
    start_of,
    target,
)
from frazil.scan.combine import combine_for
from frazil.scan.inspect import metadata_table_schema
from frazil.spark.engine.read_target import ReadTarget, locate, read_request
from frazil.spark.engine.stream_read import asks_for_stream, bare_spec
from frazil.spark.streams.sink.keyed_writer import KeyedStreamWriter
from frazil.spark.streams.sink.source_writer import (
    StreamSourceWriter,
    checkpoint_in,
    place_options,
    stream_options,
)
from frazil.spark.streams.source.stream_reader import TableStreamReader
from frazil.spark.streams.stream_table import StreamSpec
from frazil.spark.tasks.spark_runner import LINGER
from frazil.spark.tasks.this_task import task_was_retried, this_task
from frazil.spark.types.arrow_types import arrow_schema, fitted, for_spark, struct_of
from frazil.spark.types.spark_types import contains, to_spark
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.stream.sink.options import check_branch, mode_of_table
from frazil.tasks.attempts import Attempts

_log = logging.getLogger("frazil")
_INSTALL = "Call frazil.install(spark) first."
_UNKNOWN = (
    "This process does not see what is configured in the Spark session: call frazil.install(spark), or give the catalog's properties "
    'as options, .option("catalog.type", …).option("catalog.warehouse", …).'
)
_HINT = (
    'format("iceberg") is served by Frazil\'s Python data source here, which reads whole columns. '
    "frazil.install(spark) before the read gives Spark's own scan: column pruning, filter push-down, several times the speed."
)


class IcebergSource(DataSource):
    """Implement PySpark's DataSource for `spark.read.format("iceberg")` and
    `df.write.format("iceberg")`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "iceberg"

    def schema(self) -> s.StructType:
        """Return the columns of the table that the options name, and log what `frazil.install`
        would gain.
        """
        if asks_for_stream(self.options):
            return self._stream().spark_schema()
        _log.warning(_HINT)
        return schema_of(_located(self.options))

    def _stream(self) -> StreamSpec:
        """Describe a streaming read, once: this object travels to the processes of a query, which
        all see the same columns.
        """
        if "_spec" not in self.__dict__:
            self._spec = bare_spec(self.options)
        return self._spec

    def reader(self, schema: s.StructType) -> DataSourceReader:
        """Return the reader of the table that the options name."""
        return SourceReader(_located(self.options), schema)

    def writer(self, schema: s.StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer to the table that the options name."""
        writer = SourceWriter(dict(self.options), schema, overwrite)
        require_branch(writer.branch, writer.table[1].metadata)
        return writer

    def streamReader(self, schema: s.StructType) -> DataSourceStreamReader:
        try:
            spec = self._stream()
        except NotFound as e:
            raise _unknown_here(e, self.options) from None
        if spec.spark_schema() != schema:
            hint = "It may have changed meanwhile; load it again."
            raise InvalidInput(
                f"The columns of {spec.table.name} are not those that were asked for.", hint=hint
            )
        return TableStreamReader(cloudpickle.dumps(spec), schema)

    def streamWriter(
        self, schema: s.StructType, overwrite: bool
    ) -> StreamSourceWriter | KeyedStreamWriter:
        """Return the writer of a streaming query, by its write mode."""
        place = SourcePlace.of(place_options(self.options))
        metadata = place.table[1].metadata
        sink, own = stream_options(
            self.options, overwrite, lambda: mode_of_table(self.options, metadata)
        )
        check_branch(sink, metadata)
        if sink.keyed:
            return KeyedStreamWriter(place, sink, schema, checkpoint_in(self.options))
        return StreamSourceWriter(
            SourceWriter(own, schema, sink.mode != "append"), sink, checkpoint_in(self.options)
        )


def _located(options: Mapping[str, Any]) -> ReadTarget:
    """Load the table of a read. The session's catalogs are unknown here, so the error for an
    unknown name says how to give them.
    """
    request = read_request(options)
    try:
        return locate(request, {})
    except NotFound as e:
        raise _unknown_here(e, options) from None


def _unknown_here(error: NotFound, options: Mapping[str, Any]) -> NotFound:
    """Say what to do where a name may be known to the session only."""
    by_name = {str(k).lower(): v for k, v in options.items()}
    if "/" in str(by_name.get("path", "")) or any(k.startswith("catalog.") for k in by_name):
        return error
    return type(error)(error.message, hint=_UNKNOWN, **error.facts)


def schema_of(target: ReadTarget) -> s.StructType:
    """Return the columns that a read yields. Raises Unsupported for a variant inside a struct, list
    or map.
    """
    if target.metadata_table is not None and not target.is_changelog:
        return struct_of(metadata_table_schema(target.metadata_table, target.loaded.metadata))
    schema = (
        target.changelog().schema
        if target.is_changelog
        else target.reading().snapshot_and_schema()[1]
    )
    if bad := [
        f.name
        for f in schema.fields
        if any(contains(c.field_type, i.VariantType) for c in i.children(f.field_type))
    ]:
        raise Unsupported(
            f"Columns {', '.join(bad)} hold variants inside, which the Python data source cannot hand over.",
            hint=_INSTALL,
        )
    # whether the session has the type TIME is unknown here; Spark refuses it where it does not
    return to_spark(schema, time=True)


@dataclass
class TaskGroup(InputPartition):
    """Hold the pickled scan tasks of one partition; None for a metadata table."""

    tasks: bytes | None

    def __init__(self, tasks: bytes | None):
        self.tasks = tasks


class SourceReader(DataSourceReader):
    """Read rows as Arrow batches. The scan is planned once, in a Python process beside the driver,
    when the reader is made.
    """

    def __init__(self, target: ReadTarget, schema: s.StructType):
        self._schema, self._groups = schema, []
        self._arrow = arrow_schema(schema)
        # A catalog may hold connections, which do not travel to Spark's tasks, and rows of a
        # metadata table need none.
        self._target = (
            replace(target, backend=None)
            if target.metadata_table is not None and not target.is_changelog
            else None
        )
        self._changelog: ChangelogRead | None = None
        if target.is_changelog:
            reading = target.changelog()
            changelog = reading.plan()
            self._changelog = reading.read_of(changelog)
            groups = partitions_of(changelog) or [[]]
            self._groups = [TaskGroup(cloudpickle.dumps(tasks)) for tasks in groups]
            return
        if target.metadata_table is not None:
            self._groups = [TaskGroup(None)]
            return
        plan = target.reading().plan()
        reporting.flush()  # Spark ends this process as soon as the scan is planned
        if to_spark(plan.schema, time=True) != schema:
            raise InvalidInput(
                f"The columns of {target.name} are not those that were asked for.",
                hint="They may have changed meanwhile; load it again.",
            )
        self._context = ReadContext.of(plan, plan.schema, plan.reads_by(target.loaded.storage))
        packed = combine_for(plan.tasks(), plan.options.split, 8)
        self._groups = [TaskGroup(cloudpickle.dumps(c.tasks)) for c in packed] or [
            TaskGroup(cloudpickle.dumps(()))
        ]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions of the read, each with scan tasks of about the split size."""
        return self._groups

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, in a worker."""
        assert isinstance(partition, TaskGroup)
        if partition.tasks is None:
            yield from self._metadata_rows()
            return
        if self._changelog is not None:
            for batch in partition_rows(cloudpickle.loads(partition.tasks), self._changelog):
                yield fitted(batch, self._arrow)
            return
        for task in cloudpickle.loads(partition.tasks):
            for batch in read_task(task, self._context):
                yield fitted(batch, self._arrow)

    def _metadata_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a metadata table."""
        assert self._target is not None
        for batch in for_spark(self._target.metadata_rows()).to_batches():
            yield fitted(batch, self._arrow)


SIDE_PROCESS = InProcessEngine(name="spark", version=pyspark.__version__)
"""The engine of PySpark's data source processes: rows are Arrow batches, and no session is known.
"""


def _write_arguments(options: Mapping[str, str], overwrite: bool) -> WriteArguments:
    """Check the options of a write. Raises Unsupported for options that need more than a data
    source can do.
    """
    arguments = WriteArguments(
        "overwrite" if overwrite else "append", options=options, case_sensitive=False
    )
    if overwrite and overwrites_partitions(arguments, AlwaysTrue()):
        arguments = arguments.for_verb("dynamic_partition_overwrite")
    checked = write_options(options, arguments.verb)
    for name, idle in (
        ("merge_schema", False),
        ("distribution_mode", "none"),
        ("advisory_partition_size", None),
    ):
        if getattr(checked, name) not in (idle, None):
            raise Unsupported(
                f"Write option {name.replace('_', '-')!r} needs frazil.install(spark) before the write."
            )
    return arguments


@dataclass(frozen=True)
class SourcePlace:
    """Find the table of a write by the options `path` and `catalog.<key>`. `catalog`: the catalog's
    properties by their keys.
    """

    path: str
    catalog: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourcePlace:
        return cls(
            options.get("path", ""),
            {k[8:]: v for k, v in options.items() if k.lower().startswith("catalog.")},
        )

    @property
    def engine(self) -> InProcessEngine:
        return SIDE_PROCESS

    @property
    def table(self) -> tuple[CatalogBackend, LoadedTable, str]:
        """Return the table as it is now, with the catalog that commits to it and its name."""
        backend, loaded = self._load()
        return writable(backend, self.path), loaded, self.path

    def _load(self) -> tuple[CatalogBackend | None, LoadedTable]:
        if "/" in self.path:
            return load_location(self.path, self.catalog)
        target = _located(
            {"path": self.path, **{f"catalog.{k}": v for k, v in self.catalog.items()}}
        )
        parts = identifier_parts(self.path)
        name = parts[0] if parts[1:] == tuple(target.loaded.identifier) else None
        properties: dict[str, Any] = dict(self.catalog)
        return load_backend(name, **properties), target.loaded


@dataclass
class Written(WriterCommitMessage):
    """Report the data files of one task. `retried`: Spark has tried the task before, or may be
    running a copy of it.
    """

    files: list[DataFile]
    retried: bool = False


class SourceWriter(DataSourceArrowWriter):
    """Write rows to data files in tasks, and commit them once on the driver's side. Files of
    attempts that did not count are removed.
    """

    def __init__(self, options: dict[str, str], schema: s.StructType, overwrite: bool):
        self._place = SourcePlace.of(options)
        write_options_given = {
            k: v
            for k, v in options.items()
            if k.lower() != "path" and not k.lower().startswith("catalog.")
        }
        arguments = _write_arguments(write_options_given, overwrite)
        _, loaded, _ = self.table
        metadata = loaded.metadata
        self._verb = arguments.verb
        self._to = target(
            arguments,
            metadata,
            loaded.storage,
            metadata.last_column_id,
            SIDE_PROCESS,
            {},
            SIDE_PROCESS,
        )
        if self._verb == "overwrite":
            check_overwrite(self._to, AlwaysTrue())
        self._start = None if self._verb == "append" else start_of(metadata, self._to)
        self._context = WriteContext.of(metadata, loaded.storage, self._to.options)
        assert self._context.settings is not None
        conform(
            arrow_schema(schema).empty_table(),
            self._context.schema,
            case_sensitive=False,
        )

    @property
    def table(self) -> tuple[CatalogBackend, LoadedTable, str]:
        """Return the table as it is now, and its name."""
        return self._place.table

    @property
    def context(self) -> WriteContext:
        return self._context

    @property
    def branch(self) -> str:
        return self._to.branch

    @property
    def engine(self) -> InProcessEngine:
        return SIDE_PROCESS

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, in a worker."""
        return Written(self.files_of(iterator, self._context), task_was_retried())

    def files_of(self, iterator: Iterator[pa.RecordBatch], context: WriteContext) -> list[DataFile]:
        """Write the rows of one task to data files, in a worker."""
        first = next(iterator, None)
        if first is None:
            return []
        task = this_task()
        context = replace(context, partition_id=task.partition, task_id=task.attempt, workers=1)

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        frame = conform(
            pa.RecordBatchReader.from_batches(first.schema, batches()),
            context.schema,
            case_sensitive=False,
        )
        return write(frame, context)

    def commit(self, messages: list[Any]) -> None:
        """Commit the files of all tasks as one snapshot."""
        files = tuple(f for m in messages if m is not None for f in m.files)
        attempts = Attempts(
            self._context, retried=any(m.retried for m in messages if m is not None)
        )
        with attempts.removing_files_on_error():
            backend, base, name = self.table
            attempts.remove_unreported(f.file_path for f in files)
            staged = of_files(files, self._to.metadata, self._to)
            staged = staged_by(self._verb, staged, self._to, self._start)
        with TableOperation(backend, base, name, SIDE_PROCESS) as operation:
            operation.add(staged)

    def abort(self, messages: list[Any]) -> None:
        """Remove the files that tasks of a failed job have written.

        Spark also calls this, with the messages of all tasks, after `commit` has raised an error.
        Nothing is done then: a commit that is known to have failed has removed its files itself,
        and the files of a commit that was applied, or may have been, must stay.
        """
        if any(message is None for message in messages):
            Attempts(self._context, settle=lambda: LINGER).remove_all()
