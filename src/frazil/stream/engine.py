"""Define the protocol by which streaming reads and writes are started;
`frazil.spark.engine.entry_points` implements it on Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.ops.engine import Frame
from frazil.ops.session import Session
from frazil.stream.sink.arguments import ManyTables, SinkArguments


class StreamWriter(Protocol):
    """Start a streaming write, by the methods of Spark's DataStreamWriter that make sense for a
    table.
    """

    def option(self, key: str, value: object) -> Self:
        """Set an option of the stream, as `checkpointLocation`, or of the write (docs/streams-
        sink.md)."""

    def options(self, **options: object) -> Self:
        """Set several options."""

    def outputMode(self, outputMode: str) -> Self:
        """Set the output mode: append, update or complete."""

    def trigger(self, **trigger: object) -> Self:
        """Set when batches begin, as `processingTime="1 minute"`, `availableNow=True` or
        `once=True`."""

    def queryName(self, queryName: str) -> Self:
        """Set the name of the query."""

    def start(self, **options: object) -> Any:
        """Start the query, and return its StreamingQuery."""


class StreamEngine(Protocol):
    """Start the streaming reads and writes of a table that is loaded. `backend` None: the table was
    opened from a metadata file.
    """

    def read_stream(
        self,
        session: Session,
        backend: CatalogBackend | None,
        loaded: LoadedTable,
        name: str,
        options: Mapping[str, Any],
    ) -> Frame:
        """Return a streaming DataFrame of the rows that commits bring. `options`: those of
        docs/streams.md, in Java's or Python's spelling."""

    def write_stream(
        self,
        frame: Frame,
        backend: CatalogBackend | None,
        loaded: LoadedTable,
        name: str,
        given: SinkArguments,
    ) -> StreamWriter:
        """Return the writer of a streaming DataFrame into one table. Raises InvalidInput for other
        frames.
        """

    def write_many(self, frame: Frame, tables: ManyTables, given: SinkArguments) -> StreamWriter:
        """Return the writer of a streaming DataFrame whose rows name their table. Raises
        InvalidInput for other frames.
        """
