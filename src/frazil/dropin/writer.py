"""Route `df.write` of a prepared session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from frazil.dropin.names import in_full, is_ours, led_to_ours
from frazil.dropin.spark_errors import known_to_spark
from frazil.dropin.tables import create, is_dynamic, open_table, write_options
from frazil.errors import (
    InvalidInput,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.ops.insert import Insert, by_position, with_branch
from frazil.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter

_ERROR_MODES = ("error", "errorifexists", "default")
_LAYOUTS = ("bucketBy", "sortBy", "clusterBy")


class IcebergWriter:
    """Act as PySpark's DataFrameWriter: write `format("iceberg")` and Frazil's tables, pass
    everything else to Spark's writer.
    """

    def __init__(self, frame: DataFrame, spark_writer: DataFrameWriter):
        self._frame, self._spark_writer = frame, spark_writer
        self._format, self._mode = "", "error"
        self._options: dict[str, Any] = {}
        self._partitions: list[str] = []
        self._layout: str | None = None

    def format(self, source: str) -> IcebergWriter:
        """Set the format, on Spark's writer as well."""
        self._format, self._spark_writer = source.lower(), self._spark_writer.format(source)
        return self

    def mode(self, saveMode: str | None) -> IcebergWriter:
        """Set the save mode: append, overwrite, ignore or error (the default). Raises InvalidInput
        for others.
        """
        self._spark_writer = self._spark_writer.mode(saveMode)
        if saveMode is not None:
            if saveMode.lower() not in ("append", "overwrite", "ignore", *_ERROR_MODES):
                raise InvalidInput(
                    f"Unknown save mode {saveMode!r}.",
                    hint="Modes are append, overwrite, ignore and error.",
                )
            self._mode = saveMode.lower()
        return self

    def option(self, key: str, value: object) -> IcebergWriter:
        """Set a write option, on Spark's writer as well."""
        self._options[key], self._spark_writer = value, self._spark_writer.option(key, value)
        return self

    def options(self, **options: object) -> IcebergWriter:
        """Set several write options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> IcebergWriter:
        """Partition a new table by the values of columns."""
        self._partitions = list(
            cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        )
        self._spark_writer = self._spark_writer.partitionBy(*cols)
        return self

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._spark_writer, name)
        if name not in _LAYOUTS:
            return attribute

        def laid_out(*arguments: object, **named: object) -> IcebergWriter:
            self._spark_writer, self._layout = attribute(*arguments, **named), name
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
        self._set_arguments(format, mode, partitionBy, options)
        if self._format != "iceberg":
            self._spark_writer.save(path)
            return
        name = path or self._options.get("path")
        if not name:
            raise InvalidInput(
                'format("iceberg") needs a table: save("db.events") or save("/path/to/events").'
            )
        self._write(in_full(self._frame.sparkSession, str(name)), replaces=False)

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
        self._set_arguments(format, mode, partitionBy, options)
        name = in_full(self._frame.sparkSession, name)
        if self._format != "iceberg" and not (
            not self._format and is_ours(self._frame.sparkSession, name)
        ):
            with led_to_ours(
                self._frame.sparkSession,
                name,
                f'df.write.format("iceberg").saveAsTable({name!r}) makes an Iceberg table.',
            ):
                self._spark_writer.saveAsTable(name)
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
                self._spark_writer.insertInto(tableName, overwrite)
            return
        table, options = self._open(tableName)
        rows = by_position(self._frame, table.schema(), tableName)
        replaces = overwrite if overwrite is not None else self._mode == "overwrite"
        dynamic = is_dynamic(self._frame.sparkSession, options, table)
        Insert(
            "true" if replaces else None,
            dynamic=replaces and dynamic,
            options=write_options(options),
        ).into(table, rows)

    def _set_arguments(
        self,
        format: str | None,
        mode: str | None,
        partition_by: str | list[str] | None,
        options: dict[str, Any],
    ) -> None:
        """Set the arguments of `save` and `saveAsTable` as the methods of the same names would."""
        if format is not None:
            self.format(format)
        if mode is not None:
            self.mode(mode)
        if partition_by is not None:
            self.partitionBy([partition_by] if isinstance(partition_by, str) else partition_by)
        self.options(**options)

    def _open(self, name: str) -> tuple[Any, dict[str, Any]]:
        """Open a table, and return it with the options and the branch of its name."""
        table, branch = open_table(name, self._options, self._frame.sparkSession)
        return table, with_branch(self._options, branch, table.metadata)

    def _check_partitions(self, name: str, table: Table) -> None:
        """Refuse, as Spark does, a partitionBy that is not the table's partitioning."""
        spec = [str(f.name) for f in table.spec().fields if str(f.transform) == "identity"]
        if self._partitions and list(self._partitions) != spec:
            raise InvalidInput(
                f"partitionBy({', '.join(self._partitions)}) is not the partitioning of {name}, which is {table.spec()}.",
                hint="Leave partitionBy out: rows are partitioned as the table is.",
                table=name,
            )

    def _write(self, name: str, replaces: bool) -> None:
        """Write by the save mode. `replaces`: mode `overwrite` replaces the table (saveAsTable)
        rather than its rows (save).
        """
        if self._layout:
            raise Unsupported(
                f"{self._layout} is not for Iceberg tables.",
                hint="Partition by bucket(n, column), or set a sort order.",
            )
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
            replaces_rows = self._mode == "overwrite"
            Insert(
                "true" if replaces_rows else None,
                dynamic=replaces_rows and is_dynamic(self._frame.sparkSession, options),
                options=write_options(options),
            ).into(table, self._frame)
