"""The state of partition commit: what is stored is read back, damage is told, and random histories
agree with a plain model.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import CorruptData
from frazil.stream.partitions.fields import Partition
from frazil.stream.partitions.state import Archive, Done, PartitionState, Pending, decode, encode
from frazil.stream.partitions.tracking import WrittenPartitions, with_done, with_written

TIMES = st.integers(0, 2**53)
PARTITIONS = st.builds(
    Partition,
    st.integers(0, 3),
    st.lists(st.none() | st.text(max_size=5), min_size=1, max_size=3).map(tuple),
)
STATES = st.builds(
    PartitionState,
    st.dictionaries(PARTITIONS, st.builds(Pending, TIMES, TIMES, st.integers(1, 9))),
    st.dictionaries(
        PARTITIONS,
        st.builds(
            Done,
            TIMES,
            st.none() | TIMES,
            st.none() | st.integers(1, 2**63),
            st.integers(1, 9),
            st.none() | TIMES,
        ),
    ),
    st.lists(
        st.builds(Archive, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)),
        max_size=2,
    ).map(tuple),
    st.none() | TIMES,
)


@given(STATES)
def test_every_state_that_is_stored_is_read_back(state):
    assert decode(json.loads(json.dumps(encode(state))), "here") == state


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"pending": [[0, ["a"], 1, 2]]},
        {"pending": [[0, "a", 1, 2, 1]]},
        {"pending": [[0, ["a"], "1", 2, 1]]},
        {"done": [[0, [1], 1, None, None, 1, None]]},
        {"done": {}, "archives": [["f", "a"]]},
        {"archives": None},
        {"watermark": "now"},
        {"pending": [[True, ["a"], 1, 2, 1]]},
    ],
)
def test_a_damaged_state_is_told_with_its_place(damage):
    with pytest.raises(CorruptData, match="table property x"):
        decode({**encode(PartitionState()), **damage}, "table property x")


NAMES = [Partition(0, (n,)) for n in "abc"]
STEPS = st.lists(
    st.tuples(st.just("write"), st.sets(st.sampled_from(NAMES), min_size=1))
    | st.tuples(st.just("judge"), st.sets(st.sampled_from(NAMES)))
    | st.tuples(st.just("mark"), st.none())
    | st.tuples(st.just("archive"), st.none()),
    max_size=30,
)


@given(STEPS)
def test_random_histories_of_writes_and_announcements_agree_with_a_plain_model(steps):
    """A partition is pending exactly when something was written since what its last announcement
    had judged.
    """
    state, archived = PartitionState(), {}
    unseen, times, judged = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0), {}
    for now, (step, names) in enumerate(steps):
        if step == "write":
            state = with_written(state, WrittenPartitions(frozenset(names)), archived.get, now)
            for n in names:
                unseen[n] += 1
        elif step == "judge":
            judged = {n: state.pending[n] for n in names if n in state.pending}
            seen = {n: unseen[n] for n in judged}
        elif step == "mark" and judged:
            state = with_done(state, judged, archived.get, now, 1, None)
            for n in judged:
                unseen[n] -= seen[n]
                times[n] += 1
            judged = {}
        elif step == "archive":
            archived |= dict(state.done)
            state = PartitionState(state.pending, {}, (), state.watermark_ms)
    for n in NAMES:
        record = state.done.get(n) or archived.get(n)
        assert (n in state.pending) == (unseen[n] > 0) and (
            state.pending[n].commits == unseen[n] if unseen[n] else True
        )
        assert (record.times if record else 0) == times[n]
        assert (record is not None and record.late_ms is not None) == (
            times[n] > 0 and unseen[n] > 0
        )


def test_an_announcement_that_another_process_has_made_meanwhile_is_not_counted_again():
    p = NAMES[0]
    state = with_written(PartitionState(), WrittenPartitions(frozenset([p])), {}.get, 1)
    judged = {p: state.pending[p]}
    once = with_done(state, judged, {}.get, 2, 7, 5)
    assert with_done(once, judged, {}.get, 3, 8, 6) == once and once.done[p] == Done(
        2, 5, 7, 1, None
    )


def test_data_that_came_after_two_processes_judged_stays_pending_when_both_have_announced():
    p = NAMES[0]
    state = with_written(PartitionState(), WrittenPartitions(frozenset([p])), {}.get, 1)
    judged = {p: state.pending[p]}
    more = with_written(state, WrittenPartitions(frozenset([p])), {}.get, 2)
    first = with_done(more, judged, {}.get, 3, 7, None)
    assert first.pending[p] == Pending(2, 2, 1) and first.done[p] == Done(3, None, 7, 1, 2)
    assert with_done(first, judged, {}.get, 4, 7, None) == first
