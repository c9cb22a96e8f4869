"""Start streaming writes into a table: each micro-batch is a DataFrame that the engine writes as any other, by Spark's own Parquet writer.

The query's id and the batch's number come from Spark itself; both are the same when a batch is sent again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from pyspark.sql import DataFrame

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.errors import InvalidInput, NoSuchMethod, Unsupported
from frazil.maintain.stream_tasks import upkeep
from frazil.maintain.triggers import upkeep_options
from frazil.ops.engine import Engine
from frazil.ops.operation import writable
from frazil.spark.host.jvm import is_classic
from frazil.spark.streams.batch_rows import FrameRows
from frazil.spark.streams.partition_commits import announce_without_batches, batch_watermark, require_watermark
from frazil.spark.streams.upkeep import UpkeepHook
from frazil.stream.hooks import BatchHook, MicroBatch
from frazil.stream.partitions.commit_hook import PartitionCommit, partition_commit_of
from frazil.stream.sink.batch import OnCommit, StreamSink, checked_options
from frazil.stream.sink.options import mode_of_table, named_mode

_CHECKPOINT = ("checkpointlocation", "checkpoint_location", "checkpoint-location")
_QUERY = "sql.streaming.queryId"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_UNBOUNDED = "Unbounded data stream doesn't support overwrite operation."


@dataclass(frozen=True)
class SinkTable:
    """The table that a stream goes to. `engine_of`: the engine of a session. `shown`: told of each new state."""

    backend: CatalogBackend | None
    loaded: LoadedTable
    name: str
    engine_of: Callable[[Any], Engine]
    shown: Callable[[LoadedTable], object] = lambda _: None


@dataclass(frozen=True)
class SinkArguments:
    """Hold what a caller typed: the write mode, options of all kinds, and what only Python can say.

    `policies`: functions of partition commit, run where `sink.partition-commit.policy.kind` lists `custom`. `ends`: the trigger ends the
    query when its input is read (availableNow, once).
    """

    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    output_mode: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    on_commit: OnCommit | None = None
    hooks: Sequence[BatchHook] = ()
    policies: Sequence[Callable[[Any], object]] = ()
    ends: bool = False
    case_sensitive: bool | None = None


def start(writer: Any, frame: DataFrame, table: SinkTable, given: SinkArguments) -> Any:
    """Start the query. `writer`: Spark's DataStreamWriter, with its trigger, name and checkpoint. Everything that can be checked is
    checked first."""
    check_frame(frame, table.name)
    backend = writable(table.backend, table.name)
    output, mode = modes(given.output_mode, given.mode, given.options, partial(mode_of_table, given.options, table.loaded.metadata))
    maintained, options_of_stream = upkeep_options(_without_sparks(given.options))
    partition_commit, others = partition_commit_of(options_of_stream, given.policies)
    options = checked_options(others, table.loaded, mode=mode)
    if given.on_commit is not None and not callable(given.on_commit):
        raise InvalidInput(f"on_commit is a function of the batch's number and its CommitResult, not {given.on_commit!r}.")
    hooks: tuple[BatchHook, ...] = (*given.hooks, *(() if partition_commit is None else (partition_commit,)))
    if maintained is not None:  # last, so that what announces partitions does not wait for it
        engine_of_owner = partial(table.engine_of, frame.sparkSession)
        hooks = (*hooks, UpkeepHook(upkeep(maintained, table.loaded.metadata), engine_of_owner, table.shown))
    sink = StreamSink(
        backend, table.loaded, table.name, "", options, dict(given.snapshot_properties), hooks, given.on_commit, table.shown,
        given.case_sensitive,
    )  # fmt: skip
    batches = BatchWriter(sink, table.engine_of, frame.sparkSession)
    if partition_commit is None:
        return writer.outputMode(output).foreachBatch(batches).start()
    to = sink.where_to(table.engine_of(frame.sparkSession))
    micro = MicroBatch("", -1, table.name, backend, to.branch, wap_id=to.wap_id)
    partition_commit.check(table.loaded.metadata, micro)
    require_watermark(frame, partition_commit.options)
    require_end(given, partition_commit)
    query = writer.outputMode(output).foreachBatch(batches).start()
    announce = partial(_announce, partition_commit, replace(micro, query_id=query.id), table.loaded, batches)
    announce_without_batches(frame.sparkSession, query, announce, given.ends and partition_commit.options.end_input)
    return query


def require_end(given: SinkArguments, partition_commit: PartitionCommit) -> None:
    """Raise InvalidInput where the end of input is waited for by a trigger that never ends."""
    if partition_commit.options.end_input and not given.ends:
        name = "sink.partition-commit.end-input"
        raise InvalidInput(f"{name}=true has no effect: the query's trigger never ends.", hint="trigger(availableNow=True).", option=name)


def _announce(partition_commit: PartitionCommit, batch: MicroBatch, table: LoadedTable, batches: BatchWriter, last: bool) -> None:
    """Announce the due partitions of a query that has no batch now, by the query's own watermark: that of its last batch."""
    if batches.watermark_ms is None and partition_commit.options.needs_watermark and not last:
        return  # the branch's watermark may be that of another query, which is ahead
    newest = batch.backend.load(table.identifier or (table.metadata.location,))
    partition_commit.committed(replace(batch, watermark_ms=batches.watermark_ms, last=last), newest)


def check_frame(frame: DataFrame, name: str) -> None:
    """Raise Unsupported for frames of Spark Connect, InvalidInput for frames that do not stream."""
    if not is_classic(frame):
        raise Unsupported(
            f"A stream into table {name} cannot be written through Spark Connect: each batch would run on the server, without this "
            "table's catalog.", hint="Use a classic session, frazil.spark_session().",
        )  # fmt: skip
    if not frame.isStreaming:
        raise InvalidInput("write_stream takes a streaming DataFrame.", hint="t.append(frame) and t.upsert(frame) take this one.")


def modes(output: str | None, mode: str | None, options: Mapping[str, Any], of_table: Callable[[], str]) -> tuple[str, str]:
    """Spark's output mode and the write mode, each of which may be left to the other, and the write mode to the table (`of_table`). Raises
    InvalidInput where they contradict."""
    write = str(mode).lower() if mode is not None else named_mode(options)
    output = output.lower() if output is not None else None
    if write is None:
        write = "complete" if output == "complete" else of_table()
        if output == "update" and write == "append":
            raise InvalidInput(
                "Output mode update sends changed rows, which an append would double.", hint="write-mode=upsert, with key-columns."
            )
    if (write == "complete") != (output == "complete") and output is not None:
        hint = "write-mode=complete goes with .outputMode('complete'), which replaces all rows with each batch."
        told = f"{_UNBOUNDED} " if write == "complete" else ""
        raise InvalidInput(f"{told}Output mode {output} and write-mode={write} contradict each other.", hint=hint)
    if output == "update" and write == "append":
        raise InvalidInput("Output mode update and write-mode=append contradict each other.", hint="write-mode=upsert, with key-columns.")
    return output or ("complete" if write == "complete" else "append"), write


def _without_sparks(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the sink: without Spark's own, and those that say where the table is."""
    return {
        k: v
        for k, v in options.items()
        if k.lower() not in (*_CHECKPOINT, "path", "queryname", "query_name") and not k.lower().startswith("catalog.")
    }


def ends(trigger: Mapping[str, Any]) -> bool:
    """Tell whether a query with this trigger ends when its input is read."""
    return bool(trigger.get("availableNow") or trigger.get("once"))


class BatchWriter:
    """The function of foreachBatch. Spark calls it again with the same number for a batch that it does not know to be done.

    `watermark_ms`: that of the query's last batch in this run, if a hook asks for it; None: it has had none.
    """

    def __init__(self, sink: StreamSink, engine_of: Callable[[Any], Engine], owner: Any):
        self._sink, self._engine_of, self._owner = sink, engine_of, owner
        self.watermark_ms: int | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        session: Any = frame.sparkSession
        query_id = session.sparkContext.getLocalProperty(_QUERY)
        if not query_id:
            raise InvalidInput("Spark tells no id of the streaming query, without which a batch cannot be committed exactly once.")
        if self._sink.query_id != query_id:
            self._sink = replace(self._sink, query_id=query_id)
        watermark = batch_watermark(self._owner, query_id) if self._sink.hooks else None
        with _adaptive(session, self._owner):
            result = self._sink.commit(
                batch_id, FrameRows(frame, self._engine_of(session), self._sink.table.metadata), watermark_ms=watermark
            )
            self.watermark_ms = watermark
            if result.skipped:  # its rows are there already, but Spark learns watermark and state only from rows that it has seen
                frame.write.format("noop").mode("append").save()


@contextmanager
def _adaptive(session: Any, owner: Any) -> Iterator[None]:
    """A stream's session has adaptive execution off, for its own plan. A batch's write is an ordinary query, which adaptive execution keeps
    from writing a file for each task and partition; the session belongs to the query alone."""
    before, wanted = session.conf.get(_ADAPTIVE, None), str(owner.conf.get(_ADAPTIVE, "true"))
    session.conf.set(_ADAPTIVE, wanted)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_ADAPTIVE)
        else:
            session.conf.set(_ADAPTIVE, before)


class TableStreamWriter:
    """What `t.write_stream` returns: a DataStreamWriter whose `start()` writes into the table."""

    def __init__(self, frame: DataFrame, table: SinkTable, given: SinkArguments):
        check_frame(frame, table.name)
        self._frame, self._table, self._given = frame, table, given
        own = frame.writeStream
        self._own: Any = getattr(own, "own", own)  # of a prepared session, whose writers would look at the format
        for key, value in given.options.items():
            if key.lower() in _CHECKPOINT and value is not None:
                self._own = self._own.option("checkpointLocation", str(value))

    def option(self, key: str, value: Any) -> Self:
        """An option of Spark's (checkpointLocation) or of the sink."""
        if key.lower() in _CHECKPOINT:
            self._own = self._own.option("checkpointLocation", value)
        self._given = replace(self._given, options={**self._given.options, key: value})
        return self

    def options(self, **options: Any) -> Self:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> Self:
        self._given = replace(self._given, output_mode=outputMode)
        return self

    def trigger(self, **trigger: Any) -> Self:
        self._own = self._own.trigger(**trigger)
        self._given = replace(self._given, ends=ends(trigger))
        return self

    def queryName(self, queryName: str) -> Self:
        self._own = self._own.queryName(queryName)
        return self

    def start(self, **options: Any) -> Any:
        """Start the query: a StreamingQuery."""
        if options:
            self.options(**options)
        return start(self._own, self._frame, self._table, self._given)

    def __getattr__(self, name: str) -> Any:
        told = f"{name} is not for streams into a table."
        raise NoSuchMethod(told, hint="option, options, outputMode, trigger, queryName and start are.")
