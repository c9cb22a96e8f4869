"""Route `spark.read` and `spark.table` of a prepared session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from frazil.dropin.names import found, in_full, is_ours, whose
from frazil.dropin.spark_errors import known_to_spark
from frazil.errors import InvalidInput
from frazil.ops.find_table import is_location
from frazil.ops.session import Session
from frazil.spark.engine import read_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader


class IcebergReader:
    """Act as PySpark's DataFrameReader: read `format("iceberg")` and Frazil's tables, pass
    everything else to Spark's reader.
    """

    def __init__(self, spark: Session, spark_reader: DataFrameReader):
        self._spark, self._spark_reader = spark, spark_reader
        self._format = ""
        self._options: dict[str, Any] = {}
        self._schema: Any = None

    def format(self, source: str) -> IcebergReader:
        """Set the format, on Spark's reader as well."""
        self._format, self._spark_reader = source.lower(), self._spark_reader.format(source)
        return self

    def option(self, key: str, value: object) -> IcebergReader:
        """Set a read option, on Spark's reader as well."""
        self._options[key], self._spark_reader = value, self._spark_reader.option(key, value)
        return self

    def options(self, **options: object) -> IcebergReader:
        """Set several read options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def schema(self, schema: StructType | str) -> IcebergReader:
        """Set a schema, which only other formats take."""
        self._schema, self._spark_reader = schema, self._spark_reader.schema(schema)
        return self

    @known_to_spark()
    def load(
        self,
        path: str | list[str] | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: object,
    ) -> Any:
        """Load a table by `format("iceberg")`. Raises InvalidInput for a schema and for several
        paths.
        """
        if (format or self._format).lower() != "iceberg":
            return self._spark_reader.load(path, format, schema, **options)
        if schema is not None or self._schema is not None:
            raise InvalidInput(
                "An Iceberg table has its own schema: format('iceberg') takes none.",
                hint="Use select() or cast().",
            )
        if isinstance(path, list | tuple):
            raise InvalidInput(
                "format('iceberg') reads one table at a time; load() got a list.",
                hint="Load each and use union().",
            )
        every = {**self._options, **options}
        named = every if path is None else {**every, "path": path}
        return _load(self._spark, named)

    @known_to_spark()
    def table(self, tableName: str) -> Any:
        """Read a table by name, with the options given."""
        tableName = in_full(self._spark, tableName)
        if self._options and is_ours(self._spark, tableName):
            return _load(self._spark, {**self._options, "path": tableName})
        return read_table(self._spark_reader.table, self._spark, tableName)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark_reader, name)


@known_to_spark()
def read_table(spark_table: Callable[..., Any], spark: Session, tableName: str) -> Any:
    """Return the table that `spark.table(name)` asks for: what Spark's own method returns, which
    asks Frazil's catalogs for theirs; and locations, and tables and views of the default catalog
    that Spark does not know."""
    place = None if is_location(tableName) else whose(spark, tableName)
    if not is_location(tableName) and (place is None or place.is_served):
        return spark_table(tableName)
    if place is not None and place.is_view():
        return spark.sql(f"TABLE {tableName}")  # by which Spark comes to know the catalog
    return _load(spark, {"path": tableName})


def _load(spark: Session, options: Mapping[str, Any]) -> DataFrame:
    return read_target.load(spark, options, partial(found, spark))
