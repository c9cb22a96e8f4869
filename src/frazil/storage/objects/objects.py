"""Store files in S3, Google Cloud Storage and Azure: obstore for whole files and create-if-absent,
pyarrow for random access.

An object store has no directories; `make_directory` creates a marker object. `publish` is one
conditional PUT (If-None-Match: *).
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.fs

from frazil.errors import (
    FileAlreadyExistsError,
    FrazilError,
    InvalidInput,
    NoSuchFileError,
    StorageError,
    Unsupported,
)
from frazil.storage.arrow_handler import StorageHandler
from frazil.storage.base import (
    MARKER,
    AccessRefused,
    Entries,
    Failures,
    FileInfo,
    Names,
    PublishUnclear,
    hide_secrets,
    storage_error,
)
from frazil.storage.credentials.vended import (
    Credentials,
    CredentialsSource,
    current,
    generation,
    merged,
    renewed,
)
from frazil.storage.hdfs.hdfs_files import HdfsInput
from frazil.storage.locations import join, scheme_of
from frazil.storage.objects.conditional import check_conditional_writes
from frazil.storage.objects.object_clients import (
    EXTRAS,
    arrow_system,
    by_pyarrow,
    client,
    obstore_for,
    split_container,
)
from frazil.storage.objects.redirects import REFUSED
from frazil.storage.objects.s3_objects import DELETE_TAGS, s3_objects

T = TypeVar("T")
OBJECT_SCHEMES = set(EXTRAS)
_PROBE_RETRIES = 2
_PART, _PARTS_AT_ONCE = 8 << 20, 4  # bytes of a large range that one request reads
_READS = threading.BoundedSemaphore(
    25
)  # at once in this process: each has a connection, and scans beside each other ask for many
UNKNOWN_KEY = ("InvalidAccessKeyId", "XAdminUserNotFound")
"""What stores of S3's kind say of an access key that they do not know: Amazon's with status 403,
VersityGW with 404.
"""
_PAUSES = (
    0.1,
    0.3,
    1.0,
    3.0,
    0.0,
)  # seconds after each try to create an object beside another conditional request; after the last, none
CONFLICTS = ("ConditionalRequestConflict", "OperationAborted")
"""What S3 may answer either of two conditional requests at once: nothing was applied, and it is to
be sent again.
"""
_CONFLICTING = re.compile("|".join(CONFLICTS))
_REPEATED = re.compile(r"after [1-9]\d* retries")
_CLIENT_ERROR = re.compile(r"(?:non-2xx status code:|answered with HTTP) 4(?!08|09|12|25|29)\d\d\b")
_REFUSED = re.compile(r"(?:^|/)\.{0,2}(?=/)|(?:^|/)\.{1,2}$|[\x00-\x1f\x7f]")
# The bucket may become a part of an address, in which these characters would end the host: keys
# would be sent to another one.
_LOCATION = re.compile(
    r"[A-Za-z0-9]+://(?P<bucket>[^/@#?%\\\x00-\x20\x7f]+(?:@[^/@#?%\\\x00-\x20\x7f]*)?)(?:/(?P<key>.*))?",
    re.S,
)


@dataclass(frozen=True)
class ObjectStorage:
    """Store files in the buckets of one scheme: s3, gs or abfss. Each process that unpickles it
    makes its own clients.

    With `vended` credentials every file is opened with those of the moment. An upload to S3 that
    lasts longer than they live goes on with the next ones; a file that is being read keeps those it
    was opened with. Where a store refuses them before their end, the catalog is asked for others,
    and the store once more; after an upload that broke so, the next one has others.
    """

    scheme: str
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    vended: CredentialsSource | None = field(default=None, repr=False)
    deleted_at_once: ClassVar[int] = 1000  # as many as a request to S3 may name

    def local_path(self, location: str) -> None:
        return None

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        bucket, key = self._bucket_and_key(location)
        container, host = split_container(self.scheme, bucket)
        properties = merged(self.properties, self.vended)
        if not by_pyarrow(self.scheme, properties, host):
            return pa.fs.PyFileSystem(StorageHandler(self)), location
        return arrow_system(self.scheme, properties, host), f"{container}/{key}"

    def _split(self, location: str) -> tuple[str, str]:
        match = _LOCATION.fullmatch(location)
        if match is None:
            text = f"Location {location} does not name a bucket."
            hint = f"Locations look like {self.scheme}://bucket/path, where the bucket's name has no blank and none of # ? % and \\."
            raise InvalidInput(text, hint=hint, file=location)
        return match["bucket"], (match["key"] or "").rstrip("/")

    def _bucket_and_key(self, location: str) -> tuple[str, str]:
        """Split a location. Raises Unsupported for a key that obstore and pyarrow refuse, or take
        for another one.
        """
        bucket, key = self._split(location)
        if _REFUSED.search(key) or (self.scheme == "abfss" and "\\" in key):
            raise _refused(location, "Write the object under another key.")
        return bucket, key

    def _client_and_key(
        self, location: str, most_retries: int | None = None
    ) -> tuple[Any, Any, str]:
        """Return the module obstore, the client of the bucket, and the key in it."""
        bucket, key = self._bucket_and_key(location)
        library = obstore_for(self.scheme)
        if self.scheme == "s3":  # its clients ask for the next credentials themselves
            return (
                library,
                client(
                    self.scheme,
                    bucket,
                    self.properties,
                    self.vended,
                    most_retries,
                    generation(self.vended),
                ),
                key,
            )
        return (
            library,
            client(self.scheme, bucket, merged(self.properties, self.vended), None, most_retries),
            key,
        )

    def _writes(self) -> dict[str, Any]:
        """Return what obstore's writes are told: tags and a storage class."""
        return _writes_of(self.properties) if self.scheme == "s3" else {}

    def _keeps(self, location: str) -> bool:
        """Tell whether objects are kept when they are deleted (`s3.delete-enabled` is false).
        Raises Unsupported where they are to be given tags instead."""
        if self.scheme != "s3" or not any(
            key.startswith(("s3.delete-enabled", DELETE_TAGS)) for key, _ in self.properties
        ):
            return False
        if tags := [key for key, _ in self.properties if key.startswith(DELETE_TAGS)]:
            text = f"{location} is not deleted: {tags[0]} asks to give it a tag first, which is not supported."
            raise Unsupported(
                text,
                hint="Leave the tags out, or set s3.delete-enabled=false and let a rule of the bucket delete objects.",
            )
        return dict(self.properties).get("s3.delete-enabled", "true").strip().lower() == "false"

    def _credentials(self) -> Credentials | None:
        return None if self.vended is None else current(self.vended)

    def _renewing(self, ask: Callable[[], T]) -> T:
        """Ask the store, and once more with other credentials where it refuses those that the
        catalog vends.
        """
        used = self._credentials()
        try:
            return ask()
        except AccessRefused:
            if not self._has_others(used):
                raise
            return ask()

    def _has_others(self, refused: Credentials | None) -> bool:
        return self.vended is not None and refused is not None and renewed(self.vended, refused)

    def _asked(self, location: str, doing: str, ask: Callable[[Any, Any, str], T]) -> T:
        """Ask obstore (its module, the client of the bucket, the key in it), by renewed credentials
        if need be.
        """

        def once() -> T:
            library, store, key = self._client_and_key(location)
            with _translated_errors(location, doing):
                return ask(library, store, key)

        obstore_for(self.scheme)  # that it is missing is told before credentials are looked for
        return self._renewing(once)

    def read(self, location: str) -> bytes:
        return self._asked(
            location, "read", lambda library, store, key: bytes(library.get(store, key).bytes())
        )

    def read_start(self, location: str, size: int) -> bytes:
        def start(library: ModuleType | SimpleNamespace, store: object, key: str) -> bytes:
            try:
                return bytes(library.get(store, key, options={"range": (0, size)}).bytes())
            except Exception as error:
                if (
                    "416" in str(error) and not library.head(store, key)["size"]
                ):  # an empty object has no range
                    return b""
                raise

        return self._asked(location, "read", start)

    def open_input(self, location: str) -> pa.NativeFile:
        def once() -> pa.NativeFile:
            system, path = self.arrow(location)
            if path == location:  # the system would ask this storage
                return self._open_by_ranges(location)
            with _translated_errors(location, "open"):
                return system.open_input_file(path)

        return self._renewing(once)

    def _open_by_ranges(self, location: str) -> pa.NativeFile:
        with _READS:
            size = self.size(location)
        return pa.PythonFile(
            HdfsInput(_RangeReader(self, location, size), contextlib.nullcontext), "r"
        )

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a part of an object that lies within it, a large one by several requests at once."""

        def part(start: int, end: int) -> bytes:
            with _READS:
                return self._asked(
                    location,
                    "read",
                    lambda library, store, key: bytes(
                        library.get_range(store, key, start=start, end=end)
                    ),
                )

        end = offset + length
        if length < 2 * _PART:
            return part(offset, end)
        with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
            return b"".join(
                pool.map(
                    lambda start: part(start, min(start + _PART, end)), range(offset, end, _PART)
                )
            )

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        """Open a sink whose object appears when it is complete. An existing object is not detected:
        names of data files are unique.
        """
        used = self._credentials()
        library, store, key = self._client_and_key(location)
        with _translated_errors(location, "write"):
            writer = library.open_writer(store, key, **self._writes())
        try:
            yield pa.PythonFile(_ObjectSink(writer, location), "w")
            with _translated_errors(location, "write"):
                writer.close()
        except BaseException as error:
            if isinstance(error, AccessRefused):
                self._has_others(used)
            with contextlib.suppress(
                Exception
            ):  # the parts that were sent would be kept, and paid for, until somebody looks for them
                writer.__exit__(type(error), error, None)
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
        if overwrite:
            self._asked(
                location,
                "write",
                lambda library, store, key: library.put(store, key, data, **self._writes()),
            )
        elif not self._create(location, data):
            raise FileAlreadyExistsError(f"File {location} already exists.", file=location)

    def publish(self, location: str, data: bytes) -> bool:
        """Create an object unless there is one. Raises Unsupported where the store does not honour
        that condition.
        """
        self._client_and_key(
            location
        )  # so that what cannot be written is told of this object, not of the one it is tried with
        self._renewing(lambda: self._check_conditional_writes(location))
        return self._create(location, data)

    def _check_conditional_writes(self, location: str) -> None:
        def create(probe: str) -> bool:
            library, store, key = self._client_and_key(probe, _PROBE_RETRIES)
            try:
                library.put(
                    store, key, b"probe", mode="create", use_multipart=False, **self._writes()
                )
                return True
            except library.exceptions.AlreadyExistsError:
                return False

        with _translated_errors(location, "write beside"):
            check_conditional_writes(
                (self.scheme, self._split(location)[0], self.properties),
                location,
                create,
                self.delete,
            )

    def _create(self, location: str, data: bytes) -> bool:
        may_be_applied = False
        for pause in _PAUSES:
            used, (library, store, key) = self._credentials(), self._client_and_key(location)
            try:
                library.put(store, key, data, mode="create", use_multipart=False, **self._writes())
                return True
            except Exception as error:
                failure = error
            may_be_applied |= not _is_refused(library, failure) or bool(
                _REPEATED.search(str(failure))
            )
            # A client that repeats its request may meet its own object (412), and a lost answer may
            # have been a success: read it back.
            stored = self._read_back(location)
            if isinstance(stored, bytes):
                return stored == data
            if _CONFLICTING.search(str(failure)):
                time.sleep(pause)
            elif used is self._credentials():  # which to read it back may have renewed
                break
        is_absent = isinstance(stored, NoSuchFileError)
        raise _not_created(library, failure, location, is_absent or not may_be_applied) from failure

    def _read_back(self, location: str) -> bytes | FrazilError:
        try:
            return self.read(location)
        except FrazilError as error:
            return error

    def exists(self, location: str) -> bool:
        try:
            self.size(location)
            return True
        except NoSuchFileError:
            return False

    def size(self, location: str) -> int:
        return self._asked(
            location, "inspect", lambda library, store, key: int(library.head(store, key)["size"])
        )

    def delete(self, location: str) -> None:
        if not self._keeps(location):
            self._asked(location, "delete", lambda library, store, key: library.delete(store, key))

    def delete_many(self, locations: Iterable[str]) -> Failures:
        """Delete objects by lists of a thousand, one list after the other; the order within a list
        is the store's.
        """
        failed: Failures = []
        for _, bucket in itertools.groupby(locations, lambda location: location.split("/")[:3]):
            while together := list(itertools.islice(bucket, self.deleted_at_once)):
                failed += self._delete_together(together)
        return failed

    def _delete_together(self, locations: Sequence[str]) -> Failures:
        """Delete objects of one bucket. Where the store refuses a list, or one object of it, each
        is deleted alone, which tells which.
        """
        if len(locations) > 1 and not self._keeps(locations[0]):
            with contextlib.suppress(Exception):
                keys = [self._bucket_and_key(location)[1] for location in locations]
                self._asked(
                    locations[0], "delete", lambda library, store, _: library.delete(store, keys)
                )
                return []
        failed: Failures = []
        for location in locations:
            try:
                self.delete(location)
            except NoSuchFileError:
                continue
            except FrazilError as error:
                failed.append((location, error))
        return failed

    def _keys(self, directory: str, after: str = "") -> Iterator[tuple[str, Any]]:
        """List objects below a directory as (key below it, their metadata). Where the credentials
        end on the way, it goes on with others, if the store lists in order."""
        last, in_order = after, True
        refused_at: str | None = None
        while True:
            used = self._credentials()
            try:
                for rest, item in self._listed(directory, last):
                    yield rest, item
                    last, in_order = rest, in_order and rest > last
                return
            except AccessRefused:
                if refused_at == last or not (in_order and self._has_others(used)):
                    raise
                refused_at = last

    def _listed(self, directory: str, after: str) -> Iterator[tuple[str, Any]]:
        library, store, key = self._client_and_key(directory)
        offset = f"{key}/{after}" if after else None
        batches = iter(library.list(store, prefix=key or None, offset=offset, chunk_size=1000))
        while True:
            with _translated_errors(directory, "list"):
                batch = next(batches, None)
            if batch is None:
                return
            for item in batch:
                rest = item["path"][len(key) :].lstrip("/") if key else item["path"]
                if rest > after:  # a store may take the offset for a hint: Azurite does
                    yield rest, item

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for rest, item in self._keys(prefix):
            yield FileInfo(
                join(prefix, rest), int(item["size"]), int(item["last_modified"].timestamp() * 1000)
            )

    def entries(self, directory: str) -> Entries:
        listing = self._asked(
            directory,
            "list",
            lambda library, store, key: library.list_with_delimiter(store, prefix=key or None),
        )
        names = sorted(p.rstrip("/").rsplit("/", 1)[-1] for p in listing["common_prefixes"])
        files = [
            FileInfo(
                join(directory, name),
                int(item["size"]),
                int(item["last_modified"].timestamp() * 1000),
            )
            for item in listing["objects"]
            if (name := item["path"].rsplit("/", 1)[-1]) != MARKER
        ]
        return names, files

    def names(self, directory: str, after: str = "") -> Names:
        return sorted(
            {rest.split("/", 1)[0] for rest, _ in self._keys(directory, after)} - {MARKER}
        )

    def directories(self, directory: str) -> Names:
        listing = self._asked(
            directory,
            "list",
            lambda library, store, key: library.list_with_delimiter(store, prefix=key or None),
        )
        prefixes = listing["common_prefixes"]
        return sorted(p.rstrip("/").rsplit("/", 1)[-1] for p in prefixes)

    def is_directory(self, location: str) -> bool:
        return next(self._keys(location), None) is not None

    def make_directory(self, location: str) -> None:
        self.write(join(location, MARKER), b"", True)

    def remove_directory(self, location: str) -> bool:
        if any(rest != MARKER for rest, _ in self._keys(location)):
            return False
        self.delete_many([join(location, MARKER)])
        return True

    def delete_tree(self, location: str) -> None:
        for failed, error in self.delete_many([info.location for info in self.list(location)]):
            raise storage_error(error, failed, "delete") from error


@functools.lru_cache(maxsize=64)
def _writes_of(properties: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return s3_objects(dict(properties)).of_writes()


@dataclass(frozen=True)
class _RangeReader:
    """Read ranges of an object whose size is known."""

    storage: ObjectStorage
    location: str
    size: int

    def file_length(self) -> int:
        return self.size

    def read_range(self, offset: int, length: int) -> bytes:
        return self.storage.read_range(self.location, offset, length)


class _ObjectSink(io.RawIOBase):
    """Pass what pyarrow writes on to obstore; closing it does not complete the object, the context
    of `open_output` does.
    """

    def __init__(self, writer: Any, location: str):
        super().__init__()
        self.writer, self.location = writer, location

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with _translated_errors(self.location, "write"):
            self.writer.write(bytes(data))
        return len(data)


def _is_refused(library: ModuleType | SimpleNamespace, error: Exception) -> bool:
    """Tell whether a conditional PUT was refused, for whatever reason but an object of that name."""
    if isinstance(error, library.exceptions.AlreadyExistsError):
        return bool(_CONFLICTING.search(str(error)))
    refusals = (
        library.exceptions.PermissionDeniedError,
        library.exceptions.UnauthenticatedError,
        FileNotFoundError,
    )
    return isinstance(error, refusals) or bool(
        _CLIENT_ERROR.search(str(error)) or _CONFLICTING.search(str(error))
    )


def _not_created(
    library: ModuleType | SimpleNamespace, error: Exception, location: str, is_certain: bool
) -> FrazilError:
    """Translate the last error of a conditional PUT. `is_certain`: a refusal means that there is no
    object of ours, as no earlier try can have been applied, or the store says so."""
    if _is_refused(library, error):
        return (
            _translated(error, location, "write")
            if is_certain
            else _translated(error, location, "publish", PublishUnclear)
        )
    if isinstance(error, library.exceptions.AlreadyExistsError):
        return PublishUnclear(
            f"The store reports that {location} exists, but it cannot be read.", file=location
        )
    return _translated(error, location, "publish", PublishUnclear)


def _refused(location: str, hint: str) -> Unsupported:
    why = "obstore and pyarrow refuse keys with empty segments (//), segments of one or two dots, and control characters"
    if scheme_of(location) == "abfss" and "\\" in location:
        why = "Azure takes a backslash for a slash"
    return Unsupported(f"Object {location!r} cannot be addressed: {why}.", hint=hint, file=location)


@contextlib.contextmanager
def _translated_errors(location: str, doing: str) -> Iterator[None]:
    try:
        yield
    except FrazilError:
        raise
    except Exception as error:
        raise _translated(error, location, doing) from error


def _translated(
    error: Exception, location: str, doing: str, kind: type[StorageError] = StorageError
) -> FrazilError:
    """Translate an error of obstore or pyarrow. Its text is not shown; the traceback shows it, so
    secrets are masked in it.
    """
    hide_secrets(error)
    name, scheme, code = type(error).__name__, scheme_of(location), _code(str(error))
    if isinstance(error, FileNotFoundError) or name == "NotFoundError":
        if code in _NO_BUCKET:
            return _no_bucket(location, doing)
        if code not in UNKNOWN_KEY:
            return NoSuchFileError(f"There is no file {location}.", file=location)
        name, code = code, ""
    if isinstance(error, FrazilError):
        return (
            error if kind is StorageError else kind(error.message, hint=error.hint, file=location)
        )
    if name == "InvalidPathError" and (
        match := re.search(r'[Pp]ath "(.*?)"(?: contained|: )', str(error), re.S)
    ):
        bucket = "/".join(location.split("/")[:3])
        advice = f"Move or delete it by the store's own tools: while it is there, {location} cannot be listed."
        return _refused(f"{bucket}/{match[1]}", advice)
    hint = (
        _HINTS.get(code)
        or (_region_hint(str(error)) if scheme == "s3" else None)
        or {
            "PermissionDeniedError": "Check the permissions that the credentials have on the bucket.",
            **dict.fromkeys(
                ("UnauthenticatedError", *UNKNOWN_KEY), "Check the credentials of the catalog."
            ),
        }.get(name)
        or _hint(str(error), scheme)
    )
    answer = f"{name} ({code})" if code else name
    if kind is StorageError and (
        name in _REFUSALS or code in _ENDED_CODES or _REFUSED_ACCESS.search(str(error))
    ):
        kind = AccessRefused
    return kind(
        f"Could not {doing} {location}: the store answered with {answer}.", hint=hint, file=location
    )


_CODE = re.compile(
    r"<Code>([A-Za-z]{1,60})</Code>|AWS Error (?!UNKNOWN)([A-Z_]{1,60})\b|AWS Error UNKNOWN \((HTTP status \d{3})\)"
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_REFUSALS = ("PermissionDeniedError", "UnauthenticatedError", *UNKNOWN_KEY)
# an answer to HEAD has no text, and Amazon's to ended credentials the status 400
_REFUSED_ACCESS = re.compile(
    r"ACCESS_DENIED|PERMISSION_DENIED|UNAUTHENTICATED|40[13] (?:Forbidden|Unauthorized)|HTTP status(?: code)?:? 40[13]\b"
    r"|HTTP status 400\) during HeadObject|performing HEAD .* 400 Bad Request",
    re.I,
)
_ENDED_CODES = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")
_ENDED = "The credentials have ended or are not valid any more: give the catalog new ones."
_BUSY = "The store is overloaded: try again later, or with fewer tasks at a time."
_HINTS = {
    REFUSED: "The store redirects to another host, which is not followed: secrets would go there. Check s3.endpoint and s3.region.",
    **dict.fromkeys(_ENDED_CODES, _ENDED),
    **dict.fromkeys(("SlowDown", "SLOW_DOWN", "ServerBusy", "ServiceUnavailable"), _BUSY),
    "RequestTimeTooSkewed": "This machine's clock differs from the store's: set it.",
    "KeyTooLongError": "Keys of S3 have at most 1024 bytes. Where the values of a partition are longer, partition by truncate or bucket, "
    "or set write.object-storage.enabled=true and write.object-storage.partitioned-paths=false.",
    **dict.fromkeys(
        _NO_BUCKET, "Create the bucket, or check the location and the store's address."
    ),
}


def _code(text: str) -> str:
    """Find what a store calls an error, in the text of a library's; empty where it is not told."""
    match = _CODE.search(text)
    return "" if match is None else match[1] or match[2] or match[3]


def _no_bucket(location: str, doing: str) -> FrazilError:
    bucket = "/".join(location.split("/")[:3])
    if doing.startswith("write"):
        return StorageError(
            f"Could not {doing} {location}: there is no bucket {bucket}.",
            hint=_HINTS["NoSuchBucket"],
            file=location,
        )
    return NoSuchFileError(
        f"There is no file {location}, and no bucket {bucket}.",
        hint=_HINTS["NoSuchBucket"],
        file=location,
    )


def _region_hint(text: str) -> str | None:
    """Find by the text of an error whether a bucket of S3 is in another region than the one that
    was asked.
    """
    if re.search(
        r"Received redirect|status(?: code:)? 301|PermanentRedirect|AuthorizationHeaderMalformed|region '[\w-]+' is wrong",
        text,
    ):
        return "The bucket may be in another region: check s3.region (and s3.endpoint)."
    return None


_CREDENTIALS = {
    "s3": "s3.access-key-id and s3.secret-access-key, or s3.anonymous",
    "gs": "gcs.oauth2.token, gcs.no-auth to read public data, or set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
    "abfss": "adls.connection-string, or "
    "adls.account-name with adls.account-key or adls.sas-token, or adls.tenant-id, adls.client-id and adls.client-secret",
}
_ENDPOINTS = {
    "s3": "s3.endpoint, s3.region",
    "gs": "gcs.service.host",
    "abfss": "adls.account-name",
}


def _hint(text: str, scheme: str) -> str | None:
    """Find a hint by the text of an error whose class does not tell. The text itself is not shown,
    since it may hold secrets.
    """
    if any(
        host in text for host in ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
    ):  # where clouds give credentials
        return f"No credentials were found: give the catalog {_CREDENTIALS[scheme]}."
    if any(refusal in text for refusal in ("ACCESS_DENIED", "403 Forbidden", "HTTP status 403")):
        return "Check the credentials of the catalog, and their permissions on the bucket."
    if "error sending request" in text or "onnect" in text or "curlCode" in text:
        return f"The store could not be reached: check the endpoint ({_ENDPOINTS[scheme]}) and the network."
    return None
