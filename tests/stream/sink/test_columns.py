"""Columns and members of structs that the frame of a batch lacks, or that only it has: the same by
either strategy.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput, SchemaMismatch
from frazil.stream.sink.batch import StreamSink, checked_options
from frazil.stream.sink.rows import ArrowRows
from tests.stream.sink.streams import data_files, known_files, make_table, sink_of

STRATEGIES = ("lookup", "equality-deletes")
INNER = pa.struct({"a": pa.int64()})


def frame(column: str, type_: pa.DataType, value: object, **more: object) -> ArrowRows:
    fields = {"id": pa.int64(), column: type_, **{n: pa.string() for n in more}}
    return ArrowRows(
        pa.Table.from_pylist([{"id": 1, column: value, **more}], schema=pa.schema(fields))
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mode", ["upsert", "cdc"])
@pytest.mark.parametrize(
    "column, type_, value",
    [
        ("s", INNER, {"a": 5}),
        ("l", pa.list_(INNER), [{"a": 5}]),
        ("m", pa.map_(pa.string(), INNER), [("k", {"a": 5})]),
        ("d", pa.struct({"s": INNER}), {"s": {"a": 5}}),
    ],
)
def test_a_struct_that_lacks_a_member_is_refused_at_any_depth(
    strategy: str, mode: str, column: str, type_: pa.DataType, value: object, tmp_path: Path
) -> None:
    both = "struct<a: bigint, b: bigint>"
    columns = (
        f"id bigint not null, s {both}, l array<{both}>, m map<string, {both}>, d struct<s: {both}>"
    )
    table = make_table(tmp_path, columns, identifier_fields=["id"])
    table.append(pa.Table.from_pylist([{"id": 1, "s": {"a": 1, "b": 7}}]))
    rows = frame(column, type_, value, **({"op": "u"} if mode == "cdc" else {}))
    with pytest.raises(
        SchemaMismatch, match=rf"cannot find data for the output column {column}\..*b"
    ):
        sink_of(table, mode=mode, upsert_strategy=strategy).commit(0, rows)
    assert table.refresh().scan().to_arrow().to_pylist()[0]["s"] == {"a": 1, "b": 7}
    assert data_files(table) == known_files(table)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_new_member_of_a_struct_is_added_when_it_may(strategy: str, tmp_path: Path) -> None:
    table = make_table(
        tmp_path, "id bigint not null, s struct<a: bigint>", identifier_fields=["id"]
    )
    table.append(pa.Table.from_pylist([{"id": 1, "s": {"a": 1}}, {"id": 2, "s": {"a": 2}}]))
    rows = frame("s", pa.struct({"a": pa.int64(), "b": pa.int64()}), {"a": 5, "b": 6})
    with pytest.raises(SchemaMismatch, match=r"s\.b"):
        sink_of(table, mode="upsert", upsert_strategy=strategy).commit(0, rows)
    sink_of(table, mode="upsert", upsert_strategy=strategy, merge_schema=True).commit(0, rows)
    found = table.refresh().scan().to_arrow().sort_by("id").column("s").to_pylist()
    assert found == [{"a": 5, "b": 6}, {"a": 2, "b": None}]


def test_members_that_the_frame_lacks_stay_where_the_schema_is_merged_and_are_refused_where_rows_are_not_read(
    tmp_path: Path,
) -> None:
    table = make_table(
        tmp_path,
        "id bigint not null, s struct<a: bigint, b: bigint>, v bigint",
        identifier_fields=["id"],
    )
    table.append(pa.Table.from_pylist([{"id": 1, "s": {"a": 1, "b": 7}, "v": 3}]))
    rows = frame("s", pa.struct({"a": pa.int64(), "c": pa.int64()}), {"a": 5, "c": 6})
    with pytest.raises(SchemaMismatch, match=r"cannot find data for the output column s\.b"):
        sink_of(table, mode="upsert", upsert_strategy="equality-deletes", merge_schema=True).commit(
            0, rows
        )
    assert "s.c" not in table.refresh().schema().column_names
    sink_of(table, mode="upsert", merge_schema=True).commit(0, rows)
    assert table.refresh().scan().to_arrow().to_pylist() == [
        {"id": 1, "s": {"a": 5, "b": 7, "c": 6}, "v": 3}
    ]


@pytest.mark.parametrize("door", ["upsert", "merge", *STRATEGIES])
def test_unsigned_longs_are_taken_where_they_fit_a_bigint(door: str, tmp_path: Path) -> None:
    columns = (
        "id bigint not null, v bigint, s struct<a: bigint>, l array<bigint>, m map<string, bigint>"
    )
    table = make_table(tmp_path, columns, identifier_fields=["id"])
    kinds: list[tuple[str, pa.DataType]] = [
        ("id", pa.uint64()),
        ("v", pa.uint64()),
        ("s", pa.struct({"a": pa.uint64()})),
    ]
    kinds += [("l", pa.list_(pa.uint64())), ("m", pa.map_(pa.string(), pa.uint64()))]

    def put(v: int) -> None:
        rows = pa.Table.from_pylist(
            [{"id": 1, "v": v, "s": {"a": 2}, "l": [3], "m": [("k", 4)]}], schema=pa.schema(kinds)
        )
        if door == "upsert":
            table.refresh().upsert(rows)
        elif door == "merge":
            table.refresh().merge(
                rows, on="target.id = source.id"
            ).when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            sink_of(table, mode="upsert", upsert_strategy=door).commit(v, ArrowRows(rows))

    with pytest.raises(SchemaMismatch, match=r"column v does not fit.*9223372036854775808"):
        put(2**63)
    for v in (5, 6):
        put(v)
    (row,) = table.refresh().scan().to_arrow().to_pylist()
    assert row == {"id": 1, "v": 6, "s": {"a": 2}, "l": [3], "m": [("k", 4)]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_names_of_keys_are_matched_as_all_names_are(strategy: str, tmp_path: Path) -> None:
    table = make_table(tmp_path, "id bigint, v bigint")
    table.append(pa.table({"id": [1, 2], "v": [1, 2]}))
    options = {"mode": "upsert", "key_columns": "ID", "upsert_strategy": strategy}
    with pytest.raises(
        InvalidInput, match="Missing required equality field column 'ID' in table schema id, v"
    ):
        checked_options(options, table._loaded)
    checked = checked_options(options, table._loaded, case_sensitive=False)
    with pytest.raises(InvalidInput, match="key-columns names a column twice"):
        checked_options({**options, "key_columns": "id,ID"}, table._loaded, case_sensitive=False)
    assert table._backend is not None
    sink = StreamSink(
        table._backend, table.refresh()._loaded, "db.t", "q", checked, case_sensitive=False
    )
    sink.commit(0, ArrowRows(pa.table({"Id": [1], "V": [7]})))
    assert table.refresh().scan().to_arrow().sort_by("id").to_pydict() == {
        "id": [1, 2],
        "v": [7, 2],
    }
