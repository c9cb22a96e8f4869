"""Describe a streaming read completely: table, options and the schema that the query starts with. It travels to the query's processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import types as s

from frazil.catalog import LoadedTable
from frazil.errors import Unsupported
from frazil.spark.streams.stream_table import StreamTable
from frazil.spark.types.spark_types import contains, to_spark
from frazil.spec.schema import Schema
from frazil.spec.types import VariantType, children
from frazil.stream.source.file_order import order_of
from frazil.stream.source.history import head_of
from frazil.stream.source.options import StreamOptions
from frazil.stream.source.plan_batch import TableState


@dataclass(frozen=True)
class StreamSpec:
    """Hold what the processes of a query must know. `parallelism`: tasks that run at the same time, for which files are packed."""

    table: StreamTable
    options: StreamOptions
    schema: Schema = field(repr=False)
    columns: Schema = field(repr=False)
    parallelism: int = 8

    @classmethod
    def of(cls, table: StreamTable, loaded: LoadedTable, options: StreamOptions, parallelism: int = 8) -> StreamSpec:
        """Describe the read of a table as it is now. Raises InvalidInput for columns, filters and branches that are not there, and
        Unsupported for columns that the Python data source cannot hand over."""
        schema = loaded.metadata.schema()
        order_of(options, schema)
        head_of(loaded.metadata, options.branch)
        state = TableState(loaded.metadata, loaded.storage, schema, options)
        state.check_filter()
        columns = state.projection()
        if bad := [f.name for f in columns.fields if any(contains(c.field_type, VariantType) for c in children(f.field_type))]:
            raise Unsupported(f"Columns {', '.join(bad)} hold variants inside, which the Python data source cannot hand over.")
        return cls(table, options, schema, columns, parallelism)

    def spark_schema(self, time: bool = True) -> s.StructType:
        """Return the schema of the rows. `time`: whether the session has Spark's type for it."""
        return to_spark(self.columns, time=time)
