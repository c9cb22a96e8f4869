"""Open files of any store under PyIceberg's names, `table.io.new_input(location).open()` and
`new_output(location).create()`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from frazil.errors import FileAlreadyExistsError, InvalidInput
from frazil.storage.base import Storage
from frazil.storage.locations import absolute
from frazil.storage.routing import RoutedStorage


class OutputStream:
    """Write a file, which is complete, durable and visible once the stream is closed. When its
    `with` block ends by an error, or the stream is never closed, there is no file."""

    def __init__(self, sink: AbstractContextManager[Any]):
        self._sink, self._file, self._written, self.closed = sink, sink.__enter__(), 0, False

    def write(self, b: bytes) -> int:
        """Write bytes, and return how many. Raises ValueError after `close`."""
        if self.closed:
            raise ValueError("This file is closed.")
        self._file.write(b)
        self._written += len(b)
        return len(b)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def close(self) -> None:
        """Complete the file; on return it is durable."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.closed:
            self.closed = True
            self._sink.__exit__(kind, error, trace)


@dataclass(frozen=True)
class InputFile:
    """Describe a file to read, at `location` in `storage`; `len()` is its size in bytes. The store
    is asked only when a member needs it."""

    location: str
    storage: Storage = field(repr=False)

    def __len__(self) -> int:
        return self.storage.size(self.location)

    def __bool__(self) -> bool:
        return True  # an empty file, whose len is 0, is true as well

    def exists(self) -> bool:
        """Tell whether the file exists."""
        return self.storage.exists(self.location)

    def open(self, seekable: bool = True) -> pa.NativeFile:
        """Open a stream with read, seek, tell and close; it can always seek. Raises
        NoSuchFileError.
        """
        return self.storage.open_input(self.location)


@dataclass(frozen=True)
class OutputFile:
    """Describe a file to write, at `location` in `storage`; `len()` is the size in bytes of the
    existing file."""

    location: str
    storage: Storage = field(repr=False)

    def __len__(self) -> int:
        return self.storage.size(self.location)

    def __bool__(self) -> bool:
        return True

    def exists(self) -> bool:
        """Tell whether a file of that name exists."""
        return self.storage.exists(self.location)

    def to_input_file(self) -> InputFile:
        """Return the same file, for reading."""
        return InputFile(self.location, self.storage)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Create a stream with write, tell and close. Raises FileAlreadyExistsError when there is
        such a file, unless it may be replaced. An object store is asked before the write: two
        writers that begin at once may both succeed there, and the later file stays."""
        if not overwrite and self.exists():
            raise FileAlreadyExistsError(
                f"There is a file {self.location} already.", file=self.location
            )
        return OutputStream(self.storage.open_output(self.location, overwrite=overwrite))


@dataclass(frozen=True)
class FileIO(RoutedStorage):
    """Provide a storage with PyIceberg's names for its operations. `inner`: the storage that does
    the work.
    """

    inner: Storage = field(kw_only=True, repr=False)

    def of(self, location: str) -> Storage:
        return self.inner

    def new_input(self, location: str) -> InputFile:
        """Return the file at a location, for reading; it need not exist."""
        return InputFile(absolute(location), self.inner)

    def new_output(self, location: str) -> OutputFile:
        """Return the file at a location, for writing; it is made when it is opened."""
        return OutputFile(absolute(location), self.inner)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. Raises NoSuchFileError when there is none (object stores: may pass in
        silence).
        """
        if not isinstance(location, str | InputFile | OutputFile):
            raise InvalidInput(f"{location!r} is no location of a file.")
        self.inner.delete(location if isinstance(location, str) else location.location)


def file_io(storage: Storage) -> FileIO:
    """Wrap a storage under PyIceberg's names."""
    return storage if isinstance(storage, FileIO) else FileIO(inner=storage)
