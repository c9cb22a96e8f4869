"""Which files a table reaches, and their deletion when a dropped table is purged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from frazil.catalog.base import LoadedTable
from frazil.codec.manifest import decode_manifest
from frazil.codec.manifest_list import decode_manifest_list
from frazil.errors import CorruptData, NoSuchFileError
from frazil.spec.manifest import ManifestFile
from frazil.spec.properties import GC_ENABLED
from frazil.storage import Storage, is_inside, normalise

logger = logging.getLogger("frazil.catalog")


def reachable(table: LoadedTable) -> Iterator[str]:
    """Every file of every retained snapshot: data (only when gc.enabled is not false), manifests, lists, statistics, metadata.

    A file that cannot be read hides what it names; it is reported in the log and passed over.
    """
    metadata, storage = table.metadata, table.storage
    with_data = GC_ENABLED.of(metadata.properties)
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        manifests: tuple[ManifestFile, ...] = ()
        if snapshot.manifest_list is not None:
            try:
                manifests = decode_manifest_list(storage.read(snapshot.manifest_list), snapshot.manifest_list)
            except (CorruptData, NoSuchFileError) as error:
                logger.warning("Purge leaves the files of %s: %s", snapshot.manifest_list, error)
        for manifest in manifests:
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                if with_data:
                    yield from _data_files(storage, manifest)
                yield manifest.manifest_path
        yield from (m for m in snapshot.manifests or () if m not in seen)
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        if path := statistics.get("statistics-path"):
            yield str(path)
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield table.metadata_location


def _data_files(storage: Storage, manifest: ManifestFile) -> Iterator[str]:
    try:
        data = storage.read(manifest.manifest_path)
        yield from map(str, decode_manifest(data, manifest, columns=("file_path",)).column("file_path").to_pylist())
    except (CorruptData, NoSuchFileError) as error:
        logger.warning("Purge leaves the files of %s: %s", manifest.manifest_path, error)


def files_outside(table: LoadedTable, root: str) -> list[str]:
    """Reachable files that do not lie in the table's directory."""
    return [f for f in reachable(table) if not is_inside(f, root)]


def delete(storage: Storage, locations: Iterable[str]) -> None:
    """Each file once; failures are reported in the log, for the table is gone already."""
    unique = list({normalise(f): f for f in locations}.values())
    for location, error in storage.delete_many(unique):
        logger.warning("Purge could not delete %s: %s", location, error)
