"""Read `format("iceberg").load(…)` in a prepared session as a DataFrame on Spark's own Parquet
scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from frazil.ops.session import Session
from frazil.spark.engine.engine import engine_on
from frazil.spark.engine.read_target import ReadTarget, locate, read_request
from frazil.spark.engine.session_catalogs import session_catalogs
from frazil.spark.host.settings import session_zone
from frazil.spark.read.view_refresh import follow


def load(spark: Session, options: Mapping[str, Any]) -> DataFrame:
    """Return the DataFrame that read options ask for; options have the names of Java Iceberg.
    Raises as `read_request` and `locate` do.
    """
    return frame_of(
        spark, locate(read_request(options, session_zone(spark)), session_catalogs(spark))
    )


def frame_of(spark: Session, target: ReadTarget) -> DataFrame:
    """Return a DataFrame of a target: a metadata table is small and read at once, the table's rows
    and its changelog are read lazily.
    """
    engine = engine_on(spark)
    if target.is_changelog:
        return engine.read_changelog(target.changelog())
    if target.metadata_table is not None:
        frame = engine.shown(target.metadata_rows())
        if not target.reading().may_follow:
            return frame
        reread = lambda loaded: engine.shown(replace(target, loaded=loaded).metadata_rows())
        followed: DataFrame = follow(spark, frame, target.loaded.metadata, reread)
        return followed
    return engine.read(target.reading())
