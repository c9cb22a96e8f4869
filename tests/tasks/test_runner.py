"""The runner of this process: order kept, every group its own place, a lone large file read by all
cores.
"""

import threading
import time
from concurrent.futures import CancelledError

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.read import read_tasks as read
from frazil.rows import change
from frazil.tasks.runner import InProcess, Place, current_place, place
from tests.builders.files_on_disk import files_below


def test_results_come_in_the_order_of_the_groups_and_places_are_never_twice_the_same():
    def work(n):
        return n, current_place(), threading.get_ident()

    found = [*InProcess(3).run(work, range(20)), *InProcess(3).run(work, range(2))]
    assert [n for n, *_ in found] == [*range(20), 0, 1]
    places = [(p.partition, p.task) for _, p, _ in found]
    assert len(set(places)) == 22 and [p for p, _ in places[:20]] == list(range(20))
    assert {p.share for _, p, _ in found[:20]} == {3} and found[-1][1].share == 2
    assert current_place() == Place()


def test_an_error_of_a_group_comes_out_and_a_lone_group_has_all_threads():
    with pytest.raises(ZeroDivisionError):
        list(InProcess(2).run(lambda n: 1 // n, [1, 0, 2]))
    assert next(InProcess(4).run(lambda _: current_place(), [0])).workers == 4
    assert list(InProcess(4).run(len, [])) == []
    with place(Place(7, 8)):
        assert current_place().partition == 7


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_large_file_read_by_several_threads_is_changed_as_by_one(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(read, "SPLIT_BYTES", 1000)
    catalog = frazil.load_catalog(f"runner_{mode}", type="path", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    found = []
    for workers in (1, 4):
        t = catalog.create_table(
            f"db.t{workers}",
            "id long, v long",
            properties={"write.parquet.row-group-size-bytes": "4096"},
        )
        t.append(pa.table({"id": range(5000), "v": [0] * 5000}))
        t.delete("id % 11 = 5", mode=mode, runner=InProcess(workers))
        t.update({"v": "id"}, "id % 7 = 3", mode=mode, runner=InProcess(workers))
        found.append(t.to_arrow())
    assert found[0].equals(found[1]) and found[0].num_rows == 5000 - 455


def test_tasks_whose_results_are_not_wanted_any_more_end_at_their_next_batch():
    begun, ended = threading.Event(), []

    def work(n):
        if n == 0:
            begun.wait(10)
            raise ZeroDivisionError
        here = current_place()
        begun.set()
        try:
            for _ in range(1000):
                here.go_on()
                time.sleep(0.01)
        except CancelledError:
            ended.append(n)
            raise

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        list(InProcess(2).run(work, [0, 1]))
    assert ended == [1] and time.monotonic() - started < 5
    current_place().go_on()


def test_a_change_that_fails_in_one_file_ends_in_the_others_and_leaves_nothing(
    tmp_path, monkeypatch
):
    catalog = frazil.load_catalog("runner_stop", type="path", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    # a group for each file
    t = catalog.create_table("db.t", "id long", properties={"read.split.target-size": str(4 << 20)})
    for first in (0, 1000):
        t.append(pa.table({"id": range(first, first + 1000)}))
    before, seen = files_below(tmp_path), []
    real = change.rewritten

    def rewritten(task, *rest):
        number = current_place().partition
        if number == 1:
            raise ZeroDivisionError
        for batch in real(task, *rest):
            current_place().stopped.wait(10)
            seen.append(number)
            yield batch
        seen.append("the end")

    monkeypatch.setattr(change, "rewritten", rewritten)
    with pytest.raises(ZeroDivisionError):
        t.delete("id % 10 = 1", mode="copy-on-write", runner=InProcess(2))
    assert seen == [0] and files_below(tmp_path) == before and t.refresh().scan().count() == 2000
