"""Progress of maintenance procedures: callbacks, log lines, and a bar in terminals and notebooks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.maintain import progress as shown_by
from frazil.maintain.progress import progress
from frazil.table.table import Table
from tests.builders.catalogs import catalog_of


def test_a_callback_gets_every_step() -> None:
    steps: list[tuple[int, int | None, str]] = []
    with progress(3, "files", lambda *step: steps.append(step)) as shown:
        shown.advance()
        shown.advance(2)
    assert steps == [(1, 3, "files"), (3, 3, "files")]


def test_a_callback_that_fails_does_not_stop_the_work(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def fails(done: int, total: int | None, what: str) -> None:
        calls.append(done)
        raise RuntimeError("no")

    with progress(None, "files", fails) as shown:
        shown.advance()
        shown.advance()
    assert calls == [1] and shown.done == 2
    assert [r.message for r in caplog.records] == [
        "The progress callback failed, and is not called again"
    ]


def test_work_that_takes_long_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_by, "_QUIET_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "frazil.maintain"), progress(2000, "files", None) as shown:
        shown.advance(1000)
        shown.advance(1000)  # within the seconds between two lines
    assert [r.message.split(" after ")[0] for r in caplog.records] == [
        "files: 1,000 of 2,000",
        "files: 2,000 of 2,000",
    ]


def test_work_that_is_done_at_once_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "frazil.maintain"), progress(1, "files", None) as shown:
        shown.advance()
    assert caplog.records == []


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Bar:
        seen: list[Any] = []

        def start(self) -> None:
            self.seen.append("start")

        def stop(self) -> None:
            self.seen.append("stop")

        def add_task(self, what: str, total: int | None, completed: int) -> int:
            self.seen.append((what, total, completed))
            return 7

        def update(self, task: int, completed: int) -> None:
            self.seen.append((task, completed))

    monkeypatch.setattr(shown_by, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(shown_by, "_bar", Bar)
    with caplog.at_level(logging.INFO, "frazil.maintain"), progress(5, "files", None) as shown:
        shown.advance(2)
        shown.advance(3)
    assert Bar.seen == ["start", ("files", 5, 2), (7, 5), "stop"] and caplog.records == []


def test_the_bar_is_drawn_by_rich_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_by._bar() is None  # pytest captures the output
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert type(shown_by._bar()).__module__ == "rich.progress"


def test_a_terminal_without_rich_gets_a_line_that_is_cleared_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shown_by, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with progress(5, "files read", None) as shown:
        shown.advance(2)
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress(5, "files read", None) as shown:
        shown.advance(2)
        shown.advance(3)
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines == ["", "files read: 2 of 5", "files read: 5 of 5", ""]


def test_procedures_over_files_that_are_there_show_their_progress(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for n in range(3):
        pq.write_table(pa.table({"id": [n]}), folder / f"{n}.parquet")
    catalog = catalog_of("sql", tmp_path)
    steps: list[tuple[int, int | None, str]] = []

    def told(*step: Any) -> None:
        steps.append(step)

    def taken() -> list[tuple[int, int | None, str]]:
        found, steps[:] = list(steps), []
        return found

    footers = [(n, 3, "footers read") for n in (1, 2, 3)]
    catalog.snapshot(str(folder), "db.copy", progress=told)
    assert taken() == footers
    t = catalog.create_table("db.t", "id bigint")
    t.maintenance.add_files(str(folder), dry_run=True, progress=told)
    assert taken() == footers
    catalog.add_files("db.t", str(folder), progress=told)
    assert taken() == footers
    t.refresh().maintenance.rewrite_table_path(str(tmp_path), "/elsewhere", progress=told)
    # manifest, list, two versions of the metadata
    assert taken() == [(n, 4, "files staged") for n in (1, 2, 3, 4)]
    t.maintenance.rewrite_table_path(str(tmp_path), "/elsewhere", dry_run=True, progress=told)
    assert taken() == [(1, 1, "manifests read")]
    for n in range(5):
        t.append(pa.table({"id": [10 + n]}))
    assert [s.outcome for s in t.maintenance.auto(progress=told).steps] == ["done"]
    done, total, noun = taken()[-1]
    assert done == total and noun == "bytes rewritten"
    catalog.migrate(str(folder), "db.taken", progress=told)
    assert taken() == footers


def test_procedures_that_move_branches_call_back_too(tmp_path: Path) -> None:
    t = catalog_of("sql", tmp_path).create_table("db.t", "id bigint")
    first, second = (t.append(pa.table({"id": [n]})).snapshot_id for n in range(2))
    steps: list[Any] = []
    m = t.maintenance
    m.ancestors_of(progress=lambda *step: steps.append(step))
    m.rollback_to_snapshot(first, dry_run=True, progress=lambda *step: steps.append(step))
    m.rollback_to_snapshot(first, progress=lambda *step: steps.append(step))
    m.set_current_snapshot(second, progress=lambda *step: steps.append(step))
    m.fast_forward("b", "main", progress=lambda *step: steps.append(step))
    assert steps == [(2, None, "snapshots listed"), *[(1, 1, "branches moved")] * 4]


def told_by_compaction(t: Table, rewritten: int, **arguments: Any) -> list[int]:
    """The bytes told as they are read; they grow, up to those of all files."""
    sizes = t.inspect.data_files()["file_size_in_bytes"].to_pylist()
    steps: list[tuple[int, int | None, str]] = []
    done = t.maintenance.rewrite_data_files(
        progress=lambda *step: steps.append(step), runner="in-process", **arguments
    )
    assert (done.rewritten_data_files_count, done.groups) == (rewritten, 1)
    assert {step[1:] for step in steps} == {(sum(sizes), "bytes rewritten")}
    told = [step[0] for step in steps]
    assert told == sorted(set(told)) and told[-1] == sum(sizes)
    return told


ORDERS = pytest.mark.parametrize(
    "arguments", [{"sort_order": "id"}, {"sort_order": "zorder(id, n)"}, {}]
)


@ORDERS
def test_one_large_group_tells_of_each_of_its_files(
    tmp_path: Path, arguments: dict[str, str]
) -> None:
    t = catalog_of("sql", tmp_path).create_table("db.t", "id bigint, n bigint")
    for n in range(12):
        t.append(pa.table({"id": range(12 - n, 1000, 12), "n": range(12 - n, 1000, 12)}))
    told = told_by_compaction(t, 12, options={"rewrite-all": "true"}, **arguments)
    assert len(told) == 12


@ORDERS
def test_one_large_file_tells_of_its_parts_as_they_are_read(
    tmp_path: Path, arguments: dict[str, str]
) -> None:
    """Also of a file that several tasks read, each a part, and with deletes, which are no rows."""
    t = catalog_of("sql", tmp_path).create_table(
        "db.t",
        "id bigint, n bigint",
        properties={"write.parquet.row-group-limit": "50000", "write.delete.mode": "merge-on-read"},
    )
    t.append(pa.table({"id": range(700_000), "n": range(700_000)}))
    t.delete("id < 1000")
    assert len(told_by_compaction(t, 1, options={"rewrite-all": "true"}, **arguments)) >= 5
    size = t.refresh().inspect.data_files()["file_size_in_bytes"][0].as_py()
    parts = {"rewrite-all": "true", "target-file-size-bytes": str(size // 3)}
    assert len(told_by_compaction(t, 1, options=parts, **arguments)) >= 4
    assert t.refresh().count() == 699_000
