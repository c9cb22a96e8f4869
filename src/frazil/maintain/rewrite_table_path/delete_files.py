"""Rewrite position delete files and deletion vectors, which name the data files that they delete
from, with other paths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.write.write_context import POSITION_SCHEMA, DeleteKind, WriteContext
from frazil.codec.puffin import with_footer
from frazil.maintain.rewrite_table_path.new_paths import PathChange
from frazil.scan.tasks import WHOLLY, FileScanTask, TaskFacts
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import UNPARTITIONED_PARTITION_SPEC
from frazil.spec.properties import properties_of_deletes
from frazil.spec.schema import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID
from frazil.spec.sorting import UNSORTED_SORT_ORDER
from frazil.storage import Storage

_NAMES = msgspec.json.encode(
    [
        {"field-id": DELETE_FILE_PATH_ID, "names": ["file_path"]},
        {"field-id": DELETE_FILE_POS_ID, "names": ["pos"]},
    ]
).decode()
_REFERENCED = "referenced-data-file"


def rewrite_delete_file(
    file: DataFile, change: PathChange, metadata: TableMetadata, storage: Storage
) -> int:
    """Write the changed copy of a file to its staging place; returns its size. Deletion vectors
    keep their places in the file.
    """
    staged = change.staged(file.file_path)
    if file.file_format == "puffin":
        data = with_footer(
            storage.read(file.file_path), lambda footer: _footer(footer, change), file.file_path
        )
        storage.write(staged, data, overwrite=True)
        return len(data)
    context = WriteContext(
        POSITION_SCHEMA,
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        storage,
        metadata.location,
        properties_of_deletes(metadata.properties),
        file.file_format,
        deletes=DeleteKind("position"),
    )
    own = replace(file, partition=())
    task = FileScanTask(
        None, 0, None, UNPARTITIONED_PARTITION_SPEC, TaskFacts(own, None, None, None, WHOLLY)
    )
    read = ReadContext(POSITION_SCHEMA, storage, POSITION_SCHEMA, name_mapping=_NAMES)
    batches = [_batch(batch, change) for batch in read_task(task, read)]
    with storage.open_output(staged, overwrite=True) as sink:
        writer = context.writer(sink)
        writer.write(batches)
        writer.close()
        return int(sink.tell())


def _batch(batch: pa.RecordBatch, change: PathChange) -> pa.RecordBatch:
    paths = batch.column(0).dictionary_encode()
    named = [change.new(p) if change.covers(p) else p for p in paths.dictionary.to_pylist()]
    renamed = pa.array(named, batch.schema.field(0).type).take(paths.indices)
    return pa.RecordBatch.from_arrays([renamed, batch.column(1)], schema=batch.schema)


def _footer(footer: dict[str, Any], change: PathChange) -> dict[str, Any]:
    def blob(described: dict[str, Any]) -> dict[str, Any]:
        properties = described.get("properties") or {}
        path = properties.get(_REFERENCED)
        if path is None or not change.covers(path):
            return described
        return {**described, "properties": {**properties, _REFERENCED: change.new(path)}}

    return {**footer, "blobs": [blob(b) for b in footer.get("blobs", [])]}
