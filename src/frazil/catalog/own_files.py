"""Tell which files are a table's own, and delete those of a dropped table. Only these are ever
deleted: the one rule of purges, expiry, orphan removal and commits' clean-ups.

Metadata can name any file and any directory, and a REST server can tell any metadata. A directory
that metadata names (`location`, `write.data.path`, `write.metadata.path`) is the table's own where
the table's current metadata file lies below it, and a file with the table's uuid is really there;
the others that this file names count with it. So do directories in which the table lay before, if
one of its logged metadata files is still there. Files elsewhere, such as those of `add_files`, may
be those of other tables: a purge lists them in the log, and they stay.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalog import metadata_files
from frazil.catalog.base import LoadedTable, ToldBy
from frazil.errors import FrazilError, ValidationException
from frazil.scan.delete_ranges import normalised
from frazil.scan.listing import reachable as listing
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import GC_ENABLED, PLACES
from frazil.storage import absolute, is_inside, normalise
from frazil.storage.locations import join, parent, scheme_of
from frazil.storage.real_paths import RealPaths

logger = logging.getLogger("frazil.catalog")
DELETABLE = "deletable-locations"
_STORE = re.compile(r"[^:/]*:(//[^/]*)?")


@dataclass(frozen=True)
class OwnPlaces:
    """Hold the directories that are a table's own, normalised, and for the others that its metadata
    names the reason why they are not.
    """

    directories: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    def owns(self, location: str) -> bool:
        """Tell whether a file or directory lies in one of the directories, also when links are
        followed.
        """
        return bool(self.marked(pa.array([join(location, "x")], pa.string()))[0])

    def marked(self, locations: pa.Array) -> npt.NDArray[np.bool_]:
        """Mark the files that lie in one of the directories by their names, and do not leave them
        through a symbolic link.
        """
        names = normalised(locations)
        inside = self._inside(names, self.directories)
        real = RealPaths()
        real_directories = [real.of(join(place, "")).rstrip("/") for place in self.directories]
        for place, path in real.changed(names):
            inside[place] &= any(is_inside(path, directory) for directory in real_directories)
        return inside

    @staticmethod
    def _inside(names: pa.Array, directories: Sequence[str]) -> npt.NDArray[np.bool_]:
        inside = np.zeros(len(names), np.bool_)
        for directory in directories:
            below = pc.or_(pc.equal(names, directory), pc.starts_with(names, directory + "/"))
            inside |= below.to_numpy(zero_copy_only=False)
        climbs: npt.NDArray[np.bool_] = pc.match_substring_regex(names, r"(^|/)\.\.(/|$)").to_numpy(
            zero_copy_only=False
        )
        return inside & ~climbs

    def why_not(self, location: str) -> str:
        """Say why a file or directory is not the table's own."""
        return next(
            (why for place, why in self.refused.items() if is_inside(location, place)),
            "it is no directory of the table",
        )


def named_places(metadata: TableMetadata, root: str | None = None) -> tuple[str, ...]:
    """Return the directories that a table's metadata names: its location (or `root`, the actual
    directory of a path table), and those of properties (write.data.path, write.metadata.path and
    their older names)."""
    places = (
        root or metadata.location,
        *(metadata.properties.get(place.name, "") for place in PLACES),
    )
    # "/" holds files of anybody
    return tuple(place for place in places if normalise(place).strip("/"))


def own_places(table: LoadedTable, root: str | None = None) -> OwnPlaces:
    """Find the directories that are a table's own. Reads the metadata file where its content is
    known from a server alone.

    `root`: the actual directory of a path table; where its metadata names another one, it is a
    copy, and nothing but `root` is its own.
    """
    metadata = table.metadata
    if root is not None and _real(root) != _real(metadata.location):
        return OwnPlaces(
            (normalise(root),),
            dict.fromkeys(named_places(metadata), f"the table is a copy of it, in {root}"),
        )
    places = named_places(metadata, root)
    current = table.metadata_location
    why = _why_unproven(table, places)
    if why:
        return OwnPlaces((), dict.fromkeys(places, why))
    reasons = {place: _why_not_reached(place, current, table.told_by) for place in places}
    own = [place for place in places if not reasons[place]]
    return OwnPlaces(
        tuple(dict.fromkeys(map(normalise, (*own, *_former_places(table, own))))),
        {place: text for place, text in reasons.items() if text},
    )


def _why_unproven(table: LoadedTable, places: Sequence[str]) -> str:
    """Say why the table's metadata file does not show that any directory is the table's own; ""
    where it does.
    """
    current, uuid = table.metadata_location, table.metadata.table_uuid
    if not any(_lies_in(current, place) for place in places):
        return f"the table's metadata file {current} lies elsewhere. It is a copy, as it seems"
    if table.told_by is None:
        return ""  # it was read from there
    try:
        stored = metadata_files.read(table.storage, current)
    except FrazilError as error:
        return f"the metadata file {current}, which the catalog's server names, cannot be read ({error.message})"
    if (
        uuid is None
        or stored.table_uuid != uuid
        or normalise(stored.location) != normalise(table.metadata.location)
    ):
        return f"the metadata file {current}, which the catalog's server names, is not that of the table"
    return ""


def _why_not_reached(place: str, current: str, told_by: ToldBy | None) -> str:
    """Say why a directory is not the table's own, although its metadata file names it; "" where it
    is.
    """
    if told_by is None or any(is_inside(place, allowed) for allowed in told_by.deletable):
        return ""
    hint = f"the catalog property {DELETABLE} allows it"
    if scheme_of(place) == "file" and not told_by.is_here:
        return f"it is on this machine, where the catalog's server is not; {hint}"
    if _lies_in(current, place) or (
        scheme_of(place) != "file" and _store(place) == _store(current)
    ):
        return ""
    return f"the table's metadata file {current} does not lie below it; {hint}"


def _lies_in(file: str, directory: str) -> bool:
    return is_inside(file, directory) or is_inside(_real(file), _real(directory))


def _real(location: str) -> str:
    """Normalise a location, with the symbolic links in a local path resolved."""
    name = normalise(location)
    return os.path.realpath(name) if name.startswith("/") else name


def _store(location: str) -> str:
    """Return the scheme and the bucket or host of a location."""
    match = _STORE.match(normalise(location))
    return match[0] if match else ""


def _former_places(table: LoadedTable, own: Sequence[str]) -> Iterator[str]:
    """Yield the directories in which the table lay before, as its metadata log shows, where one of
    its metadata files still is there.
    """
    if not own or table.told_by is not None:
        return  # a server can tell any log
    logged = {parent(e.metadata_file): e.metadata_file for e in table.metadata.metadata_log}
    for directory, file in logged.items():
        if not directory.endswith("/metadata") or any(is_inside(directory, place) for place in own):
            continue
        try:
            former = metadata_files.read(table.storage, file)
        except FrazilError:
            continue
        if (
            former.table_uuid is not None
            and former.table_uuid == table.metadata.table_uuid
            and is_inside(file, former.location)
        ):
            yield former.location


def told_by(properties: Mapping[str, str]) -> ToldBy:
    """Describe the server of a REST catalog, by the properties that are configured here: whether it
    runs on this machine, and where files may be deleted although nothing but its word shows that
    they are the table's."""
    host = urlsplit(properties.get("uri", "")).hostname or ""
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost" or host.endswith(".localhost")
    return ToldBy(
        is_here,
        tuple(
            absolute(part.strip())
            for part in properties.get(DELETABLE, "").split(",")
            if part.strip()
        ),
    )


def delete_fallen(
    base: LoadedTable, metadata: TableMetadata, fallen: tuple[str, ...], root: str | None = None
) -> None:
    """Delete the metadata files that a commit has removed from the log (`with_log`). A failure is
    logged and leaves files behind; it never fails the commit.

    Only metadata files inside the table's own directories go, whatever a log names. `root`: the
    directory of a path table.
    """
    own = own_places(replace(base, metadata=metadata), root)
    failed = []
    # one by one, since a store may delete many at once in any order, and path tables need the
    # oldest to go first
    for old in fallen:
        if not metadata_files.is_metadata_file(old) or not own.owns(old):
            continue
        try:
            failed += base.storage.delete_many([old])
        except Exception as error:
            failed.append((old, error))
    for location, problem in failed:
        logger.warning("Could not delete the old metadata file %s: %s", location, problem)


_SHOWN = 20


def reachable(table: LoadedTable) -> Iterator[str]:
    """Yield every file of every retained snapshot: manifest lists, manifests, statistics, metadata
    files, and data files. A file that cannot be read is logged and skipped, along with the files
    that it names."""
    groups = listing.reachable(
        table.metadata,
        table.storage,
        metadata_location=table.metadata_location,
        contents=True,
        removed=True,
        unreadable=lambda file, error: logger.warning(
            "Purge leaves the files of %s: %s", file, error
        ),
    )
    for files in groups:
        yield from files.paths.to_pylist()


def check_gc(metadata: TableMetadata, name: str) -> None:
    """Check that files of a table may be deleted, before it is dropped. Raises ValidationException
    when gc.enabled is false: another table may need not only the data files, but, registered from
    the same metadata, every file. ValidationError for a value that is no flag."""
    if not GC_ENABLED.of(metadata.properties):
        raise ValidationException(
            f"Cannot purge table {name}: GC is disabled (deleting files may corrupt other tables)",
            hint="drop_table drops it without its files. If no other table shares them, set the table property gc.enabled to true before.",
            table=name,
        )


def own_and_others(table: LoadedTable, root: str | None = None) -> tuple[list[str], list[str]]:
    """Return the reachable files in the table's own directories, and those elsewhere; each file
    once. `root`: the actual directory of a path table."""
    unique = list({normalise(f): f for f in reachable(table)}.values())
    own = own_places(table, root).marked(pa.array(unique, pa.string()))
    return [f for f, is_own in zip(unique, own, strict=True) if is_own], [
        f for f, is_own in zip(unique, own, strict=True) if not is_own
    ]


def delete(table: LoadedTable, own_files: Iterable[str], others: Sequence[str]) -> tuple[str, ...]:
    """Delete a dropped table's own files. Returns all files that stay: the others, and those that
    could not be deleted. Both are logged, since the table can no longer be asked for them."""
    if others:
        shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        logger.warning(
            "Purge of %s leaves %d files outside its directories: %s",
            table.metadata.location,
            len(others),
            shown,
        )
    failed = table.storage.delete_many(own_files)
    for location, error in failed:
        logger.warning("Purge could not delete %s: %s", location, error)
    return (*others, *(location for location, _ in failed))


def delete_all(table: LoadedTable) -> tuple[str, ...]:
    """Delete the files of a dropped table as far as they are its own, and return those that stay."""
    return delete(table, *own_and_others(table))
