"""Maintenance beside a stream: when a task is due, who may run it, and what happens when it fails."""

from __future__ import annotations

import json
import logging
import os
import socket
import time

import pyarrow as pa
import pytest

import frazil
from frazil.errors import CommitStateUnknownException, InvalidInput, StorageError
from frazil.maintain.procedure import MaintainedTable, ProcedureResult
from frazil.maintain.stream_upkeep import lease as leases
from frazil.maintain.stream_upkeep.lease import LEASE, LeaseHeld, _held, lease
from frazil.maintain.stream_upkeep.stream_tasks import upkeep
from frazil.maintain.stream_upkeep.triggers import Counted, TaskOptions, upkeep_options
from frazil.maintain.stream_upkeep.upkeep import Upkeep
from frazil.ops.in_process import IN_PROCESS
from frazil.spec.properties import MAINTENANCE
from frazil.tasks.runner import InProcess
from tests.maintain import deletes


@pytest.fixture
def table(tmp_path):
    catalog = frazil.load_catalog("upkeep", type="path", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog.create_table("db.t", "id bigint")


def maintained(table) -> MaintainedTable:
    table.refresh()
    return MaintainedTable(
        table._backend, table._loaded, "db.t", IN_PROCESS, InProcess(), table._show
    )


def add(table, *ids):
    table.append(pa.table({"id": list(ids)}))


def task(name="rewrite", **limits):
    return TaskOptions(name, {k.replace("_", "-"): v for k, v in limits.items()})


def test_options_are_parted_from_those_of_the_stream():
    given = {
        "maintenance.rewrite.every-commits": "10",
        "maintenance.rewrite.min-input-files": 2,
        "maintenance.expire.enabled": "true",
        "maintenance.orphans.enabled": "false",
        "maintenance.lease-duration": "10 min",
        "write-mode": "upsert",
    }
    options, rest = upkeep_options(given)
    assert rest == {"write-mode": "upsert"} and options is not None and options.lease_seconds == 600
    assert [(t.task, dict(t.limits), dict(t.arguments)) for t in options.tasks] == [
        ("rewrite", {"commits": 10}, {"min-input-files": 2}),
        ("expire", {"commits": 10, "interval": 3_600_000}, {}),
    ]
    assert upkeep_options({"a": 1}) == (None, {"a": 1})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"maintenance.compact.every-commits": 3},
            r"Unknown option of maintenance \(tasks: convert, expire, manifests, orphans, rewrite\): .*<task>.every-commits",
        ),
        ({"maintenance.rewrite.every-moons": 3}, "Unknown option of maintenance"),
        ({"maintenance.rewrite.every-commits": 0}, "at least 1"),
        ({"maintenance.rewrite.enabled": "perhaps"}, "true or false"),
        ({"maintenance.rewrite.every-interval": "soon"}, "must be a duration"),
        ({"maintenance.rewrite.every-interval": "0 s"}, "must be a duration above 0"),
        (
            {"maintenance.rewrite.every-commits": 3, "maintenance.rewrite.every_commits": 4},
            "given twice",
        ),
        ({"maintenance.rewrite.strategy": "sort"}, "Nothing says when"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(given, told):
    with pytest.raises(InvalidInput, match=told):
        upkeep_options(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"maintenance.rewrite.every-commits": 3, "maintenance.rewrite.no-such": 1}, "no-such"),
        ({"maintenance.expire.every-commits": 3, "maintenance.expire.older-than": 1}, "older-than"),
        (
            {"maintenance.expire.every-commits": 3, "maintenance.expire.retain-last": 0},
            "at least 1",
        ),
        (
            {"maintenance.orphans.every-commits": 3, "maintenance.orphans.min-age": "1 h"},
            "at least a day",
        ),
        (
            {"maintenance.convert.every-commits": 3, "maintenance.convert.strategy": 1},
            "no argument",
        ),
    ],
)
def test_arguments_of_tasks_are_checked_before_the_query_starts(table, given, told):
    options, _ = upkeep_options(given)
    with pytest.raises(InvalidInput, match=told):
        upkeep(options, table.metadata)


def test_what_others_commit_counts_and_maintenance_does_not(table):
    counted = Counted(int(time.time() * 1000) - 1000)
    for n in range(4):
        add(table, n)
    counted = counted.up_to(table.metadata, "main")
    assert (
        counted.counts["commits"] == 4
        and counted.counts["data-files"] == 4
        and counted.counts["data-file-size"] > 0
    )
    assert counted.up_to(table.metadata, "main").counts == counted.counts
    table.maintenance.rewrite_data_files(options={"min-input-files": 2})
    assert table.current_snapshot().operation == "replace"
    add(table, 9)
    counted = counted.up_to(table.metadata, "main")
    assert counted.counts["commits"] == 5
    assert counted.is_due(task(commits=5), 0) and counted.is_due(task(commits=6), 0) is None
    assert counted.is_due(task(interval=1000), counted.since_ms + 1000) and not counted.is_due(
        task(interval=1001), counted.since_ms + 1000
    )


def test_a_conversion_of_equality_deletes_does_not_count(tmp_path):
    """It is an overwrite, since compactions of others must notice it, but it changes no row:
    counted, it would call for the next one.
    """
    t = deletes.filled(deletes.made(tmp_path, 3), count=2)
    deletes.by_keys(t, [2, 3])
    before = Counted(0).up_to(t.refresh().metadata, "main")
    assert before.counts["equality-delete-files"] == 1
    t.maintenance.convert_equality_deletes()
    head = t.refresh().current_snapshot()
    assert head.operation == "overwrite" and head.summary["frazil.same-rows"] == "true"
    assert before.up_to(t.metadata, "main").counts == before.counts
    t.delete("id = 1", mode="merge-on-read")
    assert "frazil.same-rows" not in t.refresh().current_snapshot().summary
    assert before.up_to(t.metadata, "main").counts["commits"] == before.counts["commits"] + 1


def test_a_task_runs_after_its_number_of_commits_and_then_counts_anew(table):
    options, _ = upkeep_options(
        {"maintenance.rewrite.every-commits": 3, "maintenance.rewrite.min-input-files": 2}
    )
    told = []
    running = upkeep(options, table.metadata, lambda name, result: told.append((name, result)))
    files = []
    for n in range(7):
        add(table, n)
        running.after_commit(maintained(table))
        table.refresh()
        files.append(table.inspect.files().num_rows)
    assert files == [1, 2, 1, 2, 3, 1, 2]
    assert [(name, r.rewritten_data_files_count) for name, r in told] == [
        ("rewrite", 3),
        ("rewrite", 4),
    ]
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(7))
    assert _held(table.metadata) is None and "at" in json.loads(
        table.metadata.properties[f"{MAINTENANCE.prefix}rewrite"]
    )


def test_tasks_keep_the_distance_that_the_rate_limit_asks_for(table, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("frazil.maintain.stream_upkeep.upkeep.time.monotonic", lambda: now[0])
    ran = []
    options, _ = upkeep_options(
        {
            "maintenance.rewrite.every-commits": 1,
            "maintenance.expire.every-commits": 2,
            "maintenance.rate-limit": "60 s",
        }
    )
    assert (
        options.rest_seconds == 60
        and upkeep_options({"maintenance.rewrite.every-commits": 1})[0].rest_seconds == 0
    )
    running = Upkeep(
        options,
        {
            name: lambda *_, name=name: ran.append(name) or ProcedureResult()
            for name in ("rewrite", "expire")
        },
    )
    for seconds in (0, 59, 1, 30, 31):  # after the first, the third and the fifth commit
        now[0] += seconds
        add(table, 1)
        running.after_commit(maintained(table))
        ran.append(".")
    assert "".join(t[0] for t in ran) == "r..re..re."


def test_a_query_that_starts_again_counts_from_the_last_run(table):
    options, _ = upkeep_options(
        {"maintenance.rewrite.every-commits": 3, "maintenance.rewrite.min-input-files": 2}
    )
    first = upkeep(options, table.metadata)
    for n in range(3):
        add(table, n)
        first.after_commit(maintained(table))
    for n in range(2):
        time.sleep(0.002)
        add(table, n)
    again = upkeep(options, table.metadata)
    assert again.after_commit(maintained(table)) is None
    add(table, 5)
    assert again.after_commit(maintained(table)) is not None


def test_short_runs_of_a_query_add_up_for_a_task_that_never_ran(table):
    runs: list[str] = []
    options, _ = upkeep_options({"maintenance.rewrite.every-commits": 10})

    def rewrite(current: MaintainedTable, branch: str) -> ProcedureResult:
        runs.append(branch)
        return ProcedureResult()

    for number in range(12):
        if number % 4 == 0:
            query = Upkeep(options, {"rewrite": rewrite})
        add(table, number)
        query.after_commit(maintained(table))
        assert len(runs) == (1 if number >= 9 else 0), number


def test_a_catalog_that_does_not_answer_after_a_task_does_not_stop_the_stream(
    table, monkeypatch, caplog
):
    options, _ = upkeep_options({"maintenance.rewrite.every-commits": 1})
    told: list[str] = []

    def rewrite(current: MaintainedTable, branch: str) -> ProcedureResult:
        return ProcedureResult()

    def on_task(name: str, outcome: object) -> None:
        told.append(name)
        monkeypatch.setattr(MaintainedTable, "newest", refuses)

    def refuses(self: MaintainedTable) -> None:
        told.append("asked")
        raise StorageError("503")

    add(table, 1)
    assert Upkeep(options, {"rewrite": rewrite}, on_task).after_commit(maintained(table)) is None
    assert told == ["rewrite", "asked"] and "the next batch loads it" in caplog.text


def test_a_lease_whose_commit_is_not_known_to_have_failed_is_given_back(table, monkeypatch):
    commit, states = leases._commit, []

    def without_an_answer(maintained, build):
        commit(maintained, build)
        states.append(_held(table.refresh().metadata) is not None)
        if len(states) == 1:
            raise CommitStateUnknownException("the answer is lost")

    monkeypatch.setattr(leases, "_commit", without_an_answer)
    with pytest.raises(CommitStateUnknownException), lease(maintained(table), "rewrite", 600):
        raise AssertionError("whether the lease is there was not known")
    assert states == [True, False]


def test_a_task_that_fails_is_told_and_the_stream_goes_on(table, caplog):
    def fails(_, __):
        raise OSError("disk on fire")

    options, _ = upkeep_options({"maintenance.rewrite.every-commits": 1})
    told = []
    running = Upkeep(options, {"rewrite": fails}, lambda name, error: told.append(error))
    with caplog.at_level(logging.WARNING, "frazil.maintain"):
        for n in range(3):
            add(table, n)
            assert running.after_commit(maintained(table)) is None
    assert len(told) == 1 and "disk on fire" in str(told[0]) and "the stream goes on" in caplog.text
    table.refresh()
    assert _held(table.metadata) is None


def test_one_task_at_a_time_works_on_a_table(table):
    ran = []
    options, _ = upkeep_options({"maintenance.rewrite.every-commits": 1})
    running = Upkeep(options, {"rewrite": lambda *_: ran.append(1) or ProcedureResult()})
    with lease(maintained(table), "expire", 60):
        with pytest.raises(LeaseHeld, match="expire"), lease(maintained(table), "rewrite", 60):
            raise AssertionError("two owners")
        add(table, 1)
        running.after_commit(maintained(table))
        assert not ran
    table.refresh()
    assert LEASE not in table.metadata.properties


@pytest.mark.parametrize("how", ["ended", "too late", "no lease at all"])
def test_a_lease_ends_with_its_owner_or_its_time(table, how):
    mark = {
        "task": "rewrite",
        "until": int(time.time() * 1000) + (60_000 if how == "ended" else -1),
        "host": socket.gethostname(),
        "process": os.getpid() if how == "too late" else 2**22 + 1,
        "started": "1",
        "token": "x",
    }
    with table.transaction() as tx:
        tx.set_properties(**{LEASE: json.dumps(mark) if how != "no lease at all" else "{}"})
    table.refresh()
    assert _held(table.metadata) is None
    with lease(maintained(table), "rewrite", 60):
        table.refresh()
        assert _held(table.metadata) is not None
    table.refresh()
    assert _held(table.metadata) is None


def test_a_lease_of_another_machine_counts_until_its_time(table):
    mark = {
        "task": "rewrite",
        "until": int(time.time() * 1000) + 60_000,
        "host": "elsewhere",
        "process": 1,
        "started": "1",
        "token": "x",
    }
    table.transaction().set_properties(**{LEASE: json.dumps(mark)}).commit_transaction()
    table.refresh()
    assert _held(table.metadata) is not None
