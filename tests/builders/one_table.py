"""A REST catalog of one table, which a small server in this process keeps."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import frazil
from frazil.catalog import Catalog
from frazil.codec.metadata_json import encode_metadata
from frazil.commit.apply import apply_updates
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import check_requirements
from tests.builders.json_updates import requirement_from_json, update_from_json
from tests.catalog.conftest import new_metadata
from tests.catalog.rest.conftest import Asked, Server

TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"


def one_table(
    server: Server,
    endpoint: str,
    location: str,
    told: Callable[[], dict[str, Any]],
    properties: dict[str, str],
    **metadata: Any,
) -> Catalog:
    """A catalog of the table db.t in S3. `told()`: what the server tells with each load, as
    `storage-credentials`, and gives who asks for new ones."""
    state: dict[str, TableMetadata] = {
        "now": replace(new_metadata(location), properties=properties, **metadata)
    }
    route = "/v1/namespaces/db/tables/t"

    def table() -> tuple[int, Any]:
        metadata = json.loads(encode_metadata(state["now"]))
        shown = f"{location}/metadata/{len(state['now'].snapshots)}.metadata.json"
        return 200, {"metadata-location": shown, "metadata": metadata, **told()}

    def commit(asked: Asked) -> tuple[int, Any]:
        body = json.loads(asked.body)
        check_requirements(state["now"], [requirement_from_json(r) for r in body["requirements"]])
        state["now"] = apply_updates(state["now"], [update_from_json(u) for u in body["updates"]])
        return table()

    endpoints = [f"GET {TABLE}", f"POST {TABLE}", f"GET {TABLE}/credentials"]
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {}, "endpoints": endpoints}))
    server.on(f"GET {route}", lambda _: table())
    server.on(f"POST {route}", commit)
    server.on(f"GET {route}/credentials", lambda _: (200, told()))
    more = {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return frazil.load_catalog(f"r{uuid.uuid4().hex[:8]}", type="rest", uri=server.uri, **more)
