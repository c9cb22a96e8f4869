"""A query that is started again from its checkpoint with other options, and queries that read one
table beside each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import InvalidInput, ValidationError
from tests.stream.source.story import Story, batches, drained, ids_of, rows_of

EARLIEST = {"starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
SCAN = {"starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
FILES = "streaming_max_files_per_micro_batch"


def first(story: Story, **options: Any) -> tuple[list[int], dict[str, Any]]:
    """Read one batch; return its ids and its end, which is in the checkpoint."""
    end, plan = next(batches(story.source(**options)))
    return ids_of(plan), end


@pytest.mark.parametrize("begun", [EARLIEST, SCAN])
@pytest.mark.parametrize(
    "later",
    [
        {"starting_strategy": "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE"},
        {"stream_from_timestamp": 1},
        {FILES: 5},
        {},
        {"streaming_max_bytes_per_micro_batch": 1},
        {"max_planning_snapshot_count": 1},
        {"split_size": 100},
        {"order_by": "sequence"},
    ],
)
def test_no_row_is_lost_or_doubled_when_strategy_limits_or_order_change(
    begun: dict[str, Any], later: dict[str, Any]
) -> None:
    story = Story("aaa")
    read, at = first(story, **begun, **{FILES: 3})
    story.do("a")
    assert sorted(read + drained(story.source(**later), at)[0]) == sorted(
        i for k in range(4) for i in story.ids(k)
    )


def test_columns_and_filters_that_change_hold_for_the_batches_that_follow() -> None:
    story = Story("aaa")
    _, at = first(story, **EARLIEST, **{FILES: 2})
    source = story.source(row_filter="p = 1", selected_fields=["id"])
    assert [row for _, plan in batches(source, at) for row in rows_of(plan)] == [
        {"id": 11},
        {"id": 21},
    ]


def test_another_policy_goes_on_behind_the_snapshot_that_stopped_the_query() -> None:
    story = Story("aoa")
    read, at = first(story, **EARLIEST)
    with pytest.raises(ValidationError, match="on-non-append"):
        drained(story.source(), at)
    assert read == [0, 1] and drained(story.source(on_non_append="skip"), at)[0] == [20, 21]
    changed = [
        (row["_change_type"], row["id"])
        for _, plan in batches(story.source(on_non_append="changes"), at)
        for row in rows_of(plan)
    ]
    assert sorted(changed) == [
        ("DELETE", 0),
        ("DELETE", 1),
        *(("INSERT", i) for i in (10, 11, 20, 21)),
    ]


def test_another_branch_is_told_apart_from_the_one_that_was_read() -> None:
    story = Story("a")
    story.table.manage_snapshots().create_branch(story.snapshot_of[0], "b").commit()
    story.do("a")
    _, at = drained(story.source(**EARLIEST))
    story.do("a", branch="b")
    with pytest.raises(
        ValidationError, match=r"no ancestor of the head of branch b(.|\n)*on-rollback"
    ):
        drained(story.source(branch="b"), at)
    assert drained(story.source(branch="b", on_rollback="earliest"), at)[0] == [0, 1, 20, 21]


def test_the_order_of_an_initial_scan_may_not_change_amid_it() -> None:
    story = Story("aaa", columns="id bigint, p int")
    _, at = first(story, **SCAN, watermark_column="id", **{FILES: 2})
    with pytest.raises(InvalidInput, match="Restore watermark-column"):
        drained(story.source(), at)
    assert len(drained(story.source(watermark_column="id"), at)[0]) == 4


def test_queries_on_one_table_do_not_see_each_other() -> None:
    story = Story("aa")
    one, other = story.source(**EARLIEST, **{FILES: 1}), story.source(**SCAN, **{FILES: 3})
    found: tuple[list[int], list[int]] = ([], [])
    for n, (_, plan) in enumerate(batches(one)):
        found[0].extend(ids_of(plan))
        if n == 1:
            story.do("a")
            found[1].extend(drained(other)[0])
    assert sorted(found[0]) == sorted(found[1]) == [0, 1, 10, 11, 20, 21]


def test_a_batch_that_is_planned_ahead_of_the_one_before_it_reads_the_same_rows() -> None:
    story = Story("aaaa")
    source = story.source(**SCAN, **{FILES: 3})
    at, ends = source.initial_offset(), []
    for _ in range(3):  # Spark asks for the next end before the batch before it is read
        ends.append((at, source.latest_offset(at)))
        at = ends[-1][1]
    assert sorted(i for start, end in ends for i in ids_of(source.plan(start, end))) == sorted(
        i for k in range(4) for i in story.ids(k)
    )
