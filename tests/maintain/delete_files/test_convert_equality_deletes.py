"""Equality deletes become position deletes or vectors for exactly the rows that they delete, and go
where nothing needs them any more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.deletes.key_set import SpilledKeys
from frazil.arrow.read.read_context import ReadOptions
from frazil.errors import InvalidInput
from frazil.table.table import Table
from frazil.testing import FlakyRunner
from tests.builders.examples import sampled
from tests.builders.files_on_disk import data_files_below, leftovers
from tests.golden import names
from tests.maintain.deletes import (
    append,
    by_bounded_keys,
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

VERSIONS = pytest.mark.parametrize("version", [2, 3])
LINEAGE = ("_row_id", "_last_updated_sequence_number")
KIND = {2: "position", 3: "vector"}


def convert(t: Table, where: Any = None, **more: Any) -> Any:
    return t.maintenance.convert_equality_deletes(where, runner="in-process", **more)


@VERSIONS
def test_rows_stay_and_no_equality_delete_is_left(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version))
    by_keys(t, range(0, 100, 7))
    append(t, [0, 7])  # keys that come again are not deleted by older deletes
    by_keys(t, [5, 1], columns=("n", "p"))
    by_position(t, [3, 44])
    before = rows(t, *(LINEAGE if version == 3 else ()))
    count = t.scan(selected_fields=("id",)).to_arrow().num_rows
    result = convert(t)
    assert rows(t, *(LINEAGE if version == 3 else ())) == before
    assert (
        delete_files(t) == {KIND[version]: 3} and result.converted_equality_delete_files_count == 2
    )
    assert result.added_delete_files_count == 3 and result.rewritten_delete_files_count == 2
    assert (
        result.deleted_rows_count == 122 - 2 - count
        and result.remaining_equality_delete_files_count == 0
    )
    summary = t.current_snapshot().summary
    assert (summary["operation"], summary["removed-equality-delete-files"]) == ("overwrite", "2")
    assert t.changes(
        start_snapshot_id=t.snapshots()[-2].snapshot_id
    ).to_arrow().num_rows == 0 and not leftovers(t)


@VERSIONS
def test_nothing_to_do_makes_no_snapshot(version: int, tmp_path: Path) -> None:
    t = made(tmp_path, version)
    assert convert(t).converted_equality_delete_files_count == 0 and t.current_snapshot() is None
    filled(t)
    by_position(t, [1, 2])
    head = t.current_snapshot().snapshot_id
    result = convert(t)
    assert t.refresh().current_snapshot().snapshot_id == head and repr(result).startswith(
        "ConvertEqualityDeletesResult(done"
    )
    assert result.added_delete_files_count == result.converted_equality_delete_files_count == 0
    by_keys(t, [4])
    convert(t)
    head = t.current_snapshot().snapshot_id
    convert(t)
    assert t.refresh().current_snapshot().snapshot_id == head


def test_a_table_of_version_1_has_none(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 1))
    assert (
        convert(t).converted_equality_delete_files_count == 0 and len(t.refresh().snapshots()) == 3
    )


@VERSIONS
def test_a_dry_run_tells_the_numbers_of_the_real_run_and_writes_nothing(
    version: int, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, version, ("p",)))
    by_position(t, [1, 5])
    by_keys(t, range(0, 120, 3), partition=("a",))
    by_keys(t, range(1, 60, 6), partition=("b",))
    there, head = data_files_below(t), t.current_snapshot().snapshot_id
    dry = convert(t, dry_run=True)
    assert (data_files_below(t), t.refresh().current_snapshot().snapshot_id) == (
        there,
        head,
    ) and dry.dry_run
    real = convert(t)
    named = {k: v for k, v in real.to_dict().items() if k not in ("dry_run", "seconds")}
    assert (
        named == {k: v for k, v in dry.to_dict().items() if k not in ("dry_run", "seconds")}
        and real.added_bytes_count > 0
    )


@VERSIONS
def test_equality_deletes_that_apply_to_nothing_just_go(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version, ("p",)), 1)
    by_keys(t, [5000], partition=("a",))  # beyond the bounds of every file
    by_keys(t, [1], partition=("zz",))
    append(t, [900])
    result = convert(t)
    assert (result.converted_equality_delete_files_count, result.added_delete_files_count) == (2, 0)
    assert (
        t.current_snapshot().summary["operation"] == "replace"
        and delete_files(t) == {}
        and len(ids(t)) == 41
    )


@VERSIONS
def test_deletes_of_a_table_without_data_go(version: int, tmp_path: Path) -> None:
    t = made(tmp_path, version)
    by_keys(t, [1])
    assert convert(t).converted_equality_delete_files_count == 1 and delete_files(t) == {}


@VERSIONS
def test_a_data_file_without_a_row_left_is_removed(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version), 2)
    by_position(t, range(10))
    by_keys(t, range(5, 45))
    before = rows(t)
    result = convert(t)
    assert (
        result.removed_data_files_count == 1
        and rows(t) == before
        and len(list(t.scan().plan_files())) == 1
    )
    assert delete_files(t) == {KIND[version]: 1}


@VERSIONS
def test_where_limits_the_work_and_keeps_what_others_need(version: int, tmp_path: Path) -> None:
    t = filled(made(tmp_path, version), 3)  # ids 0-39, 40-79, 80-119, a file each
    by_bounded_keys(t, [1, 41, 81])
    by_bounded_keys(t, [2, 3])
    before = rows(t)
    result = convert(t, "id < 40")
    assert (
        result.converted_equality_delete_files_count,
        result.remaining_equality_delete_files_count,
    ) == (1, 1)
    assert (
        result.deleted_rows_count == 3
        and rows(t) == before
        and delete_files(t) == {"equality": 1, KIND[version]: 1}
    )
    head = t.current_snapshot().snapshot_id
    again = convert(t, "id < 40")
    assert again.deleted_rows_count == 0 and t.refresh().current_snapshot().snapshot_id == head
    # manifests do not tell that the file of ids below 40 is done, so this looks at all of them
    convert(t)
    assert rows(t) == before and delete_files(t) == {KIND[version]: 3}


def test_partition_granularity_writes_few_files_and_keeps_old_ones(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2, write__delete__granularity="partition"))
    by_position(t, [0, 41, 82], "partition")
    by_keys(t, range(0, 120, 4))
    before = rows(t)
    result = convert(t)
    assert rows(t) == before and (
        result.added_delete_files_count,
        result.rewritten_delete_files_count,
    ) == (1, 0)
    assert delete_files(t) == {"position": 2}


def test_a_branch_is_converted_alone(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 3))
    by_keys(t, [1, 2])
    t.manage_snapshots().create_branch(t.current_snapshot().snapshot_id, "b").commit()
    result = convert(t, branch="b")
    assert result.converted_equality_delete_files_count == 1 and delete_files(t) == {"equality": 1}
    assert t.refresh().scan(branch="b").to_arrow().num_rows == 118 == len(ids(t))
    with pytest.raises(InvalidInput, match="no branch 'c'"):
        convert(t, branch="c")


def test_a_changed_key_column_still_says_what_is_deleted(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 3))
    by_keys(t, [3], columns=("n",))
    with t.update_schema() as update:
        update.update_column("n", frazil.LongType())
        update.rename_column("n", "m")
    with t.update_schema() as update:
        update.delete_column("m")
    before = rows(t)
    result = convert(t)
    assert (
        rows(t) == before
        and result.deleted_rows_count == 120 - len(before) > 0
        and "equality" not in delete_files(t)
    )


@VERSIONS
def test_large_key_sets_go_to_disk_and_give_the_same(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = filled(made(tmp_path, version))
    by_keys(t, range(0, 120, 2))
    sizes: list[int] = []
    of = SpilledKeys.of

    def spilled(batches: Any, size: int) -> SpilledKeys:
        sizes.append(size)
        return of(batches, size)

    with monkeypatch.context() as patch:
        patch.setattr(SpilledKeys, "of", spilled)
        patch.setattr(
            ReadOptions.__init__, "__defaults__", (*ReadOptions.__init__.__defaults__[:-1], 100)
        )  # type: ignore[misc, index]
        assert convert(t).deleted_rows_count == 60 and sizes
    assert ids(t) == list(range(1, 120, 2))


@VERSIONS
def test_groups_that_run_twice_or_out_of_order_leave_each_deletion_once(
    version: int, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, version, read__split__target_size="1"), 6)
    by_keys(t, range(0, 240, 5))
    before, runner = rows(t), FlakyRunner(repeat={0, 3}, seed=1)
    result = t.maintenance.convert_equality_deletes(runner=runner)
    assert {fault for fault, _ in runner.fired} == {"repeat", "reorder"} and rows(t) == before
    assert result.added_delete_files_count == 6 and not leftovers(t)


@VERSIONS
def test_a_killed_group_leaves_the_table_and_its_files_as_they_were(
    version: int, tmp_path: Path
) -> None:
    t = filled(made(tmp_path, version, read__split__target_size="1"), 4)
    by_keys(t, range(0, 160, 5))
    before, there, runner = rows(t), data_files_below(t), FlakyRunner(kill={2})
    with pytest.raises(Exception, match="killed after its work"):
        t.maintenance.convert_equality_deletes(runner=runner)
    assert (
        runner.fired
        and rows(t) == before
        and data_files_below(t) == there
        and delete_files(t) == {"equality": 1}
    )


EQUALITY = [
    x for x in names(deletes=True) if not x.startswith(("dv_", "pos_", "metadata", "rewritten"))
]


@pytest.mark.parametrize("name", sampled(EQUALITY, 3))
def test_golden_tables_keep_their_rows(name: str, golden: Any, writable_copy: Any) -> None:
    t = frazil.load_table(writable_copy(name))
    want = {"rows": golden[name].expected["rows"], "sum": golden[name].expected["checksum"]}
    refs = [r for r, ref in t.metadata.refs.items() if ref.is_branch]
    others = {r: sorted(map(repr, t.scan(branch=r).to_arrow().to_pylist())) for r in refs}
    dry = convert(t, dry_run=True)
    result = convert(t)
    assert rowsum(t.refresh().scan().to_arrow(), golden[name].expected["schema"]) == want
    assert "equality" not in delete_files(t) and not leftovers_of_ours(t)
    assert (dry.added_delete_files_count, dry.deleted_rows_count) == (
        result.added_delete_files_count,
        result.deleted_rows_count,
    )
    for r in refs:
        convert(t, branch=r)
        assert sorted(map(repr, t.refresh().scan(branch=r).to_arrow().to_pylist())) == others[r]


def leftovers_of_ours(t: Table) -> list[str]:
    return [
        p
        for p in leftovers(t)
        if "/data/" in p and p.startswith(t.location().removeprefix("file://"))
    ]


def test_a_progress_callback_counts_data_files(tmp_path: Path) -> None:
    t = filled(made(tmp_path, 2))
    by_keys(t, [1, 50, 100])
    calls: list[tuple[Any, ...]] = []
    convert(t, progress=lambda *a: calls.append(a))
    assert calls[-1][:2] == (3, 3)


@pytest.mark.java
@pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.soak)])
@VERSIONS
def test_java_and_pyiceberg_read_what_is_left(
    version: int, goes_on: bool, tmp_path: Path, java_check: Any, pyiceberg_check: Any
) -> None:
    t = filled(made(tmp_path, version, ("p",)))
    by_position(t, [1, 5])
    by_keys(t, range(0, 120, 3), partition=("a",))
    t.append(pa.table({"id": [3], "p": ["a"], "n": pa.array([1], pa.int32())}))
    convert(t)
    want = sum_of(t)
    for found in (
        java_check([t.location()], write=goes_on)[t.location()],
        pyiceberg_check([t.location()])[t.location()],
    ):
        assert found["ok"] and {"rows": found["rows"], "sum": found["sum"]} == want, found


JAVA = """
import json
told = {}
for name in sys.argv[3:]:
    ids = lambda: sorted(r[0] for r in spark.sql(f"select id from j.db.{name}").collect())
    steps = [ids()]
    for call in (
        "rewrite_position_delete_files(table => 'db.{}', options => map('rewrite-all', 'true'))",
        "rewrite_data_files(table => 'db.{}', options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))",
    ):
        [counts] = spark.sql("call j.system." + call.format(name)).collect()
        steps.append([counts.asDict(), ids()])
    told[name] = steps
print(json.dumps(told))
"""


@pytest.mark.java
def test_both_rewrites_of_java_run_after_the_conversion(tmp_path: Path, java_check: Any) -> None:
    tables = {}
    for version in (2, 3):
        t = filled(made(tmp_path, version, ("p",), name=f"t{version}"), 2)
        by_position(t, [1, 5])
        by_keys(t, range(0, 80, 3), partition=("a",))
        assert convert(t).converted_equality_delete_files_count == 1
        tables[t.name()[-1]] = t, ids(t)
    told = json.loads(java_check.run(JAVA, tmp_path / "wh", *tables).strip().splitlines()[-1])
    for name, (t, wanted) in tables.items():
        before, (packed, after), (compacted, last) = told[name]
        assert before == after == last == wanted == ids(t), name
        assert packed["rewritten_delete_files_count"] > 0 or t.format_version == 3
        assert compacted["rewritten_data_files_count"] > 2 and delete_files(t) == {}
