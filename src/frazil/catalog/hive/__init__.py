"""Serve tables of a Hive Metastore: it keeps a pointer to each table's metadata file, as Java's
HiveCatalog and PyIceberg expect it.

`store` opens a catalog, `partitions` the partitions of Hive's own tables; `options` lists the
properties, `settings` reads them.
`structs` and `calls` describe the metastore's Thrift protocol, `client` speaks it, `table_object`
makes the table or view that the metastore stores, `store` finds and `pointers` moves its pointer,
under a lock of `locks`; `site` reads hive-site.xml.
"""

from typing import Any

from frazil.spec.on_demand import on_demand

__all__ = ["options", "partitions", "site"]


def __getattr__(name: str) -> Any:
    if name == "HiveCatalog":
        return on_demand("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
