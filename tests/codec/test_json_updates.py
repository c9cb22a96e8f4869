from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.codec.json_updates import requirement_to_json, update_to_json
from frazil.errors import CorruptData, Unsupported
from frazil.spec import updates as u
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef
from frazil.spec.sorting import SortField, SortOrder
from frazil.spec.transforms import BucketTransform
from frazil.spec.types import LongType, NestedField
from tests.builders.json_updates import requirement_from_json, update_from_json

SCHEMA = Schema(NestedField(1, "id", LongType(), True), schema_id=3)
UPDATES: list[u.Update] = [
    u.AssignUUID("u"), u.UpgradeFormatVersion(3), u.AddSchema(SCHEMA), u.SetCurrentSchema(), u.AddPartitionSpec(PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"))),
    u.SetDefaultSpec(2), u.RemovePartitionSpecs((1, 2)), u.RemoveSchemas((4,)), u.AddSortOrder(SortOrder(SortField(1))), u.SetDefaultSortOrder(1),
    u.AddSnapshot(Snapshot(5, 6, "l.avro", None, 1, {"operation": "append"}, 0)), u.SetSnapshotRef("main", SnapshotRef(5)),
    u.SetSnapshotRef("t", SnapshotRef(5, "tag", None, None, 99)), u.RemoveSnapshots((5, 6)), u.RemoveSnapshotRef("t"), u.SetLocation("s3://x"),
    u.SetProperties({"a": "b"}), u.RemoveProperties(("a",)), u.SetStatistics({"snapshot-id": 5, "statistics-path": "p"}), u.RemoveStatistics(5),
    u.SetPartitionStatistics({"snapshot-id": 5}), u.RemovePartitionStatistics(5),
]  # fmt: skip
REQUIREMENTS: list[u.Requirement] = [
    u.AssertCreate(), u.AssertTableUUID("u"), u.AssertRefSnapshotId("main", 5), u.AssertRefSnapshotId("main", None), u.AssertLastAssignedFieldId(4),
    u.AssertCurrentSchemaId(0), u.AssertLastAssignedPartitionId(1000), u.AssertDefaultSpecId(0), u.AssertDefaultSortOrderId(0),
]  # fmt: skip


def kinds(base: type) -> set[str]:
    return {c.kind for c in base.__subclasses__()}  # type: ignore[attr-defined]


def test_the_samples_hold_every_update_and_requirement() -> None:
    assert {x.kind for x in UPDATES} == kinds(u.Update)
    assert {x.kind for x in REQUIREMENTS} == kinds(u.Requirement)


@pytest.mark.parametrize("update", UPDATES, ids=lambda x: x.kind)
def test_updates_survive_their_json(update: u.Update) -> None:
    obj = json.loads(json.dumps(update_to_json(update)))
    assert obj["action"] == update.kind
    assert update_from_json(obj) == update


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda x: x.kind)
def test_requirements_survive_their_json(requirement: u.Requirement) -> None:
    obj = json.loads(json.dumps(requirement_to_json(requirement)))
    assert obj["type"] == requirement.kind
    assert requirement_from_json(obj) == requirement


def test_older_names_of_property_updates_are_read() -> None:
    assert update_from_json({"action": "set-properties", "updated": {"a": "b"}}) == u.SetProperties(
        {"a": "b"}
    )
    assert update_from_json(
        {"action": "remove-properties", "removed": ["a"]}
    ) == u.RemoveProperties(("a",))


@pytest.mark.parametrize(
    "obj",
    [
        5,
        {},
        {"action": "add-schema"},
        {"action": "set-location", "location": 5},
        {"action": "remove-snapshots", "snapshot-ids": "x"},
    ],
)
def test_malformed_updates_are_refused(obj: Any) -> None:
    with pytest.raises(CorruptData):
        update_from_json(obj)


@pytest.mark.parametrize(
    "obj",
    [
        [],
        {"type": "assert-table-uuid"},
        {"type": "assert-ref-snapshot-id", "ref": "main"},
        {"type": "assert-default-spec-id"},
    ],
)
def test_malformed_requirements_are_refused(obj: Any) -> None:
    with pytest.raises(CorruptData):
        requirement_from_json(obj)


def test_actions_nobody_knows_are_named() -> None:
    with pytest.raises(Unsupported, match="fly"):
        update_from_json({"action": "fly"})
    with pytest.raises(Unsupported, match="assert-luck"):
        requirement_from_json({"type": "assert-luck"})
