"""Keep which version of each path table this process has seen last as the newest, so that the next load need not list a long directory."""

from __future__ import annotations

_MOST_TABLES = 256


class KnownHeads:
    """Hold the location of the metadata file that was current last, by the directory of the table. Safe for threads and across a fork: each
    step is one operation of a dictionary, and whoever reads a location checks it against the store."""

    def __init__(self) -> None:
        self._by_root: dict[str, str] = {}

    def clear(self) -> None:
        self._by_root.clear()

    def keep(self, root: str, location: str) -> None:
        """Keep the location, and let those of the tables go that were asked for longest ago."""
        self._by_root.pop(root, None)
        self._by_root[root] = location
        for oldest in list(self._by_root)[:-_MOST_TABLES]:
            self._by_root.pop(oldest, None)

    def of(self, root: str) -> str | None:
        return self._by_root.get(root)
