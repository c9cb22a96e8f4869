"""`txn=(id, number)`: a write is done once however often it is sent, whatever became of the
snapshot that it made.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.commit.actions import MetadataChange
from frazil.commit.done_once import mark_name
from frazil.errors import CommitStateUnknownException, InvalidInput, ValidationError
from frazil.spec.updates import RemoveSnapshots
from frazil.table.table import Table
from frazil.testing import FlakyBackend
from tests.builders.catalogs import catalog_of
from tests.builders.examples import examples
from tests.builders.files_on_disk import data_files_below
from tests.builders.frames import ids

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = catalog_of("path", tmp_path).create_table(
        "db.t", "id bigint not null, s string", identifier_fields=["id"]
    )
    made.append(ROWS)
    return made


def expire(t: Table, *kept: int) -> None:
    """Expiry as an engine does it that knows nothing of marks: the snapshots leave the metadata."""
    gone = [s.snapshot_id for s in t.refresh().snapshots() if s.snapshot_id not in kept]
    t._change(lambda _: MetadataChange(lambda m: (RemoveSnapshots(tuple(gone)),)))
    assert gone and not set(gone) & {s.snapshot_id for s in t.refresh().snapshots()}


def more(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "s": ["new"]})


def parquet_file(folder: Path, name: str) -> str:
    """A file of one row, which no table has yet under this name."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        pq.write_table(more(3), path)
    return str(path)


VERBS: dict[str, Callable[[Table, Path, dict[str, Any]], Any]] = {
    "append": lambda t, _, k: t.append(more(3), **k),
    "overwrite": lambda t, _, k: t.overwrite(more(3), "id = 1", **k),
    "dynamic_partition_overwrite": lambda t, _, k: t.dynamic_partition_overwrite(more(3), **k),
    "delete": lambda t, _, k: t.delete("id = 1", runner="in-process", **k),
    "update": lambda t, _, k: t.update({"id": "id + 10"}, runner="in-process", **k),
    "upsert": lambda t, _, k: t.upsert(more(2), runner="in-process", **k),
    "merge": lambda t, _, k: (
        t.merge(more(3), "target.id = source.id", runner="in-process", **k)
        .when_not_matched_insert_all()
        .execute()
    ),
    "add_files": lambda t, folder, k: t.add_files([parquet_file(folder, k["txn"][0])], **k),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_done_once_and_leaves_no_file_when_it_is_sent_again(
    verb: str, table: Table, tmp_path: Path
) -> None:
    first = VERBS[verb](table, tmp_path, {"txn": ("app", 7)})
    assert first.snapshot_id is not None and not first.skipped and first.done_in is None
    assert (first.summary["frazil.txn.id"], first.summary["frazil.txn.number"]) == ("app", "7")
    rows, held, made = ids(table.refresh()), data_files_below(table), len(table.snapshots())
    for handle in (table, frazil.load_table(table.location())):
        again = VERBS[verb](handle, tmp_path, {"txn": ("app", 7)})
        assert (again.snapshot_id, again.skipped, again.done_in, again.attempts) == (
            None,
            True,
            first.snapshot_id,
            0,
        )
        assert (ids(table.refresh()), data_files_below(table), len(table.snapshots())) == (
            rows,
            held,
            made,
        )
    assert str(first.snapshot_id) in repr(again) and "skipped" in repr(again)
    assert not VERBS[verb](table, tmp_path, {"txn": ("another app", 7)}).skipped


def test_a_replay_is_skipped_after_its_snapshot_has_expired_by_hand(table: Table) -> None:
    first = table.append(more(3), txn=("app", 1))
    last = table.append(more(4))
    assert last.snapshot_id
    expire(table, last.snapshot_id)
    again = frazil.load_table(table.location()).append(more(3), txn=("app", 1))
    assert (again.skipped, again.done_in, ids(table.refresh())) == (
        True,
        first.snapshot_id,
        [1, 2, 3, 4],
    )


def test_a_replay_after_a_rollback_is_skipped_and_a_warning_says_how_to_do_it_again(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    before = table.refresh().current_snapshot()
    assert before
    table.append(more(3), txn=("app", 1))
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    with caplog.at_level(logging.WARNING, "frazil"):
        assert table.append(more(3), txn=("app", 1)).skipped and ids(table.refresh()) == [1, 2]
    name = mark_name("app", "main")
    assert "rolled back" in caplog.text and name in caplog.text
    table.remove_properties(name)
    assert not table.append(more(3), txn=("app", 1)).skipped and ids(table.refresh()) == [1, 2, 3]


def test_numbers_rise_and_a_lower_one_is_skipped_with_a_warning(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    assert not table.append(more(5), txn=("app", 5)).skipped
    with caplog.at_level(logging.WARNING, "frazil"):
        assert table.append(more(4), txn=("app", 4)).skipped
    assert "must rise" in caplog.text and "5" in caplog.text
    assert not table.append(more(6), txn=("app", 6)).skipped
    assert ids(table.refresh()) == [1, 2, 5, 6]


def test_each_branch_has_marks_of_its_own_which_go_and_move_with_it(table: Table) -> None:
    table.append(more(3), txn=("app", 1))
    table.manage_snapshots().create_branch(branch_name="audit", snapshot_id=None).commit()
    assert not table.append(more(4), branch="audit", txn=("app", 1)).skipped
    assert table.append(more(5), branch="audit", txn=("app", 1)).skipped
    assert (ids(table.refresh()), ids(table.refresh(), branch="audit")) == ([1, 2, 3], [1, 2, 3, 4])
    table.manage_snapshots().rename_branch("audit", "checked@home").commit()
    assert table.append(more(5), branch="checked@home", txn=("app", 1)).skipped
    table.manage_snapshots().remove_branch("checked@home").commit()
    table.manage_snapshots().create_branch(branch_name="checked@home", snapshot_id=None).commit()
    assert not table.append(more(6), branch="checked@home", txn=("app", 1)).skipped
    assert (ids(table.refresh()), ids(table.refresh(), branch="checked@home")) == (
        [1, 2, 3],
        [1, 2, 3, 6],
    ) and table.append(more(7), txn=("app", 1)).skipped


def test_names_and_branches_with_the_marks_own_signs_are_told_apart(table: Table) -> None:
    table.manage_snapshots().create_branch(branch_name="b", snapshot_id=None).create_branch(
        branch_name="x@b", snapshot_id=None
    ).commit()
    assert not table.append(more(3), branch="b", txn=("a@x", 1)).skipped
    assert not table.append(more(4), branch="x@b", txn=("a", 1)).skipped
    assert (
        table.append(more(3), branch="b", txn=("a@x", 1)).skipped
        and not table.append(more(5), txn=("a@x@b", 1)).skipped
    )


def test_a_delete_that_found_nothing_is_done_as_well(table: Table) -> None:
    first = table.delete("id = 99", txn=("app", 1), runner="in-process")
    assert (first.snapshot_id, first.skipped) == (None, False)
    table.append(more(99))
    again = table.delete("id = 99", txn=("app", 1), runner="in-process")
    assert (again.skipped, again.done_in, ids(table.refresh())) == (True, None, [1, 2, 99])


def test_a_delete_with_a_txn_sees_what_others_wrote_since_the_handle_was_read(table: Table) -> None:
    old = frazil.load_table(table.location())
    table.append(more(99))
    assert old.delete("id = 99", txn=("app", 1), runner="in-process").rows_deleted == 1 and ids(
        table.refresh()
    ) == [1, 2]


def test_a_transaction_is_done_once_as_a_whole(table: Table) -> None:
    def send() -> Any:
        with table.transaction(txn=("app", 1)) as tx:
            tx.append(more(3))
            tx.set_properties(k="v")
            tx.delete("id = 1", runner="in-process")
        return tx.result

    first, held = send(), data_files_below(table)
    assert first.snapshot_id is not None and ids(table.refresh()) == [2, 3]
    table.set_properties(k="w")
    again = send()
    assert (
        again.skipped
        and again.done_in == first.snapshot_id
        and (ids(table.refresh()), data_files_below(table)) == ([2, 3], held)
    )
    assert table.properties["k"] == "w"


def test_a_transaction_of_properties_alone_is_done_once(table: Table) -> None:
    for wanted in ("v", "w"):
        with table.transaction(txn=("app", 1)) as tx:
            tx.set_properties(k=wanted)
    assert tx.result.skipped and table.refresh().properties["k"] == "v"


def test_one_change_of_a_transaction_takes_no_txn(table: Table) -> None:
    with (
        pytest.raises(InvalidInput, match=r"txn= belongs to the whole transaction"),
        table.transaction() as tx,
    ):
        tx.append(more(3), txn=("app", 1))
    assert ids(table.refresh()) == [1, 2]


def test_a_text_of_a_name_and_a_number_marks_a_write_as_a_pair_does(table: Table) -> None:
    """Options of SQL and of DataFrames are texts."""
    table.append(more(3), txn="app:7")  # type: ignore[arg-type]
    table.append(more(4), txn=("app", 7))
    assert ids(table.refresh()) == [1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        ("app",),
        ("", 1),
        ("app", -1),
        ("app", "1"),
        ("app", True),
        ("app", 2**63),
        7,
        *("app:x", ":7", "app"),
        (1, "app"),
    ],
)
def test_what_is_no_pair_of_a_name_and_a_number_is_refused(wrong: Any, table: Table) -> None:
    with pytest.raises(InvalidInput, match="txn must be a pair"):
        table.append(more(3), txn=wrong)
    assert ids(table.refresh()) == [1, 2]


def test_a_mark_that_was_changed_by_hand_is_refused_by_its_name(table: Table) -> None:
    with pytest.raises(ValidationError, match=r"frazil\.txn\.app@main"):
        table.set_properties({mark_name("app", "main"): "17"})


def test_a_write_that_loses_the_race_against_its_own_replay_removes_its_files(table: Table) -> None:
    """Two drivers send the same write: the second has begun before the first commits, and finds the
    mark inside its attempt.
    """
    held: set[str] = set()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from more(3).to_batches()
        assert not frazil.load_table(table.location()).append(more(3), txn=("app", 1)).skipped
        held.update(data_files_below(table))

    result = table.append(
        pa.RecordBatchReader.from_batches(more(3).schema, batches()), txn=("app", 1)
    )
    assert result.skipped and result.done_in is not None and held
    assert (
        ids(table.refresh()) == [1, 2, 3]
        and {f for f in data_files_below(table) if f not in held} == set()
    )


@pytest.mark.parametrize("word", ["lost", "applied", "raise", "applied-raise", "applied-conflict"])
def test_a_replay_after_an_answer_that_was_lost_makes_it_exactly_once(
    word: str, table: Table
) -> None:
    table.set_properties({"commit.status-check.num-retries": "0"})
    flaky = FlakyBackend(table._writable(), [word], unreachable_loads=1)
    with pytest.raises(CommitStateUnknownException):
        Table(flaky, table._loaded, "t").append(more(3), txn=("app", 1))
    assert flaky.fired == [word]
    applied, again = word.startswith("applied"), table.append(more(3), txn=("app", 1))
    assert again.skipped is applied and table.append(more(3), txn=("app", 1)).skipped
    assert ids(table.refresh()) == [1, 2, 3]


SENDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(1, 4),
        st.sampled_from(["main", "other"]),
        st.sampled_from(["ok", "conflict", "lost", "applied", "applied-conflict"]),
        st.booleans(),
    ),
    max_size=10,
)


@settings(max_examples=examples(60), deadline=None)
@given(sends=SENDS)
def test_any_order_of_writes_replays_and_lost_answers_agrees_with_a_model(
    sends: list[tuple[str, int, str, str, bool]],
) -> None:
    """The model: the last number of each writer on each branch, and the rows of the writes that it
    let pass.
    """
    catalog = frazil.load_catalog("txn", type="memory")
    catalog.create_namespace("db")
    made = catalog.create_table(
        "db.t", "id bigint, s string", properties={"commit.status-check.num-retries": "0"}
    )
    made.append(ROWS.slice(0, 0))
    made.manage_snapshots().create_branch(branch_name="other", snapshot_id=None).commit()
    last: dict[tuple[str, str], int] = {}
    rows: dict[str, list[int]] = {"main": [], "other": []}
    for n, (writer, number, branch, word, rolls_back) in enumerate(sends):
        before = made.refresh().current_snapshot()
        flaky = FlakyBackend(
            made._writable(), [word], unreachable_loads=1 if word in ("lost", "applied") else 0
        )
        passes = number > last.get((writer, branch), 0)
        try:
            result = Table(flaky, made._loaded, "t").append(
                more(n), branch=branch, txn=(writer, number)
            )
            assert result.skipped is not passes
        except CommitStateUnknownException:
            assert passes and word in ("lost", "applied")
        assert flaky.fired == ([] if not passes else [word, "ok"] if word == "conflict" else [word])
        if passes and word != "lost":
            last[writer, branch] = number
            rows[branch].append(n)
            if rolls_back and branch == "main" and before is not None:
                made.refresh().manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
                rows["main"].pop()
    assert {b: ids(made.refresh(), branch=b) for b in rows} == rows


def test_drivers_that_send_the_same_writes_at_the_same_time_make_each_exactly_once(
    table: Table,
) -> None:
    drivers, numbers = 4, range(1, 7)
    together, skipped = threading.Barrier(drivers), [0] * drivers

    def drive(which: int) -> None:
        mine = frazil.load_table(table.location())
        for number in numbers:
            together.wait(60)
            skipped[which] += mine.append(more(number + 10), txn=("app", number)).skipped

    threads = [threading.Thread(target=drive, args=(which,)) for which in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(skipped) == (drivers - 1) * len(numbers) and ids(table.refresh()) == [
        1,
        2,
        *(n + 10 for n in numbers),
    ]
    assert len(data_files_below(table)) == 1 + len(numbers)


@pytest.mark.spark
def test_spark_does_no_job_for_a_write_that_is_done(spark: Any, table: Table) -> None:
    frame = spark.createDataFrame([(3, "x")], "id long, s string")
    first, tracker, group = (
        table.append(frame, txn=("app", 1)),
        spark.sparkContext.statusTracker(),
        "replays of a txn",
    )
    spark.sparkContext.setJobGroup(group, group)
    try:
        again = [
            table.append(frame, txn=("app", 1)),
            table.upsert(frame, ["id"], txn=("app", 1)),
            table.delete("id = 1", spark=spark, txn=("app", 1)),
        ]
        assert not tracker.getJobIdsForGroup(group)
        assert table.delete("id = 1", spark=spark, txn=("app", 2)).rows_deleted == 1
        assert table.append(frame, txn=("app", 3)).rows_inserted == 1 and tracker.getJobIdsForGroup(
            group
        )
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert all(r.skipped and r.done_in == first.snapshot_id for r in again) and ids(
        table.refresh()
    ) == [2, 3, 3]
