"""Write a stream to plain folders of Parquet files with Spark's own writer, each batch exactly
once, and commit their partitions, those that are due while no data arrives included. A query needs
a checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from frazil.errors import InvalidInput, Unsupported
from frazil.ops import arguments
from frazil.spark.host import jvm
from frazil.spark.host.jvm_plans import has_watermark
from frazil.spark.host.settings import temporarily
from frazil.spark.streams.checkpoints import digest_of_batch
from frazil.spark.streams.sink.partition_commits import (
    announce_without_batches,
    batch_watermark,
    require_end,
    require_watermark,
)
from frazil.spec.options import NAME, NATURAL, Option, OptionTable, one_of
from frazil.stream.partitions import options as partition_commit
from frazil.stream.partitions.directories import announce, folder, publish
from frazil.stream.partitions.directories.announce import FolderCommit, LastBatch
from frazil.stream.partitions.options import PartitionCommitOptions
from frazil.stream.partitions.zones import zone_of

_REWIND = Option("on-rewind", one_of("fail", "skip"), "fail",
    text="This is done with a batch that comes before the last one published: the query fails, or skips it.")  # fmt: skip
OPTIONS = OptionTable("option of write_stream_files", (
    Option("compression", NAME, None, "compression", "Files are compressed with this codec.",
        "the session's `spark.sql.parquet.compression.codec`, snappy", aliases=("compression-codec",)),
    Option("max-records-per-file", NATURAL, None, "maxRecordsPerFile", "A file has at most this many rows; 0 stands for no limit.",
        "the session's `spark.sql.files.maxRecordsPerFile`, no limit"),
    _REWIND,
), families=partition_commit.OPTIONS.listed)  # fmt: skip
# Spark's default, INT96, is deprecated and has no statistics
_MICROSECONDS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def write_stream_files(
    frame: DataFrame,
    path: str | PathLike[str],
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    policies: Sequence[Callable[[Any], object]] = (),
    **options: object,
) -> DataStreamWriter:
    """Write a streaming frame into folders, `path/dt=2026-01-01/part-….parquet`:
    `frazil.write_stream_files(…).option( "checkpointLocation", …).start()`.

    Each batch's rows are written once, however often it is replayed. `policies`: functions of a
    PartitionContext that announce complete partitions; `options`: those of partition commit
    (`sink.partition-commit.trigger`, …, with `_` for `-` and `.`), `compression`,
    `max-records-per-file` and `on-rewind` (a batch before the last one published: `fail`, the
    default, or `skip`). See docs/partition-commit.md. Raises InvalidInput, Unsupported before the
    query starts.
    """
    if not isinstance(format, str) or format.lower() != "parquet":
        raise Unsupported(
            f"write_stream_files writes Parquet, not {format!r}.",
            hint="Leave format out.",
            option="format",
        )
    if not jvm.is_classic(frame):
        raise Unsupported(
            "write_stream_files does not work on Spark Connect.",
            hint="Use a session that is not remote.",
        )
    if not frame.isStreaming:
        raise InvalidInput(
            "write_stream_files takes a streaming frame.",
            hint="frame.write.partitionBy(…).parquet(path) writes others.",
        )
    others = {k: v for k, v in options.items() if partition_commit.is_partition_option(k)}
    values = OPTIONS.read({k: v for k, v in options.items() if k not in others})
    chosen = partition_commit.partition_commit_options(others, policies)
    place = folder.folder_at(path, _columns(frame, partition_by))
    _check_watermark(frame, chosen, place.columns)
    commit = announce.FolderCommit(place, chosen)
    commit.check()
    of_writer = {o.field: values[o.name] for o in OPTIONS.options if o.field and o.name in values}
    batches = _FolderBatches(frame, commit, of_writer, _REWIND.of(values))
    return FilesStreamWriter(frame, commit, batches).foreachBatch(batches.write)


def _columns(frame: DataFrame, partition_by: Sequence[str]) -> tuple[str, ...]:
    names = arguments.names("partition_by", partition_by)
    if missing := [n for n in names if n not in frame.columns]:
        raise InvalidInput(
            f"partition_by names {missing[0]}, which is no column.",
            hint=f"Columns: {', '.join(frame.columns)}.",
        )
    if names and len(names) == len(frame.columns):
        hint = "Leave at least one column out of partition_by: values of partition columns stand in folder names only."
        raise InvalidInput(
            "partition_by names all columns: no column would be left for the files.", hint=hint
        )
    return names


def _check_watermark(
    frame: DataFrame, options: PartitionCommitOptions, columns: Sequence[str]
) -> None:
    name = options.watermark_column
    if name is not None and (name not in frame.columns or name in columns):
        fault = "is a partition column" if name in columns else "is no column"
        hint = f"Name a column of timestamps or dates. Columns: {', '.join(c for c in frame.columns if c not in columns)}."
        raise InvalidInput(
            f"watermark-column: {name} {fault}.", hint=hint, option="watermark-column"
        )
    require_watermark(has_watermark(frame), options)


@dataclass
class _FolderBatches:
    """Write the micro-batches of a query into folders; `write` is the function for foreachBatch.
    `newest`: the newest batch of each query that was in the folder after the last batch in this
    run, or when it began."""

    frame: DataFrame
    commit: announce.FolderCommit
    writer_options: Mapping[str, Any] = field(default_factory=dict)
    on_rewind: str = "fail"
    newest: Mapping[str, int] = field(default_factory=dict)

    def reload(self) -> None:
        """Read which batches are in the folder."""
        self.newest = self.commit.newest_batches()

    def write(self, rows: DataFrame, batch_id: int) -> None:
        place = self.commit.folder
        query_id = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            text = "Spark does not give the id of the streaming query, without which a batch cannot be written exactly once."
            raise InvalidInput(text, hint="Start the writer that write_stream_files returns.")
        watermark = batch_watermark(self.frame.sparkSession, query_id)
        digest = digest_of_batch(self.frame.sparkSession, query_id, batch_id)
        if publish.is_published(place, query_id, batch_id, self.on_rewind, digest):
            # The rows are in their folders already, but Spark advances the watermark only over rows
            # that it has read.
            rows.write.format("noop").mode("append").save()
        else:
            self._publish(
                rows,
                publish.StagedBatch(
                    query_id,
                    batch_id,
                    publish.staging_of(place, query_id, batch_id),
                    watermark,
                    digest,
                ),
            )
        self.reload()
        self.commit.commit_due(watermark)

    def _publish(self, rows: DataFrame, batch: publish.StagedBatch) -> None:
        place, options, staging = self.commit.folder, self.commit.options, batch.staging
        try:
            with temporarily(rows.sparkSession, _MICROSECONDS, shared=False):
                rows.write.options(**self.writer_options).partitionBy(*place.columns).parquet(
                    Path(staging).as_uri()
                )
            if options.watermark_column is not None:
                zone = zone_of(options.zone)
                assert zone is not None
                newest = publish.newest_value_ms(staging, options.watermark_column, zone)
                batch = replace(
                    batch,
                    watermark_ms=None if newest is None else newest - options.watermark_delay_ms,
                )
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        publish.publish(place, batch, options, self.commit.clock)


_CHECKPOINT = "spark.sql.streaming.checkpointLocation"


class FolderBatches(Protocol):
    """Write the batches of one run of a query. `newest`: the newest batch of each query that the
    folder had after the run's last one.
    """

    newest: Mapping[str, int]

    def reload(self) -> None:
        """Read which batches are in the folder."""


class FilesStreamWriter(DataStreamWriter):  # type: ignore[misc]
    """Start the query of `write_stream_files`: Spark's DataStreamWriter, with the options that have
    a meaning here, and never without a checkpoint.

    With `sink.partition-commit.end-input`, the partitions that are left are committed when a query
    with trigger availableNow or once has ended: before awaitTermination returns, at the latest.
    """

    def __init__(self, frame: DataFrame, commit: FolderCommit, batches: FolderBatches):
        super().__init__(frame)
        self._commit, self._batches, self._has_checkpoint, self._ends = (
            commit,
            batches,
            False,
            False,
        )

    def option(self, key: str, value: object) -> DataStreamWriter:
        """Set Spark's checkpointLocation. Raises InvalidInput for any other option, which Spark
        would ignore here.
        """
        if key.lower() != "checkpointlocation":
            hint = f"Give it to write_stream_files(…, **{{{key!r}: {value!r}}})."
            raise InvalidInput(f"{key} is not an option of the query.", hint=hint, option=key)
        self._has_checkpoint = True
        return super().option(key, value)

    def options(self, **options: object) -> DataStreamWriter:
        """Set options as `option` does."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        """Set Spark's output mode. Raises InvalidInput for any but append: the other modes send a
        row more than once, and plain files would hold it as often."""
        if outputMode.lower() != "append":
            hint = "An Iceberg table takes the other modes: t.write_stream(frame, mode='complete') or mode='upsert'."
            raise InvalidInput(
                f"write_stream_files takes output mode append, not {outputMode}.", hint=hint
            )
        return super().outputMode(outputMode)

    def trigger(self, **when: object) -> DataStreamWriter:
        self._ends = bool(when.get("availableNow") or when.get("once"))
        return super().trigger(**when)

    def start(
        self, queryName: str | None = None, outputMode: str | None = None, **options: object
    ) -> StreamingQuery:
        """Start the query. Raises InvalidInput without a checkpoint, and for end-input with a
        trigger without an end.
        """
        if queryName is not None:
            self.queryName(queryName)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        require_end(self._commit.options, self._ends)
        if not (self._has_checkpoint or self._spark.conf.get(_CHECKPOINT, None)):
            hint = 'Write .option("checkpointLocation", "…") before start(): without it a restart writes all rows again.'
            raise InvalidInput("write_stream_files needs a checkpoint location.", hint=hint)
        if not self._commit.options.enabled:
            return super().start()
        self._batches.reload()
        query = super().start()
        announce_without_batches(
            self._spark,
            query,
            partial(self._announce, query.id),
            self._ends and self._commit.options.end_input,
        )
        return query

    def _announce(self, query_id: str, last: bool) -> None:
        self._commit.commit_due(
            None, LastBatch(query_id, self._batches.newest.get(query_id)) if last else None
        )
