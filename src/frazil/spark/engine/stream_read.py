"""Read streams: `spark.readStream.format("iceberg")`, `spark.readStream.table`, `t.read_stream()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.session import Session
from frazil.spark.engine import read_target
from frazil.spark.engine.read_target import (
    Finds,
    ReadRequest,
    ReadTarget,
    locate,
    named_table,
    target_of,
)
from frazil.spark.host.settings import all_settings, is_case_sensitive, session_zone
from frazil.spark.host.workers import parallelism
from frazil.spark.streams.source.stream_frame import stream_frame
from frazil.spark.streams.stream_table import StreamSpec, StreamTable
from frazil.spec.options import folded
from frazil.stream.source.options import OPTIONS, StreamOptions, stream_options

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamReader

_SESSION = "connector.iceberg."


def load(
    spark: Session, options: Mapping[str, Any], own: DataStreamReader, find: Finds
) -> DataFrame:
    """Load `spark.readStream.format("iceberg").load(x)` in a prepared session. `own`: a fresh
    DataStreamReader of Spark's.
    """
    request, settings = named_table(options)
    target = target_of(find(request.path, request.catalog), request)
    return stream_frame(
        spark, _spec_of(target, _in_session(spark, settings), spark, as_jar=True), own
    )


def stream_of(
    spark: Session,
    backend: CatalogBackend | None,
    loaded: LoadedTable,
    name: str,
    options: Mapping[str, Any],
    own: DataStreamReader | None = None,
) -> DataFrame:
    """Read the stream of a table that is loaded already, for `t.read_stream(…)`."""
    target = ReadTarget(name, loaded, ReadRequest(name), backend=backend)
    return stream_frame(spark, _spec_of(target, _in_session(spark, options), spark), own)


def bare_spec(options: Mapping[str, Any]) -> StreamSpec:
    """Describe a streaming read in a session that was not prepared, where only options, environment
    and yaml files are known.
    """
    request, settings = named_table(options)
    return _spec_of(locate(request, {}), settings, None, as_jar=True)


def asks_for_stream(options: Mapping[str, Any]) -> bool:
    """Tell whether options hold one that only streaming reads know."""
    return any(OPTIONS.find(k) and not read_target.OPTIONS.find(k) for k in options)


def _in_session(spark: Session, options: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the session sets by Flink's names (`connector.iceberg.monitor-interval`), below what
    the caller gives.
    """
    of_session = {
        k[len(_SESSION) :]: v for k, v in all_settings(spark).items() if k.startswith(_SESSION)
    }
    spellings = {name for k in options if (o := OPTIONS.find(k)) for name in o.spellings}
    taken = {"streaming", *spellings, *map(folded, options)}
    return {**{k: v for k, v in of_session.items() if folded(k) not in taken}, **options}


def _spec_of(
    target: ReadTarget, options: Mapping[str, Any], spark: Session | None, as_jar: bool = False
) -> StreamSpec:
    if target.metadata_table is not None and not target.is_changelog:
        text = f"The metadata table {target.metadata_table} of {target.name} cannot be read as a stream."
        raise Unsupported(text, hint='spark.read.format("iceberg") reads it.', table=target.name)
    if others := [k for k in target.selectors if k != "branch"]:
        text = f"{target.name} selects a snapshot ({others[0]}); a stream follows a branch."
        raise InvalidInput(
            text,
            hint="Use starting-strategy=INCREMENTAL_FROM_SNAPSHOT_ID with start-snapshot-id or start-tag.",
        )
    table = StreamTable.of(target.backend, target.loaded, target.name)
    checked = _options_of(target, options, spark, as_jar)
    return StreamSpec.of(table, target.loaded, checked, 8 if spark is None else parallelism(spark))


def _options_of(
    target: ReadTarget, options: Mapping[str, Any], spark: Session | None, as_jar: bool
) -> StreamOptions:
    sensitive, zone = (
        (False, "UTC") if spark is None else (is_case_sensitive(spark), session_zone(spark))
    )
    return stream_options(
        options,
        changes=target.is_changelog,
        branch=target.selectors.get("branch"),
        case_sensitive=sensitive,
        zone=zone,
        as_jar=as_jar,
    )
