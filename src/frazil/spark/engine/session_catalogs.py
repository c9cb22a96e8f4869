"""Read the settings of catalogs from a Spark session; a module of its own, which loads little,
since every `load_table` in a session calls it.
"""

from __future__ import annotations

from frazil.catalog.configuration import SPARK_PREFIX
from frazil.catalog.hive.site import is_metastore_setting
from frazil.ops.session import Session
from frazil.spark.host.settings import all_settings
from frazil.storage.hdfs.hdfs_options import of_session


def session_catalogs(spark: Session) -> dict[str, str]:
    """Return the session's settings of catalogs (`spark.sql.catalog.…`), what it says of Hive
    Metastores, and where HDFS clusters are.
    """
    settings = all_settings(spark)
    of_hdfs = {f"spark.{key}" for key in of_session(settings)}
    return {
        k: v
        for k, v in settings.items()
        if k.startswith(SPARK_PREFIX) or is_metastore_setting(k) or k in of_hdfs
    }
