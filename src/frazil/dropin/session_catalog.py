"""Route `spark.catalog` of a prepared session: Spark's own catalog asks Frazil's; what it does not
know of is answered here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from frazil.dropin.catalogs import register
from frazil.dropin.default_catalog import serve_default
from frazil.dropin.names import found, in_full, is_ours, is_there, whose
from frazil.dropin.tables import open_table
from frazil.ops.find_table import is_location
from frazil.ops.session import Session
from frazil.table.engines import refresh_views

if TYPE_CHECKING:
    from pyspark.sql.catalog import Catalog


class IcebergCatalog:
    """Act as PySpark's Catalog. Tables of the default catalog exist by their names without it;
    `refreshTable` shows temporary views what others have written."""

    def __init__(self, spark_catalog: Catalog, spark: Session):
        self.spark_catalog, self._spark = spark_catalog, spark
        register(spark)

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        """Return whether a table or view exists in the catalog that the name begins with, or in the current
        one, or in the default catalog.
        """
        name = f"{dbName}.{tableName}" if dbName else tableName
        place = whose(self._spark, name)
        if is_location(name) or (place is not None and not place.is_served):
            there = is_there(partial(found, self._spark, name))
            return there or (place is not None and place.is_view())
        arguments = (tableName, dbName) if place is None else (name,)
        return bool(self.spark_catalog.tableExists(*arguments))

    def refreshTable(self, tableName: str) -> None:
        """Let temporary views over the table, cached ones included, show what others have written.
        Newly opened tables show it anyway.
        """
        tableName = in_full(self._spark, tableName)
        if is_ours(self._spark, tableName):
            refresh_views(open_table(tableName, {}, self._spark)[0]._loaded)
        else:
            self.spark_catalog.refreshTable(tableName)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.spark_catalog, name)
        if not callable(attribute):
            return attribute

        def served(*arguments: object, **named: object) -> Any:
            serve_default(
                self._spark,
                " in ".join(
                    ["", *(a for a in (*arguments, *named.values()) if isinstance(a, str))]
                ),
            )
            return attribute(*arguments, **named)

        return served
