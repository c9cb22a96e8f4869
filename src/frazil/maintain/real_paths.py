"""Resolve symbolic links in the directories of local paths, so that two spellings of one file are known as one."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc


class RealPaths:
    """Resolve the directories of local paths. Each directory is looked at once, so files of one directory cost nothing more."""

    def __init__(self) -> None:
        self._directories = {"": "", "/": ""}

    def of(self, path: str) -> str:
        """Return an absolute path with the links in its directories resolved. The file itself may be a link."""
        directory, _, name = path.rpartition("/")
        return f"{self._directory(directory)}/{name}" if path.startswith("/") else path

    def differing(self, paths: pa.Array) -> list[str]:
        """Return the resolved paths of those files whose directories are reached through links."""
        directories = pc.replace_substring_regex(paths, r"/[^/]*$", "")
        links = [d for d in directories.unique().to_pylist() if d.startswith("/") and self._directory(d) != d]
        if not links:
            return []
        return [self.of(path) for path in paths.filter(pc.is_in(directories, value_set=pa.array(links, pa.string()))).to_pylist()]

    def _directory(self, path: str) -> str:
        known = self._directories.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            known = f"{self._directory(above)}/{name}"
            if name == ".." or os.path.islink(known):
                known = os.path.realpath(known)
            self._directories[path] = known = known.rstrip("/")
        return known
