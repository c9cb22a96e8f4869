"""Route `df.write` and `df.writeStream` of a prepared session: Frazil writes its own tables, Spark
everything else.
"""

from __future__ import annotations

from typing import Any, Self

from pyspark.sql import DataFrame

from frazil.dropin.beside_spark import BesideSpark
from frazil.dropin.names import in_full, is_ours, led_to_ours
from frazil.dropin.spark_errors import known_to_spark
from frazil.dropin.tables import create, create_empty, is_dynamic, open_table, write_options
from frazil.errors import (
    InvalidInput,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.ops.find_table import has_suffix
from frazil.ops.insert import by_position, insertion, with_branch
from frazil.spark.engine.entry_points import sink_table
from frazil.spark.host.jvm import is_classic
from frazil.spark.streams.sink.writer import ends, start
from frazil.stream.sink.arguments import SinkArguments
from frazil.table.table import Table

_ERROR_MODES = ("error", "errorifexists", "default")
_LAYOUTS = ("bucketBy", "sortBy", "clusterBy")
_OWN_SINKS = ("foreach", "foreachBatch")  # methods that give a stream a sink of the caller's


class WriterBesideSpark(BesideSpark):
    """Hold what a frame is written with. `layout`: the method that asked for a layout of Spark's
    own, which Iceberg tables do not have."""

    def __init__(self, own: Any, frame: DataFrame):
        super().__init__(own)
        self._frame = frame
        self._partitions: list[str] = []
        self._layout: str | None = None

    def partitionBy(self, *cols: Any) -> Self:
        """Partition a new table by the values of columns."""
        self._partitions = list(
            cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        )
        return self

    def _check_layout(self) -> None:
        """Refuse a layout of Spark's own."""
        if self._layout:
            raise Unsupported(
                f"{self._layout} is not for Iceberg tables.",
                hint="Partition by bucket(n, column), or set a sort order.",
            )

    def _check_partitions(self, name: str, table: Table) -> None:
        """Refuse, as Spark does, a partitionBy that is not the table's partitioning."""
        spec = [str(f.name) for f in table.spec().fields if str(f.transform) == "identity"]
        if self._partitions and self._partitions != spec:
            raise InvalidInput(
                f"partitionBy({', '.join(self._partitions)}) is not the partitioning of {name}, which is {table.spec()}.",
                hint="Leave partitionBy out: rows are partitioned as the table is.",
                table=name,
            )

    def _table_of(self, path: str | None, verb: str) -> str:
        """Return the full name of the table that `format("iceberg")` writes to."""
        name = path or self._options.get("path")
        if not name:
            raise InvalidInput(
                f'format("iceberg") needs a table: {verb}("db.events") or {verb}("/path/to/events").'
            )
        return in_full(self._frame.sparkSession, str(name))


class IcebergWriter(WriterBesideSpark):
    """Act as PySpark's DataFrameWriter."""

    _mode = "error"

    def mode(self, saveMode: str | None) -> Self:
        """Set the save mode: append, overwrite, ignore or error (the default). Raises InvalidInput
        for others.
        """
        self.own = self.own.mode(saveMode)
        if saveMode is not None:
            if saveMode.lower() not in ("append", "overwrite", "ignore", *_ERROR_MODES):
                raise InvalidInput(
                    f"Unknown save mode {saveMode!r}.",
                    hint="Modes are append, overwrite, ignore and error.",
                )
            self._mode = saveMode.lower()
        return self

    def partitionBy(self, *cols: Any) -> Self:
        """Partition a new table by the values of columns, on Spark's writer as well."""
        self.own = self.own.partitionBy(*cols)
        return super().partitionBy(*cols)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.own, name)
        if name not in _LAYOUTS:
            return attribute

        def laid_out(*arguments: object, **named: object) -> IcebergWriter:
            self.own, self._layout = attribute(*arguments, **named), name
            return self

        return laid_out

    # --- ends

    @known_to_spark()
    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: object,
    ) -> None:
        """Write to the table of a name or location by `format("iceberg")`: `append` and `overwrite`
        need a table that is there, without a mode a new one is created."""
        self._set(options, format=format, mode=mode, partitionBy=partitionBy)
        if self._format != "iceberg":
            self.own.save(path)
            return
        self._write(self._table_of(path, "save"), replaces=False)

    @known_to_spark()
    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: object,
    ) -> None:
        """Create the table or write to it; mode `overwrite` replaces the table and keeps its
        history.
        """
        self._set(options, format=format, mode=mode, partitionBy=partitionBy)
        name = in_full(self._frame.sparkSession, name)
        if self._format != "iceberg" and not (
            not self._format and is_ours(self._frame.sparkSession, name)
        ):
            with led_to_ours(
                self._frame.sparkSession,
                name,
                f'df.write.format("iceberg").saveAsTable({name!r}) makes an Iceberg table.',
            ):
                self.own.saveAsTable(name)
            return
        self._write(name, replaces=True)

    @known_to_spark()
    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        """Insert by position, as Spark does: the frame's columns become the table's, in order,
        whatever their names.
        """
        tableName = in_full(self._frame.sparkSession, tableName)
        if not is_ours(self._frame.sparkSession, tableName):
            hint = f'df.write.format("iceberg").saveAsTable({tableName!r}) makes an Iceberg table.'
            with led_to_ours(self._frame.sparkSession, tableName, hint):
                self.own.insertInto(tableName, overwrite)
            return
        table, options = self._open(tableName)
        rows = by_position(self._frame, table.schema(), tableName)
        replaces = overwrite if overwrite is not None else self._mode == "overwrite"
        dynamic = is_dynamic(self._frame.sparkSession, options, table)
        where, own = "true" if replaces else None, write_options(options)
        table._run_write(insertion(rows, where, dynamic=replaces and dynamic, options=own))

    def _open(self, name: str) -> tuple[Any, dict[str, Any]]:
        """Open a table, and return it with the options and the branch of its name."""
        table, branch = open_table(name, self._options, self._frame.sparkSession)
        return table, with_branch(self._options, branch, table.metadata)

    def _write(self, name: str, replaces: bool) -> None:
        """Write by the save mode. `replaces`: mode `overwrite` replaces the table (saveAsTable)
        rather than its rows (save).
        """
        self._check_layout()
        if replaces and self._mode == "overwrite":
            create(name, self._frame, self._options, partition_by=self._partitions, replace=True)
            return
        try:
            table, options = self._open(name)
        except NoSuchTableError as e:
            if self._mode in ("append", "overwrite") and not replaces:
                e.advise("save() without a mode creates the table, and so does saveAsTable().")
                raise
            create(name, self._frame, self._options, partition_by=self._partitions)
            return
        if self._mode in _ERROR_MODES:
            raise TableAlreadyExistsError(
                f"Table already exists: {name}",
                hint="df.write…mode('append') adds rows to it.",
                table=name,
            )
        self._check_partitions(name, table)
        if self._mode != "ignore":
            overwrites = self._mode == "overwrite"
            dynamic = overwrites and is_dynamic(self._frame.sparkSession, options)
            where, own = "true" if overwrites else None, write_options(options)
            table._run_write(insertion(self._frame, where, dynamic=dynamic, options=own))


class IcebergStreamWriter(WriterBesideSpark):
    """Act as PySpark's DataStreamWriter. Spark's own learns of `partitionBy` where the stream is
    Spark's: its foreachBatch refuses partitions."""

    _output: str | None = None
    _ends = False

    def outputMode(self, outputMode: str) -> Self:
        self._output, self.own = outputMode, self.own.outputMode(outputMode)
        return self

    def trigger(self, **trigger: object) -> Self:
        self._ends, self.own = ends(trigger), self.own.trigger(**trigger)
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
            elif name in _LAYOUTS:
                self._layout = name
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
        self._set(
            options,
            format=format,
            outputMode=outputMode,
            partitionBy=partitionBy,
            queryName=queryName,
        )
        if self._format != "iceberg":
            return self._of_spark().start(path)
        return self._start(self._table_of(path, "start"))

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: object,
    ) -> Any:
        self._set(
            options,
            format=format,
            outputMode=outputMode,
            partitionBy=partitionBy,
            queryName=queryName,
        )
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
        self._check_layout()
        self._check_partitions(name, table)
        options = with_branch(self._options, branch, table.metadata)
        target = sink_table(table._backend, table._loaded, name)
        return start(
            self.own,
            self._frame,
            target,
            SinkArguments(options=options, output_mode=self._output, ends=self._ends),
        )
