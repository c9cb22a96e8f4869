"""Nouns as PyIceberg's users write and ask them: transforms, sort fields and types as text,
summaries, refs, schemas without their ids.
"""

from __future__ import annotations

import pytest

from frazil.errors import ValidationError
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import Schema, with_unique_ids
from frazil.spec.snapshot import Snapshot, SnapshotOperation, SnapshotRef, SnapshotRefType
from frazil.spec.sorting import NullOrder, SortDirection, SortField
from frazil.spec.transforms import BucketTransform, DayTransform, VoidTransform
from frazil.spec.types import (
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    parse_primitive,
)


def test_a_partition_field_takes_its_transform_as_text() -> None:
    assert PartitionField(1, 1000, "day", "d") == PartitionField(1, 1000, DayTransform(), "d")
    assert PartitionField(
        source_id=2, field_id=1001, transform="bucket[4]", name="b"
    ).transform == BucketTransform(4)


def test_a_sort_field_takes_texts_and_puts_nulls_where_java_does() -> None:
    assert SortField(1, "bucket[4]", "desc", "nulls-first") == SortField(
        1, BucketTransform(4), SortDirection.DESC, NullOrder.NULLS_FIRST
    )
    assert SortField(source_id=1).null_order is NullOrder.NULLS_FIRST
    assert SortField(1, direction=SortDirection.DESC).null_order is NullOrder.NULLS_LAST
    with pytest.raises(ValidationError, match="'down' is none of: asc, desc"):
        SortField(1, direction="down")


def test_a_field_takes_a_primitive_type_as_text_and_refuses_others() -> None:
    assert NestedField(1, "a", "decimal(9, 2)").field_type == parse_primitive("decimal(9, 2)")
    assert ListType(2, "string") == ListType(2, StringType()) and MapType(
        2, "int", 3, "long"
    ) == MapType(2, IntegerType(), 3, LongType())
    with pytest.raises(ValidationError, match="Unknown type 'number'"):
        NestedField(1, "a", "number")


@pytest.mark.parametrize(
    "text, type_",
    [
        ("geometry('EPSG:4326')", GeometryType("EPSG:4326")),
        ("geometry(EPSG:4326)", GeometryType("EPSG:4326")),
        ("geography('EPSG:4326', 'planar')", GeographyType("EPSG:4326", "planar")),
        ("geography(EPSG:4326, planar)", GeographyType("EPSG:4326", "planar")),
    ],
)
def test_types_of_places_are_read_with_the_quotes_that_pyiceberg_writes(
    text: str, type_: object
) -> None:
    assert parse_primitive(text) == type_


def test_schemas_are_equal_whatever_their_own_ids() -> None:
    a, b = (
        Schema(
            NestedField(1, "a", LongType(), required=True), schema_id=i, identifier_field_ids=[1]
        )
        for i in (0, 7)
    )
    assert a == b and hash(a) == hash(b) and a.schema_id != b.schema_id
    assert a != Schema(NestedField(1, "a", LongType(), required=True)) and a != Schema(
        NestedField(2, "a", LongType(), required=True)
    )
    assert a != "a" and a.columns == a.fields


def test_whether_a_spec_is_unpartitioned_is_asked_with_or_without_brackets() -> None:
    day, void = PartitionField(1, 1000, "day", "d"), PartitionField(1, 1000, VoidTransform(), "d")
    for spec, answer in (
        (PartitionSpec(), True),
        (PartitionSpec(void), True),
        (PartitionSpec(day), False),
    ):
        assert (
            spec.is_unpartitioned() is answer
            and bool(spec.is_unpartitioned) is answer
            and spec.unpartitioned is answer
        )
        assert spec.is_unpartitioned == answer and repr(spec.is_unpartitioned) == str(answer)
    assert (
        PartitionSpec(day).fields_by_source_id(1) == [day]
        and PartitionSpec(day).fields_by_source_id(2) == []
    )


def test_a_summary_tells_its_operation_and_the_rest_apart() -> None:
    summary = Snapshot(1, 2, summary={"operation": "append", "added-records": "3"}).summary
    assert summary.operation is SnapshotOperation.APPEND and summary.operation == "append"
    assert (
        summary.additional_properties == {"added-records": "3"} and summary["added-records"] == "3"
    )
    assert Snapshot(1, 2).summary.operation is None
    assert Snapshot(1, 2, summary={"operation": "of-tomorrow"}).summary.operation == "of-tomorrow"


def test_a_ref_tells_its_kind_by_the_name_that_pyiceberg_has() -> None:
    assert (
        SnapshotRef(1).snapshot_ref_type is SnapshotRefType.BRANCH
        and SnapshotRef(1, "tag").snapshot_ref_type == "tag"
    )


def test_columns_that_repeat_an_id_get_others_unless_something_names_one_of_them() -> None:
    twice = Schema(
        NestedField(1, "a", LongType()),
        NestedField(4, "b", LongType()),
        NestedField(5, "s", StructType(NestedField(4, "c", "string"))),
    )
    fresh = with_unique_ids(twice, [1])
    assert {f.field_id for f in fresh.by_id.values()} == {1, 4, 5, 6} and fresh.find_field(
        "s.c"
    ).field_id == 6
    assert with_unique_ids(fresh, [4]) is fresh
    with pytest.raises(ValidationError, match=r"Field id 4 is of several columns: b, s\.c"):
        with_unique_ids(twice, [4])
    with pytest.raises(ValidationError, match="Field id 4 is of several columns"):
        with_unique_ids(Schema(*twice.fields, identifier_field_ids=[4]))


def test_a_structs_members_are_found_by_id_and_name() -> None:
    struct = StructType(NestedField(1, "A", LongType()))
    assert struct.is_struct and not LongType().is_struct
    field = struct.field(1)
    assert field is not None and field == struct.field_by_name("A")
    assert field == struct.field_by_name("a", case_sensitive=False)
    assert struct.field(2) is None and struct.field_by_name("a") is None


def test_a_schemas_rows_are_always_there() -> None:
    assert Schema(NestedField(1, "a", LongType()), required=True) == Schema(
        NestedField(1, "a", LongType())
    )
    with pytest.raises(ValidationError, match="always there"):
        Schema(NestedField(1, "a", LongType()), required=False)
