"""Compaction's work on a group of files: live rows to new files, rows keep their ids, and the
delete files no longer matter.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import frazil
from frazil.codec.metadata_json import encode_metadata
from frazil.commit.actions import RewriteFiles
from frazil.expr.nodes import AlwaysTrue
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.operation import CommitResult
from frazil.ops.target import WriteArguments
from frazil.rows.change import RewriteContext, combined, rewrite_files
from frazil.rows.groups import grouped
from frazil.table.table import Table
from frazil.tasks.attempts import attempts_of
from frazil.tasks.runner import InProcess, Runner
from frazil.testing import FlakyRunner
from tests.builders.files_on_disk import data_files_below
from tests.peers.rowsum import rowsum

LINEAGE = ("_row_id", "_last_updated_sequence_number")


def made(folder: Path, version: int, spec: tuple[str, ...] = ("bucket(2, id)",)) -> Table:
    """Small files with position deletes (vectors on v3), equality deletes, a file of which no row
    is left, and a widened column.
    """
    catalog = frazil.load_catalog("test", type="path", warehouse=str(folder))
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t", "id bigint, n int, s string", partition_by=list(spec), format_version=version
    )
    for n in range(4):
        ids = np.arange(n * 50, n * 50 + 50)
        t.append(
            pa.table({"id": ids, "n": pa.array(ids % 7, pa.int32()), "s": [f"s{i}" for i in ids]})
        )
    t.delete("id % 5 = 2", mode="merge-on-read", runner="in-process")
    t.delete("id >= 50 and id < 100", mode="merge-on-read", runner="in-process")
    t.update({"s": "'new'"}, "id % 11 = 0", mode="merge-on-read", runner="in-process")
    with t.update_schema() as update:
        update.update_column("n", frazil.LongType())
    return t


def rewrite(t: Table, runner: Runner, groups: int = 2) -> CommitResult:
    with t.refresh()._begin() as operation:
        step = operation.step(WriteArguments("delete"), IN_PROCESS, runner)
        plan = step.plan(AlwaysTrue())
        tasks = list(step.tasks(plan))
        context = RewriteContext(step.read_context(plan), step.write_context)
        parts = grouped(tasks, groups, plan.options.split)
        changed = combined(step.run(partial(rewrite_files, context), parts))
        attempts_of(step.write_context, runner).remove_unreported(
            f.file_path for f in changed.added
        )
        assert changed.copied == sum(f.record_count for f in changed.added) and len(
            changed.removed
        ) == len(tasks)
        operation.stage(
            RewriteFiles(
                removed=changed.removed, added=changed.added, starting_snapshot_id=step.start
            )
        )
    return operation.result


def rows(t: Table, *more: str) -> list[dict[str, Any]]:
    return sorted(
        t.refresh().scan(selected_fields=("*", *more)).to_arrow().to_pylist(), key=lambda r: r["id"]
    )


@pytest.mark.parametrize("version", [2, 3])
def test_rows_and_their_ids_stay_and_no_delete_applies_any_more(
    version: int, tmp_path: Path
) -> None:
    t = made(tmp_path, version)
    more = LINEAGE if version == 3 else ()
    before, files = rows(t, *more), len(list(t.scan().plan_files()))
    assert any(task.delete_files for task in t.scan().plan_files())
    result = rewrite(t, InProcess(1))
    assert (result.operation, result.files_removed) == (
        "replace",
        files,
    ) and result.files_added < files
    after = list(t.refresh().scan().plan_files())
    assert (
        rows(t, *more) == before
        and not any(task.delete_files for task in after)
        and len(after) == result.files_added
    )


def test_files_of_which_no_row_is_left_go_and_leave_none(tmp_path: Path) -> None:
    t = made(tmp_path, 2, ())
    t.delete("true", mode="merge-on-read", runner="in-process")
    t.append(pa.table({"id": [1], "n": pa.array([1], pa.int64()), "s": ["a"]}))
    rewrite(t, InProcess(1), groups=9)
    assert [r["id"] for r in rows(t)] == [1] and len(list(t.scan().plan_files())) == 1


def test_groups_that_are_worked_on_twice_or_out_of_order_leave_each_row_once_and_no_file_more(
    tmp_path: Path,
) -> None:
    t = made(tmp_path, 3)
    t.set_properties({"read.split.target-size": "1"})
    before, there = rows(t, *LINEAGE), data_files_below(t)
    runner = FlakyRunner(repeat={0, 2}, seed=1)
    result = rewrite(t, runner)
    assert {fault for fault, _ in runner.fired} == {"repeat", "reorder"}
    assert rows(t, *LINEAGE) == before and len(data_files_below(t) - there) == result.files_added


def test_an_error_in_one_group_leaves_no_new_file_and_the_table_as_it_was(tmp_path: Path) -> None:
    t = made(tmp_path, 2)
    t.set_properties({"read.split.target-size": "1"})
    before, there, runner = rows(t), data_files_below(t), FlakyRunner(kill={1})
    with pytest.raises(Exception, match="killed after its work"):
        rewrite(t, runner)
    assert runner.fired and rows(t) == before and data_files_below(t) == there


@pytest.mark.java
@pytest.mark.parametrize("version", [2, 3])
def test_java_and_pyiceberg_read_rewritten_tables(
    version: int, tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    t = made(tmp_path, version)
    rewrite(t, InProcess(1))
    metadata = json.loads(encode_metadata(t.refresh().metadata))
    want = rowsum(
        t.scan().to_arrow(),
        next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"]),
    )
    for found in (
        java_check([t.location()])[t.location()],
        pyiceberg_check([t.location()])[t.location()],
    ):
        assert found["ok"] and {"rows": found["rows"], "sum": found["sum"]} == want, found
