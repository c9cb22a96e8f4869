"""Store files in S3 by requests that somebody else signs: a REST catalog that gives out no keys
(`s3.remote-signing-enabled`).

Neither obstore nor pyarrow lets another sign their requests, so these are sent here, over pooled
connections. A signature counts for a method and an address. What is not signed with them (which
range is read, on which condition an object is written) is sent all the same.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.fs

from frazil.errors import (
    CorruptData,
    FileAlreadyExistsError,
    NoSuchFileError,
    NotInstalledError,
    StorageError,
    Unsupported,
)
from frazil.storage.arrow_handler import StorageHandler
from frazil.storage.base import AccessRefused, storage_error
from frazil.storage.credentials.vended import merged
from frazil.storage.objects.object_options import options
from frazil.storage.objects.objects import CONFLICTS, UNKNOWN_KEY, ObjectStorage
from frazil.storage.objects.s3_objects import S3Objects, s3_objects

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

_PART = 16 << 20  # bytes of a part of an upload; S3 takes 10,000 of them
_MAX_LISTING = 64 << 20
_SAFE = "-_.~"
_OWN_KEYS = tuple(
    f"{c}.{k}"
    for c in ("s3", "client")
    for k in ("access-key-id", "secret-access-key", "session-token")
)
_POOLS: dict[int, Any] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class SignedRequest:
    """Hold what a signer answers: the address to call and the headers to send, the signature among
    them.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


Signer = Callable[[str, str, str, Mapping[str, str], str | None], SignedRequest]
"""Sign (method, url, region, headers, body); hashable and picklable. Two that are equal sign for
the same table.
"""


class SignedAccessError(AccessRefused):
    """Report that the store refuses a request, or that none is signed for it."""


@dataclass(frozen=True)
class SignedStorage(ObjectStorage):
    """Store files in S3 without keys: `signer` signs each request."""

    signer: Signer | None = field(default=None, repr=False)
    deleted_at_once: ClassVar[int] = 1  # signers know no request that deletes a list

    def arrow(self, location: str) -> tuple[pa.fs.FileSystem, str]:
        return pa.fs.PyFileSystem(StorageHandler(self)), location

    def _client_and_key(
        self, location: str, most_retries: int | None = None
    ) -> tuple[Any, Any, str]:
        bucket, key = self._split(location)
        assert self.signer is not None
        properties = merged(self.properties, self.vended)
        _config(properties)  # what is wrong with them is told before anything is asked
        return _LIBRARY, _Bucket(properties, self.signer, bucket), key

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        _, bucket, key = self._client_and_key(location)
        upload = _Upload(bucket, key)
        try:
            yield pa.PythonFile(upload.sink(), "w")
            upload.close()
        except BaseException as error:
            with contextlib.suppress(StorageError, NoSuchFileError):
                upload.abort()
            if isinstance(error, OSError):
                raise storage_error(error, location, "write") from error
            raise


@dataclass(frozen=True)
class _Bucket:
    """Ask the store about one bucket."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    signer: Signer = field(repr=False)
    name: str

    def location(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def ask(
        self,
        method: str,
        key: str,
        doing: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        unsigned: Mapping[str, str] | None = None,
        body: bytes | None = None,
        most: int | None = None,
    ) -> Any:
        """Ask the store and return its answer, whose body is read. Raises NoSuchFileError,
        FileAlreadyExistsError (a condition is not met), SignedAccessError and StorageError."""
        config, location = _config(self.properties), self.location(key)
        url = _address(config, self.name, key) + (
            f"?{urlencode(query, quote_via=quote, safe=_SAFE)}" if query else ""
        )
        stored = _object_headers(config["objects"], method, key, query or {})
        own = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", **stored, **(headers or {})}
        signed = self.signer(method, url, config["region"], own, None)
        if urlsplit(signed.url)[:2] != urlsplit(url)[:2] or unquote(
            urlsplit(signed.url).path
        ) != unquote(urlsplit(url).path):
            raise CorruptData(
                f"The catalog's server signs another request than the one to {doing} {location}.",
                file=location,
            )
        sent = {
            k.lower(): v
            for k, v in signed.headers.items()
            if k.lower() not in ("host", "content-length", "cache-control")
        }
        sent |= {k.lower(): v for k, v in {**own, **(unsigned or {})}.items()}
        urllib3 = _urllib3()
        try:
            answer = _pool(urllib3).request(
                method,
                signed.url,
                body=body,
                headers=sent,
                preload_content=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=config["connect"], read=config["request"]),
                retries=_retries(urllib3, method),
            )
            data = answer.read(most + 1 if most is not None else None, decode_content=False)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            text = f"Could not {doing} {location}: {type(getattr(error, 'reason', None) or error).__name__}."
            raise StorageError(
                text, hint="Check the endpoint (s3.endpoint) and the network.", file=location
            ) from None
        if most is not None and len(data) > most:
            answer.close()
            raise StorageError(
                f"Could not {doing} {location}: the store answers with more than was asked for.",
                file=location,
            )
        if answer.status >= 300:
            repeated = len(answer.retries.history) if answer.retries else 0
            raise _error(int(answer.status), data, location, doing, repeated)
        return SimpleNamespace(headers=answer.headers, data=data)


class _Upload:
    """Write an object: one request for a small one, parts for others. It appears when it is closed."""

    def __init__(self, bucket: _Bucket, key: str):
        self.bucket, self.key = bucket, key
        self.held, self.id, self.tags = bytearray(), "", list[str]()

    def sink(self) -> Any:
        return _UploadSink(self)

    def write(self, data: Any) -> None:
        self.held += memoryview(data).cast("B")
        while len(self.held) >= 2 * _PART:
            self._part(_PART)

    def close(self) -> None:
        if not self.id:
            self.bucket.ask("PUT", self.key, "write", body=bytes(self.held))
            return
        self._part(len(self.held))
        parts = "".join(
            f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>"
            for n, tag in enumerate(self.tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        data = self.bucket.ask(
            "POST", self.key, "write", query={"uploadId": self.id}, body=body, most=_MAX_LISTING
        ).data
        if b"<Error" in data:  # the status comes before the end of the work
            raise _error(500, data, self.bucket.location(self.key), "write")

    def abort(self) -> None:
        if self.id:
            self.bucket.ask("DELETE", self.key, "clean up", query={"uploadId": self.id})

    def _part(self, size: int) -> None:
        if not self.id:
            answer = self.bucket.ask(
                "POST", self.key, "write", query={"uploads": ""}, most=_MAX_LISTING
            )
            self.id = _text(_parsed(answer.data, self.bucket.location(self.key)), "UploadId")
        query = {"partNumber": str(len(self.tags) + 1), "uploadId": self.id}
        answer = self.bucket.ask(
            "PUT", self.key, "write", query=query, body=bytes(self.held[:size])
        )
        self.tags.append(str(answer.headers.get("ETag", "")))
        del self.held[:size]


class _UploadSink:
    """Take what pyarrow writes."""

    closed = False

    def __init__(self, upload: _Upload):
        self.upload, self.at = upload, 0

    def write(self, data: Any) -> int:
        self.upload.write(data)
        self.at += len(data)
        return len(data)

    def tell(self) -> int:
        return self.at

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


# --- what ObjectStorage asks of obstore


def _get(bucket: _Bucket, key: str, options: Mapping[str, tuple[int, int]] | None = None) -> Any:
    wanted = (
        {"Range": f"bytes={options['range'][0]}-{options['range'][1] - 1}"} if options else None
    )
    data = bucket.ask("GET", key, "read", unsigned=wanted).data
    return SimpleNamespace(bytes=lambda: data)


def _get_range(bucket: _Bucket, key: str, *, start: int, end: int) -> bytes:
    data = bytes(
        bucket.ask(
            "GET", key, "read", unsigned={"Range": f"bytes={start}-{end - 1}"}, most=end - start
        ).data
    )
    if len(data) != end - start:
        location = bucket.location(key)
        raise StorageError(
            f"Could not read {location}: the store gives {len(data)} bytes in place of {end - start}.",
            file=location,
        )
    return data


def _put(
    bucket: _Bucket,
    key: str,
    data: bytes,
    *,
    mode: str = "overwrite",
    use_multipart: bool = True,
    **_: object,
) -> None:
    if len(data) > 2 * _PART and use_multipart:
        upload = _Upload(bucket, key)
        upload.write(data)
        upload.close()
    else:
        bucket.ask(
            "PUT",
            key,
            "write",
            headers={"If-None-Match": "*"} if mode == "create" else None,
            body=bytes(data),
        )


def _head(bucket: _Bucket, key: str) -> dict[str, int]:
    size = str(bucket.ask("HEAD", key, "inspect").headers.get("Content-Length", ""))
    if not size.isdecimal():
        raise StorageError(
            f"The store did not return the size of {bucket.location(key)}.",
            file=bucket.location(key),
        )
    return {"size": int(size)}


def _delete(bucket: _Bucket, key: str) -> None:
    bucket.ask("DELETE", key, "delete")


def _pages(
    bucket: _Bucket, prefix: str | None, offset: str | None = None, delimiter: str = ""
) -> Iterator[ET.Element]:
    query = {
        "list-type": "2",
        **({"delimiter": delimiter} if delimiter else {}),
        **({"prefix": f"{prefix}/"} if prefix else {}),
    }
    query |= {"start-after": offset} if offset else {}
    while True:
        answer = bucket.ask("GET", "", "list", query=dict(sorted(query.items())), most=_MAX_LISTING)
        page = _parsed(answer.data, bucket.location(prefix or ""))
        yield page
        token = _text(page, "NextContinuationToken") if _text(page, "IsTruncated") == "true" else ""
        if not token or token == query.get("continuation-token"):
            return
        query["continuation-token"] = token


def _list(
    bucket: _Bucket, *, prefix: str | None, offset: str | None = None, chunk_size: int = 1000
) -> Iterator[list[dict[str, Any]]]:
    for page in _pages(bucket, prefix, offset):
        yield _objects(page)


def _list_with_delimiter(bucket: _Bucket, *, prefix: str | None) -> dict[str, Any]:
    listing: dict[str, Any] = {"common_prefixes": [], "objects": []}
    for page in _pages(bucket, prefix, delimiter="/"):
        listing["objects"] += _objects(page)
        listing["common_prefixes"] += [
            _text(e, "Prefix") for e in page if _tag(e) == "CommonPrefixes"
        ]
    return listing


def _objects(page: ET.Element) -> list[dict[str, Any]]:
    return [
        {
            "path": _text(e, "Key"),
            "size": int(_text(e, "Size") or 0),
            "last_modified": datetime.fromisoformat(_text(e, "LastModified")),
        }
        for e in page
        if _tag(e) == "Contents"
    ]


_LIBRARY = SimpleNamespace(
    get=_get,
    get_range=_get_range,
    put=_put,
    head=_head,
    delete=_delete,
    list=_list,
    list_with_delimiter=_list_with_delimiter,
    exceptions=SimpleNamespace(
        AlreadyExistsError=FileAlreadyExistsError,
        PermissionDeniedError=SignedAccessError,
        UnauthenticatedError=SignedAccessError,
    ),
)


# --- requests


@functools.lru_cache(maxsize=64)
def _config(properties: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    keyless = {
        k: v for k, v in properties if not k.startswith(_OWN_KEYS)
    }  # requests hold the signer's signature alone
    chosen = options("s3", {**keyless, "s3.anonymous": "true"})
    if "checksum_algorithm" in chosen.config:
        text = "Catalog property s3.checksum-enabled is not supported where the catalog's server signs requests."
        raise Unsupported(text, hint="Leave it out, or have the server vend credentials.")
    times = {"connect": chosen.arrow["connect_timeout"], "request": chosen.arrow["request_timeout"]}
    return {**chosen.config, **times, "objects": s3_objects(dict(properties))}


def _object_headers(
    objects: S3Objects, method: str, key: str, query: Mapping[str, str]
) -> dict[str, str]:
    """Return the headers by which an object is stored, or read, as the properties of the catalog
    say.
    """
    if (
        not key
        or method not in ("GET", "HEAD", "PUT", "POST")
        or (method == "POST" and "uploadId" in query)
    ):
        return {}
    makes = (method == "PUT" and "partNumber" not in query) or "uploads" in query
    return objects.write_headers() if makes else objects.access_headers()


def _address(config: Mapping[str, Any], bucket: str, key: str) -> str:
    """Return the address of an object, `bucket` in the path unless it is wanted in the host's name."""
    scheme, _, host = (
        str(config.get("endpoint") or f"https://s3.{config['region']}.amazonaws.com")
        .rstrip("/")
        .partition("://")
    )
    path = quote(key, safe=f"/{_SAFE}")
    return (
        f"{scheme}://{bucket}.{host}/{path}"
        if config.get("virtual_hosted_style_request")
        else f"{scheme}://{host}/{bucket}/{path}"
    )


def _urllib3() -> Any:
    try:
        import urllib3
    except ImportError as error:
        raise NotInstalledError(
            "Stores whose requests a catalog signs need urllib3.", hint='pip install "frazil[rest]"'
        ) from error
    return urllib3


def _pool(urllib3: ModuleType) -> Any:
    with _LOCK:
        pool = _POOLS.get(os.getpid())
        if pool is None:
            _POOLS.clear()  # of the process that this one was forked from
            pool = _POOLS[os.getpid()] = urllib3.PoolManager(maxsize=32, num_pools=8)
        return pool


def _after_fork() -> None:
    """Replace the lock in a forked process: a thread that only the parent has may hold it."""
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _retries(urllib3: ModuleType, method: str) -> Any:
    """Return when a request is sent again. One that begins or completes an upload is not, once it
    may have been handled.
    """
    repeatable = method != "POST"
    return urllib3.Retry(
        total=5,
        redirect=0,
        read=5 if repeatable else False,
        other=5 if repeatable else False,
        allowed_methods=None,
        status_forcelist=(429, 500, 502, 503, 504) if repeatable else (429, 503),
        backoff_factor=0.1,
        backoff_max=5,
        raise_on_status=False,
    )


def _error(status: int, body: bytes, location: str, doing: str, repeated: int = 0) -> Exception:
    code = ""
    with contextlib.suppress(CorruptData):
        code = _text(_parsed(body[:_MAX_LISTING], location), "Code") if body else ""
    if status == 404 and code not in ("NoSuchBucket", *UNKNOWN_KEY):
        return NoSuchFileError(f"There is no file {location}.", file=location)
    if status in (409, 412) and code not in CONFLICTS:
        return FileAlreadyExistsError(f"File {location} already exists.", file=location)
    shown_code = f" ({code[:100]})" if code.isalnum() else ""
    retries = f" after {repeated} retries" if repeated else ""
    text = (
        f"Could not {doing} {location}: the store answered with HTTP {status}{shown_code}{retries}."
    )
    if status in (401, 403) or code in UNKNOWN_KEY:
        return SignedAccessError(
            text,
            hint="The catalog's server signed the request; ask who runs it for its keys.",
            file=location,
        )
    return StorageError(text, file=location)


def _parsed(body: bytes, location: str) -> ET.Element:
    import xml.etree.ElementTree as ET

    try:
        if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
            raise CorruptData(
                f"The store's answer about {location} declares entities, which S3 never does.",
                file=location,
            )
        return ET.fromstring(body)
    except (ET.ParseError, RecursionError, ValueError) as error:
        raise CorruptData(
            f"The store's answer about {location} is no XML.", file=location
        ) from error


def _tag(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    return next((e.text or "" for e in element if _tag(e) == name), "")
