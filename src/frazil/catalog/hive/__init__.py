"""Serve tables of a Hive Metastore: it keeps a pointer to each table's metadata file, as Java's
HiveCatalog and PyIceberg expect it.

Other rooms use `hive_catalog`, and `partitioned_table` for the partitions of Hive's own tables.
`structs` and `calls` describe the metastore's Thrift protocol, `client` speaks it, `table_object`
makes the table or view that the metastore stores, `store` finds and `pointers` moves its pointer,
under a lock of `locks`; `site` reads hive-site.xml.
"""

from typing import Any

from frazil.catalog.hive.partitions import partitioned_table
from frazil.catalog.hive.settings import ACCESS_PROPERTIES, HIVE_PROPERTIES
from frazil.catalog.hive.site import is_hive, is_metastore_setting, metastore_sources
from frazil.catalog.hive.store import hive_catalog
from frazil.spec.above import from_above

__all__ = [
    "ACCESS_PROPERTIES", "HIVE_PROPERTIES", "hive_catalog", "is_hive", "is_metastore_setting", "metastore_sources", "partitioned_table",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "HiveCatalog":
        return from_above("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
