"""Replace `df.writeStream` of a prepared session: streams into Frazil's tables take the fast path,
all others are Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from frazil.dropin.names import in_full, is_ours, led_to_ours
from frazil.dropin.tables import create_empty, open_table
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.ops.find_table import has_suffix
from frazil.ops.insert import with_branch
from frazil.spark.engine.entry_points import sink_table
from frazil.spark.host.jvm import is_classic
from frazil.spark.streams.sink.writer import ends, start
from frazil.stream.sink.arguments import SinkArguments
from frazil.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter

_OWN_SINKS = ("foreach", "foreachBatch")  # methods that give a stream a sink of the caller's


class IcebergStreamWriter:
    """Provide a DataStreamWriter that takes `format("iceberg")` and Frazil's tables itself, and
    passes everything else on.
    """

    def __init__(self, own: DataStreamWriter, frame: DataFrame):
        self.own, self._frame = own, frame
        self._format = ""
        self._output: str | None = None
        self._partitions: list[str] = []
        self._clustered = False
        self._ends = False
        self._options: dict[str, Any] = {}

    def format(self, source: str) -> IcebergStreamWriter:
        self._format, self.own = source.lower(), self.own.format(source)
        return self

    def outputMode(self, outputMode: str) -> IcebergStreamWriter:
        self._output, self.own = outputMode, self.own.outputMode(outputMode)
        return self

    def trigger(self, **trigger: object) -> IcebergStreamWriter:
        self._ends, self.own = ends(trigger), self.own.trigger(**trigger)
        return self

    def option(self, key: str, value: object) -> IcebergStreamWriter:
        self._options[key], self.own = value, self.own.option(key, value)
        return self

    def options(self, **options: object) -> IcebergStreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> IcebergStreamWriter:
        self._partitions = list(
            cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        )
        # Spark's writer learns it where the stream is Spark's: its foreachBatch refuses partitions
        return self

    def clusterBy(self, *cols: str | list[str]) -> IcebergStreamWriter:
        self._clustered, self.own = True, self.own.clusterBy(*cols)
        return self

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.own, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: object, **named: object) -> Any:
            answer = attribute(*arguments, **named)
            if not isinstance(answer, type(self.own)):
                return answer
            self.own = answer
            if name in _OWN_SINKS:
                self._format = name
            return self

        return call

    # --- ends

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> Any:
        self._set_arguments(format, outputMode, partitionBy, queryName, options)
        if self._format != "iceberg":
            return self._of_spark().start(path)
        name = path or self._options.get("path")
        if not name:
            raise InvalidInput(
                'format("iceberg") needs a table: start("db.events") or start("/path/to/events").'
            )
        return self._start(in_full(self._frame.sparkSession, str(name)))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> Any:
        self._set_arguments(format, outputMode, partitionBy, queryName, options)
        spark = self._frame.sparkSession
        tableName = in_full(spark, tableName)
        if self._format != "iceberg" and not (not self._format and is_ours(spark, tableName)):
            with led_to_ours(
                spark,
                tableName,
                f'writeStream.format("iceberg").toTable({tableName!r}) writes into an Iceberg table.',
            ):
                return self._of_spark().toTable(tableName)
        return self._start(tableName, creates=True)

    def _of_spark(self) -> Any:
        return self.own.partitionBy(*self._partitions) if self._partitions else self.own

    def _set_arguments(
        self,
        format: str | None,
        output: str | None,
        partition_by: str | list[str] | None,
        query: str | None,
        options: dict[str, Any],
    ) -> None:
        """Set the arguments of `start` and `toTable` as the methods of the same names would."""
        if format is not None:
            self.format(format)
        if output is not None:
            self.outputMode(output)
        if partition_by is not None:
            self.partitionBy([partition_by] if isinstance(partition_by, str) else partition_by)
        if query is not None:
            self.own = self.own.queryName(query)
        self.options(**options)

    def _start(self, name: str, creates: bool = False) -> Any:
        """Start a stream into a table. `creates`: a table that does not exist yet is created with
        the frame's columns, as Spark's toTable does."""
        spark = self._frame.sparkSession
        if not is_classic(self._frame):
            raise Unsupported(
                "A stream into an Iceberg table cannot be written through Spark Connect.",
                hint="Use a classic session.",
            )
        try:
            table, branch = open_table(name, self._options, spark)
        except NoSuchTableError as e:
            if not creates or has_suffix(name):
                e.advise("Make it first, or toTable(…) makes it.")
                raise
            create_empty(name, self._frame.schema, self._options, spark, self._partitions)
            table, branch = open_table(name, self._options, spark)
        self._check_layout(name, table)
        options = with_branch(self._options, branch, table.metadata)
        target = sink_table(table._backend, table._loaded, name)
        return start(
            self.own,
            self._frame,
            target,
            SinkArguments(options=options, output_mode=self._output, ends=self._ends),
        )

    def _check_layout(self, name: str, table: Table) -> None:
        """Refuse a partitioning that is not the table's, as `df.write` does, so that it is not
        ignored.
        """
        if self._clustered:
            raise Unsupported(
                "clusterBy is not for Iceberg tables.",
                hint="Partition by bucket(n, column), or set a sort order.",
            )
        own = [str(f.name) for f in table.spec().fields if str(f.transform) == "identity"]
        if self._partitions and self._partitions != own:
            text = f"partitionBy({', '.join(self._partitions)}) is not the partitioning of {name}, which is {table.spec()}."
            raise InvalidInput(text, hint="Leave it out; the table knows its own.", table=name)
