"""The Python data source behind `format("iceberg")` in sessions on which `frazil.install` was not called.

PySpark runs it in processes of its own, which see options, environment and yaml files, but no session settings, and it can neither prune
columns nor push filters there; so rows are right and whole columns are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import TaskContext, cloudpickle
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arrow.changelog.read_changelog import ChangeOptions, ChangeRead
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.write.conform import conform
from frazil.arrow.write.write_context import WriteContext, check_formats
from frazil.arrow.write.write_options import WriteOptions, meaningless, write_options
from frazil.arrow.write.write_rows import write
from frazil.catalog import CatalogBackend, load_backend
from frazil.catalog.names import identifier_parts
from frazil.catalog.path import load_location
from frazil.commit.actions import Action, Append, OverwriteFiles, ReplacePartitions
from frazil.commit.transaction import commit
from frazil.commit.written import WrittenFor
from frazil.errors import InvalidInput, NotFound, Unsupported
from frazil.expr.nodes import AlwaysTrue
from frazil.scan.changelog import changelog_schema
from frazil.scan.combine import combine_for
from frazil.scan.inspect import metadata_table, metadata_table_schema
from frazil.spark.door.target import ReadTarget, locate, read_request
from frazil.spark.read.changelog_frame import partition_rows, partitions_of
from frazil.spark.tasks.stragglers import LINGER, tried_again
from frazil.spark.types.arrow_types import arrow_schema, for_spark
from frazil.spark.types.fitted import fitted
from frazil.spark.types.spark_types import contains, to_spark
from frazil.spec import types as i
from frazil.spec.data_file import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import WAP_ENABLED
from frazil.spec.snapshot import MAIN_BRANCH
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
    """`spark.read.format("iceberg")`, `df.write.format("iceberg")`."""

    @classmethod
    def name(cls) -> str:
        return "iceberg"

    def schema(self) -> s.StructType:
        _log.warning(_HINT)
        return schema_of(self._target())

    def _target(self) -> ReadTarget:
        return _located(self.options)

    def reader(self, schema: s.StructType) -> DataSourceReader:
        return SourceReader(self._target(), schema)

    def writer(self, schema: s.StructType, overwrite: bool) -> DataSourceArrowWriter:
        return SourceWriter(dict(self.options), schema, overwrite)

    def streamReader(self, schema: s.StructType) -> Any:
        raise Unsupported('readStream.format("iceberg") is not supported yet.')

    def simpleStreamReader(self, schema: s.StructType) -> Any:
        raise Unsupported('readStream.format("iceberg") is not supported yet.')

    def streamWriter(self, schema: s.StructType, overwrite: bool) -> Any:
        raise Unsupported('writeStream.format("iceberg") is not supported yet.')


def _located(options: Mapping[str, Any]) -> ReadTarget:
    """The table. No session can be asked here: a name that only the session knows is not found, and the error says what to do."""
    request = read_request(options)
    try:
        return locate(request, {})
    except NotFound as e:
        if "/" in request.path or request.catalog:
            raise
        raise type(e)(e.message, hint=_UNKNOWN, **e.facts) from None


def schema_of(target: ReadTarget) -> s.StructType:
    if target.metadata_table is not None and not target.is_changelog:
        return from_arrow_schema(metadata_table_schema(target.metadata_table, target.loaded.metadata), prefer_timestamp_ntz=True)
    schema = changelog_schema(target.loaded.metadata.schema()) if target.is_changelog else target.snapshot_and_schema()[1]
    if bad := [f.name for f in schema.fields if any(contains(c.field_type, i.VariantType) for c in i.children(f.field_type))]:
        raise Unsupported(f"Columns {', '.join(bad)} hold variants inside, which the Python data source cannot hand over.", hint=_INSTALL)
    return to_spark(schema, time=True)  # whether the session has it cannot be asked here; Spark itself says so where it does not


@dataclass
class TaskGroup(InputPartition):
    """Tasks of one partition, pickled; None: a metadata table."""

    tasks: bytes | None

    def __init__(self, tasks: bytes | None):
        self.tasks = tasks


class SourceReader(DataSourceReader):
    """Rows as Arrow batches. Planned once, in the driver's side process."""

    def __init__(self, target: ReadTarget, schema: s.StructType):
        self._schema, self._groups = schema, []
        self._arrow = arrow_schema(schema)
        self._target = target if target.metadata_table is not None and not target.is_changelog else None
        self._changes: ChangeRead | None = None
        if target.is_changelog:
            planned = target.plan_changes()
            self._changes = ChangeRead.of(planned, changelog_schema(planned.schema), target.loaded.storage, ChangeOptions())
            self._groups = [TaskGroup(cloudpickle.dumps(tasks)) for tasks in partitions_of(planned)] or [TaskGroup(cloudpickle.dumps([]))]
            return
        if target.metadata_table is not None:
            self._groups = [TaskGroup(None)]
            return
        found = target.plan()
        if to_spark(found.schema, time=True) != schema:
            raise InvalidInput(
                f"The columns of {target.name} are not those that were asked for.", hint="It may have changed meanwhile; load it again."
            )
        self._context = ReadContext.of(found, found.schema, target.loaded.storage)
        packed = combine_for(found.tasks(), found.options.split, 8)
        self._groups = [TaskGroup(cloudpickle.dumps(c.tasks)) for c in packed] or [TaskGroup(cloudpickle.dumps(()))]

    def partitions(self) -> Sequence[InputPartition]:
        return self._groups

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskGroup)
        if partition.tasks is None:
            yield from self._metadata_rows()
            return
        if self._changes is not None:
            for batch in partition_rows(cloudpickle.loads(partition.tasks), self._changes):
                yield fitted(batch, self._arrow)
            return
        for task in cloudpickle.loads(partition.tasks):
            for batch in read_task(task, self._context):
                yield fitted(batch, self._arrow)

    def _metadata_rows(self) -> Iterator[pa.RecordBatch]:
        target = self._target
        assert target is not None and target.metadata_table is not None
        snapshot = target.snapshot_and_schema()[0] if target.selectors else None
        table = metadata_table(
            target.metadata_table, target.loaded.metadata, target.loaded.storage, metadata_location=target.loaded.metadata_location,
            snapshot_id=snapshot.snapshot_id if snapshot else None,
        )  # fmt: skip
        for batch in for_spark(table).to_batches():
            yield fitted(batch, self._arrow)


def _asked(options: Mapping[str, str], overwrite: bool) -> WriteOptions:
    """The options of a write. Raises Unsupported for those that need more than this data source can do."""
    found = write_options(options, "overwrite" if overwrite else "append")
    for name, idle in (("merge_schema", False), ("distribution_mode", "none"), ("advisory_partition_size", None)):
        if getattr(found, name) not in (idle, None):
            raise Unsupported(f"Write option {name.replace('_', '-')!r} needs frazil.install(spark) before the write.")
    if overwrite and found.overwrite_mode != "dynamic":
        for name in ("delete_format", "target_delete_file_size_bytes", "delete_granularity"):
            if found.asks_for(name):
                raise meaningless(name, "where every row is replaced: no delete files are written")
    return found


def _start(metadata: TableMetadata, options: WriteOptions) -> int | None:
    """The snapshot from which conflicts count: the one named, else the branch's head as this write found it."""
    if options.validate_from_snapshot_id is not None:
        return metadata.snapshot_by_id(options.validate_from_snapshot_id).snapshot_id
    head = metadata.ref_snapshot(options.branch) if options.branch in metadata.refs else metadata.current_snapshot()
    return head.snapshot_id if head else None


@dataclass
class Written(WriterCommitMessage):
    """Of one task. `again`: Spark has tried the task before, or may run a copy of it."""

    files: list[DataFile]
    again: bool = False


class SourceWriter(DataSourceArrowWriter):
    """Rows to data files in tasks, one commit on the driver's side. Files of tries that did not count are removed."""

    def __init__(self, options: dict[str, str], schema: s.StructType, overwrite: bool):
        catalog = {k[8:]: v for k, v in options.items() if k.lower().startswith("catalog.")}
        path = options.get("path", "")
        own = {k: v for k, v in options.items() if k.lower() != "path" and not k.lower().startswith("catalog.")}
        self._options = _asked(own, overwrite)
        self._place, self._catalog, self._overwrite = path, catalog, overwrite
        _, loaded = self._load()
        self._base = loaded
        if self._options.wap_id and not WAP_ENABLED.of(loaded.metadata.properties):
            raise InvalidInput("wap-id is given, but the table property write.wap.enabled is not true.", table=loaded.metadata.location)
        check_formats(loaded.metadata, self._options, "overwrite" if overwrite else "append")
        self._start = _start(loaded.metadata, self._options)
        self._context = WriteContext.of(loaded.metadata, loaded.storage, self._options)
        assert self._context.settings is not None
        conform(arrow_schema(schema).empty_table(), self._context.schema, self._options, case_sensitive=False)

    def _load(self) -> tuple[CatalogBackend | None, Any]:
        if "/" in self._place:
            return load_location(self._place, self._catalog)
        target = _located({"path": self._place, **{f"catalog.{k}": v for k, v in self._catalog.items()}})
        parts = identifier_parts(self._place)
        name = parts[0] if parts[1:] == tuple(target.loaded.identifier) else None
        properties: dict[str, Any] = dict(self._catalog)
        return load_backend(name, **properties), target.loaded

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        first = next(iterator, None)
        if first is None:
            return Written([], tried_again())
        task = TaskContext.get()
        number, attempt = (task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)
        context = replace(self._context, partition_id=number, task_id=attempt, workers=1)

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        frame = conform(pa.RecordBatchReader.from_batches(first.schema, batches()), context.schema, self._options, case_sensitive=False)
        return Written(write(frame, context), tried_again())

    def commit(self, messages: list[Any]) -> None:
        files = tuple(f for m in messages if m is not None for f in m.files)
        backend, base = self._load()
        if backend is None:
            raise InvalidInput(f"{self._place} is one state of a table; it cannot be written to.", table=self._place)
        Attempts(self._context, repeated=any(m.again for m in messages if m is not None)).keep(f.file_path for f in files)
        written_for = WrittenFor(self._base.metadata, self._base.metadata.last_column_id, files)
        engine = {"engine-name": "spark", "engine-version": pyspark.__version__}
        commit(backend, base, [written_for, self._action(files)], written=[f.file_path for f in files], environment=engine)

    def _action(self, files: tuple[DataFile, ...]) -> Action:
        options = self._options
        to: dict[str, Any] = {
            "branch": options.branch or MAIN_BRANCH, "snapshot_properties": dict(options.snapshot_properties), "wap_id": options.wap_id,
        }  # fmt: skip
        if not self._overwrite:
            return Append(files=files, **to)
        to["starting_snapshot_id"] = self._start
        if options.overwrite_mode == "dynamic":
            return ReplacePartitions(files=files, isolation=options.isolation_level, **to)
        return OverwriteFiles(added=files, row_filter=AlwaysTrue(), isolation=options.isolation_level, **to)

    def abort(self, messages: list[Any]) -> None:
        Attempts(self._context, settle=lambda: LINGER).remove_all()
