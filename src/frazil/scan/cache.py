"""Cache decoded manifests in memory, bounded by bytes, evicting the least recently used. Keys name
immutable files: no entry gets stale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

DEFAULT_CACHE_BYTES = 96 * 1024 * 1024


@dataclass(frozen=True)
class CacheInfo:
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class ByteCache:
    """Cache values up to `max_bytes` in total; safe to share among threads. A value larger than a
    quarter of the cache is not kept.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES):
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0

    def get(self, key: Hashable) -> Any | None:
        with self._lock:
            item = self._items.get(key)
            if item is None:
                self._misses += 1
                return None
            self._hits += 1
            self._items.move_to_end(key)
            return item[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        with self._lock:
            old = self._items.pop(key, None)
            self._bytes -= old[1] if old else 0
            if size * 4 > self.max_bytes:
                return
            self._items[key] = (value, size)
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, (_, gone) = self._items.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._bytes = self._hits = self._misses = 0

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(
                len(self._items), self._bytes, self.max_bytes, self._hits, self._misses
            )
