"""Read the settings of catalogs from a Spark session; a small door of its own, since every `load_table` in a session enters it."""

from __future__ import annotations

from typing import Any

from frazil.catalog.configuration import METASTORES, SPARK_PREFIX
from frazil.spark.host.settings import all_settings


def session_catalogs(spark: Any) -> dict[str, str]:
    """Return the session's settings of catalogs (`spark.sql.catalog.…`), and where its Hive Metastore is."""
    return {k: v for k, v in all_settings(spark).items() if k.startswith(SPARK_PREFIX) or k == METASTORES}
