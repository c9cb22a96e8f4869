"""Route `df.writeTo(table)` of a prepared session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame

from frazil.dropin.names import in_full, is_ours, led_to_ours
from frazil.dropin.spark_errors import known_to_spark
from frazil.dropin.tables import (
    condition_of,
    create,
    open_table,
    term_of,
    write_options,
)
from frazil.errors import InvalidInput, NoSuchTableError, Unsupported
from frazil.ops.insert import insertion, with_branch
from frazil.spec.properties import DATA_FORMAT


class IcebergWriterV2:
    """Act as PySpark's DataFrameWriterV2: write Frazil's tables; for any other table the calls are
    repeated on Spark's own writer.
    """

    def __init__(self, frame: DataFrame, table: str, spark_write_to: Callable[..., Any]):
        self._frame, self._spark_write_to = frame, spark_write_to
        self._table = in_full(frame.sparkSession, table)
        self._calls: list[tuple[str, tuple[Any, ...]]] = []
        self._provider: str | None = None
        self._options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._partitions: list[Any] = []

    def using(self, provider: str) -> IcebergWriterV2:
        """Set the provider of a new table: iceberg, or the format of its data files (parquet, orc,
        avro).
        """
        self._provider = provider.lower()
        return self._note("using", provider)

    def option(self, key: str, value: object) -> IcebergWriterV2:
        """Set a write option."""
        self._options[key] = value
        return self._note("option", key, value)

    def options(self, **options: object) -> IcebergWriterV2:
        """Set several write options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> IcebergWriterV2:
        """Set a property of a new table."""
        self._properties[property] = value
        return self._note("tableProperty", property, value)

    def partitionedBy(self, col: Column | str, *cols: Column | str) -> IcebergWriterV2:
        """Partition a new table by columns and transforms (`F.partitioning`)."""
        self._partitions = [col, *cols]
        return self._note("partitionedBy", col, *cols)

    def clusterBy(self, col: str, *cols: str) -> IcebergWriterV2:
        """Cluster a new table, which Iceberg tables do not support; writing one raises Unsupported."""
        return self._note("clusterBy", col, *cols)

    def _note(self, name: str, *arguments: object) -> IcebergWriterV2:
        """Note a call, to be repeated on Spark's own writer."""
        self._calls.append((name, arguments))
        return self

    def _spark_writer(self) -> Any:
        """Return Spark's own writer, on which all calls are repeated."""
        writer = self._spark_write_to(self._table)
        for name, arguments in self._calls:
            writer = getattr(writer, name)(*arguments)
        return writer

    # --- ends

    def create(self) -> None:
        """Create the table with the frame's rows. Raises TableAlreadyExistsError."""
        self._create("create", replace=False)

    def replace(self) -> None:
        """Replace the table's schema, partitioning and rows; its history stays. Raises
        NoSuchTableError.
        """
        self._create("replace", replace=True, must_exist=True)

    def createOrReplace(self) -> None:
        """Create the table, or replace it."""
        self._create("createOrReplace", replace=True)

    def append(self) -> None:
        """Append the frame's rows, columns matched by name."""
        self._write("append")

    def overwritePartitions(self) -> None:
        """Replace the partitions that the frame has rows of."""
        self._write("overwritePartitions", dynamic=True)

    def overwrite(self, condition: Column | str) -> None:
        """Replace the rows for which the condition (a Column, or SQL text) is TRUE."""
        self._write("overwrite", condition)

    @known_to_spark()
    def _create(self, verb: str, **named: Any) -> None:
        """Create or replace the table, in Frazil or by Spark's own writer."""
        spark = self._frame.sparkSession
        if self._provider != "iceberg" and not is_ours(spark, self._table):
            with led_to_ours(
                spark,
                self._table,
                f'df.writeTo({self._table!r}).using("iceberg").{verb}() makes an Iceberg table.',
            ):
                getattr(self._spark_writer(), verb)()
            return
        if self._provider in ("parquet", "orc", "avro"):  # as in Java: the format of the data files
            self._properties.setdefault(DATA_FORMAT.name, self._provider)
        elif self._provider not in (None, "iceberg"):
            raise Unsupported(
                f"using({self._provider!r}): tables of Frazil's catalogs are Iceberg tables.",
                table=self._table,
            )
        if any(name == "clusterBy" for name, _ in self._calls):
            raise Unsupported(
                "clusterBy is not for Iceberg tables.",
                hint="Partition by bucket(n, column), or set a sort order.",
            )
        partitions = [term_of(c) for c in self._partitions]
        create(
            self._table,
            self._frame,
            self._options,
            partition_by=partitions,
            properties=self._properties,
            **named,
        )

    def _check_existing(self, name: str) -> None:
        """Refuse what applies to new tables only, which Spark's own writer would ignore."""
        for arguments, call in (
            (self._properties, "tableProperty"),
            (self._partitions, "partitionedBy"),
        ):
            if arguments:
                shown = ", ".join(map(str, arguments))
                raise InvalidInput(
                    f"{call}({shown}) is for a new table: {name} is there already.",
                    hint="Leave it out.",
                    table=name,
                )
        if self._provider not in (None, "iceberg"):
            raise InvalidInput(
                f"using({self._provider!r}) is for a new table: {name} is there already.",
                hint="Leave it out.",
                table=name,
            )
        if any(called == "clusterBy" for called, _ in self._calls):
            raise Unsupported(
                "clusterBy is not for Iceberg tables.",
                hint="Partition by bucket(n, column), or set a sort order.",
            )

    @known_to_spark()
    def _write(self, verb: str, *condition: Column | str, dynamic: bool = False) -> None:
        """Write to an existing table, in Frazil or by Spark's own writer."""
        spark = self._frame.sparkSession
        name = self._table
        if not is_ours(spark, name):
            with led_to_ours(
                spark,
                name,
                f'df.writeTo({name!r}).using("iceberg").create() makes an Iceberg table.',
            ):
                getattr(self._spark_writer(), verb)(*condition)
            return
        try:
            table, branch = open_table(name, self._options, spark)
        except NoSuchTableError as e:
            raise NoSuchTableError(e.message, hint="create() makes a new table.", table=name) from e
        self._check_existing(name)
        where = condition_of(spark, table, condition[0]) if condition else None
        options = write_options(with_branch(self._options, branch, table.metadata))
        table._run_write(insertion(self._frame, where, dynamic=dynamic, options=options))
