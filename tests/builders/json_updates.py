"""Read updates and requirements of tables from JSON, as a server does."""

from __future__ import annotations

from typing import Any

from frazil.codec import json_nouns as nouns
from frazil.errors import CorruptData, Unsupported
from frazil.spec import updates as u

_INT = 2**31


def update_from_json(obj: Any) -> u.Update:  # one arm per action
    """Read a metadata update. Raises CorruptData when it is malformed, Unsupported for an unknown
    action.
    """
    obj = nouns.fields_of(obj, "metadata update")
    match action := nouns.text(obj, "action").lower():
        case "assign-uuid":
            return u.AssignUUID(nouns.text(obj, "uuid"))
        case "upgrade-format-version":
            return u.UpgradeFormatVersion(nouns.integer(obj, "format-version", _INT))
        case "add-schema":
            return u.AddSchema(nouns.schema_from_json(obj.get("schema")))
        case "set-current-schema":
            return u.SetCurrentSchema(nouns.integer(obj, "schema-id", _INT))
        case "add-spec":
            return u.AddPartitionSpec(nouns.spec_from_json(obj.get("spec")))
        case "set-default-spec":
            return u.SetDefaultSpec(nouns.integer(obj, "spec-id", _INT))
        case "remove-partition-specs":
            return u.RemovePartitionSpecs(nouns.integers(obj.get("spec-ids"), "spec-ids", _INT))
        case "remove-schemas":
            return u.RemoveSchemas(nouns.integers(obj.get("schema-ids"), "schema-ids", _INT))
        case "add-sort-order":
            return u.AddSortOrder(nouns.sort_order_from_json(obj.get("sort-order")))
        case "set-default-sort-order":
            return u.SetDefaultSortOrder(nouns.integer(obj, "sort-order-id", _INT))
        case "add-snapshot":
            return u.AddSnapshot(nouns.snapshot_from_json(obj.get("snapshot")))
        case "set-snapshot-ref":
            inner = {k: v for k, v in obj.items() if k not in ("action", "ref-name")}
            return u.SetSnapshotRef(nouns.text(obj, "ref-name"), nouns.ref_from_json(inner))
        case "remove-snapshots":
            return u.RemoveSnapshots(nouns.integers(obj.get("snapshot-ids"), "snapshot-ids"))
        case "remove-snapshot-ref":
            return u.RemoveSnapshotRef(nouns.text(obj, "ref-name"))
        case "set-location":
            return u.SetLocation(nouns.text(obj, "location"))
        case "set-properties":  # Java wrote `updated` and `removed` before 1.5
            return u.SetProperties(
                nouns.texts(obj["updates"] if "updates" in obj else obj.get("updated"), "updates")
            )
        case "remove-properties":
            removals = nouns.items_of(
                obj["removals"] if "removals" in obj else obj.get("removed"), "removals"
            )
            return u.RemoveProperties(
                tuple(nouns.text({"removals": r}, "removals") for r in removals)
            )
        case "set-statistics":
            return u.SetStatistics(nouns.fields_of(obj.get("statistics"), "statistics"))
        case "set-partition-statistics":
            return u.SetPartitionStatistics(
                nouns.fields_of(obj.get("partition-statistics"), "partition-statistics")
            )
        case "remove-statistics":
            return u.RemoveStatistics(nouns.integer(obj, "snapshot-id"))
        case "remove-partition-statistics":
            return u.RemovePartitionStatistics(nouns.integer(obj, "snapshot-id"))
    raise Unsupported(f"Cannot read metadata update {action!r}.")


_BY_NUMBER: dict[str, tuple[type[u.Requirement], str]] = {
    "assert-last-assigned-field-id": (u.AssertLastAssignedFieldId, "last-assigned-field-id"),
    "assert-current-schema-id": (u.AssertCurrentSchemaId, "current-schema-id"),
    "assert-last-assigned-partition-id": (
        u.AssertLastAssignedPartitionId,
        "last-assigned-partition-id",
    ),
    "assert-default-spec-id": (u.AssertDefaultSpecId, "default-spec-id"),
    "assert-default-sort-order-id": (u.AssertDefaultSortOrderId, "default-sort-order-id"),
}


def requirement_from_json(obj: Any) -> u.Requirement:
    """Read an update requirement. Raises CorruptData when it is malformed, Unsupported for an
    unknown type.
    """
    obj = nouns.fields_of(obj, "update requirement")
    kind = nouns.text(obj, "type").lower()
    if kind in _BY_NUMBER:
        make, key = _BY_NUMBER[kind]
        return make(nouns.integer(obj, key, _INT))  # type: ignore[call-arg]  # each takes one number
    match kind:
        case "assert-create":
            return u.AssertCreate()
        case "assert-table-uuid":
            return u.AssertTableUUID(nouns.text(obj, "uuid"))
        case "assert-ref-snapshot-id":
            if "snapshot-id" not in obj:
                raise CorruptData("Cannot parse missing long: snapshot-id")
            return u.AssertRefSnapshotId(
                nouns.text(obj, "ref"), nouns.integer_or_none(obj, "snapshot-id")
            )
    raise Unsupported(f"Cannot read update requirement {kind!r}.")
