"""Route `spark.readStream` of a prepared session: Frazil reads its own tables as streams, Spark
reads everything else.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from frazil.dropin.names import found, in_full, is_ours
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.session import Session
from frazil.spark.engine import stream_read

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamReader


class IcebergStreamReader:
    """Provide a DataStreamReader that takes `format("iceberg")` and Frazil's tables itself and
    passes on everything else.
    """

    def __init__(self, own: DataStreamReader, spark: Session):
        self._own, self._spark = own, spark
        self._format, self._name = "", ""
        self._options: dict[str, Any] = {}
        self._schema: Any = None

    def format(self, source: str) -> IcebergStreamReader:
        self._format, self._own = source.lower(), self._own.format(source)
        return self

    def option(self, key: str, value: object) -> IcebergStreamReader:
        self._options[key], self._own = value, self._own.option(key, value)
        return self

    def options(self, **options: object) -> IcebergStreamReader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def schema(self, schema: StructType | str) -> IcebergStreamReader:
        self._schema, self._own = schema, self._own.schema(schema)
        return self

    def name(self, source_name: str) -> IcebergStreamReader:
        """Name the source (PySpark 4.3)."""
        self._name, self._own = source_name, self._own.name(source_name)
        return self

    def load(
        self,
        path: str | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: object,
    ) -> Any:
        if (format or self._format).lower() != "iceberg":
            return self._own.load(path, format, schema, **options)
        if schema is not None or self._schema is not None:
            raise InvalidInput(
                "An Iceberg table has its own schema: format('iceberg') takes none.",
                hint="Use select() or cast().",
            )
        every = {**self._options, **options}
        named = every if path is None else {**every, "path": path}
        return self._ours(named)

    def table(self, tableName: str) -> Any:
        tableName = in_full(self._spark, tableName)
        if is_ours(self._spark, tableName):
            return self._ours({**self._options, "path": tableName})
        return self._own.table(tableName)

    def changes(self, tableName: str) -> Any:
        """Pass `readStream.changes` of PySpark 4.3 on to Spark. Raises Unsupported for Iceberg
        tables, whose changes have other columns.
        """
        tableName = in_full(self._spark, tableName)
        if is_ours(self._spark, tableName):
            hint = f'readStream.format("iceberg").load("{tableName}.changes") gives rows with _change_type.'
            raise Unsupported(f"readStream.changes({tableName!r}) is not supported.", hint=hint)
        return self._own.changes(tableName)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def _ours(self, options: dict[str, Any]) -> Any:
        # options may hold secrets, and Spark would show them in plans
        without_options = type(self._own)(self._spark)
        return stream_read.load(
            self._spark,
            options,
            without_options.name(self._name) if self._name else without_options,
            partial(found, self._spark),
        )
