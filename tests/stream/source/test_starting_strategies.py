"""Where a stream starts: each strategy on each kind of history, as Flink's table of strategies says
(docs/streams.md).
"""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInput, NoSuchRefError, NoSuchSnapshotError, ValidationError
from frazil.stream.source.offset import parse_offset
from tests.stream.source.story import Story, batches, drained, ids_of

SCAN, LATEST, EXCLUSIVE, EARLIEST = (
    "TABLE_SCAN_THEN_INCREMENTAL", "INCREMENTAL_FROM_LATEST_SNAPSHOT", "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
)  # fmt: skip
BY_ID, BY_TIME = "INCREMENTAL_FROM_SNAPSHOT_ID", "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"

# ops of the history, strategy -> numbers of the ops whose rows come at first (Story); what is
# appended later always comes
CASES = [
    ("", {SCAN: "", LATEST: "", EXCLUSIVE: "", EARLIEST: ""}),
    ("a", {SCAN: "0", LATEST: "0", EXCLUSIVE: "", EARLIEST: "0"}),
    ("aaa", {SCAN: "012", LATEST: "2", EXCLUSIVE: "", EARLIEST: "012"}),
    ("aao", {SCAN: "2", LATEST: "", EXCLUSIVE: "", EARLIEST: "01"}),
    ("aaoa", {SCAN: "23", LATEST: "3", EXCLUSIVE: "", EARLIEST: "013"}),
    ("aad", {SCAN: "0", LATEST: "", EXCLUSIVE: "", EARLIEST: "01"}),
    ("aada", {SCAN: "03", LATEST: "3", EXCLUSIVE: "", EARLIEST: "013"}),
    ("aar", {SCAN: "01", LATEST: "", EXCLUSIVE: "", EARLIEST: "01"}),
    ("aara", {SCAN: "013", LATEST: "3", EXCLUSIVE: "", EARLIEST: "013"}),
]  # fmt: skip


def of_ops(story: Story, numbers: str) -> list[int]:
    return [i for k in numbers for i in story.ids(int(k))]


@pytest.fixture
def story() -> Story:
    return Story("aaa")


@pytest.mark.parametrize(
    ("ops", "strategy", "first"), [(ops, s, first) for ops, by in CASES for s, first in by.items()]
)
def test_a_strategy_starts_where_flink_starts(ops: str, strategy: str, first: str) -> None:
    story = Story(ops)
    source = story.source(starting_strategy=strategy, on_non_append="skip")
    found, at = drained(source)
    assert sorted(found) == of_ops(story, first)
    later = story.do("a"), story.do("a")
    found, end = drained(source, at)
    assert found == [*story.rows_added(later[0]), *story.rows_added(later[1])]
    assert drained(source, end)[0] == []


@pytest.mark.parametrize("strategy", [LATEST, EXCLUSIVE, EARLIEST, SCAN])
def test_a_stream_over_an_empty_table_reads_all_that_comes_whatever_the_strategy(
    strategy: str,
) -> None:
    story = Story()
    source = story.source(starting_strategy=strategy)
    found, at = drained(source)
    assert found == []
    for _ in range(3):
        story.do("a")
    assert drained(source, at)[0] == of_ops(story, "012")


@pytest.mark.parametrize("strategy", [LATEST, EXCLUSIVE, EARLIEST, SCAN])
def test_after_a_rollback_a_new_stream_starts_on_what_is_left(strategy: str, story: Story) -> None:
    story.roll_back(story.snapshot_of[1])
    first = {LATEST: "1", EXCLUSIVE: "", EARLIEST: "01", SCAN: "01"}[strategy]
    assert sorted(drained(story.source(starting_strategy=strategy))[0]) == of_ops(story, first)


@pytest.mark.parametrize("strategy", [LATEST, EXCLUSIVE, EARLIEST, SCAN])
def test_expired_snapshots_are_not_read_but_their_rows_are_in_a_scan(strategy: str) -> None:
    story = Story("aaaa")
    story.expire(*story.snapshot_of[:2])
    first = {LATEST: "3", EXCLUSIVE: "", EARLIEST: "23", SCAN: "0123"}[strategy]
    assert sorted(drained(story.source(starting_strategy=strategy))[0]) == of_ops(story, first)


@pytest.mark.parametrize("strategy", [LATEST, EXCLUSIVE, EARLIEST, SCAN, BY_ID, BY_TIME])
def test_start_and_increments_are_of_the_branch(strategy: str) -> None:
    """Flink takes the start from main and the increments from the branch."""
    story = Story("aa")
    with story.table.manage_snapshots() as update:
        update.create_branch(story.snapshot_of[1], "audit")
    story.do("a")
    of_branch = story.do("a", branch="audit")
    moment = story.table.metadata.snapshot_by_id(of_branch).timestamp_ms
    more = {
        BY_ID: {"start_snapshot_id": of_branch},
        BY_TIME: {"start_snapshot_timestamp": moment},
    }.get(strategy, {})
    source = story.source(starting_strategy=strategy, branch="audit", **more)
    first = {LATEST: "3", EXCLUSIVE: "", EARLIEST: "013", SCAN: "013", BY_ID: "3", BY_TIME: "3"}[
        strategy
    ]
    found, at = drained(source)
    assert sorted(found) == of_ops(story, first)
    story.do("a")
    assert drained(source, at)[0] == []
    last = story.do("a", branch="audit")
    assert drained(source, at)[0] == story.rows_added(last)


def test_a_snapshot_id_is_inclusive_and_must_be_an_ancestor_of_the_branch(story: Story) -> None:
    found, _ = drained(
        story.source(starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[1])
    )
    assert sorted(found) == of_ops(story, "12")
    with pytest.raises(NoSuchSnapshotError, match="Start snapshot id not found in history: 7 "):
        drained(story.source(starting_strategy=BY_ID, start_snapshot_id=7))
    story.roll_back(story.snapshot_of[0])
    with pytest.raises(NoSuchSnapshotError, match="not found in history"):
        drained(story.source(starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[1]))
    with pytest.raises(NoSuchSnapshotError, match="not found in history"):
        drained(Story().source(starting_strategy=BY_ID, start_snapshot_id=7))


def test_a_tag_is_a_name_of_its_snapshot(story: Story) -> None:
    with story.table.manage_snapshots() as update:
        update.create_tag(story.snapshot_of[1], "v1").create_branch(story.snapshot_of[1], "b")
    assert sorted(drained(story.source(starting_strategy=BY_ID, start_tag="v1"))[0]) == of_ops(
        story, "12"
    )
    with pytest.raises(NoSuchRefError, match="v2"):
        drained(story.source(starting_strategy=BY_ID, start_tag="v2"))
    with pytest.raises(InvalidInput, match="is a branch"):
        drained(story.source(starting_strategy=BY_ID, start_tag="b"))
    with pytest.raises(NoSuchRefError, match="nowhere"):
        drained(story.source(branch="nowhere"))


def timed(story: Story) -> list[int]:
    """Times of the snapshots, all different."""
    times = [story.table.metadata.snapshot_by_id(i).timestamp_ms for i in story.snapshot_of]
    assert len(set(times)) == len(times)
    return times


def test_a_time_starts_at_the_first_snapshot_from_then_on(story: Story) -> None:
    times = timed(story)
    for moment, first in (
        (times[1], "12"),
        (times[0] + 1, "12"),
        (times[0] - 10_000, "012"),
        (times[2], "2"),
    ):
        assert sorted(
            drained(story.source(starting_strategy=BY_TIME, start_snapshot_timestamp=moment))[0]
        ) == of_ops(story, first), moment
    with pytest.raises(NoSuchSnapshotError, match=f"Cannot find a snapshot after: {times[2] + 1}"):
        drained(story.source(starting_strategy=BY_TIME, start_snapshot_timestamp=times[2] + 1))
    with pytest.raises(NoSuchSnapshotError, match="Cannot find a snapshot after"):
        drained(Story().source(starting_strategy=BY_TIME, start_snapshot_timestamp=1))


def test_a_time_before_what_is_known_of_the_history_is_an_error_in_flinks_words_and_the_oldest_snapshot_in_javas(
    story: Story,
) -> None:
    times = timed(story)
    story.expire(story.snapshot_of[0])
    with pytest.raises(NoSuchSnapshotError, match="has expired"):
        drained(story.source(starting_strategy=BY_TIME, start_snapshot_timestamp=times[0]))
    assert sorted(drained(story.source(stream_from_timestamp=times[0]))[0]) == of_ops(story, "12")


def test_javas_time_in_the_future_waits_for_it() -> None:
    story = Story("aa")
    moment = timed(story)[1] + 1
    source = story.source(stream_from_timestamp=moment)
    assert source.latest_offset(source.initial_offset()) == source.initial_offset()
    story.do("a")
    found, _ = drained(source)
    assert found and min(found) // 10 >= 2


def test_javas_options_start_at_the_oldest_snapshot_and_flinks_at_the_newest(story: Story) -> None:
    assert sorted(drained(story.source(streaming_max_rows_per_micro_batch=1000))[0]) == of_ops(
        story, "2"
    ), "monitor-interval is Flink's"
    source = Story("aaa").source
    found = [
        i
        for _, plan in batches(
            source(streaming_max_files_per_micro_batch=5, starting_strategy=EARLIEST)
        )
        for i in ids_of(plan)
    ]
    assert sorted(found) == of_ops(story, "012")


def test_the_resolved_start_is_in_the_end_of_the_first_batch() -> None:
    """A first batch that fails is planned again from the constant first offset: it must read the
    same rows, whatever was committed.
    """
    story = Story("aa")
    source = story.source(starting_strategy=LATEST)
    start = source.initial_offset()
    end = source.latest_offset(start)
    story.do("a")
    again = story.source(starting_strategy=LATEST)
    assert again.initial_offset() == start
    assert ids_of(again.plan(start, end)) == of_ops(story, "1")
    began = parse_offset(end)
    assert (
        began is not None
        and began.began is not None
        and began.began.snapshot_id == story.snapshot_of[1]
    )


def test_a_stream_that_starts_at_a_snapshot_which_is_no_append_says_so() -> None:
    story = Story("ao")
    with pytest.raises(
        ValidationError, match=f"overwrite snapshot: {story.snapshot_of[1]}.*on-non-append=changes"
    ):
        drained(story.source(starting_strategy=BY_ID, start_snapshot_id=story.snapshot_of[1]))
