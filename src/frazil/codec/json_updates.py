"""Convert metadata updates and requirements to the JSON of the REST catalog protocol and back
("TableUpdate", "TableRequirement").
"""

from __future__ import annotations

from typing import Any

from frazil.codec import json_nouns as nouns
from frazil.errors import Unsupported
from frazil.spec import updates as u


def update_to_json(update: u.Update) -> dict[str, Any]:
    return {"action": update.kind, **_update_fields(update)}


def _update_fields(update: u.Update) -> dict[str, Any]:  # one arm per action
    match update:
        case u.AssignUUID(uuid=uuid):
            return {"uuid": uuid}
        case u.UpgradeFormatVersion(format_version=version):
            return {"format-version": version}
        case u.AddSchema(schema=schema):
            return {
                "schema": nouns.schema_to_json(schema),
                "last-column-id": schema.highest_field_id,
            }
        case u.SetCurrentSchema(schema_id=schema_id):
            return {"schema-id": schema_id}
        case u.AddPartitionSpec(spec=spec):
            return {"spec": nouns.spec_to_json(spec)}
        case u.SetDefaultSpec(spec_id=spec_id):
            return {"spec-id": spec_id}
        case u.RemovePartitionSpecs(spec_ids=ids):
            return {"spec-ids": list(ids)}
        case u.RemoveSchemas(schema_ids=ids):
            return {"schema-ids": list(ids)}
        case u.AddSortOrder(sort_order=order):
            return {"sort-order": nouns.sort_order_to_json(order)}
        case u.SetDefaultSortOrder(sort_order_id=order_id):
            return {"sort-order-id": order_id}
        case u.AddSnapshot(snapshot=snapshot):
            return {"snapshot": nouns.snapshot_to_json(snapshot)}
        case u.SetSnapshotRef(ref_name=name, ref=ref):
            return {"ref-name": name, **nouns.ref_to_json(ref)}
        case u.RemoveSnapshots(snapshot_ids=ids):
            return {"snapshot-ids": list(ids)}
        case u.RemoveSnapshotRef(ref_name=name):
            return {"ref-name": name}
        case u.SetLocation(location=location):
            return {"location": location}
        case u.SetProperties(updates=updates):
            return {"updates": dict(updates)}
        case u.RemoveProperties(removals=removals):
            return {"removals": list(removals)}
        case u.SetStatistics(statistics=statistics):
            return {"snapshot-id": statistics.get("snapshot-id"), "statistics": statistics}
        case u.SetPartitionStatistics(partition_statistics=statistics):
            return {"partition-statistics": statistics}
        case (
            u.RemoveStatistics(snapshot_id=snapshot_id)
            | u.RemovePartitionStatistics(snapshot_id=snapshot_id)
        ):
            return {"snapshot-id": snapshot_id}
    raise Unsupported(f"Cannot write update {update.kind or type(update).__name__} as JSON.")


def requirement_to_json(requirement: u.Requirement) -> dict[str, Any]:
    match requirement:
        case u.AssertCreate():
            fields: dict[str, Any] = {}
        case u.AssertTableUUID(uuid=uuid):
            fields = {"uuid": uuid}
        case u.AssertRefSnapshotId(ref=ref, snapshot_id=snapshot_id):
            fields = {"ref": ref, "snapshot-id": snapshot_id}
        case u.AssertLastAssignedFieldId(last_assigned_field_id=n):
            fields = {"last-assigned-field-id": n}
        case u.AssertCurrentSchemaId(current_schema_id=n):
            fields = {"current-schema-id": n}
        case u.AssertLastAssignedPartitionId(last_assigned_partition_id=n):
            fields = {"last-assigned-partition-id": n}
        case u.AssertDefaultSpecId(default_spec_id=n):
            fields = {"default-spec-id": n}
        case u.AssertDefaultSortOrderId(default_sort_order_id=n):
            fields = {"default-sort-order-id": n}
        case _:
            raise Unsupported(
                f"Cannot write requirement {requirement.kind or type(requirement).__name__} as JSON."
            )
    return {"type": requirement.kind, **fields}
