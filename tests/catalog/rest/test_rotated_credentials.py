"""Credentials that end in the midst of a job: a store that takes a key only while it lives, and a REST catalog that vends one after the other."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.codec.json_updates import requirement_from_json, update_from_json
from frazil.codec.metadata_json import encode_metadata
from frazil.commit.apply import apply_updates
from frazil.commit.requirements import check_requirements
from frazil.errors import StorageError
from frazil.spec.metadata import TableMetadata
from frazil.storage import storage_for
from tests.catalog.conftest import new_metadata
from tests.catalog.rest.conftest import Asked, Server
from tests.storage.conftest import s3_place

pytestmark = pytest.mark.skipif(not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set")
ROUTE = "/v1/namespaces/db/tables/t"


@dataclass
class KeyedStore:
    """Pass requests on to an S3 server while the access key that signed them lives. `served` counts requests by key, `refused` lists keys."""

    endpoint: str
    uri: str = ""
    ends: dict[str, float] = field(default_factory=dict)
    served: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def key(self, life: float) -> str:
        """Make a key that the store takes for `life` seconds."""
        made = f"key{len(self.ends) + 1}"
        self.ends[made] = time.time() + life
        return made


def keyed_handler(store: KeyedStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            signed = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
            key = signed[1] if signed else ""
            if store.ends.get(key, 0) < time.time():
                store.refused.append(key)
                self.reply(403, {}, b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
                return
            store.served[key] += 1
            server = HTTPConnection(urlsplit(store.endpoint).netloc, timeout=30)
            server.request(self.command, self.path, body, dict(self.headers))
            given = server.getresponse()
            data = given.read()
            self.reply(given.status, {k: v for k, v in given.getheaders() if k.lower() not in ("connection", "transfer-encoding")}, data)
            server.close()

        def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response_only(status)
            for key, value in headers.items():
                self.send_header(key, value)
            if "content-length" not in {k.lower() for k in headers}:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    return Handler


@pytest.fixture
def store() -> Iterator[KeyedStore]:
    made = KeyedStore(os.environ["FRAZIL_TEST_S3"])
    running = ThreadingHTTPServer(("127.0.0.1", 0), keyed_handler(made))
    running.daemon_threads = True
    made.uri = f"http://127.0.0.1:{running.server_port}"
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    running.shutdown()
    running.server_close()


def vends(server: Server, store: KeyedStore, life: float) -> Catalog:
    """A catalog of one table, db.t, that vends a new key at every question, which ends after `life` seconds."""
    place, properties = s3_place()
    state: dict[str, TableMetadata] = {"now": new_metadata(f"{place}/t", write__target_file_size_bytes="1")}

    def credentials() -> list[dict[str, Any]]:
        key = store.key(life)
        ends = {"s3.session-token": "t", "s3.session-token-expires-at-ms": str(int(store.ends[key] * 1000))}
        return [{"prefix": f"{place}/", "config": {"s3.access-key-id": key, "s3.secret-access-key": "hush", **ends}}]

    def table() -> tuple[int, Any]:
        metadata = json.loads(encode_metadata(state["now"]))
        shown = f"{place}/t/metadata/{len(state['now'].snapshots)}.metadata.json"
        return 200, {"metadata-location": shown, "metadata": metadata, "storage-credentials": credentials()}

    def commit(asked: Asked) -> tuple[int, Any]:
        body = json.loads(asked.body)
        check_requirements(state["now"], [requirement_from_json(r) for r in body["requirements"]])
        state["now"] = apply_updates(state["now"], [update_from_json(u) for u in body["updates"]])
        return table()

    credentials_route = f"GET {ROUTE}/credentials"
    offered = ["GET", "POST"]
    endpoints = [f"{m} /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}" for m in offered]
    endpoints.append("GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials")
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {}, "endpoints": endpoints}))
    server.on(f"GET {ROUTE}", lambda _: table())
    server.on(f"POST {ROUTE}", commit)
    server.on(credentials_route, lambda _: (200, {"storage-credentials": credentials()}))
    more = {"s3.endpoint": store.uri, "s3.path-style-access": properties["s3.path-style-access"]}
    return frazil.load_catalog(f"r{uuid.uuid4().hex[:8]}", type="rest", uri=server.uri, **more)


def slowly(batches: int, seconds: float) -> pa.RecordBatchReader:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])

    def made() -> Iterator[pa.RecordBatch]:
        for n in range(batches):
            time.sleep(seconds)
            yield pa.record_batch([pa.array(range(100 * n, 100 * n + 100), pa.int64())], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def still_refuses(store: KeyedStore, location: str) -> None:
    """Assert that the store takes no key that has ended: what was served before was served by keys that lived."""
    assert store.refused == [] and len(store.served) >= 3, "two rotations at least, and no request by a key that had ended"
    first = min(store.served, key=lambda key: int(key.removeprefix("key")))
    assert store.ends[first] < time.time()
    old = {"s3.endpoint": store.uri, "s3.access-key-id": first, "s3.secret-access-key": "hush", "s3.path-style-access": "true"}
    with pytest.raises(StorageError):
        storage_for(location, old).write(f"{location}/late", b"x")
    assert store.refused and set(store.refused) == {first}


def test_an_append_and_a_read_without_spark_go_on_beyond_two_rotations(server: Server, store: KeyedStore) -> None:
    with vends(server, store, 1.2) as catalog:
        table = catalog.load_table("db.t")
        table.append(slowly(8, 0.25))
        written = len(store.served)
        assert written >= 2, "rotated while the files were written"
        read = table.scan().to_arrow_batch_reader()
        ids: list[int] = []
        for batch in read:
            ids += batch["id"].to_pylist()
            time.sleep(0.1)
        assert sorted(ids) == list(range(800)) and len(table.inspect.files()) > 1
        time.sleep(1.2)
        assert table.scan().count() == 800 and len(table.scan().to_arrow()) == 800 and len(store.served) > written, "rotated while it was read"
        still_refuses(store, table.location())


@pytest.mark.soak
@pytest.mark.spark
def test_tasks_of_spark_write_and_read_beyond_two_rotations(server: Server, store: KeyedStore, spark: Any) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.8)
            yield batch

    with vends(server, store, 4) as catalog:
        table = catalog.load_table("db.t")
        table.append(spark.range(0, 800, 1, 16).mapInArrow(slow, "id long"))
        written = len(store.served)
        assert written >= 3, "rotated twice while tasks wrote"
        frame = table.scan(options={"split-size": "1"}).to_spark(spark)
        ids = sorted(r.id for r in frame.mapInArrow(slow, "id long").collect())
        assert ids == list(range(800)) and len(store.served) - written >= 2, "rotated twice while tasks read"
        time.sleep(2)
        still_refuses(store, table.location())
