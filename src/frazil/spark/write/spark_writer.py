"""Write a DataFrame by Spark's Parquet writer into a staging folder, then adopt the files: put
field ids into each footer, give each file the name that Java Iceberg would give it, move it to its
place and sync it to disk (docs/adr/0006).

Spark's writer is faster than handing rows to Python, but it knows neither field ids nor Iceberg's
layout. Adopting a file rewrites its footer only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from frazil.arrow.footers.parquet_footer import add_field_ids
from frazil.arrow.write.metrics import footer_metrics
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import LEVELS, check_level
from frazil.arrow.write.write_parquet import leaf_paths
from frazil.codec.single_value import partition_path
from frazil.ops.session import Session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.settings import temporarily
from frazil.spark.host.workers import heap_of_a_task
from frazil.spark.tasks.spark_runner import folder_removed_on_error, remove_folder
from frazil.spark.types.spark_types import contains
from frazil.spark.write.catalyst_transforms import from_directory
from frazil.spark.write.layout import Spread, spread
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.spec.properties import (
    PARQUET_BLOOM_FILTER,
    PARQUET_BLOOM_FILTER_FPP,
    PARQUET_BLOOM_FILTER_MAX,
    PARQUET_BLOOM_FILTER_NDV,
    PARQUET_CODEC,
    PARQUET_DICTIONARY,
    PARQUET_DICTIONARY_SIZE,
    PARQUET_LEVEL,
    PARQUET_PAGE_ROWS,
    PARQUET_PAGE_SIZE,
    PARQUET_PAGE_VERSION,
    PARQUET_ROW_GROUP_SIZE,
    PARQUET_STATISTICS,
    SPARK_FANOUT,
    ColumnProperty,
    TableProperty,
)
from frazil.storage.base import translated_errors
from frazil.storage.local import sync_directory
from frazil.storage.locations import data_location, data_root

_ARROW_ONLY = (
    i.UUIDType, i.FixedType, i.TimestampNanoType, i.TimestamptzNanoType, i.GeometryType, i.GeographyType, i.TimeType,
)  # fmt: skip
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_PART = re.compile(r"part-(\d+)-")
_CODECS = {
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
    "lz4_raw": "lz4_raw",
}
_HADOOP: dict[str, TableProperty[Any, Any]] = {
    "parquet.block.size": PARQUET_ROW_GROUP_SIZE, "parquet.page.size": PARQUET_PAGE_SIZE, "parquet.page.row.count.limit": PARQUET_PAGE_ROWS,
    "parquet.dictionary.page.size": PARQUET_DICTIONARY_SIZE, "parquet.bloom.filter.max.bytes": PARQUET_BLOOM_FILTER_MAX,
    "parquet.writer.version": PARQUET_PAGE_VERSION,
}  # fmt: skip
_PER_COLUMN: dict[str, ColumnProperty[Any]] = {
    "parquet.bloom.filter.enabled": PARQUET_BLOOM_FILTER, "parquet.bloom.filter.fpp": PARQUET_BLOOM_FILTER_FPP,
    "parquet.bloom.filter.expected.ndv": PARQUET_BLOOM_FILTER_NDV, "parquet.column.statistics.enabled": PARQUET_STATISTICS,
    "parquet.enable.dictionary": PARQUET_DICTIONARY,
}  # fmt: skip
_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
}  # fmt: skip
# version 1: files of a task count when the job ends, so a task that is tried again leaves no files
# behind
_COMMITTER = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "mapreduce.fileoutputcommitter.algorithm.version": "1",
}  # fmt: skip
_ZLIB = (
    "NO_COMPRESSION",
    "BEST_SPEED",
    "TWO",
    "THREE",
    "FOUR",
    "FIVE",
    "SIX",
    "SEVEN",
    "EIGHT",
    "BEST_COMPRESSION",
)
_MOST_WRITERS = "spark.sql.maxConcurrentOutputFileWriters"
_OPEN_WRITERS = 128
_THREADS = 8  # that adopt files


def can_write(context: WriteContext) -> bool:
    """Return whether Spark's writer can write the table: Parquet on a local disk, types and a codec
    that it has, names that differ in more than case."""
    codec = (context.options.compression_codec or PARQUET_CODEC.of(context.properties)).lower()
    return (
        context.format == "parquet"
        and codec in _CODECS
        and context.storage.local_path(data_root(context.location, context.properties)) is not None
        and not any(
            contains(f.field_type, *_ARROW_ONLY) or _nested_unknown(f.field_type)
            for f in context.schema.fields
        )
        and any(not isinstance(f.field_type, i.UnknownType) for f in context.schema.fields)
        and not _differ_by_case(context.schema.fields)
    )


def _differ_by_case(fields: Sequence[i.NestedField]) -> bool:
    """Return whether sibling names, at any depth, differ only in case, which most sessions take for
    the same name.
    """
    same = len({f.name.lower() for f in fields}) < len(fields)
    return same or any(_differ_by_case(i.children(f.field_type)) for f in fields)


def _nested_unknown(type_: i.IcebergType) -> bool:
    """Return whether a type contains `unknown`, which can be left out of a file only as a whole
    column.
    """
    return any(contains(c.field_type, i.UnknownType) for c in i.children(type_))


def write_by_folder(spark: Session, frame: DataFrame, context: WriteContext) -> list[DataFile]:
    """Write the rows of a conformed frame and return the data files, which lie in their final
    places. After an error no file is left.
    """
    root = data_root(context.location, context.properties)
    staging = f"{root}/staging-{context.operation_id}"
    local = context.storage.local_path(staging)
    assert local is not None
    unknown = [f.name for f in context.schema.fields if isinstance(f.field_type, i.UnknownType)]
    rows = spread(spark, frame, context, context.properties, folders=True)
    writer = (
        rows.frame.drop(*unknown)
        .write.format("parquet")
        .mode("append")
        .options(**write_settings(context))
    )
    if rows.key_names:
        writer = writer.partitionBy(*rows.key_names)
    moved: list[str] = []
    try:
        with folder_removed_on_error(spark, context.storage, staging):
            with temporarily(
                spark, {**_SETTINGS, **rows.settings, **_fanout(spark, context, rows)}
            ):
                interruptible(spark, lambda: writer.save("file://" + local))
            files = _adopt_all(local, context, rows, moved)
    except BaseException:
        for path in moved:
            with contextlib.suppress(OSError):
                os.unlink(path)
        raise
    remove_folder(context.storage, staging)
    return files


def _fanout(spark: Session, context: WriteContext, rows: Spread) -> dict[str, str]:
    """Return the setting for how many partition writers a task keeps open.

    Open writers spare the sort by partition; rows that are sorted already need one writer at a
    time. Each writer may hold a row group in memory, so a task opens as many as half of its share
    of the heap has room for, then sorts the remaining rows, which one more writer writes. The other
    half is left to Spark: at 0.95 of the heap Parquet would warn and cut row groups short.
    """
    if not rows.key_names or rows.is_sorted:
        return {_MOST_WRITERS: "0"}
    fanout = context.options.fanout_enabled
    if fanout is None:
        fanout = SPARK_FANOUT.of(context.properties)
    if fanout:
        return {_MOST_WRITERS: "100000"}
    row_groups = heap_of_a_task(spark) // 2 // PARQUET_ROW_GROUP_SIZE.of(context.properties)
    return {_MOST_WRITERS: str(min(_OPEN_WRITERS, max(0, row_groups - 1)))}


def write_settings(context: WriteContext) -> dict[str, str]:
    """Translate table properties and write options to the settings of Spark's Parquet writer
    (parquet-mr).
    """
    properties: Mapping[str, str] = context.properties
    codec = (context.options.compression_codec or PARQUET_CODEC.of(properties)).lower()
    settings = {"compression": _CODECS[codec], "partitionOverwriteMode": "static", **_COMMITTER}
    level = context.options.compression_level or PARQUET_LEVEL.of(properties)
    number = (
        check_level(codec, level, PARQUET_LEVEL.name)
        if level is not None and codec in LEVELS
        else None
    )
    if number is not None and codec == "zstd":
        settings["parquet.compression.codec.zstd.level"] = str(number)
    if number is not None and codec == "gzip":
        settings["zlib.compress.level"] = _ZLIB[number]
    for key, table_property in _HADOOP.items():
        if (value := table_property.given(properties)) is not None:
            settings[key] = str(value)
    paths = leaf_paths(context.schema)
    for key, column_property in _PER_COLUMN.items():
        for column, value in column_property.of(properties).items():
            settings[f"{key}#{paths.get(column, column)}"] = str(value).lower()
    return settings


@dataclass(frozen=True)
class _Written:
    """Hold a file that Spark wrote: its path, the number of its task, and the partition values that
    its folders name.
    """

    path: str
    part: int
    values: tuple[Any, ...]


def _adopt_all(local: str, context: WriteContext, rows: Spread, moved: list[str]) -> list[DataFile]:
    """Adopt all files of the staging folder, in the order of their tasks. The final paths of files
    that were moved are added to `moved`.
    """
    written = sorted(_written(local, rows), key=lambda file: (file.part, file.path))
    numbers: dict[int, int] = {}
    jobs = []
    for file in written:
        numbers[file.part] = numbers.get(file.part, 0) + 1
        name = (
            f"{file.part:05d}-{file.part}-{context.operation_id}-{numbers[file.part]:05d}.parquet"
        )
        folder = (
            partition_path(context.spec, context.schema, file.values) if context.spec.fields else ""
        )
        jobs.append((file, data_location(context.location, context.properties, folder, name)))
    targets = {location: context.storage.local_path(location) or "" for _, location in jobs}
    for directory in {os.path.dirname(t) for t in targets.values()}:
        with translated_errors(directory, "make the directory"):
            os.makedirs(directory, exist_ok=True)
    order_id = context.sort_order.order_id if rows.is_sorted else 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="frazil-files") as pool:
        adopted = list(
            pool.map(
                lambda job: _adopt(job[0], job[1], targets[job[1]], context, order_id, moved), jobs
            )
        )
    files = [f for f in adopted if f is not None]
    _sync_directories({os.path.dirname(targets[f.file_path]) for f in files}, context)
    return files


def _written(local: str, rows: Spread) -> list[_Written]:
    """List the files that Spark wrote into the staging folder."""
    written = []
    for directory, folders, names in os.walk(local):
        folders[:] = [f for f in folders if not f.startswith(("_", ".")) or "=" in f]
        for name in names:
            if name.startswith(("_", ".")) or not (match := _PART.match(name)):
                continue
            texts = dict(
                p.partition("=")[::2]
                for p in os.path.relpath(directory, local).split(os.sep)
                if "=" in p
            )
            values = tuple(
                None
                if k.name is None or texts[k.name] == _NULL_FOLDER
                else from_directory(k.type, texts[k.name])
                for k in rows.keys
            )
            written.append(_Written(os.path.join(directory, name), int(match[1]), values))
    return written


def _adopt(
    file: _Written,
    location: str,
    target: str,
    context: WriteContext,
    order_id: int,
    moved: list[str],
) -> DataFile | None:
    """Add field ids to the footer of a file, sync it and move it to its place; None where the file
    has no rows.
    """
    with translated_errors(location, "write"):
        footer = pq.read_metadata(file.path)
        if footer.num_rows == 0:
            return None
        add_field_ids(file.path, context.schema)
        descriptor = os.open(file.path, os.O_RDWR)
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        metrics = footer_metrics(pq.read_metadata(file.path), context.schema, context.metrics)
        moved.append(target)
        os.rename(file.path, target)
    return DataFile(
        file_path=location,
        file_format="parquet",
        partition=file.values,
        file_size_in_bytes=size,
        spec_id=context.spec.spec_id,
        sort_order_id=order_id,
        **metrics,
    )


def _sync_directories(directories: set[str], context: WriteContext) -> None:
    """Sync directories and their parents up to the table's data folder, since a new folder is
    durable only as an entry of its parent.
    """
    root = context.storage.local_path(data_root(context.location, context.properties)) or "/"
    to_sync = set(directories)
    for directory in directories:
        while len(directory) > len(root):
            directory = os.path.dirname(directory)
            to_sync.add(directory)
    for directory in to_sync:
        with translated_errors(directory, "sync the directory"):
            sync_directory(directory)
