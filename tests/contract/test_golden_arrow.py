"""Every golden table without Spark: `to_arrow` and `plan_files`."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import Unsupported
from tests.contract import doors, questions
from tests.contract.doors import Ask
from tests.golden import Golden, GoldenTable, names

CLEAN = names()


def wrong(table: GoldenTable, asked: list[questions.Question]) -> list[str]:
    """Questions that were answered wrongly, with what was said."""
    found = []
    for q in asked:
        try:
            got = doors.summed(doors.arrow(table, q.ask), q.schema)
        except Exception as e:
            found.append(f"{q.label}: {type(e).__name__}: {e}"[:500])
        else:
            if got != q.answer:
                found.append(f"{q.label}: {got} for {q.answer}")
    return found


@pytest.mark.parametrize("name", CLEAN)
def test_rows_are_those_that_their_writer_reads(golden: Golden, name: str) -> None:
    table, q = golden[name], questions.current(golden[name])
    assert doors.summed(doors.arrow(table, q.ask), q.schema) == q.answer


@pytest.mark.parametrize("name", [n for n in names(deletes=None) if n != "geo_v3"])
def test_every_snapshot_ref_and_moment_without_deletes_is_read_with_its_own_schema(golden: Golden, name: str) -> None:
    table = golden[name]
    assert wrong(table, [*questions.travels(table), *questions.times(table)]) == []


@pytest.mark.parametrize("name", CLEAN)
def test_filters_keep_exactly_the_rows_for_which_sql_says_true(golden: Golden, name: str) -> None:
    table = golden[name]
    assert wrong(table, list(questions.filters(table))) == []


@pytest.mark.parametrize("name", CLEAN)
def test_planned_files_are_the_live_files(golden: Golden, name: str) -> None:
    table = golden[name]
    tasks = list(frazil.load_table(table.metadata_file).scan().plan_files())
    want = {(str(table.root / f["file_path"]), f["record_count"]) for f in table.expected["files"]}
    assert {(t.file.file_path.removeprefix("file://").removeprefix("file:"), t.file.record_count) for t in tasks} == want
    assert sum(t.file.record_count for t in tasks) == table.expected["rows"]


@pytest.mark.parametrize("name", CLEAN)
def test_files_planned_for_a_filter_hold_every_row_it_keeps(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    for q in questions.filters(table):
        planned = {t.file.file_path for t in opened.scan(row_filter=q.ask.where).plan_files()}
        holding = set(opened.scan(row_filter=q.ask.where, selected_fields=("_file",)).to_arrow()["_file"].to_pylist())
        assert holding <= planned, q.label


@pytest.mark.parametrize("name", names(deletes=True))
def test_snapshots_with_delete_files_are_refused_by_name(golden: Golden, name: str) -> None:
    table = golden[name]
    asks = list(questions.refused(table))
    assert asks
    for ask in [*asks, Ask()]:
        with pytest.raises(Unsupported, match="delete"):
            doors.arrow(table, ask)


@pytest.mark.parametrize("name", CLEAN)
def test_count_agrees_with_the_rows(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    assert opened.scan().count() == table.expected["rows"]
    for f in table.expected.get("filters", ())[:4]:
        assert opened.scan(row_filter=f["sql"]).count() == f["count"], f["sql"]


@pytest.mark.parametrize("name", ["plain_v3", "defaults_v3", "lineage_mor"])
def test_row_lineage_is_what_java_gives(golden: Golden, name: str) -> None:
    table = golden[name]
    want = table.parquet("lineage")
    got = frazil.load_table(table.metadata_file).scan(selected_fields=tuple(want.column_names)).to_arrow()
    key = want.column_names
    assert sorted(map(repr, got.select(key).to_pylist())) == sorted(map(repr, want.to_pylist()))
