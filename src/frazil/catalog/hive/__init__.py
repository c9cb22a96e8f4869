"""Serve tables of a Hive Metastore: it keeps a pointer to each table's metadata file, as Java's HiveCatalog and PyIceberg expect it.

Other rooms use `HiveCatalog`, and `partitioned_table` for the partitions of Hive's own tables. `structs` and `calls` describe the
metastore's Thrift protocol, `client` speaks it, `table_object` makes the table that the metastore stores, `locks` holds its lock during a
commit, `pointers` commits.
"""

from frazil.catalog.hive.catalog import HiveCatalog
from frazil.catalog.hive.partitions import partitioned_table
from frazil.catalog.hive.settings import HIVE_PROPERTIES

__all__ = ["HIVE_PROPERTIES", "HiveCatalog", "partitioned_table"]
