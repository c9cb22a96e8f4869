"""Batches that replace the partitions which they have rows of (Flink's overwrite-enabled)."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import InvalidInput
from frazil.stream.sink.options import sink_options
from frazil.testing import FlakyBackend
from tests.stream.sink.streams import data_files, held, known_files, make_table, rows_of, sink_of
from tests.stream.sink.test_many_tables import catalog_at, sink_on, split

PART = {"partition_by": ["p"]}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_batch_replaces_its_partitions_once_and_leaves_the_others(
    tmp_path: Path, version: int
) -> None:
    table = make_table(tmp_path, format_version=version, **PART)
    replacing = sink_of(table, mode="overwrite")
    replacing.commit(0, rows_of((1, "a", 0), (2, "b", 0), (3, None, 0)))
    replacing.commit(1, rows_of((4, "b", 1), (5, None, 1)))
    assert held(table) == [(1, "a", 0), (4, "b", 1), (5, None, 1)]
    before = table.refresh().current_snapshot()
    assert (
        before is not None
        and before.summary["replace-partitions"] == "true"
        and before.operation == "overwrite"
    )
    assert sink_of(table, mode="overwrite").commit(1, rows_of((4, "b", 1), (5, None, 1))).skipped
    assert sink_of(table, mode="overwrite").commit(2, rows_of()).snapshot_id is None
    assert table.refresh().current_snapshot() == before and data_files(table) <= known_files(table)


def test_a_batch_replaces_all_rows_of_an_unpartitioned_table_and_an_empty_one_nothing(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path)
    for number, rows in enumerate(([(1, "a", 0), (2, "b", 0)], [(3, "c", 1)], [])):
        sink_of(table, mode="overwrite").commit(number, rows_of(*rows))
    assert held(table) == [(3, "c", 1)]


def test_rows_that_another_writer_added_meanwhile_are_replaced_with_their_partition(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path, **PART)
    table.append([{"id": 1, "p": "a", "v": 0}, {"id": 2, "p": "b", "v": 0}])
    late = lambda n: table.append([{"id": 9, "p": "a", "v": 9}]) if n == 1 else None
    backend = FlakyBackend(table._backend, before_swap=late)
    assert (
        sink_of(table, backend=backend, mode="overwrite")
        .commit(0, rows_of((3, "a", 1)))
        .snapshot_id
    )
    assert len(backend.fired) == 2 and len(table.refresh().snapshots()) == 3
    assert held(table) == [(2, "b", 0), (3, "a", 1)]


def test_rows_in_a_branch_are_replaced_there_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path, **PART)
    table.append([{"id": 1, "p": "a", "v": 0}])
    with table.manage_snapshots() as manage:
        manage.create_branch(table.refresh().current_snapshot().snapshot_id, "audit")  # type: ignore[union-attr]
    sink_of(table, mode="overwrite", branch="audit").commit(0, rows_of((2, "a", 1)))
    assert held(table) == [(1, "a", 0)] and held(table, "audit") == [(2, "a", 1)]


def test_each_of_many_tables_has_its_own_partitions_replaced(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    sink = sink_on(catalog, mode="overwrite", create={"partition_by": ["id"]})
    sink.commit(0, split(("db.a", 1, 0), ("db.a", 2, 0), ("db.b", 1, 0)))
    sink.commit(1, split(("db.a", 2, 1)))
    assert [held(catalog.load_table(f"db.{n}")) for n in "ab"] == [[(1, 0), (2, 1)], [(1, 0)]]


def test_options_that_contradict_the_mode_are_refused() -> None:
    assert (
        sink_options(
            {"write-mode": "overwrite", "overwrite-mode": "dynamic", "isolation-level": "snapshot"}
        ).mode
        == "overwrite"
    )
    for wrong in ({"overwrite-mode": "static"}, {"key-columns": "id"}, {"op-column": "op"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            sink_options({"write-mode": "overwrite", **wrong})
    with pytest.raises(InvalidInput, match="write-mode=overwrite"):
        sink_options({"write-mode": "complete", "overwrite-mode": "dynamic"})
