"""Write changes by key through the Python data source, in sessions on which `frazil.install` was
not called.

Nothing shuffles rows by key there. So each task reduces its rows to the last one per key and writes
them to an Arrow file in a folder beside the table's data; the commit, in a process beside the
driver, reduces the rows of all tasks together and writes them with their deletes, as the verbs
without Spark do. The rows of one batch must fit into the memory of that process.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.ops.engine import Engine
from frazil.spark.dml.staging import open_rows
from frazil.spark.streams.checkpoints import digest_in
from frazil.spark.streams.sink.source_writer import batch_of_task
from frazil.spark.tasks.spark_runner import remove_folder
from frazil.spark.tasks.this_task import this_task
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.storage.locations import data_root
from frazil.stream.sink.batch import StreamSink
from frazil.stream.sink.options import SinkOptions, check_table, key_ids
from frazil.stream.sink.reduce import last_rows, reduction
from frazil.stream.sink.rows import ArrowRows


class SinkPlace(Protocol):
    """Provide the table that a stream is written to (`engine.datasource.SourcePlace`)."""

    @property
    def table(self) -> tuple[CatalogBackend, LoadedTable, str]: ...

    @property
    def engine(self) -> Engine: ...


@dataclass
class KeyedWritten(WriterCommitMessage):
    """Report the rows of one task. `location`: their file in `folder`; None: there were no rows."""

    query_id: str
    part: int
    folder: str
    location: str | None


class KeyedStreamWriter(DataSourceStreamArrowWriter):
    """Collect the changes of a batch in tasks, then write and commit them once for each query and
    batch.
    """

    def __init__(
        self,
        place: SinkPlace,
        options: SinkOptions,
        schema: s.StructType,
        checkpoint: str | None = None,
    ):
        self._place, self._options, self._schema, self._checkpoint = (
            place,
            options,
            arrow_schema(schema),
            checkpoint,
        )
        _, loaded, _ = place.table
        metadata = loaded.metadata
        check_table(options, metadata, case_sensitive=False)
        columns = metadata.schema()
        self._reduction = reduction(
            options,
            columns,
            key_ids(options, columns, case_sensitive=False),
            self._schema.names,
            case_sensitive=False,
        )
        self._storage = loaded.storage
        self._folder = f"{data_root(metadata.location, metadata.properties)}/staging-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query_id, _ = batch_of_task()
        task = this_task()
        rows = pa.Table.from_batches([fitted(b, self._schema) for b in iterator], self._schema)
        if not rows.num_rows:
            return KeyedWritten(query_id, task.partition, self._folder, None)
        location = f"{self._folder}/{task.partition:05d}-{task.attempt}.arrow"
        with (
            self._storage.open_output(location) as sink,
            pa.ipc.new_file(sink, self._schema) as writer,
        ):
            writer.write_table(last_rows(rows, self._reduction), max_chunksize=1 << 17)
        return KeyedWritten(query_id, task.partition, self._folder, location)

    def commit(self, messages: list[Any], batchId: int) -> None:
        written = sorted((m for m in messages if isinstance(m, KeyedWritten)), key=lambda m: m.part)
        if not written:
            return
        backend, loaded, name = self._place.table
        try:
            tables = [
                open_rows(self._storage, m.location) for m in written if m.location is not None
            ]
            rows = pa.concat_tables(tables) if tables else self._schema.empty_table()
            sink = StreamSink(
                backend, loaded, name, written[0].query_id, self._options, case_sensitive=False
            )
            arrow_rows = ArrowRows(rows, case_sensitive=False, engine=self._place.engine)
            sink.commit(batchId, arrow_rows, digest=digest_in(self._checkpoint, batchId))
        finally:  # whatever became of the commit: Spark sends a batch again with new files
            self._remove(written)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Remove the rows of a batch whose tasks or commit failed; they are in no table."""
        self._remove([m for m in messages if isinstance(m, KeyedWritten)])

    def _remove(self, written: list[KeyedWritten]) -> None:
        for folder in {m.folder for m in written}:
            remove_folder(self._storage, folder)
