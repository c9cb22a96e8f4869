"""Metadata files of one table: their bytes, their names, the log of earlier ones (spec, "Table Metadata and Snapshots")."""

from __future__ import annotations

import gzip
import logging
import os
import re
import uuid
from dataclasses import replace

from frazil.catalog.base import LoadedTable
from frazil.codec.metadata_json import decode_metadata, encode_metadata
from frazil.errors import CorruptData
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import METADATA_CODEC, METADATA_DELETE_AFTER_COMMIT, METADATA_PREVIOUS_VERSIONS
from frazil.spec.snapshot import MetadataLogEntry
from frazil.storage import Storage, is_inside
from frazil.storage.locations import metadata_location, metadata_root, parent

logger = logging.getLogger("frazil.catalog")
_NUMBER = re.compile(r"(\d{1,9})-")
_METADATA_NAME = re.compile(r".*\.metadata\.json(\.gz)?")
_OF_CATALOG = re.compile(r"(\d{1,9})-[^/]+\.metadata\.json(?:\.gz)?")


def is_metadata_file(location: str) -> bool:
    return _METADATA_NAME.fullmatch(location.rpartition("/")[2]) is not None


def newest_of_catalog(storage: Storage, root: str) -> list[str] | None:
    """The files `<number>-<uuid>.metadata.json` with the highest number under a table's directory; None: there are none."""
    numbered: dict[int, list[str]] = {}
    for name in storage.names(f"{root}/metadata"):
        if found := _OF_CATALOG.fullmatch(name):
            numbered.setdefault(int(found[1]), []).append(f"{root}/metadata/{name}")
    return sorted(numbered[max(numbered)]) if numbered else None


def wants_gzip(metadata: TableMetadata) -> bool:
    """Table property write.metadata.compression-codec: none (default) or gzip."""
    return METADATA_CODEC.of(metadata.properties) == "gzip"


def encode(metadata: TableMetadata, gzipped: bool) -> bytes:
    data = encode_metadata(metadata)
    return gzip.compress(data, 6, mtime=0) if gzipped else data


def read(storage: Storage, location: str) -> TableMetadata:
    """Raises NoSuchFileError, CorruptData."""
    return decode_metadata(read_bytes(storage, location), file=location)


def read_bytes(storage: Storage, location: str) -> bytes:
    """A metadata file as it is. Raises NoSuchFileError, and CorruptData for a symbolic link that leaves the table.

    Directories may be links (a warehouse, a table, its `metadata`), and so may a file that points to another one of its own table. A link
    to anything else would show, and let commits follow, what is no file of this table.
    """
    path = storage.local_path(location)
    if path is not None and os.path.islink(path):
        directory, target = os.path.dirname(os.path.abspath(path)), os.path.realpath(path)
        table = os.path.dirname(directory) if os.path.basename(directory) == "metadata" else directory
        if not any(is_inside(target, os.path.realpath(root)) for root in (directory, table)):
            raise CorruptData(
                f"Metadata file {location} is a symbolic link that leaves the table, to {target}.",
                hint="Give the path of the file itself, or put a copy of it there.", file=location,
            )  # fmt: skip
    return storage.read(location)


def new_location(base: LoadedTable | None, metadata: TableMetadata) -> str:
    """The next `<number>-<uuid>.metadata.json` of a table that a catalog points to."""
    number = 0
    if base is not None:
        found = _NUMBER.match(base.metadata_location.rpartition("/")[2])
        number = int(found[1]) + 1 if found else 1
    name = f"{number:05d}-{uuid.uuid4()}{'.gz' if wants_gzip(metadata) else ''}.metadata.json"
    return metadata_location(metadata.location.rstrip("/"), metadata.properties, name)


def with_log(base: LoadedTable, metadata: TableMetadata) -> tuple[TableMetadata, tuple[str, ...]]:
    """`metadata` with `base`'s file at the end of its log, and the files that fell off (write.metadata.previous-versions-max, 100)."""
    kept = max(1, METADATA_PREVIOUS_VERSIONS.of(metadata.properties))
    log = (*base.metadata.metadata_log, MetadataLogEntry(base.metadata.last_updated_ms, base.metadata_location))
    return replace(metadata, metadata_log=log[-kept:]), tuple(e.metadata_file for e in log[:-kept])


def delete_fallen(storage: Storage, metadata: TableMetadata, fallen: tuple[str, ...]) -> None:
    """After a commit, when write.metadata.delete-after-commit.enabled says so. A failure leaves files, never harms the commit.

    Only metadata files inside the table's own directories go, whatever a log names.
    """
    if not fallen or not METADATA_DELETE_AFTER_COMMIT.of(metadata.properties):
        return
    own = (metadata.location, metadata_root(metadata.location, metadata.properties))
    mine = [f for f in fallen if is_metadata_file(f) and any(is_inside(f, root) for root in own)]
    try:
        failed = storage.delete_many(mine)
    except Exception as error:
        failed = [(f, error) for f in mine]
    for location, problem in failed:
        logger.warning("Could not delete the old metadata file %s: %s", location, problem)


def discard(storage: Storage, location: str) -> None:
    """A metadata file whose commit definitely failed."""
    try:
        failed = storage.delete_many([location])
    except Exception as error:
        failed = [(location, error)]
    for name, problem in failed:
        logger.warning("Could not delete the metadata file %s of a failed commit: %s", name, problem)


def in_log(metadata: TableMetadata, location: str) -> bool:
    return any(e.metadata_file == location for e in metadata.metadata_log)


def root_of(metadata_file: str) -> str:
    """The directory of a path table, from one of its metadata files."""
    return parent(parent(metadata_file))
