"""Route `spark.catalog` of a prepared session: answer for tables in Frazil's catalogs, pass everything else to Spark's catalog."""

from __future__ import annotations

from typing import Any

from frazil.catalog.names import identifier_parts
from frazil.dropin.names import catalog_of, exists, is_catalog, is_ours
from frazil.dropin.tables import open_table
from frazil.errors import InvalidInput, Unsupported
from frazil.table.engines import refresh_views

_BY_TABLE = ("getTable", "listColumns", "cacheTable", "uncacheTable", "isCached", "recoverPartitions", "createTable", "dropTable",
             "truncateTable", "analyzeTable", "listPartitions", "getTableProperties", "getCreateTableString")  # fmt: skip
_BY_CATALOG = ("setCurrentCatalog", "setCurrentDatabase", "listTables", "listDatabases", "getDatabase", "databaseExists")


class IcebergCatalog:
    """Act as PySpark's Catalog: answer `tableExists` and `refreshTable` for Frazil's tables, refuse by name what else is asked of them."""

    def __init__(self, spark_catalog: Any, spark: Any):
        self.spark_catalog, self._spark = spark_catalog, spark

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        """Return whether a table exists in Frazil's catalog that the name begins with, or else in Spark's."""
        name = f"{dbName}.{tableName}" if dbName else tableName
        return exists(self._spark, name) if catalog_of(self._spark, name) else self.spark_catalog.tableExists(tableName, dbName)

    def refreshTable(self, tableName: str) -> None:
        """Let temporary views over the table, cached ones included, show what others have written. Newly opened tables show it anyway."""
        if is_ours(self._spark, tableName):
            refresh_views(open_table(tableName, {}, self._spark)._loaded)
        else:
            self.spark_catalog.refreshTable(tableName)

    def _is_ours(self, name: str, names_a_table: bool) -> bool:
        """Return whether an argument names a table (else: a catalog or namespace) of Frazil's."""
        if names_a_table:
            return catalog_of(self._spark, name) is not None
        try:
            first, *rest = identifier_parts(name)
        except InvalidInput:
            return False
        return is_catalog(self._spark, first, bool(rest))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.spark_catalog, name)
        if name not in (*_BY_TABLE, *_BY_CATALOG):
            return attribute

        def checked(*arguments: Any, **named: Any) -> Any:
            for argument in (*arguments, *named.values()):
                if isinstance(argument, str) and self._is_ours(argument, name in _BY_TABLE):
                    raise Unsupported(
                        f"spark.catalog.{name}({argument!r}) is not supported yet for Frazil's catalogs.",
                        hint="frazil.load_catalog returns the catalog, which has methods for this.",
                    )
            return attribute(*arguments, **named)

        return checked
