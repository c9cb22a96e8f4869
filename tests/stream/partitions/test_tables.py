"""Partitions of a stream into a table: when they become pending, when they are due, late data,
restarts, branches, races.
"""

from __future__ import annotations

import contextlib
import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from frazil.errors import InvalidInput
from frazil.stream.partitions import archive
from frazil.stream.partitions.commit_hook import is_due
from frazil.stream.partitions.extractor import UnparsablePartition
from frazil.stream.partitions.options import partition_commit_options
from frazil.stream.partitions.state import Pending, property_name, state_of
from frazil.stream.sink.batch import StreamSink, checked_options
from frazil.stream.sink.rows import ArrowRows
from frazil.table.catalog import Catalog
from frazil.testing import FlakyBackend, ServerBackend
from tests.stream.partitions.support import (
    DAY,
    DELAY,
    HOUR,
    KIND,
    TRIGGER,
    Killed,
    Stream,
    ms,
    rows,
    stream,
)

BY_TIME = {KIND: "property", TRIGGER: "partition-time"}
JAN1, JAN2, JAN3 = (ms(f"2026-01-0{n}") for n in (1, 2, 3))


@pytest.fixture
def s(tmp_path):
    return stream(tmp_path, BY_TIME)


@pytest.mark.parametrize(
    ("trigger", "delay", "now", "watermark", "due"),
    [
        ("process-time", 0, 100, None, True),
        ("process-time", 10, 109, None, False),
        ("process-time", 10, 110, None, False),
        ("process-time", 10, 111, None, True),
        ("idle", 10, 149, None, False),
        ("idle", 10, 160, None, False),
        ("idle", 10, 161, None, True),
        ("partition-time", 0, 0, None, False),
        ("partition-time", 0, 0, 1000, False),
        ("partition-time", 0, 0, 1001, True),
        ("partition-time", 5, 0, 1005, False),
        ("partition-time", 5, 0, 1006, True),
    ],
)
def test_a_partition_is_due_strictly_after_its_time(trigger, delay, now, watermark, due):
    options = partition_commit_options({KIND: "tag", TRIGGER: trigger, DELAY: delay})
    assert is_due(options, Pending(100, 150), now, watermark, lambda: 1000) is due


def test_by_partition_time_a_partition_is_committed_once_the_watermark_is_past_it_and_the_delay(
    tmp_path,
):
    s = stream(tmp_path, {**BY_TIME, DELAY: "1 d"})
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    s.batch(1, rows([2, 3], ["2026-01-01", "2026-01-02"]), JAN2)
    assert s.pending == {"dt=2026-01-01", "dt=2026-01-02"} and s.times == {}
    s.batch(2, None, JAN2 + 1)
    assert s.pending == {"dt=2026-01-02"} and s.times == {"dt=2026-01-01": 1}
    done = s.commits()["dt=2026-01-01"]
    assert (
        done["snapshot_id"] == s.table.current_snapshot().snapshot_id
        and done["late_data_since"] is None
    )
    assert (
        int(done["watermark"].timestamp() * 1000) == JAN2 + 1
        and int(done["committed_at"].timestamp() * 1000) > 0
    )


def test_the_state_is_in_the_commit_of_the_rows_and_costs_no_commit_of_its_own(s):
    backend = FlakyBackend(s.table._backend)
    s = s.restarted(backend=backend)
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    s.batch(1, rows([2], "2026-01-01"), JAN1)
    assert len(backend.fired) == 2 and state_of(s.table.metadata, "main").watermark_ms == JAN1
    assert state_of(s.table.metadata, "main").pending[(0, ("2026-01-01",))].commits == 2


def test_process_time_counts_from_when_a_partition_was_first_seen_also_over_restarts(tmp_path):
    s = stream(tmp_path, {KIND: "property", DELAY: "1 h"})
    s.clock.now = first = int(__import__("time").time() * 1000)
    s.batch(0, rows([1], "a"))
    s.clock.now = first + HOUR - 10_000
    s = s.restarted()
    s.batch(1, rows([2], "a"))
    assert s.pending == {"dt=a"}
    s.clock.now = first + HOUR + 60_000
    s.restarted().batch(2, None)
    assert s.pending == set() and s.times == {"dt=a": 1}


def test_without_a_delay_process_time_commits_every_partition_of_a_batch(tmp_path):
    s = stream(tmp_path, {KIND: "property"})
    s.batch(0, rows([1, 2, 3], ["a", "b", None]))
    assert s.times == {"dt=a": 1, "dt=b": 1, "dt=null": 1} and s.pending == set()


def test_the_first_batch_of_a_query_has_no_watermark_yet_and_its_partitions_wait(s):
    s.batch(0, rows([1], "2026-01-01"), None)
    assert s.pending == {"dt=2026-01-01"} and s.hook.options.needs_watermark
    s.batch(1, None, JAN1 + 1)
    assert s.times == {"dt=2026-01-01": 1}


def test_idle_partitions_are_committed_when_no_data_came_for_the_delay_without_new_data(tmp_path):
    s = stream(tmp_path, {KIND: "property", TRIGGER: "idle", DELAY: "1 h"})
    s.batch(0, rows([1, 2], ["a", "b"]))
    last = state_of(s.table.metadata, "main").pending[(0, ("a",))].last_ms
    s.clock.now = last + HOUR
    s.batch(1, None)
    assert s.times == {}
    s.clock.now += 60_000
    s.batch(2, None)
    assert s.times == {"dt=a": 1, "dt=b": 1}


def test_end_of_input_commits_what_is_left_only_when_asked(s):
    s.batch(0, rows([1], "2026-01-01"), JAN1, last=True)
    assert s.times == {}
    s.restarted(options={**BY_TIME, "sink.partition-commit.end-input": "true"}).batch(
        1, None, JAN1, last=True
    )
    assert s.times == {"dt=2026-01-01": 1}


def test_late_data_makes_a_partition_pending_again_and_is_told_and_counted(tmp_path):
    told = []
    s = stream(
        tmp_path,
        {TRIGGER: "partition-time"},
        (lambda c: told.append((c.partition_values, c.late, c.watermark)),),
    )
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    s.batch(1, rows([2], "2026-01-02"), JAN1 + 1)
    assert s.times == {"dt=2026-01-01": 1}
    hook_sees_no_watermark = s.restarted(options={**BY_TIME, DELAY: "9 d"}, policies=())
    hook_sees_no_watermark.batch(2, rows([3], "2026-01-01"), JAN1 + 2)
    row = s.commits()["dt=2026-01-01"]
    assert (
        row["late_data_since"] is not None
        and row["pending_since"] is not None
        and row["times_committed"] == 1
    )
    s.batch(3, None, JAN1 + 3)
    row = s.commits()["dt=2026-01-01"]
    assert (
        row["late_data_since"] is None
        and row["pending_since"] is None
        and row["times_committed"] == 2
    )
    assert told == [(("2026-01-01",), False, JAN1 + 1), (("2026-01-01",), True, JAN1 + 3)]


def test_a_delete_in_a_done_partition_is_late_and_one_in_an_unknown_partition_is_none_of_its_business(
    tmp_path,
):
    from frazil.ops import row_changes
    from frazil.ops.in_process import IN_PROCESS
    from frazil.ops.operation import TableOperation
    from frazil.ops.target import WriteArguments
    from frazil.stream.hooks import MicroBatch
    from frazil.tasks.runner import InProcess

    s = stream(tmp_path, {KIND: "property"}, properties={"write.delete.mode": "merge-on-read"})
    s.batch(0, rows([1, 2], "a"))
    s.table.append(rows([3, 4], "b"))
    for number, where in enumerate(["id = 1", "id = 3"], 1):
        table = s.table
        with TableOperation(table._backend, table._loaded, s.name) as operation:
            step = operation.step(WriteArguments("delete"), IN_PROCESS, InProcess())
            operation.add(row_changes.delete(step, where, "merge-on-read"))
            operation.stage(
                *s.hook.actions(
                    MicroBatch("q", number, s.name, table._backend, "main"), table._loaded
                )
            )
    assert (
        s.pending == {"dt=a"}
        and s.commits()["dt=a"]["late_data_since"] is not None
        and "dt=b" not in s.commits()
    )


def test_a_replayed_batch_neither_loses_nor_doubles_pending_partitions(s):
    for _ in range(3):
        s = s.restarted()
        s.batch(0, rows([1], "2026-01-01"), JAN1)
    assert (
        state_of(s.table.metadata, "main").pending[(0, ("2026-01-01",))].commits == 1
        and len(s.table.snapshots()) == 1
    )
    for _ in range(3):
        s = s.restarted()
        s.batch(1, rows([2], "2026-01-02"), JAN1 + 1)
    assert s.times == {"dt=2026-01-01": 1} and s.table.count() == 2


@pytest.mark.parametrize("word", ["applied", "applied-raise", "lost", "conflict"])
def test_an_unclear_commit_of_a_batch_keeps_rows_and_pending_partitions_together(tmp_path, word):
    s = stream(
        tmp_path,
        BY_TIME,
        properties={"commit.status-check.min-wait-ms": "1", "commit.retry.min-wait-ms": "1"},
    )
    backend = FlakyBackend(
        s.table._backend,
        [word],
        error=Killed() if word == "applied-raise" else ConnectionError("gone"),
    )
    with contextlib.suppress(Killed, Exception):
        s.restarted(backend=backend).batch(0, rows([1], "2026-01-01"), JAN1)
    assert backend.fired[0] == word
    assert (s.table.count(), len(s.pending)) in ((0, 0), (1, 1))
    s.restarted().batch(0, rows([1], "2026-01-01"), JAN1)
    assert s.table.count() == 1 and s.pending == {"dt=2026-01-01"}


def test_a_batch_that_loses_the_race_adds_to_the_state_that_won(s):
    other = s.restarted(query_id="other")

    def first(swap):
        if swap == 1:
            other.batch(0, rows([9], "2026-01-03"), JAN1)

    backend = FlakyBackend(s.table._backend, before_swap=first)
    s.restarted(backend=backend).batch(0, rows([1], "2026-01-01"), JAN1)
    assert (
        len(backend.fired) >= 1
        and s.pending == {"dt=2026-01-01", "dt=2026-01-03"}
        and s.table.count() == 2
    )


def test_data_that_comes_while_policies_run_keeps_the_partition_pending_and_late(tmp_path):
    def slow(context):
        if not told:
            told.append(context)
            s.restarted(query_id="other", options={**BY_TIME, DELAY: "9 d"}, policies=()).batch(
                0, rows([9], "2026-01-01"), JAN2
            )

    told = []
    s = stream(tmp_path, {TRIGGER: "partition-time"}, (slow,))
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    s.batch(1, rows([2], "2026-01-02"), JAN1 + 1)
    row = s.commits()["dt=2026-01-01"]
    assert (
        told
        and row["times_committed"] == 1
        and row["late_data_since"] is not None
        and row["pending_since"] is not None
    )
    s.batch(2, None, JAN1 + 2)
    assert s.times["dt=2026-01-01"] == 2 and s.pending == {"dt=2026-01-02"}


def test_a_failing_record_of_what_was_announced_is_reported_and_made_again_without_stopping_the_stream(
    tmp_path,
):
    told = []
    s = stream(tmp_path, {}, (told.append,), properties={"commit.retry.num-retries": "0"})
    backend = FlakyBackend(s.table._backend, ["ok", "conflict"])
    racing = s.restarted(backend=backend)
    racing.batch(0, rows([1], "a"))
    (failure,) = racing.hook.failures
    assert backend.fired == ["ok", "conflict"] and (failure.partition, failure.policy) == (
        "dt=a",
        "(record)",
    )
    assert s.pending == {"dt=a"} and s.times == {} and s.table.count() == 1
    racing.batch(1, None)
    assert (
        s.pending == set()
        and s.times == {"dt=a": 1}
        and len(told) == 2
        and racing.hook.failures == ()
    )


def test_a_catalog_that_checks_requirements_only_loses_no_pending_partition_to_a_race(tmp_path):
    backend = ServerBackend("server")
    s = stream(tmp_path, {KIND: "custom"}, (lambda c: None,), catalog=Catalog(backend))
    other = s.restarted(query_id="other", options={**BY_TIME}, policies=())
    fired = []

    def first(swap):
        if swap == 2:  # the one that records what was announced
            fired.append(swap)
            other.batch(0, rows([9], "2026-01-03"), JAN1)

    s.restarted(backend=FlakyBackend(backend, before_swap=first)).batch(0, rows([1], "2026-01-01"))
    assert (
        fired == [2]
        and s.times == {"dt=2026-01-01": 1}
        and s.pending == {"dt=2026-01-03"}
        and s.table.count() == 2
    )


def test_every_branch_has_a_state_of_its_own_which_goes_and_moves_with_it(tmp_path):
    s = stream(tmp_path, {**BY_TIME})
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    s.table.manage_snapshots().create_branch(
        s.table.current_snapshot().snapshot_id, "audit"
    ).commit()
    b = s.restarted(branch="audit", query_id="b")
    b.batch(0, rows([2], "2026-01-02"), JAN1)
    assert s.pending == {"dt=2026-01-01"} and b.pending == {"dt=2026-01-02"}
    s.table.manage_snapshots().rename_branch("audit", "checked").commit()
    assert s.restarted(branch="checked").pending == {"dt=2026-01-02"} and b.pending == set()
    s.table.manage_snapshots().remove_branch("checked").commit()
    assert (
        property_name("checked") not in s.table.properties
        and property_name("main") in s.table.properties
    )


def test_the_state_survives_rollback_and_expiry(s):
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    first = s.table.current_snapshot().snapshot_id
    s.batch(1, rows([2], "2026-01-02"), JAN1 + 1)
    s.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert s.pending == {"dt=2026-01-02"} and s.times == {"dt=2026-01-01": 1}


def test_the_watermark_can_come_from_a_column_of_the_rows_that_are_committed(tmp_path):
    options = {**BY_TIME, "watermark-column": "ts", "watermark-delay": "1 h", DELAY: "1 d"}
    s = stream(tmp_path, options, columns="id bigint, ts timestamp, dt string")

    def at(*times):
        table = pa.table(
            {"id": range(len(times)), "ts": [None if t is None else ms(t) * 1000 for t in times]}
        )
        table = table.set_column(
            1, "ts", table["ts"].cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
        )
        return table.append_column("dt", pa.array([(t or "2026-01-01")[:10] for t in times]))

    s.batch(0, at("2026-01-01 10:00", None))
    assert state_of(s.table.metadata, "main").watermark_ms == ms("2026-01-01 09:00")
    s.batch(1, at("2026-01-02 00:59"))
    assert s.times == {}
    s.batch(2, at("2026-01-02 01:00"))
    assert s.times == {}
    s.batch(3, at("2026-01-02 01:01", "2025-12-31 00:00"))
    assert s.times == {"dt=2026-01-01": 1, "dt=2025-12-31": 1} and s.pending == {"dt=2026-01-02"}
    s.batch(4, at(None))
    assert state_of(s.table.metadata, "main").watermark_ms == ms("2026-01-02 00:01")


def test_a_watermark_column_without_bounds_stops_the_batch_with_what_to_do(tmp_path):
    options = {**BY_TIME, "watermark-column": "ts"}
    properties = {"write.metadata.metrics.column.ts": "none"}
    s = stream(
        tmp_path, options, columns="id bigint, ts timestamp, dt string", properties=properties
    )
    table = pa.table(
        {"id": [1], "ts": pa.array([1], pa.timestamp("us", "UTC")), "dt": ["2026-01-01"]}
    )
    with pytest.raises(InvalidInput, match="no upper bound of column ts") as caught:
        s.batch(0, table)
    assert "write.metadata.metrics.column.ts" in caught.value.hint and s.table.count() == 0


def test_hidden_partitions_by_time_are_committed_by_their_own_time(tmp_path):
    s = stream(
        tmp_path, {**BY_TIME, DELAY: "1 h"}, columns="id bigint, ts timestamp", by=["hours(ts)"]
    )
    s.batch(
        0,
        pa.table(
            {"id": [1], "ts": pa.array([ms("2026-01-01 05:30") * 1000], pa.timestamp("us", "UTC"))}
        ),
        ms("2026-01-01 06:00"),
    )
    assert s.times == {}
    s.batch(1, None, ms("2026-01-01 06:00") + 1)
    assert s.times == {"ts_hour=2026-01-01-05": 1}


def test_several_partition_fields_and_a_pattern_over_them(tmp_path):
    pattern = {"partition.time-extractor.timestamp-pattern": "$dt $hr:00:00"}
    s = stream(
        tmp_path,
        {**BY_TIME, **pattern, DELAY: "1 h"},
        columns="id bigint, dt string, hr int",
        by=["dt", "hr"],
    )
    s.batch(
        0,
        pa.table({"id": [1, 2], "dt": ["2026-01-01"] * 2, "hr": pa.array([4, 5], pa.int32())}),
        ms("2026-01-01 06:00"),
    )
    assert s.times == {"dt=2026-01-01/hr=4": 1} and s.pending == {"dt=2026-01-01/hr=5"}


def test_a_partition_without_a_time_stops_the_batch_before_its_rows_are_committed(s):
    with pytest.raises(UnparsablePartition, match="dt=__DEFAULT_PARTITION__"):
        s.batch(0, rows([1, 2], ["2026-01-01", None]), JAN1)
    assert s.table.count() == 0 and s.pending == set()
    warned = s.restarted(options={**BY_TIME, "partition.time-extractor.on-unparsable": "warn"})
    warned.batch(0, rows([1, 2], ["2026-01-01", None]), JAN1)
    assert s.table.count() == 2 and s.pending == {"dt=2026-01-01"}


@pytest.mark.parametrize("how", ["fail", "warn"])
def test_a_pending_partition_of_an_older_spec_without_the_patterns_fields_stays_pending_and_stops_nothing(
    tmp_path, how
):
    s = stream(tmp_path, {KIND: "property", DELAY: "100 d"})
    s.batch(0, rows([1], "2026-01-01"))
    with s.table.update_spec() as spec:
        spec.add_identity("id")
    pattern = {
        "partition.time-extractor.timestamp-pattern": "${dt} ${id}:00:00",
        "partition.time-extractor.on-unparsable": how,
    }
    later = s.restarted(options={**BY_TIME, **pattern})
    later.batch(1, rows([2], "2026-01-02"), JAN3)
    assert (
        later.times == {"dt=2026-01-02/id=2": 1}
        and later.pending == {"dt=2026-01-01"}
        and s.table.count() == 2
    )
    told = [(f.partition, type(f.error)) for f in later.hook.failures]
    assert told == ([("dt=2026-01-01", UnparsablePartition)] if how == "fail" else [])


def test_an_extractor_that_raises_after_the_commit_leaves_its_partition_pending(s, monkeypatch):
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    monkeypatch.setattr(
        "frazil.stream.partitions.extractor.TimeExtractor.time_ms", lambda *_: {}["gone"]
    )
    s.batch(1, None, JAN3)
    assert s.pending == {"dt=2026-01-01"} and isinstance(s.hook.failures[0].error, KeyError)


def test_rows_that_are_only_staged_under_a_wap_id_are_not_announced(tmp_path):
    s = stream(tmp_path, {KIND: "property"}, properties={"write.wap.enabled": "true"})
    options = checked_options({"wap-id": "w"}, s.table._loaded)
    sink = StreamSink(s.table._backend, s.table._loaded, "db.t", "q", options, hooks=(s.hook,))
    with pytest.raises(InvalidInput, match="contradicts the WAP id w"):
        sink.commit(0, ArrowRows(rows([1], "2026-01-01")))
    assert s.commits() == {} and list(s.table.snapshots()) == []


@pytest.mark.parametrize(
    ("by", "options", "watermark", "said"),
    [
        ([], {KIND: "tag"}, None, "needs a partitioned table"),
        (["dt"], {**BY_TIME, "watermark-column": "gone"}, None, "column gone does not exist"),
        (["dt"], {**BY_TIME, "watermark-column": "id"}, None, "is of type long"),
        (
            ["dt"],
            {**BY_TIME, "partition.time-extractor.timestamp-pattern": "$day"},
            1,
            "not a partition field",
        ),
    ],
)
def test_options_that_do_not_fit_the_table_or_the_query_are_refused_at_the_first_batch(
    tmp_path, by, options, watermark, said
):
    s = stream(tmp_path, options, by=by)
    with pytest.raises(InvalidInput, match=said):
        s.batch(0, rows([1], "2026-01-01"), watermark)
    assert s.table.count() == 0


def test_old_done_partitions_are_archived_so_that_the_property_stays_small_and_late_data_still_finds_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(archive, "MOST_DONE", 6)
    monkeypatch.setattr(archive, "KEPT", 2)
    s = stream(tmp_path, {KIND: "property"})
    names = [f"p{n:02d}" for n in range(20)]
    for number, name in enumerate(names):
        s = s.restarted()
        s.batch(number, rows([number], name))
    state = state_of(s.table.metadata, "main")
    assert len(state.done) <= 6 and len(state.archives) == 3
    assert s.times == {f"dt={n}": 1 for n in names}
    told = []
    s.restarted(options={}, policies=(told.append,)).batch(20, rows([99], "p00"))
    assert told[0].late and s.times["dt=p00"] == 2 and len(s.commits()) == 20


def test_an_archive_that_somebody_deleted_costs_its_history_and_nothing_else(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(archive, "MOST_DONE", 2)
    monkeypatch.setattr(archive, "KEPT", 1)
    s = stream(tmp_path, {KIND: "property"})
    for number in range(3):
        s.batch(number, rows([number], f"p{number}"))
    (file,) = (tmp_path / "db" / "t" / "metadata" / "_partition_commits").iterdir()
    file.unlink()
    s.restarted().batch(3, rows([4], "p0"))
    assert s.times == {"dt=p2": 1, "dt=p0": 1} and "is gone" in caplog.text and s.table.count() == 4


def test_an_archive_whose_commit_fails_is_removed_again_and_announces_nothing_twice(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(archive, "MOST_DONE", 1)
    monkeypatch.setattr(archive, "KEPT", 0 + 1)
    s = stream(tmp_path, {KIND: "property"}, properties={"commit.retry.num-retries": "0"})
    s.batch(0, rows([1], "a"))
    backend = FlakyBackend(s.table._backend, ["ok", "ok", "ok", "conflict"])
    racing = s.restarted(backend=backend)
    racing.batch(1, rows([2], "b"))
    # "b" is announced, and not again
    assert racing.hook.failures == () and "Could not archive" in caplog.text
    assert backend.fired == ["ok", "ok", "ok", "conflict"]
    assert list(
        (tmp_path / "db" / "t" / "metadata" / "_partition_commits").iterdir()
    ) == [] and s.times == {"dt=a": 1, "dt=b": 1}


def test_many_partitions_keep_the_property_small(tmp_path):
    s = stream(tmp_path, {KIND: "custom"}, (lambda c: None,))
    s.batch(0, rows(range(600), [f"2026-{n:03d}" for n in range(600)]))
    text = s.table.properties[property_name("main")]
    assert len(s.times) == 600 and len(text) < 60_000 and json.loads(text)["version"] == 1


def test_marking_by_hand_announces_a_partition_whatever_its_trigger_says(tmp_path):
    s = stream(tmp_path, {**BY_TIME, DELAY: "9 d"})
    s.batch(0, rows([1], "2026-01-01"), JAN1)
    table, told = s.table, []
    table.mark_partition_done({"dt": "2026-01-01"}, policies=[told.append])
    assert (
        s.times == {"dt=2026-01-01": 1}
        and s.pending == set()
        and told[0].partition_spec == {"dt": "2026-01-01"}
    )
    assert table.inspect.partition_commits()["times_committed"].to_pylist() == [1]
    table.mark_partition_done({"dt": None})
    assert s.times == {"dt=2026-01-01": 1, "dt=null": 1}
    table.mark_partition_done(
        {"dt": "2026-01-01"}, sink_partition_commit_policy_kind="success-file"
    )
    assert (
        s.times["dt=2026-01-01"] == 2 and (tmp_path / "db/t/data/dt=2026-01-01/_SUCCESS").exists()
    )


@pytest.mark.parametrize("partition", [{}, {"day": "x"}, {"dt": "x", "hr": 1}])
def test_marking_by_hand_needs_a_value_for_every_partition_field(tmp_path, partition):
    s = stream(tmp_path, {KIND: "tag"})
    with pytest.raises(InvalidInput, match="does not name a partition") as caught:
        s.table.mark_partition_done(partition)
    assert "dt" in caught.value.hint


@pytest.mark.parametrize(
    ("field", "given", "path"),
    [
        ("hours(ts)", datetime(2026, 1, 1, 5, 30), "ts_hour=2026-01-01-05"),
        ("days(ts)", datetime(2026, 1, 1, 5), "ts_day=2026-01-01"),
        ("months(ts)", date(2026, 1, 9), "ts_month=2026-01"),
        ("years(ts)", "2026", "ts_year=2026"),
        ("day", date(2026, 1, 1), "day=2026-01-01"),
        ("ts", "2026-01-01 05:00:00", "ts=2026-01-01T05%3A00%3A00"),
        ("hr", "05", "hr=5"),
        ("ok", "TRUE", "ok=true"),
        ("price", Decimal("1.5"), "price=1.50"),
        ("bucket(4, hr)", "3", "hr_bucket=3"),
        ("dt", date(2026, 1, 1), "dt=2026-01-01"),
        ("years(ts)", 56, None),
        ("hr", "five", None),
        ("days(ts)", "yesterday", None),
        ("hours(ts)", "2026-01-01", None),
        ("price", "1.555", None),
        ("day", "2026-02-30", None),
    ],
)
def test_marking_by_hand_takes_values_and_texts_that_the_field_can_have(
    tmp_path, field, given, path
):
    columns = (
        "id bigint, dt string, ts timestamp_ntz, day date, hr int, ok boolean, price decimal(5, 2)"
    )
    s = stream(tmp_path, {KIND: "tag"}, columns=columns, by=[field])
    name = s.table.spec().fields[0].name
    if path is None:
        with pytest.raises(InvalidInput, match=f"is no value of the partition field {name}"):
            s.table.mark_partition_done({name: given})
    else:
        s.table.mark_partition_done({name: given})
        assert s.times == {path: 1}


def test_a_policy_that_fails_by_hand_is_raised_and_nothing_is_marked(tmp_path):
    def fails(context):
        raise RuntimeError("the mail server is down")

    s = stream(tmp_path, {KIND: "tag"})
    with pytest.raises(RuntimeError, match="mail server"):
        s.table.mark_partition_done({"dt": "a"}, policies=[fails])
    assert s.times == {}


def test_a_table_without_partition_commits_has_an_empty_list_of_them(tmp_path):
    s: Stream = stream(tmp_path, {KIND: "tag"})
    found = s.table.inspect.partition_commits()
    assert found.num_rows == 0 and found.column_names[0] == "partition"


def test_hours_and_days_of_the_tests_are_what_they_say():
    assert JAN2 - JAN1 == DAY == 24 * HOUR and JAN3 > JAN2


@pytest.mark.parametrize("partition", [None, "dt=a", ["dt"], 5])
def test_what_names_no_partition_is_refused(tmp_path, partition):
    with pytest.raises(InvalidInput, match="partition"):
        stream(tmp_path, {}).table.mark_partition_done(partition)
