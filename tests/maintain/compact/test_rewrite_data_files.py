"""Compaction: the same rows in fewer files, whatever the strategy, the format version and the
deletes; Java's options and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import FrazilError, InvalidInput, NoSuchRefError, ValidationException
from frazil.maintain.compact import rewrite
from frazil.table.table import Table
from frazil.tasks.runner import InProcess
from frazil.testing import FlakyRunner, TaskKilled
from tests.builders.catalogs import catalog_of
from tests.maintain.compacting import ALL, LINEAGE, STRATEGIES, rows, rows_of_file, table_of
from tests.spark.deleting import take_positions

BY_NAME = pytest.mark.parametrize(
    "how", STRATEGIES, ids=lambda h: str(h.get("sort_order", h["strategy"]))
)
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def files_on_disk(table: Table) -> set[str]:
    return {
        p.name
        for p in Path(table.location()).joinpath("data").rglob("*")
        if p.is_file() and not p.name.startswith(".")
    }


def files_of_history(table: Table) -> set[str]:
    found = table.inspect.all_files().column("file_path").to_pylist()
    return {Path(f).name for f in found}


@VERSIONS
@BY_NAME
def test_rows_stay_and_files_become_fewer(
    tmp_path: Path, how: dict[str, Any], version: int
) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", version)
    table.delete("id % 10 = 3")
    before, lineage = rows(table), rows(table, LINEAGE) if version == 3 else []
    expected = table.maintenance.rewrite_data_files(**how, options=ALL, dry_run=True)
    done = table.maintenance.rewrite_data_files(**how, options=ALL)
    assert (
        rows(table) == before
        and table.inspect.data_files().num_rows == 1
        and table.inspect.delete_files().num_rows == 0
    )
    assert (done.rewritten_data_files_count, done.added_data_files_count) == (
        6 if version > 1 else expected.rewritten_data_files_count,
        1,
    )
    assert done.to_arrow() == expected.to_arrow()
    assert table.current_snapshot().operation == "replace"
    if version == 3:
        assert rows(table, LINEAGE) == lineage
    assert files_on_disk(table) == files_of_history(table)


def test_nothing_to_do_makes_no_snapshot(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=4)
    head = table.current_snapshot().snapshot_id
    assert table.maintenance.rewrite_data_files().rewritten_data_files_count == 0
    assert table.refresh().current_snapshot().snapshot_id == head
    empty = catalog_of("memory", tmp_path / "e").create_table(
        "db.e", pa.schema([("id", pa.int64())])
    )
    assert empty.maintenance.rewrite_data_files().rewritten_data_files_count == 0


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2)
    files, head = files_on_disk(table), table.metadata_location
    found = table.maintenance.rewrite_data_files(dry_run=True)
    assert found.dry_run and found.rewritten_data_files_count == 6 and found.groups == 1
    assert (files_on_disk(table), table.refresh().metadata_location) == (files, head)


def test_java_takes_five_small_files_or_enough_bytes_for_worth_it(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=5)
    plan = table.maintenance.rewrite_data_files
    size = sum(table.inspect.files().column("file_size_in_bytes").to_pylist())
    assert plan(dry_run=True).rewritten_data_files_count == 5
    assert plan(dry_run=True, options={"min-input-files": 6}).rewritten_data_files_count == 0
    enough = {"min-input-files": 6, "target_file_size_bytes": size - 1}
    assert plan(dry_run=True, options=enough).rewritten_data_files_count == 5
    assert plan(dry_run=True, options={"max-files-to-rewrite": 3}).rewritten_data_files_count == 3
    assert (
        plan(dry_run=True, options={"max-file-group-input-files": 2}).rewritten_data_files_count
        == 0
    )
    assert (
        plan(dry_run=True, options={"max-file-group-input-files": 2, "min-input-files": 2}).groups
        == 2
    )
    assert plan(dry_run=True, where="id >= 160").rewritten_data_files_count == 0
    assert plan(dry_run=True, where="id >= 160", options=ALL).rewritten_data_files_count == 1


def test_five_files_of_which_two_fit_a_target_become_groups_of_two_and_one_stays(
    tmp_path: Path,
) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=0)
    for n in range(5):
        table.append(pa.table({"id": [n] * 5, "p": ["p"] * 5, "x": [1.0] * 5, "s": ["s"] * 5}))
    size = max(table.inspect.files().column("file_size_in_bytes").to_pylist())
    options = {
        "target-file-size-bytes": size * 2,
        "max-file-group-size-bytes": size * 2,
        "min-input-files": 2,
    }
    done = table.maintenance.rewrite_data_files(options=options)
    assert (done.rewritten_data_files_count, done.added_data_files_count, done.groups) == (4, 2, 2)
    assert table.inspect.files().num_rows == 3


def test_deletes_make_a_file_worth_rewriting(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 3, files=1, rows=100)
    large = {
        "target-file-size-bytes": 2000,
        "min-file-size-bytes": 10,
        "max-file-size-bytes": 1 << 20,
    }
    assert table.maintenance.rewrite_data_files(options=large).rewritten_data_files_count == 0
    table.delete("id < 29")
    assert (
        table.maintenance.rewrite_data_files(options=large, dry_run=True).rewritten_data_files_count
        == 0
    )
    assert (
        table.maintenance.rewrite_data_files(
            options={**large, "delete-file-threshold": 1}, dry_run=True
        ).rewritten_data_files_count
        == 1
    )
    table.delete("id < 30")
    done = table.maintenance.rewrite_data_files(options=large)
    assert (done.rewritten_data_files_count, done.removed_delete_files_count) == (1, 1)
    assert len(rows(table)) == 70


@BY_NAME
def test_files_of_partitions_never_mix_and_other_specs_become_the_output_spec(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, files=3, partition_by=["p"])
    with table.update_spec() as update:
        update.remove_field("p").add_field("id", "bucket[2]", "b")
    for n in range(3):
        table.append(rows_of_file(1000 + n * 40, 40))
    table.delete("id % 7 = 0")
    before = rows(table)
    table.maintenance.rewrite_data_files(**how, options=ALL)
    files = table.inspect.files().to_pylist()
    assert rows(table) == before and {f["spec_id"] for f in files} == {1} and len(files) == 4
    table.maintenance.rewrite_data_files(**how, options={**ALL, "output-spec-id": 0})
    assert rows(table) == before and {f["spec_id"] for f in table.inspect.files().to_pylist()} == {
        0
    }
    assert [len(rows(table)) == len(before), table.inspect.files().num_rows] == [True, 3]


@BY_NAME
def test_little_memory_gives_the_same_files_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    def order(memory: int) -> list[Any]:
        monkeypatch.setattr(rewrite, "_sort_memory", lambda *_: memory)
        catalog = catalog_of("memory", tmp_path / str(memory))
        table = table_of(catalog, "t", 2, files=12, rows=300)
        table.delete("id % 11 = 5")
        table.maintenance.rewrite_data_files(**how, options=ALL)
        return table.scan().to_arrow().column("id").to_pylist()

    assert order(8_000) == order(1 << 30)


def test_a_sort_orders_a_whole_group_as_the_table_says(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=4)
    with pytest.raises(InvalidInput, match="without a valid sort order"):
        table.maintenance.rewrite_data_files("sort")
    with table.update_sort_order() as update:
        update.by("s nulls last", "id desc")
    table.maintenance.rewrite_data_files("sort", options=ALL)
    found = table.scan().to_arrow().select(["s", "id"]).to_pylist()
    assert [r["id"] for r in found] == [
        r["id"]
        for r in sorted(found, key=lambda r: (r["s"] is None, (r["s"] or "").encode(), -r["id"]))
    ]
    assert table.inspect.files().column("sort_order_id").to_pylist() == [1]
    table.maintenance.rewrite_data_files("sort", "x", ALL)
    assert table.inspect.files().column("sort_order_id").to_pylist() == [0]


def test_new_files_have_about_the_target_size(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=0)
    for n in range(30):
        table.append(rows_of_file(n * 2000, 2000))
    size = sum(table.inspect.files().column("file_size_in_bytes").to_pylist())
    before = rows(table)
    options = {"target-file-size-bytes": size // 5}
    expected = table.maintenance.rewrite_data_files(options=options, dry_run=True)
    done = table.maintenance.rewrite_data_files(options=options)
    assert (
        rows(table) == before
        and done.to_arrow() == expected.to_arrow()
        and 4 <= done.added_data_files_count <= 6
    )
    one = table.maintenance.rewrite_data_files(options={"target-file-size-bytes": size * 2, **ALL})
    split = table.maintenance.rewrite_data_files(options={"target-file-size-bytes": size // 4})
    assert (one.added_data_files_count, rows(table) == before) == (1, True)
    assert split.rewritten_data_files_count == 1 and split.added_data_files_count >= 1


def test_partial_progress_commits_in_parts_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, files=12, rows=9)
    before = rows(table)
    options = {
        "max-file-group-input-files": 2,
        "min-input-files": 2,
        "partial-progress.enabled": True,
        "partial-progress.max-commits": 3,
    }
    assert table.maintenance.rewrite_data_files(options=options, dry_run=True).commits == 3
    runner = FlakyRunner(kill=[1])
    done = table.maintenance.rewrite_data_files(options=options, runner=runner)
    assert ("kill", 1) in runner.fired and rows(table) == before
    assert (done.commits, done.failed_data_files_count, done.rewritten_data_files_count) == (
        3,
        0,
        12,
    )
    assert files_on_disk(table) == files_of_history(table)


def test_partial_progress_leaves_out_a_group_that_cannot_be_rewritten(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, files=6, rows=9)
    lost = table.inspect.files().column("file_path").to_pylist()[0]
    before = rows(table)
    Path(lost).rename(lost + ".kept")
    options = {
        "max-file-group-input-files": 2,
        "min-input-files": 2,
        "partial-progress.enabled": True,
        "partial-progress.max-commits": 1,
    }
    done = table.maintenance.rewrite_data_files(options=options)
    assert (
        done.failed_data_files_count,
        done.rewritten_data_files_count,
        done.added_data_files_count,
    ) == (2, 4, 2)
    Path(lost + ".kept").rename(lost)
    assert rows(table) == before and files_on_disk(table) == files_of_history(table)


@BY_NAME
def test_killed_and_repeated_tasks_leave_no_files(tmp_path: Path, how: dict[str, Any]) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, files=6, partition_by=["p"])
    before, files = rows(table), files_on_disk(table)
    killed = FlakyRunner(kill=[1])
    with pytest.raises(TaskKilled):
        table.maintenance.rewrite_data_files(**how, options=ALL, runner=killed)
    assert killed.fired == [("kill", 1)] and files_on_disk(table) == files
    again = FlakyRunner(repeat=[0, 2], seed=3)
    table.maintenance.rewrite_data_files(**how, options=ALL, runner=again)
    assert ("repeat", 2) in again.fired and rows(table) == before
    assert files_on_disk(table) == files_of_history(table)


def test_a_branch_is_compacted_alone(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "b").commit()
    table.append(rows_of_file(900, 5), branch="b")
    with pytest.raises(NoSuchRefError):
        table.maintenance.rewrite_data_files(branch="none")
    assert table.maintenance.rewrite_data_files(branch="b").rewritten_data_files_count == 7
    assert table.inspect.files().num_rows == 6 and len(table.scan().use_ref("b").to_arrow()) == 245


def test_dangling_deletes_go_when_asked(tmp_path: Path) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, partition_by=["p"])
    table.delete("id % 10 = 3", delete_granularity="partition")
    before = rows(table)
    assert table.inspect.delete_files().num_rows > 0
    table.maintenance.rewrite_data_files(options=ALL, where="p = 'p1'")
    assert rows(table) == before
    left = table.inspect.delete_files().num_rows
    assert left > 0
    done = table.maintenance.rewrite_data_files(
        options={"remove-dangling-deletes": True}, where="p = 'none'"
    )
    assert 0 < done.removed_delete_files_count < left and rows(table) == before
    assert set(table.inspect.delete_files().column("partition").to_pylist()[0].values()) != {"p1"}


@pytest.mark.parametrize(
    ("options", "strategy", "message"),
    [
        ({"min-input-file": 1}, None, "Did you mean 'min-input-files'"),
        ({"min-input-files": 0}, None, "at least 1"),
        ({"target-file-size-bytes": "1 MB"}, None, "whole number"),
        ({"min-file-size-bytes": 600 << 20}, None, "does not hold"),
        ({"delete-ratio-threshold": 0}, None, "above 0"),
        ({"rewrite-job-order": "size"}, None, "must be one of"),
        ({"rewrite-all": 1}, None, "must be true or false, not 1"),
        ({"compression-factor": 2}, None, "means nothing to binpack"),
        (
            {"max-output-size": 8},
            "sort",
            "means nothing to sort. Leave it out: it belongs to zorder",
        ),
        ({"output-spec-id": 7}, None, "7"),
        ({"rewrite_all": True, "rewrite-all": False}, None, "given twice"),
        ({}, "cluster", "unsupported strategy"),
    ],
)
def test_options_that_java_refuses_are_refused_by_name(
    tmp_path: Path, options: Any, strategy: Any, message: str
) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=1)
    with pytest.raises(InvalidInput, match=message):
        table.maintenance.rewrite_data_files(
            strategy, "id" if strategy == "sort" else None, options
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "binpack", "sort_order": "id"}, "only one rewriter"),
        ({"strategy": "hilbert", "sort_order": "zorder(id, x)"}, "contradict"),
        ({"strategy": "sort", "sort_order": "id, zorder(x, s)"}, "Cannot mix"),
        ({"strategy": "zorder"}, "no columns"),
        ({"strategy": "zorder", "sort_order": "nope"}, "nope"),
        ({"sort_order": "zorder(p)"}, "identity partition"),
    ],
)
def test_orders_that_java_refuses_are_refused(tmp_path: Path, arguments: Any, message: str) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=1, partition_by=["p"])
    with pytest.raises((InvalidInput, ValidationException), match=message):
        table.maintenance.rewrite_data_files(**arguments)


def test_the_result_lists_the_files_that_went_and_came(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2)
    before = set(table.inspect.files().column("file_path").to_pylist())
    planned = table.maintenance.rewrite_data_files(options=ALL, dry_run=True)
    done = table.maintenance.rewrite_data_files(options=ALL)
    after = set(table.inspect.files().column("file_path").to_pylist())
    assert (
        set(done.removed_files) == set(planned.removed_files) == before
        and len(done.removed_files) == 6
    )
    assert (
        set(done.added_files) == after and planned.added_files == () and len(done.added_files) == 1
    )
    assert "removed_files" not in repr(done) and done.to_arrow().num_columns == 5


def test_a_dry_run_knows_which_groups_leave_no_file(tmp_path: Path) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 3, files=2, partition_by=["p"])
    take_positions(table, lambda row: row["p"] == "p1")
    assert table.inspect.data_files().num_rows == 6 and {r[1] for r in rows(table)} == {"p0", "p2"}
    planned = table.maintenance.rewrite_data_files(options=ALL, dry_run=True)
    done = table.maintenance.rewrite_data_files(options=ALL)
    assert planned.added_data_files_count == done.added_data_files_count == 2
    assert table.inspect.data_files().num_rows == 2


@dataclass
class Counting:
    """A runner that notes how many tasks it is given at once."""

    parallelism: int
    given: list[int] = field(default_factory=list)
    repeats: bool = False
    linger: float = 0.0

    def run(self, work: Callable[[Any], Any], groups: Sequence[Any]) -> Iterator[Any]:
        self.given.append(len(groups))
        return InProcess(1).run(work, groups)


@pytest.mark.parametrize("how", [{"strategy": "sort", "sort_order": "id"}, {}])
def test_partial_progress_keeps_all_slots_busy(tmp_path: Path, how: dict[str, Any]) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=10)
    before = rows(table)
    options = {
        **ALL,
        "max-file-group-input-files": 1,
        "partial-progress.enabled": True,
        "partial-progress.max-commits": 5,
    }
    runner = Counting(4)
    done = table.maintenance.rewrite_data_files(**how, options=options, runner=runner)
    assert (
        runner.given == [4, 4, 2]
        and (done.groups, done.commits) == (10, 5)
        and rows(table) == before
    )
    assert len(table.refresh().snapshots()) == 15


def test_a_group_that_fails_among_those_of_several_commits_is_left_out_alone(
    tmp_path: Path,
) -> None:
    table = table_of(catalog_of("memory", tmp_path), "t", 2, files=6)
    before = rows(table)
    broken = table.inspect.files().column("file_path").to_pylist()[2]
    contents = table._loaded.storage.read(broken)
    table._loaded.storage.write(broken, b"no parquet", overwrite=True)
    options = {**ALL, "max-file-group-input-files": 1, "partial-progress.enabled": True}
    done = table.maintenance.rewrite_data_files(options=options, runner=Counting(4))
    assert (
        done.rewritten_data_files_count,
        done.failed_data_files_count,
        done.commits,
        done.failed_commits,
    ) == (5, 1, 5, 1)
    assert broken in table.refresh().inspect.files().column("file_path").to_pylist()
    table._loaded.storage.write(broken, contents, overwrite=True)
    assert rows(table) == before


@pytest.mark.parametrize(("commits", "allowed"), [(10, 1), (10, 0), (2, 0), (1, 0)])
def test_a_commit_of_which_every_group_fails_counts_against_the_failures_that_are_allowed(
    tmp_path: Path, commits: int, allowed: int
) -> None:
    table = table_of(catalog_of("path", tmp_path), "t", 2, files=6)
    before = rows(table)
    lost = table.inspect.files().column("file_path").to_pylist()[0]
    Path(lost).rename(lost + ".kept")
    options = {
        **ALL,
        "max-file-group-input-files": 1,
        "partial-progress.enabled": True,
        "partial-progress.max-commits": commits,
        "partial-progress.max-failed-commits": allowed,
    }
    if commits == 10 and not allowed:
        with pytest.raises(
            FrazilError,
            match="1 rewrite commits failed. This is more than the maximum allowed failures of 0",
        ):
            table.maintenance.rewrite_data_files(options=options)
    else:
        done = table.maintenance.rewrite_data_files(options=options)
        assert (done.rewritten_data_files_count, done.failed_data_files_count) == (5, 1)
        assert (done.commits, done.failed_commits) == (5, 1) if commits == 10 else (commits, 0)
    Path(lost + ".kept").rename(lost)
    assert rows(table.refresh()) == before and files_on_disk(table) == files_of_history(table)
