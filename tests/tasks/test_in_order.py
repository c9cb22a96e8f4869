"""Work in parallel: order, bounded memory, errors where they belong, and no thread left behind."""

import subprocess
import sys
import threading
import time

import pytest

from frazil.tasks.in_order import InOrder, map_in_order


def in_order(units, produce, workers=3, budget=10**9):
    return InOrder(units, produce, workers=workers, budget=budget, size=lambda r: 1)


def test_results_come_in_the_order_of_units():
    def produce(unit):
        time.sleep((7 - unit % 7) / 2000)
        yield from (unit * 10, unit * 10 + 1)

    assert list(in_order(range(60), produce)) == [u * 10 + i for u in range(60) for i in range(2)]


def test_no_more_results_wait_than_the_budget_allows():
    made, most, taken = 0, 0, 0
    lock = threading.Lock()

    def produce(unit):
        nonlocal made, most
        for i in range(50):
            with lock:
                made += 1
                most = max(most, made - taken)
            yield unit * 50 + i

    for n, found in enumerate(in_order(range(20), produce, budget=5)):
        taken += 1
        assert found == n
        if n % 100 == 0:
            time.sleep(0.002)
    assert most <= 5 + 2 * 3 + 1


def test_an_error_comes_after_the_results_before_it():
    def produce(unit):
        yield unit
        if unit == 3:
            raise ValueError("three")

    found = []
    with pytest.raises(ValueError, match="three"):
        for result in in_order(range(10), produce):
            found.append(result)
    assert found == [0, 1, 2, 3]


def test_an_error_of_the_units_themselves_is_raised_too():
    def units():
        yield 1
        raise ValueError("no more units")

    with pytest.raises(ValueError, match="no more units"):
        list(in_order(units(), lambda u: iter([u])))


def test_a_reader_that_is_dropped_stops_its_threads():
    before = threading.active_count()
    results = iter(in_order(range(1000), lambda u: iter([u] * 100), budget=3))
    assert next(results) == 0
    results.close()
    assert threading.active_count() == before


def test_the_interpreter_ends_although_a_reader_was_not_read_to_its_end():
    code = "from frazil.tasks.in_order import InOrder; r = iter(InOrder(range(99), lambda u: iter([u] * 9), workers=2, budget=1, size=lambda r: 1)); print(next(r))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_map_keeps_order_and_passes_errors_on():
    assert list(map_in_order(lambda n: n * n, range(100), 3)) == [n * n for n in range(100)]
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda n: 1 // (n - 5), range(100), 3))
