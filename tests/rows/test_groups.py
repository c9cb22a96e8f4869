"""Groups of files: every slot has work, groups are as near to the split size as whole files allow,
partitions stay together.
"""

from types import SimpleNamespace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.rows.groups import grouped, in_few_groups
from frazil.scan.options import SplitOptions

MB = 1 << 20


def task(size, partition=()):
    return SimpleNamespace(size_bytes=size, spec=SimpleNamespace(spec_id=0), partition=partition)


def test_eight_files_on_two_slots_make_four_groups():
    assert [len(g) for g in grouped([task(41 * MB)] * 8, 2, SplitOptions())] == [2, 2, 2, 2]


def test_small_files_go_together():
    assert len(grouped([task(MB)] * 4, 8, SplitOptions())) == 1
    # 64 times the cost of opening a file
    assert len(grouped([task(1)] * 64, 1, SplitOptions())) == 2


def test_many_small_files_make_few_groups_where_a_stream_changes_them_again_and_again():
    few = in_few_groups(SplitOptions())
    assert (
        len(grouped([task(MB // 8)] * 64, 2, SplitOptions())) == 4
        and len(grouped([task(MB // 8)] * 64, 2, few)) == 1
    )
    assert [len(g) for g in grouped([task(41 * MB)] * 8, 2, few)] == [2, 2, 2, 2], (
        "large files are spread as ever"
    )
    assert len(grouped([task(1)] * 640, 2, few)) == 4, "and so are very many"
    assert in_few_groups(SplitOptions(open_file_cost=1)).open_file_cost == 1


def test_files_of_a_partition_lie_in_neighbouring_groups():
    found = grouped([task(100 * MB, (i % 3,)) for i in range(9)], 1, SplitOptions())
    assert [t.partition[0] for g in found for t in g] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@settings(deadline=None)
@given(st.lists(st.integers(0, 600 * MB), max_size=60), st.integers(1, 64))
@example([0, 130_023_425, 0], 1)
def test_every_file_is_in_one_group_and_of_several_less_than_half_a_file_is_beyond_the_split_size(
    sizes, slots
):
    tasks = [task(s) for s in sizes]
    found = grouped(tasks, slots, SplitOptions())
    assert sorted(map(id, (t for g in found for t in g))) == sorted(map(id, tasks))
    for group in found:
        *before, last = (max(t.size_bytes, 4 * MB) for t in group)
        assert not before or sum(before) + last / 2 < 128 * MB
