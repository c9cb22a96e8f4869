"""Delete the files of a dropped table: those that its metadata reaches and that lie in the table's
own directories.

A manifest can name any file, for example one of another table, or one added by `add_files`. Such
files are listed in the log, and stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from frazil.catalog.base import LoadedTable
from frazil.catalog.own_files import own_places
from frazil.errors import ValidationException
from frazil.scan.listing import reachable as listing
from frazil.scan.scan_log.files import log_files
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import GC_ENABLED
from frazil.storage import normalise

logger = logging.getLogger("frazil.catalog")
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
    """Return the reachable files, and those of the scan log, in the table's own directories, and
    those elsewhere; each file once. `root`: the actual directory of a path table."""
    unique = list(
        {
            normalise(f): f for f in (*reachable(table), *log_files(table.metadata, table.storage))
        }.values()
    )
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
