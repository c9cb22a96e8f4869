"""Start streaming writes into a table: each micro-batch is a DataFrame, written like any other by
Spark's own Parquet writer.

A batch is committed exactly once by the query's id and the batch's number. Spark gives both, and
gives the same ones when it sends a batch again after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import Action
from frazil.commit.done_once import mark_name
from frazil.errors import InvalidInput, NoSuchMethod, Unsupported
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.stream_upkeep.stream_tasks import upkeep
from frazil.maintain.stream_upkeep.triggers import (
    PREFIX,
    TASKS,
    TaskOptions,
    UpkeepOptions,
    upkeep_options,
)
from frazil.maintain.stream_upkeep.upkeep import Upkeep
from frazil.ops.engine import Engine
from frazil.ops.insert import with_branch
from frazil.ops.operation import writable
from frazil.ops.session import Session
from frazil.spark.host.jvm import is_classic
from frazil.spark.host.jvm_plans import (
    QueryOfClient,
    has_watermark,
    query_of_client,
    running_query,
    sends_changes,
)
from frazil.spark.host.settings import is_case_sensitive, temporarily
from frazil.spark.streams.checkpoints import digest_of_batch
from frazil.spark.streams.sink.batch_rows import FrameRows
from frazil.spark.streams.sink.partition_commits import (
    announce_without_batches,
    batch_watermark,
    require_end,
    require_watermark,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.stream.hooks import BatchHook, MicroBatch, checked_hooks
from frazil.stream.partitions.commit_hook import PartitionCommit, partition_commit_of
from frazil.stream.sink.arguments import SinkArguments
from frazil.stream.sink.batch import StreamSink, checked_options
from frazil.stream.sink.options import LOOKUP, SinkOptions, key_ids, mode_of_table, named_mode
from frazil.stream.sink.reduce import reduction

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter

_CHECKPOINT = ("checkpointlocation", "checkpoint_location", "checkpoint-location")
_SPARKS_CHECKPOINT, _OF_SESSION = "checkpointLocation", "spark.sql.streaming.checkpointLocation"
# options by which a stream calls code that it names
_NAMES_CODE = re.compile(r".*(policy[._-]class|time[-_]extractor[._-]class).*")
_QUERY = "sql.streaming.queryId"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_UNBOUNDED = "Unbounded data stream doesn't support overwrite operation."


@dataclass(frozen=True)
class SinkTable:
    """Name the table that a stream is written to. `engine_of`: returns the engine of a session.
    `shown`: called with each new state of the table."""

    backend: CatalogBackend | None
    loaded: LoadedTable
    name: str
    engine_of: Callable[[Any], Engine]
    shown: Callable[[LoadedTable], object] = lambda _: None


def start(
    writer: DataStreamWriter, frame: DataFrame, table: SinkTable, given: SinkArguments
) -> Any:
    """Start the query. `writer`: Spark's DataStreamWriter, with its trigger, name and checkpoint.
    Everything that can be checked is checked first."""
    check_frame(frame, table.name)
    output, batches, partition_commit = batches_of(frame.sparkSession, frame.columns, table, given)
    if partition_commit is None:
        require_checkpoint(frame.sparkSession, given.options, f"A stream into table {table.name}")
        return writer.outputMode(output).foreachBatch(batches).start()
    announced = _announced(
        partition_commit,
        batches,
        table,
        QueryOfClient(frame.sparkSession, has_watermark(frame), given.ends),
    )
    require_checkpoint(frame.sparkSession, given.options, f"A stream into table {table.name}")
    batches.reload()
    query = writer.outputMode(output).foreachBatch(batches).start()
    announced(query)
    return query


def _announced(
    partition_commit: PartitionCommit,
    batches: BatchWriter,
    table: SinkTable,
    stream: QueryOfClient,
) -> Callable[[StreamingQuery], None]:
    """Check partition commit before anything is written, and return what commits the partitions of
    a query that has no batches."""
    target = batches.sink.where_to(table.engine_of(stream.session))
    no_batch = MicroBatch(
        "", -1, table.name, batches.sink.backend, target.branch, wap_id=target.wap_id
    )
    partition_commit.check(table.loaded.metadata, no_batch)
    require_watermark(stream.has_watermark, partition_commit.options)
    require_end(partition_commit.options, stream.ends)

    def announced(query: StreamingQuery) -> None:
        announce = partial(
            _commit_partitions,
            partition_commit,
            replace(no_batch, query_id=query.id),
            table.loaded,
            batches,
        )
        last = stream.ends and partition_commit.options.end_input
        announce_without_batches(stream.session, query, announce, last)

    return announced


def batches_of(
    spark: Session, columns: Sequence[str], table: SinkTable, given: SinkArguments
) -> tuple[str, BatchWriter, PartitionCommit | None]:
    """Return Spark's output mode of a stream, what writes its batches, and its partition commit, if
    any. `columns`: of the rows. Raises what is wrong with the arguments."""
    backend = writable(table.backend, table.name)
    output, mode = modes(
        given.output_mode,
        given.mode,
        given.options,
        partial(mode_of_table, given.options, table.loaded.metadata),
    )
    maintained, options_of_stream = upkeep_options(without_sparks(given.options))
    partition_commit, others = partition_commit_of(options_of_stream, given.policies)
    sensitive = is_case_sensitive(spark, given.case_sensitive)
    options = checked_options(others, table.loaded, mode=mode, case_sensitive=sensitive)
    if options.keyed:  # the frame must have the columns that the options name
        schema = table.loaded.metadata.schema()
        reduction(options, schema, key_ids(options, schema, sensitive), columns, sensitive)
    maintained = with_usual_rewrite(maintained, given.options, options, table.loaded.metadata)
    if given.on_commit is not None and not callable(given.on_commit):
        raise InvalidInput(
            f"on_commit is a function that takes the batch's number and its CommitResult, not {given.on_commit!r}."
        )
    hooks: tuple[BatchHook, ...] = (
        *checked_hooks(given.hooks),
        *(() if partition_commit is None else (partition_commit,)),
    )
    if maintained is not None:
        # maintenance comes last, so that partition commit does not wait for it
        engine_of_owner = partial(table.engine_of, spark)
        hooks = (
            *hooks,
            UpkeepHook(upkeep(maintained, table.loaded.metadata), engine_of_owner, table.shown),
        )
    sink = StreamSink(
        backend,
        table.loaded,
        table.name,
        "",
        options,
        dict(given.snapshot_properties),
        hooks,
        given.on_commit,
        table.shown,
        given.case_sensitive,
    )
    batches = BatchWriter(sink, table.engine_of, spark)
    return output, batches, partition_commit


def batches_of_client(
    spark: Session,
    table: SinkTable,
    options: Mapping[str, str],
    branch: str | None,
    output: str | None,
) -> Callable[[DataFrame, int], None]:
    """Return what writes the batches of a stream that the JVM starts, as a client of a server asks.
    `output`: Spark's output mode, None: append or update, as the running query says. What is wrong
    with it and the options is raised with the first batch, which tells the rows' columns. Raises
    InvalidInput without a checkpoint, Unsupported for options that name code of this process."""
    for name in filter(_NAMES_CODE.fullmatch, map(str.lower, options)):
        text = f"Option {name!r} names code of the serving process, which clients do not choose."
        raise Unsupported(text, hint="Use a policy that has a name, such as success-file.")
    of_branch = with_branch(options, branch, table.loaded.metadata)
    require_checkpoint(spark, of_branch, f"A stream into table {table.name}")
    writers: dict[str, BatchWriter] = {}  # that of the run

    def write(frame: DataFrame, batch_id: int) -> None:
        query = running_query(spark, query_id_of(frame.sparkSession))
        run = "" if query is None else str(query.runId)
        if run not in writers:
            changes = output is None and query is not None and sends_changes(query)
            mode = output or ("update" if changes else "append")
            arguments = SinkArguments(options=of_branch, output_mode=mode)
            _, writer, partition_commit = batches_of(spark, frame.columns, table, arguments)
            if partition_commit is not None and query is not None:
                stream = query_of_client(spark, query)
                _announced(partition_commit, writer, table, stream)(query)
            writers.clear()
            writers[run] = writer
        writers[run](frame, batch_id)

    return write


def _commit_partitions(
    partition_commit: PartitionCommit,
    batch: MicroBatch,
    table: LoadedTable,
    batches: BatchWriter,
    last: bool,
) -> None:
    """Commit the due partitions of a query that has no batch now, by the watermark of its last
    batch. `last`: the input has ended.
    """
    if batches.watermark_ms is None and partition_commit.options.needs_watermark and not last:
        return  # the branch's watermark may be that of another query, which is ahead
    newest = batch.backend.load(table.identifier or (table.metadata.location,))
    mark = mark_name(batch.query_id, batch.branch)
    if last and newest.metadata.properties.get(mark) != batches.newest.properties.get(mark):
        # the query's next run has begun to write, and partitions are complete when its input has
        # ended
        return
    partition_commit.committed(replace(batch, watermark_ms=batches.watermark_ms, last=last), newest)


def require_checkpoint(spark: Session, options: Mapping[str, Any], what: str) -> None:
    """Raise InvalidInput if the query has no checkpoint folder. Spark would make a temporary one
    for a foreachBatch: each start would be a new query, which writes all rows again."""
    is_given = any(
        k.lower() == _SPARKS_CHECKPOINT.lower() and v is not None for k, v in options.items()
    )
    if not is_given and not spark.conf.get(_OF_SESSION, None):
        hint = 'Write .option("checkpointLocation", "…") before start(): without it a restart writes all rows again.'
        raise InvalidInput(f"{what} needs a checkpoint location.", hint=hint)


def check_frame(frame: DataFrame, name: str) -> None:
    """Raise Unsupported for frames of Spark Connect, InvalidInput for frames that do not stream."""
    if not is_classic(frame):
        raise Unsupported(
            f"A stream into table {name} cannot be written through Spark Connect: each batch would run on the server, without this "
            "table's catalog.",
            hint="Use a classic session, frazil.spark_session().",
        )
    if not frame.isStreaming:
        raise InvalidInput(
            "write_stream takes a streaming DataFrame.",
            hint="t.append(frame) and t.upsert(frame) take this one.",
        )


def modes(
    output: str | None, mode: str | None, options: Mapping[str, Any], of_table: Callable[[], str]
) -> tuple[str, str]:
    """Choose Spark's output mode and the write mode. Where one is not given it follows from the
    other; where neither is, the table's properties give the write mode (`of_table`). Raises
    InvalidInput if the two contradict each other."""
    write = str(mode).lower() if mode is not None else named_mode(options)
    output = output.lower() if output is not None else None
    if write is None:
        write = "complete" if output == "complete" else of_table()
        if output == "update" and write == "append":
            raise InvalidInput(
                "Output mode update sends changed rows, which an append would double.",
                hint="Use write-mode=upsert, with key-columns.",
            )
    if (write == "complete") != (output == "complete") and output is not None:
        hint = "write-mode=complete goes with .outputMode('complete'), which replaces all rows with each batch."
        text_of_spark = f"{_UNBOUNDED} " if write == "complete" else ""
        raise InvalidInput(
            f"{text_of_spark}Output mode {output} and write-mode={write} contradict each other.",
            hint=hint,
        )
    if output == "update" and write in ("append", "overwrite"):
        hint = "Output mode update sends the rows that changed: use write-mode=upsert, with key-columns."
        raise InvalidInput(
            f"Output mode update and write-mode={write} contradict each other.", hint=hint
        )
    return output or ("complete" if write == "complete" else "append"), write


def without_sparks(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the sink: all but Spark's own and those that say where the table is."""
    return {
        k: v
        for k, v in options.items()
        if k.lower() not in (*_CHECKPOINT, "path", "queryname", "query_name")
        and not k.lower().startswith("catalog.")
    }


def ends(trigger: Mapping[str, Any]) -> bool:
    """Tell whether a query with this trigger ends when its input is read."""
    return bool(trigger.get("availableNow") or trigger.get("once"))


class BatchWriter:
    """Write the micro-batches of a query, as the function for foreachBatch. If Spark does not know
    that a batch was done, it sends it again under the same number.

    `owner`: the session in which the query was defined. `watermark_ms`: that of the last batch in
    this run, if there is a hook; None before the first batch.
    """

    def __init__(self, sink: StreamSink, engine_of: Callable[[Any], Engine], owner: Session):
        self.sink, self._engine_of, self._owner = sink, engine_of, owner
        self.watermark_ms: int | None = None

    @property
    def newest(self) -> TableMetadata:
        """Return the state of the table after the last batch in this run; before the first one,
        that which was loaded last.
        """
        return self.sink.table.metadata

    def reload(self) -> None:
        """Load the newest state of the table."""
        self.sink.reload()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        session: Any = frame.sparkSession
        query_id = query_id_of(session)
        if self.sink.query_id != query_id:
            self.sink = replace(self.sink, query_id=query_id)
        watermark = batch_watermark(self._owner, query_id) if self.sink.hooks else None
        with adaptive(session, self._owner):
            result = self.sink.commit(
                batch_id,
                FrameRows(frame, self._engine_of(session), self.sink.table.metadata),
                watermark_ms=watermark,
                digest=digest_of_batch(self._owner, query_id, batch_id),
            )
            self.watermark_ms = watermark
            # the table has these rows already, but Spark advances watermark and state only over
            # rows that it has read
            if result.skipped:
                frame.write.format("noop").mode("append").save()


def query_id_of(session: Session) -> str:
    """Return the id of the query whose batch runs in this thread. Raises InvalidInput if Spark does
    not give it.
    """
    query_id = session.sparkContext.getLocalProperty(_QUERY)
    if not query_id:
        raise InvalidInput(
            "Spark does not give the id of the streaming query, without which a batch cannot be committed exactly once."
        )
    return str(query_id)


def adaptive(session: Session, owner: Session) -> AbstractContextManager[None]:
    """Set adaptive execution inside the block as in the session in which the query was defined
    (`owner`).

    Spark turns adaptive execution off in a streaming query's own session, for the plan of the
    stream. The write of a batch is an ordinary query, and adaptive execution keeps it from writing
    one file per task and partition.
    """
    return temporarily(session, {_ADAPTIVE: str(owner.conf.get(_ADAPTIVE, "true"))}, shared=False)


class TableStreamWriter:
    """Provide the DataStreamWriter that `write_stream` returns. `begin`: starts the query, given
    Spark's own writer, the frame and the caller's arguments."""

    def __init__(
        self,
        frame: DataFrame,
        name: str,
        given: SinkArguments,
        begin: Callable[[Any, DataFrame, SinkArguments], Any],
    ):
        check_frame(frame, name)
        self._frame, self._given, self._begin = frame, given, begin
        own = frame.writeStream
        # in a prepared session this is Frazil's writer, which has Spark's in `own`
        self._own: Any = getattr(own, "own", own)
        for key, value in given.options.items():
            if key.lower() in _CHECKPOINT and value is not None:
                self.option(_SPARKS_CHECKPOINT, str(value))

    def option(self, key: str, value: object) -> Self:
        """Set an option of the sink, or Spark's checkpointLocation."""
        if key.lower() in _CHECKPOINT:
            key = _SPARKS_CHECKPOINT
            self._own = self._own.option(key, value)
        self._given = replace(self._given, options={**self._given.options, key: value})
        return self

    def options(self, **options: object) -> Self:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> Self:
        self._given = replace(self._given, output_mode=outputMode)
        return self

    def trigger(self, **trigger: object) -> Self:
        self._own = self._own.trigger(**trigger)
        self._given = replace(self._given, ends=ends(trigger))
        return self

    def queryName(self, queryName: str) -> Self:
        self._own = self._own.queryName(queryName)
        return self

    def start(self, **options: object) -> Any:
        """Start the query and return its StreamingQuery."""
        if options:
            self.options(**options)
        return self._begin(self._own, self._frame, self._given)

    def __getattr__(self, name: str) -> Any:
        hint = "Its methods are option, options, outputMode, trigger, queryName and start."
        raise NoSuchMethod(f"The writer of a stream into a table has no method {name}.", hint=hint)


# Run maintenance of the table that a streaming query writes to, after the commits of its batches:
# the options `maintenance.…`.

_COMMITS = 10
_SMALL = 16 << 20
_MOST_FILES = 1000


def with_usual_rewrite(
    maintained: UpkeepOptions | None,
    given: Mapping[str, Any],
    options: SinkOptions,
    metadata: TableMetadata,
) -> UpkeepOptions | None:
    """Add the compaction of small files to a stream of upserts that looks up its keys, unless the
    caller's options `maintenance.rewrite.…` say something about compaction.

    Each batch adds a file, and the next batches and all reads open every one of them. Files of 16
    MB and more are left alone unless a third of their rows is deleted, so that a batch's rows are
    rewritten a bounded number of times, however large the table is. The batches wait meanwhile, so
    that one run takes a limited number of files; the rest follows with the next ones.
    """
    is_named = any(
        k.lower().replace("_", "-").startswith(f"{PREFIX}rewrite.") and v is not None
        for k, v in given.items()
    )
    if is_named or not options.keyed or options.strategy != LOOKUP:
        return maintained
    small = min(_SMALL, TARGET_FILE_SIZE.of(metadata.properties) * 3 // 4)
    usual = TaskOptions(
        "rewrite",
        {"commits": _COMMITS},
        {"min-file-size-bytes": str(small), "max-files-to-rewrite": str(_MOST_FILES)},
    )
    if maintained is None:
        return UpkeepOptions((usual,))
    return replace(
        maintained,
        tasks=tuple(sorted((*maintained.tasks, usual), key=lambda t: TASKS.index(t.task))),
    )


@dataclass
class UpkeepHook:
    """Run due maintenance after each batch. `engine`: returns the engine of the session in which
    the query was defined. `shown`: called with each new state of the table."""

    upkeep: Upkeep
    engine: Callable[[], Engine]
    shown: Callable[[LoadedTable], Any]

    def actions(self, batch: MicroBatch, table: LoadedTable) -> Sequence[Action]:
        return ()

    def committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        """Run due maintenance, except after a batch that is only staged (write-audit-publish),
        since it has not changed the branch.
        """
        if batch.wap_id is not None:
            return
        engine = self.engine()
        runner = engine.runner(table.metadata, table.storage)
        self.upkeep.after_commit(
            MaintainedTable(batch.backend, table, batch.name, engine, runner, self.shown),
            batch.branch,
        )
