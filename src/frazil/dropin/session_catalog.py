"""`spark.catalog` of a prepared session: what it says of tables in Frazil's catalogs."""

from __future__ import annotations

from typing import Any

from frazil.catalog.names import identifier_parts
from frazil.dropin.names import catalog_of, exists, is_catalog, is_ours
from frazil.dropin.tables import open_table
from frazil.errors import InvalidInput, Unsupported
from frazil.table.frames import after_commit

_BY_TABLE = ("getTable", "listColumns", "cacheTable", "uncacheTable", "isCached", "recoverPartitions", "createTable", "dropTable",
             "truncateTable", "analyzeTable", "listPartitions", "getTableProperties", "getCreateTableString")  # fmt: skip
_BY_CATALOG = ("setCurrentCatalog", "setCurrentDatabase", "listTables", "listDatabases", "getDatabase", "databaseExists")


class IcebergCatalog:
    """Spark's Catalog, with answers of our own for names that begin with a catalog of Frazil."""

    def __init__(self, own: Any, spark: Any):
        self.own, self._spark = own, spark

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        name = f"{dbName}.{tableName}" if dbName else tableName
        return exists(self._spark, name) if catalog_of(self._spark, name) else self.own.tableExists(tableName, dbName)

    def refreshTable(self, tableName: str) -> None:
        """Temporary views over the table show what others have written, those in the cache too. Whoever opens a table sees it anyway."""
        if is_ours(self._spark, tableName):
            after_commit(open_table(tableName, {}, self._spark)._loaded)
        else:
            self.own.refreshTable(tableName)

    def _is_ours(self, given: str, names_a_table: bool) -> bool:
        """Whether an argument names a table, or a catalog or namespace, of Frazil's."""
        if names_a_table:
            return catalog_of(self._spark, given) is not None
        try:
            first, *rest = identifier_parts(given)
        except InvalidInput:
            return False
        return is_catalog(self._spark, first, bool(rest))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.own, name)
        if name not in (*_BY_TABLE, *_BY_CATALOG):
            return found

        def asked(*arguments: Any, **named: Any) -> Any:
            for given in (*arguments, *named.values()):
                if isinstance(given, str) and self._is_ours(given, name in _BY_TABLE):
                    raise Unsupported(
                        f"spark.catalog.{name}({given!r}) is not supported yet for Frazil's catalogs.",
                        hint="frazil.load_catalog gives the catalog itself.",
                    )
            return found(*arguments, **named)

        return asked
