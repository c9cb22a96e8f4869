"""What every store can do, and how its failures are told apart."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs

from frazil.errors import FileAlreadyExistsError, FrazilError, NoSuchFileError, StorageError

Failures = list[tuple[str, Exception]]
Names = list[str]


@dataclass(frozen=True)
class FileInfo:
    """One stored file: its location, as `list` was asked for it, its size in bytes, its time of change in ms since 1970."""

    location: str
    size: int
    modified_ms: int


class PublishUnclear(StorageError):
    """`publish` failed after the moment at which others may have seen the file: it may be there."""


class Storage(Protocol):
    """Files by location. Picklable; knows nothing of tables. Raises NoSuchFileError, AlreadyExists, StorageError; never a raw OSError."""

    def read(self, location: str) -> bytes: ...

    def open_input(self, location: str) -> pa.NativeFile:
        """For random access; the caller closes it."""

    def open_output(self, location: str, *, overwrite: bool = False) -> contextlib.AbstractContextManager[Any]:
        """A binary sink. When the context ends well the file is complete and durable; when it ends by an error there is no file."""

    def write(self, location: str, data: bytes, overwrite: bool = False, *, durable: bool = True, synced: bool = True) -> None:
        """All of `data`, whole and on disk on return. `durable=False`: the bytes are synced, the directory's entry is not yet; a
        later durable write or `publish` into the same directory makes up for it. `synced=False`: not even the bytes, for files
        that nobody relies on. `overwrite=True` replaces the file at one stroke."""

    def publish(self, location: str, data: bytes) -> bool:
        """Create the file, whole and durable, if no file of that name exists; False: there is one, untouched. Atomic between
        processes. Raises PublishUnclear when it cannot be told whether the file is there; any other error: it is not."""

    def exists(self, location: str) -> bool: ...

    def size(self, location: str) -> int: ...

    def delete(self, location: str) -> None:
        """Raises NoSuchFileError when it is not there (object stores: may pass in silence)."""

    def delete_many(self, locations: Iterable[str]) -> Failures:
        """Delete what is there; answers with those that could not be deleted. A file that is not there counts as deleted."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """All files below a directory, at any depth; nothing when it does not exist."""

    def names(self, directory: str, after: str = "") -> Names:
        """Names of files and directories right in a directory, unsorted; `after`: only those that sort after it."""

    def directories(self, directory: str) -> Names:
        """Names of the directories right in a directory, sorted."""

    def is_directory(self, location: str) -> bool: ...

    def make_directory(self, location: str) -> None:
        """With its parents, durable. Object stores keep it by a marker file."""

    def remove_directory(self, location: str) -> bool:
        """False: it holds something, and stays."""

    def delete_tree(self, location: str) -> None:
        """A directory and all below it; on local disks it is gone from its place at one stroke."""

    def local_path(self, location: str) -> str | None:
        """The path that `open()` takes, None when this is no local file."""

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        """For pyarrow's readers: a file system and the path in it."""


MARKER = ".frazil-directory"


def storage_error(error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError) -> FrazilError:
    """An OSError in words of ours; the file and the errno's name become facts."""
    if isinstance(error, FrazilError):
        return error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NoSuchFileError(f"There is no file {location}.", file=location)
    if isinstance(error, FileExistsError):
        return FileAlreadyExistsError(f"There is a file {location} already.", file=location)
    return system_error(error, location, doing, kind)


def system_error(error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError) -> StorageError:
    """An error of the operating system, whichever it is, with what can be done about it."""
    number = error.errno if isinstance(error, OSError) else None
    code = errno.errorcode.get(number, str(number)) if number is not None else None
    hint = {
        "ENOSPC": "The disk is full: free some space and try again.",
        "EDQUOT": "The quota is used up: free some space and try again.",
        "EACCES": "Check who may write there.",
        "EPERM": "Check who may write there.",
        "EROFS": "The file system is mounted read-only.",
        "EFBIG": "Files of this size are not allowed there: look at ulimit -f.",
        "EMFILE": "This process has too many files open: raise ulimit -n.",
        "ENFILE": "This machine has too many files open.",
        "EIO": "The disk or its connection fails: look at the system's log.",
        "ENAMETOOLONG": "File systems take some 255 bytes for each part of a path. Where a partition's value is longer: partition by "
        "truncate or bucket, or set write.object-storage.enabled=true and write.object-storage.partitioned-paths=false.",
    }.get(code or "")
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    found = kind(f"Could not {doing} {location}: {text}.", hint=hint, file=location, errno=code)
    found.errno = number
    return found


@contextlib.contextmanager
def told(location: str, doing: str) -> Iterator[None]:
    """Turn OSErrors inside into Frazil's."""
    try:
        yield
    except FrazilError:
        raise
    except OSError as error:
        raise storage_error(error, location, doing) from error


@contextlib.contextmanager
def temporary(path: str | None = None) -> Iterator[None]:
    """Around files that hold for a while what memory has no room for: OSErrors inside become StorageErrors that say where these files go.
    `path` None: the one that the error names."""
    try:
        yield
    except FrazilError:
        raise
    except OSError as error:
        told = system_error(error, str(path or error.filename or tempfile.tempdir or "/tmp"), "write the temporary file")
        told.advise("Temporary files go to the directory that TMPDIR names.")
        raise told from error


def frozen_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(k), str(v)) for k, v in properties.items()))
