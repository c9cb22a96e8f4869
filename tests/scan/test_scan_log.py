"""The scan log: what scans note of their filters, where, and what they never note; a reader never
fails because of it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import StorageError
from frazil.expr.bind import bind
from frazil.expr.parse import parse
from frazil.ops.scan_log import log_plan
from frazil.scan.scan_log import files
from frazil.scan.scan_log.files import (
    BUFFER,
    PendingScan,
    ScanLogBuffer,
    directory_of,
    read_log,
    write_lines,
)
from frazil.scan.scan_log.records import LoggedPart, LoggedScan, line_of, parts_of, scan_of
from frazil.schema import Schema
from frazil.table import Table
from frazil.types import BinaryType, DoubleType, LongType, NestedField, StringType

ON = {"frazil.scan-log.enabled": "true"}
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "b", BinaryType()),
)


@pytest.fixture(autouse=True)
def a_log_that_is_empty() -> Iterator[None]:
    BUFFER.flush()
    BUFFER._blocked.clear()
    yield
    BUFFER.flush()


def filled(catalog: Catalog, name: str = "t", properties: dict[str, str] = ON) -> Table:
    t = catalog.create_table(f"db.{name}", "id bigint, s string", properties=properties)
    for n in range(3):
        t.append(
            pa.table(
                {
                    "id": pa.array(range(10 * n, 10 * n + 10), pa.int64()),
                    "s": [f"secret-of-somebody-{n}"] * 10,
                }
            )
        )
    return t


def logged(t: Table) -> list[LoggedScan]:
    BUFFER.flush()
    return read_log(t.metadata, t._loaded.storage)


def log_folder(t: Table) -> Path:
    return Path(directory_of(t.metadata).removeprefix("file:").replace("///", "/"))


def parts(text: str) -> tuple[LoggedPart, ...]:
    return parts_of([bind(parse(text), SCHEMA)])


# --- what is noted


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("id = 5", [LoggedPart(1, "equal", (5,))]),
        ("id >= 5 and id < 9", [LoggedPart(1, "range", low=5, high=8)]),
        ("id > 5", [LoggedPart(1, "range", low=6)]),
        ("x < 2.5", [LoggedPart(3, "range", high=2.5)]),
        ("id in (3, 1, 2)", [LoggedPart(1, "in", (1, 2, 3))]),
        (f"id in ({', '.join(map(str, range(100)))})", [LoggedPart(1, "in", low=0, high=99)]),
        ("s like 'ab%'", [LoggedPart(2, "prefix", ("ab",))]),
        ("s like 'ab%c'", [LoggedPart(2, "prefix", ("ab",))]),
        ("s is null", [LoggedPart(2, "null")]),
        ("s is not null", []),
        ("id = 5 or s = 'a'", [LoggedPart(1, "other"), LoggedPart(2, "other")]),
        ("id + 1 = 5", [LoggedPart(1, "other")]),
        ("not (id = 5)", [LoggedPart(1, "other")]),
        ("id = 5 and s = 'a'", [LoggedPart(1, "equal", (5,)), LoggedPart(2, "equal", ("a",))]),
        ("true", []),
    ],
)
def test_a_filter_is_taken_apart_by_columns(text: str, found: list[LoggedPart]) -> None:
    assert list(parts(text)) == found


def test_a_filter_of_two_engines_is_noted_once() -> None:
    bound = bind(parse("id >= 5 and id < 9"), SCHEMA)
    assert parts_of([bound, bound]) == (LoggedPart(1, "range", low=5, high=8),)


def test_records_come_back_from_their_lines() -> None:
    scan = LoggedScan(
        1,
        2,
        3,
        4,
        None,
        6,
        (
            LoggedPart(1, "in", (1, 2)),
            LoggedPart(2, "range", low="a", high="b"),
            LoggedPart(3, "other"),
        ),
    )
    assert scan_of(line_of(scan)) == scan
    raw = LoggedScan(
        1,
        2,
        3,
        4,
        5,
        6,
        (LoggedPart(4, "equal", (b"\xff\0",)), LoggedPart(3, "range", low=float("nan"))),
    )
    assert scan_of(line_of(raw)).parts == (
        LoggedPart(4, "equal", ("ff00",)),
        LoggedPart(3, "range"),
    )


def test_scans_note_their_columns_files_and_bytes(home: Catalog) -> None:
    t = filled(home)
    size = sum(f["file_size_in_bytes"] for f in t.inspect.files().to_pylist())
    t.scan("id = 15").to_arrow()
    t.scan().to_arrow()
    first, second = logged(t)
    assert (first.files, first.table_files, first.table_bytes) == (
        1,
        3,
        size,
    ) and 0 < first.bytes < size
    assert (
        first.parts == (LoggedPart(1, "equal", (15,)),)
        and first.snapshot_id == t.current_snapshot().snapshot_id
    )
    assert (second.files, second.bytes, second.parts) == (
        3,
        size,
        (),
    ) and second.time_ms >= first.time_ms


def test_a_count_notes_only_the_files_that_it_read(home: Catalog) -> None:
    t = filled(home)
    assert t.scan().count() == 30
    assert logged(t) == []
    assert t.scan("id < 15").count() == 15
    assert [s.files for s in logged(t)] == [1], "ten rows are counted by statistics"


def test_explain_and_reads_with_a_limit_note_nothing(home: Catalog) -> None:
    t = filled(home)
    t.scan("id = 15").explain()
    t.scan("id = 15", limit=1).to_arrow()
    assert logged(t) == [] and not log_folder(t).exists()


@pytest.mark.parametrize(
    "switch",
    [
        {},
        {"frazil.scan-log.enabled": "false"},
        {"FRAZIL_SCAN_LOG": "off"},
        {"FRAZIL_SCAN_LOG": "perhaps"},
    ],
)
def test_a_log_that_is_switched_off_writes_nothing(
    home: Catalog, switch: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in switch.keys() & {"FRAZIL_SCAN_LOG"}:
        monkeypatch.setenv(name, switch[name])
    t = filled(home, properties=ON if "FRAZIL_SCAN_LOG" in switch else switch)
    assert t.scan("id = 15").to_arrow().num_rows == 1 and t.scan("id < 15").count() == 15
    assert BUFFER._pending == [] == logged(t) and not log_folder(t).exists()


# --- what is never noted


def test_constants_of_columns_without_bounds_are_never_written(home: Catalog) -> None:
    for mode in ("none", "counts"):
        t = filled(home, f"t_{mode}", {**ON, "write.metadata.metrics.column.s": mode})
        t.scan("s = 'secret-of-somebody-1' and id > 3").to_arrow()
        assert logged(t)[0].parts == (LoggedPart(2, "equal"), LoggedPart(1, "range", low=4))
        assert all(b"secret" not in f.read_bytes() for f in log_folder(t).iterdir())


def test_texts_are_cut_as_bounds_are(home: Catalog) -> None:
    t = filled(home)
    t.scan("s = 'secret-of-somebody-1'").to_arrow()
    assert logged(t)[0].parts == (LoggedPart(2, "equal", ("secret-of-somebo",)),)
    t = filled(home, "full", {**ON, "write.metadata.metrics.default": "full"})
    t.scan(f"s = '{'x' * 500}'").to_arrow()
    assert logged(t)[0].parts == (LoggedPart(2, "equal", ("x" * 64,)),)


# --- the files


def test_the_log_is_bounded_and_the_oldest_files_go_first(
    home: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = filled(home)
    monkeypatch.setattr(files, "MOST_FILES", 4)
    for n in range(9):
        write_lines(
            t._loaded.storage, directory_of(t.metadata), [line_of(LoggedScan(n, 1, 1, 1, 1, 1))]
        )
        time.sleep(0.002)
    assert [s.time_ms for s in logged(t)] == [5, 6, 7, 8] and len(
        list(log_folder(t).iterdir())
    ) == 4


def test_many_records_go_into_several_files_of_bounded_size(home: Catalog) -> None:
    t = filled(home)
    lines = [
        line_of(LoggedScan(n, 1, 1, 1, 1, 1, (LoggedPart(2, "equal", ("x" * 50,)),)))
        for n in range(2000)
    ]
    write_lines(t._loaded.storage, directory_of(t.metadata), lines)
    assert (
        all(f.stat().st_size <= files.MOST_BYTES for f in log_folder(t).iterdir())
        and len(logged(t)) == 2000
    )


def test_damaged_records_are_ignored_with_a_warning(
    home: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    t = filled(home)
    t.scan("id = 15").to_arrow()
    (good,) = logged(t)
    (whole,) = log_folder(t).iterdir()
    line = whole.read_bytes()
    bad = [
        line[:40],
        b"",
        b"\xff\xfe\n",
        b"[1]\n",
        b"{}\n",
        b"[" * 5000,
        line.replace(b'"equal"', b'"what"'),
        json.dumps({"time_ms": "1"}).encode(),
    ]
    for n, content in enumerate(bad):
        (log_folder(t) / f"000000000000{n}-a.jsonl").write_bytes(content)
    (log_folder(t) / "9-huge.jsonl").write_bytes(line * 1000)
    (log_folder(t) / "notes.txt").write_text("of somebody else")
    with caplog.at_level(logging.WARNING, "frazil.scan"):
        assert logged(t) == [good]
    assert len(caplog.records) == 1 and "are ignored" in caplog.text
    assert t.maintenance.recommend().kinds == ()


def test_processes_that_write_at_the_same_time_lose_nothing(home: Catalog, tmp_path: Path) -> None:
    t = filled(home)
    code = """
import frazil
t = frazil.load_catalog().load_table("db.t")
for n in range(20): t.scan(f"id = {n}").plan()
"""
    env = {**os.environ, "FRAZIL_HOME": str(tmp_path / "home")}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=env, cwd=tmp_path) for _ in range(3)
    ]
    assert [p.wait(120) for p in started] == [0, 0, 0]
    assert sorted(s.parts[0].points[0] for s in logged(t)) == sorted(list(range(20)) * 3), (
        "also what a process noted just before its end"
    )


def test_threads_that_scan_while_the_log_is_written_lose_nothing(home: Catalog) -> None:
    t = filled(home)
    log = ScanLogBuffer(seconds=0.005)
    scan = LoggedScan(1, 1, 1, 1, 1, 1)

    def work() -> None:
        for _ in range(200):
            log.add(PendingScan(directory_of(t.metadata), t._loaded.storage, None, lambda: scan))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.flush()
    assert len(read_log(t.metadata, t._loaded.storage)) == 800


def test_the_background_writes_without_being_asked_and_ends_when_nothing_is_left(
    home: Catalog,
) -> None:
    t = filled(home)
    log = ScanLogBuffer(seconds=0.02)
    log.add(
        PendingScan(
            directory_of(t.metadata), t._loaded.storage, None, lambda: LoggedScan(1, 1, 1, 1, 1, 1)
        )
    )
    end = time.monotonic() + 20
    while log._thread is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert log._thread is None and len(read_log(t.metadata, t._loaded.storage)) == 1


def test_a_forked_process_does_not_write_what_its_parent_noted(home: Catalog) -> None:
    t = filled(home)
    t.scan("id = 15").plan()
    if (child := os.fork()) == 0:
        BUFFER.flush()
        os._exit(len(BUFFER._pending))
    assert os.waitpid(child, 0)[1] == 0
    assert len(logged(t)) == 1


def test_records_beyond_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_PENDING", 3)
    log: Any = ScanLogBuffer(seconds=60)
    log._thread = threading.current_thread()  # none is started
    for _ in range(9):
        log.add(PendingScan("d", None, None, lambda: LoggedScan(1, 1, 1, 1, 1, 1)))  # type: ignore[arg-type]
    assert len(log._pending) == 3


# --- readers never fail, and never wait


def test_a_store_that_cannot_be_written_costs_a_line_in_the_log(
    home: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    t = filled(home)
    refused = []

    def refuse(*_: Any, **__: Any) -> None:
        refused.append(1)
        raise StorageError("Read-only file system")

    monkeypatch.setattr(type(t._loaded.storage), "write", refuse)
    with caplog.at_level(logging.WARNING, "frazil.scan"):
        for _ in range(3):
            assert t.scan("id = 15").to_arrow().num_rows == 1
            BUFFER.flush()
    assert len(refused) == 1 == len(caplog.records) and "cannot be written" in caplog.text, (
        "and it is not tried again at once"
    )
    assert not log_folder(t).exists()


def test_a_property_that_is_no_boolean_fails_no_scan(
    home: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    t = filled(home)
    t.metadata.properties["frazil.scan-log.enabled"] = "sometimes"  # another engine's
    with caplog.at_level(logging.WARNING, "frazil.scan"):
        assert t.scan("id = 15").to_arrow().num_rows == 1
    assert "are not logged" in caplog.text and logged(t) == []


def test_noting_a_scan_takes_less_than_a_millisecond(home: Catalog) -> None:
    t = filled(home)
    plan = t.scan("id in (1, 2, 3) and s like 'a%'").plan()
    begun = time.process_time()  # however busy the machine is with other work
    for _ in range(500):
        log_plan(plan)
    assert (time.process_time() - begun) / 500 < 0.001 and len(logged(t)) == 501


# --- the table's other files


@pytest.mark.parametrize("kind", ["sql", "path"])
def test_clean_ups_leave_the_log_and_a_purge_removes_it(kind: str, tmp_path: Path) -> None:
    more = {"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {}
    catalog = frazil.load_catalog("c", type=kind, warehouse=str(tmp_path / "w"), **more)
    catalog.create_namespace("db")
    t = filled(
        catalog,
        properties={**ON, "write.metadata.path": str(tmp_path / "m")} if kind == "sql" else ON,
    )
    t.scan("id = 15").to_arrow()
    assert len(logged(t)) == 1
    found = t.maintenance.remove_orphan_files(
        older_than=int(time.time() * 1000) + 9_999, allow_short_interval=True
    )
    t.maintenance.expire_snapshots(older_than=int(time.time() * 1000))
    assert len(found) == 0 and len(logged(t)) == 1 and t.refresh().scan().count() == 30
    t.scan("id = 5").plan()
    assert catalog.purge_table("db.t") == ()
    BUFFER.flush()
    assert not log_folder(t).exists() or list(log_folder(t).iterdir()) == [], (
        "nor does what was noted before come back"
    )


def test_a_catalog_in_memory_keeps_a_log_too() -> None:
    catalog = frazil.load_catalog("m", type="memory")
    catalog.create_namespace("db")
    t = filled(catalog)
    t.scan("id = 15").to_arrow()
    assert len(logged(t)) == 1
