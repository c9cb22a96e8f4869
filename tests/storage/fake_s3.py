"""A small S3 server in this process, which counts requests and can be told to behave as stores do
that are not quite S3's equals.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from frazil.storage.objects import conditional

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
Answer = tuple[int, bytes, dict[str, str]]


@dataclass
class FakeS3:
    """The server's objects and uploads by path, what it was asked, and how it answers.
    `conditions`: honoured, ignored, or refused (501). `disturb`: called with each (method, path,
    query) before anything happens; a status that it returns is the answer, for the `reason`.
    `sent`: the headers of each request, in small letters."""

    endpoint: str = ""
    conditions: str = "honoured"
    latency: float = 0.0
    disturb: Callable[[str, str, str], int | None] = lambda method, path, query: None
    reason: str = "Disturbed"
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    @property
    def properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.path-style-access": "true",
        }

    def requests(self) -> list[str]:
        """The requests so far, each as its method and the names in its query."""
        return [
            f"{method} {'&'.join(sorted(parse_qs(query, keep_blank_values=True)))}".strip()
            for method, _, query in self.asked
        ]

    def answer(
        self, method: str, path: str, query: dict[str, str], headers: Any, body: bytes
    ) -> Answer:
        match method:
            case "PUT" if "partNumber" in query:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = body
                return 200, b"", _tag(body)
            case "PUT":
                return self._put(path, headers, body)
            case "POST" if "uploads" in query:
                number = f"upload{len(self.asked)}"
                self.uploads[number] = {}
                return (
                    200,
                    _xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>"),
                    {},
                )
            case "POST" if "uploadId" in query:
                parts = self.uploads.pop(query["uploadId"])
                self.objects[path] = b"".join(parts[n] for n in sorted(parts))
                return (
                    200,
                    _xml("CompleteMultipartUploadResult", "<ETag>&quot;whole&quot;</ETag>"),
                    {},
                )
            case "POST" if "delete" in query:
                names = [
                    e.text or ""
                    for e in ET.fromstring(body).iter()
                    if e.tag.rpartition("}")[2] == "Key"
                ]
                for name in names:
                    self.objects.pop(f"{path.rstrip('/')}/{name}", None)
                return (
                    200,
                    _xml(
                        "DeleteResult",
                        "".join(f"<Deleted><Key>{escape(n)}</Key></Deleted>" for n in names),
                    ),
                    {},
                )
            case "DELETE":
                self.uploads.pop(
                    query.get("uploadId", ""), None
                ) if "uploadId" in query else self.objects.pop(path, None)
                return 204, b"", {}
            case _ if "list-type" in query:
                return 200, self._listing(path, query), {}
            case _:
                return self._get(path, headers)

    def _put(self, path: str, headers: Any, body: bytes) -> Answer:
        if headers.get("If-None-Match"):
            if self.conditions == "refused":
                return 501, _xml("Error", "<Code>NotImplemented</Code>"), {}
            if self.conditions == "honoured" and path in self.objects:
                return 412, _xml("Error", "<Code>PreconditionFailed</Code>"), {}
        self.objects[path] = body
        return 200, b"", _tag(body)

    def _get(self, path: str, headers: Any) -> Answer:
        if path not in self.objects:
            return 404, _xml("Error", "<Code>NoSuchKey</Code>"), {}
        data, found = (
            self.objects[path],
            re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("Range") or ""),
        )
        more = {**_tag(data), "Last-Modified": _TIME.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if not found:
            return 200, data, more
        start, end = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
        if start > end:
            return 416, _xml("Error", "<Code>InvalidRange</Code>"), {}
        return (
            206,
            data[start : end + 1],
            {**more, "Content-Range": f"bytes {start}-{end}/{len(data)}"},
        )

    def _listing(self, path: str, query: dict[str, str]) -> bytes:
        bucket = path.rstrip("/")
        prefix, delimiter, after = (
            query.get("prefix", ""),
            query.get("delimiter"),
            query.get("start-after", ""),
        )
        files, folders = "", set()
        for key in sorted(
            p.removeprefix(f"{bucket}/") for p in self.objects if p.startswith(f"{bucket}/{prefix}")
        ):
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            elif key > after:
                size, time_ = (
                    len(self.objects[f"{bucket}/{key}"]),
                    _TIME.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                )
                files += f"<Contents><Key>{escape(key)}</Key><LastModified>{time_}</LastModified><Size>{size}</Size></Contents>"
        shared = "".join(
            f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>"
            for f in sorted(folders)
        )
        return _xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{files}{shared}")


def _tag(data: bytes) -> dict[str, str]:
    return {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}


def _xml(name: str, text: str) -> bytes:
    return f'<?xml version="1.0"?><{name}>{text}</{name}>'.encode()


@contextmanager
def fake_s3(**behaviour: Any) -> Iterator[FakeS3]:
    """A server that runs while the context lasts."""
    # The port may be that of an earlier server, whose answers prove nothing about this one.
    conditional._proved.clear()
    fake = FakeS3(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            path = unquote(parts.path)
            time.sleep(fake.latency)
            with fake.lock:
                fake.asked.append((self.command, path, parts.query))
                fake.sent.append({k.lower(): v for k, v in self.headers.items()})
                if (disturbed := fake.disturb(self.command, path, parts.query)) is not None:
                    status, data, headers = (
                        disturbed,
                        _xml("Error", f"<Code>{fake.reason}</Code>"),
                        dict[str, str](),
                    )
                else:
                    query = {
                        k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()
                    }
                    status, data, headers = fake.answer(
                        self.command, path, query, self.headers, body
                    )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_one

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
