"""Parse Avro schemas to trees, and check them before data is read by them (Avro 1.11 specification,
"Schema Declaration").
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from frazil.codec.guard import reading
from frazil.errors import CorruptData, Unsupported
from frazil.spec.types import MAX_DEPTH

_MAX_WEIGHT = 20_000
_PLAIN = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


@dataclass(frozen=True)
class AvroNode:
    """Hold a type of an Avro schema. `fields` of a record: (name, field-id or None, type).
    `inside`: items, map values, union branches.
    """

    kind: str
    name: str = ""
    size: int = 0
    fields: tuple[tuple[str, int | None, AvroNode], ...] = ()
    inside: tuple[AvroNode, ...] = ()
    symbols: tuple[str, ...] = ()
    # a decimal's precision and scale among them
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @cached_property
    def weight(self) -> int:
        """Count the types inside, a named type at each of its uses, which bounds the work that a
        small schema can cause.
        """
        return 1 + sum([n.weight for _, _, n in self.fields]) + sum([n.weight for n in self.inside])

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.name, self.size, self.fields, self.inside, self.symbols))

    def __hash__(self) -> int:
        """Return the cached hash: readers are looked up by their schema, which may be deep."""
        return self._hash

    @property
    def logical(self) -> str | None:
        name = self.properties.get("logicalType")
        return name if isinstance(name, str) else None

    @property
    def not_null(self) -> AvroNode:
        """Return the other branch of a union with null, or the type itself."""
        others = [n for n in self.inside if n.kind != "null"] if self.kind == "union" else []
        return others[0] if len(others) == 1 else self


@functools.lru_cache(maxsize=256)
def parse_schema(text: bytes) -> AvroNode:
    """Parse a schema; the same text gives the same AvroNode. Raises CorruptData, and Unsupported
    for a recursive type.
    """
    with reading("an Avro schema"):
        return _node(msgspec.json.decode(text), {}, 0)


def _node(obj: object, named: dict[str, AvroNode | None], depth: int) -> AvroNode:
    if depth > MAX_DEPTH:
        raise CorruptData(f"Avro types are nested more than {MAX_DEPTH} deep.")
    if isinstance(obj, str):
        return _by_name(obj, named)
    if isinstance(obj, list):
        branches = tuple(_node(o, named, depth + 1) for o in obj)
        if not branches:
            raise CorruptData("An Avro union has no branches.")
        return AvroNode("union", inside=branches)
    if not isinstance(obj, dict):
        raise CorruptData(f"This is not an Avro type: {str(obj)[:100]}")
    kind = obj.get("type")
    if not isinstance(kind, str):
        return _node(kind, named, depth + 1)
    properties = {
        k: v
        for k, v in obj.items()
        if k not in ("type", "name", "fields", "items", "values", "doc", "default")
    }
    match kind:
        case "array":
            return AvroNode(
                "array", inside=(_node(obj.get("items"), named, depth + 1),), properties=properties
            )
        case "map":
            return AvroNode(
                "map", inside=(_node(obj.get("values"), named, depth + 1),), properties=properties
            )
        case "record" | "error" | "fixed" | "enum":
            return _named_node(kind, obj, properties, named, depth)
    plain = _by_name(kind, named)
    return AvroNode(plain.kind, properties=properties) if plain.kind in _PLAIN else plain


def _by_name(name: str, named: dict[str, AvroNode | None]) -> AvroNode:
    if name in _PLAIN:
        return AvroNode(name)
    node = named.get(name, named.get(name.rpartition(".")[2]))
    if node is None:
        if name in named:
            raise Unsupported(
                f"Avro type {name[:100]!r} is recursive, which Iceberg does not allow."
            )
        raise CorruptData(f"Unknown Avro type {name[:100]!r}.")
    return node


def _named_node(
    kind: str,
    obj: dict[str, Any],
    properties: dict[str, Any],
    named: dict[str, AvroNode | None],
    depth: int,
) -> AvroNode:
    name = str(obj.get("name", ""))
    named[name] = None
    match kind:
        case "fixed":
            size = obj.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
                raise CorruptData(f"Fixed type {name[:100]!r} has size {str(size)[:40]}.")
            node = AvroNode("fixed", name, size=size, properties=properties)
        case "enum":
            node = AvroNode(
                "enum", name, symbols=tuple(map(str, obj["symbols"])), properties=properties
            )
        case _:
            fields = []
            for f in obj["fields"]:
                field_id = f.get("field-id")
                fields.append(
                    (
                        str(f["name"]),
                        field_id if isinstance(field_id, int) else None,
                        _node(f.get("type"), named, depth + 1),
                    )
                )
            node = AvroNode("record", name, fields=tuple(fields), properties=properties)
            if node.weight > _MAX_WEIGHT:  # named records that use each other grow exponentially
                raise CorruptData(f"Avro type {name[:100]!r} holds more than {_MAX_WEIGHT} types.")
    named[name] = node
    return node


@functools.lru_cache(maxsize=1024)
def least_size(node: AvroNode) -> int:
    """Return the fewest bytes that a value of a type takes."""
    match node.kind:
        case "null":
            return 0
        case "float":
            return 4
        case "double":
            return 8
        case "fixed":
            return node.size
        case "record":
            return sum(least_size(n) for _, _, n in node.fields)
        case "union":
            return 1 + min(least_size(n) for n in node.inside)
    return 1
