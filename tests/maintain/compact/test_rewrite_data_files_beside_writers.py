"""Compaction beside other writers: it conflicts only where a file that it rewrites is gone, and
carries over what was deleted meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.arrow.deletes.write_deletes import write_equality_deletes
from frazil.arrow.write.write_context import WriteContext
from frazil.commit.actions import RowDelta
from frazil.errors import CommitStateUnknownException, ValidationException
from frazil.ops.operation import TableOperation
from frazil.table.table import Table
from frazil.testing import FlakyBackend
from tests.builders.catalogs import catalog_of
from tests.builders.examples import sampled
from tests.builders.frames import ids
from tests.maintain.compacting import (
    ALL,
    LINEAGE,
    STRATEGIES,
    Meanwhile,
    rows,
    rows_of_file,
    table_of,
)
from tests.maintain.support import LATER, add, table_in
from tests.spark.deleting import take_keys

BY_NAME = pytest.mark.parametrize(
    "how", STRATEGIES, ids=lambda h: str(h.get("sort_order", h["strategy"]))
)


def files_left(table: Table) -> set[str]:
    on_disk = {
        p.name
        for p in Path(table.location()).joinpath("data").rglob("*")
        if p.is_file() and not p.name.startswith(".")
    }
    return on_disk - {
        Path(f).name for f in table.inspect.all_files().column("file_path").to_pylist()
    }


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return catalog_of("path", tmp_path)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("layout", sampled(["other spec", "plain", "partitioned"], 3))
@BY_NAME
def test_rows_deleted_meanwhile_stay_deleted(
    catalog: Any, how: dict[str, Any], layout: str, version: int
) -> None:
    table = table_of(
        catalog, "t", version, files=4, partition_by=[] if layout == "plain" else ["p"]
    )
    if layout == "other spec":
        with table.update_spec() as update:
            update.remove_field("p").add_field("id", "bucket[2]", "b")
    table.delete("id % 10 = 3")
    other = catalog.load_table("db.t")

    def meanwhile() -> None:
        other.delete("id % 9 = 4 or id in (0, 1, 39, 40, 159)")
        other.delete("s = 'ä' and id > 100")
        other.append(rows_of_file(7000, 5))

    runner = Meanwhile(meanwhile)
    table.maintenance.rewrite_data_files(**how, options=ALL, runner=runner)
    deleted = [i for i in range(160) if i % 10 == 3 or i % 9 == 4 or i in (0, 1, 39, 40, 159)]
    found = [r[0] for r in rows(table)]
    wanted = [r[0] for r in rows(other)]
    assert runner.runs == 1 and found == wanted and not set(deleted) & set(found) and 7004 in found
    assert rows(table) == rows(other)
    if version == 3:
        assert rows(table, LINEAGE) == rows(other, LINEAGE)
    assert table.inspect.data_files().num_rows < other.inspect.data_files().num_rows
    assert table.current_snapshot().operation == "replace" and files_left(table) == set()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partial", [False, True])
def test_rows_whose_deletes_are_rolled_back_meanwhile_come_back(
    tmp_path: Path, version: int, partial: bool
) -> None:
    table = table_in(tmp_path, format_version=version)
    for n in range(3):
        add(table, 2 * n, 2 * n + 1)
        add(table, 100 + n, p="b")
    before = table.current_snapshot().snapshot_id
    table.delete("id in (1, 2)", mode="merge-on-read", runner="in-process")
    other = type(table)(table._backend, table._loaded, table._name)
    runner = Meanwhile(lambda: other.maintenance.rollback_to_snapshot(before))
    result = table.maintenance.rewrite_data_files(
        options={**ALL, "partial-progress.enabled": partial}, runner=runner
    )
    assert runner.runs >= 1 and ids(table) == [*range(6), 100, 101, 102]
    # of partition a, and of partition b
    assert (result.failed_data_files_count, result.rewritten_data_files_count) == (
        3,
        3,
    )
    start = table.current_snapshot().snapshot_id
    table.delete("id in (1, 2)", mode="merge-on-read", runner="in-process")
    runner = Meanwhile(lambda: other.maintenance.rollback_to_snapshot(start))
    result = table.maintenance.rewrite_data_files(options=ALL, where="p = 'a'", runner=runner)
    # planned again
    assert (result.commits, result.failed_data_files_count) == (
        1,
        0,
    ) and runner.runs == 2
    table.update_properties().set("commit.retry.num-retries", "1").commit()
    states = [table.current_snapshot().snapshot_id]
    for gone in (1, 2):
        table.delete(f"id = {gone}", mode="merge-on-read", runner="in-process")
        states.append(table.current_snapshot().snapshot_id)
    runner = Meanwhile(
        lambda: other.refresh().maintenance.rollback_to_snapshot(states[-1 - runner.runs]), times=2
    )
    with pytest.raises(ValidationException, match="other deletes apply now to 1 of the files"):
        table.maintenance.rewrite_data_files(options=ALL, where="p = 'a'", runner=runner)
    assert ids(table.refresh()) == [*range(6), 100, 101, 102] and files_left(table) == set()


def test_deletes_that_are_merged_before_the_history_expires_are_carried_over(
    tmp_path: Path,
) -> None:
    table = table_in(tmp_path, format_version=2, properties={"write.delete.granularity": "file"})
    add(table, *range(6))
    add(table, 6, 7)
    for gone in ("id = 1", "id = 2"):
        table.delete(gone, mode="merge-on-read", runner="in-process")
    with table.manage_snapshots() as snapshots:
        # whose files are still there, though not its history
        snapshots.create_tag(table.current_snapshot().snapshot_id, "read")
    other = type(table)(table._backend, table._loaded, table._name)

    def meanwhile() -> None:
        other.refresh().delete("id = 3", mode="merge-on-read", runner="in-process")
        other.maintenance.rewrite_position_delete_files(options=ALL, runner="in-process")
        add(other.refresh(), 8)
        other.maintenance.expire_snapshots(older_than=LATER)

    runner = Meanwhile(meanwhile)
    result = table.maintenance.rewrite_data_files(options=ALL, runner=runner)
    assert runner.runs == 1 and result.failed_data_files_count == 0
    assert ids(table) == [0, 4, 5, 6, 7, 8] and files_left(table) == set()


def test_rows_that_an_older_equality_delete_deletes_meanwhile_stay_deleted(tmp_path: Path) -> None:
    table = table_in(tmp_path, format_version=2)
    add(table, 1, 2)
    plain = add(table, 3)
    take_keys(table, ("id",), [{"id": 1}], partition=("a",))
    deleted = table.current_snapshot().snapshot_id
    table.maintenance.set_current_snapshot(plain)
    add(table, 9, p="b")
    other = type(table)(table._backend, table._loaded, table._name)
    runner = Meanwhile(lambda: other.maintenance.set_current_snapshot(deleted))
    result = table.maintenance.rewrite_data_files(options=ALL, runner=runner)
    assert (
        (runner.runs, result.commits, result.failed_data_files_count) == (2, 1, 0)
        and ids(table.refresh()) == [2, 3]
        and files_left(table) == set()
    )


@pytest.mark.parametrize("seed", sampled(range(8), 3))
def test_random_writers_beside_a_compaction_lose_and_revive_nothing(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    version = chance.choice([2, 3])
    catalog = catalog_of("memory", tmp_path)
    table = table_of(
        catalog,
        "t",
        version,
        files=5,
        rows=30,
        partition_by=chance.choice([[], ["p"], ["bucket(2, id)"]]),
    )
    expected = {r["id"]: r["x"] for r in table.scan().to_arrow().to_pylist()}
    for turn in range(4):
        other = catalog.load_table("db.t")

        def meanwhile(other: Table = other, turn: int = turn) -> None:
            for _ in range(chance.randrange(1, 4)):
                ids = chance.sample(range(150 + turn * 10), 7)
                match chance.choice(["delete", "upsert", "append", "update"]):
                    case "delete":
                        other.delete(f"id in ({', '.join(map(str, ids))})")
                        for i in ids:
                            expected.pop(i, None)
                    case "upsert":
                        given = {i: float(chance.randrange(100)) for i in ids}
                        frame = pa.table(
                            {
                                "id": list(given),
                                "p": [f"p{i % 3}" for i in given],
                                "x": list(given.values()),
                                "s": ["u"] * 7,
                            }
                        )
                        other.upsert(frame, join_cols=["id"])
                        expected.update(given)
                    case "append":
                        begin = 1000 + chance.randrange(10**9)
                        more = rows_of_file(begin, 3)
                        other.append(more)
                        expected.update(
                            zip(
                                more.column("id").to_pylist(),
                                more.column("x").to_pylist(),
                                strict=True,
                            )
                        )
                    case "update":
                        other.update({"x": "1.5"}, where=f"id = {ids[0]}")
                        if ids[0] in expected:
                            expected[ids[0]] = 1.5

        how = chance.choice(STRATEGIES)
        options = {**ALL, "partial-progress.enabled": chance.random() < 0.5}
        runner = Meanwhile(meanwhile)
        table.refresh().maintenance.rewrite_data_files(**how, options=options, runner=runner)
        found = {r["id"]: r["x"] for r in table.refresh().scan().to_arrow().to_pylist()}
        assert runner.runs >= 1 and repr(sorted(found.items())) == repr(sorted(expected.items())), (
            turn,
            how,
        )


@BY_NAME
def test_equality_deletes_that_come_meanwhile_still_apply(
    catalog: Any, how: dict[str, Any]
) -> None:
    table = table_of(catalog, "t", 2)
    other = catalog.load_table("db.t")
    runner = Meanwhile(lambda: by_equality(other, [5, 77, 230]))
    table.maintenance.rewrite_data_files(**how, options=ALL, runner=runner)
    assert (
        runner.runs == 1
        and not {5, 77, 230} & {r[0] for r in rows(table)}
        and len(rows(table)) == 237
    )
    table.maintenance.rewrite_data_files(**how, options={**ALL, "remove-dangling-deletes": True})
    assert table.inspect.delete_files().num_rows == 0 and len(rows(table)) == 237


def test_without_the_starting_sequence_number_an_equality_delete_is_a_conflict(
    catalog: Any,
) -> None:
    table = table_of(catalog, "t", 2)
    other = catalog.load_table("db.t")
    options = {**ALL, "use-starting-sequence-number": False}
    with pytest.raises(ValidationException, match="found new delete"):
        table.maintenance.rewrite_data_files(
            options=options, runner=Meanwhile(lambda: by_equality(other, [5]))
        )
    assert files_left(table.refresh()) == set() and len(rows(table)) == 239
    table.maintenance.rewrite_data_files(options=options)
    assert len(rows(table)) == 239


def by_equality(table: Table, ids: list[int]) -> None:
    """Delete rows as Flink's upserts do."""
    table.refresh()
    context = WriteContext.of(table.metadata, table._loaded.storage)
    batch = rows_of_file(0, 300).filter(pa.array(np.isin(np.arange(300), ids))).to_batches()
    files = write_equality_deletes(batch, context, [1])
    with TableOperation(table._backend, table._loaded, "t") as operation:
        operation.stage(RowDelta(added_deletes=files))


@pytest.mark.parametrize("how", ["copy-on-write", "whole files", "compaction"])
def test_a_compaction_whose_files_are_gone_is_planned_again_and_else_leaves_nothing(
    catalog: Any, how: str
) -> None:
    table = table_of(catalog, "t", 2)
    other = catalog.load_table("db.t")

    def meanwhile() -> None:
        match how:
            case "copy-on-write":
                other.refresh().delete(f"id = {6 + runner.runs}", mode="copy-on-write")
            case "whole files":
                other.refresh().delete(f"id < {40 * runner.runs}")
            case _:
                other.maintenance.rewrite_data_files(options=ALL, where="id < 80")

    table.update_properties().set("commit.retry.num-retries", "1").commit()
    runner = Meanwhile(meanwhile, times=2)
    with pytest.raises(ValidationException, match=r"Call rewrite_data_files again|are gone"):
        table.maintenance.rewrite_data_files(options=ALL, runner=runner)
    assert runner.runs == 2 and files_left(table.refresh()) == set() and rows(table) == rows(other)
    table.update_properties().remove("commit.retry.num-retries").commit()
    runner = Meanwhile(lambda: other.refresh().delete("id = 100", mode="copy-on-write"))
    result = table.maintenance.rewrite_data_files(options=ALL, runner=runner)
    assert (runner.runs, result.commits, result.failed_data_files_count) == (
        2,
        1,
        0,
    ) and files_left(table.refresh()) == set()
    assert rows(table) == rows(other.refresh())


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize("verb", ["append", "delete", "update", "upsert", "overwrite"])
def test_a_writer_that_commits_after_a_compaction_finds_its_rows(
    tmp_path: Path, verb: str, isolation: str
) -> None:
    catalog = catalog_of("memory", tmp_path)
    table = table_of(catalog, "t", 2)
    other = catalog.load_table("db.t")
    steps: dict[str, Callable[[], object]] = {
        "append": lambda: other.append(rows_of_file(900, 3)),
        "delete": lambda: other.delete("id = 4", isolation_level=isolation),
        "update": lambda: other.update({"s": "'new'"}, where="id = 4", isolation_level=isolation),
        "upsert": lambda: other.upsert(
            rows_of_file(4, 1, seed=9), join_cols=["id"], isolation_level=isolation
        ),
        "overwrite": lambda: other.overwrite(
            rows_of_file(4, 1, seed=9), overwrite_filter="id = 4", isolation_level=isolation
        ),
    }
    table.maintenance.rewrite_data_files(options=ALL)
    try:
        steps[verb]()
    except ValidationException:
        assert verb != "append"  # it names files that are gone
        other.refresh()
        steps[verb]()
    assert len(rows(other.refresh())) == {"append": 243, "delete": 239}.get(verb, 240)


def test_an_unknown_outcome_keeps_the_files(catalog: Any) -> None:
    table = table_of(catalog, "t", 2)
    table.set_properties(
        {"commit.status-check.min-wait-ms": "1", "commit.status-check.max-wait-ms": "1"}
    )
    before = rows(table)
    assert table._backend is not None
    table._backend = FlakyBackend(table._backend, ["applied"], unreachable_loads=99)
    with pytest.raises(CommitStateUnknownException):
        table.maintenance.rewrite_data_files(options=ALL)
    assert files_left(frazil.load_table(table.location())) == set()
    assert rows(frazil.load_table(table.location())) == before


@pytest.mark.parametrize("version", [2, 3])
def test_only_the_group_whose_file_is_gone_is_left_out(catalog: Any, version: int) -> None:
    table = table_of(catalog, "t", version, partition_by=["p"])
    other = catalog.load_table("db.t")

    def meanwhile() -> None:
        other.delete("id = 7", mode="copy-on-write")  # in p1
        other.delete("id in (6, 8)")

    done = table.maintenance.rewrite_data_files(options=ALL, runner=Meanwhile(meanwhile))
    assert (
        done.rewritten_data_files_count,
        done.added_data_files_count,
        done.failed_data_files_count,
    ) == (12, 2, 6)
    assert rows(table) == rows(other) and len(rows(table)) == 237 and files_left(table) == set()
    assert table.inspect.data_files().num_rows == 8
    again = table.maintenance.rewrite_data_files(options=ALL)
    assert (
        again.failed_data_files_count == 0
        and table.inspect.data_files().num_rows == 3
        and rows(table) == rows(other)
    )


def test_parts_of_a_large_file_find_the_rows_that_were_deleted_meanwhile(catalog: Any) -> None:
    table = table_of(catalog, "t", 3, files=0)
    table.set_properties({"write.parquet.row-group-size-bytes": "4096"})
    table.append(rows_of_file(0, 4000))
    table.append(rows_of_file(4000, 1000))
    table.delete("id % 10 = 3")
    size = sum(table.inspect.files().column("file_size_in_bytes").to_pylist())
    other = catalog.load_table("db.t")
    runner = Meanwhile(lambda: other.delete("id % 7 = 1 or id in (0, 3999, 4000, 4999)"))
    done = table.maintenance.rewrite_data_files(
        options={**ALL, "target-file-size-bytes": size // 5}, runner=runner
    )
    assert (
        done.added_data_files_count >= 4
        and rows(table) == rows(other)
        and rows(table, LINEAGE) == rows(other, LINEAGE)
    )
