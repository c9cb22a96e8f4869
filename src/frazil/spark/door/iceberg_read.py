"""`format("iceberg").load(x)` in a prepared session: a DataFrame on the fast path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from frazil.spark.door.engine import SparkEngine
from frazil.spark.door.read_target import ReadTarget, locate, read_request
from frazil.spark.host.settings import all_settings, session_zone
from frazil.spark.read.view_refresh import follow

_CATALOGS = "spark.sql.catalog."


def session_catalogs(spark: Any) -> dict[str, str]:
    """The session's settings of catalogs."""
    return {k: v for k, v in all_settings(spark).items() if k.startswith(_CATALOGS)}


def load(spark: Any, options: Mapping[str, Any]) -> DataFrame:
    """Reads as the options say; Java's names."""
    return frame_of(spark, locate(read_request(options, session_zone(spark)), session_catalogs(spark)))


def frame_of(spark: Any, target: ReadTarget) -> DataFrame:
    """A metadata table (read now: it is small), or the table's rows or its changelog, lazily."""
    engine = SparkEngine(spark)
    if target.is_changelog:
        return engine.read_changes(target.changes())
    if target.metadata_table is not None:
        frame = engine.shown(target.metadata_rows())
        if not target.reading().may_follow:
            return frame
        again = lambda loaded: engine.shown(replace(target, loaded=loaded).metadata_rows())
        followed: DataFrame = follow(spark, frame, target.loaded.metadata, again)
        return followed
    return engine.read(target.reading())
