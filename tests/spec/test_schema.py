"""Schemas: look-ups, projection, fresh ids, identifier fields; and schemas from DDL text."""

import pytest

from frazil.errors import InvalidInput, ParseError, ValidationError
from frazil.spec.ddl import parse_schema, parse_type
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema, assign_fresh_ids, check_identifier_fields
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
    can_promote,
    parse_primitive,
)
from frazil.spec.values import internal_value, milliseconds

NESTED = Schema(
    NestedField(1, "id", LongType(), True),
    NestedField(
        2, "s", StructType(NestedField(5, "a", IntegerType()), NestedField(6, "b", StringType()))
    ),
    NestedField(
        3,
        "m",
        MapType(
            7,
            StringType(),
            8,
            StructType(NestedField(9, "x", LongType()), NestedField(10, "y", LongType())),
        ),
    ),
)


def test_columns_are_found_by_dotted_name_and_by_id():
    assert NESTED.find_field("s.a").field_id == 5
    assert NESTED.find_field("m.value.x").field_id == 9
    assert NESTED.find_column_name(10) == "m.value.y"
    assert NESTED.find_field("S.A", case_sensitive=False).field_id == 5
    with pytest.raises(ValidationError, match="columns are: id, s"):
        NESTED.find_field("nope")


def test_a_name_that_is_ambiguous_without_case_is_refused():
    schema = Schema(NestedField(1, "ab", LongType()), NestedField(2, "Ab", LongType()))
    assert schema.find_field("Ab").field_id == 2
    assert schema.find_field("ab", case_sensitive=False).field_id == 1  # an exact match wins
    with pytest.raises(ValidationError, match="ambiguous"):
        schema.find_field("AB", case_sensitive=False)


def test_selection_keeps_the_path_and_a_map_keeps_its_key():
    assert [str(f) for f in NESTED.select("s.a").fields] == [
        "2: s: optional struct<5: a: optional int>"
    ]
    assert NESTED.select("m.value.x").column_names == ["m", "m.key", "m.value", "m.value.x"]
    assert NESTED.select("*") is NESTED


def test_fresh_ids_number_a_level_before_what_is_inside():
    fresh = assign_fresh_ids(
        Schema(
            NestedField(9, "s", NESTED.find_type("s")),
            NestedField(8, "z", LongType()),
            identifier_field_ids=[8],
        )
    )
    assert [f.field_id for f in fresh.fields] == [1, 2]
    assert [f.field_id for f in fresh.fields[0].field_type.fields] == [3, 4]
    assert fresh.identifier_field_ids == (2,)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (NestedField(1, "k", LongType(), False), "not a required field"),
        (NestedField(1, "k", DoubleType(), True), "must not be float or double"),
        (NestedField(1, "k", ListType(2, LongType(), True), True), "not a primitive"),
    ],
)
def test_identifier_fields_follow_the_rules(field, why):
    with pytest.raises(ValidationError, match=why):
        check_identifier_fields(Schema(field, identifier_field_ids=[1]))


def test_ddl_speaks_spark_and_iceberg():
    schema = parse_schema(
        "id bigint not null comment 'it''s'".replace("''", "\\'")
        + ", ts timestamp, n timestamp_ntz, `a b` decimal(7,2), u uuid, f fixed[16]"
    )
    assert [type(f.field_type) for f in schema.fields] == [
        LongType,
        TimestamptzType,
        TimestampType,
        DecimalType,
        UUIDType,
        FixedType,
    ]
    assert schema.fields[0].required and schema.fields[0].doc == "it's"
    nested = parse_type("map<string, array<struct<a: int not null, b: decimal>>>")
    assert (
        str(nested)
        == "map<string, list<struct<1: a: required int, 2: b: optional decimal(10, 0)>>>"
    )


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "id bigint,, x int",
        "id nosuch",
        "a array<int",
        "a int not",
        "a map<string>",
        "x decimal(39, 2)",
    ],
)
def test_ddl_that_makes_no_sense_is_refused(text):
    with pytest.raises((ParseError, ValidationError)):
        parse_schema(text)


def test_primitives_read_as_the_spec_writes_them():
    for text in (
        "decimal(9, 2)",
        "fixed[3]",
        "timestamptz_ns",
        "geometry",
        "geography(OGC:CRS84, vincenty)",
        "unknown",
        "variant",
    ):
        assert str(parse_primitive(text)) == text
    assert parse_primitive("decimal( 9,2 )") == DecimalType(9, 2)
    with pytest.raises(ValidationError, match="Unknown type"):
        parse_primitive("interval")


def test_promotions_are_those_of_the_spec():
    assert can_promote(IntegerType(), LongType()) and not can_promote(LongType(), IntegerType())
    assert can_promote(DecimalType(5, 2), DecimalType(9, 2)) and not can_promote(
        DecimalType(5, 2), DecimalType(9, 3)
    )
    assert can_promote(DateType(), TimestampType(), 3) and not can_promote(
        DateType(), TimestampType(), 2
    )
    assert not can_promote(DateType(), TimestamptzType(), 3)


def test_user_values_become_internal_ones():
    assert internal_value(DateType(), "1969-12-31") == -1
    assert str(internal_value(DecimalType(5, 2), "1.5")) == "1.50"
    assert internal_value(TimestampType(), "1970-01-01T00:00:00.000001") == 1
    assert internal_value(TimeType(), "00:00:01") == 1_000_000
    assert internal_value(TimestampNanoType(), "1970-01-01T00:00:00.000000001") == 1
    assert internal_value(TimestampNanoType(), "1969-12-31 23:59:59.999999999+00:00") == -1
    assert internal_value(TimestampNanoType(), "1970-01-01T00:00:00.0000012") == 1200
    assert (
        internal_value(UUIDType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7").hex()
        == "f79c3e09677c4bbda4793f349cb785e7"
    )
    assert milliseconds("2026-01-01 01:00:00+01:00") == 1767225600000
    for type_, bad in (
        (IntegerType(), 2**31),
        (IntegerType(), True),
        (DecimalType(3, 2), "10.00"),
        (DateType(), "x"),
        (FixedType(2), b"abc"),
    ):
        with pytest.raises(InvalidInput):
            internal_value(type_, bad)


@pytest.mark.parametrize("name", ["a b", "a,b", "back`tick", "days(x)", "a.b", "x as y", "日本"])
def test_partition_columns_of_any_name_are_quoted_in_spec_texts(name):
    quoted = "`" + name.replace("`", "``") + "`"
    schema = Schema(NestedField(1, name, IntegerType()))
    for text in (
        quoted,
        f"bucket(4, {quoted})",
        f"truncate({quoted}, 3)",
        f"bucket(4, {quoted}) as b",
    ):
        assert [f.source_id for f in build_spec(schema, [text]).fields] == [1]
    assert (
        build_spec(schema, [f"bucket(4, {quoted}) as `p {quoted[1:]}"]).fields[0].name
        == f"p {name}"
    )
