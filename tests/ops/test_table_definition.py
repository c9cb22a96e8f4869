"""New tables by text and by objects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, ValidationError
from frazil.ops.table_definition import defining_columns, schema_of, table_metadata
from frazil.spec.ddl import parse_schema
from frazil.spec.partitioning import build_spec
from frazil.spec.schema import Schema
from frazil.spec.sorting import build_sort_order

COLUMNS = parse_schema("id bigint, p string, ts timestamp, s struct<x: int, y: int>, v bigint")


def no_spark(_: Any) -> Schema:
    raise AssertionError("this schema is not Spark's")


@pytest.mark.parametrize(
    "given",
    [
        "id bigint, `a``b` string",
        {"id": "bigint", "a`b": "string"},
        pa.schema({"id": pa.int64(), "a`b": pa.string()}),
    ],
)
def test_a_schema_may_be_text_a_mapping_or_arrow_s(given: Any) -> None:
    found = schema_of(given, no_spark)
    assert [(f.name, str(f.field_type)) for f in found.fields] == [
        ("id", "long"),
        ("a`b", "string"),
    ]


def test_columns_of_a_frame_of_spark_become_optional_at_every_depth_and_those_of_a_type_stay() -> (
    None
):
    told = parse_schema(
        "a bigint not null, s struct<x: int not null>, l array<int>, m map<string, int>"
    )
    DataFrame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})
    StructType = type(
        "StructType", (type("DataType", (), {"__module__": "pyspark.sql.types"}),), {}
    )
    of_frame = schema_of(DataFrame(), lambda _: told)
    assert not any(
        of_frame.find_field(name).required for name in ("a", "s", "s.x", "l.element", "m.value")
    )
    assert schema_of(StructType(), lambda _: told) is told


def test_the_columns_that_define_a_table_are_sources_of_partitions_and_order_and_identifiers() -> (
    None
):
    made = table_metadata(
        "memory://t",
        COLUMNS,
        None,
        None,
        None,
        partition_by=["days(ts)", "bucket(4, s.x)"],
        sort_by="p desc",
        identifier_fields="id",
    )
    assert (
        defining_columns(made) == {"id", "p", "ts", "s"} and made.schema().find_field("id").required
    )
    assert defining_columns(table_metadata("memory://t", COLUMNS, None, None, {})) == frozenset()


def test_partitioning_and_order_are_given_once() -> None:
    spec, order = build_spec(COLUMNS, ["p"]), build_sort_order(COLUMNS, ["id"])
    made = table_metadata("memory://t", COLUMNS, spec, order, {})
    assert ([f.name for f in made.spec().fields], len(made.sort_order().fields)) == (["p"], 1)
    with pytest.raises(InvalidInput, match="either partition_by or partition_spec"):
        table_metadata("memory://t", COLUMNS, spec, None, {}, partition_by=["v"])
    with pytest.raises(InvalidInput, match="either sort_by or sort_order"):
        table_metadata("memory://t", COLUMNS, None, order, {}, sort_by=["v"])


@pytest.mark.parametrize(
    ("argument", "stored", "version"),
    [(None, None, 2), (3, None, 3), (None, "1", 1), (2, "2", 2), (None, 3, 3)],
)
def test_the_format_version_is_an_argument_or_a_property(
    argument: int | None, stored: Any, version: int
) -> None:
    properties = {} if stored is None else {"format-version": stored}
    made = table_metadata("memory://t", COLUMNS, None, None, properties, format_version=argument)
    assert made.format_version == version and "format-version" not in made.properties


@pytest.mark.parametrize(
    ("argument", "stored", "error"),
    [
        (2, "3", InvalidInput),
        ("2", None, InvalidInput),
        (None, "two", InvalidInput),
        (9, None, ValidationError),
        (None, "0", ValidationError),
    ],
)
def test_a_format_version_that_is_none_is_refused(
    argument: Any, stored: Any, error: type[Exception]
) -> None:
    properties = {} if stored is None else {"format-version": stored}
    with pytest.raises(error):
        table_metadata("memory://t", COLUMNS, None, None, properties, format_version=argument)


@pytest.mark.parametrize("argument", ["partition_by", "sort_by", "identifier_fields"])
@pytest.mark.parametrize("given", [5, b"id", [1], [None], {"id", 2}])
def test_what_is_no_list_of_texts_is_refused_by_name(argument: str, given: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{argument} must be a text or a list of texts"):
        table_metadata("/t", COLUMNS, None, None, None, **{argument: given})


def test_a_new_table_does_not_take_over_the_history_of_another() -> None:
    history = {
        "frazil.txn.job@main": '{"number": 1, "snapshot-id": 5}',
        "frazil.partition-commit.state@main": "{}",
        "frazil.maintenance.lease": "{}",
    }
    given = {**history, "note": "kept"}
    made = table_metadata("/t", COLUMNS, None, None, given)
    assert dict(made.properties) == {"note": "kept"} | {
        k: v for k, v in made.properties.items() if k.startswith("write.")
    }
