"""Streams whose position is lost: its snapshot has expired, or its branch was rolled back, replaced
or made anew.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest

from frazil.errors import NoSuchRefError, ValidationError
from frazil.scan.plan import clear_caches
from frazil.stream.source.source import Clock
from tests.stream.source.story import Story, as_stored, batches, drained, ids_of, rows_of

EARLIEST = {"starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
SCAN = {"starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
FILES = "streaming_max_files_per_micro_batch"
IN_PLACE = {"write.delete.mode": "merge-on-read"}  # deletes leave data files in place


# --- lost positions


def at_the_end(story: Story, **options: Any) -> dict[str, Any]:
    return as_stored(drained(story.source(**EARLIEST, **options))[1])


def expired(story: Story) -> dict[str, Any]:
    at = at_the_end(story)
    done = story.snapshot_of[-1]
    between = [story.do("a"), story.do("a")]
    story.do("a")
    story.expire(*story.snapshot_of[: story.snapshot_of.index(done)], done, *between[:1])
    return at


@pytest.fixture
def story() -> Story:
    return Story("aaa")


def test_a_position_that_expired_is_good_while_a_kept_snapshot_names_it_as_parent() -> None:
    story = Story("aa")
    at = at_the_end(story)
    last = story.do("a")
    story.expire(*story.snapshot_of[:2])
    assert drained(story.source(), at)[0] == story.rows_added(last) == story.ids(2)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", "01234"), ("latest", "")])
def test_after_an_expired_position_a_stream_goes_on_as_told(policy: str, expected: str) -> None:
    story = Story("aa")
    at = expired(story)
    with pytest.raises(ValidationError, match="expired or removed.*on-expired=earliest"):
        drained(story.source(on_rollback=policy), at)
    source = story.source(on_expired=policy)
    found, end = drained(source, at)
    assert sorted(found) == [i for k in expected for i in story.ids(int(k))]
    story.do("a")
    assert sorted(drained(story.source(), end)[0]) == story.ids(5)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", "0123"), ("latest", "")])
def test_an_expired_position_that_a_tag_keeps_is_not_taken_for_a_rollback(
    policy: str, expected: str
) -> None:
    story = Story("a")
    at = at_the_end(story)
    with story.table.manage_snapshots() as update:
        update.create_tag(story.snapshot_of[0], "kept")
    between = story.do("a")
    story.do("a")
    story.do("a")
    story.expire(between)
    with pytest.raises(
        ValidationError,
        match="is kept by another ref alone.*expired or removed.*on-expired=earliest",
    ):
        drained(story.source(on_rollback=policy), at)
    found, _ = drained(story.source(on_expired=policy), at)
    assert sorted(found) == [i for k in expected for i in story.ids(int(k))]


def test_a_snapshot_that_was_rolled_back_is_told_though_its_parent_has_expired(
    story: Story,
) -> None:
    at = at_the_end(story)
    with story.table.manage_snapshots() as update:
        update.create_tag(story.snapshot_of[2], "kept")
    story.roll_back(story.snapshot_of[1])
    story.do("a")
    story.expire(*story.snapshot_of[:2])
    with pytest.raises(ValidationError, match="rolled back or replaced.*on-rollback=earliest"):
        drained(story.source(on_expired="earliest"), at)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", "0"), ("latest", "")])
def test_after_a_rollback_a_stream_goes_on_as_told(
    policy: str, expected: str, story: Story
) -> None:
    at = at_the_end(story)
    story.roll_back(story.snapshot_of[0])
    with pytest.raises(
        ValidationError, match="no ancestor of the head of branch main.*on-rollback=earliest"
    ):
        drained(story.source(on_expired=policy), at)
    found, end = drained(story.source(on_rollback=policy), at)
    assert sorted(found) == [i for k in expected for i in story.ids(int(k))]
    story.do("a")
    assert sorted(drained(story.source(), end)[0]) == story.ids(3)


def test_a_batch_of_a_reset_is_planned_again_from_its_own_end(story: Story) -> None:
    at = at_the_end(story)
    story.roll_back(story.snapshot_of[1])
    end = as_stored(story.source(on_rollback="earliest").latest_offset(at))
    assert sorted(ids_of(story.source(on_rollback="earliest").plan(at, end))) == [0, 1, 10, 11]


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one() -> None:
    story, other = Story("aa"), Story("a")
    at = at_the_end(story)
    with pytest.raises(ValidationError, match="dropped and created again.*on-rollback=earliest"):
        drained(other.source(), at)
    with pytest.raises(ValidationError, match="dropped and created again"):
        other.source().plan(story.source().initial_offset(), at)
    assert sorted(drained(other.source(on_rollback="earliest"), at)[0]) == [0, 1]


def test_a_logged_batch_whose_end_is_gone_fails_or_is_left_out_as_told(story: Story) -> None:
    source = story.source(**EARLIEST, max_planning_snapshot_count=2)
    start = source.initial_offset()
    end = as_stored(source.latest_offset(start))
    story.expire(*story.snapshot_of[:2])
    with pytest.raises(ValidationError, match="on-expired=earliest"):
        story.source(**EARLIEST).plan(start, end)
    again = story.source(**EARLIEST, on_expired="earliest")
    assert ids_of(again.plan(start, end)) == []
    assert sorted(drained(again, end)[0]) == story.ids(2)


def test_a_table_that_gets_its_uuid_while_a_stream_runs_is_the_same_table() -> None:
    story = Story("aa")
    at = drained(story.source(**EARLIEST))[1]
    text = json.dumps(at)
    # as the offset of a v1 table that has none
    without = json.loads(text.replace(str(story.table.metadata.table_uuid), "None"))
    story.do("a")
    assert without != at and drained(story.source(**EARLIEST), without)[0] == story.ids(2)


def test_a_branch_that_is_gone_is_an_error() -> None:
    story = Story("aa")
    with story.table.manage_snapshots() as update:
        update.create_branch(story.snapshot_of[1], "b")
    source = story.source(**EARLIEST, branch="b")
    _, at = drained(source)
    with story.table.manage_snapshots() as update:
        update.remove_branch("b")
    with pytest.raises(NoSuchRefError, match="b"):
        drained(story.source(branch="b"), at)


# --- nothing that the kept snapshots hold stays unread with `earliest`


def expire_all_but(story: Story, kept: int) -> None:
    """Expire snapshots with their files."""
    time.sleep(0.003)
    story.table.maintenance.expire_snapshots(
        older_than=time.time_ns() // 1_000_000, retain_last=kept
    )
    clear_caches()
    story.table.refresh()


def live(story: Story) -> list[int]:
    return sorted(story.table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("order", [{}, {"order_by": "sequence"}])
@pytest.mark.parametrize("policy", ["fail", "earliest", "latest"])
def test_an_initial_scan_whose_snapshot_expires_between_two_pages_loses_its_rest_only_if_told_so(
    policy: str, order: dict[str, str]
) -> None:
    story = Story("aaaa", properties=IN_PLACE)
    story.table.delete("id = 21")
    source = story.source(**SCAN, **order, **{FILES: 3}, on_expired=policy, on_rollback="latest")
    at, plan = next(batches(source))
    first_page = ids_of(plan)
    assert at["phase"] == "scan" and len(first_page) == 3
    story.do("a")
    story.do("r")
    story.do("a")
    expire_all_but(story, 2)
    if policy == "fail":
        with pytest.raises(
            ValidationError,
            match="expired or removed.*initial scan, of which it had read 3 files.*on-expired=earliest.*lost",
        ):
            drained(source, at)
        return
    pages = list(batches(source, at))
    rows = [i for _, page in pages for i in ids_of(page)]
    assert all(page.files <= 3 for _, page in pages)
    if policy == "latest":
        assert rows == []
    else:
        assert (
            sorted(rows) == live(story)
            and 21 not in rows
            and 40 in rows
            and set(first_page) < set(rows)
        )
    story.do("a")
    assert drained(story.source(), pages[-1][0])[0] == story.ids(7)


@pytest.mark.parametrize("policy", ["fail", "earliest", "latest"])
def test_rows_of_appends_that_expired_between_two_batches_are_lost_only_if_told_so(
    policy: str,
) -> None:
    story = Story("aa", properties=IN_PLACE)
    at = at_the_end(story)
    story.do("a")
    story.table.delete("id = 20")
    story.do("a")
    story.do("a")
    expire_all_but(story, 2)
    source = story.source(on_expired=policy, **{FILES: 3})
    if policy == "fail":
        with pytest.raises(
            ValidationError,
            match="expired or removed.*rows may come twice.*rows that were not read are lost[)]",
        ):
            drained(source, at)
        return
    found, end = drained(source, at)
    assert sorted(found) == ([0, 1, 10, 11, 21, 30, 31, 40, 41] if policy == "earliest" else [])
    story.do("a")
    assert sorted(drained(story.source(), end)[0]) == story.ids(5)


def test_the_changes_of_a_stream_that_scans_again_are_inserts_and_are_counted_on() -> None:
    story = Story("aa", properties=IN_PLACE)
    at = at_the_end(story, on_non_append="changes")
    assert at["ordinal"] == 2
    story.do("a")
    story.table.delete("id = 20")
    story.do("a")
    expire_all_but(story, 1)
    story.do("a")
    found = [
        r
        for _, plan in batches(story.source(on_non_append="changes", on_expired="earliest"), at)
        for r in rows_of(plan)
    ]
    assert sorted((r["id"], r["_change_type"], r["_change_ordinal"]) for r in found) == [
        *((i, "INSERT", 2) for i in (0, 1, 10, 11, 21, 30, 31)),
        (40, "INSERT", 3),
        (41, "INSERT", 3),
    ]


def test_a_stream_from_an_empty_table_whose_first_snapshots_expired_scans_the_oldest_that_is_kept() -> (
    None
):
    story = Story()
    at = as_stored(story.source(**EARLIEST).latest_offset(story.source().initial_offset()))
    for _ in range(3):
        story.do("a")
    expire_all_but(story, 1)
    with pytest.raises(ValidationError, match="began on the empty table.*on-expired=earliest"):
        drained(story.source(), at)
    assert (
        sorted(drained(story.source(on_expired="earliest"), at)[0])
        == live(story)
        == [0, 1, 10, 11, 20, 21]
    )


def test_an_oldest_snapshot_that_is_no_append_is_scanned_and_not_refused() -> None:
    story = Story("aa")
    at = at_the_end(story)
    story.do("a")
    story.do("o")
    story.do("a")
    expire_all_but(story, 2)
    assert (
        sorted(drained(story.source(on_expired="earliest"), at)[0])
        == live(story)
        == [30, 31, 40, 41]
    )


@pytest.mark.parametrize(
    ("policy", "expected"), [("earliest", [0, 1, 10, 11, 20, 21, 30, 31]), ("latest", [])]
)
def test_a_logged_batch_whose_beginning_within_a_scan_expired_reads_all_that_is_kept_up_to_its_end(
    policy: str, expected: list[int], story: Story
) -> None:
    source = story.source(**SCAN, **{FILES: 4})
    start = as_stored(source.latest_offset(source.initial_offset()))
    story.do("a")
    end = as_stored(source.latest_offset(start))
    assert (start["phase"], end["phase"], end["snapshot_id"]) == (
        "scan",
        "after",
        story.snapshot_of[3],
    )
    story.do("a")
    story.expire(*story.snapshot_of[:3])
    with pytest.raises(ValidationError, match="on-expired=earliest"):
        story.source(**SCAN).plan(start, end)
    again = story.source(**SCAN, on_expired=policy)
    assert sorted(ids_of(again.plan(start, end))) == expected
    assert drained(again, end)[0] == story.ids(4)


def test_a_running_stream_that_finds_the_files_of_its_page_gone_loads_the_table_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story, waits = Story("aaaa"), list[float]()
    source = story.source(
        Clock(wait=waits.append), **SCAN, **{FILES: 3}, on_expired="earliest", monitor_interval="1h"
    )
    start = as_stored(source.latest_offset(source.initial_offset()))
    end = as_stored(source.latest_offset(start))
    story.do("r")
    expire_all_but(story, 1)
    loads = story.loads
    with caplog.at_level(logging.WARNING, "frazil"):
        assert ids_of(source.plan(start, end)) == []
        assert len(waits) == 1 and story.loads > loads, "planning failed once, for want of a file"
        assert (
            sorted(drained(source, end)[0])
            == live(story)
            == [i for k in range(4) for i in story.ids(k)]
        )
    assert (
        f"scans snapshot {story.snapshot_of[-1]}, the oldest that is kept" in caplog.text
        and "rows may come twice" in caplog.text
    )


def test_after_a_rollback_earliest_scans_what_the_lost_line_may_not_have_read() -> None:
    """The snapshots before the oldest that is kept were read on the line that was rolled back, as
    long as that line is known.
    """

    def read_again(*expired_too: int, **start: Any) -> list[int]:
        story = Story("aaa")
        story.expire(story.snapshot_of[0])
        source = story.source(**(start or EARLIEST))
        at = next(batches(source))[0] if start else drained(source)[1]
        story.roll_back(story.snapshot_of[1])
        story.expire(*(story.snapshot_of[n] for n in expired_too))
        return sorted(drained(story.source(on_rollback="earliest", on_expired="earliest"), at)[0])

    assert read_again() == [10, 11], "the rows of the expired first append were read or passed over"
    assert read_again(2) == [0, 1, 10, 11], "nothing is known of the line that was read"
    assert read_again(**SCAN, **{FILES: 2}) == [0, 1, 10, 11], "the scan was not at its end"
