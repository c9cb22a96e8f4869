"""Tables in S3 whose REST catalog vends credentials, for s3_job.py: by a small server in this
process, and by Java's reference server.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import frazil
from tests.catalog.rest.conftest import CONFIG, Server, handler

SECRET = "vended-" + "S3CRET"
STATIC = {"s3.access-key-id": "vended", "s3.secret-access-key": SECRET}
VENDED = {
    "vended_token": {**STATIC, "s3.session-token": SECRET},
    "vended_keys_with_an_end": {**STATIC, "s3.session-token-expires-at-ms": "4102444800000"},
    "vended_keys": STATIC,
    "other_vended_keys": {**STATIC, "s3.access-key-id": "another"},
}
"""In this order: the file system of a bucket keeps the credentials that it was opened with."""
KINDS = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def written(catalog: frazil.Catalog, name: str) -> frazil.Table:
    """A table of six rows, of which a deletion vector takes one."""
    table = catalog.create_table(
        name,
        "id bigint, kind string",
        format_version=3,
        properties={"write.delete.mode": "merge-on-read"},
    )
    table.append(pa.table({"id": range(6), "kind": ["a", "b"] * 3}, KINDS))
    table.delete("id = 1")
    return table


def vending(properties: dict[str, str], table: frazil.Table) -> frazil.Catalog:
    """A REST catalog without keys of its own that shows one table under each name of VENDED, and
    vends what stands there for its location.
    """
    server = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.on("GET /v1/config", (200, CONFIG))
    place = table.metadata_location
    shown = {"metadata-location": place, "metadata": json.loads(table._loaded.storage.read(place))}
    for name, config in VENDED.items():
        credentials = [
            {"prefix": prefix, "config": c}
            for prefix, c in (("s3://", {"s3.access-key-id": "wrong"}), (table.location(), config))
        ]
        server.on(
            f"GET /v1/namespaces/db/tables/{name}",
            (200, {**shown, "storage-credentials": credentials}),
        )
    more = {"rest-metrics-reporting-enabled": "false", **properties}
    return frazil.load_catalog(
        "vending", type="rest", uri=f"http://127.0.0.1:{http.server_port}", **more
    )
