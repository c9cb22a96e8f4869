"""Describe a streaming read completely, so that it can be sent to a query's processes: table,
options and the schema at the start.
"""

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
    """Hold what the processes of a query need. `schema`: the table's at the start of the query;
    `columns`: those of the rows that it reads; `parallelism`: the number of tasks that run at the
    same time, over which files are distributed."""

    table: StreamTable
    options: StreamOptions
    schema: Schema = field(repr=False)
    columns: Schema = field(repr=False)
    parallelism: int = 8

    @classmethod
    def of(
        cls, table: StreamTable, loaded: LoadedTable, options: StreamOptions, parallelism: int = 8
    ) -> StreamSpec:
        """Describe the read of a table in its present state. Raises InvalidInput for columns,
        filters and branches that do not fit the table, and Unsupported for columns that the Python
        data source cannot return."""
        schema = loaded.metadata.schema()
        order_of(options, schema)
        head_of(loaded.metadata, options.branch)
        state = TableState(loaded.metadata, loaded.storage, schema, options)
        state.check_filter()
        columns = state.projection()
        if refused := [
            f.name
            for f in columns.fields
            if any(contains(c.field_type, VariantType) for c in children(f.field_type))
        ]:
            text = f"Columns {', '.join(refused)} hold variants inside other types, which the Python data source cannot return."
            raise Unsupported(text, hint="Select other columns.")
        return cls(table, options, schema, columns, parallelism)

    def spark_schema(self, time: bool = True) -> s.StructType:
        """Return the Spark schema of the rows. `time`: whether the session has Spark's TIME type
        switched on.
        """
        return to_spark(self.columns, time=time)
