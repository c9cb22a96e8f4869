"""The queue for commits to one table: whose turn it is, and that nobody who hangs, dies or forks
holds the others up.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.commit.actions import Action, MetadataChange, RewriteFiles
from frazil.commit.context import Context
from frazil.commit.queue import turn
from frazil.commit.table_commit import CommitOutcome, commit
from frazil.errors import CommitFailedException, ValidationException
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import SetProperties, Update
from frazil.testing import FlakyBackend
from tests.builders.data_files import data_file
from tests.commit.support import (
    append,
    backend_of,
    do,
    live,
    make_table,
    name_in,
    nothing_left_over,
    stored,
)
from tests.forked import Child, started

KINDS = pytest.mark.parametrize("kind", ["memory", "path", "sqlite"])
SHARED = pytest.mark.parametrize("kind", ["path", "sqlite"])
MOMENT = 30.0  # seconds in which things happen that happen soon, on a machine that has much to do


def table_of(kind: str, place: Path) -> LoadedTable:
    backend = backend_of(kind, place)
    return backend.load(name_in(backend))


@pytest.fixture
def backend(kind: str, tmp_path: Path) -> CatalogBackend:
    return backend_of(kind, tmp_path)


@pytest.fixture
def table(backend: CatalogBackend) -> LoadedTable:
    return make_table(backend)


@dataclass(frozen=True)
class Told:
    """An action that tells when it is applied: a commit that waits does so before it has its turn."""

    action: Action
    applied: threading.Event

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        self.applied.set()
        return self.action.apply(metadata, context)


def with_properties(backend: CatalogBackend, **values: str) -> LoadedTable:
    """`num_retries="0"` is commit.retry.num-retries."""
    named = {f"commit.retry.{name.replace('_', '-')}": value for name, value in values.items()}
    return do(backend, MetadataChange(lambda _: [SetProperties(named)])).table


def holds_the_turn(kind: str, place: Path) -> None:
    with turn(table_of(kind, place)):
        (place / "holds").touch()
        time.sleep(600)


def forks_in_its_turn(kind: str, place: Path) -> None:
    """Ends at once; what it forked lives on."""
    with turn(table_of(kind, place)):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        (place / "forked").write_text(str(child))
        (place / "holds").touch()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)


def holder(kind: str, place: Path) -> Child:
    child = started(holds_the_turn, kind, place, place=place)
    wait_until(place / "holds", child)
    return child


def wait_until(file: Path, child: Child) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline and child.wait(0) is None, child.problems()
        time.sleep(0.01)


def turn_comes(table: LoadedTable, patience: float = 2 * MOMENT) -> tuple[bool, float]:
    """Whether others were first, and the seconds that it took."""
    begun = time.monotonic()
    with turn(table, patience) as others:
        return others, time.monotonic() - begun


@KINDS
def test_threads_have_their_turn_one_by_one_in_the_order_in_which_they_came(
    table: LoadedTable,
) -> None:
    order: list[int] = []
    inside, came = threading.Semaphore(), threading.Semaphore(0)

    def writer(number: int) -> None:
        with turn(table, MOMENT, came.release) as others:
            assert others and inside.acquire(blocking=False)
            order.append(number)
            inside.release()

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(8)]
    with turn(table) as others:
        assert not others
        for thread in threads:
            thread.start()
            assert came.acquire(timeout=MOMENT)
    for thread in threads:
        thread.join(MOMENT)
    assert order == list(range(8))


@KINDS
def test_a_thread_that_has_its_turn_gets_another_one_at_once(table: LoadedTable) -> None:
    with turn(table), turn(table, MOMENT) as others:
        assert not others
    assert turn_comes(table)[0] is False


def test_tables_do_not_wait_for_each_other(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = (make_table(backend_of("path", tmp_path / name)) for name in "ab")
    with turn(one):
        thread = threading.Thread(target=lambda: turn_comes(other))
        thread.start()
        thread.join(MOMENT)
        assert not thread.is_alive()


@KINDS
def test_a_thread_that_hangs_in_its_turn_is_passed_by(table: LoadedTable) -> None:
    has, ends = threading.Event(), threading.Event()

    def hangs() -> None:
        with turn(table):
            has.set()
            ends.wait(MOMENT)

    thread = threading.Thread(target=hangs)
    thread.start()
    assert has.wait(MOMENT)
    others, seconds = turn_comes(table, 0.2)
    assert others and 0.2 <= seconds < MOMENT / 2 and thread.is_alive()
    assert turn_comes(table, 0.0)[1] < MOMENT / 2, "no patience at all is possible, too"
    ends.set()
    thread.join(MOMENT)
    assert turn_comes(table)[0] is False, "nobody is left in the queue"


@KINDS
def test_who_is_interrupted_while_waiting_leaves_the_queue(table: LoadedTable) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def waits() -> None:
        with pytest.raises(KeyboardInterrupt), turn(table, MOMENT, interrupted):
            pytest.fail("it has no turn")

    with turn(table):
        thread = threading.Thread(target=waits)
        thread.start()
        thread.join(MOMENT)
    assert turn_comes(table)[0] is False


@SHARED
@pytest.mark.disk
def test_processes_wait_for_each_other_and_the_place_of_a_killed_one_is_free_at_once(
    kind: str, table: LoadedTable, tmp_path: Path
) -> None:
    child = holder(kind, tmp_path)
    waits = threading.Event()

    def kill() -> None:
        waits.wait(MOMENT)
        child.process.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with turn(table, 10 * MOMENT, waits.set) as others:
        assert others and waits.is_set()
    thread.join(MOMENT)
    assert child.wait(MOMENT) == -signal.SIGKILL
    assert turn_comes(table)[0] is False


def takes_turns(kind: str, place: Path, number: int) -> None:
    """Take a dozen turns, one at once after the other, and tell when each began."""
    table = table_of(kind, place)
    (place / f"ready-{number}").touch()
    while len(list(place.glob("ready-*"))) < 2:
        time.sleep(0.005)
    for _ in range(12):
        with turn(table):
            print(time.monotonic())
            time.sleep(0.05)


@SHARED
def test_processes_that_come_again_at_once_let_each_other_in(
    kind: str, table: LoadedTable, tmp_path: Path
) -> None:
    children = [started(takes_turns, kind, tmp_path, n, place=tmp_path) for n in range(2)]
    assert [child.wait(60) for child in children] == [0, 0], [c.problems() for c in children]
    began = [(float(t), n) for n, child in enumerate(children) for t in child.printed().split()]
    order = [n for _, n in sorted(began)]
    assert sum(a != b for a, b in itertools.pairwise(order)) >= 16, order


@SHARED
@pytest.mark.disk
def test_a_process_that_is_stopped_in_its_turn_is_passed_by_and_loses_nothing(
    kind: str, table: LoadedTable, tmp_path: Path
) -> None:
    child = holder(kind, tmp_path)
    assert child.process.pid is not None
    os.kill(child.process.pid, signal.SIGSTOP)
    try:
        others, seconds = turn_comes(table, 0.2)
        assert others and 0.2 <= seconds < MOMENT
        impatient = replace(table.metadata, properties={"commit.retry.max-wait-ms": "200"})
        done = commit(backend_of(kind, tmp_path), replace(table, metadata=impatient), [append(1)])
        assert live(done.table) == ["1"] and done.attempts == 1
    finally:
        child.process.kill()


@SHARED
@pytest.mark.disk
def test_what_a_process_forked_in_its_turn_holds_nobody_up_when_it_is_dead(
    kind: str, table: LoadedTable, tmp_path: Path
) -> None:
    child = started(forks_in_its_turn, kind, tmp_path, place=tmp_path)
    wait_until(tmp_path / "holds", child)
    forked = int((tmp_path / "forked").read_text())
    try:
        assert child.wait(MOMENT) == -signal.SIGKILL
        os.kill(forked, 0)
        assert turn_comes(table)[0] is False
    finally:
        os.kill(forked, signal.SIGKILL)


@KINDS
def test_who_waited_begins_from_the_state_that_others_left(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    """With one attempt, and so also where none may be repeated; the manifest of its file is written
    while it waits.
    """
    base = with_properties(backend, num_retries="0")
    waits = threading.Event()
    outcomes: list[CommitOutcome] = []

    def behind() -> None:
        outcomes.append(do(backend, Told(append(9), waits), base=base))

    with turn(base):
        thread = threading.Thread(target=behind)
        thread.start()
        assert waits.wait(MOMENT)
        do(backend, append(1)), do(backend, append(2))
    thread.join(MOMENT)
    (done,) = outcomes
    assert (
        done.attempts == 1 and live(done.table) == ["1", "2", "9"] and nothing_left_over(done.table)
    )


@KINDS
def test_what_speaks_against_a_commit_that_waits_is_told_when_its_turn_has_come(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    before, errors = stored(table), list[Exception]()
    gone, waits = RewriteFiles(removed=[data_file(1)], added=[data_file(2)]), threading.Event()

    def behind() -> None:
        try:
            do(backend, append(9), Told(gone, waits), base=table)
        except ValidationException as e:
            errors.append(e)

    with turn(table):
        thread = threading.Thread(target=behind)
        thread.start()
        assert waits.wait(MOMENT)
    thread.join(MOMENT)
    assert "Missing required files" in str(errors) and stored(table) == before, (
        "the manifest written meanwhile is taken back"
    )


@KINDS
def test_no_retries_means_none(backend: CatalogBackend, table: LoadedTable) -> None:
    base = with_properties(backend, num_retries="0")
    do(backend, append(1))
    with pytest.raises(CommitFailedException, match="after 1 attempts"):
        do(backend, append(2), base=base)


@KINDS
def test_pauses_follow_what_an_attempt_takes_and_the_properties_bound_them(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    def pauses(**limits: str) -> list[float]:
        base, slept = with_properties(backend, **limits), list[float]()
        flaky = FlakyBackend(backend, ["conflict"] * 9, before_swap=lambda turn: time.sleep(0.05))
        with pytest.raises(CommitFailedException, match="after 5 attempts"):
            commit(flaky, base, [append(1)], sleep=slept.append)
        return slept

    free = pauses(min_wait_ms="600000", max_wait_ms="600000")
    assert len(free) == 3, "the first retry begins at once: what was loaded is old, as a rule"
    assert all(0.05 * 4**n <= seconds for n, seconds in enumerate(free)) and sum(free) < MOMENT, (
        "far below what the properties allow"
    )
    assert pauses(min_wait_ms="3", max_wait_ms="8") == [0.006, 0.008, 0.008]
    assert pauses(min_wait_ms="0", max_wait_ms="8") == [0.0, 0.0, 0.0]


@KINDS
def test_pauses_are_not_cut_to_what_is_too_short_for_a_slow_store(
    backend: CatalogBackend, table: LoadedTable
) -> None:
    slept = list[float]()
    flaky = FlakyBackend(backend, ["conflict"] * 9, before_swap=lambda turn: time.sleep(0.15))
    with pytest.raises(CommitFailedException, match="after 5 attempts"):
        commit(flaky, table, [append(1)], sleep=slept.append)
    assert len(slept) == 3 and all(0.15 * 4**n <= seconds for n, seconds in enumerate(slept)), (
        "the default of min-wait-ms is no bound"
    )


# The lock file
# ------------------------------------------------------------------------------------------------------------------------


def in_a_bucket(kind: str, place: Path) -> LoadedTable:
    """A table that does not lie on a local disk, as far as the queue can see."""
    table = table_of(kind, place)
    metadata = replace(table.metadata, location="s3://bucket/t")
    return replace(
        table, metadata=metadata, metadata_location="s3://bucket/t/metadata/v1.metadata.json"
    )


def holds_the_turn_of_a_table_in_a_bucket(kind: str, place: Path) -> None:
    with turn(in_a_bucket(kind, place)):
        (place / "holds").touch()
        time.sleep(600)


@pytest.mark.disk
def test_processes_wait_for_each_other_wherever_the_table_lies(tmp_path: Path) -> None:
    make_table(backend_of("path", tmp_path))
    child = started(holds_the_turn_of_a_table_in_a_bucket, "path", tmp_path, place=tmp_path)
    wait_until(tmp_path / "holds", child)
    try:
        others, seconds = turn_comes(in_a_bucket("path", tmp_path), 0.3)
        assert others and 0.3 <= seconds < MOMENT
    finally:
        child.process.kill()
    child.wait(MOMENT)
    assert turn_comes(in_a_bucket("path", tmp_path))[0] is False


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_however_many_tables_there_are_one_empty_file_is_left(
    temporary: Path, tmp_path: Path
) -> None:
    table = make_table(backend_of("memory", tmp_path))
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with turn(replace(table, metadata=replace(table.metadata, table_uuid=str(uuid.uuid4())))):
            (lock,) = [f for f in temporary.rglob("*") if f.is_file()]
            assert (
                lock.stat().st_mode & 0o777 == 0o600 and lock.parent.stat().st_mode & 0o777 == 0o700
            )
    assert lock.stat().st_size == 0 and len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.parametrize("trap", ["link", "file", "writable", "link to a file"])
def test_what_others_have_prepared_in_the_temporary_folder_is_not_used(
    trap: str, temporary: Path, tmp_path: Path
) -> None:
    table, name = make_table(backend_of("memory", tmp_path)), temporary / f"frazil-{os.geteuid()}"
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    match trap:
        case "link":
            name.symlink_to(theirs)
        case "file":
            name.write_text("theirs")
        case "writable":
            name.mkdir()
            name.chmod(0o777)
        case _:
            name.mkdir(0o700)
            (name / "commits.lock").symlink_to(theirs / "lock")
    with turn(table) as others:
        assert not others
    assert list(theirs.iterdir()) == [] and not (name / "commits.lock").is_file()
    assert not name.is_file() or name.read_text() == "theirs"


def test_without_a_temporary_folder_the_commit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(backend_of("memory", tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with turn(table) as others:
        assert not others
