"""`spark.read` and `spark.table` of a prepared session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.dropin.names import is_ours
from frazil.errors import InvalidInput
from frazil.spark.door import iceberg_read


class IcebergReader:
    """A DataFrameReader that takes `format("iceberg")` and Frazil's tables itself and passes on everything else."""

    def __init__(self, spark: Any, own: Any):
        self._spark, self._own = spark, own
        self._format = ""
        self._given: dict[str, Any] = {}
        self._schema: Any = None

    def format(self, source: str) -> IcebergReader:
        self._format, self._own = source.lower(), self._own.format(source)
        return self

    def option(self, key: str, value: Any) -> IcebergReader:
        self._given[key], self._own = value, self._own.option(key, value)
        return self

    def options(self, **options: Any) -> IcebergReader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def schema(self, schema: Any) -> IcebergReader:
        self._schema, self._own = schema, self._own.schema(schema)
        return self

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        if (format or self._format).lower() != "iceberg":
            return self._own.load(path, format, schema, **options)
        if schema is not None or self._schema is not None:
            raise InvalidInput("An Iceberg table has its own schema: format('iceberg') takes none.", hint="Use select() or cast().")
        if isinstance(path, list | tuple):
            raise InvalidInput("format('iceberg') reads one table at a time; load() got a list.")
        given = {**self._given, **options}
        return iceberg_read.load(self._spark, given if path is None else {**given, "path": path})

    def table(self, tableName: str) -> Any:
        if is_ours(self._spark, tableName):
            return iceberg_read.load(self._spark, {**self._given, "path": tableName})
        return self._own.table(tableName)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def read_table(own: Callable[..., Any], spark: Any, tableName: str) -> Any:
    """`spark.table(name)`."""
    return iceberg_read.load(spark, {"path": tableName}) if is_ours(spark, tableName) else own(tableName)
