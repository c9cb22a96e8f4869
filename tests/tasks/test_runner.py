"""The runner of this process: order kept, every group its own place, a lone large file read by all cores."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import frazil
from frazil.arrow.read import read_tasks as read
from frazil.tasks.runner import InProcess, Place, current_place, place


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
        t = catalog.create_table(f"db.t{workers}", "id long, v long", properties={"write.parquet.row-group-size-bytes": "4096"})
        t.append(pa.table({"id": range(5000), "v": [0] * 5000}))
        t.delete("id % 11 = 5", mode=mode, runner=InProcess(workers))
        t.update({"v": "id"}, "id % 7 = 3", mode=mode, runner=InProcess(workers))
        found.append(t.to_arrow())
    assert found[0].equals(found[1]) and found[0].num_rows == 5000 - 455
