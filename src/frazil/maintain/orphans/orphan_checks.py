"""Refuse to clean up a directory that may hold files of other tables, or of this table as another
catalog has continued it.
"""

from __future__ import annotations

import logging
import os
import uuid

import numpy as np
import pyarrow.compute as pc

from frazil.catalog import LoadedTable, metadata_files
from frazil.catalog.own_files import named_places, own_places
from frazil.errors import FrazilError, ValidationException
from frazil.expr.building import to_numpy
from frazil.maintain.orphans.listing import ListedFiles, with_times
from frazil.spec.metadata import TableMetadata
from frazil.storage import is_inside, normalise
from frazil.storage.locations import join, metadata_root, place_of

_log = logging.getLogger("frazil.maintain")
_MOST_AHEAD_MS = 3_600_000
_LOOKED_AT = (
    20  # unknown metadata files of the table's own directory that are read, the newest ones
)


def check_place(table: LoadedTable, location: str | None) -> str:
    """Return the directory to clean up (None: the table's location). Raises ValidationException for
    one that is not the table's own.
    """
    metadata, own = table.metadata, own_places(table)
    place = metadata.location if location is None else place_of(location)
    if own.owns(place):
        return place
    path = table.storage.local_path(place)
    if any(is_inside(place, directory) for directory in own.directories) and path is not None:
        raise ValidationException(
            f"Cannot remove orphan files in {place}: a symbolic link leads from there to {os.path.realpath(path)}, outside of the table.",
            hint="Give the directory itself, if it is one of the table's own.",
            table=metadata.location,
        )
    named = any(is_inside(place, directory) for directory in named_places(metadata))
    why = own.why_not(place) if named else "files there may be others'"
    raise ValidationException(
        f"Cannot remove orphan files in {place}: it is not certain that it is a directory of table {metadata.location}: {why}.",
        hint=f"Directories of the table are {', '.join(own.directories) or 'not known'}.",
        table=metadata.location,
        file=table.metadata_location or None,
    )


def metadata_directories(table: LoadedTable, place: str) -> list[str]:
    """List the directories outside of `place` that may hold metadata of tables whose files are in
    it: the table's own, and those that a table has whose directory lies between the table's and
    `place`."""
    metadata = table.metadata
    directories = [metadata_root(metadata.location, metadata.properties)]
    above = place.rstrip("/").rpartition("/")[0]
    while any(is_inside(above, own) for own in named_places(metadata)):
        directories.append(join(above, "metadata"))
        above = above.rpartition("/")[0]
    distinct = {normalise(directory): directory for directory in reversed(directories)}
    return [directory for directory in distinct.values() if not is_inside(directory, place)]


def refuse_fast_clock(table: LoadedTable, now_ms: int) -> None:
    """Compare the clock of this machine (`now_ms`) with that of the store, by the time of a file
    that is written for it and removed again.

    Raises ValidationException where ours is ahead by more than an hour: files of writers that are
    still at work would look old. A store that takes no file, as one whose quota is used up, cannot
    be asked; a warning says so.
    """
    storage, metadata = table.storage, table.metadata
    directory = join(
        metadata_root(metadata.location, metadata.properties), f".clock.{uuid.uuid4().hex}.tmp"
    )
    try:
        storage.write(join(directory, "now"), b"now", durable=False)
        try:
            times = [file.modified_ms for file in storage.entries(directory)[1]]
        finally:
            storage.delete_tree(directory)
    except FrazilError as error:
        _log.warning(
            "The clock of the store of %s cannot be compared with ours: %s",
            metadata.location,
            error,
        )
        return
    ahead_ms = now_ms - max(times, default=now_ms)
    if ahead_ms > _MOST_AHEAD_MS:
        raise ValidationException(
            f"Cannot remove orphan files of table {metadata.location}: the clock of this machine is {ahead_ms / 60_000:,.0f} minutes "
            "ahead of that of the store, so that files of writers that are at work may look old.",
            hint="Set the clock. If nobody writes to the table, allow_short_interval=True goes without this check.",
            table=metadata.location,
        )


def refuse_other_tables(table: LoadedTable, place: str, unknown: ListedFiles) -> None:
    """Look at the metadata files among the files that a table does not name. Raises
    ValidationException when one is that of another table with files in `place`, or shows that
    another catalog goes on with this table."""
    if not len(unknown):
        return
    places = np.flatnonzero(
        to_numpy(pc.match_substring_regex(unknown.paths, r"\.metadata\.json(\.gz)?$"))
    )
    metadata_files = with_times(table.storage, unknown.take(places))
    times = () if metadata_files.modified_ms is None else metadata_files.modified_ms.tolist()
    own = metadata_root(table.metadata.location, table.metadata.properties)
    by_folder: dict[str, list[str]] = {}
    for _, path in sorted(zip(times, metadata_files.paths.to_pylist(), strict=True)):
        # another catalog may be at a lower version
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, files in by_folder.items():
        is_own = normalise(folder) == normalise(own)
        for path in files[-_LOOKED_AT if is_own else -1 :]:
            _check_metadata_file(table, place, path, is_own)


def _check_metadata_file(table: LoadedTable, place: str, path: str, is_own: bool) -> None:
    try:
        other = metadata_files.read(table.storage, path)
    except FrazilError as error:
        if is_own:
            return  # a writer was interrupted: the file is an orphan like others
        raise _refused(table, path, f"which cannot be read ({error})") from error
    if other.table_uuid != table.metadata.table_uuid:
        if not is_inside(path, place) and not any(
            is_inside(place, own) or is_inside(own, place) for own in named_places(other)
        ):
            return  # tables may share a directory of metadata
        raise _refused(table, path, f"which is that of another table ({other.table_uuid})")
    if is_own and _is_another_line(table, other):
        raise _refused(table, path, "which another catalog committed, and goes on with this table")


def _is_another_line(table: LoadedTable, other: TableMetadata) -> bool:
    """Tell whether metadata of the same table follows on metadata that this catalog has never had.
    (A commit that was cut off, and never became the table's state, follows on one that it had.)"""
    log = table.metadata.metadata_log
    if not log or not other.metadata_log or other.last_updated_ms <= log[0].timestamp_ms:
        return False  # the metadata log does not reach back that far
    logged_paths = {normalise(e.metadata_file) for e in log} | {normalise(table.metadata_location)}
    return normalise(other.metadata_log[-1].metadata_file) not in logged_paths


def _refused(table: LoadedTable, path: str, why: str) -> ValidationException:
    return ValidationException(
        f"Cannot remove orphan files of table {table.metadata.location}: there is a metadata file {path}, {why}, and its files would look "
        "like orphans.",
        hint="Give location= of a directory that holds files of this table only. If the file is a leftover, delete it by hand.",
        table=table.metadata.location,
        file=path,
    )
