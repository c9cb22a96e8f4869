"""Upserts that look up their keys: each batch of whole rows adds one data file, and rows keep their
ids (spec, "Row Lineage").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.arrow.deletes import delete_files
from frazil.spec.manifest import DataFileContent
from frazil.stream.sink.rows import ArrowRows
from frazil.table.table import Table
from tests.stream.sink.streams import contents, held, make_table, rows_of, sink_of

FILES = 8


def many_files(place: Path, version: int) -> Table:
    table = make_table(place, format_version=version)
    for number in range(FILES):
        ids = [number, number + FILES]
        table.append(pa.table({"id": ids, "p": ["a"] * 2, "v": [0] * 2}))
    return table.refresh()


def row_ids(table: Table) -> dict[int, Any]:
    rows = (
        table.refresh()
        .scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number"))
        .to_arrow()
        .to_pylist()
    )
    return {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in rows}


@pytest.mark.parametrize("version", [2, 3])
def test_a_batch_adds_one_file_however_many_files_it_changes(tmp_path: Path, version: int) -> None:
    table = many_files(tmp_path, version)
    batch = rows_of(*((n, "a", 1) for n in range(FILES)), (100, "a", 1))
    result = sink_of(table, mode="upsert", key_columns="id", upsert_strategy="lookup").commit(
        0, batch
    )
    assert held(table) == sorted(
        [
            *((n, "a", 1) for n in range(FILES)),
            *((n + FILES, "a", 0) for n in range(FILES)),
            (100, "a", 1),
        ]
    )
    assert contents(table).count(DataFileContent.DATA) == FILES + 1
    assert result is not None and (result.rows_updated, result.rows_inserted) == (FILES, 1)
    summary = table.current_snapshot().summary
    assert summary["spark.merge-into.num-target-rows-updated"] == str(FILES)
    assert summary["spark.merge-into.num-target-rows-inserted"] == "1"


def test_rows_that_replace_others_keep_their_ids_and_new_rows_get_new_ones(tmp_path: Path) -> None:
    table = many_files(tmp_path, 3)
    before = row_ids(table)
    sink_of(table, mode="upsert", key_columns="id", upsert_strategy="lookup").commit(
        0, rows_of((3, "b", 1), (100, "a", 1), (1, "a", 1))
    )
    after, sequence = row_ids(table), table.metadata.last_sequence_number
    assert [after[n][0] for n in range(2 * FILES)] == [before[n][0] for n in range(2 * FILES)]
    assert {n for n in after if after[n][1] == sequence} == {1, 3, 100}
    assert after[100][0] > max(row_id for row_id, _ in before.values())


def test_rows_without_an_id_are_replaced_by_rows_that_have_one(tmp_path: Path) -> None:
    """Files that were there before the table became v3 have ids only from the next commit of their
    manifest on.
    """
    table = many_files(tmp_path, 2)
    table.upgrade(format_version=3)
    sink_of(table, mode="upsert", key_columns="id", upsert_strategy="lookup").commit(
        0, rows_of((3, "b", 1), (100, "a", 1))
    )
    found = [row_id for row_id, _ in row_ids(table).values()]
    assert len(found) == 2 * FILES + 1 and None not in found and len(set(found)) == len(found)


def test_a_key_that_the_table_holds_twice_is_there_once_after_its_upsert(tmp_path: Path) -> None:
    table = make_table(tmp_path, format_version=3)
    for value in (1, 2):
        table.append(pa.table({"id": [7, 8 + value], "p": ["a", "a"], "v": [value, value]}))
    result = sink_of(table, mode="upsert", key_columns="id", upsert_strategy="lookup").commit(
        0, rows_of((7, "b", 3), (11, "b", 3))
    )
    assert held(table) == [(7, "b", 3), (9, "a", 1), (10, "a", 2), (11, "b", 3)]
    assert result is not None and result.rows_inserted == 1


@pytest.mark.parametrize("rows", ["whole", "part"])
def test_the_vector_of_a_file_is_decoded_once_in_a_batch(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to leave out the rows that are deleted already, and the same for the vector that
    replaces it.
    """
    table, decoded = many_files(tmp_path, 3), list[str]()
    table.append(pa.table({"id": [50, 51, 52, 53], "p": ["a"] * 4, "v": [0] * 4}))
    options = {"mode": "upsert", "key_columns": "id", "upsert_strategy": "lookup"}
    sink_of(table, **options).commit(0, rows_of((50, "a", 1)))
    decode = delete_files._decoded

    def counted(delete: Any, file: Any, *more: Any) -> Any:
        decoded.append(file.file_path)
        return decode(delete, file, *more)

    monkeypatch.setattr(delete_files, "_decoded", counted)
    batch = rows_of((51, "a", 2)) if rows == "whole" else rows_of((51, 2), names=("id", "v"))
    sink_of(table, **options, **({} if rows == "whole" else {"merge_schema": True})).commit(
        1, batch
    )
    assert len(decoded) == len(set(decoded)) == 1
    assert [r for r in held(table) if r[0] >= 50] == [
        (50, "a", 1),
        (51, "a", 2),
        (52, "a", 0),
        (53, "a", 0),
    ]


def test_rows_that_are_taken_away_are_not_written(tmp_path: Path) -> None:
    table = many_files(tmp_path, 3)
    rows = pa.table(
        {"id": [0, 1, 100, 101], "p": ["b"] * 4, "v": [1] * 4, "op": ["-D", "+U", "-D", "+I"]}
    )
    result = sink_of(
        table, mode="cdc", op_column="op", key_columns="id", upsert_strategy="lookup"
    ).commit(0, ArrowRows(rows))
    assert [r for r in held(table) if r[0] in (0, 1, 100, 101)] == [(1, "b", 1), (101, "b", 1)]
    assert result is not None and (
        result.rows_updated,
        result.rows_deleted,
        result.rows_inserted,
    ) == (1, 1, 1)
    assert row_ids(table)[101][0] is not None


@pytest.mark.parametrize("keys", ["id", "id,p"])
@pytest.mark.parametrize("spelled", [str.upper, lambda text: text.replace("-", "")])
def test_a_uuid_is_found_however_it_is_spelled(tmp_path: Path, keys: str, spelled: Any) -> None:
    text = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    table = make_table(tmp_path, "id uuid, p string, v bigint")
    table.append(pa.table({"id": [text, None], "p": ["a", "a"], "v": [1, 2]}))
    rows = ArrowRows(pa.table({"id": [spelled(text), None], "p": ["a", "a"], "v": [3, 4]}))
    sink_of(table, mode="upsert", key_columns=keys, upsert_strategy="lookup").commit(0, rows)
    assert [(None if r[0] is None else str(r[0]), *r[1:]) for r in held(table)] == [
        (None, "a", 4),
        (text, "a", 3),
    ]
