"""Define the protocol that every store implements, and translate its failures to Frazil's errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs

from frazil.errors import FileAlreadyExistsError, FrazilError, NoSuchFileError, StorageError
from frazil.storage.secrets import redact_text

Failures = list[tuple[str, Exception]]
Names = list[str]


@dataclass(frozen=True)
class FileInfo:
    """Describe a stored file: its location, spelled as the prefix given to `list`, its size in
    bytes, its modification time in ms since 1970."""

    location: str
    size: int
    modified_ms: int


Entries = tuple[Names, list[FileInfo]]


class PublishUnclear(StorageError):
    """Report that `publish` failed after others may have seen the file, so that it may or may not
    exist.
    """


class AccessRefused(StorageError):
    """Report that a store refuses a request: by its credentials, or by their permissions."""


class Storage(Protocol):
    """Read and write files by location. Picklable. Raises NoSuchFileError, AlreadyExists and
    StorageError, never a raw OSError.
    """

    def read(self, location: str) -> bytes:
        """Read a whole file."""

    def read_start(self, location: str, size: int) -> bytes:
        """Read the first bytes of a file, at most `size`, in one request."""

    def open_input(self, location: str) -> pa.NativeFile:
        """Open a file for random access; the caller closes it."""

    def open_output(
        self, location: str, *, overwrite: bool = False
    ) -> contextlib.AbstractContextManager[Any]:
        """Open a binary sink. When the context ends normally the file is complete and durable;
        after an error there is no file.
        """

    def write(
        self,
        location: str,
        data: bytes,
        overwrite: bool = False,
        *,
        durable: bool = True,
        synced: bool = True,
    ) -> None:
        """Write a file; on return it is complete and on disk.

        `durable=False`: the bytes are synced, but the directory's entry is not; a later durable
        write or `publish` into the same directory syncs it. `synced=False`: not even the bytes are
        synced, for files that nothing relies on. `overwrite=True` replaces an existing file
        atomically.
        """

    def publish(self, location: str, data: bytes) -> bool:
        """Create a file, complete and durable, unless one of that name exists; returns False and
        leaves that file untouched if so.

        Atomic between processes, so that of concurrent commits exactly one wins. Raises
        PublishUnclear when it is not known whether the file was created; after any other error it
        was not.
        """

    def exists(self, location: str) -> bool:
        """Tell whether a file exists."""

    def size(self, location: str) -> int:
        """Return the size of a file in bytes."""

    def delete(self, location: str) -> None:
        """Delete a file. Raises NoSuchFileError when it does not exist (object stores may not
        notice).
        """

    def delete_many(self, locations: Iterable[str]) -> Failures:
        """Delete files; returns those that could not be deleted with their errors. A file that does
        not exist counts as deleted.
        """

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List all files below a directory, at any depth; none when it does not exist."""

    def entries(self, directory: str) -> Entries:
        """List a directory: the names of the directories in it, and the files directly in it;
        nothing when it does not exist.
        """

    def names(self, directory: str, after: str = "") -> Names:
        """List the names of files and directories directly in a directory, unsorted; `after`: only
        names that sort after it.
        """

    def directories(self, directory: str) -> Names:
        """List the names of the directories directly in a directory, sorted."""

    def is_directory(self, location: str) -> bool:
        """Tell whether there is a directory."""

    def make_directory(self, location: str) -> None:
        """Create a directory with its parents, durably. Object stores keep a marker file in it."""

    def remove_directory(self, location: str) -> bool:
        """Remove an empty directory; returns False when it is not empty, and then keeps it."""

    def delete_tree(self, location: str) -> None:
        """Delete a directory and everything below it; on local disks it disappears from its place
        atomically.
        """

    def local_path(self, location: str) -> str | None:
        """Return the path that `open()` takes; None when the location is not a local file."""

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        """Return a pyarrow file system and the path in it, for pyarrow's readers."""


# the marker file that keeps an empty directory in a store without directories
MARKER = ".frazil-directory"


def storage_error(
    error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError
) -> FrazilError:
    """Translate an OSError to an error of Frazil; the file and the name of the errno become facts
    of it.
    """
    if isinstance(error, FrazilError):
        return error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NoSuchFileError(f"There is no file {location}.", file=location)
    if isinstance(error, FileExistsError):
        return FileAlreadyExistsError(f"File {location} already exists.", file=location)
    return system_error(error, location, doing, kind)


def system_error(
    error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError
) -> StorageError:
    """Translate any error of the operating system to a StorageError, with a hint where one is
    known. Secrets in its text are masked.
    """
    hide_secrets(error)
    number = error.errno if isinstance(error, OSError) else None
    code = errno.errorcode.get(number, str(number)) if number is not None else None
    hint = {
        "ENOSPC": "The disk is full: free some space and try again.",
        "EDQUOT": "The quota is used up: free some space and try again.",
        "EACCES": "Check the permissions of this process there.",
        "EPERM": "Check the permissions of this process there.",
        "EROFS": "The file system is mounted read-only: use another one, or mount it for writing.",
        "EFBIG": "Files of this size are not allowed there: check ulimit -f.",
        "EMFILE": "This process has too many files open: raise ulimit -n.",
        "ENFILE": "This machine has too many files open: raise its limit (fs.file-max).",
        "EIO": "The disk or its connection is failing: check the system's log.",
        "ENAMETOOLONG": "File systems allow some 255 bytes per part of a path. Where the values of a partition are longer, partition by "
        "truncate or bucket, or set write.object-storage.enabled=true and write.object-storage.partitioned-paths=false.",
    }.get(code or "")
    text = (
        (error.strerror if isinstance(error, OSError) else None)
        or str(error)
        or type(error).__name__
    )
    failure = kind(f"Could not {doing} {location}: {text}.", hint=hint, file=location, errno=code)
    failure.errno = number
    return failure


def hide_secrets(error: BaseException | None) -> None:
    """Mask secrets in the text of an error and of its causes, in place: tracebacks show them all.
    Errors of pyarrow that come from Azure name the address with the signature."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if not isinstance(error, FrazilError):
            with contextlib.suppress(
                AttributeError, TypeError
            ):  # an error that the caller handles may be of a frozen class
                error.args = tuple(
                    redact_text(arg) if isinstance(arg, str) else arg for arg in error.args
                )
                if isinstance(error, OSError) and error.strerror:
                    error.strerror = redact_text(error.strerror)
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def translated_errors(location: str, doing: str) -> Iterator[None]:
    """Translate OSErrors inside the context to errors of Frazil; `doing` is a verb for the message."""
    try:
        yield
    except FrazilError:
        raise
    except OSError as error:
        raise storage_error(error, location, doing) from error


@contextlib.contextmanager
def temporary_files(path: str | None = None) -> Iterator[None]:
    """Wrap the use of temporary files, to which data goes that exceeds memory: OSErrors become
    StorageErrors that tell their directory.

    `path` None: the one that the error names.
    """
    try:
        yield
    except FrazilError:
        raise
    except OSError as error:
        translated = system_error(
            error,
            str(path or error.filename or tempfile.tempdir or "/tmp"),
            "write the temporary file",
        )
        translated.advise("Temporary files go to the directory that TMPDIR names.")
        raise translated from error


@contextlib.contextmanager
def temporary_folder(kind: str) -> Iterator[str]:
    """Make a folder `frazil-<kind>-…` for temporary files, and remove it when the block ends. Those
    of processes that were killed are removed first: each process holds the locks of its own.
    """
    with temporary_files():
        for lock in Path(tempfile.gettempdir()).glob("frazil-*/lock"):
            with contextlib.suppress(OSError), open(lock) as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        prefix = f"frazil-{kind}-"
        with (
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder,
            temporary_files(folder),
            open(Path(folder, "made"), "w") as held,
        ):
            fcntl.flock(held, fcntl.LOCK_EX)
            os.rename(held.name, Path(folder, "lock"))  # with its lock, so that none sees it free
            yield folder


def frozen_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Convert properties to a hashable form, by which clients of stores are cached."""
    return tuple(sorted((str(k), str(v)) for k, v in properties.items()))
