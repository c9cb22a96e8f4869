"""Read, name and write the metadata files of tables and views, and keep the metadata log of tables
(spec, "Table Metadata and Snapshots").
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import uuid
from collections import OrderedDict
from dataclasses import replace

import deflate

from frazil.catalog.base import LoadedTable, LoadedView
from frazil.codec.metadata_json import MAX_UNZIPPED, decode_metadata, encode_metadata
from frazil.codec.view_json import encode_view
from frazil.errors import CorruptData, InvalidInput
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import (
    METADATA_CODEC,
    METADATA_DELETE_AFTER_COMMIT,
    METADATA_PREVIOUS_VERSIONS,
)
from frazil.spec.snapshot import MetadataLogEntry
from frazil.spec.view import COMPRESSION, ViewMetadata
from frazil.storage import Storage, is_inside, read_whole, settled
from frazil.storage.locations import local_path_of, metadata_location, scheme_of

logger = logging.getLogger("frazil.catalog")
_NUMBER = re.compile(r"(\d{1,9})-")
_METADATA_NAME = re.compile(r".*\.metadata\.json(\.gz)?")
_OF_CATALOG = re.compile(r"(\d{1,9})-[^/]+\.metadata\.json(?:\.gz)?")


def is_metadata_file(location: str) -> bool:
    """Tell whether a location names a metadata file: `….metadata.json` or `….metadata.json.gz`."""
    return _METADATA_NAME.fullmatch(location.rpartition("/")[2]) is not None


def is_of_catalog(location: str) -> bool:
    """Tell whether a metadata file has a number and an id, as catalogs name files that nobody
    writes again.
    """
    return _OF_CATALOG.fullmatch(location.rpartition("/")[2]) is not None


def newest_of_catalog(storage: Storage, root: str) -> list[str] | None:
    """Return the files `<number>-<uuid>.metadata.json` with the highest number below a table's
    directory; None: there are none.
    """
    numbered: dict[int, list[str]] = {}
    for name in storage.names(f"{root}/metadata"):
        if match := _OF_CATALOG.fullmatch(name):
            numbered.setdefault(int(match[1]), []).append(f"{root}/metadata/{name}")
    return sorted(numbered[max(numbered)]) if numbered else None


def wants_gzip(metadata: TableMetadata | ViewMetadata) -> bool:
    """Tell whether metadata files are compressed: property write.metadata.compression-codec, none
    (default of tables) or gzip (of views, as Java's).
    """
    if isinstance(metadata, ViewMetadata):
        return metadata.properties.get(COMPRESSION, "gzip").strip().lower() == "gzip"
    return METADATA_CODEC.of(metadata.properties) == "gzip"


def encode(metadata: TableMetadata | ViewMetadata, gzipped: bool) -> bytes:
    """Return the bytes of a metadata file; the same metadata always gives the same bytes."""
    if isinstance(metadata, ViewMetadata):
        return encode_view(metadata, gzipped)
    data = encode_metadata(metadata)
    # libdeflate takes half the time of zlib, and no time goes in
    data = bytes(deflate.gzip_compress(data, 6)) if gzipped else data
    recent.keep(metadata, data)
    return data


def decode(data: bytes, location: str) -> TableMetadata:
    """Decode the bytes of a metadata file. Raises CorruptData."""
    metadata = recent.of(data)
    if metadata is None:
        metadata = decode_metadata(data, file=location)
        recent.keep(_with_own_dicts(metadata), data)
    return entering(metadata, location)


def entering(metadata: TableMetadata, location: str) -> TableMetadata:
    """Resolve the location in metadata that others have written, before anything is written by it:
    `/w/../t` is `/t`. A relative directory in which the metadata file lies (`location`) is made
    absolute."""
    place = settled(metadata.location)
    with contextlib.suppress(InvalidInput):  # a location on another host
        if scheme_of(place) == "file" and not local_path_of(place).startswith("/"):
            above = os.path.abspath(local_path_of(place))
            place = above if is_inside(os.path.abspath(local_path_of(location)), above) else place
    return metadata if place == metadata.location else replace(metadata, location=place)


def read(storage: Storage, location: str) -> TableMetadata:
    """Read a metadata file. Raises NoSuchFileError, CorruptData."""
    return decode(read_bytes(storage, location), location)


def read_bytes(storage: Storage, location: str) -> bytes:
    """Read the bytes of a metadata file. Raises NoSuchFileError, and CorruptData for a symbolic
    link to a file outside the table.

    Directories may be symbolic links (a warehouse, a table, its `metadata`), and so may a file that
    points to another file of its own table. A link to any other file could make a reader open, and
    a commit continue, what does not belong to this table.
    """
    path = storage.local_path(location)
    if path is not None and os.path.islink(path):
        directory, target = os.path.dirname(os.path.abspath(path)), os.path.realpath(path)
        table = (
            os.path.dirname(directory) if os.path.basename(directory) == "metadata" else directory
        )
        if not any(is_inside(target, os.path.realpath(root)) for root in (directory, table)):
            raise CorruptData(
                f"Metadata file {location} is a symbolic link that leaves the table, to {target}.",
                hint="Give the path of the file itself, or put a copy of it there.",
                file=location,
            )
    return read_whole(storage, location, MAX_UNZIPPED, "metadata file")


def new_location(
    base: LoadedTable | LoadedView | None, metadata: TableMetadata | ViewMetadata
) -> str:
    """Return the location of the next metadata file, `<number>-<uuid>.metadata.json`, of a table or
    view that a catalog points to.
    """
    number = 0
    if base is not None:
        match = _NUMBER.match(base.metadata_location.rpartition("/")[2])
        number = int(match[1]) + 1 if match else 1
    name = f"{number:05d}-{uuid.uuid4()}{'.gz' if wants_gzip(metadata) else ''}.metadata.json"
    return metadata_location(metadata.location.rstrip("/"), metadata.properties, name)


def with_log(base: LoadedTable, metadata: TableMetadata) -> tuple[TableMetadata, tuple[str, ...]]:
    """Return `metadata` with the file of `base` added to its metadata log, which holds at most
    write.metadata.previous-versions-max entries (default 100), and the files to delete after the
    commit: those that drop out of the log, if write.metadata.delete-after-commit.enabled is true.
    """
    most = max(1, METADATA_PREVIOUS_VERSIONS.of(metadata.properties))
    log = (
        *base.metadata.metadata_log,
        MetadataLogEntry(base.metadata.last_updated_ms, base.metadata_location),
    )
    deletes = METADATA_DELETE_AFTER_COMMIT.of(metadata.properties)
    fallen = tuple(e.metadata_file for e in log[:-most]) if deletes else ()
    return replace(metadata, metadata_log=log[-most:]), fallen


def discard(storage: Storage, location: str) -> None:
    """Delete a metadata file whose commit has certainly failed."""
    try:
        failed = storage.delete_many([location])
    except Exception as error:
        failed = [(location, error)]
    for name, problem in failed:
        logger.warning(
            "Could not delete the metadata file %s of a failed commit: %s", name, problem
        )


def in_log(metadata: TableMetadata, location: str) -> bool:
    return any(e.metadata_file == location for e in metadata.metadata_log)


_MOST_TABLES, _MOST_BYTES = 8, 32 << 20
_MOST_HEADS = 256


class RecentMetadata:
    """Hold the metadata of a few tables, as it was read or written last, with the bytes of its
    file: each operation loads the table anew, and mostly finds the same bytes. Safe for threads and
    across a fork.
    """

    def __init__(self) -> None:
        self._by_table: OrderedDict[str, tuple[bytes, TableMetadata]] = OrderedDict()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self.clear)

    def clear(self) -> None:
        """Clear all metadata. The lock is a new one, since a forked process may have inherited one
        that is held for ever.
        """
        self._by_table, self._lock = OrderedDict(), threading.Lock()

    def keep(self, metadata: TableMetadata, data: bytes) -> None:
        """Keep the metadata whose file has these bytes, in place of what the same table had before."""
        with self._lock:
            self._by_table.pop(metadata.location, None)
            self._by_table[metadata.location] = data, metadata
            while (
                len(self._by_table) > _MOST_TABLES
                or sum(len(held) for held, _ in self._by_table.values()) > _MOST_BYTES
            ):
                self._by_table.popitem(last=False)

    def of(self, data: bytes) -> TableMetadata | None:
        """Return the metadata of a file with these bytes, with dictionaries that no other caller
        has; None: it is not kept.
        """
        with self._lock:
            metadata = next(
                (metadata for held, metadata in self._by_table.values() if held == data), None
            )
        if metadata is None:
            return None
        return _with_own_dicts(metadata)


def _with_own_dicts(metadata: TableMetadata) -> TableMetadata:
    return replace(
        metadata,
        properties=dict(metadata.properties),
        refs=dict(metadata.refs),
        extra=dict(metadata.extra),
    )


class KnownHeads:
    """Hold the location of the metadata file that was current last, by the directory of the table,
    and whether others have committed since the look before. Safe for threads and across a fork:
    each step is one operation of a dictionary, and whoever reads a location checks it against the
    store."""

    def __init__(self) -> None:
        self._by_root: dict[str, tuple[str, bool]] = {}

    def clear(self) -> None:
        self._by_root.clear()

    def published(self, root: str, location: str) -> None:
        """Keep the location of a version that this process has published."""
        self._keep(root, location, self._by_root.get(root, ("", False))[1])

    def found(self, root: str, location: str) -> None:
        """Keep the location that a look at the store has found."""
        self._keep(root, location, self._by_root.get(root, (location, False))[0] != location)

    def _keep(self, root: str, location: str, others_commit: bool) -> None:
        """Keep a location, and let those of the tables go that were asked for longest ago."""
        self._by_root.pop(root, None)
        self._by_root[root] = location, others_commit
        for oldest in list(self._by_root)[:-_MOST_HEADS]:
            self._by_root.pop(oldest, None)

    def of(self, root: str) -> str | None:
        """Return the location; None where there is none, and where the last look has found that
        others commit to the table: then it is hardly the newest any more, and to find that out
        takes more requests than a listing.
        """
        location, others_commit = self._by_root.get(root, (None, True))
        return None if others_commit else location


recent = RecentMetadata()
