"""Each batch is in the table exactly once: after replays, lost answers, unknown outcomes and killed
drivers, rows and files are checked.
"""

from __future__ import annotations

import logging
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.commit.actions import MetadataChange
from frazil.errors import CommitFailedException, CommitStateUnknownException, ValidationError
from frazil.spec.manifest import DataFileContent
from frazil.spec.updates import RemoveSnapshots, SetProperties
from frazil.stream.sink.equality import RowsOutOfReach
from frazil.stream.sink.options import MODES
from frazil.table.table import Table
from frazil.testing import FlakyBackend
from tests.forked import started
from tests.stream.sink.streams import (
    QUERY,
    contents,
    data_files,
    held,
    known_files,
    make_table,
    rows_of,
    sink_of,
)

ALL: dict[str, dict[str, Any]] = {
    "append": {"mode": "append"},
    "complete": {"mode": "complete"},
    "lookup": {"mode": "upsert", "key_columns": ["id"]},
    "equality-deletes": {
        "mode": "upsert",
        "key_columns": ["id"],
        "upsert_strategy": "equality-deletes",
    },
    "cdc": {"mode": "cdc", "key_columns": ["id"]},
}
FIRST, SECOND = ((1, "a", 1), (2, "a", 1)), ((2, "b", 2), (3, "b", 2))
KINDS = ("id", "p", "v", "op")


def rows(kind: str, given: tuple[tuple[Any, ...], ...]) -> Any:
    return rows_of(*((*r, "u") for r in given), names=KINDS) if kind == "cdc" else rows_of(*given)


def after(kind: str) -> list[tuple[Any, ...]]:
    both = (
        sorted((*FIRST, *SECOND))
        if kind == "append"
        else sorted(SECOND)
        if kind == "complete"
        else [FIRST[0], *SECOND]
    )
    return list(both)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_table(tmp_path)


def begun(table: Table, kind: str) -> None:
    sink_of(table, **ALL[kind]).commit(0, rows(kind, FIRST))


@pytest.mark.parametrize("kind", ALL)
def test_one_batch_is_one_snapshot_and_a_replay_makes_none_and_leaves_no_file(
    kind: str, table: Table
) -> None:
    begun(table, kind)
    result = sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND))
    assert result.snapshot_id is not None and len(table.refresh().snapshots()) == 2
    files = data_files(table)
    for _ in range(2):  # a new run each time: nothing is remembered but what is in the table
        again = sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND))
        assert (again.skipped, again.done_in) == (True, result.snapshot_id)
    assert (held(table), len(table.snapshots()), data_files(table)) == (
        after(kind),
        2,
        files,
    ) and files == known_files(table)


@pytest.mark.parametrize("kind", ALL)
def test_a_replay_that_began_before_the_first_try_was_committed_removes_its_new_files(
    kind: str, table: Table
) -> None:
    begun(table, kind)
    slow = FlakyBackend(table._backend)
    sink = sink_of(table, backend=slow, **ALL[kind])

    def other(turn: int) -> None:
        if turn == 1:  # both have written their files, and this one is first
            sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND))

    slow.before_swap = other
    late = sink.commit(1, rows(kind, SECOND))
    assert slow.fired == ["ok"] and late.skipped
    assert (held(table), len(table.snapshots())) == (after(kind), 2) and data_files(
        table
    ) == known_files(table)


@pytest.mark.parametrize("word", ["applied", "applied-conflict", "applied-raise"])
@pytest.mark.parametrize("kind", ALL)
def test_a_commit_that_was_applied_without_an_answer_is_found_and_not_done_again(
    kind: str, word: str, table: Table
) -> None:
    begun(table, kind)
    flaky = FlakyBackend(table._backend, [word])
    result = sink_of(table, backend=flaky, **ALL[kind]).commit(1, rows(kind, SECOND))
    assert flaky.fired == [word] and not result.skipped
    assert sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND)).skipped
    assert (
        held(table) == after(kind)
        and len(table.snapshots()) == 2
        and data_files(table) == known_files(table)
    )


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("kind", ALL)
def test_an_unknown_outcome_keeps_every_file_and_the_replay_is_right_either_way(
    kind: str, applied: bool, table: Table
) -> None:
    begun(table, kind)
    flaky = FlakyBackend(table._backend, ["applied" if applied else "lost"], unreachable_loads=99)
    sink = sink_of(table, backend=flaky, **ALL[kind])
    table._change(
        lambda _: MetadataChange(
            lambda m: (SetProperties({"commit.status-check.num-retries": "0"}),)
        )
    )
    sink = sink_of(table, backend=flaky, **ALL[kind])
    before = data_files(table)
    with pytest.raises(CommitStateUnknownException):
        sink.commit(1, rows(kind, SECOND))
    assert flaky.fired and data_files(table) > before, "the files of the try are kept"
    again = sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND))
    assert again.skipped is applied
    assert held(table) == after(kind) and known_files(table) <= data_files(table)


@pytest.mark.parametrize("kind", ALL)
def test_a_certain_failure_leaves_nothing_and_the_replay_does_the_batch(
    kind: str, table: Table
) -> None:
    begun(table, kind)
    table.set_properties({"commit.retry.num-retries": "0"})
    before = data_files(table)
    flaky = FlakyBackend(table._backend, ["conflict", "conflict", "conflict"])
    with pytest.raises(CommitFailedException):
        sink_of(table, backend=flaky, **ALL[kind]).commit(1, rows(kind, SECOND))
    assert flaky.fired and data_files(table) == before
    assert sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND)).snapshot_id
    assert held(table) == after(kind) and data_files(table) == known_files(table)


# The driver dies
# ------------------------------------------------------------------------------------------------------------------------


class Dying:
    """A backend whose process is killed before, or right after, the swap."""

    def __init__(self, inner: Any, applied: bool):
        self.inner, self.applied = inner, applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def swap(self, *arguments: Any, **named: Any) -> Any:
        if self.applied:
            self.inner.swap(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)


def die(location: str, kind: str, applied: bool) -> None:
    found = frazil.load_table(location)
    sink_of(found, backend=Dying(found._backend, applied), **ALL[kind]).commit(
        1, rows(kind, SECOND)
    )


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("kind", ALL)
def test_a_driver_killed_at_the_swap_leaves_a_batch_that_comes_once(
    kind: str, applied: bool, tmp_path: Path
) -> None:
    table = make_table(tmp_path)
    begun(table, kind)
    before = held(table)
    child = started(die, table.location(), kind, applied, place=tmp_path)
    assert child.wait(60) == -signal.SIGKILL, child.problems()
    assert held(table) == (after(kind) if applied else before)
    again = sink_of(table, **ALL[kind]).commit(1, rows(kind, SECOND))
    assert again.skipped is applied and held(table) == after(kind) and len(table.snapshots()) == 2
    left = data_files(table) - known_files(table)
    assert bool(left) is not applied, "what a killed try wrote is an orphan, and nothing else is"


# Marks
# ----------------------------------------------------------------------------------------------------------------------------------


def test_the_mark_survives_the_expiry_of_its_snapshot_and_a_rollback(table: Table) -> None:
    begun(table, "append")
    first = table.refresh().current_snapshot()
    assert first is not None
    second = sink_of(table).commit(1, rows_of(*SECOND)).snapshot_id
    with table.refresh().manage_snapshots() as manage:
        manage.rollback_to_snapshot(first.snapshot_id)
    assert sink_of(table).commit(1, rows_of(*SECOND)).skipped and held(table) == list(FIRST)
    assert second is not None
    table._change(lambda _: MetadataChange(lambda m: (RemoveSnapshots((second,)),)))
    assert second not in {s.snapshot_id for s in table.refresh().snapshots()}
    assert (
        sink_of(table).commit(1, rows_of(*SECOND)).skipped
        and sink_of(table, on_rewind="skip").commit(0, rows_of(*FIRST)).skipped
    )


def test_two_queries_and_two_branches_have_marks_of_their_own(table: Table) -> None:
    begun(table, "append")
    first = table.refresh().current_snapshot()
    assert first is not None
    with table.refresh().manage_snapshots() as manage:
        manage.create_branch(first.snapshot_id, "audit")
    assert not sink_of(table, "another query").commit(0, rows_of((7, "c", 7))).skipped
    assert not sink_of(table, branch="audit").commit(0, rows_of((8, "c", 8))).skipped
    assert sink_of(table, branch="audit").commit(0, rows_of((8, "c", 8))).skipped
    assert held(table) == [*sorted(FIRST), (7, "c", 7)] and held(table, "audit") == [
        *sorted(FIRST),
        (8, "c", 8),
    ]


def test_a_batch_before_the_last_one_fails_is_passed_over_or_is_written_again(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        sink_of(table).commit(number, rows_of((number, "a", 0)))
    with pytest.raises(ValidationError, match="on-rewind=skip"):
        sink_of(table).commit(1, rows_of((1, "again", 0)))
    with caplog.at_level(logging.WARNING):
        assert sink_of(table, on_rewind="skip").commit(1, rows_of((1, "again", 0))).skipped
    assert "later number 2" in caplog.text and len(held(table)) == 3
    rewriting = sink_of(table, on_rewind="rewrite")
    assert rewriting.commit(1, rows_of((1, "again", 0))).snapshot_id
    assert sink_of(table, on_rewind="rewrite").commit(1, rows_of((1, "again", 0))).skipped, (
        "from here on it is counted anew"
    )
    assert rewriting.commit(2, rows_of((2, "again", 0))).snapshot_id and len(held(table)) == 5


def test_an_empty_batch_makes_no_snapshot_and_every_nth_sets_the_mark(table: Table) -> None:
    begun(table, "append")
    sink = sink_of(table, max_continuous_empty_commits=3)
    seen = [table.refresh().metadata_location]
    for number in range(1, 7):
        assert sink.commit(number, rows_of()).snapshot_id is None
        seen.append(table.refresh().metadata_location)
    assert (
        len(table.snapshots()) == 1
        and [a != b for a, b in zip(seen, seen[1:], strict=False)] == [False, False, True] * 2
    )
    mark = next(v for k, v in table.properties.items() if k.startswith(f"frazil.txn.{QUERY}"))
    assert '"number": 6' in mark


def test_an_empty_complete_batch_empties_the_table_once(table: Table) -> None:
    begun(table, "complete")
    sink = sink_of(table, mode="complete")
    assert sink.commit(1, rows_of()).snapshot_id is not None and held(table) == []
    assert sink.commit(2, rows_of()).snapshot_id is None and len(table.snapshots()) == 2


def test_a_query_that_java_has_written_before_goes_on_without_doubling(table: Table) -> None:
    java = {"spark.sql.streaming.queryId": QUERY, "spark.sql.streaming.epochId": "4"}
    table.append(rows_of(*FIRST).frame, snapshot_properties=java)
    assert sink_of(table).commit(4, rows_of(*FIRST)).skipped
    with pytest.raises(ValidationError, match="comes after batch 4"):
        sink_of(table).commit(3, rows_of(*FIRST))
    assert sink_of(table).commit(5, rows_of(*SECOND)).summary["spark.sql.streaming.epochId"] == "5"
    assert held(table) == sorted((*FIRST, *SECOND)) and data_files(table) == known_files(table)


def test_a_table_that_was_made_anew_under_the_stream_is_not_written(
    table: Table, tmp_path: Path
) -> None:
    sink = sink_of(table)
    catalog = frazil.load_catalog("test", type="path", warehouse=str(tmp_path))
    catalog.drop_table("db.t")
    new = make_table(tmp_path)
    with pytest.raises(ValidationError, match="dropped and created again"):
        sink.commit(0, rows_of(*FIRST))
    assert new.refresh().current_snapshot() is None


# What comes along
# ------------------------------------------------------------------------------------------------------------------------


def test_append_batches_are_appends_and_no_two_batches_share_a_snapshot_or_a_file_name(
    table: Table,
) -> None:
    for number in range(4):
        sink_of(table).commit(number, rows_of((number, "a", 0)))
    assert [str(s.operation) for s in table.refresh().snapshots()] == ["append"] * 4
    names = [Path(f).name for f in data_files(table)]
    assert len(names) == 4 and all(f"-{QUERY}-{n}-" in "".join(names) for n in range(4))


def test_equality_deletes_and_rows_of_a_batch_share_one_sequence_number(table: Table) -> None:
    begun(table, "equality-deletes")
    sink_of(table, **ALL["equality-deletes"]).commit(1, rows_of(*SECOND))
    entries = [
        (e["data_file"]["content"], e["sequence_number"])
        for e in table.refresh().inspect.entries().to_pylist()
    ]
    assert sorted(entries) == [(0, 1), (0, 2), (2, 1), (2, 2)]


def test_a_batch_that_looks_up_keys_in_many_small_files_adds_one_data_file(table: Table) -> None:
    sink = sink_of(table, **ALL["lookup"])
    rand = random.Random(1)
    for number in range(24):  # each but the first changes rows of every file before it
        result = sink.commit(
            number,
            rows_of(
                *(
                    (key, "a", number)
                    for key in (rand.sample(range(600), 60) if number else range(600))
                )
            ),
        )
        assert result.files_added == 1, number
    assert [contents(table).count(DataFileContent.DATA), len(held(table))] == [24, 600]


def test_rows_of_an_older_partition_spec_are_found_by_equality_deletes(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    begun(table, "equality-deletes")
    with table.update_spec() as update:
        update.add_field("id", "bucket[2]", "b")
    sink_of(table, **ALL["equality-deletes"]).commit(1, rows_of(*SECOND))
    assert held(table) == after("lookup")


def test_a_look_up_that_compaction_or_another_writer_ran_into_is_done_again(table: Table) -> None:
    begun(table, "lookup")
    flaky = FlakyBackend(table._backend)
    sink = sink_of(table, backend=flaky, **ALL["lookup"])

    def other(turn: int) -> None:
        if turn == 1:
            frazil.load_table(table.location()).upsert(
                rows_of((2, "between", 9)).frame, ["id"], runner="in-process"
            )

    flaky.before_swap = other
    result = sink.commit(1, rows_of(*SECOND))
    assert flaky.fired == ["ok", "ok"] and result.snapshot_id
    assert held(table) == after("lookup") and known_files(table) == data_files(table)


def in_a_new_spec(table: Table) -> None:
    """Another writer partitions the table anew, and adds a row whose key the batch has too."""
    other = frazil.load_table(table.location())
    with other.update_spec() as spec:
        spec.add_field("id", "bucket[4]")
    other.append(rows_of((3, "b", 9)).frame)


@pytest.mark.parametrize("repeatable", [True, False])
def test_equality_deletes_reach_rows_that_came_in_a_new_partition_spec_meanwhile(
    repeatable: bool, tmp_path: Path
) -> None:
    table = make_table(tmp_path, partition_by=["p"])
    kind = {**ALL["equality-deletes"], "key_columns": ["id", "p"]}
    sink_of(table, **kind).commit(0, rows_of(*FIRST))
    slow = FlakyBackend(table._backend)
    slow.before_swap = lambda turn: in_a_new_spec(table) if turn == 1 else None
    batch = rows_of(*SECOND)
    batch.repeatable = repeatable
    sink = sink_of(table, backend=slow, **kind)
    if repeatable:
        assert sink.commit(1, batch).snapshot_id
    else:
        with pytest.raises(RowsOutOfReach, match="partition spec 1"):
            sink.commit(1, batch)
        assert data_files(table) == known_files(table) and (3, "b", 9) in held(table)
        sink_of(table, **kind).commit(1, batch)  # as Spark sends it again
    assert held(table) == sorted((*FIRST, *SECOND)) and data_files(table) == known_files(table)


def test_a_frame_with_new_columns_adds_them_when_it_may(table: Table) -> None:
    names = ("id", "p", "v", "extra")
    for kind in ("append", "lookup", "equality-deletes"):
        with pytest.raises(frazil.errors.SchemaMismatch, match="extra"):
            sink_of(table, kind, **ALL[kind]).commit(0, rows_of((1, "a", 1, "x"), names=names))
    for number, kind in enumerate(("append", "lookup", "equality-deletes")):
        more = f"extra{number}"
        sink_of(table, kind, merge_schema=True, **ALL[kind]).commit(
            0, rows_of((number, "a", 1, "x"), names=("id", "p", "v", more))
        )
        assert more in table.refresh().columns
    assert data_files(table) == known_files(table)


def test_deletes_of_cdc_need_their_keys_only(tmp_path: Path) -> None:
    table = make_table(
        tmp_path, "id bigint not null, p string not null, v bigint", identifier_fields=["id"]
    )
    for strategy in ("lookup", "equality-deletes"):
        sink = sink_of(table, strategy, mode="cdc", upsert_strategy=strategy)
        sink.commit(0, rows_of((1, "a", 1, "c"), (2, "a", 1, "c"), names=KINDS))
        sink.commit(1, rows_of((1, None, None, "d"), (9, None, None, "d"), names=KINDS))
        assert held(table) == [(2, "a", 1)]


def test_the_result_of_every_batch_is_told_and_hooks_run_with_the_commit(table: Table) -> None:
    told: list[Any] = []

    class Hook:
        def actions(self, batch: Any, at: Any) -> Any:
            return (MetadataChange(lambda m: (SetProperties({"done": str(batch.batch_id)}),)),)

        def committed(self, batch: Any, at: Any) -> None:
            told.append(("hook", batch.batch_id, at.metadata.properties.get("done")))

    def run() -> Any:
        return sink_of(
            table,
            hooks=[Hook()],
            on_commit=lambda n, r: told.append((n, r.skipped, r.rows_inserted)),
        )

    sink = run()
    sink.commit(0, rows_of(*FIRST), watermark_ms=5)
    sink.commit(1, rows_of())
    run().commit(0, rows_of(*FIRST))
    assert told == [
        ("hook", 0, "0"),
        (0, False, 2),
        ("hook", 1, "0"),
        (1, False, 0),
        ("hook", 0, "0"),
        (0, True, 0),
    ]
    versions = table.refresh().metadata.metadata_log
    assert len(versions) == 1, "rows, mark and the hook's action are one commit"
    assert set(MODES) == {"append", "overwrite", "complete", "upsert", "cdc"} and contents(table)
