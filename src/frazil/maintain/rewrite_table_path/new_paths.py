"""Replace the prefix of every path that table metadata, manifests and delete files name.

`PathChange` changes metadata and manifests. `rewrite_delete_file` writes position delete files and
deletion vectors anew, which name the data files that they delete from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.write.write_context import POSITION_SCHEMA, DeleteKind, WriteContext
from frazil.codec.puffin import with_footer
from frazil.errors import InvalidInput, Unsupported
from frazil.scan.tasks import WHOLLY, FileScanTask, TaskFacts
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import UNPARTITIONED_PARTITION_SPEC
from frazil.spec.properties import PLACES, properties_of_deletes
from frazil.spec.schema import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID
from frazil.spec.snapshot import Snapshot, Snapshots
from frazil.spec.sorting import UNSORTED_SORT_ORDER
from frazil.storage import Storage, is_inside, normalise

_PATH_PROPERTIES = tuple(place.name for place in PLACES)


@dataclass(frozen=True)
class PathChange:
    """Replace one directory by another in paths, and name where the copy of a file is staged. No
    directory ends in a slash. Paths may spell the directory in another way (`/x`, `file:/x`,
    `file:///x`; `s3`, `s3a`)."""

    source: str
    target: str
    staging: str

    def new(self, path: str) -> str:
        """Return the path below the target. Raises InvalidInput for one that is not below the
        source.
        """
        return f"{self.target}{self._below(path)}"

    def staged(self, path: str) -> str:
        """Return where the changed copy of a file is written."""
        return f"{self.staging}{self._below(path)}"

    def covers(self, path: str) -> bool:
        return (
            path == self.source
            or path.startswith(f"{self.source}/")
            or is_inside(path, self.source)
        )

    def _below(self, path: str) -> str:
        if not self.covers(path):
            raise InvalidInput(
                f"Path {path} does not start with {self.source}/.",
                hint="source_prefix is a directory above all files of the table.",
                file=path,
            )
        as_spelled = path == self.source or path.startswith(f"{self.source}/")
        return (
            path[len(self.source) :]
            if as_spelled
            else normalise(path)[len(normalise(self.source)) :]
        )

    def metadata(self, metadata: TableMetadata) -> TableMetadata:
        """Return table metadata with other paths: location, properties, snapshots, statistics, and
        the log of metadata files.
        """
        properties = {
            k: self.new(v.rstrip("/")) if k in _PATH_PROPERTIES else v
            for k, v in metadata.properties.items()
        }
        return replace(
            metadata,
            location=self.new(metadata.location),
            properties=properties,
            snapshots=Snapshots.of(self._snapshot(s) for s in metadata.snapshots),
            statistics=tuple(map(self._statistics, metadata.statistics)),
            partition_statistics=tuple(map(self._statistics, metadata.partition_statistics)),
            metadata_log=tuple(
                replace(e, metadata_file=self.new(e.metadata_file)) for e in metadata.metadata_log
            ),
        )

    def _snapshot(self, snapshot: Snapshot) -> Snapshot:
        if snapshot.manifest_list is None:
            raise Unsupported(
                f"Snapshot {snapshot.snapshot_id} names its manifests without a manifest list; it cannot be moved.",
                hint="Expire it first.",
                snapshot_id=snapshot.snapshot_id,
            )
        return replace(snapshot, manifest_list=self.new(snapshot.manifest_list))

    def _statistics(self, statistics: Mapping[str, Any]) -> dict[str, Any]:
        return {**statistics, "statistics-path": self.new(statistics["statistics-path"])}

    def data_file(self, file: DataFile, sizes: Mapping[str, int]) -> DataFile:
        """Return a manifest entry's file with other paths. `sizes`: those of the delete files that
        were rewritten.
        """
        if file.content == DataFileContent.POSITION_DELETES:
            named = file.referenced_data_file
            file = replace(
                file,
                file_size_in_bytes=sizes.get(file.file_path, file.file_size_in_bytes),
                referenced_data_file=self.new(named)
                if named is not None and self.covers(named)
                else named,
                **self._bounds(file),
            )
        return replace(file, file_path=self.new(file.file_path))

    def _bounds(self, file: DataFile) -> dict[str, Any]:
        """Return the bounds of a position delete file. Those of paths that do not begin with the
        source as a whole are dropped.
        """
        ends = {
            side: dict(bounds)
            for side in ("lower_bounds", "upper_bounds")
            if (bounds := getattr(file, side)) is not None
        }
        texts = {
            side: b[DELETE_FILE_PATH_ID].decode("utf-8", "replace")
            for side, b in ends.items()
            if DELETE_FILE_PATH_ID in b
        }
        usable = len(texts) == 2 and all(t.startswith(f"{self.source}/") for t in texts.values())
        for side in texts:
            if usable:
                ends[side][DELETE_FILE_PATH_ID] = self.new(texts[side]).encode()
            else:
                del ends[side][DELETE_FILE_PATH_ID]
        return {**ends}


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
