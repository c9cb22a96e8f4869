"""Which files a table reaches, and their deletion when a dropped table is purged: only what lies in the table's own places.

A manifest can name any file, also one of another table, or one that `add_files` took in where it lay. Those are listed, and stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from frazil.catalog.base import LoadedTable
from frazil.errors import ValidationError
from frazil.scan.listing import reachable as listing
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import DATA_PATH, GC_ENABLED, METADATA_PATH, OLD_DATA_PATHS
from frazil.storage import is_inside, normalise

logger = logging.getLogger("frazil.catalog")
_PLACES = (DATA_PATH, METADATA_PATH, *OLD_DATA_PATHS)
_SHOWN = 20


def reachable(table: LoadedTable) -> Iterator[str]:
    """Every file of every retained snapshot: data (only when gc.enabled is not false), manifests, lists, statistics, metadata.

    A file that cannot be read hides what it names; it is reported in the log and passed over.
    """
    found = listing.reachable(
        table.metadata, table.storage, metadata_location=table.metadata_location, contents=_takes_data(table.metadata), removed=True,
        unreadable=lambda file, error: logger.warning("Purge leaves the files of %s: %s", file, error),
    )  # fmt: skip
    for files in found:
        yield from files.paths.to_pylist()


def _takes_data(metadata: TableMetadata) -> bool:
    """Whether data files go as well; not when gc.enabled says no, or what nobody can read."""
    try:
        return GC_ENABLED.of(metadata.properties)
    except ValidationError as error:
        logger.warning("Purge leaves the data files of %s: %s", metadata.location, error)
        return False


def own_places(metadata: TableMetadata, root: str | None = None) -> tuple[str, ...]:
    """Directories whose files are the table's: its location (or `root`, where a path table really is) and those that properties name."""
    places = (root or metadata.location, *(metadata.properties.get(place.name, "") for place in _PLACES))
    return tuple(place for place in places if normalise(place).strip("/"))  # of "/" nothing can be told


def own_and_others(table: LoadedTable, root: str | None = None) -> tuple[list[str], list[str]]:
    """Reachable files that lie in the table's own places, and those that do not, each once."""
    unique = {normalise(f): f for f in reachable(table)}.values()
    places = own_places(table.metadata, root)
    mine = {f for f in unique if any(is_inside(f, place) for place in places)}
    return [f for f in unique if f in mine], [f for f in unique if f not in mine]


def delete(table: LoadedTable, mine: Iterable[str], others: Sequence[str]) -> tuple[str, ...]:
    """Delete the table's own files; answers with all that stay: the others, and those that could not be deleted. Both are in the log,
    for the table is gone already."""
    if others:
        shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        logger.warning("Purge of %s leaves %d files that lie outside its places: %s", table.metadata.location, len(others), shown)
    failed = table.storage.delete_many(mine)
    for location, error in failed:
        logger.warning("Purge could not delete %s: %s", location, error)
    return (*others, *(location for location, _ in failed))
