"""Route `spark.read`, `spark.table` and `spark.readStream` of a prepared session: Frazil reads its
own tables, Spark everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from frazil.dropin.beside_spark import BesideSpark
from frazil.dropin.names import found, in_full, is_ours, whose
from frazil.dropin.spark_errors import known_to_spark
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.find_table import is_location
from frazil.ops.session import Session
from frazil.spark.engine import read_target, stream_read


class ReaderBesideSpark(BesideSpark):
    """Load `format("iceberg")` by Frazil, and everything else by Spark's own reader."""

    def __init__(self, own: Any, spark: Session):
        super().__init__(own)
        self._spark = spark
        self._schema: Any = None

    def schema(self, schema: StructType | str) -> Self:
        """Set a schema, which only other formats take."""
        self._schema, self.own = schema, self.own.schema(schema)
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
            return self.own.load(path, format, schema, **options)
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
        return self._ours(every if path is None else {**every, "path": path})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def _ours(self, options: dict[str, Any]) -> Any:
        """Read one of Frazil's tables."""
        raise NotImplementedError


class IcebergReader(ReaderBesideSpark):
    """Act as PySpark's DataFrameReader."""

    @known_to_spark()
    def table(self, tableName: str) -> Any:
        """Read a table by name, with the options given."""
        tableName = in_full(self._spark, tableName)
        if self._options and is_ours(self._spark, tableName):
            return self._ours({**self._options, "path": tableName})
        return read_table(self.own.table, self._spark, tableName)

    def _ours(self, options: dict[str, Any]) -> Any:
        return _load(self._spark, options)


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


class IcebergStreamReader(ReaderBesideSpark):
    """Act as PySpark's DataStreamReader."""

    def __init__(self, own: Any, spark: Session):
        super().__init__(own, spark)
        self._name = ""

    def name(self, source_name: str) -> Self:
        """Name the source (PySpark 4.3)."""
        self._name, self.own = source_name, self.own.name(source_name)
        return self

    def table(self, tableName: str) -> Any:
        """Read a table by name as a stream."""
        tableName = in_full(self._spark, tableName)
        if is_ours(self._spark, tableName):
            return self._ours({**self._options, "path": tableName})
        return self.own.table(tableName)

    def changes(self, tableName: str) -> Any:
        """Pass `readStream.changes` of PySpark 4.3 on to Spark. Raises Unsupported for Iceberg
        tables, whose changes have other columns.
        """
        tableName = in_full(self._spark, tableName)
        if is_ours(self._spark, tableName):
            hint = f'readStream.format("iceberg").load("{tableName}.changes") gives rows with _change_type.'
            raise Unsupported(f"readStream.changes({tableName!r}) is not supported.", hint=hint)
        return self.own.changes(tableName)

    def _ours(self, options: dict[str, Any]) -> Any:
        # options may hold secrets, and Spark would show them in plans
        without_options = type(self.own)(self._spark)
        return stream_read.load(
            self._spark,
            options,
            without_options.name(self._name) if self._name else without_options,
            partial(found, self._spark),
        )
