"""Resolve symbolic links in the directories of local paths, so that two spellings of one file are
known as one file before any is deleted.

Only `maintain` and purges ask for it; reads and writes take locations as metadata spells them.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class RealPaths:
    """Resolve the directories of local paths. Each directory is looked at once, so files of one
    directory cost nothing more.
    """

    def __init__(self) -> None:
        self._directories = {"": "", "/": ""}

    def of(self, path: str) -> str:
        """Return an absolute path with the links in its directories resolved. The file itself may
        be a link.
        """
        directory, _, name = path.rpartition("/")
        return f"{self._directory(directory)}/{name}" if path.startswith("/") else path

    def differing(self, paths: pa.Array) -> list[str]:
        """Return the resolved paths of those files whose directories are reached through links."""
        return [path for _, path in self.changed(paths)]

    def changed(self, paths: pa.Array) -> list[tuple[int, str]]:
        """Return place and resolved path of those files whose directories are reached through
        links.
        """
        directories = pc.replace_substring_regex(paths, r"/[^/]*$", "")
        links = [
            d
            for d in directories.unique().to_pylist()
            if d.startswith("/") and self._directory(d) != d
        ]
        if not links:
            return []
        places = np.flatnonzero(
            pc.is_in(directories, value_set=pa.array(links, directories.type)).to_numpy(
                zero_copy_only=False
            )
        )
        return [(n, self.of(paths[n].as_py())) for n in places.tolist()]

    def _directory(self, path: str) -> str:
        real_path = self._directories.get(path)
        if real_path is None:
            above, _, name = path.rpartition("/")
            real_path = f"{self._directory(above)}/{name}"
            if name == ".." or os.path.islink(real_path):
                real_path = os.path.realpath(real_path)
            self._directories[path] = real_path = real_path.rstrip("/")
        return real_path
