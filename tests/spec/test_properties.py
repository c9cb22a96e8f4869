"""Table properties are described once: types, defaults, checks, and what delete files make of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from frazil.errors import ValidationError
from frazil.spec import options as k
from frazil.spec import properties as p
from frazil.spec.name_mapping import MappedField

SRC = Path(__file__).resolve().parents[2] / "src/frazil"
GOOD = {
    k.NATURAL: ("0", 0), k.POSITIVE: (" 17 ", 17), p.WHOLE: ("-3", "-3"), k.FRACTION: ("0.25", 0.25), k.BOOLEAN: ("TRUE", True),
    k.SIZE: ("64 MB", 64 << 20), p.WORD: ("ZSTD", "zstd"), p.ANY: ("A b", "A b"), p.LOCATION: ("s3://b/k", "s3://b/k"),
    p.METRICS: ("Truncate(8)", "truncate(8)"),
}  # fmt: skip
BAD = {
    k.NATURAL: ("-1", "1.5", "many", "1_000"), k.POSITIVE: ("0", "-1", "", "00"), p.WHOLE: ("x", "1.0"), k.FRACTION: ("0", "1", "nan", "x"),
    k.BOOLEAN: ("yes", "1", ""), k.SIZE: ("0", "0MB", "-1", "5 parsecs"), p.LOCATION: ("here/or/there", "file:here", ""), p.METRICS: ("truncate(0)", "all"),
    p.MAPPING: ("{", "{}", '[{"names": 3}]'),
}  # fmt: skip


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.description)
def test_a_value_of_each_kind_is_read_as_its_type(kind: k.ValueKind[object]) -> None:
    text, value = GOOD[kind]
    found = p.TableProperty("some.key", kind, None).of({"some.key": text})
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("kind", BAD, ids=lambda kind: kind.description)
def test_a_text_that_is_no_value_is_refused_by_the_propertys_name_and_by_what_it_takes(
    kind: k.ValueKind[object],
) -> None:
    for text in BAD[kind]:
        with pytest.raises(ValidationError) as told:
            p.TableProperty("some.key", kind, None).of({"some.key": text})
        assert (
            "some.key" in str(told.value)
            and kind.description in str(told.value)
            and repr(text) in str(told.value)
        )


def test_an_absent_property_has_its_default_and_says_that_it_was_not_given() -> None:
    assert p.COMMIT_RETRY.retries.of({}) == 4 and p.COMMIT_RETRY.retries.given({}) is None
    assert (
        p.COMMIT_RETRY.retries.of({"commit.retry.num-retries": "9"})
        == p.COMMIT_RETRY.retries.given({"commit.retry.num-retries": "9"})
        == 9
    )
    assert p.DELETE_FORMAT.of({}) is None and p.GC_ENABLED.of({}) is True


def test_every_default_is_a_value_of_its_property() -> None:
    for one in p.TABLE_PROPERTIES.values():
        if one.default is not None:
            text = str(one.default).lower() if isinstance(one.default, bool) else str(one.default)
            assert one.kind.parse(one.name, text) == one.default, one.name


def test_properties_of_columns_are_read_by_column_and_checked_by_prefix() -> None:
    given = {
        "write.parquet.stats-enabled.column.s.x": "false",
        "write.parquet.stats-enabled.column.y": "true",
        "other": "x",
    }
    assert p.PARQUET_STATISTICS.of(given) == {"s.x": False, "y": True}
    with pytest.raises(
        ValidationError,
        match=r"write\.parquet\.bloom-filter-fpp\.column\.s\.x must be a number between 0 and 1",
    ):
        p.check_values({"write.parquet.bloom-filter-fpp.column.s.x": "2"})


def test_a_name_mapping_is_read_and_what_is_wrong_in_it_is_told() -> None:
    found = p.NAME_MAPPING.of({"schema.name-mapping.default": '[{"field-id": 1, "names": ["a"]}]'})
    assert found is not None and found.fields == (MappedField(("a",), 1),)
    with pytest.raises(ValidationError, match=r"a name mapping in JSON \(.*ID 1 is not unique"):
        p.check_values(
            {
                "schema.name-mapping.default": '[{"field-id": 1, "names": ["a"]}, {"field-id": 1, "names": ["b"]}]'
            }
        )


def test_delete_files_take_their_own_properties_first_and_none_of_single_columns() -> None:
    given = {
        "write.parquet.compression-codec": "zstd",
        "write.delete.parquet.compression-codec": "gzip",
        "write.parquet.row-group-size-bytes": "5",
        "write.parquet.bloom-filter-enabled.column.id": "true",
        "write.parquet.shred-variants": "true",
        "write.delete.orc.stripe-size-bytes": "7",
        "my.own": "x",
    }
    found = p.properties_of_deletes(given)
    assert (
        p.PARQUET_CODEC.of(found) == "gzip"
        and p.PARQUET_ROW_GROUP_SIZE.of(found) == 5
        and p.ORC_STRIPE_SIZE.of(found) == 7
    )
    assert (
        p.PARQUET_BLOOM_FILTER.of(found) == {}
        and p.PARQUET_SHRED_VARIANTS.of(found) is False
        and found["my.own"] == "x"
    )
    with pytest.raises(ValidationError, match=r"write\.delete\.orc\.stripe-size-bytes"):
        p.check_values({"write.delete.orc.stripe-size-bytes": "0"})


def test_no_other_file_spells_the_name_of_a_table_property() -> None:
    names = {*p.TABLE_PROPERTIES, *p.COLUMN_PROPERTIES}
    spelled = re.compile(r"(?:write|read|commit|gc|schema|encryption)\.[a-z][a-z.-]*")
    found = [
        f"{path.relative_to(SRC)}: {node.value}"
        for path in SRC.rglob("*.py")
        if path != SRC / "spec/properties.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value in names or spelled.fullmatch(node.value))
    ]
    assert found == []
