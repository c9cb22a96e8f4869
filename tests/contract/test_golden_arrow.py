"""Every golden table without Spark: `to_arrow` and `plan_files`."""

from __future__ import annotations

import pickle

import pyarrow.compute as pc
import pytest

import frazil
from frazil.arrow.read.read_tasks import ReadContext, ReadOptions, read_task
from frazil.scan.combine import combine
from tests.contract import doors, questions
from tests.golden import Golden, GoldenTable, names

ALL = names(deletes=None)


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


@pytest.mark.parametrize("name", ALL)
def test_rows_are_those_that_their_writer_reads(golden: Golden, name: str) -> None:
    table, q = golden[name], questions.current(golden[name])
    assert doors.summed(doors.arrow(table, q.ask), q.schema) == q.answer


@pytest.mark.parametrize("name", [n for n in names(deletes=None) if n != "geo_v3"])
def test_every_snapshot_ref_and_moment_is_read_with_its_own_schema(
    golden: Golden, name: str
) -> None:
    table = golden[name]
    assert wrong(table, [*questions.travels(table), *questions.times(table)]) == []


@pytest.mark.parametrize("name", ALL)
def test_filters_keep_exactly_the_rows_for_which_sql_says_true(golden: Golden, name: str) -> None:
    table = golden[name]
    assert wrong(table, list(questions.filters(table))) == []


@pytest.mark.parametrize("name", ALL)
def test_planned_files_are_the_live_files(golden: Golden, name: str) -> None:
    table = golden[name]
    tasks = list(frazil.load_table(table.metadata_file).scan().plan_files())
    want = {
        (str(table.root / f["file_path"]), f["record_count"])
        for f in table.expected["files"]
        if f.get("content", 0) == 0
    }
    assert {
        (t.file.file_path.removeprefix("file://").removeprefix("file:"), t.file.record_count)
        for t in tasks
    } == want
    if not table.has_deletes:
        assert sum(t.file.record_count for t in tasks) == table.expected["rows"]


@pytest.mark.parametrize("name", ALL)
def test_files_planned_for_a_filter_hold_every_row_it_keeps(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    for q in questions.filters(table):
        planned = {t.file.file_path for t in opened.scan(row_filter=q.ask.where).plan_files()}
        holding = set(
            opened.scan(row_filter=q.ask.where, selected_fields=("_file",))
            .to_arrow()["_file"]
            .to_pylist()
        )
        assert holding <= planned, q.label


@pytest.mark.parametrize("name", names(deletes=True))
def test_deleted_rows_are_shown_to_who_asks_for_them(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    whole = opened.scan(selected_fields=("*", "_file", "_pos", "_deleted")).to_arrow()
    assert whole.num_rows == sum(t.file.record_count for t in opened.scan().plan_files())
    alive = whole.filter(pc.invert(whole["_deleted"]))
    want = opened.scan(selected_fields=("*", "_file", "_pos")).to_arrow()
    assert alive.drop_columns(["_deleted"]).equals(want)
    assert alive.num_rows == table.expected["rows"]
    places = list(zip(whole["_file"].to_pylist(), whole["_pos"].to_pylist(), strict=True))
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("name", names(deletes=True))
def test_splits_keep_their_deletes(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    scan = opened.scan()
    found = scan.plan()
    context = ReadContext.of(
        found, scan.projection(), scan.source.storage, ReadOptions(batch_size=7, workers=1)
    )
    parts = [t for c in combine(found.tasks(), split_size=300, open_file_cost=1) for t in c.tasks]
    tasks, context = pickle.loads(pickle.dumps((parts, context)))
    assert (
        sum(batch.num_rows for t in tasks for batch in read_task(t, context))
        == table.expected["rows"]
    )


@pytest.mark.parametrize("name", ALL)
def test_count_agrees_with_the_rows(golden: Golden, name: str) -> None:
    table, opened = golden[name], frazil.load_table(golden[name].metadata_file)
    assert opened.scan().count() == table.expected["rows"]
    for f in table.expected.get("filters", ())[:4]:
        assert opened.scan(row_filter=f["sql"]).count() == f["count"], f["sql"]


@pytest.mark.parametrize("name", ["plain_v3", "defaults_v3", "lineage_mor"])
def test_row_lineage_is_what_java_gives(golden: Golden, name: str) -> None:
    table = golden[name]
    want = table.parquet("lineage")
    got = (
        frazil.load_table(table.metadata_file)
        .scan(selected_fields=tuple(want.column_names))
        .to_arrow()
    )
    key = want.column_names
    assert sorted(map(repr, got.select(key).to_pylist())) == sorted(map(repr, want.to_pylist()))
