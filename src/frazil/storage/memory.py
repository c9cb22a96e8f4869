"""Store files in the memory of this process, for tests and the memory catalog:
`memory://name/path`. Other processes see none of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs

from frazil.errors import FileAlreadyExistsError, NoSuchFileError
from frazil.storage.arrow_handler import StorageHandler
from frazil.storage.base import MARKER, Entries, Failures, FileInfo, Names
from frazil.storage.locations import normalise

_FILES: dict[str, tuple[bytes, int]] = {}
_LOCK = threading.RLock()
StoredObjects = list[tuple[str, bytes, int]]


@dataclass(frozen=True)
class MemoryStorage:
    """Store files in memory. All instances in a process share them; unpickled elsewhere, one gives
    access to the files of that process.
    """

    def local_path(self, location: str) -> None:
        return None

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        return pa.fs.PyFileSystem(StorageHandler(self)), normalise(location)

    def read(self, location: str) -> bytes:
        with _LOCK:
            stored = _FILES.get(normalise(location))
        if stored is None:
            raise NoSuchFileError(f"There is no file {location}.", file=location)
        return stored[0]

    def read_start(self, location: str, size: int) -> bytes:
        return self.read(location)[:size]

    def open_input(self, location: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(location))

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        if not overwrite and self.exists(location):
            raise FileAlreadyExistsError(f"File {location} already exists.", file=location)
        sink = pa.BufferOutputStream()
        yield sink
        self.write(location, sink.getvalue().to_pybytes(), overwrite)

    def write(
        self,
        location: str,
        data: bytes,
        overwrite: bool = False,
        *,
        durable: bool = True,
        synced: bool = True,
    ) -> None:
        if not self._put(location, data, overwrite):
            raise FileAlreadyExistsError(f"File {location} already exists.", file=location)

    def publish(self, location: str, data: bytes) -> bool:
        return self._put(location, data, False)

    def _put(self, location: str, data: bytes, overwrite: bool) -> bool:
        with _LOCK:
            key = normalise(location)
            if not overwrite and key in _FILES:
                return False
            _FILES[key] = bytes(data), time.time_ns() // 1_000_000
            return True

    def exists(self, location: str) -> bool:
        with _LOCK:
            return normalise(location) in _FILES

    def size(self, location: str) -> int:
        return len(self.read(location))

    def delete(self, location: str) -> None:
        with _LOCK:
            if _FILES.pop(normalise(location), None) is None:
                raise NoSuchFileError(f"There is no file {location}.", file=location)

    def delete_many(self, locations: Iterable[str]) -> Failures:
        with _LOCK:
            for location in locations:
                _FILES.pop(normalise(location), None)
        return []

    def _below(self, directory: str) -> StoredObjects:
        """List files below a directory as (path below it, bytes, modification time), sorted."""
        start = normalise(directory) + "/"
        with _LOCK:
            return sorted(
                (k[len(start) :], data, when)
                for k, (data, when) in _FILES.items()
                if k.startswith(start)
            )

    def list(self, prefix: str) -> Iterator[FileInfo]:
        shown = prefix.rstrip("/")
        return (
            FileInfo(f"{shown}/{rest}", len(data), when) for rest, data, when in self._below(prefix)
        )

    def entries(self, directory: str) -> Entries:
        files = [
            f
            for f in self.list(directory)
            if "/" not in f.location[len(directory.rstrip("/")) + 1 :]
        ]
        return self.directories(directory), [
            f for f in files if not f.location.endswith(f"/{MARKER}")
        ]

    def names(self, directory: str, after: str = "") -> Names:
        child_names = {rest.split("/", 1)[0] for rest, _, _ in self._below(directory)} - {
            MARKER,
            "",
        }
        return sorted(n for n in child_names if n > after)

    def directories(self, directory: str) -> Names:
        return sorted(
            {rest.split("/", 1)[0] for rest, _, _ in self._below(directory) if "/" in rest}
        )

    def is_directory(self, location: str) -> bool:
        return bool(self._below(location))

    def make_directory(self, location: str) -> None:
        self._put(f"{location}/{MARKER}", b"", True)

    def remove_directory(self, location: str) -> bool:
        with _LOCK:
            if any(rest != MARKER for rest, _, _ in self._below(location)):
                return False
            _FILES.pop(normalise(f"{location}/{MARKER}"), None)
            return True

    def delete_tree(self, location: str) -> None:
        with _LOCK:
            self.delete_many([info.location for info in self.list(location)])
