"""Store files in HDFS through hdfs-native, a client in Rust that needs no JVM: name services with
several name nodes, Kerberos, tokens.

A file is written under a private name in its directory and renamed when it is complete, so that
nobody sees half of one. The name node renames in one step and never over an existing file unless it
is told to; `publish` rests on that (docs/adr/0038).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.fs

from frazil.errors import (
    AlreadyExists,
    FileAlreadyExistsError,
    FrazilError,
    InvalidInput,
    NoSuchFileError,
    NotInstalledError,
    StorageError,
    Unsupported,
)
from frazil.storage.arrow_handler import StorageHandler
from frazil.storage.base import Entries, Failures, FileInfo, Names, PublishUnclear
from frazil.storage.hdfs.hdfs_files import HdfsInput, HdfsSink, complete
from frazil.storage.hdfs.hdfs_options import HdfsSettings, hdfs_settings
from frazil.storage.locations import collapsed

if TYPE_CHECKING:
    from hdfs_native import FileStatus

log = logging.getLogger(__name__)
T = TypeVar("T")
_LOCATION = re.compile(r"[Hh][Dd][Ff][Ss]:(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.S)
_PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds between tries
_PASSING = re.compile(
    r"RetriableException|SafeModeException|ServerTooBusy|isconnected|onnection (reset|aborted)|Broken pipe|Failed to complete file"
)
_UNREACHABLE = re.compile(r"onnection|timed out|os error|StandbyException|ObserverRetryOnActive")
_DELETED_AT_ONCE = 8


@dataclass(frozen=True)
class HdfsStorage:
    """Store files in HDFS clusters, by `hdfs://authority/path`, or `hdfs:/path` in the default one.
    Each process makes its own clients.
    """

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def local_path(self, location: str) -> None:
        return None

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        return pa.fs.PyFileSystem(StorageHandler(self)), location

    def settings(self) -> HdfsSettings:
        """Return the settings of the clients. Raises Unsupported and InvalidInput for properties
        that cannot be.
        """
        return _settings(self.properties)

    def _cluster_and_path(self, location: str) -> tuple[_Cluster, str]:
        """Return the cluster of a location and the path in it."""
        match = _LOCATION.fullmatch(location)
        if match is None:
            raise InvalidInput(
                f"Location {location} has no path.",
                hint="Locations look like hdfs://host:port/path.",
                file=location,
            )
        authority = match["authority"] or self.settings().authority
        if not authority:
            raise InvalidInput(
                f"Location {location} names no name node, and none is configured.",
                hint="Write hdfs://host:port/path, give the catalog hdfs.host, or name fs.defaultFS in core-site.xml (HADOOP_CONF_DIR).",
                file=location,
            )
        path = collapsed(match["path"] or "/").rstrip("/") or "/"
        return _cluster(authority, self.properties, os.getpid()), path

    def read(self, location: str) -> bytes:
        return self.read_start(location, sys.maxsize)

    def read_start(self, location: str, size: int) -> bytes:
        cluster, path = self._cluster_and_path(location)

        def start() -> bytes:
            reader = cluster.client.read(path)
            length = min(reader.file_length(), size)
            return bytes(reader.read_range(0, length)) if length else b""

        with _translated_errors(location, "read"):
            return _again(start)

    def open_input(self, location: str) -> pa.NativeFile:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(location, "open"):
            reader = _again(lambda: cluster.client.read(path))
        return pa.PythonFile(
            HdfsInput(reader, functools.partial(_translated_errors, location, "read")), "r"
        )

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        cluster, path = self._cluster_and_path(location)
        temporary = _beside(path)
        translated = functools.partial(_translated_errors, location, "write")
        sink = HdfsSink(lambda: _again(lambda: cluster.create(temporary)), translated)
        try:
            yield pa.PythonFile(sink, "w")
            size = sink.written + len(sink.held)
            if sink.writer is None:
                with translated():
                    _again(lambda: cluster.new_file(temporary, bytes(sink.held)))
            else:
                sink.hand_on()
                with translated():
                    complete(cluster.client, sink.writer, temporary, size)
            if not cluster.move(
                temporary, path, location, overwrite, lambda: cluster.size(path) == size
            ):
                raise FileAlreadyExistsError(f"File {location} already exists.", file=location)
        except BaseException:
            cluster.remove(temporary)
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
        try:
            written = self._put(location, data, overwrite)
        except PublishUnclear as error:
            raise StorageError(error.message, hint=error.hint, file=location) from error
        if not written:
            raise FileAlreadyExistsError(f"File {location} already exists.", file=location)

    def publish(self, location: str, data: bytes) -> bool:
        return self._put(location, data, False)

    def _put(self, location: str, data: bytes, overwrite: bool) -> bool:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(location, "write"):
            name = _beside(
                path
            )  # one name for all tries: a later one replaces what an earlier one could not remove
            temporary = _again(lambda: cluster.new_file(name, data))
        try:
            won = cluster.move(
                temporary, path, location, overwrite, lambda: self.read(location) == data
            )
        except BaseException:
            cluster.remove(temporary)
            raise
        if not won:
            cluster.remove(temporary)
        return won

    def exists(self, location: str) -> bool:
        status = self._status(location)
        return status is not None and not status.isdir

    def _status(self, location: str) -> Any:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(location, "inspect"):
            return _again(lambda: cluster.status(path))

    def size(self, location: str) -> int:
        status = self._status(location)
        if status is None:
            raise NoSuchFileError(f"There is no file {location}.", file=location)
        return int(status.length)

    def delete(self, location: str) -> None:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(location, "delete"):
            if not _again(lambda: cluster.client.delete(path, False)):
                raise NoSuchFileError(f"There is no file {location}.", file=location)

    def delete_many(self, locations: Iterable[str]) -> Failures:
        def delete_one(location: str) -> tuple[str, Exception] | None:
            try:
                self.delete(location)
            except NoSuchFileError:
                return None
            except FrazilError as error:
                return location, error
            return None

        todo = list(locations)
        if len(todo) < 2 * _DELETED_AT_ONCE:
            return [failed for location in todo if (failed := delete_one(location))]
        with ThreadPoolExecutor(_DELETED_AT_ONCE, thread_name_prefix="frazil-hdfs-delete") as pool:
            return [failed for failed in pool.map(delete_one, todo) if failed]

    def _listed(self, directory: str) -> list[tuple[str, Any]]:
        """List what lies directly in a directory as (name, status), sorted by name; nothing when it
        is none.
        """
        cluster, path = self._cluster_and_path(directory)
        with _translated_errors(directory, "list"):
            try:
                statuses = _again(lambda: list(cluster.client.list_status(path, False)))
            except (FileNotFoundError, NotADirectoryError):
                return []
        if (
            len(statuses) == 1 and not statuses[0].isdir and statuses[0].path == path
        ):  # a file lists itself
            return []
        return [(status.path.rpartition("/")[2], status) for status in statuses]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        shown = prefix.rstrip("/")
        for name, status in self._listed(prefix):
            if status.isdir:
                yield from self.list(f"{shown}/{name}")
            else:
                yield _info(shown, name, status)

    def entries(self, directory: str) -> Entries:
        shown, listed = directory.rstrip("/"), self._listed(directory)
        return [name for name, s in listed if s.isdir], [
            _info(shown, name, s) for name, s in listed if not s.isdir
        ]

    def names(self, directory: str, after: str = "") -> Names:
        return [name for name, _ in self._listed(directory) if name > after]

    def directories(self, directory: str) -> Names:
        return [name for name, status in self._listed(directory) if status.isdir]

    def is_directory(self, location: str) -> bool:
        status = self._status(location)
        return status is not None and bool(status.isdir)

    def make_directory(self, location: str) -> None:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(location, "make the directory"):
            try:
                _again(lambda: cluster.client.mkdirs(path, 0o777 & ~cluster.settings.umask, True))
            except FileExistsError as error:
                raise AlreadyExists(
                    f"{location} is a file, not a directory.", file=location
                ) from error

    def remove_directory(self, location: str) -> bool:
        cluster, path = self._cluster_and_path(location)
        if not self.is_directory(location):
            raise NoSuchFileError(f"There is no directory {location}.", file=location)
        with _translated_errors(location, "remove the directory"):
            try:
                _again(lambda: cluster.client.delete(path, False))
            except Exception as error:
                if "PathIsNotEmptyDirectoryException" in str(error):
                    return False
                raise
        return True

    def delete_tree(self, location: str) -> None:
        cluster, path = self._cluster_and_path(location)
        with _translated_errors(
            location, "delete"
        ):  # the name node takes the directory out of its tree in one step
            if path == "/":
                raise InvalidInput(
                    f"{location} is the root of a file system, which is not deleted.", file=location
                )
            if not _again(lambda: cluster.client.delete(path, True)):
                raise NoSuchFileError(f"There is no directory {location}.", file=location)


@dataclass(frozen=True)
class _Cluster:
    """Hold the client of one cluster, and do with it what takes several requests."""

    client: Any
    options: Any  # for new files
    settings: HdfsSettings

    def create(self, path: str) -> Any:
        """Begin a file of a private name. It replaces what a request whose answer was lost has left
        under that name.
        """
        return self.client.create(path, self.options)

    def new_file(self, path: str, data: bytes) -> str:
        """Write a whole file of a private name; when that fails nothing of it stays."""
        try:
            writer = self.create(path)
            if data:
                writer.write(data)
            complete(self.client, writer, path, len(data))
        except BaseException:
            self.remove(path)
            raise
        return path

    def status(self, path: str) -> Any:
        try:
            return self.client.get_file_info(path)
        except FileNotFoundError:
            return None

    def size(self, path: str) -> int | None:
        status = _again(lambda: self.status(path))
        return None if status is None else int(status.length)

    def remove(self, path: str) -> None:
        """Delete a file of a private name, if that can be done: what stays is an orphan."""
        try:
            _again(
                lambda: self.client.delete(path, False)
            )  # a client whose connection was just cut may not have a new one yet
        except Exception as error:
            log.warning("The temporary file %s stays: %s", path, _first_line(error))

    def move(
        self, temporary: str, path: str, location: str, overwrite: bool, is_ours: Callable[[], bool]
    ) -> bool:
        """Give a complete file its name, in one step; returns False when there is a file of that
        name, which stays.

        When an answer is lost it is not known whether the file was renamed, so it is asked for
        again. The name node looks for the source first: if that is gone, the file was renamed, and
        what bears its name is looked at; if it is there, it was not. Where nothing is answered, to
        delete the temporary file tells: if it is there, it never will be renamed. Raises
        PublishUnclear where nothing tells.
        """
        try:
            _again(lambda: self.client.rename(temporary, path, overwrite))
            return True
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            failure: Exception = error
        except Exception as error:
            failure = error
            try:
                if _again(lambda: self.client.delete(temporary, False)):
                    raise _translated(failure, location, "write") from failure
            except StorageError:
                raise
            except Exception as second:
                raise _translated(second, location, "publish", PublishUnclear) from failure
        try:
            if is_ours():
                return True
        except NoSuchFileError:
            pass  # neither the temporary file nor the file of this name is there
        except Exception as second:
            raise _translated(second, location, "publish", PublishUnclear) from failure
        else:
            if not overwrite:
                return False
        raise _translated(
            OSError(_first_line(failure)), location, "publish", PublishUnclear
        ) from failure


def _beside(path: str) -> str:
    """Make a hidden name in the same directory; clean-ups know this form as temporary."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name[:100]}.{uuid.uuid4().hex}.tmp"


def _info(shown: str, name: str, status: FileStatus) -> FileInfo:
    return FileInfo(f"{shown}/{name}", int(status.length), int(status.modification_time))


def _again(call: Callable[[], T]) -> T:
    """Call what may be done twice, again after faults that pass. Lost connections and changes of
    the active name node are the client's.
    """
    for pause in _PAUSES:
        try:
            return call()
        except (FileNotFoundError, FileExistsError, NotImplementedError, FrazilError):
            raise
        except Exception as error:
            if not _PASSING.search(_first_line(error)):
                raise
            log.debug("HDFS: %s; tried again in %s s.", _first_line(error), pause)
            time.sleep(pause)
    return call()


@functools.lru_cache(maxsize=64)
def _settings(properties: tuple[tuple[str, str], ...]) -> HdfsSettings:
    return hdfs_settings(dict(properties))


@functools.lru_cache(maxsize=64)
def _cluster(authority: str, properties: tuple[tuple[str, str], ...], process: int) -> _Cluster:
    """Make a client. A process that was forked needs one of its own, since the threads of the
    other's are not there.
    """
    try:
        import hdfs_native
    except ImportError as error:
        raise NotInstalledError(
            "Locations hdfs:// need hdfs-native.", hint='pip install "frazil[hdfs]"'
        ) from error
    settings = _settings(properties)
    options = hdfs_native.WriteOptions(
        settings.block_size, settings.replication, 0o666 & ~settings.umask, overwrite=True
    )
    url = f"hdfs://{settings.address_of(authority)}"
    with _translated_errors(url, "open"):
        # The raw client: its files have no finalizer, which would complete a file that was given
        # up.
        return _Cluster(
            hdfs_native.Client(url, settings.client_config(authority), **settings.kerberos).inner,
            options,
            settings,
        )


@contextlib.contextmanager
def _translated_errors(location: str, doing: str) -> Iterator[None]:
    try:
        yield
    except FrazilError:
        raise
    except Exception as error:
        raise _translated(error, location, doing) from error


_HINTS = {
    "AccessControlException": "Check the permissions there, and the user: HADOOP_USER_NAME or the Kerberos ticket.",
    "QuotaExceeded": "The quota is used up: free some space and try again.",
    "SafeModeException": "The name node is in safe mode: try again when it has left it.",
    "InvalidPathException": "HDFS allows no colon in a name.",
    "SASL": "Check the Kerberos ticket (klist) and hadoop.security.authentication in core-site.xml.",
    "GSSAPI": "Check the Kerberos ticket (klist) and hadoop.security.authentication in core-site.xml.",
    "No NameNode": "Name the name nodes of the name service: dfs.ha.namenodes.… and dfs.namenode.rpc-address.… in hdfs-site.xml.",
    "StandbyException": "No name node is active: try again when one is.",
    "could only be written to 0": "No data node could take the file: check the data nodes.",
}


def _translated(
    error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError
) -> FrazilError:
    if isinstance(error, FrazilError) and kind is StorageError:
        return error
    text = _first_line(error)
    if isinstance(error, FileNotFoundError) or "(is not a directory)" in text and doing != "write":
        return NoSuchFileError(f"There is no file {location}.", file=location)
    if isinstance(error, FileExistsError):
        return FileAlreadyExistsError(f"File {location} already exists.", file=location)
    if isinstance(error, NotImplementedError):
        return Unsupported(
            f"Could not {doing} {location}: hdfs-native does not support {text}.", file=location
        )
    hint = next((advice for word, advice in _HINTS.items() if word in text), None)
    if hint is None and _UNREACHABLE.search(text):
        hint = (
            "The name node or a data node could not be reached: check host, port and the network."
        )
    return kind(f"Could not {doing} {location}: {text}.", hint=hint, file=location)


def _first_line(error: Exception) -> str:
    """Return the text of an error without the name node's Java stack."""
    return str(error).split("\\n\\tat ")[0].split("\n")[0].rstrip(".") or type(error).__name__
