"""Delete the files of a dropped table: those that its metadata reaches and that lie in the table's own directories.

A manifest can name any file, for example one of another table, or one added by `add_files`. Such files are listed in the log, and stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from frazil.catalog.base import LoadedTable
from frazil.errors import ValidationException
from frazil.scan.listing import reachable as listing
from frazil.scan.scan_log.files import log_files
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import DATA_PATH, GC_ENABLED, METADATA_PATH, OLD_DATA_PATHS
from frazil.storage import is_inside, normalise
from frazil.storage.locations import join
from frazil.storage.real_paths import RealPaths

logger = logging.getLogger("frazil.catalog")
_PLACES = (DATA_PATH, METADATA_PATH, *OLD_DATA_PATHS)
_SHOWN = 20


def reachable(table: LoadedTable) -> Iterator[str]:
    """Yield every file of every retained snapshot: manifest lists, manifests, statistics, metadata files, and data files. A file that
    cannot be read is logged and skipped, along with the files that it names."""
    groups = listing.reachable(
        table.metadata, table.storage, metadata_location=table.metadata_location, contents=True, removed=True,
        unreadable=lambda file, error: logger.warning("Purge leaves the files of %s: %s", file, error),
    )  # fmt: skip
    for files in groups:
        yield from files.paths.to_pylist()


def check_gc(metadata: TableMetadata, name: str) -> None:
    """Check that files of a table may be deleted, before it is dropped. Raises ValidationException when gc.enabled is false: another table
    may need not only the data files, but, registered from the same metadata, every file. ValidationError for a value that is no flag."""
    if not GC_ENABLED.of(metadata.properties):
        raise ValidationException(
            f"Cannot purge table {name}: GC is disabled (deleting files may corrupt other tables)",
            hint="drop_table drops it without its files. If no other table shares them, set the table property gc.enabled to true before.",
            table=name,
        )  # fmt: skip


def own_places(metadata: TableMetadata, root: str | None = None) -> tuple[str, ...]:
    """Return the directories that belong to a table: its location (or `root`, the actual directory of a path table), and those that
    properties name (write.data.path, write.metadata.path and their older names)."""
    places = (root or metadata.location, *(metadata.properties.get(place.name, "") for place in _PLACES))
    return tuple(place for place in places if normalise(place).strip("/"))  # "/" holds files of anybody


def own_and_others(table: LoadedTable, root: str | None = None) -> tuple[list[str], list[str]]:
    """Return the reachable files, and those of the scan log, in the table's own directories, and those elsewhere; each file once."""
    unique = {normalise(f): f for f in (*reachable(table), *log_files(table.metadata, table.storage))}.values()
    real = RealPaths()
    directories = own_places(table.metadata, root)
    real_directories = [real.of(join(normalise(place), "")).rstrip("/") for place in directories]

    def is_own(file: str) -> bool:
        """Tell whether a file lies in a directory of the table by its name, and does not leave it through a symbolic link."""
        return any(is_inside(file, p) for p in directories) and any(is_inside(real.of(normalise(file)), p) for p in real_directories)

    own_files = {f for f in unique if is_own(f)}
    return [f for f in unique if f in own_files], [f for f in unique if f not in own_files]


def delete(table: LoadedTable, own_files: Iterable[str], others: Sequence[str]) -> tuple[str, ...]:
    """Delete a dropped table's own files. Returns all files that stay: the others, and those that could not be deleted. Both are logged,
    since the table can no longer be asked for them."""
    if others:
        shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        logger.warning("Purge of %s leaves %d files outside its directories: %s", table.metadata.location, len(others), shown)
    failed = table.storage.delete_many(own_files)
    for location, error in failed:
        logger.warning("Purge could not delete %s: %s", location, error)
    return (*others, *(location for location, _ in failed))
