"""The runner for tests does what it says: repeats, kills, reorders, and proves it."""

import pytest

from frazil.testing import FlakyRunner, TaskKilled


def test_groups_are_worked_on_in_another_order_and_results_come_in_theirs():
    seen = []
    runner = FlakyRunner(seed=1, workers=1)
    assert list(runner.run(lambda n: seen.append(n) or n * 2, range(6))) == [0, 2, 4, 6, 8, 10]
    assert seen != sorted(seen) == list(range(6)) and {fault for fault, _ in runner.fired} == {
        "reorder"
    }


def test_a_group_that_is_repeated_is_worked_on_twice_and_one_that_is_killed_has_done_its_work():
    seen = []
    runner = FlakyRunner(repeat=[2], kill=[1], workers=1)
    with pytest.raises(TaskKilled, match="group 1"):
        list(runner.run(seen.append, range(3)))
    assert seen.count(2) == 1 and 1 in seen  # the repeated group's first try, then groups 0 and 1
    assert runner.fired == [("repeat", 2), ("kill", 1)] and runner.repeats
