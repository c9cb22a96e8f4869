"""Which files a table reaches, and their deletion when a dropped table is purged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from frazil.catalog.base import LoadedTable
from frazil.errors import ValidationError
from frazil.scan.listing import reachable as listing
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import GC_ENABLED
from frazil.storage import Storage, is_inside, normalise

logger = logging.getLogger("frazil.catalog")


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


def files_outside(table: LoadedTable, root: str) -> list[str]:
    """Reachable files that do not lie in the table's directory."""
    return [f for f in reachable(table) if not is_inside(f, root)]


def delete(storage: Storage, locations: Iterable[str]) -> None:
    """Each file once; failures are reported in the log, for the table is gone already."""
    unique = list({normalise(f): f for f in locations}.values())
    for location, error in storage.delete_many(unique):
        logger.warning("Purge could not delete %s: %s", location, error)
