"""Streams into branches: one that exists is written, and a name that was misspelt becomes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import FrazilError, InvalidInput, NoSuchRefError
from tests.stream.sink.streams import held, make_table, rows_of, sink_of
from tests.stream.sink.test_many_tables import catalog_at, sink_on, split


@pytest.mark.parametrize(
    "options", [{}, {"mode": "overwrite"}, {"mode": "upsert", "key_columns": "id"}], ids=str
)
def test_a_branch_that_does_not_exist_and_a_tag_are_refused_before_the_query_starts(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = make_table(tmp_path)
    with pytest.raises(NoSuchRefError, match="'audti'.*create_branch"):
        sink_of(table, branch="audti", **options)
    table.append([{"id": 1, "p": "a", "v": 0}])
    with table.refresh().manage_snapshots() as manage:
        manage.create_tag(table.current_snapshot().snapshot_id, "v1")  # type: ignore[union-attr]
    for branch, error in (("audti", NoSuchRefError), ("v1", InvalidInput)):
        with pytest.raises(error, match=branch):
            sink_of(table, branch=branch, **options)
    assert set(table.refresh().refs()) == {"main", "v1"}


def test_a_branch_that_is_dropped_while_a_stream_runs_is_not_made_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append([{"id": 1, "p": "a", "v": 0}])
    with table.refresh().manage_snapshots() as manage:
        manage.create_branch(table.current_snapshot().snapshot_id, "audit")  # type: ignore[union-attr]
    sink = sink_of(table, branch="audit")
    sink.commit(0, rows_of((2, "b", 0)))
    assert held(table, "audit") == [(1, "a", 0), (2, "b", 0)]
    with table.refresh().manage_snapshots() as manage:
        manage.remove_branch("audit")
    with pytest.raises(NoSuchRefError, match="audit"):
        sink.commit(1, rows_of((3, "c", 0)))
    assert set(table.refresh().refs()) == {"main"} and held(table) == [(1, "a", 0)]


def test_of_many_tables_those_that_are_made_get_the_branch_and_others_must_have_it(
    tmp_path: Path,
) -> None:
    catalog = catalog_at(tmp_path)
    sink_on(catalog, branch="audit").commit(0, split(("db.new", 1, 0)))
    assert (
        catalog.load_table("db.new").scan(branch="audit").count() == 1
        and catalog.load_table("db.new").scan().count() == 0
    )
    sink_on(catalog, branch="audit").commit(1, split(("db.new", 2, 0)))
    catalog.create_table("db.old", "id bigint, v bigint").append([{"id": 1, "v": 1}])
    with pytest.raises(FrazilError, match="audit"):
        sink_on(catalog, branch="audit").commit(2, split(("db.old", 3, 0)))
    assert set(catalog.load_table("db.old").refs()) == {"main"}
