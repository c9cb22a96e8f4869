"""Serve tables of a Hive Metastore: it keeps a pointer to each table's metadata file, as Java's HiveCatalog and PyIceberg expect it.

Other rooms use `HiveCatalog`, and `partitioned_table` for the partitions of Hive's own tables. `structs` and `calls` describe the
metastore's Thrift protocol, `client` speaks it, `table_object` makes the table or view that the metastore stores, `locks` holds its lock
during a commit, `pointers` commits, `site` reads hive-site.xml.
"""

from frazil.catalog.hive.catalog import HiveCatalog
from frazil.catalog.hive.partitions import partitioned_table
from frazil.catalog.hive.settings import ACCESS_PROPERTIES, HIVE_PROPERTIES
from frazil.catalog.hive.site import is_hive, is_metastore_setting, metastore_sources

__all__ = [
    "ACCESS_PROPERTIES", "HIVE_PROPERTIES", "HiveCatalog", "is_hive", "is_metastore_setting", "metastore_sources", "partitioned_table",
]  # fmt: skip
