"""Files after an operation whose tasks were tried more than once: those that its result names, and
no others.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from frazil.errors import CommitStateUnknownException
from frazil.storage.memory import MemoryStorage
from frazil.tasks.attempts import Attempts, attempts_of, removing_files_on_error
from frazil.testing import FlakyRunner


class CountingStorage:
    """A store in memory that counts how often it was listed."""

    def __init__(self):
        self.inner, self.listed = MemoryStorage(), 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def list(self, location):
        self.listed += 1
        return self.inner.list(location)


@dataclass
class Write:
    """An operation on a table of its own."""

    storage: CountingStorage = field(default_factory=CountingStorage)
    location: str = "memory://lake/t"
    properties: dict = field(default_factory=dict)
    operation_id: str = "op-1"

    def file(self, name):
        location = f"{self.location}/data/{name}.parquet"
        self.storage.write(location, b"rows")
        return location

    def files(self):
        return sorted(
            f.location.rpartition("/")[2].partition(".")[0]
            for f in self.storage.list(f"{self.location}/data")
        )


@pytest.fixture
def write():
    found = Write()
    found.storage.delete_tree(found.location)
    return found


def test_files_that_no_result_names_go_when_a_task_was_tried_again_and_files_of_others_stay(write):
    kept, _, other = write.file("1-7-op-1"), write.file("1-6-op-1"), write.file("1-6-op-2")
    Attempts(write, retried=True).remove_unreported([kept])
    assert write.files() == ["1-6-op-2", "1-7-op-1"] and other.endswith("op-2.parquet")


def test_the_folder_is_not_listed_when_every_task_was_tried_once(write):
    write.file("1-6-op-1")
    Attempts(write).remove_unreported([])
    assert write.storage.listed == 0 and write.files() == ["1-6-op-1"]


def test_an_error_removes_every_file_of_the_operation_and_comes_out(write):
    with pytest.raises(ZeroDivisionError), Attempts(write).removing_files_on_error():
        write.file("1-6-op-1")
        write.file("1-6-op-2")
        print(1 / 0)
    assert write.files() == ["1-6-op-2"]


def test_a_copy_that_ends_late_is_removed_as_long_as_one_may_come(write):
    kept = write.file("0-1-op-1")
    settled = []

    def write_late():  # after the first look at the folder
        while not write.storage.listed:
            time.sleep(0.005)
        write.file("0-2-op-1")

    late = threading.Thread(target=write_late)

    def settle():
        settled.append(True)
        late.start()
        return 1.2

    Attempts(write, speculates=True, settle=settle).remove_unreported([kept])
    late.join()
    assert settled == [True] and write.files() == ["0-1-op-1"]


def test_the_attempts_of_a_runner_are_what_it_says_when_they_are_asked_for(write):
    runner = FlakyRunner(repeat=[0])
    assert not attempts_of(write, runner).retried
    assert list(runner.run(abs, [-1, -2])) == [1, 2]
    assert attempts_of(write, runner).retried and runner.fired == [("repeat", 0)]


@pytest.mark.parametrize(
    ("error", "commits", "left"),
    [
        (ZeroDivisionError(), False, ["1-6-op-2"]),
        (KeyboardInterrupt(), False, ["1-6-op-2"]),
        (CommitStateUnknownException("?"), False, ["1-6-op-2"]),
        (ZeroDivisionError(), True, ["1-6-op-2"]),
        (KeyboardInterrupt(), True, ["1-6-op-1", "1-6-op-2"]),
        (CommitStateUnknownException("?"), True, ["1-6-op-1", "1-6-op-2"]),
    ],
)
def test_an_error_in_a_block_that_commits_keeps_the_files_that_the_table_may_refer_to(
    write, error, commits, left
):
    with pytest.raises(type(error)), removing_files_on_error(write, FlakyRunner(), commits=commits):
        write.file("1-6-op-1")
        write.file("1-6-op-2")
        raise error
    assert write.files() == left
