"""Convert metadata updates and requirements to the JSON of the REST catalog protocol
("TableUpdate", "TableRequirement"): their fields under the same names, with hyphens.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from frazil.codec import json_nouns as nouns
from frazil.spec import updates as u
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.sorting import SortOrder


def update_to_json(update: u.Update) -> dict[str, Any]:
    obj = {"action": update.kind, **_fields_to_json(update)}
    match update:
        case u.AddSchema(schema=schema):
            obj["last-column-id"] = schema.highest_field_id
        case u.SetSnapshotRef(ref=ref):
            obj |= nouns.ref_to_json(ref)
            del obj["ref"]
        case u.SetStatistics(statistics=statistics):
            obj["snapshot-id"] = statistics.get("snapshot-id")
    return obj


def requirement_to_json(requirement: u.Requirement) -> dict[str, Any]:
    return {"type": requirement.kind, **_fields_to_json(requirement)}


def _fields_to_json(described: u.Update | u.Requirement) -> dict[str, Any]:
    return {
        f.name.replace("_", "-"): _to_json(getattr(described, f.name)) for f in fields(described)
    }


def _to_json(value: object) -> Any:
    match value:
        case Schema():
            return nouns.schema_to_json(value)
        case PartitionSpec():
            return nouns.spec_to_json(value)
        case SortOrder():
            return nouns.sort_order_to_json(value)
        case Snapshot():
            return nouns.snapshot_to_json(value)
        case tuple():
            return list(value)
    return value
