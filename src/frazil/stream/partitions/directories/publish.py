"""Publish the files of a batch into a plain folder, so that a batch that is replayed after a crash
at any point shows its rows once.

Spark writes a batch into a private folder, and its files are synced. Then, under the folder's lock:
`_frazil/batches/<query>-<batch>.json` lists the files with their final names; each file is renamed;
the state records the batch's number and partitions; the list is removed. Once the list is written
the batch is decided: the next replay or other stream finishes the renames, and a replay's own files
are removed. A file becomes visible as a whole. The files of a batch become visible one after the
other, since a folder has no commit of several files.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, tzinfo
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq

from frazil.errors import CorruptData, InvalidInput, StorageError, ValidationError
from frazil.storage.local import make_directories, sync, sync_directory
from frazil.stream.partitions.directories.folder import (
    STORAGE,
    Folder,
    FolderState,
    done_mark,
    file_stem,
    partition_at,
    read_state,
    write_state,
)
from frazil.stream.partitions.directories.merge_files import finish_merges
from frazil.stream.partitions.extractor import TimeExtractor, UnparsablePartition
from frazil.stream.partitions.fields import Partition
from frazil.stream.partitions.options import PARTITION_TIME, PartitionCommitOptions
from frazil.stream.partitions.tracking import WrittenPartitions, with_written
from frazil.stream.partitions.zones import instant_ms

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedBatch:
    """Hold a batch whose files are complete in a private folder. `watermark_ms`: the query's, or
    from the files by watermark-column. `digest`: of the offsets at which the batch ends."""

    query_id: str
    batch_id: int
    staging: str
    watermark_ms: int | None = None
    digest: str | None = None


def is_published(
    folder: Folder, query_id: str, batch_id: int, on_rewind: str = "skip", digest: str | None = None
) -> bool:
    """Tell whether a batch was published, after finishing what a crash has left.

    Raises ValidationError when a later batch, or one under the same number with other offsets, was
    published, as after a checkpoint was restored from a backup, and `on_rewind` is `fail`.
    """
    with folder.locked():
        recover(folder)
        state = read_state(folder)
    last, before = state.batches.get(query_id, -1), state.digests.get(query_id)
    differs = last == batch_id and None not in (before, digest) and before != digest
    if (last > batch_id or differs) and on_rewind == "fail":
        text = "is not the one that was" if differs else f"comes after batch {last} was"
        raise ValidationError(
            f"Batch {batch_id} of query {query_id} {text} published into {folder.path}: its checkpoint was set back.",
            hint="Rows of these batches may be in the folder already. The option on-rewind=skip passes over batches up to the one "
            "published; a new checkpoint folder begins a new query.",
        )
    if last > batch_id:
        log.warning(
            "Batch %d of query %s into %s was published before, as was batch %d.",
            batch_id,
            query_id,
            folder.path,
            last,
        )
    elif differs:
        log.warning(
            "Batch %d of query %s into %s was published before, with other offsets.",
            batch_id,
            query_id,
            folder.path,
        )
    return last >= batch_id


def publish(
    folder: Folder, batch: StagedBatch, options: PartitionCommitOptions, clock: Callable[[], int]
) -> bool:
    """Publish a batch; False: it was published before, or has no files. Nothing of the staged files
    is left.
    """
    files = _staged_files(batch.staging)
    if not files:
        shutil.rmtree(batch.staging, ignore_errors=True)
        return False
    for path in files:
        sync(os.path.join(batch.staging, path))
    with folder.locked():
        recover(folder)
        if read_state(folder).batches.get(batch.query_id, -1) >= batch.batch_id:
            shutil.rmtree(batch.staging, ignore_errors=True)
            return False
        intent = _intent(folder, batch, files, clock())
        _check_times(folder, intent, options)
        place = folder.place("batches", f"{file_stem(batch.query_id, batch.batch_id)}.json")
        # written by a rename: the list is complete or does not exist
        STORAGE.write(place, json.dumps(intent).encode(), overwrite=True)
        _finish(folder, intent, place)
        _remove_abandoned(folder, batch.query_id)
    return True


def staging_of(folder: Folder, query_id: str, batch_id: int) -> str:
    """Name a private folder for a batch's files; no two attempts share one."""
    return folder.place("staging", f"{file_stem(query_id, batch_id)}-{uuid.uuid4()}")


def _remove_abandoned(folder: Folder, query_id: str) -> None:
    """Remove what earlier attempts of a query's batches were writing when they were killed."""
    stem = re.compile(re.escape(quote(query_id, safe="-")) + r"-\d+-[0-9a-f-]{36}")
    for name in STORAGE.directories(folder.place("staging")):
        if stem.fullmatch(name):
            shutil.rmtree(folder.place("staging", name), ignore_errors=True)


def recover(folder: Folder) -> None:
    """Finish the publications and merges that a crash has interrupted. The caller holds the lock."""
    for name in sorted(STORAGE.names(folder.place("batches"))):
        if not name.startswith(".") and name.endswith(".json"):
            place = folder.place("batches", name)
            _finish(folder, json.loads(STORAGE.read(place)), place)
    finish_merges(folder)


def _staged_files(staging: str) -> list[str]:
    """List the data files that Spark has written. Raises StorageError if Spark's mark of a finished
    job is missing: a folder that lies on another machine or file system must not be taken for a
    batch without rows."""
    if not os.path.exists(os.path.join(staging, "_SUCCESS")):
        raise StorageError(
            f"Spark has written the rows of a batch, but {staging} lacks Spark's mark of a finished job.",
            file=staging,
            hint="write_stream_files needs a folder that the driver and all executors see as one local file system.",
        )
    staged_files = []
    for root, directories, names in os.walk(staging):
        directories[:] = sorted(d for d in directories if "=" in d or not d.startswith(("_", ".")))
        relative = os.path.relpath(root, staging)
        staged_files += [
            n if relative == "." else f"{relative}/{n}"
            for n in sorted(names)
            if not n.startswith(("_", "."))
        ]
    return staged_files


def _intent(
    folder: Folder, batch: StagedBatch, files: Sequence[str], now_ms: int
) -> dict[str, Any]:
    """List the files of a batch, each with its final name. It holds the query, the batch and a
    number, so that no two files share one.
    """
    named = []
    for number, path in enumerate(files):
        directory, _, name = path.rpartition("/")
        partition_at(directory, folder.columns)
        extension = name[name.index(".") :] if "." in name else ""
        named.append(
            [
                path,
                f"{directory}/part-{number:05d}-{file_stem(batch.query_id, batch.batch_id)}{extension}",
            ]
        )
    return {
        "query": batch.query_id,
        "batch": batch.batch_id,
        "staging": batch.staging,
        "files": named,
        "watermark": batch.watermark_ms,
        "time": now_ms,
        "digest": batch.digest,
    }


def _partitions(folder: Folder, intent: Mapping[str, Any]) -> frozenset[Partition]:
    return frozenset(
        partition_at(final.rpartition("/")[0], folder.columns) for _, final in intent["files"]
    )


def _check_times(folder: Folder, intent: dict[str, Any], options: PartitionCommitOptions) -> None:
    """Note the partitions whose time cannot be determined, which are not tracked. Raises
    UnparsablePartition unless on-unparsable=warn.
    """
    intent["untracked"] = []
    if not options.enabled or options.trigger != PARTITION_TIME:
        return
    times = TimeExtractor(options)
    for partition in _partitions(folder, intent):
        try:
            times.time_ms(partition, folder.fields)
        except UnparsablePartition as e:
            if options.on_unparsable == "fail":
                raise
            intent["untracked"].append(list(partition.values))
            log.warning("Partition %s is not tracked: %s", folder.partition_path(partition), e)


def _finish(folder: Folder, intent: Mapping[str, Any], place: str) -> None:
    """Rename the files that are not renamed yet, and record the batch. Repeated after a crash at
    any point, this ends in the same state.
    """
    query, batch = str(intent["query"]), int(intent["batch"])
    state = read_state(folder)
    if state.batches.get(query, -1) < batch:
        directories = set()
        for staged, final in intent["files"]:
            directories.add(
                _rename(os.path.join(intent["staging"], staged), os.path.join(folder.path, final))
            )
        for directory in sorted(directories):
            sync_directory(directory)
        write_state(folder, _with_batch(folder, state, intent))
    shutil.rmtree(intent["staging"], ignore_errors=True)
    STORAGE.delete(place)


def _rename(staged: str, final: str) -> str:
    directory = os.path.dirname(final)
    if os.path.exists(staged):
        make_directories(directory)
        os.rename(staged, final)
    elif not os.path.exists(final):
        raise CorruptData(
            f"A file of a batch that is being published is gone: neither {staged} nor {final} is there.",
            file=final,
        )
    return directory


def _with_batch(folder: Folder, state: FolderState, intent: Mapping[str, Any]) -> FolderState:
    untracked = {Partition(0, tuple(values)) for values in intent["untracked"]}
    touched = WrittenPartitions(_partitions(folder, intent) - untracked)
    partitions = with_written(
        state.partitions, touched, partial(done_mark, folder), intent["time"], intent["watermark"]
    )
    batches = {**state.batches, str(intent["query"]): int(intent["batch"])}
    digests = {q: d for q, d in state.digests.items() if q != intent["query"]}
    if intent.get("digest") is not None:
        digests[str(intent["query"])] = str(intent["digest"])
    return replace(state, batches=batches, partitions=partitions, digests=digests)


def newest_value_ms(staging: str, column: str, zone: tzinfo) -> int | None:
    """Read the newest value of a column of times from the footers of staged Parquet files, in
    milliseconds; None: there is none. Values without a zone are in `zone`.

    Raises InvalidInput when the files lack the column, or its statistics.
    """
    newest: list[int] = []
    for path in _staged_files(staging):
        footer = pq.read_metadata(os.path.join(staging, path))
        names = footer.schema.to_arrow_schema().names
        if column not in names:
            hint = "Name a column of timestamps by which the folder is not partitioned."
            raise InvalidInput(
                f"watermark-column: the files have no column {column}.",
                hint=hint,
                option="watermark-column",
            )
        column_index = next(
            i for i in range(footer.num_columns) if footer.schema.column(i).path == column
        )
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(column_index)
            statistics = chunk.statistics
            if (
                statistics is not None
                and statistics.has_min_max
                and isinstance(statistics.max, date)
            ):
                value = (
                    statistics.max
                    if isinstance(statistics.max, datetime)
                    else datetime.combine(statistics.max, time())
                )
                newest.append(instant_ms(value, zone))
            elif not (
                statistics is not None and statistics.null_count == footer.row_group(group).num_rows
            ):
                text = f"watermark-column: the files have no statistics of timestamps for column {column}."
                raise InvalidInput(text, option="watermark-column", file=path)
    return max(newest, default=None)
