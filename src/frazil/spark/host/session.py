"""A SparkSession that is ready for Iceberg tables. `settings` lists what else is set, when and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def configure(builder: Any) -> Any:
    """A builder, made ready: workers get this Python, unless PYSPARK_PYTHON is set."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return builder


def spark_session(app_name: str | None = None, master: str | None = None, config: Mapping[str, Any] | None = None) -> SparkSession:
    """The running session or a new one, made ready (`configure`); `frazil.spark_session` installs it, too.

    `master` defaults to what Spark itself would take (spark-submit's, else local[*]); `config` are settings of Spark, catalogs included.
    """
    builder = SparkSession.builder
    if app_name is not None:
        builder = builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()
