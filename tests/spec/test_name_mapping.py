from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from frazil.errors import ValidationError
from frazil.spec.name_mapping import (
    MappedField,
    NameMapping,
    mapping_of,
    name_mapping_to_json,
    parse_name_mapping,
    update_name_mapping,
)
from frazil.spec.schema import Schema
from frazil.spec.types import ListType, LongType, MapType, NestedField, StringType, StructType
from tests.codec.made import schemas

POINT = StructType(NestedField(4, "x", LongType()), NestedField(5, "y", LongType()))
OLD = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "point", POINT),
    NestedField(6, "tags", ListType(7, StringType())),
    NestedField(
        8,
        "props",
        MapType(9, StringType(), 10, POINT := StructType(NestedField(11, "v", LongType()))),
    ),
)


def updated(new: Schema, mapping: str | None = None) -> NameMapping:
    return parse_name_mapping(
        update_name_mapping(mapping or name_mapping_to_json(mapping_of(OLD)), OLD, new)
    )


@given(schemas())
@settings(max_examples=50, deadline=None)
def test_a_mapping_survives_its_json(schema: Schema) -> None:
    mapping = mapping_of(schema)
    assert parse_name_mapping(name_mapping_to_json(mapping)) == mapping


def test_fields_are_found_by_their_path() -> None:
    mapping = mapping_of(OLD)
    assert [
        mapping.find(*p).field_id
        for p in (
            ("id",),
            ("point", "y"),
            ("tags", "element"),
            ("props", "key"),
            ("props", "value", "v"),
        )
    ] == [1, 5, 7, 9, 11]  # type: ignore[union-attr]
    assert mapping.find("point", "z") is None
    assert mapping.find("point.y") is None


def test_a_renamed_field_is_found_under_both_names() -> None:
    new = Schema(NestedField(1, "key", LongType()), *OLD.fields[1:])
    assert updated(new).find("id") == updated(new).find("key") == MappedField(("id", "key"), 1)


def test_an_added_field_gets_an_entry_also_inside_others() -> None:
    inner = StructType(
        NestedField(11, "v", LongType()),
        NestedField(12, "w", StructType(NestedField(13, "deep", LongType()))),
    )
    new = Schema(
        *OLD.fields[:4],
        NestedField(8, "props", MapType(9, StringType(), 10, inner)),
        NestedField(14, "extra", ListType(15, LongType())),
    )
    assert updated(new).find("props", "value", "w", "deep") == MappedField(("deep",), 13)
    assert updated(new).find("extra", "element") == MappedField(("element",), 15)


def test_a_dropped_field_keeps_its_names_though_another_column_bears_one_now() -> None:
    assert updated(Schema(*OLD.fields[1:])).find("id") == MappedField(("id",), 1)
    again = updated(Schema(*OLD.fields[1:], NestedField(20, "id", StringType())))
    assert again.find("id") == MappedField(("id",), 1)
    assert MappedField((), 20) in again.fields


def test_names_that_change_places_stay_with_the_fields_whose_files_use_them() -> None:
    new = Schema(
        NestedField(1, "name", LongType()), NestedField(2, "id", StringType()), *OLD.fields[2:]
    )
    assert updated(new).fields[:2] == (MappedField(("id",), 1), MappedField(("name",), 2))


def test_the_old_name_of_a_renamed_field_stays_with_it_inside_structs_too() -> None:
    def props(*fields: NestedField) -> Schema:
        return Schema(
            *OLD.fields[:4],
            NestedField(8, "props", MapType(9, StringType(), 10, StructType(*fields))),
        )

    renamed = name_mapping_to_json(updated(props(NestedField(11, "old", LongType()))))
    again = parse_name_mapping(
        update_name_mapping(
            renamed,
            props(NestedField(11, "old", LongType())),
            props(NestedField(11, "old", LongType()), NestedField(12, "v", LongType())),
        )
    )
    assert (
        again.find("props", "value", "v")
        == again.find("props", "value", "old")
        == MappedField(("v", "old"), 11)
    )


def test_a_name_that_the_mapping_hides_stays_hidden() -> None:
    new = Schema(*OLD.fields, NestedField(20, "ghost", LongType()))
    mapping = '[{"names":["ghost"]},{"field-id":1,"names":["id"]}]'
    assert updated(new, mapping).fields[-1] == MappedField((), 20)


def test_entries_without_an_id_stay() -> None:
    mapping = '[{"names":["ghost"]},{"field-id":1,"names":["id","ID"]}]'
    found = updated(Schema(NestedField(1, "key", LongType())), mapping)
    assert found.fields == (MappedField(("ghost",), None), MappedField(("id", "ID", "key"), 1))
    assert json.loads(name_mapping_to_json(found))[0] == {"names": ["ghost"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[5]",
        '[{"names":"id"}]',
        '[{"names":[1]}]',
        '[{"field-id":"1","names":[]}]',
        '[{"field-id":1},{"field-id":1}]',
        '[{"names":["a"]},{"names":["a"]}]',
        '[{"names":["a"],"fields":' * 300 + "[]" + "}]" * 300,
        "[" * 100_000,
    ],
)
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_name_mapping(text)
