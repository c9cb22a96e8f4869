"""Store files on local disks: a write returns after its file is synced, and a file is published by
link(2), which never replaces one.

To check that no file is there and then rename, as other implementations do, can lose acknowledged
commits when two processes race; link(2) cannot (docs/adr/0004).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs

from frazil.errors import AlreadyExists, StorageError
from frazil.storage.base import (
    Entries,
    Failures,
    FileInfo,
    Names,
    PublishUnclear,
    storage_error,
    translated_errors,
)
from frazil.storage.locations import local_path_of

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_DISK = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_HIDDEN = {errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE}
_AT_FDCWD, _RENAME_NOREPLACE, _RENAME_EXCHANGE = -100, 1, 2


@dataclass(frozen=True)
class LocalStorage:
    """Store files of this machine, by path or `file:` location."""

    def local_path(self, location: str) -> str:
        return local_path_of(location)

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        return pa.fs.LocalFileSystem(), local_path_of(location)

    def read(self, location: str) -> bytes:
        with translated_errors(location, "read"), _opened(location) as file:
            return file.read()

    def read_start(self, location: str, size: int) -> bytes:
        with translated_errors(location, "read"), _opened(location) as file:
            return file.read(min(size, os.fstat(file.fileno()).st_size))

    def open_input(self, location: str) -> pa.NativeFile:
        with translated_errors(location, "open"):
            return pa.OSFile(regular_path(local_path_of(location)), "rb")

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        path = local_path_of(location)
        with translated_errors(location, "write"):
            make_directories(os.path.dirname(path))
            os.close(_create(path, exclusive=not overwrite))
        try:
            with translated_errors(location, "write"):
                sink = pa.OSFile(path, "wb")
            try:
                yield sink
            except BaseException as error:
                with contextlib.suppress(OSError):
                    sink.close()
                if isinstance(error, OSError) and error.errno in _DISK:
                    raise storage_error(error, location, "write") from error
                raise
            with translated_errors(location, "write"):
                sink.close()
                sync(path)
                sync_directory(os.path.dirname(path))
        except BaseException:
            _try_unlink(path)
            raise

    def write(
        self,
        location: str,
        data: bytes,
        overwrite: bool = False,
        *,
        durable: bool = True,
        synced: bool = True,
    ) -> None:
        path = local_path_of(location)
        directory = os.path.dirname(path)
        with translated_errors(location, "write"):
            make_directories(directory)
            if overwrite:
                temporary = _beside(path)
                _write_new(temporary, data, synced)
                try:
                    os.rename(temporary, path)
                except BaseException:
                    _try_unlink(temporary)
                    raise
            else:
                _write_new(path, data, synced)
            if durable and synced:
                try:
                    sync_directory(directory)
                except BaseException:
                    if (
                        not overwrite
                    ):  # the file did not exist before, so it must not exist after an error
                        _try_unlink(path)
                    raise

    def publish(self, location: str, data: bytes) -> bool:
        path = local_path_of(location)
        directory, temporary = os.path.dirname(path), _beside(path)
        with translated_errors(location, "write"):
            make_directories(directory)
            _write_new(temporary, data)
        try:
            with translated_errors(location, "publish"):
                won = _link(temporary, path)
        except BaseException:
            _try_unlink(temporary)
            raise
        try:
            # others may see the file from here on, so that after a failure the outcome is not known
            if won:
                sync_directory(directory)
        except OSError as error:
            raise storage_error(error, location, "sync the directory of", PublishUnclear) from error
        finally:
            _try_unlink(temporary)
        return won

    def exists(self, location: str) -> bool:
        path = local_path_of(location)
        try:
            os.stat(path)
        except OSError as error:
            if error.errno in _HIDDEN:  # whether it is there cannot be told
                raise storage_error(error, location, "inspect") from error
            return False
        return True

    def size(self, location: str) -> int:
        with translated_errors(location, "inspect"):
            return os.stat(local_path_of(location)).st_size

    def delete(self, location: str) -> None:
        with translated_errors(location, "delete"):
            os.unlink(local_path_of(location))

    def delete_many(self, locations: Iterable[str]) -> Failures:
        failed: Failures = []
        for location in locations:
            try:
                os.unlink(local_path_of(location))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                failed.append((location, storage_error(error, location, "delete")))
        return failed

    def list(self, prefix: str) -> Iterator[FileInfo]:
        root = local_path_of(prefix).rstrip("/") or "/"
        shown = prefix.rstrip("/")
        with translated_errors(prefix, "list"):
            yield from _walk(root, shown)

    def entries(self, directory: str) -> Entries:
        with translated_errors(directory, "list"):
            names, shown, files = (
                self.directories(directory),
                directory.rstrip("/"),
                list[FileInfo](),
            )
            listed_names = set(names)
            for name in sorted(n for n in self.names(directory) if n not in listed_names):
                with contextlib.suppress(FileNotFoundError):  # deleted since the directory was read
                    state = os.stat(os.path.join(local_path_of(directory), name))
                    files.append(
                        FileInfo(f"{shown}/{name}", state.st_size, state.st_mtime_ns // 1_000_000)
                    )
        return names, files

    def names(self, directory: str, after: str = "") -> Names:
        with translated_errors(directory, "list"):
            try:
                all_names = os.listdir(local_path_of(directory))
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [n for n in all_names if n > after] if after else all_names

    def directories(self, directory: str) -> Names:
        with translated_errors(directory, "list"):
            try:
                with os.scandir(local_path_of(directory)) as entries:
                    return sorted(e.name for e in entries if e.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def is_directory(self, location: str) -> bool:
        return os.path.isdir(local_path_of(location))

    def make_directory(self, location: str) -> None:
        with translated_errors(location, "make the directory"):
            make_directories(local_path_of(location))

    def remove_directory(self, location: str) -> bool:
        path = local_path_of(location).rstrip("/")
        with translated_errors(location, "remove the directory"):
            try:
                os.rmdir(path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
            sync_directory(os.path.dirname(path))
        return True

    def delete_tree(self, location: str) -> None:
        path = local_path_of(location).rstrip("/")
        aside, linked = _beside(path), os.path.realpath(path) if os.path.islink(path) else None
        with translated_errors(location, "delete"):
            os.rename(
                path, aside
            )  # removes it from its place atomically, even if deleting the files fails later
            sync_directory(os.path.dirname(path))
            if linked is None:
                shutil.rmtree(aside)
                return
            if os.path.isdir(linked):
                shutil.rmtree(linked)
            os.unlink(aside)


_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


def regular_path(path: str) -> str:
    """Return the path of a file that may be opened. Raises StorageError for pipes, devices and
    directories: to open one may wait, or give bytes without end."""
    with translated_errors(path, "open"):
        _check_regular(os.stat(path), path)
    return path


def _check_regular(state: os.stat_result, location: str) -> None:
    if not stat.S_ISREG(state.st_mode):
        kind = _KINDS.get(stat.S_IFMT(state.st_mode), "something else")
        raise StorageError(
            f"{location} is not a file, but {kind}.",
            hint="Only regular files are read.",
            file=location,
        )


def _opened(location: str) -> io.BufferedReader:
    descriptor = os.open(
        local_path_of(location), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    )  # a pipe is not waited for
    try:
        _check_regular(os.fstat(descriptor), location)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _walk(root: str, shown: str) -> Iterator[FileInfo]:
    try:
        entries = sorted(os.scandir(root), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        location = f"{shown}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, location)
            continue
        with contextlib.suppress(FileNotFoundError):  # deleted since the directory was read
            state = entry.stat()
            if not entry.is_dir():
                yield FileInfo(location, state.st_size, state.st_mtime_ns // 1_000_000)


def _beside(path: str) -> str:
    """Make a hidden name in the same directory, so that link and rename stay within one file
    system.
    """
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name[:100]}.{uuid.uuid4().hex}.tmp")


def _create(path: str, exclusive: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if exclusive else os.O_TRUNC)
    return os.open(path, flags, 0o666)


def _write_new(path: str, data: bytes, synced: bool = True) -> None:
    """Create, write, fsync and close a file; on any failure it is removed."""
    descriptor = _create(path, exclusive=True)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _try_unlink(path)
        raise


def _link(temporary: str, path: str) -> bool:
    """Give a temporary file its name, atomically; returns False when a file of that name exists."""
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or not os.path.exists(temporary):
            raise
        return _rename_no_replace(temporary, path, error)


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    return renameat2


def _rename_no_replace(temporary: str, path: str, why: OSError) -> bool:
    """Rename a file unless the new name exists, on file systems without hard links (FAT, some
    network mounts).
    """
    rename = _renameat2()
    if rename is not None:
        if (
            rename(
                _AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE
            )
            == 0
        ):
            return True
        number = ctypes.get_errno()
        if number == errno.EEXIST:
            return False
        if number not in (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP):
            raise OSError(number, os.strerror(number), path)
    raise StorageError(
        f"The file system of {path} has neither hard links nor an atomic rename that keeps an existing file, so commits could get lost.",
        hint="Use a catalog of type sql for tables at this location, or another file system.",
        file=path,
        errno=errno.errorcode.get(why.errno or 0),
    )


def exchange(first: str, second: str) -> None:
    """Exchange two directories (or files) in one step: a reader finds the one or the other, never
    none.

    Raises StorageError where the file system or the operating system cannot do it.
    """
    rename = _renameat2()
    number = errno.ENOSYS
    if rename is not None:
        if (
            rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
            == 0
        ):
            return
        number = ctypes.get_errno()
    raise StorageError(
        f"The file system of {first} cannot exchange it with {second} in one step: {os.strerror(number)}.",
        hint="Linux can, on ext4, XFS, Btrfs and tmpfs.",
        file=first,
        errno=errno.errorcode.get(number),
    )


def sync(path: str) -> None:
    """Sync the bytes of a file to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Sync the entries of a directory to disk, so that its files survive a power failure."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # a file system that cannot sync directories (some network mounts) has nothing to sync
            raise
    finally:
        os.close(descriptor)


def make_directories(path: str) -> None:
    """Create a directory with its parents. Each new one is synced into its parent, since a power
    failure could lose it with its files.
    """
    if not path or os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip("/"))
    make_directories(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise AlreadyExists(f"{path} is a file, not a directory.", file=path) from None
        return
    sync_directory(above)


def _try_unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
