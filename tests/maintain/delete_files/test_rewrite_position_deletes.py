"""Position delete files are packed, those of files that are gone are dropped, and in version 3 they
become vectors; rows stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.commit.actions import Append, RewriteFiles
from frazil.commit.table_commit import commit
from frazil.errors import InvalidInput
from frazil.spec.manifest import DataFile
from frazil.testing import FlakyRunner
from tests.builders.examples import sampled
from tests.builders.files_on_disk import data_files_below, leftovers
from tests.golden import names
from tests.maintain.deletes import (
    PARTS,
    append,
    by_keys,
    by_position,
    delete_files,
    filled,
    ids,
    made,
    rows,
    sum_of,
)
from tests.peers.rowsum import rowsum

ALL = {"rewrite-all": "true"}
PACKED = {"write__delete__granularity": "partition"}


def rewrite(t: Any, options: Any = None, **more: Any) -> Any:
    return t.maintenance.rewrite_position_delete_files(options=options, runner="in-process", **more)


def counts(result: Any) -> tuple[int, int]:
    return result.rewritten_delete_files_count, result.added_delete_files_count


def upgraded(folder: Path, **more: str) -> Any:
    """A table of version 3 with position delete files of version 2, some of them of several data
    files, and two vectors.
    """
    t = filled(made(folder, 2, **more), 4)
    by_position(t, [0, 41, 82, 123], "partition")
    by_position(t, [1, 42], "file")
    by_position(t, [2, 43, 84], "partition")
    with t.transaction() as change:
        change.upgrade_table_version(3)
    # two vectors, which hold the older deletes too
    t.delete("id in (80, 81, 120)", mode="merge-on-read", runner="in-process")
    return t


@pytest.fixture
def t(tmp_path: Path) -> Any:
    return filled(made(tmp_path, 2, ("p",), **PACKED))


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_small_files_become_few_with_the_rows_as_they_were(
    granularity: str, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, 2, write__delete__granularity=granularity))
    for n in range(6):
        by_position(t, [n, 41 + n, 90 + n], granularity)
    before, old = rows(t), t.refresh().inspect.delete_files().to_pylist()
    head = t.current_snapshot().sequence_number
    result = rewrite(t)
    new = t.refresh().inspect.delete_files().to_pylist()
    assert rows(t) == before and counts(result) == (len(old), len(new)) == (
        len(old),
        3 if granularity == "file" else 1,
    )
    assert result.rewritten_bytes_count == sum(f["file_size_in_bytes"] for f in old)
    assert result.added_bytes_count == sum(f["file_size_in_bytes"] for f in new)
    assert t.current_snapshot().summary["operation"] == "replace" and not leftovers(t)
    entries = [
        e
        for e in t.inspect.entries().to_pylist()
        if e["data_file"]["content"] == 1 and e["status"] != 2
    ]
    # the largest of the old ones, not that of the new snapshot
    assert {e["sequence_number"] for e in entries} == {head}
    assert set(result.to_arrow().column_names) == {
        "rewritten_delete_files_count",
        "added_delete_files_count",
        "rewritten_bytes_count",
        "added_bytes_count",
    }


def test_nothing_to_do_makes_no_snapshot_also_when_called_again(tmp_path: Path) -> None:
    t = made(tmp_path, 2)
    assert counts(rewrite(t)) == (0, 0)
    filled(t, 7)
    by_position(t, [1])
    head = t.current_snapshot().snapshot_id
    assert counts(rewrite(t)) == (0, 0) and t.refresh().current_snapshot().snapshot_id == head
    by_position(t, range(0, 280, 40))
    by_position(t, range(3, 280, 40))
    assert counts(rewrite(t)) == (15, 7)
    head = t.refresh().current_snapshot().snapshot_id
    assert counts(rewrite(t)) == (0, 0) and t.refresh().current_snapshot().snapshot_id == head
    assert counts(rewrite(t, ALL)) == (7, 7)


def test_a_table_of_version_1_has_none(tmp_path: Path) -> None:
    assert counts(rewrite(filled(made(tmp_path, 1)), ALL)) == (0, 0)


def removed(t: Any, chosen: Callable[[dict[str, Any]], bool]) -> list[DataFile]:
    """Takes the data files out of the table that hold such rows, as compaction takes them, and
    returns them.
    """
    paths = {
        r["_file"]
        for r in t.scan(selected_fields=("*", "_file")).to_arrow().to_pylist()
        if chosen(r)
    }
    files = [task.file for task in t.scan().plan_files() if task.file.file_path in paths]
    commit(
        t._writable(),
        t.refresh()._loaded,
        [RewriteFiles(removed=files, starting_snapshot_id=t.current_snapshot().snapshot_id)],
    )
    t.refresh()
    return files


def test_deletes_of_files_that_are_gone_are_dropped(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2, **PACKED))
    by_position(t, [1, 41, 81], "partition")
    by_position(t, [3, 44], "partition")
    removed(t, lambda r: r["id"] < 80)
    assert ids(t) == [i for i in range(80, 120) if i != 81] and delete_files(t) == {"position": 2}
    assert counts(rewrite(t, ALL)) == (2, 1) and ids(t) == [i for i in range(80, 120) if i != 81]
    (left,) = t.refresh().inspect.delete_files().to_pylist()
    assert left["record_count"] == 1


def test_delete_files_that_apply_to_nothing_go_whatever_their_size(t: Any) -> None:
    by_position(t, [0, 42, 1, 43], "partition")  # a file in partition a, one in b
    removed(t, lambda r: r["p"] == "a")
    before, dry = rows(t), rewrite(t, dry_run=True)
    result = rewrite(t)
    assert (
        counts(result) == counts(dry) == (1, 0)
        and delete_files(t) == {"position": 1}
        and rows(t) == before
    )


def test_deletes_older_than_a_file_of_the_same_path_stay_without_effect(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2, **PACKED), 2)
    by_position(t, [1, 41], "partition")
    (file,) = removed(t, lambda r: r["id"] < 40)
    commit(t._writable(), t._loaded, [Append([file])])
    assert ids(t) == [i for i in range(80) if i != 41]  # it is younger than the delete now
    by_position(t, [2, 42], "partition")
    assert counts(rewrite(t, ALL)) == (2, 1) and ids(t) == [
        i for i in range(80) if i not in (2, 41, 42)
    ]


def test_groups_are_of_one_partition_and_where_chooses_partitions(t: Any) -> None:
    for n in range(5):
        by_position(t, [n * 3, n * 3 + 1], "partition")  # in partitions a and b
    before = rows(t)
    result = rewrite(t, where="p = 'a'")
    assert counts(result) == (5, 1) and rows(t) == before and delete_files(t) == {"position": 6}
    assert counts(rewrite(t)) == (5, 1) and rows(t) == before
    assert {f["partition"]["p"] for f in t.refresh().inspect.delete_files().to_pylist()} == set(
        PARTS[:2]
    )


def test_options_are_javas(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2, **PACKED))
    for n in range(4):
        by_position(t, [n, 50 + n], "partition")
    size = t.refresh().inspect.delete_files()["file_size_in_bytes"][0].as_py()
    assert counts(rewrite(t)) == (0, 0)  # fewer than min-input-files
    just = {
        "target-file-size-bytes": size,
        "min-file-size-bytes": size - 500,
        "max-file-size-bytes": size + 500,
    }
    assert counts(rewrite(t, {**just, "min-input-files": 2}, dry_run=True)) == (0, 0)
    assert counts(rewrite(t, {"min-input-files": 4}, dry_run=True)) == (4, 1)
    assert counts(
        rewrite(t, {**ALL, "max-file-group-size-bytes": size * 2 + 1000}, dry_run=True)
    ) == (4, 2)
    assert counts(rewrite(t, {**ALL, "max_file_group_input_files": 3}, dry_run=True)) == (4, 2)
    assert counts(
        rewrite(
            t, {**ALL, "max-concurrent-file-group-rewrites": "1", "rewrite-job-order": "bytes-desc"}
        )
    ) == (4, 1)
    wrong = [
        {"delete-file-threshold": 1},
        {"rewrite-all": "yes"},
        {"min-input-files": 0},
        {"rewrite-job-order": "random"},
        {"target-file-size-bytes": 10, "max-file-size-bytes": 5},
        {"partial-progress.max-commits": "0"},
    ]
    for options in wrong:
        with pytest.raises(InvalidInput):
            rewrite(t, options)


def test_small_memory_merges_in_several_runs_over_the_delete_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = filled(made(tmp_path, 2, **PACKED), 5)
    for n in range(5):
        by_position(t, range(n, 200, 10), "partition")
    before = rows(t)
    monkeypatch.setattr(
        "frazil.maintain.position_deletes.rewrite_position_delete_files._POSITION_BYTES", 1 << 24
    )
    result = rewrite(t)
    assert counts(result) == (5, 5) and rows(t) == before and not leftovers(t)


@pytest.mark.parametrize("more", [{}, {"write__delete__granularity": "partition"}])
def test_in_version_3_leftovers_become_one_vector_per_data_file(
    more: dict[str, str], tmp_path: Path
) -> None:
    t = upgraded(tmp_path, **more)
    before = rows(t)
    assert delete_files(t) == {"position": 4, "vector": 2}
    dry = rewrite(t, dry_run=True)
    result = rewrite(t)
    assert (
        rows(t) == before
        and delete_files(t) == {"vector": 4}
        and counts(result) == counts(dry) == (4, 2)
    )
    assert dry.added_bytes_count == result.added_bytes_count and not leftovers(t)
    assert t.current_snapshot().summary["operation"] == "replace"
    assert counts(rewrite(t, ALL)) == (0, 0)


def test_in_version_3_options_about_sizes_count_when_given(tmp_path: Path) -> None:
    t = upgraded(tmp_path)
    assert counts(rewrite(t, {"min-input-files": "20"})) == (0, 0)
    assert counts(rewrite(t, {"min-input-files": "2"})) == (4, 2)


def test_partial_progress_commits_each_batch_and_goes_on_after_a_failure(t: Any) -> None:
    for n in range(5):
        by_position(t, [n * 3, n * 3 + 1, n * 3 + 2], "partition")
    before, count = rows(t), len(t.refresh().snapshots())
    killer = FlakyRunner(kill={0})
    calls = iter([killer, FlakyRunner(), FlakyRunner()])

    class Second(FlakyRunner):
        def run(self, work: Any, groups: Any) -> Any:
            return next(calls).run(work, groups)

    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": 3}
    result = t.maintenance.rewrite_position_delete_files(options=options, runner=Second())
    assert killer.fired and counts(result) == (10, 2) and result.failed_delete_files_count == 5
    assert rows(t) == before and len(t.refresh().snapshots()) == count + 2 and not leftovers(t)


def test_groups_that_run_twice_leave_no_file_more_and_killed_ones_none(t: Any) -> None:
    for n in range(5):
        by_position(t, [n * 3, n * 3 + 1, n * 3 + 2], "partition")
    before, there = rows(t), data_files_below(t)
    with pytest.raises(Exception, match="killed after its work"):
        t.maintenance.rewrite_position_delete_files(runner=FlakyRunner(kill={1}))
    assert data_files_below(t) == there and rows(t) == before
    runner = FlakyRunner(repeat={0, 2}, seed=1)
    assert counts(t.maintenance.rewrite_position_delete_files(runner=runner)) == (15, 3)
    assert (
        {"repeat"} <= {fault for fault, _ in runner.fired}
        and rows(t) == before
        and not leftovers(t)
    )


def test_equality_deletes_are_left_alone(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2))
    by_keys(t, [5, 45])
    by_position(t, [1, 41])
    append(t, [5])
    before = rows(t)
    assert (
        counts(rewrite(t, ALL)) == (2, 2)
        and rows(t) == before
        and delete_files(t) == {"equality": 1, "position": 2}
    )


@pytest.mark.parametrize(
    "name", sampled([x for x in names(deletes=True) if x != "metadata_variants"], 3)
)
def test_golden_tables_keep_their_rows(name: str, golden: Any, writable_copy: Any) -> None:
    t = frazil.load_table(writable_copy(name))
    want = {"rows": golden[name].expected["rows"], "sum": golden[name].expected["checksum"]}
    dry = rewrite(t, ALL, dry_run=True)
    result = rewrite(t, ALL)
    assert rowsum(t.refresh().scan().to_arrow(), golden[name].expected["schema"]) == want
    assert counts(dry) == counts(result) and dry.added_bytes_count == result.added_bytes_count
    if t.format_version >= 3:
        assert "position" not in delete_files(t)


@pytest.mark.java
@pytest.mark.parametrize("version", [2, 3])
def test_java_and_pyiceberg_read_what_is_left(
    version: int, tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    t = upgraded(tmp_path) if version == 3 else filled(made(tmp_path, 2, ("p",)))
    by_position(t, [10, 11, 50])
    rewrite(t, ALL)
    want = sum_of(t)
    for found in (
        java_check([t.location()])[t.location()],
        pyiceberg_check([t.location()])[t.location()],
    ):
        assert found["ok"] and {"rows": found["rows"], "sum": found["sum"]} == want, found


JAVA = """
import json
rows = {}
for name in sys.argv[3:]:
    table = f"j.db.{name}"
    [told] = spark.sql(f"call j.system.rewrite_position_delete_files(table => 'db.{name}', options => map('rewrite-all', 'true'))").collect()
    rows[name] = [told.asDict(), sorted(r[0] for r in spark.sql(f"select id from {table}").collect())]
print("RESULT" + json.dumps(rows))
"""


@pytest.mark.java
def test_javas_procedure_runs_after_ours_and_ours_after_javas(
    tmp_path: Path, java_check: Any
) -> None:
    tables, want = {}, {}
    for name, granularity, before in (
        ("first", "partition", True),
        ("second", "partition", False),
        ("third", "file", False),
    ):
        t = filled(made(tmp_path, 2, ("p",), name=name, write__delete__granularity=granularity))
        for n in range(3):
            by_position(t, [3 * n, 3 * n + 1, 41 + 3 * n], granularity)
        if before:
            assert counts(rewrite(t, ALL))[1] == 3
        tables[name], want[name] = t, (ids(t), counts(rewrite(t, ALL, dry_run=True)))
    said = java_check.run(JAVA, tmp_path / "wh", *tables, timeout=900)
    java = json.loads(said.partition("RESULT")[2].splitlines()[0])
    for name, t in tables.items():
        told, there = java[name]
        assert there == want[name][0] == ids(t), name
        assert (told["rewritten_delete_files_count"], told["added_delete_files_count"]) == want[
            name
        ][1], name
        done = rewrite(t, ALL)
        assert ids(t) == there and set(told) == set(done.to_arrow().column_names), name
