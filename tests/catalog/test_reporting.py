"""Metrics reports: what a reporter is told of scans and commits, and that no operation waits for
it, fails with it or needs it.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import frazil
from frazil.catalog import reporting
from frazil.catalog.backend import reporter_of
from frazil.catalog.reporting import MOST_WAITING, REPORTER
from frazil.catalog.reports import (
    SCAN_METRICS,
    CommitReport,
    Report,
    ScanReport,
    request_of,
    without_constants,
)
from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.expr.bind import bind
from frazil.expr.parse import parse
from frazil.schema import Schema
from frazil.table.catalog import Catalog
from frazil.testing import FlakyBackend
from frazil.types import DateType, DoubleType, LongType, NestedField, StringType
from tests.catalog.conftest import open_backend

Told = list[Report]


class Recorder:
    """Remembers what it is told, then does `then`."""

    def __init__(self) -> None:
        self.told: Told = []
        self.then: Callable[[Report], object] = lambda _: None

    def take(self, report: Report) -> None:
        self.told.append(report)
        self.then(report)

    def scans(self) -> list[ScanReport]:
        return [r for r in self.told if isinstance(r, ScanReport)]

    def commits(self) -> list[CommitReport]:
        return [r for r in self.told if isinstance(r, CommitReport)]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    module, made = ModuleType("reporter_of_a_test"), Recorder()
    module.take = made.take  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reporter_of_a_test", module)
    reporting._warn_once.cache_clear()
    yield made
    made.then = lambda _: None


NAMED = {REPORTER: "reporter_of_a_test:take"}


@pytest.fixture(params=["path", "sqlite", "memory"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path, recorder: Recorder) -> Iterator[Any]:
    with Catalog(open_backend(request.param, tmp_path, **NAMED)) as made:
        made.create_namespace("db")
        yield made


@pytest.fixture
def memory(recorder: Recorder) -> Iterator[Any]:
    with frazil.load_catalog("m", type="memory", **NAMED) as made:
        made.create_namespace("db")
        yield made


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "s": f"text {i}"} for i in ids]


def test_every_catalog_reports_scans_and_commits(catalog: Any, recorder: Recorder) -> None:
    table = catalog.create_table("db.t", "id bigint, s string")
    result = table.append(rows(1, 2, 3))
    assert table.scan("id > 2", selected_fields=("id",)).to_arrow().num_rows == 1
    assert reporting.flush() is None and len(recorder.told) == 2
    commit, scan = recorder.told
    assert isinstance(commit, CommitReport) and isinstance(scan, ScanReport)
    name = f"{catalog.name}.db.t"
    assert (commit.table_name, commit.snapshot_id, commit.sequence_number, commit.operation) == (
        name,
        result.snapshot_id,
        1,
        "append",
    )
    assert (
        commit.metrics["attempts"] == 1
        and commit.metrics["added-records"] == 3
        and commit.metrics["total-duration"] > 0
    )
    assert (
        commit.metrics["added-files-size-bytes"] > 0 and commit.metadata["engine-name"] == "frazil"
    )
    assert (
        scan.table_name,
        scan.snapshot_id,
        scan.projected_field_names,
        scan.projected_field_ids,
    ) == (name, result.snapshot_id, ("id",), (1,))
    assert (
        scan.filter == {"type": "gt", "term": "id", "value": "(1-digit-int)"}
        and tuple(scan.metrics) == SCAN_METRICS
    )
    assert scan.metrics["result-data-files"] == 1 and scan.metrics["total-planning-duration"] > 0


def test_changes_of_rows_and_procedures_report_their_scans_and_commits(
    memory: Any, recorder: Recorder
) -> None:
    table = memory.create_table(
        "db.t",
        "id bigint, s string",
        properties={"write.delete.mode": "merge-on-read", "format-version": "2"},
    )
    for n in range(3):
        table.append(rows(n * 10, n * 10 + 1))
    reporting.flush()
    recorder.told.clear()
    steps: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: table.delete("id = 11"), "delete", "added-positional-delete-files"),
        (
            lambda: table.upsert([{"id": 0, "s": "new"}, {"id": 77, "s": "x"}], ["id"]),
            "overwrite",
            "added-data-files",
        ),
        (lambda: table.overwrite(rows(0, 1, 2), "id < 10"), "overwrite", "removed-data-files"),
        (
            lambda: table.maintenance.rewrite_data_files(options={"rewrite-all": "true"}),
            "replace",
            "removed-data-files",
        ),
    ]
    for act, operation, counter in steps:
        act()
        reporting.flush()
        assert recorder.scans(), operation
        assert (
            recorder.commits()[-1].operation == operation
            and recorder.commits()[-1].metrics[counter] > 0
        )
        assert recorder.commits()[-1].snapshot_id == table.refresh().current_snapshot().snapshot_id
        recorder.told.clear()


def test_what_changes_no_snapshot_and_what_reads_none_is_not_reported(
    memory: Any, recorder: Recorder
) -> None:
    table = memory.create_table("db.t", "id bigint, s string")
    assert table.scan().to_arrow().num_rows == 0
    with table.transaction() as tx:
        tx.set_properties(a="b")
    table.append(rows(1))
    table.scan().explain()
    reporting.flush()
    assert [type(r) for r in recorder.told] == [CommitReport]


def test_every_snapshot_of_a_transaction_and_a_new_tables_first_is_reported(
    memory: Any, recorder: Recorder
) -> None:
    made = memory.create_table("db.t", "id bigint, s string")
    with made.transaction() as tx:
        tx.append(rows(1))
        tx.append(rows(2))
    with memory.create_table_transaction("db.new", "id bigint, s string") as tx:
        tx.append(rows(3))
    memory.create_table("db.b", "id bigint, s string")
    with memory.transaction() as both:
        both.table("db.t").append(rows(4))
        both.table("db.b").append(rows(5))
    reporting.flush()
    ids = [
        s.snapshot_id
        for s in (
            *memory.load_table("db.t").snapshots(),
            *memory.load_table("db.b").snapshots(),
            *memory.load_table("db.new").snapshots(),
        )
    ]
    assert sorted(r.snapshot_id for r in recorder.commits()) == sorted(ids) and len(ids) == 5
    assert {r.table_name for r in recorder.commits()} == {"m.db.t", "m.db.b", "m.db.new"}


def test_retries_are_counted(tmp_path: Path, recorder: Recorder) -> None:
    flaky = FlakyBackend(open_backend("sqlite", tmp_path, **NAMED))
    with Catalog(flaky) as made:
        made.create_namespace("db")
        table = made.create_table(
            "db.t", "id bigint, s string", properties={"commit.retry.min-wait-ms": "1"}
        )
        flaky.script, flaky.fired = ("conflict", "conflict", "applied"), []
        assert table.append(rows(1)).attempts == 3 and flaky.fired[:2] == ["conflict", "conflict"]
    assert [r.metrics["attempts"] for r in recorder.commits()] == [3]


def test_a_commit_that_failed_is_not_reported(tmp_path: Path, recorder: Recorder) -> None:
    flaky = FlakyBackend(open_backend("sqlite", tmp_path, **NAMED))
    with Catalog(flaky) as made:
        made.create_namespace("db")
        table = made.create_table(
            "db.t", "id bigint, s string", properties={"commit.retry.num-retries": "0"}
        )
        flaky.script, flaky.fired = ("conflict", "conflict"), []
        with pytest.raises(FrazilError):
            table.append(rows(1))
        assert flaky.fired[0] == "conflict"
    assert recorder.told == []


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), Stop()])
def test_a_reporter_that_raises_changes_nothing(
    memory: Any, recorder: Recorder, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Report) -> None:
        raise error

    recorder.then = fail
    table = memory.create_table("db.t", "id bigint, s string")
    with caplog.at_level(logging.WARNING, "frazil.metrics"):
        table.append(rows(1))
        assert table.count() == 1
        table.append(rows(2))
        assert table.scan().to_arrow().num_rows == 2
        reporting.flush()
    assert len(recorder.told) == 4 and type(error).__name__ in caplog.text


def test_a_reporter_that_blocks_delays_nothing_and_what_is_too_much_is_dropped(
    memory: Any, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    released, entered = threading.Event(), threading.Event()

    def block(_: Report) -> None:
        entered.set()
        released.wait(60)

    recorder.then = block
    table = memory.create_table("db.t", "id bigint, s string")
    begun = time.monotonic()
    table.append(rows(1))
    assert entered.wait(10)
    with caplog.at_level(logging.WARNING, "frazil.metrics"):
        for _ in range(MOST_WAITING + 20):
            assert table.scan("id = 1").count() == 1
    assert time.monotonic() - begun < 30 and "dropped" in caplog.text
    begun = time.monotonic()
    memory.close()
    assert 0.5 < time.monotonic() - begun < 30, "closing waits for a moment only"
    released.set()
    for queue in list(reporting._ALL):
        queue.flush(10)
    assert len(recorder.told) == 1 + MOST_WAITING


def test_what_a_reporter_itself_reads_and_commits_is_not_reported(
    memory: Any, recorder: Recorder
) -> None:
    log = memory.create_table("db.log", "name string")
    recorder.then = lambda report: log.append([{"name": report.table_name}])
    table = memory.create_table("db.t", "id bigint, s string")
    table.append(rows(1))
    assert table.count() == 1
    for queue in list(reporting._ALL):
        queue.flush(10)
    assert [r.table_name for r in recorder.told] == ["m.db.t"] * 2 and log.refresh().count() == 2


def test_without_a_reporter_nothing_is_computed_and_no_thread_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("nobody asked for a report")

    for name in ("scan_report", "commit_report", "TableReporter"):
        monkeypatch.setattr(reporting, name, never)
    monkeypatch.setattr(reporting.ReportQueue, "add", never)
    with frazil.load_catalog("quiet", type="memory") as made:
        made.create_namespace("db")
        table = made.create_table("db.t", "id bigint, s string")
        table.append(rows(1))
        assert table.count() == 1 and reporter_of(made._backend, ("db", "t")) is None
    assert reporter_of(None, ("db", "t")) is None


def test_scans_travel_without_their_reporter(memory: Any) -> None:
    taker = reporter_of(memory._backend, ("db", "t"))
    assert (
        taker is not None
        and taker.table_name == "m.db.t"
        and pickle.loads(pickle.dumps(taker)) is None
    )


FORK = """
import os
from frazil.catalog.reporting import ReportQueue
queue, parent = ReportQueue(), os.getpid()
queue.add(lambda: None)
assert queue.flush(10)
queue._changed.acquire()  # as another thread may hold it at the moment of the fork
if (child := os.fork()) == 0:
    ran = []
    queue.add(lambda: ran.append(os.getpid()))
    os._exit(0 if queue.flush(10) and ran == [os.getpid()] and os.getpid() != parent else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_the_child_of_a_fork_reports_by_a_thread_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


SCRIPT = """
import sys, time, threading, types
import frazil
module = types.ModuleType("reporter_of_a_script")
module.take = lambda report: print(type(report).__name__, flush=True) if sys.argv[1] == "quick" else time.sleep(60)
sys.modules["reporter_of_a_script"] = module
catalog = frazil.load_catalog("m", type="memory", **{"metrics-reporter-impl": "reporter_of_a_script:take"})
catalog.create_namespace("db")
catalog.create_table("db.t", "id bigint").append([{"id": 1}])
"""


@pytest.mark.parametrize(("kind", "printed"), [("quick", "CommitReport\n"), ("slow", "")])
def test_a_process_that_ends_gives_reports_a_moment_and_no_more(kind: str, printed: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        capture_output=True,
        text=True,
        timeout=40,
        env=dict(os.environ),
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (
            "org.apache.iceberg.metrics.LoggingMetricsReporter",
            Unsupported,
            "Java class org.apache.iceberg.metrics.LoggingMetricsReporter",
        ),
        ("my_module", InvalidInput, "names no function"),
        ("no_such_module_of_ours:take", InvalidInput, "ModuleNotFoundError"),
        ("math:no_such_name", InvalidInput, "AttributeError"),
        ("math:pi", InvalidInput, "a value of type float"),
        ("decimal:Decimal", InvalidInput, "a class"),
    ],
)
def test_what_is_no_reporter_is_refused_by_name(
    value: str, error: type[FrazilError], told: str
) -> None:
    with pytest.raises(error, match=told) as caught:
        frazil.load_catalog("m", type="memory", **{REPORTER: value})
    assert REPORTER in str(caught.value) and "package.module:function" in str(caught.value)


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DateType()),
    NestedField(4, "x", DoubleType()),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s = 'secret'", {"type": "eq", "term": "s", "value": "(text)"}),
        ("id <> -1234", {"type": "not-eq", "term": "id", "value": "(4-digit-int)"}),
        ("d >= DATE '2024-02-03'", {"type": "gt-eq", "term": "d", "value": "(date)"}),
        (
            "id IN (7, 8, 12)",
            {"type": "in", "term": "id", "values": ["(1-digit-int)", "(2-digit-int)"]},
        ),
        ("s IS NULL", {"type": "is-null", "term": "s"}),
        ("s IS NOT NULL", {"type": "not-null", "term": "s"}),
        ("isnan(x)", {"type": "is-nan", "term": "x"}),
        ("s LIKE 'secret%'", {"type": "starts-with", "term": "s", "value": "(text)"}),
        ("x < 12.5", {"type": "lt", "term": "x", "value": "(2-digit-float)"}),
        ("id = 1 AND length(s) = 9", {"type": "eq", "term": "id", "value": "(1-digit-int)"}),
        ("id = 1 OR length(s) = 9", True),
        ("NOT (id = 1 AND length(s) = 9)", None),
        ("true", True),
        ("false", False),
    ],
)
def test_filters_are_told_without_their_constants(text: str, expected: Any) -> None:
    found = without_constants(bind(parse(text), SCHEMA))
    assert "secret" not in str(found) and "1234" not in str(found)
    assert (
        found == expected
        if expected is not None
        else found in (True, {"type": "not-eq", "term": "id", "value": "(1-digit-int)"})
        or "length" not in str(found)
    )


def test_requests_are_those_of_the_specification() -> None:
    scan = request_of(
        ScanReport(
            table_name="c.db.t",
            snapshot_id=5,
            projected_field_ids=(1,),
            projected_field_names=("id",),
            metrics={"total-planning-duration": 9, "total-file-size-in-bytes": 7, "dvs": 0},
        )
    )
    assert scan == {
        "report-type": "scan-report",
        "table-name": "c.db.t",
        "snapshot-id": 5,
        "filter": True,
        "schema-id": 0,
        "projected-field-ids": [1],
        "projected-field-names": ["id"],
        "metrics": {
            "total-planning-duration": {
                "count": 1,
                "time-unit": "nanoseconds",
                "total-duration": 9,
            },
            "total-file-size-in-bytes": {"unit": "bytes", "value": 7},
            "dvs": {"unit": "count", "value": 0},
        },
    }
    commit = request_of(
        CommitReport(
            table_name="c.db.t",
            snapshot_id=5,
            sequence_number=2,
            operation="append",
            metrics={"attempts": 1},
            metadata={"a": "b"},
        )
    )
    assert commit == {
        "report-type": "commit-report",
        "table-name": "c.db.t",
        "snapshot-id": 5,
        "sequence-number": 2,
        "operation": "append",
        "metrics": {"attempts": {"unit": "count", "value": 1}},
        "metadata": {"a": "b"},
    }
