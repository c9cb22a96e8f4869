"""Move old records of committed partitions from the table property to immutable files, so that
metadata stays small however long a stream runs.

Files lie in `metadata/_partition_commits/`, since clean-ups of orphan files pass over names that
begin with an underscore. If a file is lost nevertheless, a warning is logged and its partitions
count as never committed. Pending partitions are never archived, so none is lost.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import MetadataChange
from frazil.commit.context import remove
from frazil.commit.table_commit import commit
from frazil.errors import CommitStateUnknownException, FrazilError, NoSuchFileError
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Update
from frazil.storage import Storage
from frazil.storage.locations import join, metadata_location, parent
from frazil.stream.partitions.fields import Partition
from frazil.stream.partitions.state import (
    Archive,
    Done,
    PartitionState,
    decode_done,
    encode_done,
    key,
    state_of,
    updates_to,
)

log = logging.getLogger(__name__)
MOST_DONE, KEPT = 512, 128
MOST_ARCHIVES = 64  # archive files that a reader keeps in memory, at most
_LOST = "The archive of partition commits %s is %s: the partitions that it held count as never committed."


@dataclass
class ArchiveReader:
    """Look up done partitions in archive files. They never change, so each is read once; the last
    ones read are kept.
    """

    done_by_file: dict[str, dict[Partition, Done]] = field(default_factory=dict)

    def find(
        self, partition: Partition, state: PartitionState, metadata: TableMetadata, storage: Storage
    ) -> Done | None:
        """Find the newest record of a partition in the archives of a state; None: it was never
        done, or its archive is lost.
        """
        wanted = key(partition)
        for archive in reversed(state.archives):
            if (
                archive.low <= wanted <= archive.high
                and (done := self._done_in(archive, metadata, storage).get(partition)) is not None
            ):
                return done
        return None

    def all(
        self, state: PartitionState, metadata: TableMetadata, storage: Storage
    ) -> dict[Partition, Done]:
        """Collect all done partitions, each as of its newest record."""
        done_partitions: dict[Partition, Done] = {}
        for archive in state.archives:
            done_partitions |= self._done_in(archive, metadata, storage)
        return done_partitions | dict(state.done)

    def _done_in(
        self, archive: Archive, metadata: TableMetadata, storage: Storage
    ) -> dict[Partition, Done]:
        location = _location(metadata, archive.file)
        done_partitions = self.done_by_file.pop(location, None)
        self.done_by_file[location] = done_partitions = (
            _read(location, storage) if done_partitions is None else done_partitions
        )
        if len(self.done_by_file) > MOST_ARCHIVES:
            self.done_by_file.pop(next(iter(self.done_by_file)), None)
        return done_partitions


def _location(metadata: TableMetadata, file: str) -> str:
    return join(
        parent(metadata_location(metadata.location, metadata.properties, file)),
        "_partition_commits",
        file,
    )


def _read(location: str, storage: Storage) -> dict[Partition, Done]:
    try:
        return decode_done(json.loads(storage.read(location)))
    except NoSuchFileError:
        log.warning(_LOST, location, "gone")
    except (ValueError, TypeError) as e:
        log.warning(_LOST, location, f"damaged ({e})")
    return {}


def archive_old(backend: CatalogBackend, table: LoadedTable, branch: str) -> LoadedTable:
    """Move the oldest done partitions to an archive file when the property holds many; return the
    table's newest state.
    """
    state = state_of(table.metadata, branch)
    if len(state.done) <= MOST_DONE:
        return table
    oldest = dict(list(state.done.items())[:-KEPT])
    keys = sorted(map(key, oldest))
    archive = Archive(f"{uuid.uuid4()}.json", keys[0], keys[-1])
    location = _location(table.metadata, archive.file)
    table.storage.write(location, json.dumps(encode_done(oldest), separators=(",", ":")).encode())

    def moved(metadata: TableMetadata) -> Sequence[Update]:
        current = state_of(metadata, branch)
        not_archived = {p: d for p, d in current.done.items() if oldest.get(p) != d}
        if len(not_archived) == len(current.done):
            return ()
        return updates_to(
            replace(current, done=not_archived, archives=(*current.archives, archive)),
            metadata,
            branch,
        )

    try:
        return commit(backend, table, [MetadataChange(moved)]).table
    except CommitStateUnknownException:
        raise
    except FrazilError:
        remove(table.storage, [location], "an archive of partition commits")
        raise
