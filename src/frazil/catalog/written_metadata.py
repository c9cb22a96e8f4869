"""Keep the metadata that this process has written last, so that loading a table after an own commit
does not decode it from JSON again.

It is recognised by the bytes of the file that is read: whatever others write under the same name is
decoded. Of path tables this process keeps as well which version it has seen last as the newest, so
that the next load need not list a long directory.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import replace

from frazil.spec.metadata import TableMetadata

_MOST_TABLES, _MOST_BYTES = 8, 32 << 20
_MOST_HEADS = 256


class WrittenMetadata:
    """Hold the newest metadata of a few tables with the bytes of its file. Safe for threads and
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
                or sum(len(written) for written, _ in self._by_table.values()) > _MOST_BYTES
            ):
                self._by_table.popitem(last=False)

    def of(self, data: bytes) -> TableMetadata | None:
        """Return the metadata of a file with these bytes, with dictionaries that no other caller
        has; None: it is not kept.
        """
        with self._lock:
            metadata = next(
                (metadata for written, metadata in self._by_table.values() if written == data), None
            )
        if metadata is None:
            return None
        return replace(
            metadata,
            properties=dict(metadata.properties),
            refs=dict(metadata.refs),
            extra=dict(metadata.extra),
        )


class KnownHeads:
    """Hold the location of the metadata file that was current last, by the directory of the table.
    Safe for threads and across a fork: each step is one operation of a dictionary, and whoever
    reads a location checks it against the store."""

    def __init__(self) -> None:
        self._by_root: dict[str, str] = {}

    def clear(self) -> None:
        self._by_root.clear()

    def keep(self, root: str, location: str) -> None:
        """Keep the location, and let those of the tables go that were asked for longest ago."""
        self._by_root.pop(root, None)
        self._by_root[root] = location
        for oldest in list(self._by_root)[:-_MOST_HEADS]:
            self._by_root.pop(oldest, None)

    def of(self, root: str) -> str | None:
        return self._by_root.get(root)
