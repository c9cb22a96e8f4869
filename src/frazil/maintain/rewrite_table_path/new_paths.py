"""Replace the prefix of every path that table metadata, manifests and delete files name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import DATA_PATH, METADATA_PATH, OLD_DATA_PATHS
from frazil.spec.schema import DELETE_FILE_PATH_ID
from frazil.spec.snapshot import Snapshot, Snapshots
from frazil.storage import is_inside, normalise

_PATH_PROPERTIES = tuple(prop.name for prop in (DATA_PATH, METADATA_PATH, *OLD_DATA_PATHS))


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
