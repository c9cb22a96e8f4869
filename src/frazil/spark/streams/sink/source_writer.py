"""Write a stream through the Python data source, in sessions on which `frazil.install` was not
called: rows as Arrow, one commit per batch.

PySpark makes a new writer for the tasks of a batch, for its commit and for its abort, each in a
process of its own. So the tasks' commit messages carry what the commit needs: the query, the batch,
the id in the names of files, and the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from frazil.arrow.write.write_context import WriteContext
from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.done_once import Txn, already_done
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.engine import Engine
from frazil.spark.streams.checkpoints import digest_in
from frazil.spark.tasks.spark_runner import LINGER
from frazil.spark.tasks.this_task import task_property, task_was_retried
from frazil.spec.manifest import DataFile
from frazil.stream.sink.batch import StreamSink
from frazil.stream.sink.options import SinkOptions, named_mode, sink_options
from frazil.tasks.attempts import Attempts

_INSTALL = (
    "frazil.install(spark) before the stream is defined; t.write_stream(frame, …) does it too."
)
_OF_SPARK = ("checkpointlocation", "queryname")
_WHERE = ("path",)


class BatchSource(Protocol):
    """Provide the parts of the data source's batch writer (`engine.datasource.SourceWriter`) that a
    stream uses too.
    """

    @property
    def table(self) -> tuple[CatalogBackend, LoadedTable, str]: ...

    @property
    def context(self) -> WriteContext: ...

    @property
    def branch(self) -> str: ...

    @property
    def engine(self) -> Engine: ...

    def files_of(
        self, iterator: Iterator[pa.RecordBatch], context: WriteContext
    ) -> list[DataFile]: ...


def place_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that say where the table is."""
    return {
        k: v for k, v in options.items() if k.lower() in _WHERE or k.lower().startswith("catalog.")
    }


def stream_options(
    options: Mapping[str, str], overwrite: bool, of_table: Callable[[], str]
) -> tuple[SinkOptions, dict[str, str]]:
    """Split options into those of the sink and those of the batch writer, which include where the
    table is. `overwrite`: the query has output mode complete. `of_table`: returns the write mode
    that the table's properties say, for a query that names none.

    Raises Unsupported for options that need a prepared session, and InvalidInput for a write mode
    that contradicts the output mode.
    """
    place = place_options(options)
    writer_options = {
        k: v for k, v in options.items() if k not in place and k.lower() not in _OF_SPARK
    }
    named = {k.lower().replace("_", "-") for k in writer_options}
    sink = sink_options(
        writer_options,
        mode=None
        if named_mode(writer_options) is not None
        else "complete"
        if overwrite
        else of_table(),
    )
    if overwrite != (sink.mode == "complete"):
        raise InvalidInput(
            f"write-mode={sink.mode} and Spark's output mode contradict each other.",
            hint="Output mode complete goes with write-mode=complete.",
        )
    if "max-continuous-empty-commits" in named:
        text = "Option 'max-continuous-empty-commits' needs a prepared session: without one, each batch has a process of its own."
        raise Unsupported(text, hint=_INSTALL)
    if sink.tasks is not None:
        text = "Option 'write-parallelism' needs a prepared session: without one, Spark's tasks write the rows that they have."
        raise Unsupported(text, hint=f"{_INSTALL} Or frame.repartition(n).")
    own = {k: str(v) for k, v in sink.write.items()}
    if sink.mode == "overwrite":
        own = {k: v for k, v in own.items() if k.lower().replace("_", "-") != "overwrite-mode"} | {
            "overwrite-mode": "dynamic"
        }
    return sink, {**place, **own}


def checkpoint_in(options: Mapping[str, str]) -> str | None:
    """Return the checkpoint's folder, where it is an option of the stream: Spark does not pass the
    session's setting on to a sink.
    """
    return next((v for k, v in options.items() if k.lower() == _OF_SPARK[0]), None)


def batch_of_task() -> tuple[str, int]:
    """Return the query's id and the batch's number of this task. Raises InvalidInput if Spark does
    not give them.
    """
    query, batch = task_property("sql.streaming.queryId"), task_property("streaming.sql.batchId")
    if not query or batch is None:
        raise InvalidInput(
            "Spark does not give the id of the streaming query, without which a batch cannot be committed exactly once."
        )
    return query, int(batch)


@dataclass
class StreamWritten(WriterCommitMessage):
    """Report what one task has written. `operation_id`: part of the names of all files that this
    attempt of the batch writes; `retried`: the task was tried more than once
    (`this_task.task_was_retried`)."""

    query_id: str
    batch_id: int
    operation_id: str
    schema_id: int
    files: list[DataFile] = field(default_factory=list)
    retried: bool = False


class StreamSourceWriter(DataSourceStreamArrowWriter):
    """Write rows to data files in tasks, then commit the files that tasks report in one commit,
    exactly once for each query and batch.
    """

    def __init__(self, source: BatchSource, options: SinkOptions, checkpoint: str | None = None):
        self._source, self._options, self._checkpoint = source, options, checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query, batch = batch_of_task()
        context = self._source.context
        context = replace(context, operation_id=f"{query}-{batch}-{context.operation_id}")
        files = self._source.files_of(iterator, context)
        return StreamWritten(
            query, batch, context.operation_id, context.schema.schema_id, files, task_was_retried()
        )

    def commit(self, messages: list[Any], batchId: int) -> None:
        written = [m for m in messages if isinstance(m, StreamWritten)]
        if not written:
            return
        files = [f for m in written for f in m.files]
        for operation_id in {m.operation_id for m in written}:
            Attempts(
                self._operation(operation_id), retried=any(m.retried for m in written)
            ).remove_unreported(f.file_path for f in files)
        backend, loaded, name = self._source.table
        sink = StreamSink(
            backend, loaded, name, written[0].query_id, self._options, case_sensitive=False
        )
        sink.commit_files(
            batchId,
            files,
            written[0].schema_id,
            self._source.engine,
            digest_in(self._checkpoint, batchId),
        )

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Remove the files of a batch whose tasks failed.

        Spark also calls this, with the messages of all tasks, after `commit` has raised an error.
        Nothing is done then: a commit that has certainly failed has removed its files itself, and
        the files of a commit that was applied, or may have been, must stay.
        """
        written = [m for m in messages if isinstance(m, StreamWritten)]
        if not written or len(written) == len(messages):
            return
        with contextlib.suppress(Exception):  # if the table cannot be loaded, every file stays
            loaded = self._source.table[1]
            if (
                already_done(
                    loaded.metadata, Txn(written[0].query_id, batchId), self._source.branch
                )
                is None
            ):
                for operation_id in {m.operation_id for m in written}:
                    Attempts(self._operation(operation_id), settle=lambda: LINGER).remove_all()

    def _operation(self, operation_id: str) -> WriteContext:
        """Return the write context of one attempt of a batch, by whose id its files are found."""
        return replace(self._source.context, operation_id=operation_id)
