import pytest
from pyspark.sql import types as s

from frazil.errors import Unsupported
from frazil.spark.types.spark_types import from_spark, to_spark
from frazil.spec import types as i
from frazil.spec.ddl import parse_schema
from frazil.spec.schema import Schema


def test_every_type_spark_has_comes_back_as_it_went():
    schema = parse_schema(
        "a boolean, b int, c bigint, d float, e double, f decimal(12,3), g date, h timestamp, i timestamp_ntz, j string, k binary, "
        "l array<int>, m map<string, bigint>, n struct<x int, y array<struct<z string>>>, v variant"
    )
    assert from_spark(to_spark(schema)).as_struct() == schema.as_struct()


def test_a_uuid_is_shown_as_a_string_and_fixed_as_binary():
    schema = Schema(i.NestedField(1, "u", i.UUIDType()), i.NestedField(2, "f", i.FixedType(4)))
    assert to_spark(schema) == s.StructType(
        [s.StructField("u", s.StringType()), s.StructField("f", s.BinaryType())]
    )


def test_time_needs_sparks_setting():
    schema = Schema(i.NestedField(1, "t", i.TimeType()))
    with pytest.raises(Unsupported, match=r"'t'.*spark.sql.timeType.enabled"):
        to_spark(schema)
    assert to_spark(schema, time=True).fields[0].dataType == s.TimeType(6)


@pytest.mark.parametrize(
    "kind", [i.TimestampNanoType(), i.TimestamptzNanoType(), i.GeometryType(), i.GeographyType()]
)
def test_what_spark_lacks_is_refused_with_its_column(kind):
    inside = i.StructType(i.NestedField(2, "deep", kind))
    with pytest.raises(Unsupported, match=r"'s\.deep'"):
        to_spark(Schema(i.NestedField(1, "s", inside)))


def test_comments_become_docs_and_not_null_required():
    struct = s.StructType(
        [
            s.StructField("id", s.LongType(), False, {"comment": "the key"}),
            s.StructField("n", s.ShortType()),
        ]
    )
    found = from_spark(struct)
    assert [(f.name, f.required, f.doc, str(f.field_type)) for f in found.fields] == [
        ("id", True, "the key", "long"),
        ("n", False, None, "int"),
    ]


def test_an_interval_is_refused():
    with pytest.raises(Unsupported, match="interval"):
        from_spark(s.StructType([s.StructField("i", s.DayTimeIntervalType())]))
