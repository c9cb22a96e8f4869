"""`model_dump_json` and `model_validate_json`: each noun's JSON form of the spec, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.commit.new_table import new_metadata
from frazil.errors import CorruptData, ParseError, ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef, Summary
from frazil.spec.sorting import SortField, SortOrder
from frazil.spec.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(2, "tags", ListType(3, StringType())),
    NestedField(4, "m", MapType(5, "string", 6, "double")),
    NestedField(7, "s", StructType(NestedField(8, "x", "decimal(9, 2)"))),
    schema_id=3,
    identifier_field_ids=[1],
)
SPEC, ORDER = (
    PartitionSpec(PartitionField(1, 1000, "bucket[4]", "b"), spec_id=2),
    SortOrder(SortField(1, "identity", "desc"), order_id=5),
)
NOUNS: list[Any] = [
    SCHEMA, SCHEMA.fields[0], *(f.field_type for f in SCHEMA.fields), SPEC, SPEC.fields[0], ORDER, ORDER.fields[0],
    Snapshot(1, 2, "a/list.avro", summary=Summary(operation="append"), sequence_number=1), SnapshotRef(7, "tag", max_ref_age_ms=5),
    new_metadata(SCHEMA, SPEC, ORDER, "/x", {"a": "b"}, now_ms=5),
]  # fmt: skip


@pytest.mark.parametrize("noun", NOUNS, ids=lambda n: type(n).__name__)
def test_a_noun_comes_back_from_its_json(noun: Any) -> None:
    text = noun.model_dump_json()
    assert (
        json.loads(text) == noun.model_dump() == json.loads(noun.model_dump_json(indent=2))
        and type(noun).model_validate_json(text) == noun
    )
    assert type(noun).model_validate(noun.model_dump()) == noun


def test_names_are_those_of_the_spec() -> None:
    assert (
        json.loads(SCHEMA.model_dump_json())["identifier-field-ids"] == [1]
        and "\n" not in SCHEMA.model_dump_json()
    )
    assert SPEC.fields[0].model_dump() == {
        "name": "b",
        "transform": "bucket[4]",
        "source-id": 1,
        "field-id": 1000,
    }
    assert StringType().model_dump_json() == '"string"'


def test_what_is_no_json_of_the_noun_is_refused_by_its_name() -> None:
    with pytest.raises(ParseError, match="no JSON of a Schema"):
        Schema.model_validate_json("{")
    with pytest.raises(ValidationError, match="JSON of a StringType, not of a LongType"):
        LongType.model_validate_json('"string"')
    with pytest.raises(CorruptData, match="not a struct type"):
        Schema.model_validate_json("{}")
    with pytest.raises(CorruptData):
        TableMetadata.model_validate_json("[]")
    assert IcebergType.model_validate_json('"string"') == StringType()
