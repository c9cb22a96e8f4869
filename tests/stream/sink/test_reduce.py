"""The last row of each key: by order column, then by position; kinds of rows of Flink, Debezium and
Iceberg's changelogs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, SchemaMismatch
from frazil.spec.schema import Schema
from frazil.spec.types import LongType, NestedField, StringType, UUIDType
from frazil.stream.sink.options import sink_options
from frazil.stream.sink.reduce import POSITION, Reduction, reduced, reduction

SCHEMA = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "v", StringType(), False))


def how(
    columns: list[str], schema: Schema = SCHEMA, case_sensitive: bool = True, **options: Any
) -> Reduction:
    return reduction(
        sink_options({"key_columns": "id", **options}), schema, [1], columns, case_sensitive
    )


def kept(rows: dict[str, list[Any]], **options: Any) -> list[tuple[Any, ...]]:
    table = pa.table(rows)
    found = reduced(table, how(table.column_names, **options))
    gone = [False] * found.rows.num_rows if found.removed is None else found.removed.to_pylist()
    return sorted(
        (
            (*r.values(), *(["gone"] if g else []))
            for r, g in zip(found.rows.to_pylist(), gone, strict=True)
        ),
        key=repr,
    )


def test_the_last_row_by_position_wins_without_an_order_column() -> None:
    assert kept({"id": [1, 2, 1], "v": ["a", "b", "c"]}, mode="upsert") == [(1, "c"), (2, "b")]


def test_the_order_column_decides_and_ties_go_by_position() -> None:
    rows = {"id": [1, 1, 1, 2, 2], "v": ["late", "tie", "last", "x", "y"], "seq": [1, 9, 9, 5, 4]}
    assert kept(rows, mode="upsert", order_column="seq") == [(1, "last"), (2, "x")]


def test_a_null_in_the_order_column_comes_first() -> None:
    assert kept(
        {"id": [1, 1], "v": ["a", "b"], "seq": [3, None]}, mode="upsert", order_column="seq"
    ) == [(1, "a")]


def test_null_is_a_key_like_any_other() -> None:
    assert kept({"id": [None, 1, None], "v": ["a", "b", "c"]}, mode="upsert") == [
        (1, "b"),
        (None, "c"),
    ]


def test_positions_of_the_whole_frame_count_more_than_the_order_of_arrival() -> None:
    assert kept({"id": [1, 1], "v": ["new", "old"], POSITION: [7, 3]}, mode="upsert") == [
        (1, "new")
    ]


@pytest.mark.parametrize(
    ("insert", "before", "after", "delete"),
    [
        ("+I", "-U", "+U", "-D"),
        ("c", "update_before", "u", "d"),
        ("insert", "update_preimage", "update_postimage", "delete"),
        ("r", "-u", "+u", "D"),
    ],
)
def test_kinds_of_rows_of_every_product_are_known(
    insert: str, before: str, after: str, delete: str
) -> None:
    # 5: a before-image alone, as of a row whose key changed
    rows = {
        "id": [1, 1, 1, 2, 3, 3, 4, 4, 5],
        "v": ["a", "a", "b", "c", "d", "d", "e", "f", "g"],
        "op": [insert, before, after, delete, delete, insert, before, after, before],
    }
    assert kept(rows, mode="cdc") == [
        (1, "b"),
        (2, "c", "gone"),
        (3, "d"),
        (4, "f"),
        (5, "g", "gone"),
    ]


def test_an_unknown_kind_and_a_null_are_refused() -> None:
    for bad in ("x", None):
        with pytest.raises(InvalidInput, match="which is no kind of row"):
            kept({"id": [1], "v": ["a"], "op": [bad]}, mode="cdc")
    with pytest.raises(SchemaMismatch, match="op, _change_type, row_kind"):
        kept({"id": [1], "v": ["a"]}, mode="cdc")


def test_in_a_changelog_a_key_that_one_snapshot_removed_and_added_is_there() -> None:
    rows = {
        "id": [1, 1, 2],
        "v": ["new", "old", "z"],
        "_change_type": ["INSERT", "DELETE", "DELETE"],
        "_change_ordinal": [4, 4, 4],
        "_commit_snapshot_id": [9, 9, 9],
    }
    assert kept(rows, mode="cdc") == [(1, "new"), (2, "z", "gone")]


def test_names_are_matched_as_the_caller_says_and_control_columns_that_the_table_lacks_are_not_stored() -> (
    None
):
    found = how(["ID", "V", "OP"], case_sensitive=False, mode="cdc", op_column="op")
    assert (found.key_names, found.op, found.unstored) == (("ID",), "OP", ("OP",))
    with pytest.raises(SchemaMismatch, match="no column id"):
        how(["ID", "v"], mode="upsert")
    stored = Schema(*SCHEMA.fields, NestedField(3, "op", StringType(), False))
    assert how(["id", "v", "op"], stored, mode="cdc").unstored == ()


def test_two_spellings_of_a_uuid_are_one_key() -> None:
    schema = Schema(
        NestedField(1, "id", UUIDType(), False), NestedField(2, "v", StringType(), False)
    )
    text = "0B6A4A53-7C55-4BB8-9D43-2B1F2B6A1D11"
    rows = pa.table({"id": [text, text.lower()], "v": ["a", "b"]})
    found = reduced(rows, how(rows.column_names, schema, mode="upsert"))
    assert found.rows.to_pylist() == [{"id": text.lower(), "v": "b"}]
