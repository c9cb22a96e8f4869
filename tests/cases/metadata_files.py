"""Read what a table's metadata file says, as any engine has written it. Needs nothing but Python."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def newest(paths: Iterable[str]) -> str:
    """Return the path of the latest of a table's metadata files, by the version in its name."""
    return max(paths, key=_version)


def _version(path: str) -> int:
    found = re.match(r"v?(\d+)", path.rpartition("/")[2])
    return int(found[1]) if found else 0


def read(path: str) -> dict[str, Any]:
    """Read a metadata file, which may be compressed."""
    raw = Path(re.sub("^file:/*", "/", path)).read_bytes()
    return dict(json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw))


def schema_of(known: dict[str, Any]) -> dict[str, Any]:
    """Return the current schema."""
    (schema,) = [s for s in known["schemas"] if s["schema-id"] == known["current-schema-id"]]
    return dict(schema)


def columns_of(known: dict[str, Any]) -> list[str]:
    """Return the current columns, such as "1 id long not null 'the key'", with their ids."""
    return [_column(f) for f in schema_of(known)["fields"]]


def _column(field: dict[str, Any]) -> str:
    told = f"{field['id']} {field['name']} {_type(field['type'])}"
    told += " not null" if field["required"] else ""
    return told + (f" {field['doc']!r}" if "doc" in field else "")


def _type(node: Any) -> str:
    match node:
        case {"type": "struct"}:
            return f"struct<{', '.join(map(_column, node['fields']))}>"
        case {"type": "list"}:
            return f"list<{node['element-id']} {_type(node['element'])}>"
        case {"type": "map"}:
            key, value = (f"{node[f'{part}-id']} {_type(node[part])}" for part in ("key", "value"))
            return f"map<{key}, {value}>"
    return str(node)


def names_of(known: dict[str, Any]) -> dict[int, str]:
    """Return the names of the current columns by field id, those inside others with dots."""
    return dict(_names(schema_of(known), ""))


def _names(node: Any, prefix: str) -> Iterator[tuple[int, str]]:
    if not isinstance(node, dict):
        return
    for f in node.get("fields", ()):
        yield f["id"], prefix + f["name"]
        yield from _names(f["type"], f"{prefix}{f['name']}.")
    for part in ("element", "key", "value"):
        if f"{part}-id" in node:
            yield node[f"{part}-id"], prefix + part
            yield from _names(node[part], f"{prefix}{part}.")


def spec_of(known: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the current partition fields: column, transform, name."""
    columns = names_of(known)
    (spec,) = [s for s in known["partition-specs"] if s["spec-id"] == known["default-spec-id"]]
    return [(columns[f["source-id"]], f["transform"], f["name"]) for f in spec["fields"]]


def order_of(known: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the current write order: column, transform, direction, order of nulls."""
    columns, default = names_of(known), known["default-sort-order-id"]
    (order,) = [o for o in known["sort-orders"] if o["order-id"] == default]
    return [
        (columns[f["source-id"]], f["transform"], f["direction"], f["null-order"])
        for f in order["fields"]
    ]
