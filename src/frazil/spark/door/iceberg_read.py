"""`format("iceberg").load(x)` in a prepared session: a DataFrame on the fast path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arrow.changelog.read_changelog import ChangeOptions
from frazil.scan.changelog import changelog_schema
from frazil.scan.inspect import metadata_table
from frazil.spark.door.target import ReadTarget, locate, read_request
from frazil.spark.host.session_conf import all_settings, is_case_sensitive, session_zone, wap_branch
from frazil.spark.read.changelog_frame import changes_frame
from frazil.spark.read.following import follow
from frazil.spark.read.native_read import read
from frazil.spark.types.arrow_types import for_spark

_CATALOGS = "spark.sql.catalog."
_REFS = {"branch", "tag"}  # names of snapshots: what they mean may change


def session_catalogs(spark: Any) -> dict[str, str]:
    """The session's settings of catalogs."""
    return {k: v for k, v in all_settings(spark).items() if k.startswith(_CATALOGS)}


def load(spark: Any, options: Mapping[str, Any]) -> DataFrame:
    """Reads as the options say; Java's names."""
    target = locate(read_request(options, session_zone(spark)), session_catalogs(spark))
    frame = frame_of(spark, target)
    if target.is_changelog or target.is_incremental or not _REFS.issuperset(target.selectors):
        return frame
    return follow(spark, frame, target.loaded.metadata, lambda loaded: frame_of(spark, replace(target, loaded=loaded)))


def frame_of(spark: Any, target: ReadTarget) -> DataFrame:
    """A metadata table (read now: it is small), or the table's rows or its changelog, lazily."""
    if target.is_changelog:
        found = target.plan_changes()
        return changes_frame(
            spark, found, projection=changelog_schema(found.schema), storage=target.loaded.storage, options=ChangeOptions()
        )
    if target.metadata_table is not None:
        return metadata_frame(spark, target)
    sensitive = is_case_sensitive(spark)
    if not target.selectors and not target.is_incremental and (branch := wap_branch(spark, target.loaded.metadata)):
        target = replace(target, selectors={"branch": branch})
    planned = target.plan(case_sensitive=sensitive)
    return read(spark, planned, projection=planned.schema, storage=target.loaded.storage, case_sensitive=sensitive)


def metadata_frame(spark: Any, target: ReadTarget) -> DataFrame:
    assert target.metadata_table is not None
    loaded = target.loaded
    snapshot_id = None
    if target.selectors:
        snapshot, _ = target.snapshot_and_schema()
        snapshot_id = snapshot.snapshot_id if snapshot is not None else None
    table = metadata_table(
        target.metadata_table, loaded.metadata, loaded.storage, metadata_location=loaded.metadata_location, snapshot_id=snapshot_id
    )
    return arrow_frame(spark, table)


def arrow_frame(spark: Any, table: pa.Table) -> DataFrame:
    """A DataFrame of a metadata table; timestamps without a zone stay that."""
    table = for_spark(table)
    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
